/* Partial: the working directory TARGET.reshard-partial, in which a result is written before it is published. */
#include "ckpt/impl.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

/* ---- paths ---- */

static rsh_status set_target(rshi_ckpt_partial *p, const char *target) {
    p->target = rshi_ckpt_copy(target);
    if (!p->target) return rshi_nomem();
    for (size_t n = strlen(p->target); n > 1 && p->target[n - 1] == '/'; n--) p->target[n - 1] = 0;
    const char *slash = strrchr(p->target, '/'), *name = slash ? slash + 1 : p->target;
    RSH_REQUIRE(*name && strcmp(name, ".") && strcmp(name, ".."), RSH_EVALUE,
                "%s: the target must end in a name, such as %s", target, "out or model.safetensors");
    p->parent = rshi_ckpt_copy(slash ? p->target : ".");
    if (!p->parent) return rshi_nomem();
    if (slash) p->parent[slash == p->target ? 1 : slash - p->target] = 0;
    return RSH_OK;
}

rsh_status rshi_partial_home(const char *target, char **out) {
    rshi_text home = {0};
    size_t n = strlen(target);
    while (n > 1 && target[n - 1] == '/') n--;
    rshi_text_add(&home, "%.*s" RSHI_PARTIAL_SUFFIX, (int)n, target);
    if (home.failed) return rshi_text_free(&home), rshi_nomem();
    *out = home.data;
    return RSH_OK;
}

static rsh_status set_paths(rshi_ckpt_partial *p, const char *target) {
    RSH_TRY(set_target(p, target));
    RSH_TRY(rshi_partial_home(target, &p->home));
    RSH_TRY(rshi_ckpt_join(p->home, "data", &p->data));
    return rshi_ckpt_join(p->home, "journal", &p->journal_path);
}

static rsh_status file_path(const rshi_ckpt_partial *p, int64_t i, char **out) {
    return p->single ? rshi_ckpt_join(NULL, p->data, out) : rshi_ckpt_join(p->data, p->files->file[i].name, out);
}

/* ---- checks of an existing working directory ---- */

static rsh_status refuse_home(const rshi_ckpt_partial *p, const char *what) {
    return rshi_fail(RSH_EVALUE,
                     "%s: cannot use it as the working directory: %s; move it away or choose another target", p->home,
                     what);
}

static rsh_status check_names(const rshi_ckpt_partial *p, DIR *d, bool *data, bool *journal) {
    *data = *journal = false;
    for (struct dirent *e; (errno = 0, e = readdir(d));) {
        const char *name = e->d_name;
        *data |= !strcmp(name, "data");
        *journal |= !strcmp(name, "journal");
        if (!strcmp(name, "data") || !strcmp(name, "journal") || !strcmp(name, "old") || !strcmp(name, ".") ||
            !strcmp(name, ".."))
            continue;
        char what[300];
        snprintf(what, sizeof what, "it holds \"%.200s\", which is not from reshard", name);
        return refuse_home(p, what);
    }
    return errno ? rshi_io_fail(p->home) : RSH_OK;
}

static rsh_status check_journal(const rshi_ckpt_partial *p) {
    bool is = false;
    int fd = open(p->journal_path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0) return rshi_io_fail(p->journal_path);
    rsh_status st = rshi_journal_is_one(fd, p->journal_path, &is);
    close(fd);
    return st ? st : is ? RSH_OK : refuse_home(p, "its file \"journal\" is not from reshard");
}

/* Checks that it is the working directory of an earlier run.  Anything else belongs to the user and is left alone. */
static rsh_status check_home(const rshi_ckpt_partial *p, const struct stat *s) {
    bool data, journal;
    if (S_ISLNK(s->st_mode)) return refuse_home(p, "it is a symbolic link");
    if (!S_ISDIR(s->st_mode)) return refuse_home(p, "it is not a directory");
    DIR *d = opendir(p->home);
    if (!d) return rshi_io_fail(p->home);
    rsh_status st = check_names(p, d, &data, &journal);
    closedir(d);
    RSH_TRY(st);
    if (journal) return check_journal(p);
    return data ? refuse_home(p, "it holds data but no journal") : RSH_OK;
}

/* ---- opening it ---- */

static rsh_status refuse_in_use(const rshi_ckpt_partial *p) {
    return rshi_fail(RSH_EBUSY,
                     "%s: another process is converting to the same target; wait for it, or choose another target",
                     p->home);
}

