/* Every op on every dtype, with conversions, compared with plain C that processes one element at a time. */
#include "copy/copy.h"
#include "random_case.h"
#include "reference.h"

#define MOST_SOURCES 20
#define ELEMENTS     1500 /* more than a tile, and not a multiple of anything */
#define SPREAD       3    /* source strides are up to this many elements */

static char sources[MOST_SOURCES][ELEMENTS * SPREAD * 16 + 64];
static char result[ELEMENTS * 16 + 64];

/* ---- the definition ---- */

static uint64_t integer_op(rsh_op op, bool is_signed, uint64_t a, uint64_t b) {
    bool less = is_signed ? (int64_t)a < (int64_t)b : a < b;
    switch (op) {
    case RSH_OP_SUM: return a + b;
    case RSH_OP_PROD: return a * b;
    case RSH_OP_MIN: return less ? a : b;
    case RSH_OP_MAX: return less ? b : a;
    case RSH_OP_BAND: return a & b;
    case RSH_OP_BOR: return a | b;
    default: return a ^ b;
    }
}

/* f32 accumulators round after every step. */
static double real_op(rsh_op op, bool single, double a, double b) {
    volatile float f;
    double y;
    if (op == RSH_OP_MIN || op == RSH_OP_MAX) {
        if (isnan(a) || isnan(b)) return (double)NAN;
        return (op == RSH_OP_MIN ? b < a : b > a) ? b : a; /* of 0 and -0 the first one stays */
    }
    if (!single) return op == RSH_OP_SUM ? a + b : a * b;
    y = op == RSH_OP_SUM ? (double)((float)a + (float)b) : (double)((float)a * (float)b);
    f = (float)y;
    return f;
}

static uint64_t read_integer(rsh_dtype t, const char *p) {
    long double x = reference_read(t, p);
    return x < 0 ? (uint64_t)(int64_t)x : (uint64_t)x;
}

static void reduce_integers(const rshi_move *m, const char *const *at, char *out) {
    bool is_signed = reference_is_signed(m->from);
    uint64_t acc = read_integer(m->from, at[0]);
    char narrow[8];
    for (int k = 1; k < m->nsrc; k++) {
        acc = integer_op(m->op, is_signed, acc, read_integer(m->from, at[k]));
        memcpy(narrow, &acc, 8);
        acc = read_integer(m->from, narrow); /* wraps to the width of the type */
    }
    memcpy(narrow, &acc, 8);
    reference_convert(m->from, narrow, m->to, out);
}

static bool is_single(rsh_dtype t) {
    small_format f;
    return t == RSH_F32 || t == RSH_C64 || reference_is_small(t, &f);
}

static void reduce_reals(const rshi_move *m, const char *const *at, char *out) {
    bool single = is_single(m->from);
    double acc = (double)reference_read(m->from, at[0]);
    for (int k = 1; k < m->nsrc; k++) acc = real_op(m->op, single, acc, (double)reference_read(m->from, at[k]));
    if (m->divisor > 1) acc = single ? (double)((float)acc / (float)m->divisor) : acc / (double)m->divisor;
    memset(out, 0, rsh_dtype_size(m->to));
    reference_write(reference_component(m->to), out, acc, false);
}

static void complex_step(rsh_op op, bool single, double *a, const double *b) {
    if (op == RSH_OP_SUM) {
        a[0] = real_op(RSH_OP_SUM, single, a[0], b[0]);
        a[1] = real_op(RSH_OP_SUM, single, a[1], b[1]);
        return;
    }
    double rr = real_op(op, single, a[0], b[0]), ii = real_op(op, single, a[1], b[1]);
    double ri = real_op(op, single, a[0], b[1]), ir = real_op(op, single, a[1], b[0]);
    a[0] = real_op(RSH_OP_SUM, single, rr, -ii);
    a[1] = real_op(RSH_OP_SUM, single, ri, ir);
}

