/* Compare: are the elements of two tensors equal, or close?
 *
 * They are compared as numbers: -0 equals 0, and NaN equals nothing.  Elements are converted to f64 in blocks.  If
 * integers must be equal, their bytes are compared instead. 64-bit integers do not fit into f64, so for closeness
 * their difference is computed before it is converted. */
#include "math/impl.h"

#include <math.h>
#include <string.h>

#define BLOCK 512 /* elements converted at once */

typedef struct measure {
    rsh_dtype dtype;
    bool exact; /* if true, elements must be equal; otherwise they must be close within: */
    double rtol, atol;
    bool equal_nan;
} measure;

static bool is_close(const double *a, const double *b, int each, const measure *m) {
    double re = a[0] - b[0], im = each == 2 ? a[1] - b[1] : 0;
    if (a[0] == b[0] && (each == 1 || a[1] == b[1])) return true;
    if (m->exact) return false;
    bool nan_a = isnan(a[0]) || (each == 2 && isnan(a[1])), nan_b = isnan(b[0]) || (each == 2 && isnan(b[1]));
    if (nan_a || nan_b) return m->equal_nan && nan_a && nan_b;
    double apart = each == 2 ? hypot(re, im) : fabs(re), size = each == 2 ? hypot(b[0], b[1]) : fabs(b[0]);
    return isfinite(apart) && apart <= m->atol + m->rtol * size;
}

/* Returns the distance of two 64-bit integers, rounded to the nearest f64. */
static double integer_distance(rsh_dtype dtype, const char *a, const char *b, double *size) {
    uint64_t x, y;
    memcpy(&x, a, sizeof x);
    memcpy(&y, b, sizeof y);
    bool below = dtype == RSH_I64 ? (int64_t)x < (int64_t)y : x < y;
    *size = dtype == RSH_I64 ? fabs((double)(int64_t)y) : (double)y;
    return (double)(below ? y - x : x - y);
}

static bool close_integers(const char *a, const char *b, int64_t n, const measure *m) {
    for (int64_t i = 0; i < n; i++) {
        double size, apart = integer_distance(m->dtype, a + 8 * i, b + 8 * i, &size);
        if (apart > 0 && !(apart <= m->atol + m->rtol * size)) return false;
    }
    return true;
}

static bool close_numbers(const char *a, const char *b, int64_t n, const measure *m) {
    double x[2 * BLOCK], y[2 * BLOCK];
    bool complex = rshi_is_complex(m->dtype);
    int each = complex ? 2 : 1;
    rshi_convert(m->dtype, a, complex ? RSH_C128 : RSH_F64, x, (size_t)n);
    rshi_convert(m->dtype, b, complex ? RSH_C128 : RSH_F64, y, (size_t)n);
    for (int64_t i = 0; i < n; i++)
        if (!is_close(x + i * each, y + i * each, each, m)) return false;
    return true;
}

/* Compares n <= BLOCK dense elements. */
static bool same_block(const char *a, const char *b, int64_t n, const measure *m) {
    if (m->exact && rshi_is_integer(m->dtype)) return !memcmp(a, b, (size_t)n * rsh_dtype_size(m->dtype));
    if (m->dtype == RSH_I64 || m->dtype == RSH_U64) return close_integers(a, b, n, m);
    return close_numbers(a, b, n, m);
}

/* Returns n elements as a dense array: in place, or gathered in `room`. */
static const char *dense_block(const char *p, int64_t step, int64_t n, size_t item, char *room) {
    if (step == (int64_t)item) return p;
    for (int64_t i = 0; i < n; i++) memcpy(room + (size_t)i * item, p + i * step, item);
    return room;
}

static bool same_row(const char *a, int64_t sa, const char *b, int64_t sb, int64_t n, const measure *m) {
    char room[2][16 * BLOCK];
    size_t item = rsh_dtype_size(m->dtype);
    for (int64_t i = 0; i < n; i += BLOCK) {
        int64_t k = rshi_min(BLOCK, n - i);
        const char *x = dense_block(a + i * sa, sa, k, item, room[0]);
        const char *y = dense_block(b + i * sb, sb, k, item, room[1]);
        if (!same_block(x, y, k, m)) return false;
    }
    return true;
}

/* Compares tensors of the same shape and dtype. */
static bool same_tensors(const rsh_tensor *a, const rsh_tensor *b, const measure *m) {
    if (!rsh_tensor_count(a)) return true;
    rshi_rows rows = rshi_rows_of(a, b);
    do {
        int64_t sa, sb;
        const char *x = rshi_row_in(&rows, a, &sa), *y = rshi_row_in(&rows, b, &sb);
        if (!same_row(x, sa, y, sb, rows.n, m)) return false;
    } while (rshi_rows_next(&rows));
    return true;
}

rsh_status rsh_math_equal(const rsh_tensor *a, const rsh_tensor *b, bool *out) {
    RSH_REQUIRE(a && b && out, RSH_EVALUE, "rsh_math_equal: a, b and out must not be NULL");
    measure m = {.dtype = rsh_tensor_dtype(a), .exact = true};
    *out = m.dtype == rsh_tensor_dtype(b) && rshi_same_shape(a, b) && same_tensors(a, b, &m);
    return RSH_OK;
}

rsh_status rsh_math_allclose(const rsh_tensor *a, const rsh_tensor *b, double rtol, double atol, bool equal_nan,
                             bool *out) {
    RSH_REQUIRE(a && b && out, RSH_EVALUE, "rsh_math_allclose: a, b and out must not be NULL");
    RSH_REQUIRE(rtol >= 0 && atol >= 0, RSH_EVALUE, "allclose: tolerances must not be negative, got rtol %g, atol %g",
                rtol, atol);
    RSH_REQUIRE(rsh_tensor_dtype(a) == rsh_tensor_dtype(b), RSH_ETYPE, "allclose: dtypes must be equal, got %s and %s",
                rsh_dtype_name(rsh_tensor_dtype(a)), rsh_dtype_name(rsh_tensor_dtype(b)));
    RSH_TRY(rshi_require_shape("allclose", a, b));
    measure m = {rsh_tensor_dtype(a), false, rtol, atol, equal_nan};
    *out = same_tensors(a, b, &m);
    return RSH_OK;
}
