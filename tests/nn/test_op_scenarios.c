/* Ops on DTensors in scenarios: loss_parallel, views that move a cut, embedding, softmax over a cut dim, a loop. */
#include "nn/lines.h"

#include "nn/numbers.h"

#include <reshard/nn.h>

static rsh_status close_to(const rsh_value *got, const rsh_value *want) {
    CHECK(got && want && count_of(got) == count_of(want));
    for (int64_t i = 0; i < count_of(want); i++)
        CHECK(fabs(element_of(got, i) - element_of(want, i)) <= 1e-12 * (1 + fabs(element_of(want, i))));
    return RSH_OK;
}

static rsh_status full_close_to(rsh_value *got, const rsh_value *want) {
    rsh_value *full = NULL;
    TRY(rsh_dtensor_full_tensor(got, NULL, &full));
    rsh_status st = close_to(full, want);
    rsh_value_free(full);
    return st;
}

/* Returns the number of moves between ranks on this comm so far. */
static uint64_t moves(rsh_comm *c) {
    rsh_cache_stats s = RSH_CACHE_STATS_INIT;
    rsh_comm_get_cache_stats(c, &s);
    return s.hits + s.misses;
}

static rsh_status is_placed(const rsh_value *v, const rsh_place *places) {
    rsh_place now[RSH_MAX_AXES];
    TRY(rsh_dtensor_places(v, now));
    CHECK(rsh_places_equal(rsh_value_ndim(v), rsh_mesh_ndim(rsh_dtensor_mesh(v)), now, places));
    return RSH_OK;
}

/* Computes the sum of all elements, and backward from it. */
static rsh_status back_from_sum(rsh_value *y) {
    rsh_value *sum = NULL;
    TRY(rsh_nn_sum(y, 0, NULL, false, &sum));
    rsh_status st = rsh_backward(sum, NULL, 0);
    rsh_value_free(sum);
    return st;
}

/* ---- loss_parallel ---- */

/* Logits are cut by classes, targets are whole: the loss is replicated, and the logits' gradient is cut like the
 * logits.  Forward reduces twice (a maximum and sums of each row), and backward moves nothing. */
static rsh_status one_loss(rsh_mesh *m, const rsh_place *logits, const rsh_place *loss, int ndim, const int64_t *shape,
                           rsh_loss_reduction reduction, int combines) {
    int64_t rows[2] = {shape[0], ndim > 2 ? shape[2] : 1};
    rsh_value *x = some_value(RSH_F64, 1, true, ndim, shape), *target = some_indices(shape[1], ndim - 1, rows);
    rsh_value *dx = NULL, *y = NULL, *dy = NULL;
    rsh_cross_entropy_opts o = {sizeof o, reduction, false, 0, 0};
    TRY(placed(m, x, logits, &dx));
    TRY(rsh_nn_cross_entropy(x, target, &o, &y));
    uint64_t before = moves(rsh_mesh_comm(m));
    TRY(rsh_nn_cross_entropy(dx, target, &o, &dy));
    if (combines >= 0) CHECK(moves(rsh_mesh_comm(m)) - before == (uint64_t)combines);
    TRY(is_placed(dy, loss));
    TRY(full_close_to(dy, y));
    TRY(back_from_sum(y));
    before = moves(rsh_mesh_comm(m));
    TRY(back_from_sum(dy));
    if (combines >= 0) CHECK(moves(rsh_mesh_comm(m)) == before);
    TRY(is_placed(rsh_value_grad(dx), logits));
    TRY(full_close_to(rsh_value_grad(dx), rsh_value_grad(x)));
    rsh_value_free(x), rsh_value_free(target), rsh_value_free(dx), rsh_value_free(y), rsh_value_free(dy);
    return RSH_OK;
}

static const rsh_loss_reduction reductions[] = {RSH_LOSS_NONE, RSH_LOSS_MEAN, RSH_LOSS_SUM};

static rsh_status loss_on_a_line(void *ctx, rsh_comm *c) {
    (void)ctx;
    rsh_mesh *m = NULL;
    rsh_place whole = rsh_place_replicate(), cut = rsh_place_shard(1);
    TRY(line_of(c, &m));
    for (int i = 0; i < 3; i++) {
        TRY(one_loss(m, &cut, &whole, 2, (int64_t[]){8, 16}, reductions[i], 2));
        TRY(one_loss(m, &cut, &whole, 3, (int64_t[]){8, 16, 12}, reductions[i], 2));
        /* the number of classes is not divisible by the number of ranks */
        TRY(one_loss(m, &cut, &whole, 2, (int64_t[]){3, 5}, reductions[i], 2));
        TRY(one_loss(m, &cut, &whole, 2, (int64_t[]){3, 2}, reductions[i], 2)); /* there are fewer classes than ranks */
    }
    rsh_mesh_free(m);
    return RSH_OK;
}

