/* Failure: ranks that leave, time out or run out of memory.  No rank hangs and nothing leaks. */
#include "impatience.h"
#include "ranks.h"

#include <unistd.h>

/* ---- leaving ---- */

static rsh_status first_gives_up(void *ctx, rsh_comm *c) {
    (void)ctx;
    if (rsh_comm_rank(c) == 1) {
        usleep(2000);
        return rshi_fail(RSH_EIO, "the disk is full");
    }
    CHECK_STATUS(RSH_EPEER, rsh_comm_barrier(c));
    CHECK_SAYS("rank 1");
    CHECK_SAYS("RSH_EIO");
    CHECK_SAYS("the disk is full");
    CHECK_STATUS(RSH_EPEER, rsh_comm_barrier(c)); /* the comm has failed permanently */
    CHECK_SAYS("the disk is full");
    return RSH_OK;
}
static void a_rank_that_returns_while_others_wait_gives_them_epeer(void **state) {
    (void)state;
    for (int n = 2; n <= (here->wire ? MOST_ON_WIRES : 64); n *= 2) {
        assert_int_equal(run_here(n, first_gives_up, NULL), RSH_EIO);
        assert_string_equal(rsh_error_detail(), "the disk is full");
    }
}

static rsh_status leaves_quietly(void *ctx, rsh_comm *c) {
    (void)ctx;
    if (rsh_comm_rank(c) == 0) return RSH_OK;
    CHECK_STATUS(RSH_EPEER, rsh_comm_exchange(c, 0, NULL, 0, NULL));
    CHECK_SAYS("rank 0 has left");
    return RSH_OK;
}
static void a_rank_that_returns_without_an_error_has_left(void **state) {
    (void)state;
    run_ranks(4, leaves_quietly, NULL);
}

/* Rank 2 fails, rank 1 waits for rank 2, and rank 0 waits for rank 1: all learn which rank failed first. */
static rsh_status chain(void *ctx, rsh_comm *c) {
    rshi_flag *flags = ctx;
    int me = rsh_comm_rank(c);
    if (me == 2) return rshi_fail(RSH_EKEY, "no such layer");
    CHECK_STATUS(RSH_EPEER, rshi_comm_verdict(c, c->ops->wait(c, me + 1, &flags[me + 1], 1)));
    CHECK_SAYS("rank 2 failed with RSH_EKEY: no such layer");
    return RSH_EPEER;
}
static void a_failure_is_passed_on_with_the_rank_that_began_it(void **state) {
    (void)state;
    if (!on_one_node()) return;
    rshi_flag flags[3] = {0};
    assert_int_equal(run_here(3, chain, flags), RSH_EKEY);
    assert_string_equal(rsh_error_detail(), "no such layer");
}

/* Values that a rank posted before it left are still valid. */
static rsh_status posts_then_leaves(void *ctx, rsh_comm *c) {
    rshi_flag *flag = ctx;
    if (rsh_comm_rank(c) == 0) {
        c->ops->post(c, flag, 5);
        return RSH_OK;
    }
    usleep(20000);
    CHECK_STATUS(RSH_OK, c->ops->wait(c, 0, flag, 5));
    CHECK_STATUS(RSH_EPEER, c->ops->wait(c, 0, flag, 6));
    return RSH_OK;
}
static void a_flag_that_was_posted_before_its_owner_left_counts(void **state) {
    (void)state;
    if (!on_one_node()) return;
    rshi_flag flag = {0};
    run_ranks(4, posts_then_leaves, &flag);
}

/* Random ranks leave after a random number of calls; all other ranks return too. */
static rsh_status leaves_at_random(void *ctx, rsh_comm *c) {
    uint64_t s = *(uint64_t *)ctx + (uint64_t)rsh_comm_rank(c) * 977;
    int calls = (int)(draw(&s) % 30);
    for (int i = 0; i < calls; i++) {
        rsh_status st = rsh_comm_barrier(c);
        CHECK(st == RSH_OK || st == RSH_EPEER);
        if (st) return RSH_OK;
    }
    return RSH_OK;
}
static void ranks_that_leave_at_random_hang_nobody(void **state) {
    (void)state;
    uint64_t seed = test_seed(7);
    for (int i = 0; i < 200; i++, seed++) run_ranks(2 + i % 7, leaves_at_random, &seed);
}

