/* Split: groups within groups, empty colours, and order by key. */
#include "ranks.h"

static rsh_status by_parity(void *ctx, rsh_comm *c) {
    (void)ctx;
    int me = rsh_comm_rank(c), n = rsh_comm_size(c);
    rsh_comm *half = NULL;
    RSH_TRY(rsh_comm_split(c, me % 2, 0, &half));
    CHECK(rsh_comm_size(half) == (n + 1 - me % 2) / 2);
    CHECK(rsh_comm_rank(half) == me / 2);
    int64_t mine = me, sum, expected = 0;
    for (int r = me % 2; r < n; r += 2) expected += r;
    RSH_TRY(rsh_comm_allreduce(half, &mine, &sum, 1, RSH_I64, RSH_OP_SUM));
    CHECK(sum == expected);
    RSH_TRY(rsh_comm_free(half));
    return rsh_comm_barrier(c);
}
static void ranks_of_one_colour_form_a_comm(void **state) {
    (void)state;
    run_all_counts(by_parity, NULL);
}

static rsh_status backwards(void *ctx, rsh_comm *c) {
    (void)ctx;
    int me = rsh_comm_rank(c), n = rsh_comm_size(c);
    rsh_comm *turned = NULL, *same = NULL;
    RSH_TRY(rsh_comm_split(c, 7, -me, &turned));
    CHECK(rsh_comm_rank(turned) == n - 1 - me && rsh_comm_size(turned) == n);
    RSH_TRY(rsh_comm_split(c, 7, 3, &same)); /* equal keys: sorted by rank */
    CHECK(rsh_comm_rank(same) == me);
    RSH_TRY(rsh_comm_barrier(turned));
    RSH_TRY(rsh_comm_free(turned));
    return rsh_comm_free(same);
}
static void the_new_order_is_by_key_then_rank(void **state) {
    (void)state;
    run_all_counts(backwards, NULL);
}

static rsh_status stays_out(void *ctx, rsh_comm *c) {
    (void)ctx;
    bool out = rsh_comm_rank(c) % 3 == 0;
    rsh_comm *sub = c;
    RSH_TRY(rsh_comm_split(c, out ? -1 : 0, 0, &sub));
    CHECK(out == !sub);
    if (sub) RSH_TRY(rsh_comm_barrier(sub));
    return rsh_comm_free(sub);
}
static void a_negative_colour_gives_no_comm(void **state) {
    (void)state;
    run_all_counts(stays_out, NULL);
}

/* Splits in halves until a rank is alone.  All levels exist at once, and calls of sibling groups do not interfere. */
static rsh_status halve(rsh_comm *c, int path) {
    int me = rsh_comm_rank(c), n = rsh_comm_size(c);
    for (int i = 0; i <= path % 3; i++) RSH_TRY(rsh_comm_barrier(c)); /* siblings make different numbers of calls */
    if (n == 1) return RSH_OK;
    rsh_comm *half = NULL;
    RSH_TRY(rsh_comm_split(c, me >= n / 2, 0, &half));
    rsh_status st = halve(half, 2 * path + (me >= n / 2));
    RSH_TRY(rsh_comm_free(half));
    RSH_TRY(st);
    return rsh_comm_barrier(c);
}
static rsh_status nested(void *ctx, rsh_comm *c) {
    (void)ctx;
    return halve(c, 1);
}
static void splits_nest_down_to_single_ranks(void **state) {
    (void)state;
    run_all_counts(nested, NULL);
}

/* A comm outlives the comm that it was split from. */
static rsh_status outlives(void *ctx, rsh_comm *c) {
    (void)ctx;
    rsh_comm *copy = NULL, *second = NULL;
    RSH_TRY(rsh_comm_split(c, 0, 0, &copy));
    RSH_TRY(rsh_comm_split(copy, 0, 0, &second));
    RSH_TRY(rsh_comm_free(copy));
    rsh_status st = rsh_comm_barrier(second);
    RSH_TRY(rsh_comm_free(second));
    return st;
}
static void a_comm_outlives_the_one_it_was_split_from(void **state) {
    (void)state;
    run_all_counts(outlives, NULL);
}

static rsh_status null_result(void *ctx, rsh_comm *c) {
    (void)ctx;
    rsh_comm *sub = NULL;
    CHECK_STATUS(RSH_EVALUE, rsh_comm_split(c, 0, 0, rsh_comm_rank(c) == 1 ? NULL : &sub));
    CHECK(!sub);
    return rsh_comm_barrier(c);
}
static void a_null_result_on_one_rank_is_refused_by_all(void **state) {
    (void)state;
    run_ranks(3, null_result, NULL);
}

/* A rank makes groups of its own: rsh_run inside rsh_run. */
static rsh_status inner(void *ctx, rsh_comm *c) {
    atomic_int *count = ctx;
    atomic_fetch_add(count, 1);
    return rsh_comm_barrier(c);
}
static rsh_status outer(void *ctx, rsh_comm *c) {
    (void)ctx;
    atomic_int count = 0;
    RSH_TRY(rsh_run(3, inner, &count));
    CHECK(count == 3);
    return rsh_comm_barrier(c);
}
static void a_run_inside_a_rank_is_a_group_of_its_own(void **state) {
    (void)state;
    run_ranks(4, outer, NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_of_one_colour_form_a_comm),
        cmocka_unit_test(the_new_order_is_by_key_then_rank),
        cmocka_unit_test(a_negative_colour_gives_no_comm),
        cmocka_unit_test(splits_nest_down_to_single_ranks),
        cmocka_unit_test(a_comm_outlives_the_one_it_was_split_from),
        cmocka_unit_test(a_null_result_on_one_rank_is_refused_by_all),
        cmocka_unit_test(a_run_inside_a_rank_is_a_group_of_its_own),
    };
    return RUN_EVERYWHERE(tests);
}
