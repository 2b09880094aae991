/* Kernels: errors of f32 functions in units of the last place, special numbers, and results that do not depend on the
 * number of threads. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <math.h>
#include <string.h>

#include <reshard/pool.h>

#include "nn/numbers.h"
#include "skips.h"

#define NN_OPTS(...) (&(rsh_nn_opts){sizeof(rsh_nn_opts), __VA_ARGS__})

typedef rsh_status unary_fn(rsh_value *x, rsh_value **out);

static rsh_status gelu(rsh_value *x, rsh_value **out) { return rsh_nn_gelu(x, RSH_GELU_ERF, out); }
static rsh_status gelu_tanh(rsh_value *x, rsh_value **out) { return rsh_nn_gelu(x, RSH_GELU_TANH, out); }

static double sigmoid_of(double x) { return 1 / (1 + exp(-x)); }
static double silu_of(double x) { return x * sigmoid_of(x); }
static double gelu_of(double x) { return x * 0.5 * erfc(-x * sqrt(0.5)); }
static double gelu_tanh_of(double x) { return 0.5 * x * (1 + tanh(sqrt(2 / M_PI) * (x + 0.044715 * x * x * x))); }

static rsh_value *f32_list(int64_t n, const float *x) {
    rsh_tensor *t = NULL;
    rsh_value *v = NULL;
    assert_int_equal(rsh_tensor_empty(RSH_F32, 1, &n, &t), RSH_OK);
    memcpy(rsh_tensor_data(t), x, (size_t)n * sizeof *x);
    assert_int_equal(rsh_value_adopt_tensor(t, false, &v), RSH_OK);
    return v;
}

/* Returns the largest error between lo and hi, in units of the last place of the exact result, or of `least` if that is
 * larger. */
static double worst(unary_fn *fn, double (*right)(double), double lo, double hi, double least) {
    enum { N = 40001 };
    static float x[N];
    rsh_value *in, *out = NULL;
    double most = 0;
    for (int i = 0; i < N; i++) x[i] = (float)(lo + (hi - lo) * i / (N - 1));
    in = f32_list(N, x);
    assert_int_equal(fn(in, &out), RSH_OK);
    for (int i = 0; i < N; i++) {
        double y = right((double)x[i]), size = fabs(y) > least ? fabs(y) : least;
        double unit = (double)(nextafterf((float)size, INFINITY) - (float)size);
        double error = fabs(element_of(out, i) - y) / unit;
        if (error > most) most = error;
    }
    rsh_value_free(in);
    rsh_value_free(out);
    return most;
}

static void within(const char *name, double units, double limit) {
    print_message("%s: %.2f units of the last place\n", name, units);
    if (!(units <= limit)) fail_msg("%s: %.3g units, at most %.3g", name, units, limit);
}

static void functions_of_f32_are_close_to_those_of_libm(void **state) {
    (void)state;
    within("exp", worst(rsh_nn_exp, exp, -87, 88.5, 0), 2);
    within("tanh", worst(rsh_nn_tanh, tanh, -10, 10, 0), 2);
    within("tanh near 0", worst(rsh_nn_tanh, tanh, -0.01, 0.01, 0), 2);
    within("sigmoid", worst(rsh_nn_sigmoid, sigmoid_of, -20, 20, 0), 4);
    within("silu", worst(rsh_nn_silu, silu_of, -20, 20, 0), 4);
    within("gelu", worst(gelu, gelu_of, 0, 10, 0), 5);
    within("gelu of negative numbers", worst(gelu, gelu_of, -6, 0, 0.01), 8);
    within("gelu by tanh", worst(gelu_tanh, gelu_tanh_of, 0, 10, 0), 5);
    within("gelu by tanh of negative numbers", worst(gelu_tanh, gelu_tanh_of, -6, 0, 1), 2);
}