static void test_loss_parallel(void **state) {
    (void)state;
    run_on(1, 4, loss_on_a_line);
}

/* Rows are cut by one mesh dim, classes by the other. */
static rsh_status loss_on_a_square(void *ctx, rsh_comm *c) {
    (void)ctx;
    rsh_mesh *m = NULL;
    TRY(rsh_mesh_new(c, 2, (int64_t[]){2, 2}, NULL, NULL, &m));
    rsh_place cut[2] = {rsh_place_shard(0), rsh_place_shard(1)}, nested[2] = {rsh_place_shard(1), rsh_place_shard(1)};
    rsh_place rows[2] = {rsh_place_shard(0), rsh_place_replicate()},
              whole[2] = {rsh_place_replicate(), rsh_place_replicate()};
    rsh_place sum[2] = {rsh_place_partial(RSH_OP_SUM), rsh_place_replicate()};
    for (int i = 0; i < 3; i++) {
        const rsh_place *loss = reductions[i] == RSH_LOSS_NONE ? rows : sum;
        TRY(one_loss(m, cut, loss, 2, (int64_t[]){8, 16}, reductions[i], -1));
        TRY(one_loss(m, cut, loss, 3, (int64_t[]){5, 7, 2}, reductions[i], -1));
        TRY(one_loss(m, nested, whole, 2, (int64_t[]){4, 5}, reductions[i], 2));
    }
    rsh_mesh_free(m);
    return RSH_OK;
}

static void test_loss_parallel_multi_dim_mesh(void **state) {
    (void)state;
    run_on(4, 4, loss_on_a_square);
}

/* ---- views ---- */

/* Turns chunks of the last dim into chunks of dim 1: the last dim is split at the ends of the chunks, the new dim is
 * moved to the front, and dims are joined.  Every rank keeps the same part throughout.  In one step this is an error,
 * because the rows of a chunk would not be contiguous. */
static rsh_status change_of_dim(void *ctx, rsh_comm *c) {
    (void)ctx;
    rsh_mesh *m = NULL;
    int64_t n = rsh_comm_size(c);
    rsh_place last = rsh_place_shard(2), middle = rsh_place_shard(1);
    rsh_value *own = some_value(RSH_F64, rsh_comm_rank(c), true, SIZES(3, 5, 6)), *x = NULL, *v[3] = {NULL}, *y = NULL;
    TRY(line_of(c, &m));
    TRY(rsh_dtensor_from_local(own, m, 1, &last, NULL, &x));
    TRY(rsh_nn_reshape(x, SIZES(3, 5, n, 6), &v[0]));
    TRY(is_placed(v[0], &last));
    TRY(rsh_nn_transpose(v[0], 1, 2, &v[1]));
    TRY(is_placed(v[1], &middle));
    TRY(rsh_nn_reshape(v[1], SIZES(3, -1, 6), &v[2]));
    TRY(is_placed(v[2], &middle));
    TRY(rsh_dtensor_to_local(v[2], NULL, &y));
    CHECK(rsh_value_shape(y)[1] == 5);
    TRY(close_to(y, own));
    TRY(back_from_sum(v[2]));
    for (int64_t i = 0; i < count_of(own); i++) CHECK(element_of(rsh_value_grad(own), i) == 1);
    rsh_value *no = NULL;
    CHECK_STATUS(RSH_EUNSUP, rsh_nn_reshape(x, SIZES(3, 5 * n, 6), &no));
    rsh_value_free(own), rsh_value_free(x), rsh_value_free(y);
    for (int i = 0; i < 3; i++) rsh_value_free(v[i]);
    rsh_mesh_free(m);
    return RSH_OK;
}

static void test_view_with_sharding_dim_change(void **state) {
    (void)state;
    run_on(2, 4, change_of_dim);
}

/* 12 elements on 4 ranks are 3 each, which do not end with a row of 4. */
static rsh_status uneven_view(void *ctx, rsh_comm *c) {
    (void)ctx;
    rsh_mesh *m = NULL;
    rsh_place cut = rsh_place_shard(0);
    rsh_value *whole = some_value(RSH_F64, 3, true, SIZES(12)), *x = NULL, *y = NULL, *even = NULL;
    TRY(line_of(c, &m));
    TRY(placed(m, whole, &cut, &x));
    CHECK_STATUS(RSH_EUNSUP, rsh_nn_reshape(x, SIZES(3, 4), &y));
    CHECK(strstr(rsh_error_detail(), "reshape of DTensors with placements (S0): the chunks of dim 0"));
    TRY(rsh_nn_reshape(x, SIZES(4, 3), &even));
    TRY(is_placed(even, &cut));
    rsh_value_free(whole), rsh_value_free(x), rsh_value_free(even);
    rsh_mesh_free(m);
    return RSH_OK;
}

