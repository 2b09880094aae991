/* The tape: gradients of small graphs, how long tensors are kept, and errors. */
#include "grad/small_ops.h"

#include <math.h>

#define N 4
static const double X[N] = {0.5, -1.25, 2, 3};

static void free_all(int n, rsh_value **v) {
    for (int i = 0; i < n; i++) rsh_value_free(v[i]);
}

static void a_product_has_the_gradient_of_a_product(void **state) {
    (void)state;
    rsh_value *v[4] = {small_leaf(N, X, true), small_leaf(N, (double[]){2, 3, 4, 5}, true)};
    OK(small_mul(v[0], v[1], &v[2]));
    OK(small_sum(v[2], &v[3]));
    OK(rsh_backward(v[3], NULL, 0));
    for (int i = 0; i < N; i++) {
        assert_true(small_grad(v[0], i) == small_data(v[1])[i]);
        assert_true(small_grad(v[1], i) == X[i]);
    }
    free_all(4, v);
}

static void gradients_add_up_over_uses_and_backwards(void **state) {
    (void)state;
    rsh_value *v[4] = {small_leaf(N, X, true)};
    for (int round = 1; round <= 3; round++) {
        OK(small_mul(v[0], v[0], &v[1]));
        OK(small_add(v[1], v[0], &v[2]));
        OK(small_sum(v[2], &v[3]));
        OK(rsh_backward(v[3], NULL, 0));
        for (int i = 0; i < N; i++) assert_true(small_grad(v[0], i) == round * (2 * X[i] + 1));
        free_all(3, v + 1);
    }
    OK(rsh_value_zero_grad(v[0]));
    assert_true(small_grad(v[0], 0) == 0);
    rsh_value_free(v[0]);
}

static void a_seed_weighs_the_gradient(void **state) {
    (void)state;
    rsh_value *v[3] = {small_leaf(N, X, true), NULL, small_leaf(N, (double[]){1, 2, 3, 4}, false)};
    OK(small_sin(v[0], &v[1]));
    OK(rsh_backward(v[1], v[2], 0));
    for (int i = 0; i < N; i++) assert_true(small_grad(v[0], i) == (i + 1) * cos(X[i]));
    free_all(3, v);
}

/* ---- outputs ---- */

static void an_output_that_nobody_uses_counts_as_zero(void **state) {
    (void)state;
    rsh_value *v[4] = {small_leaf(N, X, true)};
    OK(small_halves(v[0], &v[1], &v[2]));
    OK(small_sum(v[2], &v[3]));
    OK(rsh_backward(v[3], NULL, 0));
    for (int i = 0; i < N; i++) assert_true(small_grad(v[0], i) == (i >= N / 2));
    free_all(4, v);
}

static void outputs_of_integers_require_nothing(void **state) {
    (void)state;
    rsh_value *v[2] = {small_leaf(N, X, true)};
    OK(small_argmax(v[0], &v[1]));
    assert_int_equal(*(int64_t *)rsh_tensor_data(rsh_value_tensor(v[1])), 3);
    assert_false(rsh_value_requires_grad(v[1]));
    FAILS(RSH_ERUNTIME, "requires no gradient", rsh_backward(v[1], NULL, 0));
    FAILS(RSH_ETYPE, "i64", rsh_value_set_requires_grad(v[1], true));
    rsh_tensor *half;
    rsh_value *none;
    OK(rsh_tensor_zeros(RSH_F16, 0, NULL, &half));
    FAILS(RSH_ETYPE, "f16", rsh_value_adopt_tensor(half, true, &none));
    rsh_tensor_free(half); /* the failed call did not take ownership */
    free_all(2, v);
}

static void several_values_go_back_at_once(void **state) {
    (void)state;
    rsh_value *v[5] = {small_leaf(N, X, true)};
    OK(small_halves(v[0], &v[1], &v[2]));
    OK(small_sum(v[1], &v[3]));
    OK(small_sum(v[2], &v[4]));
    OK(rsh_backward_many(2, v + 3, (rsh_value *[]){NULL, NULL}, 0));
    for (int i = 0; i < N; i++) assert_true(small_grad(v[0], i) == 1);
    free_all(5, v);
}

