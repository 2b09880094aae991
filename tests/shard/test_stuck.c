/* Stuck: ranks that are stopped, refuse a run or are in another call.  The others get an error in time, and a job that
 * was suspended as a whole continues. */
#include "scene.h"

#include <math.h>
#include <signal.h>
#include <sys/wait.h>

#include "comm/asleep.h"
#include "comm/impatience.h"

/* ---- refusals ---- */

static bool has_flags_alone(const scene *s) { return s->where == THREADS || s->where == PROCESSES; }

/* Rank 1 has no memory for a part; `k` says on which side. */
static rsh_status run_without(const bound *b, rsh_comm *comm, int k) {
    rsh_memory src = memory_of(b->src), dst = memory_of(b->dst);
    if (rsh_comm_rank(comm) == 1) *(k ? &dst : &src) = (rsh_memory){NULL, NULL};
    return rsh_exec_run_on(b->exec, &src, &dst);
}

static rsh_status check_refusal(const scene *s, rsh_comm *comm, rsh_status st, int k) {
    bool same = has_flags_alone(s) || rsh_comm_rank(comm) == 1;
    CHECK(st == (same ? RSH_EVALUE : RSH_EPEER));
    CHECK(strstr(rsh_error_detail(), k ? "destination part 0 has no memory" : "source part 0 has no memory"));
    CHECK(!has_flags_alone(s) || strstr(rsh_error_detail(), "rank 1: "));
    return RSH_OK;
}

/* If the exec uses only flags, the next run works; with messages the comm has failed. */
static rsh_status one_refuses(void *ctx, rsh_comm *comm) {
    const scene *s = ctx;
    bound b;
    RSH_TRY(bind_on(s, comm, ROWS, COLUMNS, &b));
    for (int k = 0; k < (has_flags_alone(s) ? 6 : 1); k++) {
        RSH_TRY(check_refusal(s, comm, run_without(&b, comm, k % 2), k % 2));
        if (!has_flags_alone(s)) break;
        if (k > 3) RSH_TRY(rsh_comm_barrier(comm));
        memset(memory_of(b.dst).data, 0, (size_t)rsh_tensor_count(rsh_sharded_part(b.dst, 0)) * sizeof(float));
        RSH_TRY(rsh_exec_run(b.exec));
        CHECK(check_result(b.dst) == RSH_OK);
    }
    unbind(&b);
    return RSH_OK;
}
static void a_rank_that_refuses_a_run_tells_the_others_at_once(void **state) {
    (void)state;
    everywhere(one_refuses);
}

/* The sum of all ranks is made in one stage and distributed in the next; a rank may learn of the refusal in either. */
static rsh_status refuses_in_stages(void *ctx, rsh_comm *comm) {
    const scene *s = ctx;
    bound b;
    RSH_TRY(bind_on(s, comm, "f32[64, 64] on x=4 sum(x)", "f32[64, 64] on x=4", &b));
    for (int k = 0; k < (has_flags_alone(s) ? 20 : 1); k++) {
        RSH_TRY(check_refusal(s, comm, run_without(&b, comm, k % 2), k % 2));
        if (has_flags_alone(s)) RSH_TRY(rsh_exec_run(b.exec));
    }
    unbind(&b);
    return RSH_OK;
}
static void a_refusal_goes_through_all_stages(void **state) {
    (void)state;
    everywhere(refuses_in_stages);
}

/* If a neighbour refused a run, the wait for that run says so, whichever run is tested first. */
static rsh_status refuses_among_others(void *ctx, rsh_comm *comm) {
    const scene *s = ctx;
    bound a, b;
    if (!has_flags_alone(s)) return RSH_OK;
    RSH_TRY(bind_on(s, comm, ROWS, COLUMNS, &a));
    RSH_TRY(bind_on(s, comm, COLUMNS, ROWS, &b));
    bool odd = rsh_comm_rank(comm) == 1;
    for (int k = 0; k < 10; k++) {
        RSH_TRY(rsh_exec_begin(a.exec));
        rsh_status st = odd ? run_without(&b, comm, 0) : rsh_exec_begin(b.exec);
        if (!odd && !st && k % 2) RSH_TRY(rsh_exec_wait(a.exec));
        if (!odd && !st) st = rsh_exec_wait(b.exec);
        RSH_TRY(check_refusal(s, comm, st, 0));
        RSH_TRY(rsh_exec_wait(a.exec));
        CHECK(check_result(a.dst) == RSH_OK);
    }
    unbind(&a);
    unbind(&b);
    return RSH_OK;
}
static void a_refusal_is_told_by_the_run_that_was_refused(void **state) {
    (void)state;
    everywhere(refuses_among_others);
}

/* ---- another call ---- */

