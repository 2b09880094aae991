/* Draft: written beside its place, then renamed. */
#include "draft.h"

#include "interrupt.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

bool draft_is_beside(const draft *d) { return strcmp(d->name, d->path); }

/* A link stays one, and its file is replaced. */
static bool follow(draft *d, const char *name) {
    if (realpath(name, d->name)) return true;
    if (strlen(name) >= PATH_MAX) errno = ENAMETOOLONG;
    if (errno != ENOENT) return false;
    strcpy(d->name, name);
    return true;
}

/* Where nothing can be made beside it, a file that may be written is written itself. */
static int open_itself(draft *d) {
    strcpy(d->path, d->name);
    return open(d->name, O_WRONLY | O_TRUNC | O_CLOEXEC);
}

int draft_open(draft *d, const char *name) {
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

int draft_publish(draft *d, int fd) {
    int lost = close(fd);
    if (!lost && draft_is_beside(d)) lost = rename(d->path, d->name);
    if (lost) draft_abandon(d, -1);
    interrupt_removes(NULL);
    return lost;
}

void draft_abandon(const draft *d, int fd) {
    int reason = errno;
    if (fd >= 0) close(fd);
    if (draft_is_beside(d)) unlink(d->path);
    interrupt_removes(NULL);
    errno = reason;
}
