/* DTensor cuts: changes of the dim that is cut, mesh dims with one rank, values that become partial inside an op, and
 * complex elements. */
#include "wholes.h"

static rsh_status spread(rsh_mesh *m, const rsh_place *places, int ndim, const int64_t *shape, rsh_value **out) {
    rsh_tensor *t = NULL;
    RSH_TRY(make_whole(RSH_F64, ndim, shape, &t));
    rsh_status st = rsh_dtensor_distribute(t, false, m, rsh_mesh_ndim(m), places, 0, out);
    rsh_tensor_free(t);
    return st;
}

/* Returns the totals of a move: the bytes that it moves and the lower bound. */
static rsh_status bytes_between(const rsh_value *from, const rsh_value *to, rsh_plan_totals *out) {
    rsh_plan *plan = NULL;
    RSH_TRY(rsh_plan_new(rsh_value_layout(from), rsh_value_layout(to), NULL, &plan));
    rsh_status st = rsh_plan_get_totals(plan, out);
    rsh_plan_free(plan);
    return st;
}

/* ---- another dim is cut ---- */

/* Every part must equal that of a newly distributed tensor, and no more bytes than necessary may move. */
static rsh_status change(rsh_mesh *m, const rsh_place *from, const rsh_place *to, int ndim, const int64_t *shape) {
    rsh_value *v = NULL, *moved = NULL, *fresh = NULL;
    rsh_plan_totals totals = RSH_PLAN_TOTALS_INIT;
    RSH_TRY(spread(m, from, ndim, shape, &v));
    RSH_TRY(spread(m, to, ndim, shape, &fresh));
    RSH_TRY(rsh_dtensor_redistribute(v, rsh_mesh_ndim(m), to, RSH_DTYPE_NONE, &moved));
    CHECK(rsh_layout_equal(rsh_value_layout(moved), rsh_value_layout(fresh)));
    RSH_TRY(holds(moved, 1));
    RSH_TRY(holds(fresh, 1));
    RSH_TRY(bytes_between(v, moved, &totals));
    CHECK(totals.bytes_moved == totals.lower_bound);
    rsh_value_free(v), rsh_value_free(moved), rsh_value_free(fresh);
    return RSH_OK;
}

/* Changes every cut to every other one; all dims of the mesh cut the tensor. */
static rsh_status changes(rsh_mesh *m, int ndim, const int64_t *shape) {
    int cuts = rsh_mesh_ndim(m) == 1 ? ndim : ndim * ndim;
    for (int i = 0; i < cuts * cuts; i++) {
        const rsh_place from[2] = {rsh_place_shard(i % cuts % ndim), rsh_place_shard(i % cuts / ndim)};
        const rsh_place to[2] = {rsh_place_shard(i / cuts % ndim), rsh_place_shard(i / cuts / ndim)};
        RSH_TRY(change(m, from, to, ndim, shape));
    }
    return RSH_OK;
}

static rsh_status d9(void *ctx, rsh_comm *c) {
    static const int64_t sizes[5][3] = {{8, 8}, {8, 5}, {5, 8}, {5, 5}, {8, 8, 8}};
    rsh_mesh *line = NULL, *square = NULL;
    (void)ctx;
    RSH_TRY(rsh_mesh_new(c, 1, (const int64_t[]){4}, NULL, NULL, &line));
    RSH_TRY(rsh_mesh_new(c, 2, (const int64_t[]){2, 2}, NULL, NULL, &square));
    for (int i = 0; i < 5; i++) {
        RSH_TRY(changes(line, i == 4 ? 3 : 2, sizes[i]));
        if (i < 4 || !here->wire) RSH_TRY(changes(square, i == 4 ? 3 : 2, sizes[i]));
    }
    rsh_mesh_free(line), rsh_mesh_free(square);
    return RSH_OK;
}
static void D9_another_dim_is_cut(void **state) {
    (void)state;
    run_ranks(4, d9, NULL);
}

/* ---- a mesh dim with one rank: nothing moves ---- */

static rsh_status d12(void *ctx, rsh_comm *c) {
    const rsh_place rows = rsh_place_shard(0), columns = rsh_place_shard(1), whole = rsh_place_replicate();
    const rsh_place before[3] = {columns, whole, rsh_place_partial(RSH_OP_SUM)}, after[3] = {rows, columns, whole};
    rsh_mesh *m = NULL;
    (void)ctx;
    RSH_TRY(rsh_mesh_new(c, 2, (const int64_t[]){4, 1}, NULL, NULL, &m));
    for (int i = 0; i < 9; i++) {
        const rsh_place from[2] = {rows, before[i % 3]}, to[2] = {rows, after[i / 3]};
        rsh_value *local = NULL, *v = NULL, *moved = NULL;
        rsh_plan_totals totals = RSH_PLAN_TOTALS_INIT;
        RSH_TRY(local_whole(RSH_F64, 2, (const int64_t[]){16, 8}, &local));
        RSH_TRY(rsh_dtensor_from_local(local, m, 2, from, NULL, &v));
        RSH_TRY(rsh_dtensor_redistribute(v, 2, to, RSH_DTYPE_NONE, &moved));
        for (int64_t k = 0; k < 128; k++) CHECK(at(rsh_value_tensor(moved), k) == (double)(k + 1));
        RSH_TRY(bytes_between(v, moved, &totals));
        CHECK(totals.bytes_moved == 0);
        rsh_value_free(local), rsh_value_free(v), rsh_value_free(moved);
    }
    rsh_mesh_free(m);
    return RSH_OK;
}
static void D12_a_dim_of_one_rank_moves_nothing(void **state) {
    (void)state;
    run_ranks(4, d12, NULL);
}

