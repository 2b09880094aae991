/* Collective calls on groups of many sizes. */
#include "rank_trials.h"

#include <math.h>

static rsh_status knows_itself(void *ctx, rsh_comm *c) {
    (void)ctx;
    CHECK(rsh_comm_rank(c) >= 0 && rsh_comm_rank(c) < rsh_comm_size(c));
    CHECK(!strcmp(rsh_comm_engine(c), here->wire ? "mailboxes" : "threads"));
    return RSH_OK;
}
static void a_comm_knows_rank_size_and_engine(void **state) {
    (void)state;
    run_all_counts(knows_itself, NULL);
}

static void nobody_passes_a_barrier_before_everybody_has_come(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof rank_counts / sizeof *rank_counts; i++) {
        atomic_int count = 0;
        run_ranks(rank_counts[i], keeps_step, &count);
    }
}

static rsh_status one_barrier(void *ctx, rsh_comm *c) {
    (void)ctx;
    return rsh_comm_barrier(c);
}
static void a_thousand_ranks_meet_at_a_barrier(void **state) {
    (void)state;
    run_ranks(1000, one_barrier, NULL);
}

static void allgather_brings_every_block_to_everybody(void **state) {
    (void)state;
    run_all_counts(gathers, &(size_t){20000});
}

static rsh_status gathers_in_place(void *ctx, rsh_comm *c) {
    size_t bytes = *(size_t *)ctx, n = (size_t)rsh_comm_size(c), me = (size_t)rsh_comm_rank(c);
    unsigned char *all = calloc(n, bytes);
    memset(all + me * bytes, (int)me + 1, bytes);
    rsh_status st = rsh_comm_allgather(c, all + me * bytes, all, bytes);
    size_t wrong = 0;
    for (size_t i = 0; i < n * bytes; i++) wrong += all[i] != i / bytes + 1;
    free(all);
    RSH_TRY(st);
    CHECK(!wrong);
    return RSH_OK;
}
static void allgather_works_in_place(void **state) {
    (void)state;
    for (size_t bytes = 16; bytes <= 16384; bytes *= 8) run_all_counts(gathers_in_place, &bytes);
}

static rsh_status reduces_integers(void *ctx, rsh_comm *c) {
    int n = rsh_comm_size(c), me = rsh_comm_rank(c);
    RSH_TRY(adds(ctx, c));
    uint8_t small = (uint8_t)(me + 1), least, most;
    RSH_TRY(rsh_comm_allreduce(c, &small, &least, 1, RSH_U8, RSH_OP_MIN));
    RSH_TRY(rsh_comm_allreduce(c, &small, &most, 1, RSH_U8, RSH_OP_MAX));
    CHECK(least == 1 && most == n);
    int32_t big = INT32_MAX, wrapped;
    RSH_TRY(rsh_comm_allreduce(c, &big, &wrapped, 1, RSH_I32, RSH_OP_SUM));
    CHECK((uint32_t)wrapped == (uint32_t)n * INT32_MAX);
    return RSH_OK;
}
/* As in reshards of partial layouts, any byte except 0 is true, and results are 0 or 1. */
static rsh_status reduce_bools(void *ctx, rsh_comm *c) {
    (void)ctx;
    const uint8_t mine[3] = {rsh_comm_rank(c) ? 2 : 1, 0, 8}, both[3] = {1, 0, 1}, one[3] = {0, 0, 0};
    uint8_t got[3];
    RSH_TRY(rsh_comm_allreduce(c, mine, got, 3, RSH_BOOL, RSH_OP_BAND));
    CHECK(!memcmp(got, both, 3));
    RSH_TRY(rsh_comm_allreduce(c, mine, got, 3, RSH_BOOL, RSH_OP_MIN));
    CHECK(!memcmp(got, both, 3));
    RSH_TRY(rsh_comm_allreduce(c, mine, got, 3, RSH_BOOL, RSH_OP_BOR));
    CHECK(!memcmp(got, both, 3));
    RSH_TRY(rsh_comm_allreduce(c, mine, got, 3, RSH_BOOL, RSH_OP_MAX));
    CHECK(!memcmp(got, both, 3));
    RSH_TRY(rsh_comm_allreduce(c, mine, got, 3, RSH_BOOL, RSH_OP_BXOR));
    CHECK(!memcmp(got, one, 3));
    return RSH_OK;
}
static void allreduce_of_bools_takes_any_byte_for_true(void **state) {
    (void)state;
    run_ranks(2, reduce_bools, NULL);
    run_ranks(4, reduce_bools, NULL);
}

static void allreduce_of_integers_is_exact_and_wraps(void **state) {
    (void)state;
    run_all_counts(reduces_integers, NULL);
}

static rsh_status reduces_floats(void *ctx, rsh_comm *c) {
    (void)ctx;
    int n = rsh_comm_size(c), me = rsh_comm_rank(c);
    float mine = 0.1f * (float)(me + 1), expected = 0.1f, sum;
    for (int r = 1; r < n; r++) expected += 0.1f * (float)(r + 1);
    RSH_TRY(rsh_comm_allreduce(c, &mine, &sum, 1, RSH_F32, RSH_OP_SUM));
    CHECK(!memcmp(&sum, &expected, sizeof sum));
    double value = me, mean;
    RSH_TRY(rsh_comm_allreduce(c, &value, &mean, 1, RSH_F64, RSH_OP_AVG));
    CHECK(mean == (n - 1) / 2.0);
    double least = me == n / 2 ? NAN : me, found;
    RSH_TRY(rsh_comm_allreduce(c, &least, &found, 1, RSH_F64, RSH_OP_MIN));
    CHECK(isnan(found));
    RSH_TRY(rsh_comm_allreduce(c, &value, &value, 1, RSH_F64, RSH_OP_MAX)); /* in place */
    CHECK(value == n - 1);
    return RSH_OK;
}
static void allreduce_of_floats_goes_in_rank_order_and_nan_wins(void **state) {
    (void)state;
    run_all_counts(reduces_floats, NULL);
}