/* Rank 1 makes one run fewer.  The others must notice before RESHARD_TIMEOUT, which is half an hour. */
static rsh_status one_run_fewer(void *ctx, rsh_comm *comm) {
    const scene *s = ctx;
    bound b;
    /* there barriers use the wire, and other ranks cannot see who is in one */
    if (s->where >= NODES_OF_TWO) return RSH_OK;
    RSH_TRY(bind_on(s, comm, ROWS, COLUMNS, &b));
    RSH_TRY(rsh_exec_run(b.exec));
    rsh_status st = rsh_comm_rank(comm) == 1 ? rsh_comm_barrier(comm) : rsh_exec_run(b.exec);
    CHECK(st == RSH_EPEER || (st == RSH_EMISMATCH && rsh_comm_rank(comm) != 1));
    CHECK(strstr(rsh_error_detail(), "waits for rank 1, which is in a different collective call"));
    unbind(&b);
    return RSH_OK;
}
static void a_rank_with_one_run_fewer_is_found_at_once(void **state) {
    (void)state;
    everywhere(one_run_fewer);
}

/* A rank that tests does not wait, so other ranks may be in a barrier meanwhile. */
static rsh_status tests_before_a_barrier(void *ctx, rsh_comm *comm) {
    bound b;
    bool done = false;
    RSH_TRY(bind_on(ctx, comm, ROWS, COLUMNS, &b));
    for (int k = 0; k < 10; k++) {
        RSH_TRY(rsh_exec_begin(b.exec));
        for (int i = 0; i < 20 * rsh_comm_rank(comm); i++) RSH_TRY(rsh_exec_test(b.exec, &done));
        RSH_TRY(rsh_comm_barrier(comm));
        RSH_TRY(rsh_exec_wait(b.exec));
        CHECK(check_result(b.dst) == RSH_OK);
    }
    unbind(&b);
    return RSH_OK;
}
static void a_barrier_between_begin_and_wait_is_no_mismatch(void **state) {
    (void)state;
    everywhere(tests_before_a_barrier);
}

/* ---- ranks that are stopped ---- */

/* Data that the processes of a job share. */
typedef struct board {
    scene scene;
    _Atomic pid_t pid[RANKS];
    atomic_int barrier, stopped, arrived;
    double timeout; /* timeout of rank 0 in seconds */
    double took;    /* seconds that rank 0 has waited */
} board;

