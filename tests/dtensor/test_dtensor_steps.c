/* DTensors in steps: redistributions that are begun and waited for, and counts of moves. */

#include <reshard/alloc.h>

#include "wholes.h"

/* ---- in steps ---- */

static rsh_status spread(rsh_mesh *m, const rsh_place *places, bool leaf, rsh_value **out) {
    rsh_tensor *t = NULL;
    RSH_TRY(make_whole(RSH_F64, 2, (const int64_t[]){7, 5}, &t));
    rsh_status st = rsh_dtensor_distribute(t, leaf, m, rsh_mesh_ndim(m), places, 0, out);
    rsh_tensor_free(t);
    return st;
}

static rsh_status finish(rsh_value_transit *t, bool test, rsh_value **out) {
    for (bool done = !test; !done;) RSH_TRY(rsh_value_transit_test(t, &done));
    RSH_TRY(rsh_value_transit_wait(t, out));
    rsh_value_transit_free(t);
    return RSH_OK;
}

/* Two moves of one leaf are in progress at once; both gradients come back. */
static rsh_status steps(void *ctx, rsh_comm *c) {
    rsh_mesh *m = NULL;
    const rsh_place rows = rsh_place_shard(0), columns = rsh_place_shard(1), whole = rsh_place_replicate();
    (void)ctx;
    RSH_TRY(rsh_mesh_new(c, 1, (const int64_t[]){3}, NULL, NULL, &m));
    for (int i = 0; i < 2; i++) {
        rsh_value *v = NULL, *a = NULL, *b = NULL, *seeds[2] = {NULL, NULL};
        rsh_value_transit *first = NULL, *second = NULL;
        RSH_TRY(spread(m, &rows, true, &v));
        RSH_TRY(rsh_dtensor_redistribute_begin(v, 1, &columns, RSH_DTYPE_NONE, &first));
        RSH_TRY(rsh_dtensor_redistribute_begin(v, 1, &whole, RSH_F32, &second));
        RSH_TRY(finish(first, i, &a));
        RSH_TRY(finish(second, i, &b));
        if (!v) { /* NULL outside of the mesh gives NULL */
            CHECK(!a && !b);
            continue;
        }
        CHECK(rsh_dtensor_mesh(a) == m && rsh_value_dtype(b) == RSH_F32);
        RSH_TRY(holds(a, 1));
        RSH_TRY(holds(b, 1));
        RSH_TRY(spread(m, &columns, false, &seeds[0]));
        RSH_TRY(rsh_dtensor_full(m, 1, &whole, RSH_F32, 2, (const int64_t[]){7, 5}, 0, &seeds[1]));
        RSH_TRY(rsh_backward_many(2, (rsh_value *const[]){a, b}, seeds, 0));
        RSH_TRY(holds(rsh_value_grad(v), 1));
        rsh_value_free(v), rsh_value_free(a), rsh_value_free(b), rsh_value_free(seeds[0]), rsh_value_free(seeds[1]);
    }
    rsh_mesh_free(m);
    return RSH_OK;
}
static void a_redistribution_in_steps_has_the_same_gradient(void **state) {
    (void)state;
    run_ranks(4, steps, NULL);
}

static rsh_status odd_steps(void *ctx, rsh_comm *c) {
    rsh_mesh *m = NULL;
    const rsh_place rows = rsh_place_shard(0), columns = rsh_place_shard(1), sum = rsh_place_partial(RSH_OP_SUM);
    rsh_value *v = NULL, *same = NULL;
    rsh_value_transit *t = NULL;
    int me = rsh_comm_rank(c);
    (void)ctx;
    RSH_TRY(rsh_mesh_new(c, 1, (const int64_t[]){3}, NULL, NULL, &m));
    RSH_TRY(spread(m, &rows, true, &v));
    RSH_TRY(rsh_dtensor_redistribute_begin(v, 1, &rows, RSH_DTYPE_NONE, &t)); /* no element moves */
    RSH_TRY(finish(t, true, &same));
    CHECK(same == v);
    t = NULL;
    CHECK_STATUS(RSH_ERUNTIME, rsh_dtensor_redistribute_begin(v, 1, me == 1 ? &sum : &columns, RSH_DTYPE_NONE, &t));
    CHECK_STATUS(RSH_ERUNTIME, rsh_dtensor_redistribute_begin(v, 1, me == 1 ? NULL : &rows, RSH_DTYPE_NONE, &t));
    CHECK_STATUS(RSH_EVALUE, rsh_dtensor_redistribute_begin(v, 2, &rows, RSH_DTYPE_NONE, &t));
    CHECK(!t);
    RSH_TRY(rsh_dtensor_redistribute_begin(v, 1, &columns, RSH_DTYPE_NONE, &t));
    rsh_value_free(v); /* the transit holds a reference */
    rsh_value_transit_free(t);
    rsh_value_free(same);
    rsh_mesh_free(m);
    return rsh_comm_barrier(c);
}
static void what_is_refused_or_unwanted_ends_on_all_ranks(void **state) {
    (void)state;
    run_ranks(3, odd_steps, NULL);
}