static rsh_status lock_journal(rshi_ckpt_partial *p) {
    p->journal = open(p->journal_path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
    if (p->journal < 0) return rshi_io_fail(p->journal_path);
    if (!flock(p->journal, LOCK_EX | LOCK_NB)) return RSH_OK;
    return errno == EWOULDBLOCK ? refuse_in_use(p) : rshi_io_fail(p->journal_path);
}

/* Does another process hold the lock? */
static bool is_in_use(const rshi_ckpt_partial *p) {
    int fd = open(p->journal_path, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    bool used = fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) && errno == EWOULDBLOCK;
    if (fd >= 0) close(fd);
    return used;
}

/* Discards all data of an earlier run. */
static rsh_status start_over(rshi_ckpt_partial *p) {
    RSH_TRY(rshi_journal_start(p));
    RSH_TRY(rshi_remove(p->data));
    if (!p->single && mkdir(p->data, 0777)) return rshi_io_fail(p->data);
    return RSH_OK;
}

/* Returns whether an earlier run was interrupted after it had renamed the result to the target. */
static bool was_published(rshi_ckpt_partial *p) {
    struct stat s;
    uint64_t inode = rshi_journal_inode(p);
    return inode && !lstat(p->target, &s) && (uint64_t)s.st_ino == inode;
}

static rsh_status resume_home(rshi_ckpt_partial *p, bool *going) {
    bool same, empty;
    RSH_TRY(rshi_journal_same(p, &same, &empty));
    if (empty) return start_over(p);
    RSH_REQUIRE(same, RSH_EVALUE,
                "%s: cannot resume: the interrupted run had another source or other arguments, or the source has "
                "changed; remove the directory to start over",
                p->home);
    p->published = was_published(p);
    *going = true;
    if (p->published) return RSH_OK;
    if (!p->single && mkdir(p->data, 0777) && errno != EEXIST) return rshi_io_fail(p->data);
    struct stat s;
    bool there = !lstat(p->data, &s);
    if (there && (p->single ? !S_ISREG(s.st_mode) : !S_ISDIR(s.st_mode)))
        return refuse_home(p, "its entry \"data\" is not from reshard");
    return RSH_OK;
}

/* May --force replace it?  Files, links and checkpoints are replaced; any other directory, for example a home
 * directory, is more likely a mistake. */
static rsh_status check_replaceable(const char *target) {
    struct stat s;
    rshi_ckpt_place place;
    char home[PATH_MAX], real[PATH_MAX];
    if (lstat(target, &s) || S_ISREG(s.st_mode) || S_ISLNK(s.st_mode)) return RSH_OK;
    RSH_REQUIRE(S_ISDIR(s.st_mode), RSH_EVALUE,
                "%s exists and is neither a file nor a directory, so it is not replaced; choose another target",
                target);
    rsh_status st = rshi_ckpt_place_open(target, NULL, &place);
    bool known = !st && (!place.nnames || rshi_ckpt_place_is_known(&place));
    rshi_ckpt_place_close(&place);
    RSH_TRY(st);
    RSH_REQUIRE(known, RSH_EVALUE,
                "%s exists and holds no checkpoint, so it is not replaced; remove it, or choose another target",
                target);
    size_t n = realpath(target, real) && getcwd(home, sizeof home) ? strlen(real) : 0;
    RSH_REQUIRE(!n || strncmp(home, real, n) || (home[n] && home[n] != '/'), RSH_EVALUE,
                "%s holds the current directory, so it is not replaced; change to another directory first", target);
    return RSH_OK;
}

static rsh_status check_target(const rshi_ckpt_partial *p, const rsh_convert_opts *o, bool left) {
    struct stat s;
    bool there = !lstat(p->target, &s);
    RSH_REQUIRE(!left || o->resume || o->force, RSH_EVALUE,
                "%s: an interrupted run left its data there; use --resume to continue it or --force to start over",
                p->home);
    RSH_REQUIRE(!there || o->force || (o->resume && left), RSH_EVALUE,
                "%s already exists (use --force to replace it)", p->target);
    return there && o->force ? check_replaceable(p->target) : RSH_OK;
}

static rsh_status open_home(rshi_ckpt_partial *p, const rsh_convert_opts *o, bool *made, bool *going) {
    struct stat s;
    bool left = !lstat(p->home, &s);
    if (left) RSH_TRY(check_home(p, &s));
    if (left && is_in_use(p)) return refuse_in_use(p);
    RSH_TRY(check_target(p, o, left));
    if (!left && mkdir(p->home, 0777)) return rshi_io_fail(p->home);
    *made = !left;
    RSH_TRY(lock_journal(p));
    if (left && o->resume) {
        RSH_TRY(resume_home(p, going));
        bool there = !lstat(p->target, &s);
        RSH_REQUIRE(!there || o->force || p->published, RSH_EVALUE,
                    "%s already exists (use --force to replace it)", p->target);
        return RSH_OK;
    }
    RSH_TRY(rshi_partial_put_back(p)); /* an earlier run may have been interrupted between two renames */
    return start_over(p);
}

/* ---- files ---- */

/* Opens a file of the target.  If no descriptor is left, closes source files that are not in use. */
static rsh_status open_target_file(void *ctx, int64_t i, int *fd, bool *none_left) {
    rshi_ckpt_partial *p = ctx;
    char *path = NULL;
    RSH_TRY(file_path(p, i, &path));
    do {
        *fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
        *none_left = *fd < 0 && (errno == EMFILE || errno == ENFILE);
    } while (*none_left && rshi_reading_release(p->files->source));
    if (*none_left) errno = EMFILE;
    rsh_status st = *fd < 0 ? rshi_io_fail(path) : RSH_OK;
    rshi_free(path);
    return st;
}

rsh_status rshi_partial_open(const char *target, const rshi_target *files, uint64_t fingerprint,
                             const rsh_convert_opts *opts, rshi_ckpt_partial *out, bool *going) {
    rshi_ckpt_partial p = {.journal = -1, .files = files, .fingerprint = fingerprint};
    p.single = !files->by_rank && rshi_target_is_file(target);
    bool made = false;
    *going = false;
    rsh_status st = set_paths(&p, target);
    if (!st) st = open_home(&p, opts, &made, going);
    if (st) {
        if (made) rshi_partial_abandon(&p);
        rshi_partial_close(&p);
        return st;
    }
    *out = p;
    return RSH_OK;
}

void rshi_partial_close(rshi_ckpt_partial *p) {
    rshi_fds_free(&p->fds);
    if (p->journal >= 0) close(p->journal);
    rshi_free(p->target);
    rshi_free(p->parent);
    rshi_free(p->home);
    rshi_free(p->data);
    rshi_free(p->journal_path);
    *p = (rshi_ckpt_partial){.journal = -1};
}

static rsh_status size_file(rshi_ckpt_partial *p, int64_t i, uint64_t *missing) {
    struct stat s;
    int fd;
    RSH_TRY(rshi_fds_take(&p->fds, i, &fd));
    const rshi_target_file *f = &p->files->file[i];
    rsh_status st = RSH_OK;
    if (fstat(fd, &s) || ((uint64_t)s.st_size != f->size && ftruncate(fd, (off_t)f->size))) st = rshi_io_fail(f->name);
    uint64_t have = st ? 0 : (uint64_t)s.st_blocks * 512;
    *missing += have < f->size ? f->size - have : 0;
    rshi_fds_give(&p->fds, i);
    return st;
}

/* Bytes of other files, which will be copied. */
static uint64_t beside_bytes(const rshi_ckpt_partial *p) {
    const rsh_ckpt *c = p->files->source;
    uint64_t bytes = 0;
    struct stat s;
    for (int64_t i = 0; i < c->nbeside; i++) bytes += stat(c->beside[i].value, &s) ? 0 : (uint64_t)s.st_size;
    return bytes;
}

rsh_status rshi_partial_files(rshi_ckpt_partial *p) {
    struct statvfs v;
    uint64_t missing = 0;
    if (!p->single) RSH_TRY(rshi_prune(p->files, p->data));
    RSH_TRY(rshi_fds_init(&p->fds, p->files->nfiles, open_target_file, p));
    for (int64_t i = 0; i < p->files->nfiles; i++) {
        if (!p->single) RSH_TRY(rshi_make_parents(p->data, p->files->file[i].name));
        RSH_TRY(size_file(p, i, &missing));
    }
    if (!p->single) missing += beside_bytes(p);
    if (statvfs(p->home, &v)) return rshi_io_fail(p->home);
    uint64_t free_bytes = (uint64_t)v.f_bavail * v.f_frsize;
    RSH_REQUIRE(missing <= free_bytes || !v.f_blocks, RSH_EIO,
                "%s: not enough disk space: the result needs %" PRIu64 " more bytes, but only %" PRIu64 " are free",
                p->home,
                missing, free_bytes);
    return RSH_OK;
}

static rsh_status io_write(void *ctx, int32_t file, uint64_t at, const void *bytes, size_t n) {
    rshi_ckpt_partial *p = ctx;
    int fd;
    RSH_TRY(rshi_fds_take(&p->fds, file, &fd));
    rsh_status st = rshi_write_fully(fd, p->files->file[file].name, at, bytes, n);
    rshi_fds_give(&p->fds, file);
    return st;
}

static rsh_status io_read(void *ctx, int32_t file, uint64_t at, void *to, size_t n) {
    rshi_ckpt_partial *p = ctx;
    int fd;
    RSH_TRY(rshi_fds_take(&p->fds, file, &fd));
    rsh_status st = rshi_read_fully(fd, p->files->file[file].name, at, to, n);
    rshi_fds_give(&p->fds, file);
    return st;
}

static rsh_status io_copy(void *ctx, const rsh_ckpt *source, int32_t from, uint64_t from_at, int32_t file, uint64_t at,
                          size_t n, bool *done) {
    rshi_ckpt_partial *p = ctx;
    int fd;
    RSH_TRY(rshi_fds_take(&p->fds, file, &fd));
    rsh_status st = rshi_ckpt_send(source, from, from_at, fd, at, n, done);
    rshi_fds_give(&p->fds, file);
    return st;
}

const rshi_files rshi_partial_io = {io_write, io_read, io_copy, NULL};
