/* New file: writes NAME.reshard-partial, then renames it to NAME. */
#include "new_file.h"

#include "interrupt.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

bool new_file_is_beside(const new_file *d) { return strcmp(d->name, d->path); }

static bool set_name(new_file *d, const char *name) {
    if (strlen(name) >= PATH_MAX) errno = ENAMETOOLONG;
    else strcpy(d->name, name);
    return strlen(name) < PATH_MAX;
}

/* Reads the target of a link, relative to the directory of the link.  Returns false if `name` is not a link. */
static bool read_link(const char *name, char target[2 * PATH_MAX]) {
    const char *slash = strrchr(name, '/');
    size_t dir = slash ? (size_t)(slash - name) + 1 : 0;
    ssize_t n = readlink(name, target + dir, PATH_MAX - 1);
    if (n <= 0) return false;
    memcpy(target, name, dir);
    target[dir + (size_t)n] = 0;
    if (target[dir] == '/') memmove(target, target + dir, (size_t)n + 1);
    return true;
}

/* Follows links, so that the link stays and its target is replaced or created. */
static bool follow_links(new_file *d, const char *name) {
    char target[2 * PATH_MAX];
    if (realpath(name, d->name)) return true;
    if (errno != ENOENT || !set_name(d, name)) return false;
    return !read_link(d->name, target) || follow_links(d, target);
}

/* Opens the file itself, if no file can be created next to it. */
static int open_itself(new_file *d) {
    strcpy(d->path, d->name);
    return open(d->name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
}

/* Returns the descriptor for a name such as /dev/fd/3; -1: it is not such a name. */
static int descriptor_of(const char *name) {
    int n = -1, end = 0;
    if (!strcmp(name, "/dev/stdout")) return STDOUT_FILENO;
    if (!strcmp(name, "/dev/stderr")) return STDERR_FILENO;
    if (sscanf(name, "/dev/fd/%9d%n", &n, &end) == 1 || sscanf(name, "/proc/self/fd/%9d%n", &n, &end) == 1)
        return name[end] ? -1 : n;
    return -1;
}

/* Duplicates the descriptor, so that writing continues at its current position. */
static int open_again(new_file *d, const char *name) {
    strcpy(d->name, name);
    strcpy(d->path, name);
    return fcntl(descriptor_of(name), F_DUPFD_CLOEXEC, 0);
}

/* Returns whether errno says that no file can be created next to the target: its name is too long, or the directory is
 * not writable. */
static bool cannot_create_beside(bool there) { return errno == ENAMETOOLONG || (there && errno == EACCES); }

/* Creates the file.  Registers it for removal first, because a signal may arrive at any time. */
static int open_beside(new_file *d, const struct stat *before) {
    snprintf(d->path, sizeof d->path, "%s.reshard-partial", d->name);
    interrupt_removes(d->path);
    int fd = open(d->path, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0666);
    if (fd < 0) interrupt_removes(NULL);
    if (fd < 0 && cannot_create_beside(before != NULL)) return open_itself(d);
    /* some file systems do not support modes */
    if (fd >= 0 && before && fchmod(fd, before->st_mode & 07777)) errno = 0;
    return fd;
}

int new_file_open(new_file *d, const char *name) {
    struct stat s;
    if (descriptor_of(name) >= 0) return open_again(d, name);
    if (!follow_links(d, name)) return -1;
    bool there = !stat(d->name, &s);
    if (there && S_ISDIR(s.st_mode)) errno = EISDIR;
    if (there && S_ISDIR(s.st_mode)) return -1;
    if (there && !S_ISREG(s.st_mode)) return open_itself(d);
    if (there && access(d->name, W_OK)) return -1;
    return open_beside(d, there ? &s : NULL);
}

int new_file_publish(new_file *d, int fd) {
    int lost = close(fd);
    if (!lost && new_file_is_beside(d)) lost = rename(d->path, d->name);
    if (lost) new_file_abandon(d, -1);
    interrupt_removes(NULL);
    return lost;
}

void new_file_abandon(const new_file *d, int fd) {
    int reason = errno;
    if (fd >= 0) close(fd);
    if (new_file_is_beside(d)) unlink(d->path);
    interrupt_removes(NULL);
    errno = reason;
}
