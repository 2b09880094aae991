/* Reduce: reduces blocks element by element, for the plain C types.  It serves counts, losses and norms.
 *
 * Narrow floats and complex numbers can only be reduced by resharding partial layouts.  Integers wrap around; min and
 * max keep NaNs. */
#include "comm/reduce.h"

#include <string.h>

typedef void (*fold_fn)(rsh_op op, int64_t count, const void *in, void *acc);

/* Sums and products of integers use uint64_t: wrapping is defined there, and the low bits are correct for every
 * type. */
#define INT_FOLD(T)                                                                                                    \
    static void fold_##T(rsh_op op, int64_t count, const void *in, void *acc) {                                        \
        const T *a = in;                                                                                               \
        T *x = acc;                                                                                                    \
        switch (op) {                                                                                                  \
        case RSH_OP_SUM: for (int64_t i = 0; i < count; i++) x[i] = (T)((uint64_t)x[i] + (uint64_t)a[i]); break;       \
        case RSH_OP_PROD: for (int64_t i = 0; i < count; i++) x[i] = (T)((uint64_t)x[i] * (uint64_t)a[i]); break;      \
        case RSH_OP_MIN: for (int64_t i = 0; i < count; i++) x[i] = a[i] < x[i] ? a[i] : x[i]; break;                  \
        case RSH_OP_MAX: for (int64_t i = 0; i < count; i++) x[i] = a[i] > x[i] ? a[i] : x[i]; break;                  \
        case RSH_OP_BAND: for (int64_t i = 0; i < count; i++) x[i] = (T)(x[i] & a[i]); break;                          \
        case RSH_OP_BOR: for (int64_t i = 0; i < count; i++) x[i] = (T)(x[i] | a[i]); break;                           \
        case RSH_OP_BXOR: for (int64_t i = 0; i < count; i++) x[i] = (T)(x[i] ^ a[i]); break;                          \
        default: break;                                                                                                \
        }                                                                                                              \
    }
INT_FOLD(uint8_t)
INT_FOLD(int8_t)
INT_FOLD(uint16_t)
INT_FOLD(int16_t)
INT_FOLD(uint32_t)
INT_FOLD(int32_t)
INT_FOLD(uint64_t)
INT_FOLD(int64_t)

/* Any non-zero byte is true, and the result is 0 or 1, as in reshards of partial layouts. */
static void fold_bool(rsh_op op, int64_t count, const void *in, void *acc) {
    const uint8_t *a = in;
    uint8_t *x = acc;
    switch (op) {
    case RSH_OP_MIN:
    case RSH_OP_BAND: for (int64_t i = 0; i < count; i++) x[i] = x[i] && a[i]; break;
    case RSH_OP_MAX:
    case RSH_OP_BOR: for (int64_t i = 0; i < count; i++) x[i] = x[i] || a[i]; break;
    case RSH_OP_BXOR: for (int64_t i = 0; i < count; i++) x[i] = !x[i] != !a[i]; break;
    default: break;
    }
}

/* x != x: a NaN in the accumulator is kept; base/nan.h makes it the canonical one. */
#define FLOAT_FOLD(T, settle)                                                                                          \
    static void fold_##T(rsh_op op, int64_t count, const void *in, void *acc) {                                        \
        const T *a = in;                                                                                               \
        T *x = acc;                                                                                                    \
        switch (op) {                                                                                                  \
        case RSH_OP_AVG:                                                                                               \
        case RSH_OP_SUM: for (int64_t i = 0; i < count; i++) x[i] = settle(x[i] + a[i]); break;                        \
        case RSH_OP_PROD: for (int64_t i = 0; i < count; i++) x[i] = settle(x[i] * a[i]); break;                       \
        case RSH_OP_MIN:                                                                                               \
            for (int64_t i = 0; i < count; i++) x[i] = settle(x[i] <= a[i] || x[i] != x[i] ? x[i] : a[i]);             \
            break;                                                                                                     \
        case RSH_OP_MAX:                                                                                               \
            for (int64_t i = 0; i < count; i++) x[i] = settle(x[i] >= a[i] || x[i] != x[i] ? x[i] : a[i]);             \
            break;                                                                                                     \
        default: break;                                                                                                \
        }                                                                                                              \
    }
FLOAT_FOLD(float, rshi_f32_settle)
FLOAT_FOLD(double, rshi_f64_settle)

static const fold_fn folds[RSH_NDTYPES] = {
    [RSH_BOOL] = fold_bool,    [RSH_U8] = fold_uint8_t,   [RSH_I8] = fold_int8_t,    [RSH_U16] = fold_uint16_t,
    [RSH_I16] = fold_int16_t,  [RSH_U32] = fold_uint32_t, [RSH_I32] = fold_int32_t,  [RSH_U64] = fold_uint64_t,
    [RSH_I64] = fold_int64_t,  [RSH_F32] = fold_float,    [RSH_F64] = fold_double,
};

rsh_status rshi_reduce_check(rsh_op op, rsh_dtype dtype) {
    RSH_REQUIRE((unsigned)dtype < RSH_NDTYPES, RSH_EVALUE, "%d is not a dtype", (int)dtype);
    RSH_REQUIRE(op > RSH_OP_NONE && op < RSH_OP_COUNT, RSH_EVALUE, "allreduce: expected a reduction, got \"%s\"",
                rsh_op_name(op));
    RSH_TRY(rsh_op_check(op, dtype));
    RSH_REQUIRE(folds[dtype], RSH_EUNSUP, "allreduce does not support dtype %s; reshard a partial layout instead",
                rsh_dtype_name(dtype));
    return RSH_OK;
}

static void divide_by_ranks(rsh_dtype dtype, int64_t count, int by, void *out) {
    if (dtype == RSH_F32)
        for (int64_t i = 0; i < count; i++) ((float *)out)[i] = rshi_f32_settle(((float *)out)[i] / (float)by);
    else
        for (int64_t i = 0; i < count; i++) ((double *)out)[i] = rshi_f64_settle(((double *)out)[i] / (double)by);
}

void rshi_reduce(rsh_op op, rsh_dtype dtype, int nblocks, int64_t count, const void *blocks, void *out) {
    size_t bytes = (size_t)count * rsh_dtype_size(dtype);
    memcpy(out, blocks, bytes);
    for (int b = 1; b < nblocks; b++) folds[dtype](op, count, (const char *)blocks + (size_t)b * bytes, out);
    if (op == RSH_OP_AVG && nblocks > 1) divide_by_ranks(dtype, count, nblocks, out);
}
