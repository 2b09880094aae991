/* Calls of an op: what its functions can read of inputs, outputs and saved slots, and which calls are errors at which
 * time. */
#include "grad/small_ops.h"

#define N 3
static const double X[N] = {0.5, -1.25, 2};

/* Outputs x^2, and where x is positive; the second output has no gradient, although its dtype could have one. */
static rsh_status forward(rsh_grad_call *c) {
    rsh_tensor *t[2];
    if (rsh_call_nin(c) != 1 || rsh_call_nout(c) != 2 || rsh_call_part(c)) return rsh_fail(RSH_ERUNTIME, "odd call");
    const double *x = rsh_tensor_data(rsh_call_input(c, 0));
    for (int k = 0; k < 2; k++) {
        OK(rsh_tensor_zeros(RSH_F64, 1, (int64_t[]){N}, &t[k]));
        for (int i = 0; i < N; i++) ((double *)rsh_tensor_data(t[k]))[i] = k ? x[i] > 0 : x[i] * x[i];
        OK(rsh_call_set_output(c, k, t[k]));
    }
    OK(rsh_call_save_input(c, 0));
    assert_int_equal(rsh_call_mark_non_differentiable(c, 2), RSH_EINDEX);
    return rsh_call_mark_non_differentiable(c, 1);
}

static rsh_status backward(rsh_grad_call *c) {
    const rsh_value *saved, *again;
    rsh_tensor *g;
    OK(rsh_call_saved_value(c, 0, &saved));
    OK(rsh_call_saved_value(c, 0, &again));
    assert_ptr_equal(saved, again);
    assert_int_equal(rsh_call_saved_value(c, 1, &again), RSH_EINDEX);
    assert_null(rsh_call_output_grad_value(c, 1));
    assert_null(rsh_call_input_value(c, 0)); /* available only in forward */
    const double *x = small_data(saved), *dy = rsh_tensor_data(rsh_call_output_grad(c, 0));
    OK(rsh_tensor_zeros(RSH_F64, 1, (int64_t[]){N}, &g));
    for (int i = 0; i < N; i++) ((double *)rsh_tensor_data(g))[i] = 2 * x[i] * dy[i];
    assert_int_equal(rsh_call_save_input(c, 0), RSH_ERUNTIME);
    return rsh_call_set_input_grad(c, 0, g);
}

static const rsh_grad_op square = {.name = "square", .forward = forward, .backward = backward};

static void an_output_may_have_no_gradient_and_a_slot_is_a_value(void **state) {
    (void)state;
    rsh_value *x = small_leaf(N, X, true), *out[2], *seed;
    OK(rsh_grad_apply(&square, NULL, 1, &x, 2, out));
    assert_true(rsh_value_requires_grad(out[0]));
    assert_false(rsh_value_requires_grad(out[1]));
    assert_true(rsh_value_is_leaf(out[1]));
    OK(rsh_value_share_tensor(rsh_value_tensor(out[1]), false, &seed));
    OK(rsh_backward(out[0], seed, 0));
    for (int i = 0; i < N; i++) assert_true(small_grad(x, i) == (X[i] > 0 ? 2 * X[i] : 0));
    rsh_value_free(seed);
    rsh_value_free(out[0]);
    rsh_value_free(out[1]);
    rsh_value_free(x);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_output_may_have_no_gradient_and_a_slot_is_a_value),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