/* ---- time ---- */

#define TIMEOUT 0.2 /* timeout of rank 0 in seconds */

/* Rank 1 arrives only after rank 0 has given up. */
static rsh_status one_is_late(void *ctx, rsh_comm *c) {
    atomic_bool *gave_up = ctx;
    if (rsh_comm_rank(c) == 1) {
        while (!atomic_load(gave_up)) usleep(1000);
        CHECK_STATUS(RSH_EPEER, rsh_comm_barrier(c));
        CHECK_SAYS("rank 0 failed with RSH_ETIMEOUT");
        return RSH_OK;
    }
    set_timeout(c, TIMEOUT);
    rsh_status st = rsh_comm_barrier(c);
    atomic_store(gave_up, true);
    CHECK(st == RSH_ETIMEOUT);
    CHECK_SAYS("rank 1 ");
    CHECK_STATUS(RSH_ETIMEOUT, rsh_comm_barrier(c));
    return RSH_OK;
}

typedef struct silence {
    rshi_flag flag;
    atomic_bool gave_up;
} silence;

static rsh_status never_posts(void *ctx, rsh_comm *c) {
    silence *s = ctx;
    if (rsh_comm_rank(c) == 1) {
        while (!atomic_load(&s->gave_up)) usleep(1000);
        return RSH_OK;
    }
    set_timeout(c, TIMEOUT);
    rsh_status st = c->ops->wait(c, 1, &s->flag, 1);
    atomic_store(&s->gave_up, true);
    CHECK(st == RSH_ETIMEOUT);
    CHECK_SAYS("rank 1 ");
    return RSH_OK;
}

static void run_impatiently(rsh_rank_fn fn, void *ctx) {
    double start = rshi_seconds();
    rsh_status st = run_here(2, fn, ctx);
    double took = rshi_seconds() - start;
    if (st) fail_msg("%s", rsh_error_detail());
    assert_true(took >= TIMEOUT);
}
static void a_late_rank_is_a_timeout_that_names_it(void **state) {
    (void)state;
    atomic_bool gave_up = false;
    run_impatiently(one_is_late, &gave_up);
}
static void a_flag_that_is_never_posted_is_a_timeout(void **state) {
    (void)state;
    if (!on_one_node()) return;
    silence s = {0};
    run_impatiently(never_posts, &s);
}

static void a_timeout_that_is_not_a_number_is_refused(void **state) {
    (void)state;
    static const char *const bad[] = {"soon", "-1", "0", "nan", "1s"};
    rsh_comm *c = NULL;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        setenv("RESHARD_TIMEOUT", bad[i], 1);
        assert_int_equal(rsh_comm_threads(1, &c), RSH_EVALUE);
        assert_non_null(strstr(rsh_error_detail(), bad[i]));
    }
    unsetenv("RESHARD_TIMEOUT");
}

/* ---- memory ---- */

typedef struct shortage {
    int who;       /* the rank whose allocation fails */
    int64_t which; /* number of its allocation that fails */
    int call;      /* 0 allgather, 1 allreduce, 2 exchange, 3 split */
    atomic_bool happened;
} shortage;

static rsh_status call_number(int call, rsh_comm *c, rsh_comm **sub) {
    enum { BYTES = 8192 };
    int n = rsh_comm_size(c);
    char *mine = calloc(1, BYTES), *all = calloc((size_t)n, BYTES);
    rsh_message send = {(rsh_comm_rank(c) + 1) % n, mine, 8}, recv = {(rsh_comm_rank(c) + n - 1) % n, all, 8};
    rsh_status st = call == 0   ? rsh_comm_allgather(c, mine, all, BYTES)
                    : call == 1 ? rsh_comm_allreduce(c, mine, all, 1024, RSH_F64, RSH_OP_SUM)
                    : call == 2 ? rsh_comm_exchange(c, 1, &send, 1, &recv)
                                : rsh_comm_split(c, rsh_comm_rank(c) % 2, 0, sub);
    free(mine);
    free(all);
    return st;
}

