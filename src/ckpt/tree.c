/* Tree: makes, flushes and removes directories. */
#include "ckpt/impl.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- removing ---- */

static rsh_status remove_at(int parent, const char *name, const char *shown);

static rsh_status remove_inside(int fd, const char *shown) {
    DIR *d = fdopendir(fd);
    if (!d) return close(fd), rshi_io_fail(shown);
    rsh_status st = RSH_OK;
    for (struct dirent *e; !st && (e = readdir(d));)
        if (strcmp(e->d_name, ".") && strcmp(e->d_name, "..")) st = remove_at(dirfd(d), e->d_name, shown);
    closedir(d);
    return st;
}

static rsh_status remove_at(int parent, const char *name, const char *shown) {
    if (!unlinkat(parent, name, 0) || errno == ENOENT) return RSH_OK;
    if (errno != EISDIR && errno != EPERM) return rshi_io_fail(shown);
    int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0) return rshi_io_fail(shown);
    RSH_TRY(remove_inside(fd, shown));
    return unlinkat(parent, name, AT_REMOVEDIR) ? rshi_io_fail(shown) : RSH_OK;
}

rsh_status rshi_remove(const char *path) { return remove_at(AT_FDCWD, path, path); }

/* ---- making ---- */

rsh_status rshi_make_parents(const char *root, const char *name) {
    char *path = NULL;
    struct stat s;
    rsh_status st = RSH_OK;
    if (!strchr(name, '/')) return RSH_OK;
    RSH_TRY(rshi_ckpt_join(root, name, &path));
    for (char *slash = strchr(path + strlen(root) + 1, '/'); slash && !st; slash = strchr(slash + 1, '/')) {
        *slash = 0;
        if (mkdir(path, 0777) && (errno != EEXIST || lstat(path, &s) || !S_ISDIR(s.st_mode))) st = rshi_io_fail(path);
        *slash = '/';
    }
    rshi_free(path);
    return st;
}

/* ---- flushing ---- */

static rsh_status flush_at(int parent, const char *name, const char *shown) {
    int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *d = fd < 0 ? NULL : fdopendir(fd);
    if (!d) {
        rsh_status st = rshi_io_fail(shown);
        if (fd >= 0) close(fd);
        return st;
    }
    rsh_status st = RSH_OK;
    for (struct dirent *e; !st && (e = readdir(d));) {
        struct stat s;
        if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, "..") || fstatat(fd, e->d_name, &s, AT_SYMLINK_NOFOLLOW) ||
            !S_ISDIR(s.st_mode))
            continue;
        st = flush_at(fd, e->d_name, shown);
    }
    if (!st && fsync(fd)) st = rshi_io_fail(shown);
    closedir(d);
    return st;
}

rsh_status rshi_flush_tree(const char *path) { return flush_at(AT_FDCWD, path, path); }

rsh_status rshi_flush_directory(const char *path) {
    int fd = open(path, O_DIRECTORY | O_RDONLY | O_CLOEXEC);
    if (fd < 0) return rshi_io_fail(path);
    rsh_status st = fsync(fd) ? rshi_io_fail(path) : RSH_OK;
    close(fd);
    return st;
}
