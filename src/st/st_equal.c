/* Equal: do two sharded tensors hold the same, and every rank learns it.
 *
 * Numbers are compared as numbers: -0 equals 0 and nan equals nothing.  Those of 8-bit and 16-bit floats are converted
 * to f64 in blocks; integers are compared as bytes where they must be equal, and of those of 64 bits, which f64 cannot
 * hold, the difference is taken before it is converted. */
#include "st/impl.h"

#include <math.h>
#include <string.h>

#include "copy/copy.h"

#define BLOCK 512 /* elements converted at once */

typedef struct measure {
    bool exact; /* equal; else allclose with: */
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

/* How far apart two integers of 64 bits are, to the nearest f64. */
static double distance(rsh_dtype dtype, const char *a, const char *b, double *size) {
    uint64_t x, y;
    memcpy(&x, a, sizeof x);
    memcpy(&y, b, sizeof y);
    bool below = dtype == RSH_I64 ? (int64_t)x < (int64_t)y : x < y;
    *size = dtype == RSH_I64 ? fabs((double)(int64_t)y) : (double)y;
    return (double)(below ? y - x : x - y);
}

static bool close_integers(rsh_dtype dtype, const char *a, const char *b, int64_t n, const measure *m) {
    for (int64_t i = 0; i < n; i++) {
        double size, apart = distance(dtype, a + 8 * i, b + 8 * i, &size);
        if (apart > 0 && !(apart <= m->atol + m->rtol * size)) return false;
    }
    return true;
}

static bool same_numbers(rsh_dtype dtype, const char *a, const char *b, int64_t n, const measure *m) {
    double x[2 * BLOCK], y[2 * BLOCK];
    bool complex = dtype == RSH_C64 || dtype == RSH_C128;
    int each = complex ? 2 : 1;
    size_t item = rsh_dtype_size(dtype);
    for (int64_t done = 0; done < n; done += BLOCK) {
        int64_t k = rshi_min(BLOCK, n - done);
        rshi_convert(dtype, a + (size_t)done * item, complex ? RSH_C128 : RSH_F64, x, (size_t)k);
        rshi_convert(dtype, b + (size_t)done * item, complex ? RSH_C128 : RSH_F64, y, (size_t)k);
        for (int64_t i = 0; i < k; i++)
            if (!is_close(x + i * each, y + i * each, each, m)) return false;
    }
    return true;
}

static bool same_data(rsh_dtype dtype, const rsh_tensor *a, const rsh_tensor *b, const measure *m) {
    int64_t n = rsh_tensor_count(a);
    if (m->exact && !rshi_dtype_has_grad(dtype))
        return !n || !memcmp(rsh_tensor_data(a), rsh_tensor_data(b), (size_t)n * rsh_dtype_size(dtype));
    if (dtype == RSH_I64 || dtype == RSH_U64)
        return close_integers(dtype, rsh_tensor_data(a), rsh_tensor_data(b), n, m);
    return same_numbers(dtype, rsh_tensor_data(a), rsh_tensor_data(b), n, m);
}

/* This rank's verdict. */
static bool same_here(const rsh_st *a, const rsh_st *b, const measure *m) {
    if (!rsh_tensor_meta_same(a->meta, b->meta)) return false;
    for (int64_t i = 0; i < a->nshards; i++) {
        if (!rsh_tensor_count(a->shards[i].tensor)) continue;
        const rsh_shard *other = rshi_st_find(b, &a->shards[i], i);
        if (!other || !same_data(rsh_st_dtype(a), a->shards[i].tensor, other->tensor, m)) return false;
    }
    return true;
}

static rsh_status check(const rsh_st *b, const measure *m, const bool *out) {
    RSH_REQUIRE(b && out, RSH_EVALUE, "two sharded tensors and a place for the answer are needed");
    RSH_REQUIRE(m->exact || (m->rtol >= 0 && m->atol >= 0), RSH_EVALUE, "tolerances are not negative: rtol %g, atol %g",
                m->rtol, m->atol);
    return RSH_OK;
}

/* One exchange: the word is the verdict, and where words differ somebody said no. */
static rsh_status compare(const rsh_st *a, const rsh_st *b, const measure *m, bool *out) {
    RSH_REQUIRE(a, RSH_EVALUE, "two sharded tensors and a place for the answer are needed");
    bool same = false, mine = false;
    rsh_status st = check(b, m, out);
    if (!st && a->comm != b->comm) {
        *out = false;
        return RSH_OK;
    }
    if (!st) mine = same_here(a, b, m);
    RSH_TRY(rshi_comm_open_word(a->comm, m->exact ? "st_equal" : "st_allclose", mine, st, &same));
    *out = mine && same;
    return RSH_OK;
}

rsh_status rsh_st_equal(const rsh_st *a, const rsh_st *b, bool *out) {
    return compare(a, b, &(measure){.exact = true}, out);
}

rsh_status rsh_st_allclose(const rsh_st *a, const rsh_st *b, double rtol, double atol, bool equal_nan, bool *out) {
    return compare(a, b, &(measure){false, rtol, atol, equal_nan}, out);
}
