/* Functions on a rank's own shards, comparisons of tensors, and the move for loops. */
#include "whole.h"

#include <math.h>

#define W 4

/* ---- to, clone, detach, copy ---- */

static void wipe(const rsh_torch_tensor *t) {
    for (int64_t i = 0; i < rsh_torch_nshards(t); i++) {
        const rsh_tensor *x = rsh_torch_shard(t, i)->tensor;
        if (rsh_tensor_count(x))
            memset(rsh_tensor_data(x), 0x5a, (size_t)rsh_tensor_count(x) * rsh_dtype_size(rsh_torch_dtype(t)));
    }
}

static rsh_status local_ops(void *ctx, rsh_comm *comm) {
    (void)ctx;
    int me = rsh_comm_rank(comm), owners[5] = {1, 1, 3, 0, 2};
    int64_t size[2] = {9, 4};
    cutting c = cut_chunks(RSH_I32, 2, size, 0, 5, owners);
    rsh_spec *s, *columns;
    rsh_torch_tensor *t, *clone, *detached, *wide, *back, *cut;
    rsh_torch_opts o = RSH_TORCH_OPTS_INIT;
    float half = 0.5f;
    bool equal;
    RSH_TRY(rsh_spec_chunk_ranks(0, 5, owners, &s));
    RSH_TRY(rsh_spec_chunk_ranks(1, W, NULL, &columns));
    RSH_TRY(make_filled(s, &c, NULL, &t));
    CHECK_STATUS(RSH_ERUNTIME, rsh_torch_set_requires_grad(t, true)); /* integers cannot require a gradient */
    RSH_TRY(rsh_torch_clone(t, &clone));
    RSH_TRY(check_st(clone, &c, me));
    for (int64_t i = 0; i < rsh_torch_nshards(t); i++)
        CHECK(rsh_tensor_data(rsh_torch_shard(clone, i)->tensor) != rsh_tensor_data(rsh_torch_shard(t, i)->tensor));
    RSH_TRY(rsh_torch_to(t, RSH_F64, &wide));
    RSH_TRY(rsh_torch_to(wide, RSH_I32, &back)); /* f64 represents every i32 */
    RSH_TRY(check_st(back, &c, me));
    CHECK(rsh_torch_dtype(wide) == RSH_F64);
    wipe(wide);
    RSH_TRY(rsh_torch_copy(wide, t)); /* converts, because the dtypes differ */
    rsh_torch_free(back);
    RSH_TRY(rsh_torch_to(wide, RSH_I32, &back));
    RSH_TRY(check_st(back, &c, me));
    RSH_TRY(rsh_torch_set_requires_grad(wide, true));
    CHECK(rsh_torch_requires_grad(wide));
    for (int64_t i = 0; i < rsh_torch_nshards(wide); i++) CHECK(rsh_torch_shard(wide, i)->props.requires_grad);
    RSH_TRY(rsh_torch_detach(wide, &detached));
    CHECK(!rsh_torch_requires_grad(detached) && rsh_torch_requires_grad(wide));
    for (int64_t i = 0; i < rsh_torch_nshards(t); i++)
        CHECK(!rsh_torch_shard(detached, i)->props.requires_grad &&
              rsh_tensor_data(rsh_torch_shard(detached, i)->tensor) ==
                  rsh_tensor_data(rsh_torch_shard(wide, i)->tensor));
    CHECK_STATUS(RSH_ERUNTIME, rsh_torch_to(wide, RSH_I32, &cut)); /* integers cannot have a gradient */
    CHECK_SAYS("f64");
    CHECK_SAYS("i32");
    RSH_TRY(rsh_torch_empty(columns, 2, size, NULL, &cut));
    CHECK_STATUS(RSH_ERUNTIME, rsh_torch_copy(cut, wide));
    CHECK_SAYS("f32[9, 4/x]");
    CHECK_SAYS("f64[9, 4] boxes");
    rsh_torch_free(cut);
    o.props.dtype = RSH_I32;
    RSH_TRY(rsh_torch_zeros(s, 2, size, &o, &cut));
    RSH_TRY(rsh_torch_copy(cut, t));
    RSH_TRY(check_st(cut, &c, me));
    rsh_torch_free(cut);
    RSH_TRY(rsh_torch_full(s, 2, size, &half, NULL, &cut));
    RSH_TRY(rsh_torch_equal(cut, t, &equal)); /* not equal, because the dtypes differ */
    CHECK(!equal);
    rsh_torch_free(cut), rsh_torch_free(back), rsh_torch_free(detached), rsh_torch_free(wide), rsh_torch_free(clone),
        rsh_torch_free(t);
    rsh_spec_free(s), rsh_spec_free(columns);
    return RSH_OK;
}
static void to_clone_detach_and_copy_are_local(void **state) {
    (void)state;
    run_engines(W, local_ops, NULL);
}