/* ---- what is recorded ---- */

static void nothing_is_recorded_where_recording_is_off(void **state) {
    (void)state;
    rsh_value *v[3] = {small_leaf(N, X, true)};
    assert_true(rsh_grad_enabled());
    bool was = rsh_grad_enable(false);
    OK(small_mul(v[0], v[0], &v[1]));
    assert_false(rsh_value_requires_grad(v[1]));
    assert_true(rsh_value_is_leaf(v[1]));
    rsh_grad_enable(was);
    assert_true(rsh_grad_enabled());
    OK(small_mul(v[0], v[1], &v[2])); /* the square is a plain number now */
    assert_true(rsh_value_requires_grad(v[2]));
    assert_false(rsh_value_is_leaf(v[2]));
    free_all(3, v);
}

static void a_detached_value_has_the_elements_and_no_history(void **state) {
    (void)state;
    rsh_value *v[5] = {small_leaf(N, X, true)};
    OK(small_mul(v[0], v[0], &v[1]));
    OK(rsh_value_detach(v[1], &v[2]));
    assert_ptr_equal(small_data(v[2]), small_data(v[1]));
    assert_true(rsh_value_is_leaf(v[2]) && !rsh_value_requires_grad(v[2]));
    OK(small_mul(v[2], v[0], &v[3]));
    OK(small_sum(v[3], &v[4]));
    OK(rsh_backward(v[4], NULL, 0));
    for (int i = 0; i < N; i++) assert_true(small_grad(v[0], i) == X[i] * X[i]);
    free_all(5, v);
}

static void whether_an_output_requires_a_gradient_is_not_set_by_hand(void **state) {
    (void)state;
    rsh_value *v[2] = {small_leaf(N, X, true)};
    OK(small_exp(v[0], &v[1]));
    FAILS(RSH_ERUNTIME, "exp", rsh_value_set_requires_grad(v[1], false));
    FAILS(RSH_ERUNTIME, "exp", rsh_value_set_grad(v[1], NULL));
    OK(rsh_value_set_requires_grad(v[0], false));
    assert_false(rsh_value_requires_grad(v[0]));
    free_all(2, v);
}

/* ---- twice ---- */

static void a_retained_graph_goes_back_again_and_then_not(void **state) {
    (void)state;
    rsh_value *v[3] = {small_leaf(N, X, true)};
    OK(small_mul(v[0], v[0], &v[1]));
    OK(small_sum(v[1], &v[2]));
    OK(rsh_backward(v[2], NULL, RSH_RETAIN_GRAPH));
    OK(rsh_backward(v[2], NULL, 0));
    for (int i = 0; i < N; i++) assert_true(small_grad(v[0], i) == 4 * X[i]);
    FAILS(RSH_ERUNTIME, "cannot run backward through sum again", rsh_backward(v[2], NULL, 0));
    for (int i = 0; i < N; i++) assert_true(small_grad(v[0], i) == 4 * X[i]);
    free_all(3, v);
}

static void unknown_flags_are_refused(void **state) {
    (void)state;
    rsh_value *v[2] = {small_leaf(N, X, true)};
    OK(small_sum(v[0], &v[1]));
    FAILS(RSH_EVALUE, "flags 8", rsh_backward(v[1], NULL, 8));
    OK(rsh_backward(v[1], NULL, 0)); /* the graph was retained */
    free_all(2, v);
}

/* ---- changes in place ---- */