static void reduce_complex(const rshi_move *m, const char *const *at, char *out) {
    rsh_dtype part = reference_component(m->from);
    char total[16];
    size_t size = rsh_dtype_size(part);
    bool single = is_single(m->from);
    double acc[2] = {(double)reference_read(part, at[0]), (double)reference_read(part, at[0] + size)};
    for (int k = 1; k < m->nsrc; k++) {
        double next[2] = {(double)reference_read(part, at[k]), (double)reference_read(part, at[k] + size)};
        complex_step(m->op, single, acc, next);
    }
    for (int i = 0; i < 2; i++) {
        if (m->divisor > 1) acc[i] = single ? (double)((float)acc[i] / (float)m->divisor) : acc[i] / (double)m->divisor;
        reference_write(part, total + (size_t)i * size, acc[i], false);
    }
    reference_convert(m->from, total, m->to, out);
}

static void reduce_reference(const rshi_move *m, const char *const *at, char *out) {
    if (reference_is_complex(m->from))
        reduce_complex(m, at, out);
    else if (reference_is_integer(m->from) || m->from == RSH_BOOL)
        reduce_integers(m, at, out);
    else
        reduce_reals(m, at, out);
}

/* ---- cases ---- */

/* Fills a source with small numbers, so that sums do not overflow, and sometimes raw bits (NaN, infinity, overflow). */
static void fill_source(rsh_dtype t, char *p, size_t n) {
    rsh_dtype part = reference_component(t);
    size_t size = rsh_dtype_size(part), count = n * rsh_dtype_size(t) / size;
    for (size_t i = 0; i < count; i++) {
        uint64_t bits = random_bits();
        if (random_in(0, 15))
            reference_write(part, p + i * size, (long double)random_in(-4096, 4096) / 256, false);
        else
            memcpy(p + i * size, &bits, size);
    }
}

/* Replaces every NaN by the one that reductions return. */
static void settle(rsh_dtype t, char *element) {
    static const struct {
        rsh_dtype part;
        uint64_t nan;
    } nans[] = {{RSH_F8E4M3, 0x7f},  {RSH_F8E5M2, 0x7e},     {RSH_F16, 0x7e00},
                {RSH_BF16, 0x7fc0},  {RSH_F32, 0x7fc00000u}, {RSH_F64, UINT64_C(0x7ff8000000000000)}};
    rsh_dtype part = reference_component(t);
    size_t size = rsh_dtype_size(part);
    for (size_t k = 0; k < sizeof nans / sizeof *nans; k++)
        for (size_t at = 0; nans[k].part == part && at < rsh_dtype_size(t); at += size)
            if (isnan(reference_read(part, element + at))) memcpy(element + at, &nans[k].nan, size);
}

/* A single source that is not divided is copied, which keeps its bits, or converted, in which case any NaN is
 * allowed. */
static bool is_expected(const rshi_move *m, const char *source, char *expected, const char *found) {
    bool alone = m->nsrc == 1 && m->divisor <= 1;
    if (alone && m->from == m->to) return !memcmp(source, found, rsh_dtype_size(m->to));
    if (alone) return reference_same(m->to, expected, found);
    settle(m->to, expected);
    return !memcmp(expected, found, rsh_dtype_size(m->to));
}

static void check(const rshi_move *m, int64_t n, const int64_t *step, const char *const *src) {
    size_t size = rsh_dtype_size(m->to);
    for (int64_t i = 0; i < n; i++) {
        const char *at[MOST_SOURCES];
        char expected[16];
        for (int k = 0; k < m->nsrc; k++) at[k] = src[k] + i * step[k];
        reduce_reference(m, at, expected);
        if (is_expected(m, at[0], expected, result + (size_t)i * size)) continue;
        fail_with_seed("%s of %d sources, %s to %s, divisor %lld, element %lld", rsh_op_name(m->op), m->nsrc,
                       rsh_dtype_name(m->from), rsh_dtype_name(m->to), (long long)m->divisor, (long long)i);
    }
    assert_int_equal((unsigned char)result[(size_t)n * size], 0xa5);
}

