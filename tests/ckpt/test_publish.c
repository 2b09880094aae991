/* Publishing on a file system that cannot exchange names: whatever fails, an old checkpoint is not lost. */
#include "ckpt/files.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <reshard.h>
#include <reshard/ckpt.h>

/* ---- a disk with failing calls; these functions replace those of the C library ---- */

static bool no_flush, no_target, no_parent, no_removal, slow_removal;
static int64_t room = INT64_MAX; /* bytes of free space on the disk */

int renameat2(int from, const char *old, int to, const char *new, unsigned flags) {
    (void)from, (void)old, (void)to, (void)new, (void)flags;
    return errno = EINVAL, -1; /* as network file systems do */
}

int rename(const char *old, const char *new) {
    size_t n = strlen(new);
    if (no_target && n > 6 && !strcmp(new + n - 6, "/saved")) return errno = EIO, -1;
    return (int)syscall(SYS_renameat2, AT_FDCWD, old, AT_FDCWD, new, 0); /* not every processor has SYS_rename */
}

ssize_t copy_file_range(int in, off_t *from, int out, off_t *to, size_t n, unsigned flags) {
    (void)in, (void)from, (void)out, (void)to, (void)n, (void)flags;
    return errno = ENOSYS, -1; /* so that every byte is written by pwrite */
}

static bool is_folder(int fd) {
    struct stat a, b;
    return !fstat(fd, &a) && !stat(folder, &b) && a.st_ino == b.st_ino && a.st_dev == b.st_dev;
}

int fsync(int fd) { return no_parent && is_folder(fd) ? errno = EIO, -1 : (int)syscall(SYS_fsync, fd); }

int unlinkat(int fd, const char *file, int flags) {
    if (no_removal && !strcmp(file, "journal")) return errno = EIO, -1;
    if (slow_removal) usleep(20000);
    return (int)syscall(SYS_unlinkat, fd, file, flags);
}

ssize_t pwrite(int fd, const void *bytes, size_t n, off_t at) {
    if (__atomic_sub_fetch(&room, (int64_t)n, __ATOMIC_RELAXED) < 0) return errno = ENOSPC, -1;
    return syscall(SYS_pwrite64, fd, bytes, n, at);
}

int fdatasync(int fd) { return no_flush ? errno = EIO, -1 : (int)syscall(SYS_fdatasync, fd); }

/* ---- */

static char path[100], home[120], old[130];
static const char *name, *value; /* name of the tensor, and a value of the metadata */
static int64_t copies;           /* number of copies of the metadata */
static bool litter;              /* a rank found the working directory after its save had failed */

static bool is_there(const char *file) {
    struct stat s;
    return !lstat(file, &s);
}

static rsh_status save(void *ctx, rsh_comm *comm) {
    (void)ctx;
    rsh_save_opts opts = RSH_SAVE_OPTS_INIT;
    rsh_layout *l;
    rsh_sharded *s = NULL;
    const char *keys[2] = {"key", "key"}, *values[2] = {value, value};
    opts.force = true;
    opts.nmeta = copies;
    opts.keys = keys;
    opts.values = values;
    RSH_TRY(rsh_layout_parse("f32[8/x] on x=2", &l));
    rsh_status st = rsh_sharded_zeros(comm, l, &s);
    if (!st) st = rsh_ckpt_save(comm, path, 1, &name, (const rsh_sharded *const *)&s, &opts);
    if (st && is_there(home)) __atomic_store_n(&litter, true, __ATOMIC_RELAXED);
    rsh_sharded_free(s);
    rsh_layout_free(l);
    return st;
}

static int begin(void **state) {
    no_flush = no_target = no_parent = no_removal = slow_removal = false;
    room = INT64_MAX;
    name = "w";
    value = "caf\xc3\xa9";
    copies = 1;
    int failed = make_folder(state);
    snprintf(path, sizeof path, "%s/saved", folder);
    snprintf(home, sizeof home, "%s.reshard-partial", path);
    snprintf(old, sizeof old, "%s/old", home);
    return failed;
}