static void a_saved_tensor_that_has_changed_is_noticed(void **state) {
    (void)state;
    rsh_value *v[4] = {small_leaf(N, X, true), small_leaf(N, X, true)};
    OK(small_mul(v[0], v[1], &v[2]));
    OK(small_sum(v[2], &v[3]));
    OK(rsh_value_set_grad(v[0], v[1]));
    OK(rsh_math_fill_number(rsh_value_tensor(v[1]), 7));
    FAILS(RSH_ERUNTIME, "mul: a tensor that was saved for backward has been modified", rsh_backward(v[3], NULL, 0));
    assert_ptr_equal(rsh_value_grad(v[0]), v[1]);
    assert_null(rsh_value_grad(v[1]));
    OK(rsh_value_set_grad(v[0], NULL));
    free_all(4, v);
}

static void a_view_of_a_saved_tensor_changes_it_too(void **state) {
    (void)state;
    rsh_value *v[4] = {small_leaf(N, X, true)};
    rsh_tensor *view;
    OK(small_sin(v[0], &v[1]));
    OK(small_sum(v[1], &v[2]));
    OK(rsh_tensor_narrow(rsh_value_tensor(v[0]), (int64_t[]){1}, (int64_t[]){1}, &view));
    OK(rsh_math_fill_number(view, 7));
    FAILS(RSH_ERUNTIME, "sin", rsh_backward(v[2], NULL, 0));
    rsh_tensor_free(view);
    free_all(4, v);
}

static void what_was_not_saved_may_change(void **state) {
    (void)state;
    rsh_value *v[4] = {small_leaf(N, X, true), small_leaf(N, X, false)};
    OK(small_add(v[0], v[1], &v[2]));
    OK(small_sum(v[2], &v[3]));
    OK(rsh_math_fill_number(rsh_value_tensor(v[1]), 7));
    OK(rsh_backward(v[3], NULL, 0));
    assert_true(small_grad(v[0], 0) == 1);
    free_all(4, v);
}

/* ---- the gradient of a leaf ---- */

static void the_gradient_of_a_leaf_is_its_own_memory(void **state) {
    (void)state;
    rsh_value *v[4] = {small_leaf(N, X, true), small_leaf(N, X, true), NULL, small_leaf(N, X, false)};
    OK(small_add(v[0], v[1], &v[2]));
    OK(rsh_backward(v[2], v[3], 0)); /* the seed is passed on to both */
    assert_ptr_not_equal(small_data(rsh_value_grad(v[0])), small_data(rsh_value_grad(v[1])));
    assert_ptr_not_equal(small_data(rsh_value_grad(v[0])), small_data(v[3]));
    assert_ptr_not_equal(small_data(rsh_value_grad(v[1])), small_data(v[3]));
    OK(rsh_value_zero_grad(v[0]));
    assert_true(small_grad(v[1], 0) == X[0] && small_data(v[3])[0] == X[0]);
    free_all(4, v);
}

static void a_gradient_is_set_only_where_it_fits(void **state) {
    (void)state;
    rsh_value *v[4] = {small_leaf(N, X, true), small_leaf(2, X, false), small_leaf(N, X, false)};
    FAILS(RSH_EVALUE, "must be f64[4], got f64[2]", rsh_value_set_grad(v[0], v[1]));
    OK(rsh_value_set_grad(v[0], v[2]));
    OK(small_sum(v[0], &v[3]));
    OK(rsh_backward(v[3], NULL, 0));
    for (int i = 0; i < N; i++) assert_true(small_data(v[2])[i] == X[i] + 1); /* the gradient was added in place */
    free_all(4, v);
}

static void a_leaf_goes_back_to_itself(void **state) {
    (void)state;
    rsh_value *v[2] = {small_scalar(3, true), small_leaf(N, X, true)};
    OK(rsh_backward(v[0], NULL, 0));
    assert_true(small_grad(v[0], 0) == 1);
    FAILS(RSH_EVALUE, "a seed is required", rsh_backward(v[1], NULL, 0));
    assert_null(rsh_value_grad(v[1]));
    FAILS(RSH_EVALUE, "the seed must be f64[4], got f64[]", rsh_backward(v[1], v[0], 0));
    free_all(2, v);
}