static void infinities_and_nan_go_through(void **state) {
    (void)state;
    const float x[5] = {-INFINITY, INFINITY, NAN, 200, -200};
    const struct {
        unary_fn *fn;
        double right[5];
    } rows[] = {{rsh_nn_exp, {0, INFINITY, NAN, INFINITY, 0}}, {rsh_nn_tanh, {-1, 1, NAN, 1, -1}},
                {rsh_nn_sigmoid, {0, 1, NAN, 1, 0}},           {rsh_nn_relu, {0, INFINITY, NAN, 200, 0}},
                {gelu, {NAN, INFINITY, NAN, 200, 0}},          {rsh_nn_silu, {NAN, INFINITY, NAN, 200, 0}}};
    rsh_value *in = f32_list(5, x);
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
        rsh_value *out = NULL;
        assert_int_equal(rows[r].fn(in, &out), RSH_OK);
        for (int i = 0; i < 5; i++) {
            double y = element_of(out, i), right = rows[r].right[i];
            if (!(isnan(y) && isnan(right)) && !(fabs(y - right) < 1e-30) && y != right)
                fail_msg("row %zu of %g: %g", r, (double)x[i], y);
        }
        rsh_value_free(out);
    }
    rsh_value_free(in);
}

static void softmax_takes_minus_infinity_and_large_numbers(void **state) {
    (void)state;
    const float x[4] = {-INFINITY, 1000, 1000, -1000};
    rsh_value *in = f32_list(4, x), *out = NULL;
    assert_int_equal(rsh_nn_softmax(in, 0, &out), RSH_OK);
    assert_true(element_of(out, 0) == 0 && element_of(out, 3) == 0);
    assert_true(element_of(out, 1) == 0.5 && element_of(out, 2) == 0.5);
    rsh_value_free(in);
    rsh_value_free(out);
}

static void large_logits_keep_their_differences(void **state) {
    (void)state;
    const float x[3] = {709.9f, 709.9f, -1};
    const double right = -log(2.0);
    rsh_value *in = f32_list(3, x), *out = NULL, *target = some_indices(1, 0, NULL), *loss = NULL;
    assert_int_equal(rsh_value_set_requires_grad(in, true), RSH_OK);
    assert_int_equal(rsh_nn_log_softmax(in, 0, &out), RSH_OK);
    assert_true(fabs(element_of(out, 0) - right) < 1e-7);
    assert_int_equal(rsh_nn_cross_entropy(in, target, NULL, &loss), RSH_OK);
    assert_true(fabs(element_of(loss, 0) + right) < 1e-7);
    assert_int_equal(rsh_backward(loss, NULL, 0), RSH_OK);
    for (int i = 0; i < 2; i++) assert_true(fabs(element_of(rsh_value_grad(in), i) - (i - 0.5)) < 1e-6);
    rsh_value_free(in);
    rsh_value_free(out);
    rsh_value_free(target);
    rsh_value_free(loss);
}

static void the_gradient_of_a_maximum_that_is_nan_goes_to_the_nans(void **state) {
    (void)state;
    const float x[4] = {1, NAN, 2, NAN};
    rsh_value *in = f32_list(4, x), *most = NULL;
    assert_int_equal(rsh_value_set_requires_grad(in, true), RSH_OK);
    assert_int_equal(rsh_nn_max(in, &most), RSH_OK);
    assert_int_equal(rsh_backward(most, NULL, 0), RSH_OK);
    for (int i = 0; i < 4; i++) assert_true(element_of(rsh_value_grad(in), i) == (i % 2 ? 0.5 : 0));
    rsh_value_free(in);
    rsh_value_free(most);
}

static void a_long_sum_in_f32_is_exact_to_its_last_place(void **state) {
    (void)state;
    enum { N = 1 << 21 };
    rsh_value *x = some_value(RSH_F32, 3, false, SIZES(N)), *sum = NULL, *columns = NULL, *tall = NULL;
    double right = 0;
    for (int64_t i = 0; i < N; i++) right += (double)((const float *)rsh_tensor_data(rsh_value_tensor(x)))[i];
    assert_int_equal(rsh_nn_sum(x, 0, NULL, false, &sum), RSH_OK);
    assert_true(fabs(element_of(sum, 0) - right) <= 1e-2); /* the sum of a million numbers that cancel */
    assert_int_equal(rsh_nn_reshape(x, SIZES(N / 2, 2), &tall), RSH_OK);
    rsh_value_free(sum);
    assert_int_equal(rsh_nn_sum(tall, 1, (int[]){0}, false, &columns), RSH_OK);
    assert_true(fabs(element_of(columns, 0) + element_of(columns, 1) - right) <= 1e-2);
    rsh_value_free(x);
    rsh_value_free(tall);
    rsh_value_free(columns);
}