static rsh_status asks_too_much(void *ctx, rsh_comm *c) {
    (void)ctx;
    char a[16] = {0}, b[16];
    CHECK_STATUS(RSH_EUNSUP, rsh_comm_allreduce(c, a, b, 1, RSH_BF16, RSH_OP_SUM));
    CHECK_SAYS("bf16");
    CHECK_STATUS(RSH_ETYPE, rsh_comm_allreduce(c, a, b, 1, RSH_BOOL, RSH_OP_SUM));
    CHECK_STATUS(RSH_EVALUE, rsh_comm_allreduce(c, a, b, 1, RSH_F32, RSH_OP_NONE));
    CHECK_STATUS(RSH_EVALUE, rsh_comm_allreduce(c, a, b, -1, RSH_F32, RSH_OP_SUM));
    CHECK_STATUS(RSH_EVALUE, rsh_comm_allreduce(c, NULL, b, 1, RSH_F32, RSH_OP_SUM));
    CHECK_STATUS(RSH_EVALUE, rsh_comm_allgather(c, a, b, SIZE_MAX / 2 + 1));
    CHECK_STATUS(RSH_OK, rsh_comm_allreduce(c, a, b, 1, RSH_BOOL, RSH_OP_BOR));
    return RSH_OK;
}
static void what_allreduce_cannot_do_is_said_and_the_comm_goes_on(void **state) {
    (void)state;
    run_ranks(3, asks_too_much, NULL);
}

/* Reduces one element of every dtype with every op that exists for it. */
static rsh_status reduces_all_dtypes(void *ctx, rsh_comm *c) {
    (void)ctx;
    static const rsh_dtype dtypes[] = {RSH_U8, RSH_I8, RSH_U16, RSH_I16, RSH_U32, RSH_I32, RSH_U64, RSH_I64};
    for (size_t d = 0; d < sizeof dtypes / sizeof *dtypes; d++) {
        uint64_t mine = c->rank ? 1 : 3, got[6] = {0}; /* little-endian: the low bytes are the element */
        for (int op = RSH_OP_MIN; op <= RSH_OP_BXOR; op++)
            RSH_TRY(rsh_comm_allreduce(c, &mine, &got[op - RSH_OP_MIN], 1, dtypes[d], (rsh_op)op));
        const uint64_t expected[] = {1, 3, 3, 1, 3, 2}; /* results of min max prod band bor bxor for 3 and 1 */
        CHECK(!memcmp(got, expected, sizeof expected));
    }
    return RSH_OK;
}
static void allreduce_does_every_integer_type(void **state) {
    (void)state;
    run_ranks(2, reduces_all_dtypes, NULL);
}

static void a_comm_of_no_ranks_is_refused(void **state) {
    (void)state;
    rsh_comm *c;
    assert_int_equal(rsh_comm_threads(0, &c), RSH_EVALUE);
    assert_int_equal(rsh_comm_threads(2, NULL), RSH_EVALUE);
    assert_int_equal(rsh_comm_barrier(NULL), RSH_EVALUE);
    assert_int_equal(rsh_comm_free(NULL), RSH_OK);
}

/* A minimal client of a comm, as rooms attach them. */
typedef struct attachment {
    int busy, freed;
} attachment;

static rsh_status attachment_check_idle(const void *attached) {
    return ((const attachment *)attached)->busy ? rshi_fail(RSH_EBUSY, "busy") : RSH_OK;
}
static void attachment_free(void *attached) { ((attachment *)attached)->freed++; }

static void what_is_attached_to_a_comm_keeps_it_while_busy_and_is_freed_once(void **state) {
    (void)state;
    static const rshi_attached_ops ops = {attachment_check_idle, attachment_free};
    attachment a = {.busy = 1};
    rsh_comm *c;
    assert_int_equal(rsh_comm_threads(1, &c), RSH_OK);
    c->attached = &a;
    c->attached_ops = &ops;
    assert_int_equal(rsh_comm_free(c), RSH_EBUSY);
    assert_int_equal(a.freed, 0);
    rshi_comm_give_up(c);
    rshi_comm_client_gone(c);
    assert_int_equal(a.freed, 0);
    a.busy = 0;
    rshi_comm_client_gone(c);
    assert_int_equal(a.freed, 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_comm_knows_rank_size_and_engine),
        cmocka_unit_test(nobody_passes_a_barrier_before_everybody_has_come),
        cmocka_unit_test(a_thousand_ranks_meet_at_a_barrier),
        cmocka_unit_test(allgather_brings_every_block_to_everybody),
        cmocka_unit_test(allgather_works_in_place),
        cmocka_unit_test(allreduce_of_bools_takes_any_byte_for_true),
        cmocka_unit_test(allreduce_of_integers_is_exact_and_wraps),
        cmocka_unit_test(allreduce_of_floats_goes_in_rank_order_and_nan_wins),
        cmocka_unit_test(allreduce_does_every_integer_type),
        cmocka_unit_test(what_allreduce_cannot_do_is_said_and_the_comm_goes_on),
        cmocka_unit_test(a_comm_of_no_ranks_is_refused),
        cmocka_unit_test(what_is_attached_to_a_comm_keeps_it_while_busy_and_is_freed_once),
    };
    return RUN_EVERYWHERE(tests);
}