/* A sum along one mesh dim and an average along the other cannot be one partial tensor. */
static rsh_status mixed_ops(void *ctx, rsh_comm *c) {
    (void)ctx;
    rsh_mesh *m = NULL;
    rsh_place places[2] = {rsh_place_shard(0), rsh_place_partial(RSH_OP_AVG)};
    rsh_value *own = some_value(RSH_F64, 3, true, SIZES(2, 3)), *x = NULL, *y = NULL;
    TRY(rsh_mesh_new(c, 2, (int64_t[]){2, 2}, NULL, NULL, &m));
    TRY(rsh_dtensor_from_local(own, m, 2, places, NULL, &x));
    CHECK_STATUS(RSH_EUNSUP, rsh_nn_sum(x, 0, NULL, false, &y));
    CHECK(strstr(rsh_error_detail(),
                 "sum of DTensors with placements (S0, P(avg)): partial placements must use one reduction"));
    rsh_value_free(own), rsh_value_free(x);
    rsh_mesh_free(m);
    return RSH_OK;
}

static void a_sum_of_averages_is_refused_with_the_reason(void **state) {
    (void)state;
    run_on(4, 4, mixed_ops);
}

static void a_view_whose_chunks_would_end_elsewhere_is_refused(void **state) {
    (void)state;
    run_on(4, 4, uneven_view);
}

/* ---- embedding ---- */

static rsh_status one_embedding(rsh_mesh *m, rsh_place weight, rsh_place result, int64_t padding) {
    rsh_value *w = some_value(RSH_F64, 2, true, SIZES(10, 6)), *index = some_indices(10, SIZES(3, 4));
    rsh_value *dw = NULL, *y = NULL, *dy = NULL;
    TRY(placed(m, w, &weight, &dw));
    TRY(rsh_nn_embedding(index, w, padding, &y));
    TRY(rsh_nn_embedding(index, dw, padding, &dy)); /* plain indices are equal on every rank */
    TRY(is_placed(dy, &result));
    TRY(full_close_to(dy, y));
    TRY(back_from_sum(y));
    TRY(back_from_sum(dy));
    TRY(is_placed(rsh_value_grad(dw), &weight));
    TRY(full_close_to(rsh_value_grad(dw), rsh_value_grad(w)));
    rsh_value_free(w), rsh_value_free(index), rsh_value_free(dw), rsh_value_free(y), rsh_value_free(dy);
    return RSH_OK;
}

static rsh_status embeddings(void *ctx, rsh_comm *c) {
    (void)ctx;
    rsh_mesh *m = NULL;
    TRY(line_of(c, &m));
    for (int64_t padding = -1; padding < 10; padding += 5) {
        TRY(one_embedding(m, rsh_place_shard(0), rsh_place_partial(RSH_OP_SUM), padding));
        TRY(one_embedding(m, rsh_place_shard(1), rsh_place_shard(2), padding));
    }
    rsh_mesh_free(m);
    return RSH_OK;
}

static void test_embedding_row_wise_and_col_wise(void **state) {
    (void)state;
    run_on(1, 4, embeddings);
}

/* ---- softmax over a cut dim ---- */

static rsh_status cut_softmax(void *ctx, rsh_comm *c) {
    (void)ctx;
    rsh_mesh *m = NULL;
    rsh_place cut = rsh_place_shard(1);
    TRY(line_of(c, &m));
    for (int log = 0; log < 2; log++) {
        rsh_value *x = some_value(RSH_F64, 4, true, SIZES(7, 9)), *seed = some_value(RSH_F64, 8, false, SIZES(7, 9));
        rsh_value *dx = NULL, *y = NULL, *dy = NULL, *dseed = NULL;
        TRY(placed(m, x, &cut, &dx));
        TRY(placed(m, seed, &cut, &dseed));
        TRY((log ? rsh_nn_log_softmax : rsh_nn_softmax)(x, 1, &y));
        uint64_t before = moves(rsh_mesh_comm(m));
        TRY((log ? rsh_nn_log_softmax : rsh_nn_softmax)(dx, 1, &dy));
        CHECK(moves(rsh_mesh_comm(m)) - before == 2);
        TRY(full_close_to(dy, y));
        TRY(rsh_backward(y, seed, 0));
        before = moves(rsh_mesh_comm(m));
        TRY(rsh_backward(dy, dseed, 0));
        CHECK(moves(rsh_mesh_comm(m)) - before == 1);
        TRY(is_placed(rsh_value_grad(dx), &cut));
        TRY(full_close_to(rsh_value_grad(dx), rsh_value_grad(x)));
        rsh_value_free(x), rsh_value_free(seed), rsh_value_free(dx), rsh_value_free(y), rsh_value_free(dy);
        rsh_value_free(dseed);
    }
    rsh_mesh_free(m);
    return RSH_OK;
}

