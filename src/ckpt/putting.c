/* Putting: writes bytes at an offset of a file, with one call or through a sink. */
#include "ckpt/ckpt.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

rsh_status rshi_io_fail(const char *path) { return rshi_fail(RSH_EIO, "%s: %s", path, strerror(errno)); }

rsh_status rshi_write_fully(int fd, const char *path, uint64_t at, const void *from, size_t n) {
    for (const char *p = from; n;) {
        ssize_t put = pwrite(fd, p, n, (off_t)at);
        if (put < 0 && errno == EINTR) continue;
        RSH_REQUIRE(put > 0, RSH_EIO, "%s: byte %" PRIu64 ": %s", path, at,
                    put ? strerror(errno) : "write returned 0 bytes");
        p += put;
        at += (uint64_t)put;
        n -= (size_t)put;
    }
    return RSH_OK;
}

int rshi_put(void *ctx, const char *bytes, size_t n) {
    rshi_putting *p = ctx;
    p->st = rshi_write_fully(p->fd, p->path, p->at, bytes, n);
    p->at += n;
    return p->st != RSH_OK;
}
