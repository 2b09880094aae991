/* Ends of a team's runs: refusals, timeouts and failures, if some members only read and have no peer in common. */
#include "one_core.h"

#include <math.h>
#include <time.h>

#include "comm/impatience.h"
#include "shard/team.h"

#define MEMBERS 6
#define FEW "f32[40/x, 36] on x=2"
#define MANY "f32[40, 36/x] on x=6"

static rsh_status bind_readers(rsh_comm *comm, bound *b) {
    RSH_TRY(bind_on(&(scene){.where = THREADS}, comm, FEW, MANY, b));
    CHECK(b->exec->team);
    return RSH_OK;
}

static void pause_for(long milliseconds) { nanosleep(&(struct timespec){0, milliseconds * 1000000}, NULL); }

/* ---- refusals ---- */

/* The mistakes of rank 5 in the first and in the second of two runs, and the error messages for them. */
static const char *const complaints[2] = {"rank 5: destination part 0 has no memory",
                                          "rank 5: run_on: expected memory for 0 source and 1 destination parts, got "
                                          "NULL"};

static rsh_status run_refused(const bound *b, rsh_comm *comm, int k) {
    rsh_memory src = memory_of(b->src), dst = memory_of(b->dst), none = {NULL, NULL};
    const rsh_memory *wrong = k ? NULL : &none;
    CHECK(rsh_exec_run_on(b->exec, &src, rsh_comm_rank(comm) == 5 ? wrong : &dst) == RSH_EVALUE);
    CHECK(strstr(rsh_error_detail(), complaints[k]));
    return RSH_OK;
}

/* Rank 4 is slow, and rank 5 might already be in its second run; each run must still have its own refusal. */
static rsh_status refuse_twice(void *ctx, rsh_comm *comm) {
    bound b;
    (void)ctx;
    RSH_TRY(bind_readers(comm, &b));
    for (int i = 0; i < 10; i++) {
        if (rsh_comm_rank(comm) == 4) pause_for(20);
        RSH_TRY(run_refused(&b, comm, 0));
        RSH_TRY(run_refused(&b, comm, 1));
        memset(memory_of(b.dst).data, 0xff, (size_t)rsh_tensor_count(rsh_sharded_part(b.dst, 0)) * sizeof(float));
        RSH_TRY(rsh_exec_run(b.exec));
        CHECK(check_result(b.dst) == RSH_OK);
    }
    unbind(&b);
    return RSH_OK;
}

static void every_run_has_its_own_refusal(void **state) {
    (void)state;
    on_ranks(MEMBERS, refuse_twice);
}

/* ---- timeouts ---- */

static atomic_int *given_up; /* [0]: ranks that have given up; [1]: those of them that got RSH_ETIMEOUT */
static double timeout;       /* in seconds */

static void on_both(rsh_rank_fn fn) {
    given_up = shared_memory(2 * sizeof *given_up);
    on_threads(MEMBERS, fn);
    atomic_store(given_up, 0);
    on_processes(MEMBERS, fn);
    munmap(given_up, 2 * sizeof *given_up);
}

static rsh_status finish_by_tests(rsh_exec *e) {
    rsh_status st = RSH_OK;
    for (bool done = false; !st && !done;) st = rsh_exec_test(e, &done);
    return st;
}

/* Waits for a run alone, among other runs in progress, or by testing repeatedly. */
static rsh_status wait_in_some_way(bound b[2], int way) {
    RSH_TRY(rsh_exec_begin(b[0].exec));
    if (way == 1) RSH_TRY(rsh_exec_begin(b[1].exec));
    return way == 2 ? finish_by_tests(b[0].exec) : rsh_exec_wait(b[0].exec);
}

/* Rank 5 never enters the run.  Each rank that waits for it names it in its error and gets its memory back.  A rank
 * that arrives after another has given up gets the error from that rank. */
static rsh_status wait_in_vain(void *ctx, rsh_comm *comm) {
    bound b[2];
    (void)ctx;
    for (int i = 0; i < 2; i++) RSH_TRY(bind_readers(comm, &b[i]));
    if (rsh_comm_rank(comm) == 5) {
        while (atomic_load(given_up) < MEMBERS - 1) pause_for(5);
        CHECK(atomic_load(&given_up[1]) > 0);
    } else {
        set_timeout(comm, timeout);
        rsh_status st = wait_in_some_way(b, rsh_comm_rank(comm) % 3);
        if (st == RSH_ETIMEOUT) atomic_fetch_add(&given_up[1], 1);
        atomic_fetch_add(given_up, 1);
        CHECK(st == RSH_ETIMEOUT || (st == RSH_EPEER && strstr(rsh_error_detail(), "RSH_ETIMEOUT")));
        CHECK(strstr(rsh_error_detail(), "rank 5 did not answer"));
        CHECK(!strstr(rsh_error_detail(), "may still read"));
    }
    for (int i = 0; i < 2; i++) unbind(&b[i]);
    return RSH_OK;
}

static rsh_status run_in_vain(bool processes, double seconds) {
    int n = MEMBERS;
    timeout = seconds;
    for (int i = 0; i < 2; i++) atomic_store(&given_up[i], 0);
    alarm(PATIENCE);
    rsh_status st = processes ? rsh_run_shm(n, wait_in_vain, &n) : rsh_run(n, wait_in_vain, &n);
    alarm(0);
    return st;
}

/* On a busy machine another rank may answer so late that it is named too, which is correct.  So each attempt has twice
 * the timeout of the one before, up to half a minute. */
static void a_rank_that_never_comes_is_named_by_all(void **state) {
    (void)state;
    given_up = shared_memory(2 * sizeof *given_up);
    for (int processes = 0; processes < 2; processes++) {
        rsh_status st = RSH_ERUNTIME;
        for (int i = 0; st && i < 7; i++) st = run_in_vain(processes, ldexp(0.5, i));
        if (st) fail_msg("%s: %s: %s", processes ? "processes" : "threads", rsh_status_name(st), rsh_error_detail());
    }
    munmap(given_up, 2 * sizeof *given_up);
}

/* ---- failures ---- */

/* Rank 3 enters the run and fails before rank 5 enters it: all ranks have then begun the run, but it never
 * completes. */
static rsh_status come_and_fail(void *ctx, rsh_comm *comm) {
    bound b[2];
    int rank = rsh_comm_rank(comm);
    (void)ctx;
    for (int i = 0; i < 2; i++) RSH_TRY(bind_readers(comm, &b[i]));
    while (rank == 5 && !atomic_load(given_up)) pause_for(5);
    if (rank == 3) {
        RSH_TRY(rsh_exec_begin(b[0].exec));
        rshi_comm_abandon(comm, rshi_fail(RSH_ERUNTIME, "rank 3 has had enough"));
        CHECK(rsh_exec_wait(b[0].exec) == RSH_ERUNTIME);
        atomic_store(given_up, 1);
    } else {
        CHECK(wait_in_some_way(b, rank % 3) == RSH_EPEER);
        CHECK(strstr(rsh_error_detail(), "rank 3 has had enough"));
    }
    for (int i = 0; i < 2; i++) unbind(&b[i]);
    return RSH_OK;
}

static void a_member_that_fails_when_it_has_come_is_missed(void **state) {
    (void)state;
    on_both(come_and_fail);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        ON_ONE_CORE(every_run_has_its_own_refusal),
        ON_ONE_CORE(a_rank_that_never_comes_is_named_by_all),
        ON_ONE_CORE(a_member_that_fails_when_it_has_come_is_missed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
