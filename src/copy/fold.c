/* Fold: acc = acc op src, element by element, for every op and accumulator type.
 *
 * The compiler must not contract or reassociate these operations, so that the same plan gives the same bits on every
 * engine.  ISO C mode (-std=c11) prevents contraction in gcc, the pragma in clang. */
#include "copy/impl.h"

#include <string.h>

#ifdef __clang__
#pragma STDC FP_CONTRACT OFF
#endif

#define BATCH 64 /* elements per batch: with a fixed count the compiler vectorizes the loop */

#define ELEMENT(type, expression)                                                                                      \
    {                                                                                                                  \
        type a, b;                                                                                                     \
        memcpy(&a, acc + i * sizeof a, sizeof a);                                                                      \
        memcpy(&b, src + i * sizeof b, sizeof b);                                                                      \
        type y = (type)(expression);                                                                                   \
        memcpy(acc + i * sizeof y, &y, sizeof y);                                                                      \
    }
#define FOLD(target, name, type, expression)                                                                           \
    target static void name(char *restrict acc, const char *restrict src, size_t n) {                                  \
        int64_t ahead = rshi_ahead(n * sizeof(type));                                                                  \
        for (; n >= BATCH; n -= BATCH, acc += BATCH * sizeof(type), src += BATCH * sizeof(type)) {                     \
            rshi_prefetch(src, ahead, BATCH * sizeof(type));                                                           \
            for (size_t i = 0; i < BATCH; i++) ELEMENT(type, expression)                                               \
        }                                                                                                              \
        for (size_t i = 0; i < n; i++) ELEMENT(type, expression)                                                       \
    }