static bool opens(const char *place) {
    rsh_ckpt *c;
    if (rsh_ckpt_open(place, NULL, &c)) return false;
    rsh_ckpt_free(c);
    return true;
}

static void an_old_checkpoint_is_replaced_without_an_exchange_of_names(void **state) {
    (void)state;
    for (int i = 0; i < 2; i++) must(rsh_run(2, save, NULL));
    assert_true(opens(path));
    assert_false(is_there(home));
}

static void one_that_cannot_go_back_to_its_name_stays_where_the_error_says(void **state) {
    (void)state;
    must(rsh_run(2, save, NULL));
    no_target = true;
    assert_int_equal(rsh_run(2, save, NULL), RSH_EIO);
    assert_non_null(strstr(rsh_error_detail(), "it is now at"));
    assert_non_null(strstr(rsh_error_detail(), old));
    assert_true(opens(old));
    no_target = false;
    must(rsh_run(2, save, NULL));
    assert_true(opens(path));
    assert_false(is_there(home));
}

static void one_that_a_stopped_save_moved_aside_outlives_a_save_that_fails(void **state) {
    (void)state;
    must(rsh_run(2, save, NULL));
    assert_int_equal(mkdir(home, 0777), 0);
    assert_int_equal(syscall(SYS_renameat2, AT_FDCWD, path, AT_FDCWD, old, 0), 0); /* then the power failed */
    no_flush = true;
    assert_int_equal(rsh_run(2, save, NULL), RSH_EIO);
    assert_true(opens(path));
    assert_false(is_there(home));
}

/* Files with such strings, or with a duplicate key, are not valid safetensors files. */
static void names_and_metadata_that_cannot_be_read_again_replace_nothing(void **state) {
    (void)state;
    must(rsh_run(2, save, NULL));
    name = "w\xff";
    assert_int_equal(rsh_run(2, save, NULL), RSH_EVALUE);
    assert_non_null(strstr(rsh_error_detail(), "its name is not UTF-8"));
    name = "w";
    value = "\xed\xa0\x80";
    assert_int_equal(rsh_run(2, save, NULL), RSH_EVALUE);
    assert_non_null(strstr(rsh_error_detail(), "metadata \"key\": key or value is not UTF-8"));
    value = "7";
    copies = 2;
    assert_int_equal(rsh_run(2, save, NULL), RSH_EVALUE);
    assert_non_null(strstr(rsh_error_detail(), "duplicate metadata key \"key\""));
    assert_true(opens(path));
}

/* ---- errors after the rename ---- */

static void expect_complete(rsh_status st, const char *words, bool home_is_left) {
    assert_int_equal(st, RSH_EIO);
    assert_non_null(strstr(rsh_error_detail(), "/saved is complete, but"));
    assert_non_null(strstr(rsh_error_detail(), words));
    assert_true(opens(path));
    assert_int_equal(is_there(home), home_is_left);
}

static void a_result_that_cannot_be_synced_or_tidied_is_said_to_be_complete(void **state) {
    (void)state;
    no_parent = true;
    expect_complete(rsh_run(2, save, NULL), "syncing its directory failed", false);
    no_parent = false;
    no_removal = true;
    expect_complete(rsh_run(2, save, NULL), "cleaning up failed", true);
    assert_non_null(strstr(rsh_error_detail(), "remove "));
    no_removal = false;
    must(rsh_run(2, save, NULL));
    assert_false(is_there(home));
}

static char source[120];

static rsh_status convert(bool force, bool resume, bool no_digest) {
    rsh_convert_opts opts = RSH_CONVERT_OPTS_INIT;
    opts.threads = 1;
    opts.force = force;
    opts.resume = resume;
    opts.no_digest = no_digest;
    return rsh_ckpt_convert(source, path, &opts, NULL);
}

static void write_source(void) {
    static char data[3 * (5 << 20)];
    snprintf(source, sizeof source, "%s/s.safetensors", folder);
    const char *header = "{\"a\":{\"dtype\":\"U8\",\"shape\":[3,5242880],\"data_offsets\":[0,15728640]}}";
    write_safetensors("s.safetensors", header, data, sizeof data);
}

