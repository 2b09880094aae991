/* Fds: files of a list, open while they are used and a while longer, a bounded number at a time. */
#include "ckpt/fds.h"

#include <sys/resource.h>
#include <unistd.h>

#define OPEN_MOST 200 /* files; a process may have 1,024 */
#define SHARE     4   /* of a lower limit: tables of a source, a target and a check, and the rest of the program */

typedef struct opened {
    int fd;        /* -1: closed */
    int users;     /* threads that have it now */
    uint64_t last; /* use, by the clock, which counts uses */
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

/* Closes what was not used for longest and nobody has; false: there is none. */
static bool close_one(rshi_fds *f) {
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
    bool closed = close_one(f);
    pthread_mutex_unlock(&f->lock);
    return closed;
}

static rsh_status open_file(rshi_fds *f, int64_t i) {
    bool none_left = false;
    rsh_status st;
    if (f->nopen >= f->most) close_one(f);
    do {
        f->file[i].fd = -1;
        st = f->open(f->ctx, i, &f->file[i].fd, &none_left);
    } while (st && none_left && close_one(f));
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