/* ---- equal and allclose ---- */

static float *element(rsh_torch_tensor *t) { return rsh_tensor_data(rsh_torch_shard(t, 0)->tensor); }

static rsh_status comparing(void *ctx, rsh_comm *comm) {
    (void)ctx;
    int me = rsh_comm_rank(comm);
    int64_t size[2] = {8, 3};
    rsh_spec *s, *columns;
    rsh_torch_tensor *a, *b, *c;
    rsh_group *g;
    bool yes;
    RSH_TRY(rsh_spec_chunk_ranks(0, W, NULL, &s));
    RSH_TRY(rsh_spec_chunk_ranks(1, W, NULL, &columns));
    RSH_TRY(rsh_torch_ones(s, 2, size, NULL, &a));
    RSH_TRY(rsh_torch_ones(s, 2, size, NULL, &b));
    RSH_TRY(rsh_torch_ones(columns, 2, size, NULL, &c));
    RSH_TRY(rsh_torch_equal(a, b, &yes));
    CHECK(yes);
    RSH_TRY(rsh_torch_equal(a, c, &yes));
    CHECK(!yes); /* they are cut differently */
    if (me == 2) element(b)[1] += 1e-3f;
    RSH_TRY(rsh_torch_equal(a, b, &yes));
    CHECK(!yes); /* the same answer on every rank */
    RSH_TRY(rsh_torch_allclose(a, b, 0, 2e-3, false, &yes));
    CHECK(yes);
    RSH_TRY(rsh_torch_allclose(a, b, 1e-4, 0, false, &yes));
    CHECK(!yes);
    if (me == 2) element(a)[1] = element(b)[1] = NAN;
    RSH_TRY(rsh_torch_equal(a, b, &yes));
    CHECK(!yes);
    RSH_TRY(rsh_torch_allclose(a, b, 0, 0, false, &yes));
    CHECK(!yes);
    RSH_TRY(rsh_torch_allclose(a, b, 0, 0, true, &yes));
    CHECK(yes);
    if (me == 2) element(a)[1] = INFINITY, element(b)[1] = INFINITY;
    RSH_TRY(rsh_torch_allclose(a, b, 0, 0, false, &yes));
    CHECK(yes);
    if (me == 2) element(b)[1] = 3e38f;
    RSH_TRY(rsh_torch_allclose(a, b, 1e30, 1e300, false, &yes));
    CHECK(!yes);
    /* rtol times infinity is infinite, but they are still not close */
    RSH_TRY(rsh_torch_allclose(b, a, 1e-5, 0, false, &yes));
    CHECK(!yes);
    if (me == 2) element(a)[1] = 0.0f, element(b)[1] = -0.0f;
    RSH_TRY(rsh_torch_equal(a, b, &yes));
    CHECK(yes);
    CHECK_STATUS(RSH_EVALUE, rsh_torch_equal(a, me == 1 ? NULL : b, &yes)); /* a wrong argument on one rank only */
    CHECK_STATUS(RSH_EVALUE, rsh_torch_allclose(a, b, -1, 0, false, &yes));
    rsh_torch_free(c);
    RSH_TRY(rsh_group_new(W, (int[]){0, 1, 2, 3}, &g));
    rsh_torch_opts o = RSH_TORCH_OPTS_INIT;
    o.group = g;
    RSH_TRY(rsh_torch_ones(s, 2, size, &o, &c));
    RSH_TRY(rsh_torch_equal(c, a, &yes));
    CHECK(!yes); /* a tensor of another group */
    rsh_torch_free(a), rsh_torch_free(b), rsh_torch_free(c);
    rsh_group_free(g);
    rsh_spec_free(s), rsh_spec_free(columns);
    return RSH_OK;
}
static void every_rank_learns_whether_tensors_are_equal(void **state) {
    (void)state;
    run_engines(W, comparing, NULL);
}

