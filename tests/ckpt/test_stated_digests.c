/* Loading checks the digests that files state, whatever the dtype and the number of ranks.  A read that returns fewer
 * bytes than requested is not the end of a file. */
#include "ckpt/files.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <reshard.h>
#include <reshard/ckpt.h>

static bool short_reads;

ssize_t pread(int fd, void *to, size_t n, off_t at) {
    if (short_reads && n > 3) n = 3;
    return syscall(SYS_pread64, fd, to, n, at);
}

static char path[100];
static const char *const names[] = {"w", "v"};
static const char *layout[2]; /* layouts of the tensors that are loaded */
static rsh_load_stats stats = RSH_LOAD_STATS_INIT;  /* statistics of rank 0 */

static rsh_status make(rsh_comm *comm, const char *text, rsh_sharded **out) {
    rsh_layout *l;
    RSH_TRY(rsh_layout_parse(text, &l));
    rsh_status st = rsh_sharded_zeros(comm, l, out);
    rsh_layout_free(l);
    return st;
}

static rsh_status with_both(rsh_comm *comm, const char *w, const char *v, bool save) {
    rsh_sharded *s[2] = {NULL, NULL};
    rsh_load_stats mine = RSH_LOAD_STATS_INIT;
    rsh_ckpt *c = NULL;
    rsh_status st = make(comm, w, &s[0]);
    if (!st) st = make(comm, v, &s[1]);
    if (!st && save) st = rsh_ckpt_save(comm, path, 2, names, (const rsh_sharded *const *)s, NULL);
    if (!st && !save) st = rsh_ckpt_open(path, NULL, &c);
    if (!st && !save) st = rsh_ckpt_load(c, comm, 2, names, s, &mine);
    if (!st && !rsh_comm_rank(comm)) stats = mine;
    rsh_ckpt_free(c);
    rsh_sharded_free(s[0]);
    rsh_sharded_free(s[1]);
    return st;
}

static rsh_status save(void *ctx, rsh_comm *comm) {
    (void)ctx;
    return with_both(comm, "f32[64/x, 9] on x=2", "i64[5] on x=2", true);
}

static rsh_status load(void *ctx, rsh_comm *comm) {
    (void)ctx;
    return with_both(comm, layout[0], layout[1], false);
}

/* Flips a bit of byte `last`, counted from the end of a file. */
static void damage(const char *name, long last) {
    char file[160];
    snprintf(file, sizeof file, "%s/%s", path, name);
    FILE *f = fopen(file, "r+b");
    assert_non_null(f);
    assert_int_equal(fseek(f, -last, SEEK_END), 0);
    int byte = fgetc(f);
    assert_int_equal(fseek(f, -last, SEEK_END), 0);
    fputc(byte ^ 4, f);
    fclose(f);
}

static int begin(void **state) {
    short_reads = false;
    int failed = make_folder(state);
    snprintf(path, sizeof path, "%s/saved", folder);
    return failed ? failed : (int)rsh_run(2, save, NULL);
}

static const char *const layouts[][2] = {
    {"f32[64, 9/y] on y=3", "i64[5/y~] on y=3"},
    {"f64[64/y~, 9] on y=3", "i64[5] on y=3"}, /* another dtype */
    {"f32[64, 9]/y~ on y=3", "f64[5] on y=3"},
};

static void damaged_elements_are_not_loaded(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++) {
        memcpy(layout, layouts[i], sizeof layout);
        for (int k = 0; k < 2; k++) {
            must(rsh_run(3, load, NULL));
            assert_int_equal(stats.digests_checked, 2);
            assert_int_equal(stats.digests_unchecked, 0);
            damage(k ? "rank-00000-of-00002.safetensors" : "rank-00001-of-00002.safetensors", 7);
            assert_int_equal(rsh_run(3, load, NULL), RSH_EIO);
            assert_non_null(strstr(rsh_error_detail(), "is damaged"));
            damage(k ? "rank-00000-of-00002.safetensors" : "rank-00001-of-00002.safetensors", 7);
        }
    }
}

static void short_reads_are_no_end(void **state) {
    (void)state;
    rsh_ckpt *c;
    memcpy(layout, layouts[0], sizeof layout);
    short_reads = true;
    must(rsh_ckpt_open(path, NULL, &c));
    assert_int_equal(rsh_ckpt_ntensors(c), 2);
    rsh_ckpt_free(c);
    must(rsh_run(3, load, NULL));
}

#define SAVED(test) cmocka_unit_test_setup_teardown(test, begin, remove_folder)

int main(void) {
    const struct CMUnitTest tests[] = {
        SAVED(damaged_elements_are_not_loaded),
        SAVED(short_reads_are_no_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