static void large_gradients_add_up_with_a_pool_too(void **state) {
    (void)state;
    enum { BIG = 100003 };
    double *x = calloc(BIG, sizeof *x);
    rsh_pool *pool;
    rsh_value *v[3] = {small_leaf(BIG, x, true), NULL, small_leaf(BIG, x, false)};
    double *seed = rsh_tensor_data(rsh_value_tensor(v[2]));
    for (int i = 0; i < BIG; i++) seed[i] = i;
    OK(rsh_pool_new(2, &pool));
    assert_null(rsh_grad_set_pool(pool));
    OK(small_add(v[0], v[0], &v[1])); /* the same input twice: its gradient is a sum of two */
    OK(rsh_backward(v[1], v[2], 0));
    assert_ptr_equal(rsh_grad_set_pool(NULL), pool);
    for (int i = 0; i < BIG; i++) assert_true(small_grad(v[0], i) == 2.0 * i);
    rsh_pool_free(pool);
    free_all(3, v);
    free(x);
}

/* ---- wrong ops ---- */

static rsh_status identity_forward(rsh_grad_call *c) {
    const rsh_tensor *a = rsh_call_input(c, 0);
    rsh_tensor *t;
    rsh_status st = rsh_tensor_view(a, 0, rsh_tensor_ndim(a), rsh_tensor_shape(a), rsh_tensor_strides(a), &t);
    return st ? st : rsh_call_set_output(c, 0, t);
}
static rsh_status give_one_element(rsh_grad_call *c) {
    rsh_tensor *t;
    rsh_status st = rsh_tensor_zeros(RSH_F64, 1, (int64_t[]){1}, &t);
    return st ? st : rsh_call_set_input_grad(c, 0, t);
}
static rsh_status give_f32(rsh_grad_call *c) {
    rsh_tensor *t;
    rsh_status st = rsh_tensor_zeros(RSH_F32, 1, (int64_t[]){N}, &t);
    return st ? st : rsh_call_set_input_grad(c, 0, t);
}
static rsh_status give_twice(rsh_grad_call *c) {
    rsh_status st = rsh_call_pass_grad(c, 0, 0);
    return st ? st : give_f32(c);
}
static rsh_status give_nothing(rsh_grad_call *c) { return (void)c, RSH_OK; }
static rsh_status refuse(rsh_grad_call *c) { return (void)c, rsh_fail(RSH_EINDEX, "as it pleases"); }
static rsh_status save_late(rsh_grad_call *c) { return rsh_call_save_input(c, 0); }
static rsh_status read_beyond(rsh_grad_call *c) {
    const rsh_tensor *t;
    return rsh_call_saved(c, 0, &t);
}

/* Returns the status of a backward through identity with this backward function. */
static rsh_status back_through(rsh_status (*backward)(rsh_grad_call *), bool *has_grad) {
    const rsh_grad_op op = {.name = "odd", .forward = identity_forward, .backward = backward};
    rsh_value *v[4] = {small_leaf(N, X, true)};
    OK(rsh_grad_apply(&op, NULL, 1, v, 1, v + 1));
    OK(small_mul(v[1], v[0], &v[2]));
    OK(small_sum(v[2], &v[3]));
    rsh_status st = rsh_backward(v[3], NULL, 0);
    *has_grad = rsh_value_grad(v[0]);
    free_all(4, v);
    return st;
}

static void a_backward_that_is_wrong_changes_no_leaf(void **state) {
    (void)state;
    bool has = true;
    FAILS(RSH_EVALUE, "odd: the gradient of an input must be f64[4], got f64[1]", back_through(give_one_element, &has));
    assert_false(has);
    FAILS(RSH_EVALUE, "odd: the gradient of an input must be f64[4], got f32[4]", back_through(give_f32, &has));
    assert_false(has);
    FAILS(RSH_EVALUE, "can be set only once", back_through(give_twice, &has));
    FAILS(RSH_EINDEX, "as it pleases", back_through(refuse, &has));
    FAILS(RSH_EINDEX, "slot 0 does not exist, there are 0 saved slots", back_through(read_beyond, &has));
    FAILS(RSH_ERUNTIME, "odd: tensors can be saved only in forward", back_through(save_late, &has));
    FAILS(RSH_EUNSUP, "odd has no derivative", back_through(NULL, &has));
    assert_false(has);
    OK(back_through(give_nothing, &has));
    assert_true(has); /* the gradient of the product */
}