/* ---- counting moves ---- */

static uint64_t moves_of(rsh_mesh *m) {
    rsh_cache_stats s = RSH_CACHE_STATS_INIT;
    rsh_comm_get_cache_stats(rsh_mesh_comm(m), &s);
    return s.hits + s.misses;
}

static rsh_status numbers(int64_t rows, double value, rsh_value **out) {
    rsh_tensor *t = NULL;
    RSH_TRY(rsh_tensor_empty(RSH_F64, 2, (const int64_t[]){rows, 5}, &t));
    for (int64_t i = 0; i < rsh_tensor_count(t); i++) ((double *)rsh_tensor_data(t))[i] = value;
    return rsh_value_adopt_tensor(t, false, out);
}

/* Redistributes to R and reads locally, with gradients that are contributions: one plan moves them to the placements of
 * the leaf, whatever these are. */
static rsh_status hinted(rsh_mesh *m, rsh_place from, uint64_t moves) {
    const rsh_place whole = rsh_place_replicate(), sum = rsh_place_partial(RSH_OP_SUM);
    rsh_value *v = NULL, *all = NULL, *local = NULL, *seed = NULL;
    int me = rsh_comm_rank(rsh_mesh_comm(m)), ranks = rsh_comm_size(rsh_mesh_comm(m));
    RSH_TRY(spread(m, &from, true, &v));
    RSH_TRY(rsh_dtensor_redistribute(v, 1, &whole, RSH_DTYPE_NONE, &all));
    RSH_TRY(rsh_dtensor_to_local(all, &sum, &local));
    RSH_TRY(numbers(7, me + 1, &seed));
    uint64_t before = moves_of(m);
    RSH_TRY(rsh_backward(local, seed, 0));
    CHECK(moves_of(m) - before == moves);
    RSH_TRY(gradient_has(rsh_value_grad(v), &from, ranks * (ranks + 1) / 2));
    rsh_value_free(v), rsh_value_free(all), rsh_value_free(local), rsh_value_free(seed);
    return RSH_OK;
}

static rsh_status hints(void *ctx, rsh_comm *c) {
    rsh_mesh *m = NULL;
    (void)ctx;
    RSH_TRY(rsh_mesh_new(c, 1, (const int64_t[]){4}, NULL, NULL, &m));
    /* contributions go to chunks in one plan, without assembling the whole gradient */
    RSH_TRY(hinted(m, rsh_place_shard(0), 1));
    RSH_TRY(hinted(m, rsh_place_replicate(), 1)); /* D10 */
    rsh_mesh_free(m);
    return RSH_OK;
}
static void a_gradient_moves_once_from_where_it_is(void **state) {
    (void)state;
    run_ranks(4, hints, NULL);
}

