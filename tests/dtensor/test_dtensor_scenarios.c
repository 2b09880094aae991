/* Scenarios of PyTorch's own tests, under their names; cases in which PyTorch fails must give the right result. */

#include <reshard/math.h>

#include "wholes.h"

static rsh_status spread(rsh_mesh *m, const rsh_place *places, int ndim, const int64_t *shape, bool leaf,
                         rsh_value **out) {
    rsh_tensor *t = NULL;
    RSH_TRY(make_whole(RSH_F64, ndim, shape, &t));
    rsh_status st = rsh_dtensor_distribute(t, leaf, m, rsh_mesh_ndim(m), places, 0, out);
    rsh_tensor_free(t);
    return st;
}

/* Creates a plain value with `value` everywhere. */
static rsh_status constant(int ndim, const int64_t *shape, double value, bool leaf, rsh_value **out) {
    rsh_tensor *t = NULL;
    RSH_TRY(rsh_tensor_empty(RSH_F64, ndim, shape, &t));
    for (int64_t i = 0; i < rsh_tensor_count(t); i++) ((double *)rsh_tensor_data(t))[i] = value;
    return rsh_value_adopt_tensor(t, leaf, out);
}

static rsh_status line_of(rsh_comm *c, rsh_mesh **out) {
    int64_t size = rsh_comm_size(c);
    return rsh_mesh_new(c, 1, &size, NULL, NULL, out);
}

static uint64_t moves_of(rsh_mesh *m) {
    rsh_cache_stats s = RSH_CACHE_STATS_INIT;
    rsh_comm_get_cache_stats(rsh_mesh_comm(m), &s);
    return s.hits + s.misses;
}

/* ---- gradients with a hint ---- */

static const int64_t eight_by_eight[2] = {8, 8};

static rsh_status to_local_hint(void *ctx, rsh_comm *c) {
    rsh_mesh *m = NULL;
    rsh_value *v = NULL, *local = NULL, *seed = NULL;
    const rsh_place R = rsh_place_replicate(), P = rsh_place_partial(RSH_OP_SUM);
    (void)ctx;
    RSH_TRY(line_of(c, &m));
    RSH_TRY(spread(m, &R, 2, eight_by_eight, true, &v));
    RSH_TRY(rsh_dtensor_to_local(v, &P, &local));
    RSH_TRY(constant(2, eight_by_eight, rsh_comm_rank(c) + 1, false, &seed));
    uint64_t before = moves_of(m);
    RSH_TRY(rsh_backward(local, seed, 0));
    CHECK(moves_of(m) - before == 1); /* one reduction */
    RSH_TRY(gradient_has(rsh_value_grad(v), &R, 10));
    rsh_value_free(v), rsh_value_free(local), rsh_value_free(seed);
    rsh_mesh_free(m);
    return RSH_OK;
}
static void test_to_local_grad_hint(void **state) {
    (void)state;
    run_ranks(4, to_local_hint, NULL);
}

/* Uses the whole of a sharded tensor differently on every rank: with the hint the gradients are summed. */
static rsh_status full_tensor_hint(void *ctx, rsh_comm *c) {
    rsh_mesh *m = NULL;
    const rsh_place S = rsh_place_shard(1), P = rsh_place_partial(RSH_OP_SUM);
    (void)ctx;
    RSH_TRY(line_of(c, &m));
    for (int hint = 0; hint < 2; hint++) {
        rsh_value *v = NULL, *whole = NULL, *seed = NULL;
        RSH_TRY(spread(m, &S, 2, eight_by_eight, true, &v));
        RSH_TRY(rsh_dtensor_full_tensor(v, hint ? &P : NULL, &whole));
        RSH_TRY(constant(2, eight_by_eight, rsh_comm_rank(c) + 1, false, &seed));
        RSH_TRY(rsh_backward(whole, seed, 0));
        /* without the hint every rank uses its own chunk of its own gradient */
        RSH_TRY(gradient_has(rsh_value_grad(v), &S, hint ? 10 : rsh_comm_rank(c) + 1));
        rsh_value_free(v), rsh_value_free(whole), rsh_value_free(seed);
    }
    rsh_mesh_free(m);
    return RSH_OK;
}
static void test_full_tensor_grad_hint(void **state) {
    (void)state;
    run_ranks(4, full_tensor_hint, NULL);
}