static int dropped;
static void count_drop(void *attrs) { dropped += *(int *)attrs; }
static rsh_status out_twice(rsh_grad_call *c) {
    rsh_status st = identity_forward(c);
    return st ? st : identity_forward(c);
}

static void a_forward_that_is_wrong_gives_nothing(void **state) {
    (void)state;
    rsh_grad_op op = {.name = "odd", .attr_bytes = sizeof(int), .drop = count_drop};
    rsh_value *a = small_leaf(N, X, true), *out = NULL;
    rsh_status (*const wrong[])(rsh_grad_call *) = {give_nothing, out_twice, refuse};
    const rsh_status expected[] = {RSH_EVALUE, RSH_EVALUE, RSH_EINDEX};
    dropped = 0;
    for (int i = 0; i < 3; i++) {
        op.forward = wrong[i];
        assert_int_equal(rsh_grad_apply(&op, &(int){1}, 1, &a, 1, &out), expected[i]);
        assert_null(out);
        assert_int_equal(dropped, i + 1);
    }
    op.forward = identity_forward;
    OK(rsh_grad_apply(&op, &(int){1}, 1, &a, 1, &out));
    assert_int_equal(dropped, 3); /* backward needs the attributes until now */
    rsh_value_free(out);
    assert_int_equal(dropped, 4);
    rsh_value_free(a);
}

/* ---- order and time ---- */

static char visited[16];
static rsh_status log_backward(rsh_grad_call *c) {
    size_t n = strlen(visited);
    if (n + 1 < sizeof visited) visited[n] = *(char *)rsh_call_attrs(c);
    return rsh_call_pass_grad(c, 0, 0);
}
static const rsh_grad_op logged = {
    .name = "logged", .forward = identity_forward, .backward = log_backward, .attr_bytes = 1};

static void ops_go_back_in_reverse_order_of_creation(void **state) {
    (void)state;
    rsh_value *v[9] = {small_leaf(N, X, true)};
    memset(visited, 0, sizeof visited);
    OK(rsh_grad_apply(&logged, "a", 1, v, 1, v + 1));
    OK(rsh_grad_apply(&logged, "b", 1, v, 1, v + 2));
    OK(rsh_grad_apply(&logged, "c", 1, v + 1, 1, v + 3));
    OK(rsh_grad_apply(&logged, "d", 1, v + 2, 1, v + 4));
    OK(small_add(v[3], v[4], &v[5]));
    OK(rsh_grad_apply(&logged, "e", 1, v + 1, 1, v + 6));
    OK(small_add(v[6], v[5], &v[7]));
    OK(small_sum(v[7], &v[8]));
    OK(rsh_backward(v[8], NULL, 0));
    assert_string_equal(visited, "edcba");
    assert_true(small_grad(v[0], 0) == 3);
    free_all(9, v);
}

static void a_long_chain_is_no_deep_recursion(void **state) {
    (void)state;
    rsh_value *first = small_scalar(1, true), *v = rsh_value_hold(first), *next;
    for (int i = 0; i < 300000; i++) {
        OK(small_add(v, first, &next));
        rsh_value_free(v);
        v = next;
    }
    OK(rsh_backward(v, NULL, RSH_RETAIN_GRAPH));
    assert_true(small_grad(first, 0) == 300001);
    rsh_value_free(v);
    rsh_value_free(first);
}

/* ---- memory ---- */

static uint64_t data_bytes(void) { return rsh_alloc_get_stats().data_bytes; }

