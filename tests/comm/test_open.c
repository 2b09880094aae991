/* Agreement: ranks that reject a call, make a different call or fall behind are detected at the opening of a call, and
 * the comm still works. */
#include "ranks.h"

static rsh_status refuses_once(void *ctx, rsh_comm *c) {
    int who = *(int *)ctx % rsh_comm_size(c);
    bool me = rsh_comm_rank(c) == who;
    CHECK_STATUS(RSH_EKEY, rsh_comm_agree(c, me ? rshi_fail(RSH_EKEY, "no door here") : RSH_OK));
    CHECK_SAYS("no door here");
    char name[24];
    snprintf(name, sizeof name, "rank %d", who);
    if (rsh_comm_size(c) > 1) CHECK_SAYS(name);
    CHECK_STATUS(RSH_OK, rsh_comm_agree(c, RSH_OK));
    return RSH_OK;
}
static void a_rank_that_refuses_gives_all_its_status_number_and_sentence(void **state) {
    (void)state;
    for (int who = 0; who < 4; who++) run_all_counts(refuses_once, &who);
}

static rsh_status several_refuse(void *ctx, rsh_comm *c) {
    (void)ctx;
    int me = rsh_comm_rank(c);
    rsh_status mine = me == 0 ? RSH_OK : rshi_fail(me == 1 ? RSH_ETYPE : RSH_EVALUE, "sentence of %d", me);
    CHECK_STATUS(RSH_ETYPE, rsh_comm_agree(c, mine));
    CHECK_SAYS("sentence of 1");
    return RSH_OK;
}
static void of_several_refusals_the_lowest_rank_counts(void **state) {
    (void)state;
    run_ranks(4, several_refuse, NULL);
}

static rsh_status all_refuse_alike(void *ctx, rsh_comm *c) {
    (void)ctx;
    CHECK_STATUS(RSH_EVALUE, rsh_comm_agree(c, rshi_fail(RSH_EVALUE, "seven is odd")));
    CHECK(!strcmp(rsh_error_detail(), "seven is odd"));
    return RSH_OK;
}
static void a_refusal_that_all_ranks_share_is_forwarded_as_it_is(void **state) {
    (void)state;
    run_ranks(4, all_refuse_alike, NULL);
}

static rsh_status another_call(void *ctx, rsh_comm *c) {
    int who = *(int *)ctx;
    char byte = 1, all[64];
    rsh_status st = rsh_comm_rank(c) == who ? rsh_comm_allgather(c, &byte, all, 1) : rsh_comm_barrier(c);
    CHECK_STATUS(RSH_EMISMATCH, st);
    CHECK_SAYS("barrier");
    CHECK_SAYS("allgather");
    CHECK_STATUS(RSH_OK, rsh_comm_barrier(c));
    return RSH_OK;
}
static void a_rank_in_another_call_is_named_by_all(void **state) {
    (void)state;
    for (int n = 2; n <= 8; n++)
        for (int who = 0; who < n; who++) run_ranks(n, another_call, &who);
}

static rsh_status other_arguments(void *ctx, rsh_comm *c) {
    (void)ctx;
    char mine[16] = {0}, all[16 * 8];
    bool last = rsh_comm_rank(c) == rsh_comm_size(c) - 1;
    CHECK_STATUS(RSH_EMISMATCH, rsh_comm_allgather(c, mine, all, last ? 8 : 16));
    CHECK_SAYS("16 bytes");
    CHECK_SAYS("8 bytes");
    double x = 1, y;
    CHECK_STATUS(RSH_EMISMATCH, rsh_comm_allreduce(c, &x, &y, 1, RSH_F64, last ? RSH_OP_MAX : RSH_OP_MIN));
    CHECK_SAYS("max of 1 f64");
    CHECK_STATUS(RSH_OK, rsh_comm_allreduce(c, &x, &y, 1, RSH_F64, RSH_OP_MAX));
    return RSH_OK;
}
static void arguments_that_differ_are_quoted(void **state) {
    (void)state;
    for (int n = 2; n <= 8; n++) run_ranks(n, other_arguments, NULL);
}