static void softmax_over_a_cut_dim_combines_three_numbers_of_a_row(void **state) {
    (void)state;
    run_on(1, 4, cut_softmax);
}

/* ---- plain tensors ---- */

static rsh_status plain_beside(void *ctx, rsh_comm *c) {
    (void)ctx;
    rsh_mesh *m = NULL;
    rsh_place cut = rsh_place_shard(0);
    rsh_value *whole = some_value(RSH_F64, 3, false, SIZES(6, 2)), *one = number_value(RSH_F64, 2);
    rsh_value *x = NULL, *y = NULL, *z = NULL, *no = NULL, *mask = some_mask(SIZES(6, 2));
    TRY(line_of(c, &m));
    TRY(placed(m, whole, &cut, &x));
    TRY(rsh_nn_mul(x, one, &y));
    TRY(is_placed(y, &cut));
    TRY(rsh_nn_masked_fill(x, mask, 1, &z));
    TRY(is_placed(z, &cut));
    CHECK_STATUS(RSH_EVALUE, rsh_nn_add(x, whole, &no));
    CHECK(strstr(rsh_error_detail(), "add: cannot combine a DTensor with a plain tensor of 12 elements"));
    rsh_value_free(whole), rsh_value_free(one), rsh_value_free(x), rsh_value_free(y), rsh_value_free(z);
    rsh_value_free(mask);
    rsh_mesh_free(m);
    return RSH_OK;
}

static void a_plain_tensor_has_one_element_or_no_gradient(void **state) {
    (void)state;
    run_on(1, 3, plain_beside);
}

/* ---- a failure on one rank ---- */

static rsh_status pass_forward(rsh_grad_call *c) {
    rsh_tensor *t = NULL;
    const rsh_tensor *x = rsh_call_input(c, 0);
    TRY(rsh_tensor_view(x, 0, rsh_tensor_ndim(x), rsh_tensor_shape(x), rsh_tensor_strides(x), &t));
    return rsh_call_set_output(c, 0, t);
}
static rsh_status fail_backward(rsh_grad_call *c) {
    const int *rank = rsh_call_attrs(c);
    return *rank == 1 ? rsh_fail(RSH_EIO, "rank 1 fails") : rsh_call_pass_grad(c, 0, 0);
}

/* Rank 1 fails before the others reduce a partial gradient. */
static rsh_status one_fails(void *ctx, rsh_comm *c) {
    (void)ctx;
    static const rsh_grad_op op = {.name = "pass", .forward = pass_forward, .backward = fail_backward,
                                   .layouts = rsh_grad_same_layout, .parts = RSH_PARTS_EACH, .attr_bytes = sizeof(int)};
    rsh_mesh *m = NULL;
    rsh_place whole = rsh_place_replicate(), cut = rsh_place_shard(0);
    rsh_value *x = some_value(RSH_F64, 3, true, SIZES(4, 4)), *w = some_value(RSH_F64, 4, true, SIZES(6, 4));
    rsh_value *dx = NULL, *dw = NULL, *h = NULL, *y = NULL, *z = NULL;
    int rank = rsh_comm_rank(c);
    TRY(line_of(c, &m));
    TRY(placed(m, x, &whole, &dx));
    TRY(placed(m, w, &cut, &dw));
    TRY(rsh_nn_tanh(dx, &h));
    TRY(rsh_nn_linear(h, dw, NULL, &y)); /* the gradient of h is partial */
    TRY(rsh_grad_apply(&op, &rank, 1, &y, 1, &z));
    CHECK_STATUS(RSH_EIO, back_from_sum(z));
    CHECK(!rsh_value_grad(dx) && !rsh_value_grad(dw));
    rsh_value_free(x), rsh_value_free(w), rsh_value_free(dx), rsh_value_free(dw), rsh_value_free(h);
    rsh_value_free(y), rsh_value_free(z);
    rsh_mesh_free(m);
    return RSH_OK;
}

static void a_backward_that_fails_on_one_rank_fails_on_all(void **state) {
    (void)state;
    run_on(2, 4, one_fails);
}