/* ---- uneven parts ---- */

/* One row more than there are ranks: chunks of two rows, and ranks without rows. */
static rsh_status uneven(void *ctx, rsh_comm *c) {
    rsh_mesh *m = NULL;
    const rsh_place S = rsh_place_shard(0);
    int64_t n = rsh_comm_size(c) + 1, me = rsh_comm_rank(c), left = n - 2 * me;
    int64_t mine = left > 2 ? 2 : left < 0 ? 0 : left;
    const int64_t shape[2] = {n, 4};
    (void)ctx;
    RSH_TRY(line_of(c, &m));
    for (int given = 0; given < 2; given++) {
        rsh_from_local_opts opts = {sizeof opts, .shape = given ? shape : NULL};
        rsh_value *local = NULL, *v = NULL, *whole = NULL;
        RSH_TRY(constant(2, (const int64_t[]){mine, 4}, (double)me + 1, false, &local));
        RSH_TRY(rsh_dtensor_from_local(local, m, 1, &S, &opts, &v));
        CHECK(rsh_value_shape(v)[0] == n && rsh_value_shape(v)[1] == 4);
        RSH_TRY(rsh_dtensor_full_tensor(v, NULL, &whole));
        for (int64_t i = 0; i < n * 4; i++) CHECK(at(rsh_value_tensor(whole), i) == (double)(i / 8) + 1);
        rsh_value_free(local), rsh_value_free(v), rsh_value_free(whole);
    }
    rsh_mesh_free(m);
    return RSH_OK;
}
static void test_from_local_uneven_sharding(void **state) {
    (void)state;
    run_ranks(4, uneven, NULL);
}

/* Errors: sizes that chunks cannot have, different numbers of dims or dtypes, and a given shape that does not fit this
 * rank's part. */
static rsh_status uneven_errors(void *ctx, rsh_comm *c) {
    rsh_mesh *m = NULL;
    const rsh_place S = rsh_place_shard(0);
    int64_t me = rsh_comm_rank(c);
    rsh_value *local = NULL, *v = NULL;
    (void)ctx;
    RSH_TRY(line_of(c, &m));
    RSH_TRY(constant(2, (const int64_t[]){me + 1, 4}, 0, false, &local));
    CHECK_STATUS(RSH_EVALUE, rsh_dtensor_from_local(local, m, 1, &S, NULL, &v));
    CHECK_SAYS("position");
    rsh_value_free(local);
    RSH_TRY(constant(me == 2 ? 1 : 2, (const int64_t[]){2, 4}, 0, false, &local));
    CHECK_STATUS(RSH_EVALUE, rsh_dtensor_from_local(local, m, 1, &S, NULL, &v));
    CHECK_SAYS("position 2 has 1 dim");
    rsh_value_free(local);
    RSH_TRY(constant(2, (const int64_t[]){2, 4}, 0, false, &local));
    rsh_from_local_opts opts = {sizeof opts, .shape = (const int64_t[]){3, 4}};
    CHECK_STATUS(RSH_EVALUE, rsh_dtensor_from_local(local, m, 1, &S, &opts, &v)); /* of 3 rows no rank has 2 */
    CHECK(!v);
    rsh_value_free(local);
    rsh_mesh_free(m);
    return RSH_OK;
}
static void test_from_local_uneven_sharding_raise_error(void **state) {
    (void)state;
    run_ranks(4, uneven_errors, NULL);
}

/* ---- uneven collectives, as moves on a mesh ---- */

typedef rsh_status (*collective)(rsh_mesh *m, int dim, const int64_t *shape);

static rsh_status scatter(rsh_mesh *m, int dim, const int64_t *shape) { /* distributes from position 0 */
    const rsh_place S = rsh_place_shard(dim);
    rsh_value *v = NULL;
    RSH_TRY(spread(m, &S, 3, shape, false, &v));
    rsh_status st = holds(v, 1);
    rsh_value_free(v);
    return st;
}

static rsh_status all_gather(rsh_mesh *m, int dim, const int64_t *shape) {
    const rsh_place S = rsh_place_shard(dim), R = rsh_place_replicate();
    rsh_value *v = NULL, *whole = NULL;
    RSH_TRY(spread(m, &S, 3, shape, false, &v));
    RSH_TRY(rsh_dtensor_redistribute(v, 1, &R, RSH_DTYPE_NONE, &whole));
    rsh_status st = holds(whole, 1);
    rsh_value_free(v), rsh_value_free(whole);
    return st;
}

