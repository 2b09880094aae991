/* Arithmetic on tensors with any strides, compared with plain loops over their elements. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <reshard/alloc.h>
#include <reshard/math.h>

#include "seed.h"

#define CASES 400
#define DIMS(...) (const int64_t[]){__VA_ARGS__}

static uint64_t draw(uint64_t *state) {
    uint64_t z = (*state += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static uint64_t test_seed(uint64_t otherwise) {
    uint64_t seed = seed_or(otherwise);
    print_message("RESHARD_SEED=%llu\n", (unsigned long long)seed);
    return seed;
}

static int64_t below(uint64_t *seed, int64_t n) { return (int64_t)(draw(seed) % (uint64_t)n); }

/* ---- tensors of random form ---- */

typedef struct form {
    int ndim;
    int64_t shape[RSH_MAX_NDIM];
} form;

static form random_form(uint64_t *seed) {
    form f = {.ndim = (int)below(seed, 5)};
    for (int d = 0; d < f.ndim; d++) f.shape[d] = below(seed, 12) ? 1 + below(seed, 9) : 0;
    return f;
}

/* Allocates a tensor with its dims in random order, with gaps, and some of them reversed. */
static rsh_tensor *random_tensor(uint64_t *seed, rsh_dtype dtype, const form *f) {
    int order[RSH_MAX_NDIM];
    int64_t strides[RSH_MAX_NDIM], step = 1, first = 0;
    for (int d = 0; d < f->ndim; d++) order[d] = d;
    for (int d = f->ndim - 1; d > 0 && draw(seed) % 2; d--) {
        int other = (int)below(seed, d + 1), t = order[d];
        order[d] = order[other], order[other] = t;
    }
    for (int k = f->ndim - 1; k >= 0; k--) {
        int d = order[k];
        step += draw(seed) % 4 ? 0 : below(seed, 3);
        strides[d] = draw(seed) % 5 ? step : -step;
        if (strides[d] < 0 && f->shape[d]) first += step * (f->shape[d] - 1);
        step *= f->shape[d] ? f->shape[d] : 1;
    }
    rsh_tensor *all = NULL, *t = NULL;
    assert_int_equal(rsh_tensor_zeros(dtype, 1, DIMS(step + 1), &all), RSH_OK);
    assert_int_equal(rsh_tensor_view(all, first, f->ndim, f->shape, strides, &t), RSH_OK);
    rsh_tensor_free(all);
    return t;
}

/* Returns the address of row-major element i. */
static char *element(const rsh_tensor *t, int64_t i) {
    int64_t at = 0;
    for (int d = rsh_tensor_ndim(t) - 1; d >= 0; d--) {
        at += i % rsh_tensor_shape(t)[d] * rsh_tensor_strides(t)[d];
        i /= rsh_tensor_shape(t)[d];
    }
    return (char *)rsh_tensor_data(t) + at * (int64_t)rsh_dtype_size(rsh_tensor_dtype(t));
}

static float f32_at(const rsh_tensor *t, int64_t i) {
    float x;
    memcpy(&x, element(t, i), sizeof x);
    return x;
}
static double f64_at(const rsh_tensor *t, int64_t i) {
    double x;
    memcpy(&x, element(t, i), sizeof x);
    return x;
}
static int32_t i32_at(const rsh_tensor *t, int64_t i) {
    int32_t x;
    memcpy(&x, element(t, i), sizeof x);
    return x;
}

static void scatter_f32(uint64_t *seed, const rsh_tensor *t) {
    for (int64_t i = 0; i < rsh_tensor_count(t); i++)
        memcpy(element(t, i), &(float){(float)below(seed, 2001) / 8 - 125}, sizeof(float));
}

static void scatter_i32(uint64_t *seed, const rsh_tensor *t) {
    for (int64_t i = 0; i < rsh_tensor_count(t); i++)
        memcpy(element(t, i), &(int32_t){(int32_t)draw(seed)}, sizeof(int32_t));
}

/* ---- copies ---- */

