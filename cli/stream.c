/* Stream: the bytes of parts from and to file descriptors. */
#include "parts.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define AT_ONCE ((size_t)1 << 30) /* Linux moves a little less than 2 GiB in one call */

static size_t smaller(size_t a, size_t b) { return a < b ? a : b; }

/* Bytes read, fewer than `bytes` only at the end of the file; -1 after a sentence. */
static ssize_t read_up_to(int fd, char *data, size_t bytes) {
    size_t done = 0;
    while (done < bytes) {
        ssize_t n = read(fd, data + done, smaller(bytes - done, AT_ONCE));
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) fail("standard input: %s", strerror(errno));
        if (n <= 0) return n < 0 ? n : (ssize_t)done;
        done += (size_t)n;
    }
    return (ssize_t)done;
}

static int wrong_size(size_t wanted, size_t came) {
    return fail("standard input: FROM is %zu bytes, %zu came", wanted, came);
}

/* Is anything left in the stream?  It may have no end, so that only a little more is counted. */
static int check_end(int fd, size_t wanted) {
    static char rest[1 << 16];
    ssize_t more = read_up_to(fd, rest, sizeof rest);
    if (more < 0) return FAILED;
    if ((size_t)more == sizeof rest)
        return fail("standard input: FROM is %zu bytes, %zu or more came", wanted, wanted + sizeof rest);
    return more ? wrong_size(wanted, wanted + (size_t)more) : DONE;
}

static int read_stream(parts *p, int fd) {
    if (parts_allocate(p)) return FAILED;
    ssize_t n = read_up_to(fd, p->data, p->bytes);
    if (n < 0) return FAILED;
    return (size_t)n < p->bytes ? wrong_size(p->bytes, (size_t)n) : check_end(fd, p->bytes);
}

/* A file is mapped as it is: its bytes move once, from the page cache into place.  False: read it instead. */
static bool map_file(parts *p, int fd, off_t start) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE), skip = (size_t)start % page;
    if (!p->bytes || skip % 16) return false; /* elements must be aligned */
    p->mapped = p->bytes + skip;
    void *at = mmap(NULL, p->mapped, PROT_READ, MAP_PRIVATE, fd, start - (off_t)skip);
    if (at == MAP_FAILED) return false;
    p->mapping = at;
    madvise(at, p->mapped, MADV_WILLNEED);
    parts_settle(p, (char *)at + skip);
    return true;
}

int parts_read(parts *p, int fd) {
    struct stat file;
    off_t start = lseek(fd, 0, SEEK_CUR);
    if (start < 0 || fstat(fd, &file) || !S_ISREG(file.st_mode)) return read_stream(p, fd);
    size_t left = file.st_size > start ? (size_t)(file.st_size - start) : 0;
    if (left != p->bytes) return wrong_size(p->bytes, left);
    return map_file(p, fd, start) ? DONE : read_stream(p, fd);
}

int parts_write(const parts *p, int fd) {
    for (size_t done = 0; done < p->bytes;) {
        ssize_t n = write(fd, p->data + done, smaller(p->bytes - done, AT_ONCE));
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return fail("standard output: %s", strerror(errno));
        done += (size_t)n;
    }
    return DONE;
}
