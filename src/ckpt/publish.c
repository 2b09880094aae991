/* Publish: writes headers and other files, flushes everything to the disk, and renames the result to the target. */
#include "ckpt/impl.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef RENAME_EXCHANGE /* C libraries without renameat2, such as musl 1.2.5: call the kernel directly */
#define RENAME_NOREPLACE 1
#define RENAME_EXCHANGE 2
static int renameat2(int old_dir, const char *old_path, int new_dir, const char *new_path, unsigned flags) {
    return (int)syscall(SYS_renameat2, old_dir, old_path, new_dir, new_path, flags);
}
#endif

/* ---- headers ---- */

static rsh_status put_headers(rshi_ckpt_partial *p, const rsh_digest *sums) {
    for (int64_t i = 0; i < p->files->nfiles; i++) {
        rshi_putting to = {.path = p->files->file[i].name};
        RSH_TRY(rshi_fds_take(&p->fds, i, &to.fd));
        rsh_sink sink = {rshi_put, &to};
        rsh_status st = rshi_target_header(p->files, i, sums, &sink);
        rshi_fds_give(&p->fds, i);
        if (st) return st;
    }
    return RSH_OK;
}

/* ---- other files ---- */

static rsh_status put_index(rshi_ckpt_partial *p) {
    rshi_putting to = {.path = "model.safetensors.index.json"};
    char *path = NULL;
    RSH_TRY(rshi_ckpt_join(p->data, to.path, &path));
    to.fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    rsh_status st = to.fd < 0 ? rshi_io_fail(path) : rshi_target_index(p->files, &(rsh_sink){rshi_put, &to});
    if (to.fd >= 0 && !st && fdatasync(to.fd)) st = rshi_io_fail(path);
    if (to.fd >= 0) close(to.fd);
    rshi_free(path);
    return st;
}

static rsh_status copy_bytes(int from, const char *from_path, int to, const char *to_path) {
    char buffer[65536];
    for (uint64_t at = 0;;) {
        ssize_t got = pread(from, buffer, sizeof buffer, (off_t)at);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return rshi_io_fail(from_path);
        if (!got) return RSH_OK;
        RSH_TRY(rshi_write_fully(to, to_path, at, buffer, (size_t)got));
        at += (uint64_t)got;
    }
}

static rsh_status copy_file(const char *from, const char *directory, const char *name) {
    char *path = NULL;
    RSH_TRY(rshi_ckpt_join(directory, name, &path));
    int in = open(from, O_RDONLY | O_CLOEXEC | O_NONBLOCK), out = -1;
    rsh_status st = in < 0 ? rshi_io_fail(from) : RSH_OK;
    if (!st) out = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0666);
    if (!st && out < 0) st = rshi_io_fail(path);
    if (!st) st = copy_bytes(in, from, out, path);
    if (!st && fdatasync(out)) st = rshi_io_fail(path);
    if (in >= 0) close(in);
    if (out >= 0) close(out);
    rshi_free(path);
    return st;
}

/* Copies the other files of the source, except those whose names the result uses. */
static rsh_status copy_beside(rshi_ckpt_partial *p) {
    const rsh_ckpt *c = p->files->source;
    rshi_taken_names taken = {0};
    rsh_status st = rshi_taken_names_list(p->files, &taken);
    for (int64_t i = 0; i < c->nbeside && !st; i++) {
        if (rshi_taken_names_has(&taken, c->beside[i].key)) continue;
        st = rshi_make_parents(p->data, c->beside[i].key);
        if (!st) st = copy_file(c->beside[i].value, p->data, c->beside[i].key);
    }
    rshi_taken_names_free(&taken);
    return st;
}

rsh_status rshi_partial_finish(rshi_ckpt_partial *p, const rsh_digest *sums) {
    RSH_TRY(put_headers(p, sums));
    if (p->files->index) RSH_TRY(put_index(p));
    return p->single ? RSH_OK : copy_beside(p);
}

/* ---- flushing ---- */

rsh_status rshi_partial_flush(rshi_ckpt_partial *p) {
    for (int64_t i = 0; i < p->files->nfiles; i++) {
        int fd;
        RSH_TRY(rshi_fds_take(&p->fds, i, &fd));
        rsh_status st = fdatasync(fd) ? rshi_io_fail(p->files->file[i].name) : RSH_OK;
        rshi_fds_give(&p->fds, i);
        if (st) return st;
    }
    if (!p->single) RSH_TRY(rshi_flush_tree(p->data));
    return rshi_flush_directory(p->home);
}

/* ---- renaming ---- */

rsh_status rshi_partial_put_back(rshi_ckpt_partial *p) {
    struct stat s;
    char *old = NULL;
    RSH_TRY(rshi_ckpt_join(p->home, "old", &old));
    bool aside = lstat(p->target, &s) && !lstat(old, &s);
    rsh_status st = RSH_OK;
    if (aside && rename(old, p->target))
        st = rshi_fail(RSH_EIO, "%s: cannot restore the previous target (%s); it is now at %s, move it back", p->target,
                       strerror(errno), old);
    rshi_free(old);
    return st;
}