static void try_reduce(rsh_op op, rsh_dtype from, rsh_dtype to, int nsrc, int64_t divisor) {
    int64_t ss[MOST_SOURCES * RSHI_MOVE_DIMS] = {0}, step[MOST_SOURCES], n = random_in(1, ELEMENTS);
    const char *src[MOST_SOURCES];
    bool dense = random_in(0, 1);
    for (int k = 0; k < nsrc; k++) {
        step[k] = (int64_t)rsh_dtype_size(from) * (dense ? 1 : random_in(0, SPREAD));
        ss[k * RSHI_MOVE_DIMS] = step[k];
        src[k] = sources[k];
        fill_source(from, sources[k], (size_t)n * SPREAD);
    }
    rshi_move m = {
        .nd = 1, .n = {n}, .ds = {(int64_t)rsh_dtype_size(to)}, .nsrc = nsrc, .ss = ss, .from = from, .to = to};
    m.op = op;
    m.divisor = divisor;
    rshi_move_prepare(&m, random_in(0, 1) ? SIZE_MAX : 0);
    memset(result, 0xa5, sizeof result);
    int64_t cut = random_in(0, m.n[0]);
    rshi_move_run(&m, 0, 0, cut, result, src);
    rshi_move_run(&m, 0, cut, m.n[0], result, src);
    rshi_copy_fence();
    check(&m, n, step, src);
}

static bool exists(rsh_op op, rsh_dtype t) { return rsh_op_check(op, t) == RSH_OK; }
static bool converts(rsh_dtype from, rsh_dtype to) { return rsh_dtype_check_convert(from, to) == RSH_OK; }

static rsh_dtype random_target(rsh_dtype from) {
    rsh_dtype to = from;
    if (random_in(0, 1)) do
            to = (rsh_dtype)random_in(0, RSH_NDTYPES - 1);
        while (!converts(from, to));
    return to;
}

static void every_op_on_every_dtype_equals_the_reference(void **state) {
    (void)state;
    static const rsh_op all[] = {RSH_OP_SUM, RSH_OP_MIN, RSH_OP_MAX, RSH_OP_PROD, RSH_OP_BAND, RSH_OP_BOR, RSH_OP_BXOR};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        for (int from = 0; from < RSH_NDTYPES; from++) {
            if (!exists(all[i], (rsh_dtype)from)) continue;
            for (int repeat = 0; repeat < 6; repeat++)
                try_reduce(all[i], (rsh_dtype)from, random_target((rsh_dtype)from), (int)random_in(2, MOST_SOURCES), 0);
        }
}

static void an_average_divides_once_at_the_end(void **state) {
    (void)state;
    for (int from = 0; from < RSH_NDTYPES; from++) {
        if (!exists(RSH_OP_AVG, (rsh_dtype)from)) continue;
        for (int nsrc = 1; nsrc <= MOST_SOURCES; nsrc += 3)
            try_reduce(RSH_OP_SUM, (rsh_dtype)from, random_target((rsh_dtype)from), nsrc, random_in(1, 9));
    }
}

static void sums_are_taken_from_left_to_right(void **state) {
    (void)state;
    float values[5] = {1e8f, 1.0f, 1.0f, -1e8f, 3.0f}, sum;
    const char *src[5];
    int64_t ss[5 * RSHI_MOVE_DIMS] = {0};
    for (int k = 0; k < 5; k++) src[k] = (const char *)&values[k];
    rshi_move m = {.nd = 0, .nsrc = 5, .ss = ss, .from = RSH_F32, .to = RSH_F32, .op = RSH_OP_SUM};
    rshi_move_prepare(&m, 4);
    rshi_move_run(&m, 0, 0, 1, (char *)&sum, src);
    assert_true(sum == 3.0f);
}

static void nan_wins_in_min_and_max_wherever_it_stands(void **state) {
    (void)state;
    for (int where = 0; where < 3; where++)
        for (int op = RSH_OP_MIN; op <= RSH_OP_MAX; op++) {
            double values[3] = {1, 2, 3}, out;
            values[where] = (double)NAN;
            const char *src[3] = {(const char *)&values[0], (const char *)&values[1], (const char *)&values[2]};
            int64_t ss[3 * RSHI_MOVE_DIMS] = {0};
            rshi_move m = {.nd = 0, .nsrc = 3, .ss = ss, .from = RSH_F64, .to = RSH_F64, .op = (rsh_op)op};
            rshi_move_prepare(&m, 8);
            rshi_move_run(&m, 0, 0, 1, (char *)&out, src);
            assert_true(isnan(out));
        }
}

