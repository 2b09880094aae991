/* A conversion with fused tensors in which every system call fails once: no partial result is visible, and --resume
 * gives the same result as an undisturbed run. */
#include "ckpt/files.h"

#include <errno.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <reshard.h>
#include <reshard/ckpt.h>

/* ---- a disk that fails at one call; these functions replace those of the C library ---- */

static int64_t calls, failing = -1; /* failing: the number of the call that fails; -1: none */

static bool fails(int how) {
    bool now = __atomic_fetch_add(&calls, 1, __ATOMIC_RELAXED) == failing;
    if (now) errno = how;
    return now;
}

ssize_t pread(int fd, void *to, size_t n, off_t at) { return fails(EIO) ? -1 : syscall(SYS_pread64, fd, to, n, at); }
ssize_t write(int fd, const void *bytes, size_t n) { return fails(ENOSPC) ? -1 : syscall(SYS_write, fd, bytes, n); }
ssize_t pwrite(int fd, const void *bytes, size_t n, off_t at) {
    return fails(ENOSPC) ? -1 : syscall(SYS_pwrite64, fd, bytes, n, at);
}
int fdatasync(int fd) { return fails(EIO) ? -1 : (int)syscall(SYS_fdatasync, fd); }
int fsync(int fd) { return fails(EIO) ? -1 : (int)syscall(SYS_fsync, fd); }
int ftruncate(int fd, off_t n) { return fails(ENOSPC) ? -1 : (int)syscall(SYS_ftruncate, fd, n); }
int renameat2(int from, const char *old, int to, const char *new, unsigned flags) {
    return fails(EIO) ? -1 : (int)syscall(SYS_renameat2, from, old, to, new, flags);
}

/* ---- */

enum { ROWS = 520, COLUMNS = 1024 }; /* elements of 4 bytes: slightly more than half a window */

static const char rules_text[] = "mesh tp=2\n"
                                 "ab = cat(0, a, b)            [(_|_)/tp, _]\n"
                                 "woven = interleave(0, 4, c, d)  [_/tp, _]\n"
                                 "turned = transpose(e)        [_, _/tp]\n"
                                 "* [...]\n";

static void write_model(void) {
    static uint32_t data[5 * ROWS * COLUMNS + 4];
    char header[600];
    int n = 0;
    size_t size = (size_t)ROWS * COLUMNS * 4;
    for (size_t i = 0; i < sizeof data / sizeof *data; i++) data[i] = (uint32_t)i * 2654435761u;
    for (int i = 0; i < 5; i++)
        n += snprintf(header + n, sizeof header - (size_t)n,
                      "%s\"%c\":{\"dtype\":\"U32\",\"shape\":[%d,%d],\"data_offsets\":[%zu,%zu]}", i ? "," : "{",
                      'a' + i, ROWS, COLUMNS, (size_t)i * size, (size_t)(i + 1) * size);
    snprintf(header + n, sizeof header - (size_t)n,
             ",\"z\":{\"dtype\":\"U32\",\"shape\":[4],\"data_offsets\":[%zu,%zu]}}", 5 * size, 5 * size + 16);
    write_safetensors("m.safetensors", header, data, sizeof data);
}

static char source[100], target[100], partial[120];

static bool is_there(const char *file) {
    struct stat s;
    return !lstat(file, &s);
}

static rsh_status convert(const rsh_ckpt_rules *rules, bool resume, int64_t fail_at, rsh_convert_report *report) {
    rsh_convert_opts opts = RSH_CONVERT_OPTS_INIT;
    opts.to = rules;
    opts.threads = 1;
    opts.resume = resume;
    calls = 0;
    failing = fail_at;
    rsh_status st = rsh_ckpt_convert(source, target, &opts, report);
    failing = -1;
    return st;
}

/* Checks every element. */
static void expect_result(const rsh_ckpt *mapped) {
    rsh_ckpt *got;
    rsh_ckpt_difference d = RSH_CKPT_DIFFERENCE_INIT;
    must(rsh_ckpt_open(target, NULL, &got));
    must(rsh_ckpt_compare(mapped, got, NULL, &d));
    if (d.found) fail_msg("%s", d.sentence);
    rsh_ckpt_free(got);
}

static void remove_target(void) {
    char command[260];
    snprintf(command, sizeof command, "rm -rf %s %s", target, partial);
    assert_int_equal(system(command), 0);
}

static void whatever_call_fails_the_result_is_complete_or_not_there(void **state) {
    (void)state;
    rsh_ckpt_rules *rules;
    rsh_ckpt *c, *mapped;
    uint64_t most_kept = 0;
    int64_t failed = 0, all;
    write_model();
    snprintf(source, sizeof source, "%s/m.safetensors", folder);
    snprintf(target, sizeof target, "%s/out", folder);
    snprintf(partial, sizeof partial, "%s.reshard-partial", target);
    must(rsh_ckpt_rules_parse(rules_text, "map", &rules));
    must(rsh_ckpt_open(source, NULL, &c));
    must(rsh_ckpt_map(c, rules, &mapped));
    must(convert(rules, false, -1, NULL));
    all = calls;
    expect_result(mapped);
    remove_target();
    for (int64_t k = 0; k < all; k++) {
        rsh_convert_report report = RSH_CONVERT_REPORT_INIT;
        rsh_status st = convert(rules, false, k, &report);
        failed += st != RSH_OK;
        if (st && !strstr(rsh_error_detail(), "is complete")) {
            assert_false(is_there(target));
            must(convert(rules, is_there(partial), -1, &report));
            assert_false(is_there(partial));
            most_kept = report.bytes_kept > most_kept ? report.bytes_kept : most_kept;
        }
        expect_result(mapped);
        remove_target();
    }
    assert_true(failed > all / 2);
    assert_true(most_kept > 0);
    print_message("%lld calls, %lld failed\n", (long long)all, (long long)failed);
    rsh_ckpt_free(mapped);
    rsh_ckpt_free(c);
    rsh_ckpt_rules_free(rules);
}

int main(void) {
    const struct CMUnitTest tests[] = {IN_FOLDER(whatever_call_fails_the_result_is_complete_or_not_there)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