static rsh_status reduce_scatter(rsh_mesh *m, int dim, const int64_t *shape) {
    const rsh_place S = rsh_place_shard(dim), P = rsh_place_partial(RSH_OP_SUM);
    rsh_value *local = NULL, *partial = NULL, *part = NULL;
    RSH_TRY(local_whole(RSH_F64, 3, shape, &local));
    RSH_TRY(rsh_dtensor_from_local(local, m, 1, &P, NULL, &partial));
    RSH_TRY(rsh_dtensor_redistribute(partial, 1, &S, RSH_DTYPE_NONE, &part));
    rsh_status st = holds(part, (double)rsh_mesh_size(m));
    rsh_value_free(local), rsh_value_free(partial), rsh_value_free(part);
    return st;
}

/* Cuts along every dim, with one element more and one less than there are ranks. */
static rsh_status uneven_sizes(void *ctx, rsh_comm *c) {
    const collective *run = ctx;
    rsh_mesh *m = NULL;
    RSH_TRY(line_of(c, &m));
    for (int i = 0; i < 6; i++) {
        int64_t shape[3] = {3, 3, 3};
        shape[i / 2] = rsh_comm_size(c) + (i % 2 ? 1 : -1);
        RSH_TRY((*run)(m, i / 2, shape));
    }
    rsh_mesh_free(m);
    return RSH_OK;
}

static void run_uneven(collective run) {
    run_ranks(4, uneven_sizes, &run);
    run_ranks(8, uneven_sizes, &run);
}
static void test_scatter_uneven(void **state) {
    (void)state;
    run_uneven(scatter);
}
static void test_all_gather_uneven(void **state) {
    (void)state;
    run_uneven(all_gather);
}
static void test_reduce_scatter_uneven(void **state) {
    (void)state;
    run_uneven(reduce_scatter);
}

/* ---- meshes with ranks that are not ascending, nested cuts, bounds ---- */

/* Chunks are in the order of coordinates, not of rank numbers. */
static rsh_status not_ascending(void *ctx, rsh_comm *c) {
    rsh_mesh *m = NULL;
    const rsh_place S = rsh_place_shard(0);
    const int64_t shape[2] = {7, 3};
    rsh_value *v = NULL, *whole = NULL, *local = NULL, *again = NULL;
    (void)ctx;
    RSH_TRY(rsh_mesh_new(c, 1, (const int64_t[]){4}, (const int64_t[]){2, 0, 3, 1}, NULL, &m));
    RSH_TRY(spread(m, &S, 2, shape, false, &v));
    int64_t first = rsh_mesh_coordinate(m)[0] * 2 * 3; /* each rank has two rows */
    CHECK(at(rsh_value_tensor(v), 0) == (double)first + 1);
    RSH_TRY(rsh_dtensor_to_local(v, NULL, &local));
    RSH_TRY(rsh_dtensor_from_local(local, m, 1, &S, NULL, &again));
    RSH_TRY(rsh_dtensor_full_tensor(again, NULL, &whole));
    for (int64_t i = 0; i < 21; i++) CHECK(at(rsh_value_tensor(whole), i) == (double)(i + 1));
    rsh_value_free(v), rsh_value_free(whole), rsh_value_free(local), rsh_value_free(again);
    rsh_mesh_free(m);
    return RSH_OK;
}
static void data_on_a_mesh_that_does_not_ascend_is_in_order(void **state) {
    (void)state;
    run_ranks(4, not_ascending, NULL);
}

/* Nested uneven chunks: every row appears once, without padding. */
static rsh_status nested(void *ctx, rsh_comm *c) {
    rsh_mesh *m = NULL;
    (void)ctx;
    RSH_TRY(rsh_mesh_new(c, 2, (const int64_t[]){2, 2}, NULL, NULL, &m));
    const rsh_place rows[2] = {rsh_place_shard(0), rsh_place_shard(0)},
                    all[2] = {rsh_place_replicate(), rsh_place_replicate()};
    for (int64_t n = 1; n <= 10; n++) {
        const int64_t shape[2] = {n, 3};
        rsh_value *v = NULL, *whole = NULL;
        RSH_TRY(spread(m, rows, 2, shape, false, &v));
        RSH_TRY(rsh_dtensor_redistribute(v, 2, all, RSH_DTYPE_NONE, &whole));
        RSH_TRY(holds(whole, 1));
        rsh_value_free(v), rsh_value_free(whole);
    }
    rsh_mesh_free(m);
    return RSH_OK;
}
static void nested_chunks_lose_no_row(void **state) {
    (void)state;
    run_ranks(4, nested, NULL);
}

