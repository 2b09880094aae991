/* fds: a cache of open file descriptors. */
#ifndef RESHARD_CKPT_FDS_H
#define RESHARD_CKPT_FDS_H

#include <pthread.h>

#include "base/base.h"

/* Opens file i.  *none_left is set if the process has no descriptor left. */
typedef rsh_status rshi_fds_open_fn(void *ctx, int64_t i, int *fd, bool *none_left);

typedef struct rshi_fds {
    pthread_mutex_t lock;
    struct opened *file; /* owned; n of them */
    int64_t n, nopen, most;
    uint64_t clock;
    rshi_fds_open_fn *open;
    void *ctx;
} rshi_fds;

rsh_status rshi_fds_init(rshi_fds *f, int64_t n, rshi_fds_open_fn *open, void *ctx);
/* Closes all files.  No-op if *f is all zero. */
void rshi_fds_free(rshi_fds *f);
/* Opens file i if necessary; it stays open until rshi_fds_give.  From any thread. */
rsh_status rshi_fds_take(rshi_fds *f, int64_t i, int *fd);
void rshi_fds_give(rshi_fds *f, int64_t i);
/* Closes a file that no thread uses; false: there is none. */
bool rshi_fds_release(rshi_fds *f);

#endif