/* Removes the working directory.  The journal is removed last, because it records that the target is complete. */
static rsh_status remove_home(rshi_ckpt_partial *p) {
    char *old = NULL;
    RSH_TRY(rshi_remove(p->data));
    RSH_TRY(rshi_ckpt_join(p->home, "old", &old));
    rsh_status st = rshi_remove(old);
    rshi_free(old);
    return st ? st : rshi_remove(p->home);
}

rsh_status rshi_partial_discard(rshi_ckpt_partial *p) {
    rshi_fds_free(&p->fds); /* removing a directory needs a free descriptor */
    RSH_TRY(rshi_partial_put_back(p));
    return remove_home(p);
}

/* Appends text to the current error message. */
static void add_detail(const char *format, ...) __attribute__((format(printf, 1, 2)));
static void add_detail(const char *format, ...) {
    char first[RSHI_DETAIL_BYTES], more[450], all[RSHI_DETAIL_BYTES];
    va_list list;
    snprintf(first, sizeof first, "%s", rsh_error_detail());
    va_start(list, format);
    vsnprintf(more, sizeof more, format, list);
    va_end(list);
    snprintf(all, sizeof all, "%.*s; %s", RSHI_DETAIL_BYTES - 460, first, more);
    rshi_set_detail(all);
}

void rshi_partial_abandon(rshi_ckpt_partial *p) {
    char why[RSHI_DETAIL_BYTES];
    snprintf(why, sizeof why, "%s", rsh_error_detail());
    rsh_status st = rshi_partial_discard(p);
    rshi_set_detail(why);
    if (st) add_detail("%.300s could not be removed; remove it by hand", p->home);
}

void rshi_partial_keep(const rshi_ckpt_partial *p) {
    add_detail("%.300s holds the finished part; use --resume to continue", p->home);
}

/* Renames on file systems that cannot exchange names: moves the old target aside, then renames the new one.  Between
 * the two renames there is no target. */
static rsh_status rename_twice(rshi_ckpt_partial *p) {
    char *old = NULL;
    RSH_TRY(rshi_ckpt_join(p->home, "old", &old));
    rsh_status st = rshi_remove(old);
    if (!st && rename(p->target, old)) st = rshi_io_fail(p->target);
    if (!st && rename(p->data, p->target)) {
        st = rshi_io_fail(p->target);
        if (rshi_partial_put_back(p)) st = RSH_EIO;
    }
    p->gap = !st;
    rshi_free(old);
    return st;
}

static rsh_status exchange_names(rshi_ckpt_partial *p) {
    if (!renameat2(AT_FDCWD, p->data, AT_FDCWD, p->target, RENAME_EXCHANGE)) return RSH_OK;
    return errno == EINVAL || errno == ENOSYS ? rename_twice(p) : rshi_io_fail(p->target);
}

static rsh_status rename_to_target(rshi_ckpt_partial *p, bool force) {
    struct stat s;
    if (!lstat(p->target, &s)) {
        RSH_REQUIRE(force, RSH_EVALUE, "%s was created during the conversion (use --force to replace it)", p->target);
        return exchange_names(p);
    }
    if (!renameat2(AT_FDCWD, p->data, AT_FDCWD, p->target, RENAME_NOREPLACE)) return RSH_OK;
    if (errno != EINVAL && errno != ENOSYS) return rshi_io_fail(p->target);
    return rename(p->data, p->target) ? rshi_io_fail(p->target) : RSH_OK;
}

/* Reports an error that occurred after the rename, when the target is already complete. */
static rsh_status fail_after_publishing(const rshi_ckpt_partial *p, const char *failed, const char *advice) {
    char why[RSHI_DETAIL_BYTES];
    snprintf(why, sizeof why, "%s", rsh_error_detail());
    return rshi_fail(RSH_EIO, "%.300s is complete, but %s failed: %.400s; %s", p->target, failed, why, advice);
}

rsh_status rshi_partial_publish(rshi_ckpt_partial *p, bool force) {
    struct stat s;
    if (!p->published) {
        if (lstat(p->data, &s)) return rshi_io_fail(p->data);
        RSH_TRY(rshi_journal_publishing(p, (uint64_t)s.st_ino));
        RSH_TRY(rename_to_target(p, force));
        p->published = true;
        if (rshi_flush_directory(p->parent))
            return fail_after_publishing(p, "syncing its directory",
                                         "a power failure could still undo it: run \"sync\"");
    }
    char advice[400];
    snprintf(advice, sizeof advice, "remove %.300s", p->home);
    return remove_home(p) ? fail_after_publishing(p, "cleaning up", advice) : RSH_OK;
}
