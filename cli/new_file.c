/* New file: written beside its place, then renamed. */
#include "new_file.h"

#include "interrupt.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

bool new_file_is_beside(const new_file *d) { return strcmp(d->name, d->path); }

/* A link stays one, and its file is replaced. */
static bool follow(new_file *d, const char *name) {
    if (realpath(name, d->name)) return true;
    if (strlen(name) >= PATH_MAX) errno = ENAMETOOLONG;
    if (errno != ENOENT) return false;
    strcpy(d->name, name);
    return true;
}

/* Where nothing can be made beside it, a file that may be written is written itself. */
static int open_itself(new_file *d) {
    strcpy(d->path, d->name);
    return open(d->name, O_WRONLY | O_TRUNC | O_CLOEXEC);
}

int new_file_open(new_file *d, const char *name) {
    struct stat s;
    if (!follow(d, name)) return -1;
    bool there = !stat(d->name, &s);
    if (there && S_ISDIR(s.st_mode)) errno = EISDIR;
    if (there && S_ISDIR(s.st_mode)) return -1;
    if (there && !S_ISREG(s.st_mode)) return open_itself(d);
    if (there && access(d->name, W_OK)) return -1;
    snprintf(d->path, sizeof d->path, "%s.reshard-partial", d->name);
    int fd = open(d->path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (fd < 0 && there && (errno == EACCES || errno == ENAMETOOLONG)) return open_itself(d);
    if (fd >= 0 && there) there = !fchmod(fd, s.st_mode & 07777); /* some file systems have no modes */
    if (fd >= 0) interrupt_removes(d->path);
    return fd;
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