static void what_nobody_needs_is_freed_at_once(void **state) {
    (void)state;
    enum { BIG = 100000 };
    double *x = calloc(BIG, sizeof *x);
    rsh_value *v[4] = {small_leaf(BIG, x, true)};
    uint64_t leaf = data_bytes(), big = BIG * sizeof *x;
    OK(small_add(v[0], v[0], &v[1]));
    OK(small_add(v[1], v[0], &v[2]));
    rsh_value_free(v[1]); /* add does not save it */
    assert_true(data_bytes() < leaf + 2 * big);
    OK(small_mul(v[2], v[2], &v[1]));
    rsh_value_free(v[2]); /* mul saves it */
    assert_true(data_bytes() >= leaf + 2 * big);
    OK(small_sum(v[1], &v[3]));
    rsh_value_free(v[1]);
    OK(rsh_backward(v[3], NULL, 0));
    assert_true(data_bytes() < leaf + 2 * big); /* the leaf, its gradient, and a sum */
    free(x);
    rsh_value_free(v[3]);
    rsh_value_free(v[0]);
}

static rsh_status step(rsh_value *const *leaf) {
    rsh_value *v[6] = {NULL};
    rsh_status st = small_mul(leaf[0], leaf[1], &v[0]);
    if (!st) st = small_sin(v[0], &v[1]);
    if (!st) st = small_add(v[1], leaf[0], &v[2]);
    if (!st) st = small_exp(v[2], &v[3]);
    if (!st) st = small_scale(v[3], 0.5, &v[4]);
    if (!st) st = small_sum(v[4], &v[5]);
    if (!st) st = rsh_backward(v[5], NULL, 0);
    free_all(6, v);
    return st;
}

static void training_steps_keep_no_memory(void **state) {
    (void)state;
    rsh_value *leaf[2] = {small_leaf(N, X, true), small_leaf(N, X, true)};
    rsh_alloc_stats after = {0};
    for (int i = 0; i < 1000; i++) {
        OK(step(leaf));
        if (i < 2) after = rsh_alloc_get_stats();
        rsh_alloc_stats now = rsh_alloc_get_stats();
        assert_int_equal(now.live, after.live);
        assert_int_equal(now.data_bytes, after.data_bytes);
    }
    free_all(2, leaf);
}

/* Every allocation of a step fails once: the step returns an error, no leaf changes, and nothing leaks. */
static void a_step_without_memory_is_undone(void **state) {
    (void)state;
    rsh_value *leaf[2] = {small_leaf(N, X, true), small_leaf(N, X, true)};
    rsh_status st = RSH_ENOMEM;
    for (int64_t at = 0; st == RSH_ENOMEM && at < 1000; at++) {
        uint64_t live = rsh_alloc_get_stats().live;
        rsh_alloc_fail_at(at);
        st = step(leaf);
        rsh_alloc_fail_at(-1);
        if (st == RSH_ENOMEM) assert_null(rsh_value_grad(leaf[0]));
        /* some blocks are kept for reuse */
        if (st == RSH_ENOMEM && at) assert_true(rsh_alloc_get_stats().live <= live + 40);
    }
    OK(st);
    free_all(2, leaf);
}

/* ---- threads ---- */

static rsh_status rank_step(void *ctx, rsh_comm *comm) {
    (void)ctx;
    rsh_value *leaf[2] = {small_leaf(N, X, true), small_leaf(N, X, true)};
    rsh_grad_enable(rsh_comm_rank(comm) % 2);
    rsh_status st = RSH_OK;
    for (int i = 0; i < 50 && !st && rsh_comm_rank(comm) % 2; i++) st = step(leaf);
    for (int i = 0; i < 50 && !st; i++) st = rsh_comm_barrier(comm);
    bool right = rsh_grad_enabled() == (rsh_comm_rank(comm) % 2 == 1);
    free_all(2, leaf);
    return st || right ? st : rsh_fail(RSH_ERUNTIME, "another thread's scope is seen");
}

static void every_thread_has_a_tape_of_its_own(void **state) {
    (void)state;
    OK(rsh_run(4, rank_step, NULL));
    assert_true(rsh_grad_enabled());
}