/* ---- a replicated value becomes partial: it counts once and is zero elsewhere, so that the sum is exact ---- */

static rsh_status counts_once(rsh_mesh *m) {
    rsh_place whole[2] = {rsh_place_replicate(), rsh_place_replicate()};
    rsh_place sum[2] = {rsh_place_partial(RSH_OP_SUM), rsh_place_partial(RSH_OP_SUM)};
    rsh_value *v = NULL, *partial = NULL, *again = NULL;
    rsh_layout *l = NULL;
    int n = rsh_mesh_ndim(m);
    RSH_TRY(spread(m, whole, 2, (const int64_t[]){12, 3}, &v));
    CHECK_STATUS(RSH_ERUNTIME, rsh_dtensor_redistribute(v, n, sum, RSH_DTYPE_NONE, &again));
    RSH_TRY(rsh_mesh_layout(m, RSH_MESH_POSITIONS, n, sum, RSH_F64, 2, (const int64_t[]){12, 3}, &l));
    RSH_TRY(rsh_value_reshard(v, l, RSH_DERIVATIVE_BACKWARD, NULL, &partial));
    for (int64_t i = 0; i < 36; i++)
        CHECK(at(rsh_value_tensor(partial), i) == (rsh_comm_rank(rsh_mesh_comm(m)) ? 0 : (double)(i + 1)));
    RSH_TRY(rsh_value_reshard(partial, rsh_value_layout(v), RSH_DERIVATIVE_BACKWARD, NULL, &again));
    RSH_TRY(holds(again, 1));
    rsh_layout_free(l);
    rsh_value_free(v), rsh_value_free(partial), rsh_value_free(again);
    return RSH_OK;
}

static rsh_status d5(void *ctx, rsh_comm *c) {
    rsh_mesh *line = NULL, *square = NULL;
    (void)ctx;
    RSH_TRY(rsh_mesh_new(c, 1, (const int64_t[]){4}, NULL, NULL, &line));
    RSH_TRY(rsh_mesh_new(c, 2, (const int64_t[]){2, 2}, NULL, NULL, &square));
    RSH_TRY(counts_once(line));
    RSH_TRY(counts_once(square));
    rsh_mesh_free(line), rsh_mesh_free(square);
    return RSH_OK;
}
static void D5_a_replicated_value_that_becomes_partial_counts_once(void **state) {
    (void)state;
    run_ranks(4, d5, NULL);
}

/* ---- complex elements ---- */

static rsh_status complex_there_and_back(rsh_mesh *m, int dim, const int64_t *shape) {
    const rsh_place cut = rsh_place_shard(dim), whole = rsh_place_replicate();
    rsh_tensor *t = NULL;
    rsh_value *v = NULL, *all = NULL, *again = NULL;
    RSH_TRY(rsh_tensor_empty(RSH_C64, 2, shape, &t));
    int64_t n = rsh_tensor_count(t);
    for (int64_t i = 0; i < 2 * n; i++) ((float *)rsh_tensor_data(t))[i] = (float)(i + 1);
    RSH_TRY(rsh_dtensor_distribute(t, false, m, 1, &cut, 0, &v));
    RSH_TRY(rsh_dtensor_redistribute(v, 1, &whole, RSH_DTYPE_NONE, &all));
    CHECK(!memcmp(rsh_tensor_data(rsh_value_tensor(all)), rsh_tensor_data(t), (size_t)n * 2 * sizeof(float)));
    RSH_TRY(rsh_dtensor_redistribute(all, 1, &cut, RSH_DTYPE_NONE, &again));
    CHECK(rsh_value_dtype(again) == RSH_C64 && rsh_layout_equal(rsh_value_layout(v), rsh_value_layout(again)));
    const rsh_tensor *a = rsh_value_tensor(v), *b = rsh_value_tensor(again);
    CHECK(!memcmp(rsh_tensor_data(a), rsh_tensor_data(b), (size_t)rsh_tensor_count(a) * 2 * sizeof(float)));
    rsh_tensor_free(t);
    rsh_value_free(v), rsh_value_free(all), rsh_value_free(again);
    return RSH_OK;
}

static rsh_status d1_d3(void *ctx, rsh_comm *c) {
    static const int64_t sizes[6][2] = {{12, 3}, {13, 3}, {14, 3}, {3, 12}, {3, 13}, {3, 14}};
    rsh_mesh *m = NULL;
    (void)ctx;
    RSH_TRY(rsh_mesh_new(c, 1, (const int64_t[]){4}, NULL, NULL, &m));
    for (int i = 0; i < 6; i++) RSH_TRY(complex_there_and_back(m, i / 3, sizes[i]));
    rsh_mesh_free(m);
    return RSH_OK;
}
static void D1_D3_complex_elements_are_gathered_and_cut(void **state) {
    (void)state;
    run_ranks(4, d1_d3, NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(D9_another_dim_is_cut),
        cmocka_unit_test(D12_a_dim_of_one_rank_moves_nothing),
        cmocka_unit_test(D5_a_replicated_value_that_becomes_partial_counts_once),
        cmocka_unit_test(D1_D3_complex_elements_are_gathered_and_cut),
    };
    return RUN_EVERYWHERE(tests);
}