/* Sources in column order, destination in row order, bf16 summed to f32: one pass gathers, widens, adds and stores. */
static void transposed_sources_reduce_and_convert(void **state) {
    (void)state;
    enum { ROWS = 70, COLS = 90 };
    static uint16_t a[COLS * ROWS], b[COLS * ROWS];
    static float out[ROWS * COLS];
    const char *src[2] = {(const char *)a, (const char *)b};
    int64_t ss[2 * RSHI_MOVE_DIMS] = {2, 2 * ROWS};
    memcpy(ss + RSHI_MOVE_DIMS, ss, 2 * sizeof *ss);
    fill_source(RSH_BF16, (char *)a, ROWS * COLS);
    fill_source(RSH_BF16, (char *)b, ROWS * COLS);
    rshi_move m = {
        .nd = 2, .n = {ROWS, COLS}, .ds = {4 * COLS, 4}, .nsrc = 2, .ss = ss, .from = RSH_BF16, .to = RSH_F32};
    m.op = RSH_OP_SUM;
    rshi_move_prepare(&m, SIZE_MAX);
    rshi_move_run(&m, 0, 0, m.n[0], (char *)out, src);
    for (int r = 0; r < ROWS; r++)
        for (int c = 0; c < COLS; c++) {
            const char *at[2] = {(const char *)&a[c * ROWS + r], (const char *)&b[c * ROWS + r]};
            float expected;
            reduce_reference(&m, at, (char *)&expected);
            if (!reference_same(RSH_F32, (char *)&expected, (char *)&out[r * COLS + c]))
                fail_with_seed("row %d column %d", r, c);
        }
}

/* The identity does not change any value, except that min and max of NaN are NaN in any case. */
static void the_identity_changes_nothing(void **state) {
    (void)state;
    for (int op = RSH_OP_SUM; op < RSH_OP_COUNT; op++)
        for (int t = 0; t < RSH_NDTYPES; t++) {
            if (op == RSH_OP_AVG || !exists((rsh_op)op, (rsh_dtype)t)) continue;
            unsigned char identity[16];
            char value[16] = {0}, out[16];
            rshi_op_identity((rsh_op)op, (rsh_dtype)t, identity);
            for (int i = 0; i < 500; i++) {
                fill_source((rsh_dtype)t, value, 1);
                if (t == RSH_BOOL) value[0] = value[0] != 0;
                const char *at[2] = {(const char *)identity, value};
                rshi_move m = {.nsrc = 2, .from = (rsh_dtype)t, .to = (rsh_dtype)t, .op = (rsh_op)op};
                if (op == RSH_OP_PROD && reference_is_complex((rsh_dtype)t)) continue; /* 0 times infinity is NaN */
                reduce_reference(&m, at, out);
                long double x = reference_read(reference_component((rsh_dtype)t), value);
                bool zero = x == 0 && op == RSH_OP_SUM; /* 0 + -0 is 0 */
                bool infinite = t == RSH_F8E4M3 && isinf(x);
                if (!zero && !infinite && !reference_same((rsh_dtype)t, value, out))
                    fail_with_seed("%s of %s", rsh_op_name((rsh_op)op), rsh_dtype_name((rsh_dtype)t));
            }
        }
}

int main(void) {
    random_start();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_op_on_every_dtype_equals_the_reference),
        cmocka_unit_test(an_average_divides_once_at_the_end),
        cmocka_unit_test(sums_are_taken_from_left_to_right),
        cmocka_unit_test(nan_wins_in_min_and_max_wherever_it_stands),
        cmocka_unit_test(transposed_sources_reduce_and_convert),
        cmocka_unit_test(the_identity_changes_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