/* ---- kinds ---- */

static int applied, held;
static rsh_status count_apply(const rsh_grad_op *op, const void *attrs, int nin, rsh_value *const *in, int nout,
                              rsh_value **out);
static void hold_mesh(void *kind_data) { held += *(int *)kind_data; }
static void drop_mesh(void *kind_data) { held -= *(int *)kind_data; }
static const rsh_value_kind counted = {"counted", count_apply, hold_mesh, drop_mesh};
static rsh_status count_apply(const rsh_grad_op *op, const void *attrs, int nin, rsh_value *const *in, int nout,
                              rsh_value **out) {
    void *kind_data = NULL;
    rsh_value_get_kind(in[0], &kind_data);
    rsh_grad_apply_opts as = {.struct_size = sizeof as, .kind = &counted, .kind_data = kind_data};
    applied++;
    return rsh_grad_apply_with(op, attrs, nin, in, nout, &as, out);
}

static void a_kind_takes_over_the_ops_on_its_values(void **state) {
    (void)state;
    int mesh = 1;
    rsh_value *v[3] = {small_leaf(N, X, true)};
    applied = held = 0;
    OK(rsh_value_set_kind(v[0], &counted, &mesh));
    OK(small_mul(v[0], v[0], &v[1]));
    OK(small_sum(v[1], &v[2]));
    assert_int_equal(applied, 2);
    assert_ptr_equal(rsh_value_get_kind(v[2], NULL), &counted);
    OK(rsh_backward(v[2], NULL, 0));
    void *kind_data = NULL;
    assert_ptr_equal(rsh_value_get_kind(rsh_value_grad(v[0]), &kind_data), &counted);
    assert_ptr_equal(kind_data, &mesh);
    assert_true(small_grad(v[0], 1) == 2 * X[1]);
    free_all(3, v);
    assert_int_equal(held, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_product_has_the_gradient_of_a_product),
        cmocka_unit_test(gradients_add_up_over_uses_and_backwards),
        cmocka_unit_test(a_seed_weighs_the_gradient),
        cmocka_unit_test(an_output_that_nobody_uses_counts_as_zero),
        cmocka_unit_test(outputs_of_integers_require_nothing),
        cmocka_unit_test(several_values_go_back_at_once),
        cmocka_unit_test(nothing_is_recorded_where_recording_is_off),
        cmocka_unit_test(a_detached_value_has_the_elements_and_no_history),
        cmocka_unit_test(whether_an_output_requires_a_gradient_is_not_set_by_hand),
        cmocka_unit_test(a_retained_graph_goes_back_again_and_then_not),
        cmocka_unit_test(unknown_flags_are_refused),
        cmocka_unit_test(a_saved_tensor_that_has_changed_is_noticed),
        cmocka_unit_test(a_view_of_a_saved_tensor_changes_it_too),
        cmocka_unit_test(what_was_not_saved_may_change),
        cmocka_unit_test(the_gradient_of_a_leaf_is_its_own_memory),
        cmocka_unit_test(a_gradient_is_set_only_where_it_fits),
        cmocka_unit_test(a_leaf_goes_back_to_itself),
        cmocka_unit_test(large_gradients_add_up_with_a_pool_too),
        cmocka_unit_test(a_backward_that_is_wrong_changes_no_leaf),
        cmocka_unit_test(a_forward_that_is_wrong_gives_nothing),
        cmocka_unit_test(ops_go_back_in_reverse_order_of_creation),
        cmocka_unit_test(a_long_chain_is_no_deep_recursion),
        cmocka_unit_test(what_nobody_needs_is_freed_at_once),
        cmocka_unit_test(training_steps_keep_no_memory),
        cmocka_unit_test(a_step_without_memory_is_undone),
        cmocka_unit_test(every_thread_has_a_tape_of_its_own),
        cmocka_unit_test(a_kind_takes_over_the_ops_on_its_values),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