/* Large integers that are equal after conversion to f64; and shards in another order. */
static rsh_status comparing_integers(void *ctx, rsh_comm *comm) {
    (void)ctx;
    int me = rsh_comm_rank(comm);
    rsh_torch_opts o = RSH_TORCH_OPTS_INIT;
    int64_t size[1] = {4}, big = ((int64_t)1 << 60) + 1;
    cutting x = {RSH_I64, 1, {4}, 4, {{{0}, {1}, 0}, {{1}, {1}, 0}, {{2}, {2}, 1}, {{4}, {0}, 1}}},
            y = {RSH_I64, 1, {4}, 3, {{{2}, {2}, 1}, {{1}, {1}, 0}, {{0}, {1}, 0}}};
    rsh_spec *s, *other;
    rsh_torch_tensor *a, *b;
    bool yes;
    o.props.dtype = RSH_I64;
    RSH_TRY(boxes_spec(&x, &s));
    RSH_TRY(boxes_spec(&y, &other));
    RSH_TRY(make_filled(s, &x, NULL, &a));
    RSH_TRY(make_filled(other, &y, NULL, &b));
    RSH_TRY(rsh_torch_equal(a, b, &yes));
    CHECK(yes);
    RSH_TRY(rsh_torch_copy(a, b));
    RSH_TRY(check_st(a, &x, me));
    rsh_torch_free(a), rsh_torch_free(b);
    RSH_TRY(rsh_torch_full(s, 1, size, &big, &o, &a));
    if (me == 1) big--;
    RSH_TRY(rsh_torch_full(s, 1, size, &big, &o, &b));
    RSH_TRY(rsh_torch_equal(a, b, &yes));
    CHECK(!yes);
    RSH_TRY(rsh_torch_allclose(a, b, 0, 0.5, false, &yes));
    CHECK(!yes);
    RSH_TRY(rsh_torch_allclose(a, b, 0, 1, false, &yes));
    CHECK(yes);
    if (me == 1) *(int64_t *)(void *)element(a) = INT64_MIN, *(int64_t *)(void *)element(b) = INT64_MAX;
    RSH_TRY(rsh_torch_allclose(a, b, 0, 1e19, false, &yes));
    CHECK(!yes);
    RSH_TRY(rsh_torch_allclose(a, b, 0, 2e19, false, &yes));
    CHECK(yes);
    rsh_torch_free(a), rsh_torch_free(b);
    rsh_spec_free(s), rsh_spec_free(other);
    return RSH_OK;
}
static void order_does_not_matter_and_integers_are_exact(void **state) {
    (void)state;
    run_engines(2, comparing_integers, NULL);
}

/* ---- reshard_into ---- */

static rsh_status into(void *ctx, rsh_comm *comm) {
    (void)ctx;
    int me = rsh_comm_rank(comm), owners[6] = {0, 2, 2, 1, 3, 0};
    int64_t size[2] = {11, 7};
    cutting a = cut_chunks(RSH_F32, 2, size, 0, 6, owners), b = cut_chunks(RSH_F32, 2, size, 1, W, NULL);
    rsh_spec *from, *to;
    rsh_torch_tensor *x, *y, *z, *other = NULL;
    RSH_TRY(rsh_spec_chunk_ranks(0, 6, owners, &from));
    RSH_TRY(rsh_spec_chunk_ranks(1, W, NULL, &to));
    RSH_TRY(make_filled(from, &a, NULL, &x));
    RSH_TRY(make_filled(from, &a, NULL, &z));
    RSH_TRY(rsh_torch_zeros(to, 2, size, NULL, &y));
    RSH_TRY(rsh_torch_reshard_into(x, y));
    RSH_TRY(rsh_torch_reshard_into(z, y)); /* the binding of a second source is cached too */
    for (int i = 0; i < 10; i++) {
        wipe(y);
        RSH_TRY(rsh_comm_barrier(comm));
        uint64_t before = rsh_alloc_get_stats().allocations;
        RSH_TRY(rsh_torch_reshard_into(i % 2 ? x : z, y));
        CHECK(rsh_alloc_get_stats().allocations == before);
        RSH_TRY(check_st(y, &b, me));
    }
    for (int i = 0; i < 6; i++) { /* more sources than the cache holds; elements of the others must not arrive */
        fill_st(x, &a, me);
        RSH_TRY(rsh_torch_clone(x, &other));
        wipe(x), wipe(z), wipe(y);
        RSH_TRY(rsh_torch_reshard_into(other, y));
        RSH_TRY(check_st(y, &b, me));
        rsh_torch_free(other);
    }
    fill_st(x, &a, me);
    RSH_TRY(rsh_torch_reshard_into(x, y));
    RSH_TRY(rsh_torch_clone(x, &other));
    if (me == 1) wipe(x);
    wipe(y);
    RSH_TRY(rsh_torch_reshard_into(me == 1 ? other : x, y)); /* one rank has different memory than before */
    RSH_TRY(check_st(y, &b, me));
    wipe(x);
    RSH_TRY(rsh_torch_reshard_into(y, x)); /* and in the other direction */
    RSH_TRY(check_st(x, &a, me));
    rsh_torch_tensor *small;
    RSH_TRY(rsh_torch_zeros(to, 2, (int64_t[]){11, 6}, NULL, &small));
    CHECK_STATUS(RSH_EVALUE, rsh_torch_reshard_into(x, me == 3 ? small : y)); /* a wrong tensor on one rank */
    CHECK_SAYS("rank 3");
    CHECK_STATUS(RSH_EVALUE, rsh_torch_reshard_into(x, me == 3 ? NULL : y));
    RSH_TRY(rsh_torch_reshard_into(x, y)); /* the same move still works */
    RSH_TRY(check_st(y, &b, me));
    rsh_torch_free(x), rsh_torch_free(y), rsh_torch_free(z), rsh_torch_free(other), rsh_torch_free(small);
    rsh_spec_free(from), rsh_spec_free(to);
    return RSH_OK;
}
static void reshard_into_allocates_nothing_after_the_first_time(void **state) {
    (void)state;
    run_engines(W, into, NULL);
}

