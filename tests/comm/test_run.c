/* rsh_run: ranks as threads, and what happens to their failures. */
#include "ranks.h"
#include "sanitized.h"

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static rsh_status marks_itself(void *ctx, rsh_comm *c) {
    atomic_int *seen = ctx;
    atomic_fetch_add(&seen[rsh_comm_rank(c)], 1);
    return RSH_OK;
}
static void every_rank_runs_once(void **state) {
    (void)state;
    static const int counts[] = {1, 2, 3, 64, 1000};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        atomic_int seen[1000] = {0};
        run_ranks(counts[i], marks_itself, seen);
        for (int r = 0; r < 1000; r++) assert_int_equal(seen[r], r < counts[i]);
    }
}

/* The other ranks fail when they learn that rank 2 has failed. */
static rsh_status fails_in_turn(void *ctx, rsh_comm *c) {
    (void)ctx;
    if (rsh_comm_rank(c) != 2) CHECK_STATUS(RSH_EPEER, rsh_comm_barrier(c));
    return rshi_fail(rsh_comm_rank(c) == 2 ? RSH_EINDEX : RSH_EVALUE, "rank %d was here", rsh_comm_rank(c));
}
static void the_first_failure_in_time_is_the_callers(void **state) {
    (void)state;
    assert_int_equal(rsh_run(4, fails_in_turn, NULL), RSH_EINDEX);
    assert_string_equal(rsh_error_detail(), "rank 2 was here");
}

static rsh_status fails_silently(void *ctx, rsh_comm *c) {
    (void)ctx;
    return rsh_comm_rank(c) == 1 ? RSH_EKEY : RSH_OK;
}
static void a_failure_without_a_sentence_gets_one_that_names_the_rank(void **state) {
    (void)state;
    rshi_fail(RSH_EVALUE, "something older");
    assert_int_equal(rsh_run(2, fails_silently, NULL), RSH_EKEY);
    assert_string_equal(rsh_error_detail(), "rank 1 returned RSH_EKEY");
    assert_int_equal(rsh_run_shm(2, fails_silently, NULL), RSH_EKEY);
    assert_string_equal(rsh_error_detail(), "rank 1 returned RSH_EKEY");
}

static rsh_status fails_in_own_words(void *ctx, rsh_comm *c) {
    (void)ctx;
    return rsh_comm_rank(c) == 1 ? rsh_fail(RSH_EIO, "the tape is torn") : RSH_OK;
}
static void a_rank_leaves_a_sentence_of_its_own(void **state) {
    (void)state;
    assert_int_equal(rsh_run(2, fails_in_own_words, NULL), RSH_EIO);
    assert_string_equal(rsh_error_detail(), "the tape is torn");
    assert_int_equal(rsh_fail(RSH_OK, "all is well"), RSH_EVALUE);
    assert_string_equal(rsh_error_detail(), "status must be an error code, got 0");
    assert_int_equal(rsh_fail((rsh_status)99, "what is this?"), RSH_EVALUE);
}

static rsh_comm *kept;
static bool busy;
static rsh_status check_idle(const void *attached) {
    (void)attached;
    return busy ? rshi_fail(RSH_EBUSY, "an exec is alive") : RSH_OK;
}
static void free_nothing(void *attached) { (void)attached; }
static const rshi_attached_ops ops = {check_idle, free_nothing};

static rsh_status keeps_an_exec(void *ctx, rsh_comm *c) {
    (void)ctx;
    if (rsh_comm_rank(c) == 1) {
        busy = true;
        c->attached = &busy;
        c->attached_ops = &ops;
        kept = c;
        return RSH_OK;
    }
    rsh_status st = rsh_comm_barrier(c);
    CHECK(st == RSH_EPEER);
    return RSH_OK;
}
static void a_rank_that_returns_with_an_exec_alive_is_busy_but_has_left(void **state) {
    (void)state;
    assert_int_equal(rsh_run(3, keeps_an_exec, NULL), RSH_EBUSY);
    busy = false;
    assert_int_equal(rsh_comm_free(kept), RSH_OK);
}

static void bad_arguments_are_refused(void **state) {
    (void)state;
    assert_int_equal(rsh_run(0, marks_itself, NULL), RSH_EVALUE);
    assert_int_equal(rsh_run(2, NULL, NULL), RSH_EVALUE);
}

static rsh_status waits_for_all(void *ctx, rsh_comm *c) {
    (void)ctx;
    rsh_status st = rsh_comm_barrier(c);
    CHECK(st == RSH_EPEER);
    CHECK_SAYS("cannot start a thread for rank");
    return RSH_OK;
}

/* Runs in a separate process that has address space for a few stacks only. */
static int run_without_room(void) {
    struct rlimit limit = {(rlim_t)64 << 20, (rlim_t)64 << 20};
    if (setrlimit(RLIMIT_AS, &limit)) return 1;
    if (rsh_run(64, waits_for_all, NULL) != RSH_ERUNTIME) return 2;
    return strstr(rsh_error_detail(), "cannot start a thread for rank") ? 0 : 3;
}
static void threads_that_cannot_be_made_bring_the_others_back(void **state) {
    (void)state;
#ifdef SANITIZED
    skip_test("sanitizer", "a sanitizer needs more address space than this test leaves; the plain build runs it");
#endif
    pid_t child = fork();
    if (!child) _exit(run_without_room());
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_rank_runs_once),
        cmocka_unit_test(the_first_failure_in_time_is_the_callers),
        cmocka_unit_test(a_failure_without_a_sentence_gets_one_that_names_the_rank),
        cmocka_unit_test(a_rank_leaves_a_sentence_of_its_own),
        cmocka_unit_test(a_rank_that_returns_with_an_exec_alive_is_busy_but_has_left),
        cmocka_unit_test(bad_arguments_are_refused),
        cmocka_unit_test(threads_that_cannot_be_made_bring_the_others_back),
    };
    return exit_status(cmocka_run_group_tests(tests, NULL, NULL));
}
