/* Reading: bytes of a checkpoint's files by range, from any thread, with a bounded number of files open.
 *
 * A file is opened when it is first read, and then has the size and time that it had when its header was read. */
#include "ckpt/ckpt.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define OPEN_MOST 200 /* files; a process may have 1,024 */

typedef struct opened {
    int fd;         /* -1: closed */
    int users;      /* threads that read it now */
    uint64_t last;  /* use; the clock counts uses */
} opened;

struct rshi_ckpt_reading {
    pthread_mutex_t lock;
    opened *file; /* owned; one per file */
    int64_t nopen;
    uint64_t clock;
};

rsh_status rshi_reading_open(rsh_ckpt *c) {
    struct rshi_ckpt_reading *r = RSHI_NEW(struct rshi_ckpt_reading);
    if (!r) return rshi_nomem();
    r->file = rshi_alloc((size_t)c->nfiles, sizeof *r->file);
    if (!r->file) return rshi_free(r), rshi_nomem();
    for (int64_t i = 0; i < c->nfiles; i++) r->file[i] = (opened){.fd = -1};
    pthread_mutex_init(&r->lock, NULL);
    c->reading = r;
    return RSH_OK;
}

void rshi_reading_close(rsh_ckpt *c) {
    struct rshi_ckpt_reading *r = c->reading;
    if (!r) return;
    for (int64_t i = 0; i < c->nfiles; i++)
        if (r->file[i].fd >= 0) close(r->file[i].fd);
    pthread_mutex_destroy(&r->lock);
    rshi_free(r->file);
    rshi_free(r);
    c->reading = NULL;
}

rsh_status rshi_ckpt_unchanged(const rshi_ckpt_file *f, int fd) {
    struct stat s;
    int failed = fd < 0 ? stat(f->path, &s) : fstat(fd, &s);
    RSH_REQUIRE(!failed, RSH_EIO, "%s: %s", f->path, strerror(errno));
    RSH_REQUIRE((uint64_t)s.st_size == f->size && rshi_mtime(&s) == f->mtime, RSH_EIO,
                "%s: the file changed while it was read: it had %" PRIu64 " bytes, now it has %" PRIu64
                ", or another time of change", f->path, f->size, (uint64_t)s.st_size);
    return RSH_OK;
}

/* Close what was not used for longest and is not in use. */
static void close_one(const rsh_ckpt *c) {
    struct rshi_ckpt_reading *r = c->reading;
    int64_t oldest = -1;
    for (int64_t i = 0; i < c->nfiles; i++)
        if (r->file[i].fd >= 0 && !r->file[i].users && (oldest < 0 || r->file[i].last < r->file[oldest].last))
            oldest = i;
    if (oldest < 0) return;
    close(r->file[oldest].fd);
    r->file[oldest].fd = -1;
    r->nopen--;
}

/* With the lock held. */
static rsh_status open_file(const rsh_ckpt *c, int32_t file) {
    struct rshi_ckpt_reading *r = c->reading;
    if (r->nopen >= OPEN_MOST) close_one(c);
    int fd = open(c->file[file].path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    RSH_REQUIRE(fd >= 0, RSH_EIO, "%s: %s", c->file[file].path, strerror(errno));
    rsh_status st = rshi_ckpt_unchanged(&c->file[file], fd);
    if (st) return close(fd), st;
    posix_fadvise(fd, 0, 0, POSIX_FADV_SEQUENTIAL);
    r->file[file].fd = fd;
    r->nopen++;
    return RSH_OK;
}

static rsh_status take(const rsh_ckpt *c, int32_t file, int *fd) {
    struct rshi_ckpt_reading *r = c->reading;
    pthread_mutex_lock(&r->lock);
    rsh_status st = r->file[file].fd < 0 ? open_file(c, file) : RSH_OK;
    if (!st) {
        *fd = r->file[file].fd;
        r->file[file].users++;
        r->file[file].last = ++r->clock;
    }
    pthread_mutex_unlock(&r->lock);
    return st;
}

static void give(const rsh_ckpt *c, int32_t file) {
    pthread_mutex_lock(&c->reading->lock);
    c->reading->file[file].users--;
    pthread_mutex_unlock(&c->reading->lock);
}

static rsh_status read_fully(int fd, const char *path, uint64_t at, char *to, size_t n) {
    while (n) {
        ssize_t got = pread(fd, to, n, (off_t)at);
        if (got < 0 && errno == EINTR) continue;
        RSH_REQUIRE(got >= 0, RSH_EIO, "%s: byte %" PRIu64 ": %s", path, at, strerror(errno));
        RSH_REQUIRE(got > 0, RSH_EIO, "%s: the file changed while it was read: it ends at byte %" PRIu64, path, at);
        to += got;
        at += (uint64_t)got;
        n -= (size_t)got;
    }
    return RSH_OK;
}

rsh_status rshi_ckpt_pread(const rsh_ckpt *c, int32_t file, uint64_t at, void *to, size_t n) {
    int fd;
    RSH_TRY(take(c, file, &fd));
    rsh_status st = read_fully(fd, c->file[file].path, at, to, n);
    give(c, file);
    return st;
}