static void a_copy_has_every_element_whatever_the_strides(void **state) {
    (void)state;
    uint64_t seed = test_seed(1);
    for (int k = 0; k < CASES; k++) {
        form f = random_form(&seed);
        rsh_tensor *a = random_tensor(&seed, RSH_F32, &f), *b = random_tensor(&seed, RSH_F32, &f),
                   *c = random_tensor(&seed, RSH_F64, &f), *d = NULL;
        uint64_t before = rsh_tensor_version(b);
        scatter_f32(&seed, a);
        assert_int_equal(rsh_math_copy(a, b), RSH_OK);
        assert_int_equal(rsh_math_copy(b, c), RSH_OK);
        assert_int_equal(rsh_math_convert(c, RSH_I32, &d), RSH_OK);
        assert_true(rsh_tensor_version(b) > before);
        assert_true(rsh_tensor_dense(d));
        for (int64_t i = 0; i < rsh_tensor_count(a); i++) {
            assert_true(f32_at(b, i) == f32_at(a, i));
            assert_true(f64_at(c, i) == f32_at(a, i));
            assert_int_equal(i32_at(d, i), (int32_t)truncf(f32_at(a, i)));
        }
        rsh_tensor_free(d);
        rsh_tensor_free(c);
        rsh_tensor_free(b);
        rsh_tensor_free(a);
    }
}

static void a_copy_between_tensors_that_share_memory_reads_first(void **state) {
    (void)state;
    rsh_tensor *t = NULL, *front = NULL, *back = NULL, *turned = NULL;
    assert_int_equal(rsh_tensor_empty(RSH_I32, 2, DIMS(100, 100), &t), RSH_OK);
    int32_t *data = rsh_tensor_data(t);
    for (int32_t i = 0; i < 10000; i++) data[i] = i;
    assert_int_equal(rsh_tensor_transpose(t, 0, 1, &turned), RSH_OK);
    assert_int_equal(rsh_math_copy(turned, t), RSH_OK);
    for (int32_t i = 0; i < 10000; i++) assert_int_equal(data[i], i % 100 * 100 + i / 100);
    for (int32_t i = 0; i < 10000; i++) data[i] = i;
    assert_int_equal(rsh_tensor_view(t, 0, 1, DIMS(9000), NULL, &front), RSH_OK);
    assert_int_equal(rsh_tensor_view(t, 1000, 1, DIMS(9000), NULL, &back), RSH_OK);
    assert_int_equal(rsh_math_copy(front, back), RSH_OK);
    for (int32_t i = 0; i < 9000; i++) assert_int_equal(data[1000 + i], i);
    rsh_tensor_free(back);
    rsh_tensor_free(front);
    rsh_tensor_free(turned);
    rsh_tensor_free(t);
}

static void a_fill_reaches_every_element_and_no_other(void **state) {
    (void)state;
    uint64_t seed = test_seed(2);
    for (int k = 0; k < CASES; k++) {
        form f = random_form(&seed);
        rsh_tensor *t = random_tensor(&seed, RSH_I32, &f);
        const int32_t *data = rsh_tensor_storage(t);
        int64_t filled = 0;
        if (draw(&seed) % 2)
            assert_int_equal(rsh_math_fill(t, &(int32_t){77}), RSH_OK);
        else
            assert_int_equal(rsh_math_fill_number(t, 77), RSH_OK);
        for (int64_t i = 0; i < rsh_tensor_count(t); i++) assert_int_equal(i32_at(t, i), 77);
        for (size_t i = 0; i < rsh_tensor_storage_bytes(t) / 4; i++) filled += data[i] == 77;
        assert_int_equal(filled, rsh_tensor_count(t));
        rsh_tensor_free(t);
    }
}

/* ---- combine ---- */

static double plain(rsh_op op, double a, double b) {
    switch (op) {
    case RSH_OP_MIN: return b < a ? b : a;
    case RSH_OP_MAX: return b > a ? b : a;
    case RSH_OP_PROD: return (float)(a * b);
    default: return (float)(a + b);
    }
}

static void combining_is_a_loop_from_left_to_right(void **state) {
    (void)state;
    static const rsh_op ops[] = {RSH_OP_SUM, RSH_OP_AVG, RSH_OP_MIN, RSH_OP_MAX, RSH_OP_PROD};
    uint64_t seed = test_seed(3);
    for (int k = 0; k < CASES; k++) {
        form f = random_form(&seed);
        int n = 1 + (int)below(&seed, 6);
        rsh_op op = ops[below(&seed, 5)];
        rsh_tensor *from[6] = {0}, *to = random_tensor(&seed, RSH_F32, &f);
        for (int j = 0; j < n; j++) {
            from[j] = random_tensor(&seed, RSH_F32, &f);
            scatter_f32(&seed, from[j]);
        }
        int64_t count = rsh_tensor_count(to);
        float *expected = malloc((size_t)(count + 1) * sizeof *expected);
        for (int64_t i = 0; i < count; i++) {
            double x = f32_at(from[0], i);
            for (int j = 1; j < n; j++) x = plain(op, x, f32_at(from[j], i));
            expected[i] = op == RSH_OP_AVG ? (float)x / (float)n : (float)x;
        }
        const rsh_tensor *result = draw(&seed) % 2 ? to : from[below(&seed, n)]; /* also in place */
        assert_int_equal(rsh_math_combine(op, n, (const rsh_tensor *const *)from, result), RSH_OK);
        for (int64_t i = 0; i < count; i++) assert_true(f32_at(result, i) == expected[i]);
        free(expected);
        for (int j = 0; j < n; j++) rsh_tensor_free(from[j]);
        rsh_tensor_free(to);
    }
}