/* ---- threads ---- */

enum { ROWS = 700, WIDTH = 301 };

/* Applies many ops, on sizes that are not multiples of any block. */
static void all_ops(rsh_value *x, rsh_value *w, rsh_value **out, int *n) {
    rsh_value *y = NULL, *z = NULL;
    *n = 0;
    assert_int_equal(rsh_nn_layer_norm(x, 1, w, w, 1e-5, &y), RSH_OK);
    assert_int_equal(gelu(y, &z), RSH_OK);
    rsh_value_free(y);
    assert_int_equal(rsh_nn_softmax(z, 0, &out[(*n)++]), RSH_OK);
    assert_int_equal(rsh_nn_add(z, w, &out[(*n)++]), RSH_OK);
    assert_int_equal(rsh_nn_sum(z, 1, (int[]){0}, false, &out[(*n)++]), RSH_OK);
    assert_int_equal(rsh_nn_sum(z, 1, (int[]){1}, false, &out[(*n)++]), RSH_OK);
    assert_int_equal(rsh_nn_transpose(z, 0, 1, &y), RSH_OK);
    assert_int_equal(rsh_nn_tanh(y, &out[(*n)++]), RSH_OK);
    assert_int_equal(rsh_nn_mean(z, 0, NULL, false, &out[(*n)++]), RSH_OK);
    rsh_value_free(y);
    rsh_value_free(z);
}

static void same_bits(const rsh_value *a, const rsh_value *b) {
    assert_int_equal(count_of(a), count_of(b));
    for (int64_t i = 0; i < count_of(a); i++)
        if (element_of(a, i) != element_of(b, i)) fail_msg("element %lld", (long long)i);
}

static void threads_change_no_bit(void **state) {
    (void)state;
    rsh_value *x = some_value(RSH_F32, 1, true, SIZES(ROWS, WIDTH)), *w = some_value(RSH_F32, 2, true, SIZES(WIDTH));
    rsh_value *out[2][8], *gx[2], *gw[2];
    for (int k = 0; k < 2; k++) {
        int n;
        rsh_value *seeds[8];
        assert_int_equal(rsh_nn_open(NULL, NN_OPTS(.threads = k ? 3 : 1)), RSH_OK);
        assert_int_equal(rsh_nn_threads(), k ? 3 : 1);
        all_ops(x, w, out[k], &n);
        for (int i = 0; i < n; i++)
            seeds[i] = some_value(RSH_F32, i, false, rsh_value_ndim(out[k][i]), rsh_value_shape(out[k][i]));
        assert_int_equal(rsh_backward_many(n, out[k], seeds, 0), RSH_OK);
        gx[k] = rsh_value_hold(rsh_value_grad(x));
        gw[k] = rsh_value_hold(rsh_value_grad(w));
        rsh_value_set_grad(x, NULL);
        rsh_value_set_grad(w, NULL);
        for (int i = 0; i < n; i++) rsh_value_free(seeds[i]);
        rsh_nn_close();
        if (!k) continue;
        for (int i = 0; i < n; i++) same_bits(out[0][i], out[1][i]);
        for (int i = 0; i < n; i++) rsh_value_free(out[0][i]), rsh_value_free(out[1][i]);
    }
    same_bits(gx[0], gx[1]);
    same_bits(gw[0], gw[1]);
    for (int k = 0; k < 2; k++) rsh_value_free(gx[k]), rsh_value_free(gw[k]);
    rsh_value_free(x);
    rsh_value_free(w);
}