static board *new_board(where where, double timeout) {
    board *b = mmap(NULL, sizeof *b, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true((void *)b != MAP_FAILED);
    b->scene.where = where;
    b->timeout = timeout;
    return b;
}

/* Waits until a rank is stopped; returns false if it has ended instead. */
static bool await_stopped(board *w, int rank) {
    while (!atomic_load(&w->pid[rank])) usleep(1000);
    for (;; usleep(1000)) {
        char state = state_of(atomic_load(&w->pid[rank]));
        if (state == 'T' || state == 'Z' || !state) return state == 'T';
    }
}

/* A busy machine may delay a rank by more than a timeout.  So what must end in time is tried again with twice the
 * timeout, up to half a minute. */
#define TIMEOUT 0.6 /* seconds, of the first attempt */
#define LONG 2.5    /* timeouts: more than one stuck rank takes, and less than one for each of three ranks */
enum { ATTEMPTS = 7 };

/* Ranks 1 to 3 stop before the run; rank 0 lets them continue when it has its error. */
static rsh_status three_are_stopped(void *ctx, rsh_comm *comm) {
    board *w = ctx;
    bound b;
    int rank = rsh_comm_rank(comm);
    RSH_TRY(bind_on(&w->scene, comm, ROWS, COLUMNS, &b));
    atomic_store(&w->pid[rank], getpid());
    if (rank) raise(SIGSTOP);
    for (int r = 1; !rank && r < RANKS; r++) await_stopped(w, r);
    if (!rank) set_timeout(comm, w->timeout);
    double start = rshi_seconds();
    rsh_status st = rsh_exec_run(b.exec);
    if (!rank) w->took = rshi_seconds() - start;
    char sentence[512];
    snprintf(sentence, sizeof sentence, "%s", rsh_error_detail());
    for (int r = 1; !rank && r < RANKS; r++) kill(atomic_load(&w->pid[r]), SIGCONT);
    unbind(&b);
    rshi_set_detail(sentence);
    CHECK(st == (rank ? RSH_EPEER : RSH_ETIMEOUT));
    if (rank) return RSH_OK;
    CHECK(strstr(sentence, "did not answer for"));
    return RSH_OK;
}
/* Returns for how many of its timeouts rank 0 waits. */
static double timeouts_stuck(where where, double timeout) {
    board *b = new_board(where, timeout);
    alarm(PATIENCE);
    rsh_status st = rsh_run_shm(RANKS, three_are_stopped, b);
    if (st) fail_msg("%s: %s", names[where], rsh_error_detail());
    alarm(0);
    double took = b->took / timeout;
    munmap(b, sizeof *b);
    return took;
}
static void the_number_of_stuck_ranks_does_not_matter(void **state) {
    (void)state;
    for (where w = PROCESSES; w <= PROCESSES_BY_MESSAGE; w++) {
        int attempt = 0;
        while (attempt < ATTEMPTS && timeouts_stuck(w, ldexp(TIMEOUT, attempt)) > LONG) attempt++;
        if (attempt == ATTEMPTS) fail_msg("%s: one timeout for each stuck rank", names[w]);
    }
}

/* A child of rank 1 stops both ranks for longer than the timeout of rank 0, while rank 0 waits, unless rank 0 has timed
 * out before. */
static void suspend(board *w) {
    pid_t child = fork();
    if (child == 0) {
        await_asleep(atomic_load(&w->pid[0]));
        for (int r = 0; r < 2; r++) kill(atomic_load(&w->pid[r]), SIGSTOP);
        if (await_stopped(w, 0) && await_stopped(w, 1)) {
            atomic_store(&w->stopped, 1);
            usleep((useconds_t)(1.25e6 * w->timeout));
        }
        for (int r = 0; r < 2; r++) kill(atomic_load(&w->pid[r]), SIGCONT);
        _exit(0);
    }
    int status;
    while (waitpid(child, &status, 0) != child) {}
}

static rsh_status is_suspended(void *ctx, rsh_comm *comm) {
    board *w = ctx;
    bound b;
    int rank = rsh_comm_rank(comm);
    RSH_TRY(bind_on(&w->scene, comm, "f32[64/x, 64] on x=2", "f32[64, 64/x] on x=2", &b));
    atomic_store(&w->pid[rank], getpid());
    if (!rank) set_timeout(comm, w->timeout);
    if (rank) {
        while (!atomic_load(&w->pid[0])) usleep(1000);
        suspend(w);
    }
    /* a barrier waits in another way than a run */
    rsh_status st = atomic_load(&w->barrier) ? rsh_comm_barrier(comm) : RSH_OK;
    if (!st) st = rsh_exec_run(b.exec);
    if (!st) CHECK(check_result(b.dst) == RSH_OK);
    if (!st && atomic_load(&w->stopped)) atomic_fetch_add(&w->arrived, 1);
    unbind(&b);
    return st == RSH_ETIMEOUT || st == RSH_EPEER ? RSH_OK : st; /* rank 0 timed out before */
}

/* Returns whether the job was suspended and then continued on both ranks. */
static bool goes_on(int barrier, double timeout) {
    board *b = new_board(PROCESSES, timeout);
    atomic_store(&b->barrier, barrier);
    alarm(PATIENCE);
    rsh_status st = rsh_run_shm(2, is_suspended, b);
    if (st) fail_msg("%s", rsh_error_detail());
    alarm(0);
    bool both = atomic_load(&b->arrived) == 2;
    munmap(b, sizeof *b);
    return both;
}
static void a_job_that_was_suspended_goes_on(void **state) {
    (void)state;
    for (int k = 0; k < 2; k++) {
        int attempt = 0;
        while (attempt < ATTEMPTS && !goes_on(k, ldexp(TIMEOUT, attempt))) attempt++;
        if (attempt == ATTEMPTS) fail_msg("rank 0 counts the time in which it was stopped");
    }
}

/* Every wait depends on this, including those on wires. */
static void a_watch_counts_little_of_a_jump_of_the_clock(void **state) {
    (void)state;
    rshi_watch w = {0};
    assert_true(rshi_watch_look(&w, RSHI_WATCH_STEP) == 0);
    w.last -= 3600;
    double waited = rshi_watch_look(&w, RSHI_WATCH_STEP);
    assert_true(waited == RSHI_WATCH_STEP);
    usleep(20000);
    assert_true(rshi_watch_look(&w, RSHI_WATCH_STEP) >= waited + 0.02);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_rank_that_refuses_a_run_tells_the_others_at_once),
        cmocka_unit_test(a_refusal_goes_through_all_stages),
        cmocka_unit_test(a_refusal_is_told_by_the_run_that_was_refused),
        cmocka_unit_test(a_rank_with_one_run_fewer_is_found_at_once),
        cmocka_unit_test(a_barrier_between_begin_and_wait_is_no_mismatch),
        cmocka_unit_test(the_number_of_stuck_ranks_does_not_matter),
        cmocka_unit_test(a_job_that_was_suspended_goes_on),
        cmocka_unit_test(a_watch_counts_little_of_a_jump_of_the_clock),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