static void integers_combine_by_bits_and_wrap(void **state) {
    (void)state;
    uint64_t seed = test_seed(4);
    form f = {2, {13, 7}};
    rsh_tensor *a = random_tensor(&seed, RSH_I32, &f), *b = random_tensor(&seed, RSH_I32, &f),
               *c = random_tensor(&seed, RSH_I32, &f);
    scatter_i32(&seed, a);
    scatter_i32(&seed, b);
    const rsh_tensor *from[] = {a, b};
    assert_int_equal(rsh_math_combine(RSH_OP_BXOR, 2, from, c), RSH_OK);
    for (int64_t i = 0; i < 91; i++) assert_int_equal(i32_at(c, i), i32_at(a, i) ^ i32_at(b, i));
    assert_int_equal(rsh_math_combine(RSH_OP_SUM, 2, from, c), RSH_OK);
    for (int64_t i = 0; i < 91; i++)
        assert_true((uint32_t)i32_at(c, i) == (uint32_t)i32_at(a, i) + (uint32_t)i32_at(b, i));
    rsh_tensor_free(c);
    rsh_tensor_free(b);
    rsh_tensor_free(a);
}

/* ---- comparing ---- */

static void tensors_are_equal_until_one_element_differs(void **state) {
    (void)state;
    uint64_t seed = test_seed(5);
    for (int k = 0; k < CASES; k++) {
        form f = random_form(&seed);
        rsh_dtype dtype = draw(&seed) % 2 ? RSH_F32 : RSH_I32;
        rsh_tensor *a = random_tensor(&seed, dtype, &f), *b = random_tensor(&seed, dtype, &f);
        (dtype == RSH_F32 ? scatter_f32 : scatter_i32)(&seed, a);
        assert_int_equal(rsh_math_copy(a, b), RSH_OK);
        bool same = false, close = false;
        assert_int_equal(rsh_math_equal(a, b, &same), RSH_OK);
        assert_int_equal(rsh_math_allclose(a, b, 0, 0, false, &close), RSH_OK);
        assert_true(same && close);
        if (rsh_tensor_count(a)) {
            char *p = element(b, below(&seed, rsh_tensor_count(b)));
            if (dtype == RSH_F32)
                memcpy(p, &(float){1000}, 4);
            else
                p[3] ^= 1 << below(&seed, 8);
            assert_int_equal(rsh_math_equal(a, b, &same), RSH_OK);
            assert_int_equal(rsh_math_allclose(a, b, 1e-6, 1e-6, false, &close), RSH_OK);
            assert_false(same || close);
        }
        rsh_tensor_free(b);
        rsh_tensor_free(a);
    }
}

static bool pair(rsh_dtype dtype, const void *x, const void *y, bool exact, double rtol, double atol, bool nan) {
    rsh_tensor *a = NULL, *b = NULL;
    bool out = false;
    assert_int_equal(rsh_tensor_wrap((void *)x, dtype, 0, NULL, NULL, NULL, NULL, &a), RSH_OK);
    assert_int_equal(rsh_tensor_wrap((void *)y, dtype, 0, NULL, NULL, NULL, NULL, &b), RSH_OK);
    rsh_status st = exact ? rsh_math_equal(a, b, &out) : rsh_math_allclose(a, b, rtol, atol, nan, &out);
    assert_int_equal(st, RSH_OK);
    rsh_tensor_free(a);
    rsh_tensor_free(b);
    return out;
}