static void blas_gets_the_threads_of_nn_and_its_own_back(void **state) {
    (void)state;
    int before = rsh_nn_blas_threads();
    if (!before) skip_test("blas", "this BLAS does not say how many threads it has");
    assert_int_equal(rsh_nn_open(NULL, NN_OPTS(.threads = before + 1)), RSH_OK);
    assert_int_equal(rsh_nn_blas_threads(), before + 1);
    assert_int_equal(rsh_nn_open(NULL, NN_OPTS(.threads = 1)), RSH_OK); /* only the first call has an effect */
    assert_int_equal(rsh_nn_blas_threads(), before + 1);
    rsh_nn_close();
    assert_int_equal(rsh_nn_blas_threads(), before + 1);
    rsh_nn_close();
    assert_int_equal(rsh_nn_blas_threads(), before);
    assert_int_equal(rsh_nn_open(NULL, NN_OPTS(.threads = before + 1, .keep_blas_threads = true)), RSH_OK);
    assert_int_equal(rsh_nn_blas_threads(), before);
    rsh_nn_close();
    rsh_nn_close();
    assert_int_equal(rsh_nn_threads(), 1);
}

static rsh_status count_threads(void *ctx, rsh_comm *comm) {
    int *threads = ctx;
    rsh_status st = rsh_nn_open(comm, NULL);
    if (st) return st;
    threads[rsh_comm_rank(comm)] = rsh_nn_threads();
    st = rsh_comm_barrier(comm);
    rsh_nn_close();
    return st;
}

static void ranks_share_the_cores(void **state) {
    (void)state;
    int threads[3] = {0}, before = rsh_nn_blas_threads(), cores = rsh_usable_cores();
    assert_int_equal(rsh_run(3, count_threads, threads), RSH_OK);
    for (int r = 0; r < 3; r++) assert_int_equal(threads[r], cores / 3 > 1 ? cores / 3 : 1);
    assert_int_equal(rsh_nn_blas_threads(), before);
}

/* Two ranks with two threads each; both call BLAS from their threads at once. */
static rsh_status batches(void *ctx, rsh_comm *comm) {
    (void)ctx;
    rsh_status st = rsh_nn_open(comm, NN_OPTS(.threads = 2));
    rsh_value *a = some_value(RSH_F64, 1, false, SIZES(8, 20, 30)),
              *b = some_value(RSH_F64, 2, false, SIZES(8, 30, 10));
    for (int i = 0; i < 50 && !st; i++) {
        rsh_value *c = NULL;
        st = rsh_nn_bmm(a, b, &c);
        for (int64_t k = 0; !st && k < 8; k++) {
            double right = 0;
            for (int64_t j = 0; j < 30; j++) right += element_of(a, k * 600 + j) * element_of(b, k * 300 + j * 10);
            if (fabs(element_of(c, k * 200) - right) > 1e-12) st = RSH_ERUNTIME;
        }
        rsh_value_free(c);
    }
    rsh_value_free(a);
    rsh_value_free(b);
    rsh_nn_close();
    return st;
}

static void ranks_multiply_at_the_same_time(void **state) {
    (void)state;
    int before = rsh_nn_blas_threads();
    assert_int_equal(rsh_run(2, batches, NULL), RSH_OK);
    assert_int_equal(rsh_nn_blas_threads(), before);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(functions_of_f32_are_close_to_those_of_libm),
        cmocka_unit_test(infinities_and_nan_go_through),
        cmocka_unit_test(softmax_takes_minus_infinity_and_large_numbers),
        cmocka_unit_test(large_logits_keep_their_differences),
        cmocka_unit_test(the_gradient_of_a_maximum_that_is_nan_goes_to_the_nans),
        cmocka_unit_test(a_long_sum_in_f32_is_exact_to_its_last_place),
        cmocka_unit_test(threads_change_no_bit),
        cmocka_unit_test(blas_gets_the_threads_of_nn_and_its_own_back),
        cmocka_unit_test(ranks_share_the_cores),
        cmocka_unit_test(ranks_multiply_at_the_same_time),
    };
    return exit_status(cmocka_run_group_tests_name("kernels of ops", tests, NULL, NULL));
}