/* Dim 2 of a matrix, an invalid dim on one rank only, mixed ops, a change to partial: every rank gets the same
 * error. */
static rsh_status refusals(void *ctx, rsh_comm *c) {
    rsh_mesh *m = NULL, *grid = NULL;
    rsh_value *v = NULL, *w = NULL, *out = NULL;
    const rsh_place S = rsh_place_shard(0), beyond = rsh_place_shard(2), P = rsh_place_partial(RSH_OP_SUM);
    const rsh_place mixed[2] = {P, rsh_place_partial(RSH_OP_MAX)}, sums[2] = {P, P},
                    one[2] = {rsh_place_replicate(), P};
    const int64_t shape[2] = {4, 4};
    (void)ctx;
    RSH_TRY(line_of(c, &m));
    RSH_TRY(rsh_mesh_new(c, 2, (const int64_t[]){2, 2}, NULL, NULL, &grid));
    RSH_TRY(spread(m, &S, 2, shape, false, &v));
    CHECK_STATUS(RSH_EINDEX, rsh_dtensor_redistribute(v, 1, &beyond, RSH_DTYPE_NONE, &out));
    CHECK_STATUS(RSH_EINDEX,
                 rsh_dtensor_redistribute(v, 1, rsh_comm_rank(c) == 1 ? &beyond : &S, RSH_DTYPE_NONE, &out));
    CHECK_STATUS(RSH_ERUNTIME, rsh_dtensor_redistribute(v, 1, &P, RSH_DTYPE_NONE, &out));
    CHECK_STATUS(RSH_EVALUE, rsh_dtensor_redistribute(v, 2, mixed, RSH_DTYPE_NONE, &out));
    CHECK_STATUS(RSH_EUNSUP, rsh_dtensor_full(grid, 2, mixed, RSH_F64, 2, shape, 1, &out));
    RSH_TRY(rsh_dtensor_full(grid, 2, sums, RSH_F64, 2, shape, 1, &w));
    CHECK_STATUS(RSH_ERUNTIME, rsh_dtensor_redistribute(w, 2, mixed, RSH_DTYPE_NONE, &out));
    /* one mesh dim is reduced, the other stays partial */
    RSH_TRY(rsh_dtensor_redistribute(w, 2, one, RSH_DTYPE_NONE, &out));
    rsh_value *whole = NULL;
    RSH_TRY(rsh_dtensor_full_tensor(out, NULL, &whole));
    for (int64_t i = 0; i < 16; i++) CHECK(at(rsh_value_tensor(whole), i) == 4);
    rsh_value_free(v), rsh_value_free(w), rsh_value_free(out), rsh_value_free(whole);
    rsh_mesh_free(grid), rsh_mesh_free(m);
    return RSH_OK;
}
static void placements_that_cannot_be_are_refused_on_every_rank(void **state) {
    (void)state;
    run_ranks(4, refusals, NULL);
}

/* Two halves of the world, each with its own mesh; only one of them checks its replicas. */
static rsh_status halves(void *ctx, rsh_comm *c) {
    rsh_mesh *m[2] = {NULL, NULL};
    const rsh_place R = rsh_place_replicate();
    rsh_from_local_opts check = {sizeof check, .check = true};
    rsh_value *local = NULL, *v = NULL;
    int me = rsh_comm_rank(c);
    (void)ctx;
    RSH_TRY(rsh_mesh_new(c, 1, (const int64_t[]){2}, (const int64_t[]){1, 3}, NULL, &m[0]));
    RSH_TRY(rsh_mesh_new(c, 1, (const int64_t[]){2}, (const int64_t[]){2, 0}, NULL, &m[1]));
    RSH_TRY(constant(1, (const int64_t[]){3}, me % 2 ? 5 : me, false, &local));
    if (me % 2) RSH_TRY(rsh_dtensor_from_local(local, m[0], 1, &R, &check, &v));
    CHECK(!v == !(me % 2));
    RSH_TRY(rsh_comm_barrier(c));
    if (!(me % 2)) CHECK_STATUS(RSH_EVALUE, rsh_dtensor_from_local(local, m[1], 1, &R, &check, &v)); /* ranks 0 and 2 */
    rsh_value_free(local), rsh_value_free(v);
    rsh_mesh_free(m[1]), rsh_mesh_free(m[0]);
    return RSH_OK;
}
static void replicas_are_compared_within_the_mesh_alone(void **state) {
    (void)state;
    run_ranks(4, halves, NULL);
}