static void a_conversion_that_is_complete_says_so_too(void **state) {
    (void)state;
    write_source();
    no_parent = true;
    expect_complete(convert(false, false, false), "syncing its directory failed", true);
    no_parent = false;
    must(convert(false, true, false)); /* removes what was left */
    assert_false(is_there(home));
    no_removal = true;
    expect_complete(convert(true, false, false), "cleaning up failed", true);
}

/* ---- a disk that is full ---- */

static void a_save_on_a_full_disk_leaves_nothing(void **state) {
    (void)state;
    must(rsh_run(2, save, NULL));
    for (room = 0; room < 1000; room = 2 * (room > 0 ? room : 1)) {
        int64_t bytes = room;
        rsh_status st = rsh_run(2, save, NULL);
        room = bytes;
        assert_true(st == RSH_EIO || st == RSH_OK);
        assert_true(opens(path));
        assert_false(is_there(home));
    }
}

static void a_conversion_on_a_full_disk_says_what_is_left(void **state) {
    (void)state;
    write_source();
    for (int digest = 0; digest < 2; digest++) {
        room = 6 << 20;
        assert_int_equal(convert(false, false, !digest), RSH_EIO);
        assert_non_null(strstr(rsh_error_detail(), "No space left"));
        assert_int_equal(is_there(home), digest);
        assert_int_equal(strstr(rsh_error_detail(), "holds the finished part; use --resume to continue") != NULL,
                         digest);
    }
    room = 0; /* nothing is written again, but the data of the first run stays */
    assert_int_equal(convert(false, true, false), RSH_EIO);
    assert_non_null(strstr(rsh_error_detail(), "use --resume to continue"));
    room = INT64_MAX;
    must(convert(false, true, false));
    assert_true(opens(path));
    assert_false(is_there(home));
}

/* A launcher ends the job when the first rank fails; everything must have been removed by then. */
static void no_rank_returns_before_everything_is_removed(void **state) {
    (void)state;
    litter = false;
    no_flush = slow_removal = true;
    assert_int_equal(rsh_run(2, save, NULL), RSH_EIO);
    assert_false(litter);
}

/* ---- a link at the working directory's name ---- */

static void a_save_does_not_follow_a_link(void **state) {
    (void)state;
    char other[120], file[140];
    snprintf(other, sizeof other, "%s/other", folder);
    snprintf(file, sizeof file, "%s/data", other);
    assert_int_equal(mkdir(other, 0777), 0);
    assert_int_equal(mkdir(file, 0777), 0);
    assert_int_equal(symlink(other, home), 0);
    assert_int_equal(rsh_run(2, save, NULL), RSH_EVALUE);
    assert_non_null(strstr(rsh_error_detail(), "it is a symbolic link"));
    assert_true(is_there(file) && is_there(home));
    snprintf(file, sizeof file, "%s/journal", other);
    assert_false(is_there(file));
}

#define PUBLISHING(test) cmocka_unit_test_setup_teardown(test, begin, remove_folder)

int main(void) {
    const struct CMUnitTest tests[] = {
        PUBLISHING(an_old_checkpoint_is_replaced_without_an_exchange_of_names),
        PUBLISHING(one_that_cannot_go_back_to_its_name_stays_where_the_error_says),
        PUBLISHING(one_that_a_stopped_save_moved_aside_outlives_a_save_that_fails),
        PUBLISHING(names_and_metadata_that_cannot_be_read_again_replace_nothing),
        PUBLISHING(a_result_that_cannot_be_synced_or_tidied_is_said_to_be_complete),
        PUBLISHING(a_conversion_that_is_complete_says_so_too),
        PUBLISHING(a_save_on_a_full_disk_leaves_nothing),
        PUBLISHING(a_conversion_on_a_full_disk_says_what_is_left),
        PUBLISHING(no_rank_returns_before_everything_is_removed),
        PUBLISHING(a_save_does_not_follow_a_link),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