/* If nothing is partial, the moved bytes are the least possible. */
static rsh_status bounds(void *ctx, rsh_comm *c) {
    uint64_t rng = *(uint64_t *)ctx;
    rsh_mesh *m = NULL;
    RSH_TRY(rsh_mesh_new(c, 2, (const int64_t[]){2, 2}, NULL, NULL, &m));
    for (int i = 0; i < 81; i++) {
        rsh_place p[4];
        for (int k = 0, left = i; k < 4; k++, left /= 3)
            p[k] = left % 3 ? rsh_place_shard(left % 3 - 1) : rsh_place_replicate();
        const int64_t shape[2] = {1 + (int64_t)(draw(&rng) % 9), 1 + (int64_t)(draw(&rng) % 9)};
        rsh_layout *from = NULL, *to = NULL;
        rsh_plan *plan = NULL;
        rsh_plan_totals totals = RSH_PLAN_TOTALS_INIT;
        RSH_TRY(rsh_mesh_layout(m, RSH_MESH_POSITIONS, 2, p, RSH_F64, 2, shape, &from));
        RSH_TRY(rsh_mesh_layout(m, RSH_MESH_POSITIONS, 2, p + 2, RSH_F64, 2, shape, &to));
        RSH_TRY(rsh_plan_new(from, to, NULL, &plan));
        RSH_TRY(rsh_plan_get_totals(plan, &totals));
        CHECK(totals.bytes_moved == totals.lower_bound);
        rsh_plan_free(plan);
        rsh_layout_free(from), rsh_layout_free(to);
    }
    rsh_mesh_free(m);
    return RSH_OK;
}
static void bytes_moved_are_the_least_possible(void **state) {
    (void)state;
    uint64_t seed = test_seed(USUAL_SEED);
    run_ranks(4, bounds, &seed);
}

/* Reads the counts of this rank, while no rank is in a move. */
static rsh_status take_stock(rsh_mesh *m, rsh_cache_stats *cache, rsh_alloc_stats *memory) {
    RSH_TRY(rsh_comm_barrier(rsh_mesh_comm(m)));
    RSH_TRY(rsh_comm_get_cache_stats(rsh_mesh_comm(m), cache));
    *memory = rsh_alloc_get_stats();
    return rsh_comm_barrier(rsh_mesh_comm(m));
}

/* From the third time on nothing is planned or bound, and new tensors reuse the memory of freed ones. */
static rsh_status steady(rsh_mesh *m, int64_t n) {
    rsh_tensor *t = NULL;
    rsh_value *v = NULL;
    rsh_cache_stats cache[2] = {RSH_CACHE_STATS_INIT, RSH_CACHE_STATS_INIT};
    rsh_alloc_stats memory[2] = {0};
    const rsh_place rows = rsh_place_shard(0), columns = rsh_place_shard(1);
    uint64_t each = 0;
    RSH_TRY(make_whole(RSH_F64, 2, (const int64_t[]){n, n}, &t));
    RSH_TRY(rsh_dtensor_distribute(t, true, m, 1, &rows, 0, &v));
    rsh_tensor_free(t);
    for (int i = 0; i < 10; i++) {
        rsh_value *moved = NULL;
        if (i == 2) RSH_TRY(take_stock(m, &cache[0], &memory[0]));
        uint64_t before = rsh_alloc_get_stats().allocations;
        RSH_TRY(rsh_dtensor_redistribute(v, 1, &columns, RSH_DTYPE_NONE, &moved));
        before = rsh_alloc_get_stats().allocations - before;
        if (i == 2) each = before;
        CHECK(i <= 2 || before == each);
        rsh_value_free(moved);
    }
    RSH_TRY(take_stock(m, &cache[1], &memory[1]));
    CHECK(cache[1].misses == cache[0].misses && cache[1].hits == cache[0].hits + 8);
    CHECK(cache[1].bindings == cache[0].bindings && memory[1].live == memory[0].live);
    CHECK(memory[1].data_bytes == memory[0].data_bytes && memory[1].cached_bytes == memory[0].cached_bytes);
    rsh_value_free(v);
    return RSH_OK;
}

static rsh_status steady_sizes(void *ctx, rsh_comm *c) {
    rsh_mesh *m = NULL;
    (void)ctx;
    RSH_TRY(rsh_mesh_new(c, 1, (const int64_t[]){2}, NULL, NULL, &m));
    RSH_TRY(steady(m, 7));
    RSH_TRY(steady(m, 512));
    rsh_mesh_free(m);
    return RSH_OK;
}
static void a_loop_plans_and_binds_once(void **state) {
    (void)state;
    run_ranks(2, steady_sizes, NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_redistribution_in_steps_has_the_same_gradient),
        cmocka_unit_test(what_is_refused_or_unwanted_ends_on_all_ranks),
        cmocka_unit_test(a_gradient_moves_once_from_where_it_is),
        cmocka_unit_test(bytes_moved_are_the_least_possible),
        cmocka_unit_test(a_loop_plans_and_binds_once),
    };
    return RUN_EVERYWHERE(tests);
}
