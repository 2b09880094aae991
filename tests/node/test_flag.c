/* Flags and handles, which execs are built on. */
#include "comm/ranks.h"

#include <unistd.h>

/* Each rank owns a flag and a number.  In step k it writes the number, posts, waits for the others and reads their
 * numbers.  It does so twice per step, so that no rank writes while others read. */
typedef struct corner {
    rshi_flag written, read;
    int64_t number; /* a plain variable, because the flags order the accesses */
} corner;

static rsh_status meet_through_flags(rsh_comm *c, corner *mine, corner *const *corners, int steps) {
    int n = rsh_comm_size(c);
    for (int k = 1; k <= steps; k++) {
        mine->number = (int64_t)k * n + rsh_comm_rank(c);
        c->ops->post(c, &mine->written, (uint64_t)k);
        for (int p = 0; p < n; p++) {
            RSH_TRY(c->ops->wait(c, p, &corners[p]->written, (uint64_t)k));
            CHECK(corners[p]->number == (int64_t)k * n + p);
        }
        c->ops->post(c, &mine->read, (uint64_t)k);
        for (int p = 0; p < n; p++) RSH_TRY(c->ops->wait(c, p, &corners[p]->read, (uint64_t)k));
    }
    return RSH_OK;
}

static rsh_status steps(void *ctx, rsh_comm *c) {
    (void)ctx;
    enum { MOST = 64 };
    corner *mine = c->ops->shared_alloc(c, sizeof *mine), *corners[MOST];
    CHECK(mine && (uintptr_t)mine % 64 == 0 && !mine->number);
    rshi_handle handle, handles[MOST];
    RSH_TRY(c->ops->publish(c, mine, sizeof *mine, &handle));
    RSH_TRY(rsh_comm_allgather(c, &handle, handles, sizeof handle));
    for (int p = 0; p < rsh_comm_size(c); p++) corners[p] = c->ops->reach(c, p, handles[p]);
    rsh_status st = meet_through_flags(c, mine, corners, rsh_comm_size(c) > 8 ? 20 : 500);
    rsh_status met = rsh_comm_agree(c, st);
    c->ops->shared_free(c, mine, sizeof *mine);
    return met;
}
static void flags_order_plain_memory_between_ranks(void **state) {
    (void)state;
    run_all_counts(steps, NULL);
}

/* The waiter sleeps when the post happens, and the post wakes it.  Sleeps are longer than the test's time limit, so
 * that a lost wake-up hangs. */
static rsh_status sleeps(void *ctx, rsh_comm *c) {
    rshi_flag *flags = ctx; /* [ranks] */
    enum { TIMES = 20 };
    c->here->world->patience.nap = c->patience.nap = 1000;
    for (uint64_t k = 1; k <= TIMES; k++) {
        if (rsh_comm_rank(c) == 0) {
            while (!atomic_load(&flags[0].sleepers)) usleep(100);
            c->ops->post(c, &flags[0], k);
            RSH_TRY(c->ops->wait(c, 1, &flags[1], k));
        } else {
            RSH_TRY(c->ops->wait(c, 0, &flags[0], k));
            c->ops->post(c, &flags[1], k);
        }
    }
    return RSH_OK;
}
static void a_sleeper_is_woken_by_the_post(void **state) {
    (void)state;
    rshi_flag flags[2] = {0};
    alarm(60);
    run_ranks(2, sleeps, flags);
    alarm(0);
}

static rsh_status passes_2_to_the_32(void *ctx, rsh_comm *c) {
    rshi_flag *flag = ctx;
    uint64_t target = ((uint64_t)1 << 32) + 5;
    if (rsh_comm_rank(c) == 0) {
        c->ops->post(c, flag, target - 1);
        usleep(5000);
        c->ops->post(c, flag, target);
        return RSH_OK;
    }
    return c->ops->wait(c, 0, flag, target);
}
static void flags_count_beyond_32_bits(void **state) {
    (void)state;
    rshi_flag flag = {0};
    run_ranks(3, passes_2_to_the_32, &flag);
}

/* Values of a flag that is reused continue from the old ones. */
static rsh_status takes_and_gives(void *ctx, rsh_comm *c) {
    (void)ctx;
    enum { MANY = 100 };
    rshi_flag *flags[MANY];
    for (int i = 0; i < MANY; i++) {
        flags[i] = c->ops->flag_take(c);
        CHECK(flags[i] && (uintptr_t)flags[i] % 64 == 0);
        for (int j = 0; j < i; j++) CHECK(flags[i] != flags[j]);
        c->ops->post(c, flags[i], 7);
    }
    for (int i = 0; i < MANY; i++) c->ops->flag_give(c, flags[i]);
    uint64_t allocations = rsh_alloc_get_stats().allocations;
    for (int i = 0; i < MANY; i++) CHECK((flags[i] = c->ops->flag_take(c)));
    CHECK(rsh_alloc_get_stats().allocations == allocations);
    for (int i = 0; i < MANY; i++) c->ops->flag_give(c, flags[i]);
    return RSH_OK;
}
static void flags_are_used_again(void **state) {
    (void)state;
    run_ranks(4, takes_and_gives, NULL);
}

/* A peer may read a flag after its owner has freed it and left. */
static rsh_status looks_late(void *ctx, rsh_comm *c) {
    (void)ctx;
    rshi_handle handle, handles[2];
    rshi_flag *flag = c->ops->flag_take(c);
    CHECK(flag);
    RSH_TRY(c->ops->publish(c, flag, sizeof *flag, &handle));
    RSH_TRY(rsh_comm_allgather(c, &handle, handles, sizeof handle));
    c->ops->post(c, flag, 3);
    c->ops->flag_give(c, flag);
    if (rsh_comm_rank(c) == 0) return RSH_OK;
    usleep(20000);
    return c->ops->wait(c, 0, c->ops->reach(c, 0, handles[0]), 3);
}
static void a_flag_stays_readable_when_its_owner_has_left(void **state) {
    (void)state;
    run_ranks(2, looks_late, NULL);
}

static rsh_status flag_without_memory(void *ctx, rsh_comm *c) {
    (void)ctx;
    for (int64_t which = 0; which < 2; which++) {
        rsh_alloc_fail_at(which);
        CHECK(!c->ops->flag_take(c));
    }
    rsh_alloc_fail_at(-1);
    CHECK(c->ops->flag_take(c));
    return RSH_OK;
}
static void a_flag_that_has_no_memory_is_null(void **state) {
    (void)state;
    run_ranks(1, flag_without_memory, NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(flags_order_plain_memory_between_ranks),
        cmocka_unit_test(a_sleeper_is_woken_by_the_post),
        cmocka_unit_test(flags_count_beyond_32_bits),
        cmocka_unit_test(flags_are_used_again),
        cmocka_unit_test(a_flag_stays_readable_when_its_owner_has_left),
        cmocka_unit_test(a_flag_that_has_no_memory_is_null),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