static rsh_status runs_short(void *ctx, rsh_comm *c) {
    shortage *s = ctx;
    rsh_comm *sub = NULL;
    if (rsh_comm_rank(c) == s->who) rsh_alloc_fail_at(s->which);
    rsh_status st = call_number(s->call, c, &sub);
    rsh_alloc_fail_at(-1);
    CHECK(st == RSH_OK || st == RSH_ENOMEM);
    if (s->call == 3) CHECK(!st == !!sub);
    if (st) atomic_store(&s->happened, true);
    if (st) CHECK_SAYS("memory");
    RSH_TRY(rsh_comm_free(sub));
    sub = NULL;
    /* The ranks agree on whether the call failed, and the comm still works. */
    int32_t mine = st, low, high;
    RSH_TRY(rsh_comm_allreduce(c, &mine, &low, 1, RSH_I32, RSH_OP_MIN));
    RSH_TRY(rsh_comm_allreduce(c, &mine, &high, 1, RSH_I32, RSH_OP_MAX));
    CHECK(low == high);
    RSH_TRY(call_number(s->call, c, &sub));
    return rsh_comm_free(sub);
}
static void a_rank_without_memory_gives_all_enomem_and_the_comm_goes_on(void **state) {
    (void)state;
    for (int n = 1; n <= 4; n++)
        for (int call = 0; call < 4; call++)
            for (int who = 0; who < n; who++) {
                shortage s = {.who = who, .call = call, .happened = true};
                for (s.which = 0; s.happened; s.which++) {
                    s.happened = false;
                    run_ranks(n, runs_short, &s);
                }
                assert_true(s.which >= 2); /* each of these calls allocates memory */
            }
}

static rsh_status does_nothing(void *ctx, rsh_comm *c) {
    (void)ctx, (void)c;
    return RSH_OK;
}
static void making_comms_and_running_survive_every_failed_allocation(void **state) {
    (void)state;
    rsh_status st = RSH_ENOMEM;
    for (int64_t which = 0; st; which++) {
        rsh_comm *comms[4];
        rsh_alloc_fail_at(which);
        st = rsh_comm_threads(4, comms);
        rsh_alloc_fail_at(-1);
        assert_true(st == RSH_OK || st == RSH_ENOMEM);
        for (int r = 0; !st && r < 4; r++) assert_int_equal(rsh_comm_free(comms[r]), RSH_OK);
    }
    st = RSH_ENOMEM;
    for (int64_t which = 0; st; which++) {
        rsh_alloc_fail_at(which);
        st = rsh_run(3, does_nothing, NULL);
        rsh_alloc_fail_at(-1);
        assert_true(st == RSH_OK || st == RSH_ENOMEM);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_rank_that_returns_while_others_wait_gives_them_epeer),
        cmocka_unit_test(a_rank_that_returns_without_an_error_has_left),
        cmocka_unit_test(a_failure_is_passed_on_with_the_rank_that_began_it),
        cmocka_unit_test(a_flag_that_was_posted_before_its_owner_left_counts),
        cmocka_unit_test(ranks_that_leave_at_random_hang_nobody),
        cmocka_unit_test(a_late_rank_is_a_timeout_that_names_it),
        cmocka_unit_test(a_flag_that_is_never_posted_is_a_timeout),
        cmocka_unit_test(a_timeout_that_is_not_a_number_is_refused),
        cmocka_unit_test(a_rank_without_memory_gives_all_enomem_and_the_comm_goes_on),
        cmocka_unit_test(making_comms_and_running_survive_every_failed_allocation),
    };
    return RUN_EVERYWHERE(tests);
}
