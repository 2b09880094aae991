/* The tape: gradients of small graphs, what is kept for how long, and what is refused. */
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

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_product_has_the_gradient_of_a_product),
        cmocka_unit_test(gradients_add_up_over_uses_and_backwards),
        cmocka_unit_test(a_seed_weighs_the_gradient),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