/* ---- factories ---- */

static rsh_status is_whole(rsh_value *v, const rsh_tensor *expected) {
    rsh_value *whole = NULL;
    bool same = false;
    RSH_TRY(rsh_dtensor_full_tensor(v, NULL, &whole));
    RSH_TRY(rsh_math_equal(rsh_value_tensor(whole), expected, &same));
    CHECK(same);
    rsh_value_free(whole);
    rsh_value_free(v);
    return RSH_OK;
}

/* Zeros, ones, another number, uniform and normal: the tensor is the same with all placements, even if shards are
 * empty. */
static rsh_status factories(void *ctx, rsh_comm *c) {
    uint64_t rng = *(uint64_t *)ctx;
    rsh_mesh *m = NULL;
    RSH_TRY(rsh_mesh_new(c, 2, (const int64_t[]){2, 2}, NULL, NULL, &m));
    for (int i = 0; i < 9; i++) {
        const rsh_place p[2] = {i % 3 ? rsh_place_shard(i % 3 - 1) : rsh_place_replicate(),
                                i / 3 ? rsh_place_shard(i / 3 - 1) : rsh_place_replicate()};
        const int64_t shape[2] = {1 + (int64_t)(draw(&rng) % 6), 1 + (int64_t)(draw(&rng) % 6)};
        rsh_dtype dtype = i % 2 ? RSH_F32 : RSH_F64;
        rsh_tensor *t = NULL;
        rsh_value *v = NULL;
        RSH_TRY(rsh_tensor_empty(dtype, 2, shape, &t));
        for (int number = 0; number < 3; number++) {
            RSH_TRY(rsh_math_fill_number(t, number));
            RSH_TRY(rsh_dtensor_full(m, 2, p, dtype, 2, shape, number, &v));
            RSH_TRY(is_whole(v, t));
        }
        RSH_TRY(rsh_math_uniform(t, &(rsh_random){.seed = 7}));
        RSH_TRY(rsh_dtensor_full(m, 2, p, dtype, 2, shape, 0, &v));
        RSH_TRY(rsh_sharded_uniform(rsh_value_sharded(v), 7));
        RSH_TRY(is_whole(v, t));
        RSH_TRY(rsh_math_normal(t, &(rsh_random){.seed = 8}));
        RSH_TRY(rsh_dtensor_full(m, 2, p, dtype, 2, shape, 0, &v));
        RSH_TRY(rsh_sharded_normal(rsh_value_sharded(v), 8));
        RSH_TRY(is_whole(v, t));
        rsh_tensor_free(t);
    }
    rsh_mesh_free(m);
    return RSH_OK;
}
static void factories_give_the_same_tensor_on_every_mesh(void **state) {
    (void)state;
    uint64_t seed = test_seed(USUAL_SEED);
    run_ranks(4, factories, &seed);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_to_local_grad_hint),
        cmocka_unit_test(test_full_tensor_grad_hint),
        cmocka_unit_test(test_from_local_uneven_sharding),
        cmocka_unit_test(test_from_local_uneven_sharding_raise_error),
        cmocka_unit_test(test_scatter_uneven),
        cmocka_unit_test(test_all_gather_uneven),
        cmocka_unit_test(test_reduce_scatter_uneven),
        cmocka_unit_test(data_on_a_mesh_that_does_not_ascend_is_in_order),
        cmocka_unit_test(nested_chunks_lose_no_row),
        cmocka_unit_test(placements_that_cannot_be_are_refused_on_every_rank),
        cmocka_unit_test(replicas_are_compared_within_the_mesh_alone),
        cmocka_unit_test(factories_give_the_same_tensor_on_every_mesh),
    };
    return RUN_EVERYWHERE(tests);
}
