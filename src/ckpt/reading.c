/* Reading: reads byte ranges of a checkpoint's files from any thread.
 *
 * A file is opened on first use; it must have the same size and modification time as when its header was read. */
#include "ckpt/ckpt.h"
#include "ckpt/fds.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct rshi_ckpt_reading {
    rshi_fds fds;
};

rsh_status rshi_ckpt_unchanged(const rshi_ckpt_file *f, int fd) {
    struct stat s;
    int failed = fd < 0 ? stat(f->path, &s) : fstat(fd, &s);
    if (failed) return rshi_io_fail(f->path);
    RSH_REQUIRE((uint64_t)s.st_size == f->size && rshi_mtime(&s) == f->mtime, RSH_EIO,
                "%s: the file was changed while it was read (%" PRIu64 " bytes before, %" PRIu64
                " bytes now); wait until it is complete and try again",
                f->path, f->size, (uint64_t)s.st_size);
    return RSH_OK;
}

static rsh_status open_file(void *ctx, int64_t i, int *out, bool *none_left) {
    const rsh_ckpt *c = ctx;
    int fd = open(c->file[i].path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    *none_left = fd < 0 && (errno == EMFILE || errno == ENFILE);
    if (fd < 0) return rshi_io_fail(c->file[i].path);
    rsh_status st = rshi_ckpt_unchanged(&c->file[i], fd);
    if (st) return close(fd), st;
    posix_fadvise(fd, 0, 0, POSIX_FADV_SEQUENTIAL);
    *out = fd;
    return RSH_OK;
}

rsh_status rshi_reading_open(rsh_ckpt *c) {
    struct rshi_ckpt_reading *r = RSHI_NEW(struct rshi_ckpt_reading);
    if (!r) return rshi_nomem();
    rsh_status st = rshi_fds_init(&r->fds, c->nfiles, open_file, c);
    if (st)
        rshi_free(r);
    else
        c->reading = r;
    return st;
}

void rshi_reading_close(rsh_ckpt *c) {
    if (!c->reading) return;
    rshi_fds_free(&c->reading->fds);
    rshi_free(c->reading);
    c->reading = NULL;
}

bool rshi_reading_release(const rsh_ckpt *c) { return c->reading && rshi_fds_release(&c->reading->fds); }

rsh_status rshi_read_fully(int fd, const char *path, uint64_t at, void *to, size_t n) {
    for (char *p = to; n;) {
        ssize_t got = pread(fd, p, n, (off_t)at);
        if (got < 0 && errno == EINTR) continue;
        RSH_REQUIRE(got >= 0, RSH_EIO, "%s: byte %" PRIu64 ": %s", path, at, strerror(errno));
        RSH_REQUIRE(got > 0, RSH_EIO, "%s: unexpected end of file at byte %" PRIu64 "; the file is truncated", path,
                    at);
        p += got;
        at += (uint64_t)got;
        n -= (size_t)got;
    }
    return RSH_OK;
}

rsh_status rshi_ckpt_pread(const rsh_ckpt *c, int32_t file, uint64_t at, void *to, size_t n) {
    int fd;
    RSH_TRY(rshi_fds_take(&c->reading->fds, file, &fd));
    rsh_status st = rshi_read_fully(fd, c->file[file].path, at, to, n);
    rshi_fds_give(&c->reading->fds, file);
    return st;
}

/* Copies bytes inside the kernel.  Returns false if the kernel cannot copy between these files, and after an I/O error,
 * because the caller's own copy will report it. */
static bool send_fully(int from, uint64_t from_at, int to, uint64_t at, size_t n) {
    off_t in = (off_t)from_at, out = (off_t)at;
    while (n) {
        ssize_t sent = copy_file_range(from, &in, to, &out, n, 0);
        if (sent < 0 && errno == EINTR) continue;
        if (sent <= 0) return false;
        n -= (size_t)sent;
    }
    return true;
}

rsh_status rshi_ckpt_send(const rsh_ckpt *c, int32_t file, uint64_t at, int to, uint64_t to_at, size_t n, bool *done) {
    int fd;
    RSH_TRY(rshi_fds_take(&c->reading->fds, file, &fd));
    *done = send_fully(fd, at, to, to_at, n);
    rshi_fds_give(&c->reading->fds, file);
    return RSH_OK;
}