static void numbers_are_compared_as_numbers(void **state) {
    (void)state;
    float nan = NAN, inf = INFINITY, zero = 0, minus = -0.0f, one = 1, near = 1.05f;
    int64_t big = INT64_MAX, less = INT64_MAX - 1;
    assert_true(pair(RSH_F32, &zero, &minus, true, 0, 0, false));
    assert_false(pair(RSH_F32, &nan, &nan, true, 0, 0, false));
    assert_false(pair(RSH_F32, &nan, &nan, false, 1, 1, false));
    assert_true(pair(RSH_F32, &nan, &nan, false, 0, 0, true));
    assert_true(pair(RSH_F32, &inf, &inf, false, 0, 0, false));
    assert_false(pair(RSH_F32, &one, &inf, false, 1, 1, false));
    assert_true(pair(RSH_F32, &one, &near, false, 0, 0.1, false));
    assert_false(pair(RSH_F32, &one, &near, false, 0.01, 0, false));
    assert_false(pair(RSH_I64, &big, &less, false, 0, 0.5, false)); /* equal after conversion to f64 */
    assert_true(pair(RSH_I64, &big, &less, false, 0, 1, false));
}

/* ---- random numbers ---- */

static void a_part_has_the_numbers_of_the_whole(void **state) {
    (void)state;
    static const rsh_dtype dtypes[] = {RSH_F32, RSH_F64, RSH_BF16, RSH_C64, RSH_C128, RSH_F8E4M3};
    uint64_t seed = test_seed(6);
    for (int k = 0; k < CASES; k++) {
        form f = random_form(&seed), box = f;
        rsh_dtype dtype = dtypes[below(&seed, 6)];
        bool normal = draw(&seed) % 2;
        rsh_tensor *whole = random_tensor(&seed, dtype, &f), *cut = NULL;
        int64_t offsets[RSH_MAX_NDIM], pitch[RSH_MAX_NDIM], step = 1;
        rsh_random from = {.seed = draw(&seed), .stream = below(&seed, 3)};
        assert_int_equal((normal ? rsh_math_normal : rsh_math_uniform)(whole, &from), RSH_OK);
        for (int d = f.ndim - 1; d >= 0; d--) {
            box.shape[d] = below(&seed, f.shape[d] + 1);
            offsets[d] = below(&seed, f.shape[d] - box.shape[d] + 1);
            from.first += (uint64_t)(offsets[d] * step);
            pitch[d] = step;
            step *= f.shape[d];
        }
        from.pitch = pitch;
        rsh_tensor *part = random_tensor(&seed, dtype, &box);
        assert_int_equal((normal ? rsh_math_normal : rsh_math_uniform)(part, &from), RSH_OK);
        assert_int_equal(rsh_tensor_narrow(whole, offsets, box.shape, &cut), RSH_OK);
        for (int64_t i = 0; i < rsh_tensor_count(part); i++)
            assert_memory_equal(element(part, i), element(cut, i), rsh_dtype_size(dtype));
        rsh_tensor_free(cut);
        rsh_tensor_free(part);
        rsh_tensor_free(whole);
    }
}

/* The numbers must never change, because saved sessions depend on them: splitmix64 of seed and stream, by position. */
static void the_stream_is_what_it_always_was(void **state) {
    (void)state;
    float data[3];
    rsh_tensor *t = NULL;
    assert_int_equal(rsh_tensor_wrap(data, RSH_F32, 1, DIMS(3), NULL, NULL, NULL, &t), RSH_OK);
    rsh_random from = {.seed = 42, .stream = 1, .first = 5};
    assert_int_equal(rsh_math_uniform(t, &from), RSH_OK);
    uint64_t key = 42;
    key = draw(&key);
    for (int i = 0; i < 3; i++) {
        uint64_t word = key + 4 * (uint64_t)(5 + i) * 0x9e3779b97f4a7c15u;
        assert_true(data[i] == (float)ldexp((double)(draw(&word) >> 40), -24));
    }
    rsh_tensor_free(t);
}

static void uniform_and_normal_have_their_moments(void **state) {
    (void)state;
    enum { N = 100000 };
    rsh_tensor *t = NULL;
    assert_int_equal(rsh_tensor_empty(RSH_F64, 1, DIMS(N), &t), RSH_OK);
    for (int normal = 0; normal < 2; normal++) {
        double sum = 0, squares = 0;
        rsh_random from = {.seed = 7};
        assert_int_equal((normal ? rsh_math_normal : rsh_math_uniform)(t, &from), RSH_OK);
        for (int64_t i = 0; i < N; i++) {
            double x = f64_at(t, i);
            if (!normal) assert_true(x >= 0 && x < 1);
            sum += x, squares += x * x;
        }
        double mean = sum / N, variance = squares / N - mean * mean;
        assert_true(fabs(mean - (normal ? 0 : 0.5)) < 0.02);
        assert_true(fabs(variance - (normal ? 1 : 1.0 / 12)) < 0.02);
    }
    rsh_tensor_free(t);
}

/* ---- errors ---- */