/* `word` is unsigned and at least as wide as int, so that sums and products wrap instead of overflowing. */
#define INTEGER_FOLDS(t, type, word)                                                                                   \
    FOLD(, t##_SUM, type, (word)a + (word)b)                                                                           \
    FOLD(, t##_PROD, type, (word)a *(word)b)                                                                           \
    FOLD(, t##_MIN, type, a < b ? a : b)                                                                               \
    FOLD(, t##_MAX, type, a > b ? a : b)                                                                               \
    FOLD(, t##_BAND, type, a &b)                                                                                       \
    FOLD(, t##_BOR, type, a | b)                                                                                       \
    FOLD(, t##_BXOR, type, a ^ b)
INTEGER_FOLDS(U8, uint8_t, uint32_t)
INTEGER_FOLDS(I8, int8_t, uint32_t)
INTEGER_FOLDS(U16, uint16_t, uint32_t)
INTEGER_FOLDS(I16, int16_t, uint32_t)
INTEGER_FOLDS(U32, uint32_t, uint32_t)
INTEGER_FOLDS(I32, int32_t, uint32_t)
INTEGER_FOLDS(U64, uint64_t, uint64_t)
INTEGER_FOLDS(I64, int64_t, uint64_t)

/* A NaN on either side is kept: comparisons with NaN are false, so a NaN in `a` stays.  Of equal values (0 and -0) the
 * first is kept.  All NaNs become the same one; see base/nan.h. */
#define REAL_FOLDS(target, level, t, type, settle)                                                                     \
    FOLD(target, t##_SUM_##level, type, settle(a + b))                                                                 \
    FOLD(target, t##_PROD_##level, type, settle(a * b))                                                                \
    FOLD(target, t##_MIN_##level, type, settle(((b < a) | (b != b)) ? b : a))                                          \
    FOLD(target, t##_MAX_##level, type, settle(((b > a) | (b != b)) ? b : a))
REAL_FOLDS(, generic, F32, float, rshi_f32_settle)
REAL_FOLDS(, generic, F64, double, rshi_f64_settle)
#if RSHI_X86
REAL_FOLDS(RSHI_AVX2, avx2, F32, float, rshi_f32_settle)
REAL_FOLDS(RSHI_AVX2, avx2, F64, double, rshi_f64_settle)
REAL_FOLDS(RSHI_AVX512, avx512, F32, float, rshi_f32_settle)
REAL_FOLDS(RSHI_AVX512, avx512, F64, double, rshi_f64_settle)
#endif

/* Any non-zero byte is true; results are 0 or 1. */
FOLD(, BOOL_BAND, uint8_t, (a != 0) & (b != 0))
FOLD(, BOOL_BOR, uint8_t, (a != 0) | (b != 0))
FOLD(, BOOL_BXOR, uint8_t, (a != 0) ^ (b != 0))

/* Complex numbers: the plain product, without the special cases for infinities of C's Annex G. */
#define COMPLEX_PROD(name, part, settle)                                                                               \
    static void name(char *acc, const char *src, size_t n) {                                                           \
        for (size_t i = 0; i < n; i++) {                                                                               \
            part a[2], b[2], y[2];                                                                                     \
            memcpy(a, acc + i * sizeof a, sizeof a);                                                                   \
            memcpy(b, src + i * sizeof b, sizeof b);                                                                   \
            y[0] = settle(a[0] * b[0] - a[1] * b[1]);                                                                  \
            y[1] = settle(a[0] * b[1] + a[1] * b[0]);                                                                  \
            memcpy(acc + i * sizeof y, y, sizeof y);                                                                   \
        }                                                                                                              \
    }
COMPLEX_PROD(C64_PROD, float, rshi_f32_settle)
COMPLEX_PROD(C128_PROD, double, rshi_f64_settle)

#define INTEGER_ENTRIES(t)                                                                                             \
    [RSH_##t] = {[RSH_OP_SUM] = t##_SUM,   [RSH_OP_PROD] = t##_PROD, [RSH_OP_MIN] = t##_MIN,  [RSH_OP_MAX] = t##_MAX,  \
                 [RSH_OP_BAND] = t##_BAND, [RSH_OP_BOR] = t##_BOR,   [RSH_OP_BXOR] = t##_BXOR}

static rshi_fold_fn *const folds[RSH_NDTYPES][RSH_OP_COUNT] = {
    INTEGER_ENTRIES(U8),
    INTEGER_ENTRIES(I8),
    INTEGER_ENTRIES(U16),
    INTEGER_ENTRIES(I16),
    INTEGER_ENTRIES(U32),
    INTEGER_ENTRIES(I32),
    INTEGER_ENTRIES(U64),
    INTEGER_ENTRIES(I64),
    [RSH_C64] = {[RSH_OP_PROD] = C64_PROD},
    [RSH_C128] = {[RSH_OP_PROD] = C128_PROD},
    [RSH_BOOL] = {[RSH_OP_BAND] = BOOL_BAND,
                  [RSH_OP_MIN] = BOOL_BAND,
                  [RSH_OP_BOR] = BOOL_BOR,
                  [RSH_OP_MAX] = BOOL_BOR,
                  [RSH_OP_BXOR] = BOOL_BXOR},
};

#define REAL_ENTRIES(t)                                                                                                \
    {                                                                                                                  \
        [RSH_OP_SUM] = RSHI_PER_LEVEL(t##_SUM), [RSH_OP_PROD] = RSHI_PER_LEVEL(t##_PROD),                              \
        [RSH_OP_MIN] = RSHI_PER_LEVEL(t##_MIN), [RSH_OP_MAX] = RSHI_PER_LEVEL(t##_MAX),                                \
    }
static rshi_fold_fn *const f32_folds[RSH_OP_COUNT][RSHI_SIMD_COUNT] = REAL_ENTRIES(F32);
static rshi_fold_fn *const f64_folds[RSH_OP_COUNT][RSHI_SIMD_COUNT] = REAL_ENTRIES(F64);

rshi_fold_fn *rshi_fold_of(rsh_op op, rsh_dtype t) {
    if (t == RSH_F32) return f32_folds[op][rshi_simd_level()];
    if (t == RSH_F64) return f64_folds[op][rshi_simd_level()];
    return folds[t][op];
}