/* ---- a loop ---- */

/* Two linear layers, column-wise and row-wise, a norm, and a loss with a cut vocabulary. */
static rsh_status step(rsh_value *x, rsh_value *const *w, rsh_value *target) {
    rsh_value *v[5] = {NULL};
    TRY(rsh_nn_layer_norm(x, 1, w[0], NULL, 1e-5, &v[0]));
    TRY(rsh_nn_linear(v[0], w[1], NULL, &v[1]));
    TRY(rsh_nn_gelu(v[1], RSH_GELU_ERF, &v[2]));
    TRY(rsh_nn_linear(v[2], w[2], w[3], &v[3]));
    rsh_place whole = rsh_place_replicate(), cut = rsh_place_shard(1);
    rsh_value *sum = NULL, *logits = NULL;
    TRY(rsh_dtensor_redistribute(v[3], 1, &whole, RSH_DTYPE_NONE, &sum));
    TRY(rsh_dtensor_redistribute(sum, 1, &cut, RSH_DTYPE_NONE, &logits));
    TRY(rsh_nn_cross_entropy(logits, target, NULL, &v[4]));
    TRY(rsh_backward(v[4], NULL, 0));
    for (int i = 0; i < 5; i++) rsh_value_free(v[i]);
    rsh_value_free(sum);
    rsh_value_free(logits);
    for (int i = 0; i < 4; i++) TRY(rsh_value_zero_grad(w[i]));
    return RSH_OK;
}

static rsh_status loop(void *ctx, rsh_comm *c) {
    (void)ctx;
    rsh_mesh *m = NULL;
    rsh_place whole = rsh_place_replicate(), rows = rsh_place_shard(0), columns = rsh_place_shard(1);
    const rsh_place *places[4] = {&whole, &rows, &columns, &whole};
    rsh_value *plain[5] = {some_value(RSH_F64, 1, true, SIZES(8)), some_value(RSH_F64, 2, true, SIZES(12, 8)),
                           some_value(RSH_F64, 3, true, SIZES(5, 12)), some_value(RSH_F64, 4, true, SIZES(5)),
                           some_value(RSH_F64, 5, false, SIZES(6, 8))};
    rsh_value *w[4] = {NULL}, *x = NULL, *target = some_indices(5, SIZES(6));
    rsh_cache_stats cache[2] = {RSH_CACHE_STATS_INIT, RSH_CACHE_STATS_INIT};
    rsh_alloc_stats memory[2];
    TRY(line_of(c, &m));
    for (int i = 0; i < 4; i++) TRY(placed(m, plain[i], places[i], &w[i]));
    TRY(placed(m, plain[4], &whole, &x));
    for (int i = 0; i < 12; i++) {
        if (i == 2) TRY(rsh_comm_get_cache_stats(rsh_mesh_comm(m), &cache[0]));
        if (i == 2) memory[0] = rsh_alloc_get_stats();
        TRY(step(x, w, target));
    }
    TRY(rsh_comm_get_cache_stats(rsh_mesh_comm(m), &cache[1]));
    memory[1] = rsh_alloc_get_stats();
    CHECK(cache[0].misses == cache[1].misses && cache[0].bindings == cache[1].bindings);
    CHECK(memory[0].live == memory[1].live && memory[0].data_bytes == memory[1].data_bytes);
    for (int i = 0; i < 5; i++) rsh_value_free(plain[i]);
    for (int i = 0; i < 4; i++) rsh_value_free(w[i]);
    rsh_value_free(x);
    rsh_value_free(target);
    rsh_mesh_free(m);
    return RSH_OK;
}

static void a_training_loop_plans_nothing_and_keeps_its_memory_after_the_second_step(void **state) {
    (void)state;
    run_on(1, 4, loop);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_loss_parallel),
        cmocka_unit_test(test_loss_parallel_multi_dim_mesh),
        cmocka_unit_test(test_view_with_sharding_dim_change),
        cmocka_unit_test(a_view_whose_chunks_would_end_elsewhere_is_refused),
        cmocka_unit_test(a_sum_of_averages_is_refused_with_the_reason),
        cmocka_unit_test(test_embedding_row_wise_and_col_wise),
        cmocka_unit_test(softmax_over_a_cut_dim_combines_three_numbers_of_a_row),
        cmocka_unit_test(a_plain_tensor_has_one_element_or_no_gradient),
        cmocka_unit_test(a_backward_that_fails_on_one_rank_fails_on_all),
        cmocka_unit_test(a_training_loop_plans_nothing_and_keeps_its_memory_after_the_second_step),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