static void what_does_not_go_together_is_refused(void **state) {
    (void)state;
    rsh_tensor *f = NULL, *g = NULL, *c = NULL, *i = NULL;
    bool out;
    assert_int_equal(rsh_tensor_zeros(RSH_F32, 2, DIMS(2, 3), &f), RSH_OK);
    assert_int_equal(rsh_tensor_zeros(RSH_F32, 2, DIMS(3, 2), &g), RSH_OK);
    assert_int_equal(rsh_tensor_zeros(RSH_C64, 2, DIMS(2, 3), &c), RSH_OK);
    assert_int_equal(rsh_tensor_zeros(RSH_I32, 2, DIMS(2, 3), &i), RSH_OK);
    rsh_random from = {0};
    uint64_t version = rsh_tensor_version(f);
    assert_int_equal(rsh_math_copy(g, f), RSH_EVALUE);
    assert_non_null(strstr(rsh_error_detail(), "dim 0 has sizes 3 and"));
    assert_int_equal(rsh_math_copy(c, f), RSH_ETYPE);
    assert_int_equal(rsh_math_copy(NULL, f), RSH_EVALUE);
    assert_int_equal(rsh_math_convert(f, RSH_DTYPE_NONE, &g), RSH_EVALUE);
    assert_int_equal(rsh_math_fill(f, NULL), RSH_EVALUE);
    assert_int_equal(rsh_math_allclose(f, i, 0, 0, false, &out), RSH_ETYPE);
    assert_int_equal(rsh_math_allclose(f, g, 0, 0, false, &out), RSH_EVALUE);
    assert_int_equal(rsh_math_allclose(f, f, -1, 0, false, &out), RSH_EVALUE);
    assert_int_equal(rsh_math_equal(f, i, &out), RSH_OK);
    assert_false(out);
    assert_int_equal(rsh_math_combine(RSH_OP_BAND, 1, (const rsh_tensor *const[]){f}, f), RSH_ETYPE);
    assert_int_equal(rsh_math_combine(RSH_OP_NONE, 1, (const rsh_tensor *const[]){f}, f), RSH_EVALUE);
    assert_int_equal(rsh_math_combine(RSH_OP_SUM, 0, NULL, f), RSH_EVALUE);
    assert_int_equal(rsh_math_combine(RSH_OP_SUM, 2, (const rsh_tensor *const[]){f, i}, f), RSH_EVALUE);
    assert_int_equal(rsh_math_uniform(i, &from), RSH_ETYPE);
    assert_int_equal(rsh_math_normal(f, NULL), RSH_EVALUE);
    assert_int_equal(rsh_tensor_version(f), version);
    rsh_tensor_free(i);
    rsh_tensor_free(c);
    rsh_tensor_free(g);
    rsh_tensor_free(f);
}

static void every_failed_allocation_is_enomem(void **state) {
    (void)state;
    rsh_tensor *t = NULL, *turned = NULL;
    assert_int_equal(rsh_tensor_zeros(RSH_F32, 2, DIMS(3, 3), &t), RSH_OK);
    assert_int_equal(rsh_tensor_transpose(t, 0, 1, &turned), RSH_OK);
    const rsh_tensor *from[] = {t, turned};
    uint64_t live = rsh_alloc_get_stats().live;
    for (int call = 0; call < 2; call++)
        for (int64_t n = 0;; n++) {
            rsh_alloc_fail_at(n);
            rsh_status st = call ? rsh_math_copy(turned, t) : rsh_math_combine(RSH_OP_SUM, 2, from, t);
            rsh_alloc_fail_at(-1);
            assert_int_equal(rsh_alloc_get_stats().live, live);
            if (!st) break;
            assert_int_equal(st, RSH_ENOMEM);
        }
    rsh_tensor_free(turned);
    rsh_tensor_free(t);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_copy_has_every_element_whatever_the_strides),
        cmocka_unit_test(a_copy_between_tensors_that_share_memory_reads_first),
        cmocka_unit_test(a_fill_reaches_every_element_and_no_other),
        cmocka_unit_test(combining_is_a_loop_from_left_to_right),
        cmocka_unit_test(integers_combine_by_bits_and_wrap),
        cmocka_unit_test(tensors_are_equal_until_one_element_differs),
        cmocka_unit_test(numbers_are_compared_as_numbers),
        cmocka_unit_test(a_part_has_the_numbers_of_the_whole),
        cmocka_unit_test(the_stream_is_what_it_always_was),
        cmocka_unit_test(uniform_and_normal_have_their_moments),
        cmocka_unit_test(what_does_not_go_together_is_refused),
        cmocka_unit_test(every_failed_allocation_is_enomem),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