static rsh_status long_quotes(void *ctx, rsh_comm *c) {
    (void)ctx;
    char what[3000];
    memset(what, rsh_comm_rank(c) ? 'b' : 'a', sizeof what);
    what[sizeof what - 1] = '\0';
    CHECK_STATUS(RSH_EMISMATCH, rshi_comm_open(c, "bind", (uint64_t)rsh_comm_rank(c), what, RSH_OK));
    CHECK_SAYS("aaa...");
    CHECK_SAYS("bbb...");
    CHECK_STATUS(RSH_OK, rshi_comm_open(c, "bind", 7, what, RSH_OK));
    return RSH_OK;
}
static void long_quotes_are_cut_so_that_both_fit(void **state) {
    (void)state;
    run_ranks(2, long_quotes, NULL);
}

/* The last rank makes one call fewer and returns. */
static rsh_status one_call_fewer(void *ctx, rsh_comm *c) {
    (void)ctx;
    int calls = rsh_comm_rank(c) == rsh_comm_size(c) - 1 ? 2 : 3;
    for (int i = 0; i < calls; i++) {
        rsh_status st = rsh_comm_barrier(c);
        CHECK(st == (i < 2 ? RSH_OK : RSH_EPEER));
    }
    if (calls == 3) CHECK_SAYS("has left");
    return RSH_OK;
}
static void a_rank_with_one_call_fewer_gives_the_others_epeer(void **state) {
    (void)state;
    for (int n = 2; n <= 8; n *= 2) run_ranks(n, one_call_fewer, NULL);
}

/* The last rank skips a call, so its next call is a different one from that of the others. */
static rsh_status skips_a_call(void *ctx, rsh_comm *c) {
    (void)ctx;
    int mine = 1, sum;
    bool last = rsh_comm_rank(c) == rsh_comm_size(c) - 1;
    if (!last) CHECK_STATUS(RSH_EMISMATCH, rsh_comm_barrier(c));
    rsh_status st = rsh_comm_allreduce(c, &mine, &sum, 1, RSH_I32, RSH_OP_SUM);
    CHECK(last ? st == RSH_EMISMATCH : st == RSH_EPEER);
    return RSH_OK;
}
static void a_rank_that_skips_a_call_is_found_in_the_next(void **state) {
    (void)state;
    run_ranks(4, skips_a_call, NULL);
}

/* If ranks agree on RSH_EPEER, it is the status of a rank and does not mean that the comm has failed. */
static rsh_status agrees_on_epeer(void *ctx, rsh_comm *c) {
    (void)ctx;
    CHECK_STATUS(RSH_EPEER, rsh_comm_agree(c, rsh_comm_rank(c) ? RSH_OK : rshi_fail(RSH_EPEER, "elsewhere")));
    CHECK_STATUS(RSH_OK, rsh_comm_barrier(c));
    return RSH_OK;
}
static void agreeing_on_epeer_leaves_the_comm_alive(void **state) {
    (void)state;
    run_ranks(4, agrees_on_epeer, NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_rank_that_refuses_gives_all_its_status_number_and_sentence),
        cmocka_unit_test(of_several_refusals_the_lowest_rank_counts),
        cmocka_unit_test(a_refusal_that_all_ranks_share_is_forwarded_as_it_is),
        cmocka_unit_test(a_rank_in_another_call_is_named_by_all),
        cmocka_unit_test(arguments_that_differ_are_quoted),
        cmocka_unit_test(long_quotes_are_cut_so_that_both_fit),
        cmocka_unit_test(a_rank_with_one_call_fewer_gives_the_others_epeer),
        cmocka_unit_test(a_rank_that_skips_a_call_is_found_in_the_next),
        cmocka_unit_test(agreeing_on_epeer_leaves_the_comm_alive),
    };
    return RUN_EVERYWHERE(tests);
}