/* Rank 1 is in a different call; no rank waits forever, and all get an error. */
static rsh_status crossed(void *ctx, rsh_comm *comm) {
    (void)ctx;
    int64_t size[2] = {4, 4};
    rsh_spec *s;
    rsh_torch_tensor *a, *b;
    rsh_tensor *whole = NULL;
    RSH_TRY(rsh_spec_chunk_ranks(0, 2, NULL, &s));
    RSH_TRY(rsh_torch_ones(s, 2, size, NULL, &a));
    RSH_TRY(rsh_torch_ones(s, 2, size, NULL, &b));
    RSH_TRY(rsh_torch_reshard_into(a, b));
    bool yes;
    if (rsh_comm_rank(comm)) {
        CHECK_STATUS(RSH_EMISMATCH, rsh_torch_equal(a, b, &yes));
    } else {
        CHECK_STATUS(RSH_EMISMATCH, rsh_torch_reshard_into(a, b));
    }
    RSH_TRY(rsh_torch_reshard_into(a, b));
    if (!rsh_comm_rank(comm)) RSH_TRY(rsh_tensor_zeros(RSH_F32, 2, size, &whole));
    RSH_TRY(rsh_torch_gather(b, 0, whole));
    rsh_tensor_free(whole);
    rsh_torch_free(a), rsh_torch_free(b);
    rsh_spec_free(s);
    return RSH_OK;
}
static void ranks_in_different_calls_are_told_so(void **state) {
    (void)state;
    run_engines(2, crossed, NULL);
}

/* Uses the core directly: its tensors of both sides, bound once. */
static rsh_status explicit_bind(void *ctx, rsh_comm *comm) {
    (void)ctx;
    int me = rsh_comm_rank(comm);
    int64_t size[2] = {6, 9};
    cutting a = cut_chunks(RSH_F32, 2, size, 0, W, NULL), b = cut_chunks(RSH_F32, 2, size, 1, W, NULL);
    rsh_spec *from, *to;
    rsh_torch_tensor *x, *y;
    rsh_sharded *sx, *sy;
    rsh_plan *plan;
    rsh_exec *e;
    RSH_TRY(rsh_spec_chunk_ranks(0, W, NULL, &from));
    RSH_TRY(rsh_spec_chunk_ranks(1, W, NULL, &to));
    RSH_TRY(make_filled(from, &a, NULL, &x));
    RSH_TRY(rsh_torch_zeros(to, 2, size, NULL, &y));
    RSH_TRY(rsh_torch_sharded(x, &sx));
    RSH_TRY(rsh_torch_sharded(y, &sy));
    RSH_TRY(rsh_plan_new(rsh_sharded_layout(sx), rsh_sharded_layout(sy), NULL, &plan));
    rsh_memory src = {rsh_tensor_data(rsh_sharded_part(sx, 0)), NULL},
               dst = {rsh_tensor_data(rsh_sharded_part(sy, 0)), NULL};
    RSH_TRY(rsh_exec_bind(plan, comm, &src, &dst, &e));
    RSH_TRY(rsh_exec_run(e));
    RSH_TRY(check_st(y, &b, me));
    rsh_exec_stats stats = RSH_EXEC_STATS_INIT;
    RSH_TRY(rsh_exec_get_stats(e, &stats));
    CHECK(!stats.bytes_shadow); /* peers can read the memory of new tensors */
    rsh_exec_free(e);
    rsh_plan_free(plan);
    rsh_torch_free(x);
    CHECK(rsh_tensor_data(rsh_sharded_part(sx, 0)) == src.data); /* both share storage */
    rsh_sharded_free(sx), rsh_sharded_free(sy);
    rsh_torch_free(y);
    rsh_spec_free(from), rsh_spec_free(to);
    return RSH_OK;
}
static void the_cores_view_can_be_bound(void **state) {
    (void)state;
    run_engines(W, explicit_bind, NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(to_clone_detach_and_copy_are_local),
        cmocka_unit_test(every_rank_learns_whether_tensors_are_equal),
        cmocka_unit_test(order_does_not_matter_and_integers_are_exact),
        cmocka_unit_test(reshard_into_allocates_nothing_after_the_first_time),
        cmocka_unit_test(ranks_in_different_calls_are_told_so),
        cmocka_unit_test(the_cores_view_can_be_bound),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
