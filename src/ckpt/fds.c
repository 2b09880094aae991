/* Fds: a cache of open file descriptors with a bounded size.  It closes the least recently used file. */
#include "ckpt/fds.h"

#include <sys/resource.h>
#include <unistd.h>

#define OPEN_MOST 200 /* most open files; the usual limit of a process is 1,024 */
#define SHARE     4   /* if the limit is low, each cache takes a quarter: source, target, verification, the program */

typedef struct opened {
    int fd;        /* -1: closed */
    int users;     /* number of threads that use the file now */
    uint64_t last; /* value of rshi_fds.clock at the last use; the clock counts uses */
} opened;

static int64_t most_open(void) {
    struct rlimit r;
    if (getrlimit(RLIMIT_NOFILE, &r) || r.rlim_cur / SHARE >= OPEN_MOST) return OPEN_MOST;
    return rshi_max(1, (int64_t)(r.rlim_cur / SHARE));
}

rsh_status rshi_fds_init(rshi_fds *f, int64_t n, rshi_fds_open_fn *open, void *ctx) {
    *f = (rshi_fds){.n = n, .most = most_open(), .open = open, .ctx = ctx};
    f->file = rshi_alloc((size_t)n, sizeof *f->file);
    if (!f->file) return rshi_nomem();
    for (int64_t i = 0; i < n; i++) f->file[i] = (opened){.fd = -1};
    pthread_mutex_init(&f->lock, NULL);
    return RSH_OK;
}

void rshi_fds_free(rshi_fds *f) {
    if (!f->file) return;
    for (int64_t i = 0; i < f->n; i++)
        if (f->file[i].fd >= 0) close(f->file[i].fd);
    pthread_mutex_destroy(&f->lock);
    rshi_free(f->file);
    f->file = NULL;
}

/* Closes the least recently used file that no thread uses; returns false if there is none. */
static bool close_oldest(rshi_fds *f) {
    int64_t oldest = -1;
    for (int64_t i = 0; i < f->n; i++)
        if (f->file[i].fd >= 0 && !f->file[i].users && (oldest < 0 || f->file[i].last < f->file[oldest].last))
            oldest = i;
    if (oldest < 0) return false;
    close(f->file[oldest].fd);
    f->file[oldest].fd = -1;
    f->nopen--;
    return true;
}

bool rshi_fds_release(rshi_fds *f) {
    pthread_mutex_lock(&f->lock);
    bool closed = close_oldest(f);
    pthread_mutex_unlock(&f->lock);
    return closed;
}

static rsh_status open_file(rshi_fds *f, int64_t i) {
    bool none_left = false;
    rsh_status st;
    if (f->nopen >= f->most) close_oldest(f);
    do {
        f->file[i].fd = -1;
        st = f->open(f->ctx, i, &f->file[i].fd, &none_left);
    } while (st && none_left && close_oldest(f));
    f->nopen += !st;
    return st;
}

rsh_status rshi_fds_take(rshi_fds *f, int64_t i, int *fd) {
    pthread_mutex_lock(&f->lock);
    rsh_status st = f->file[i].fd < 0 ? open_file(f, i) : RSH_OK;
    if (!st) {
        *fd = f->file[i].fd;
        f->file[i].users++;
        f->file[i].last = ++f->clock;
    }
    pthread_mutex_unlock(&f->lock);
    return st;
}

void rshi_fds_give(rshi_fds *f, int64_t i) {
    pthread_mutex_lock(&f->lock);
    f->file[i].users--;
    pthread_mutex_unlock(&f->lock);
}
