/* Publishing, on a file system that cannot exchange names: whatever fails or is refused, an old checkpoint is not
 * lost. */
#include "ckpt/files.h"

#include <errno.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <reshard.h>
#include <reshard/ckpt.h>

/* ---- a disk that refuses, in place of the C library's calls ---- */

static bool no_flush, no_target;

int renameat2(int from, const char *old, int to, const char *new, unsigned flags) {
    (void)from, (void)old, (void)to, (void)new, (void)flags;
    return errno = EINVAL, -1; /* as network file systems do */
}

int rename(const char *old, const char *new) {
    size_t n = strlen(new);
    if (no_target && n > 6 && !strcmp(new + n - 6, "/saved")) return errno = EIO, -1;
    return (int)syscall(SYS_rename, old, new);
}

int fdatasync(int fd) { return no_flush ? errno = EIO, -1 : (int)syscall(SYS_fdatasync, fd); }

/* ---- */

static char path[100], home[120], old[130];
static const char *name, *value; /* of the tensor, and of metadata */
static int64_t copies;           /* of the metadata */

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
    rsh_sharded_free(s);
    rsh_layout_free(l);
    return st;
}

static int begin(void **state) {
    no_flush = no_target = false;
    name = "w";
    value = "caf\xc3\xa9";
    copies = 1;
    int failed = make_folder(state);
    snprintf(path, sizeof path, "%s/saved", folder);
    snprintf(home, sizeof home, "%s.reshard-partial", path);
    snprintf(old, sizeof old, "%s/old", home);
    return failed;
}

static bool is_there(const char *file) {
    struct stat s;
    return !lstat(file, &s);
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
    assert_int_equal(syscall(SYS_rename, path, old), 0); /* and then the power failed */
    no_flush = true;
    assert_int_equal(rsh_run(2, save, NULL), RSH_EIO);
    assert_true(opens(path));
    assert_false(is_there(home));
}

/* Files with such strings, or with a key twice, are no safetensors files. */
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
    assert_non_null(strstr(rsh_error_detail(), "metadata \"key\" is given twice"));
    assert_true(opens(path));
}

#define PUBLISHING(test) cmocka_unit_test_setup_teardown(test, begin, remove_folder)

int main(void) {
    const struct CMUnitTest tests[] = {
        PUBLISHING(an_old_checkpoint_is_replaced_without_an_exchange_of_names),
        PUBLISHING(one_that_cannot_go_back_to_its_name_stays_where_the_error_says),
        PUBLISHING(one_that_a_stopped_save_moved_aside_outlives_a_save_that_fails),
        PUBLISHING(names_and_metadata_that_cannot_be_read_again_replace_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
