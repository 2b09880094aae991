/* Combine: the arithmetic of reductions on dense elements, strictly left to right.
 *
 * No operation here may be contracted or reassociated: the same plan gives the same bits on every engine.  ISO C mode (-std=c11)
 * keeps gcc from contracting, the pragma keeps clang. */
#include "copy/impl.h"

#include <string.h>

#ifdef __clang__
#pragma STDC FP_CONTRACT OFF
#endif

#define BATCH 64    /* elements: a fixed count lets the compiler make vector code without a cost model */
#define SUM_WAYS 8  /* sources summed in one pass */

/* ---- two operands: acc = acc op src ---- */

typedef void fold_fn(char *acc, const char *src, size_t n);

#define ELEMENT(type, expression)                                                                                         \
    {                                                                                                                     \
        type a, b;                                                                                                        \
        memcpy(&a, acc + i * sizeof a, sizeof a);                                                                         \
        memcpy(&b, src + i * sizeof b, sizeof b);                                                                         \
        type y = (type)(expression);                                                                                      \
        memcpy(acc + i * sizeof y, &y, sizeof y);                                                                         \
    }
#define FOLD(name, type, expression)                                                                                      \
    static void name(char *restrict acc, const char *restrict src, size_t n) {                                            \
        size_t ahead = rshi_ahead(n * sizeof(type));                                                                      \
        for (; n >= BATCH; n -= BATCH, acc += BATCH * sizeof(type), src += BATCH * sizeof(type)) {                        \
            rshi_prefetch(src + ahead, BATCH * sizeof(type));                                                             \
            for (size_t i = 0; i < BATCH; i++) ELEMENT(type, expression)                                                  \
        }                                                                                                                 \
        for (size_t i = 0; i < n; i++) ELEMENT(type, expression)                                                          \
    }

/* `word` is unsigned and at least as wide as int, so that sums and products wrap instead of overflowing. */
#define INTEGER_FOLDS(t, type, word)                                                                                      \
    FOLD(t##_SUM, type, (word)a + (word)b)                                                                                \
    FOLD(t##_PROD, type, (word)a * (word)b)                                                                               \
    FOLD(t##_MIN, type, a < b ? a : b)                                                                                    \
    FOLD(t##_MAX, type, a > b ? a : b)                                                                                    \
    FOLD(t##_BAND, type, a &b)                                                                                            \
    FOLD(t##_BOR, type, a | b)                                                                                            \
    FOLD(t##_BXOR, type, a ^ b)
INTEGER_FOLDS(U8, uint8_t, uint32_t)
INTEGER_FOLDS(I8, int8_t, uint32_t)
INTEGER_FOLDS(U16, uint16_t, uint32_t)
INTEGER_FOLDS(I16, int16_t, uint32_t)
INTEGER_FOLDS(U32, uint32_t, uint32_t)
INTEGER_FOLDS(I32, int32_t, uint32_t)
INTEGER_FOLDS(U64, uint64_t, uint64_t)
INTEGER_FOLDS(I64, int64_t, uint64_t)

/* NaN wins from either side: a comparison with NaN is false, so a NaN on the right falls through to b. */
#define REAL_FOLDS(t, type)                                                                                               \
    FOLD(t##_SUM, type, a + b)                                                                                            \
    FOLD(t##_PROD, type, a *b)                                                                                            \
    FOLD(t##_MIN, type, ((a < b) | (a != a)) ? a : b)                                                                       \
    FOLD(t##_MAX, type, ((a > b) | (a != a)) ? a : b)
REAL_FOLDS(F32, float)
REAL_FOLDS(F64, double)

/* Truth values: any non-zero byte is true, what comes out is 0 or 1. */
FOLD(BOOL_BAND, uint8_t, (a != 0) & (b != 0))
FOLD(BOOL_BOR, uint8_t, (a != 0) | (b != 0))
FOLD(BOOL_BXOR, uint8_t, (a != 0) ^ (b != 0))

typedef struct c64 {
    float re, im;
} c64;
typedef struct c128 {
    double re, im;
} c128;
#define COMPLEX_PROD(t)                                                                                                   \
    RSHI_INLINE t t##_times(t a, t b) { return (t){a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re}; }               \
    static void t##_PROD(char *acc, const char *src, size_t n) {                                                          \
        for (size_t i = 0; i < n; i++) {                                                                                  \
            t a, b;                                                                                                       \
            memcpy(&a, acc + i * sizeof a, sizeof a);                                                                     \
            memcpy(&b, src + i * sizeof b, sizeof b);                                                                     \
            a = t##_times(a, b);                                                                                          \
            memcpy(acc + i * sizeof a, &a, sizeof a);                                                                     \
        }                                                                                                                 \
    }
COMPLEX_PROD(c64)
COMPLEX_PROD(c128)

#define REAL_ENTRIES(t)                                                                                                   \
    [RSH_OP_SUM] = t##_SUM, [RSH_OP_PROD] = t##_PROD, [RSH_OP_MIN] = t##_MIN, [RSH_OP_MAX] = t##_MAX
#define INTEGER_ENTRIES(t)                                                                                                \
    [RSH_##t] = {REAL_ENTRIES(t), [RSH_OP_BAND] = t##_BAND, [RSH_OP_BOR] = t##_BOR, [RSH_OP_BXOR] = t##_BXOR}

/* Complex sums are sums of their components and never looked up. */
static fold_fn *const folds[RSH_DTYPE_COUNT][RSH_OP_COUNT] = {
    INTEGER_ENTRIES(U8),  INTEGER_ENTRIES(I8),  INTEGER_ENTRIES(U16), INTEGER_ENTRIES(I16),
    INTEGER_ENTRIES(U32), INTEGER_ENTRIES(I32), INTEGER_ENTRIES(U64), INTEGER_ENTRIES(I64),
    [RSH_F32] = {REAL_ENTRIES(F32)},
    [RSH_F64] = {REAL_ENTRIES(F64)},
    [RSH_C64] = {[RSH_OP_PROD] = c64_PROD},
    [RSH_C128] = {[RSH_OP_PROD] = c128_PROD},
    [RSH_BOOL] = {[RSH_OP_BAND] = BOOL_BAND,
                  [RSH_OP_MIN] = BOOL_BAND,
                  [RSH_OP_BOR] = BOOL_BOR,
                  [RSH_OP_MAX] = BOOL_BOR,
                  [RSH_OP_BXOR] = BOOL_BXOR},
};

/* ---- sums of floats: several sources in one pass, so that they are read side by side ---- */

typedef float f32_line __attribute__((vector_size(64), aligned(1), may_alias));
typedef double f64_line __attribute__((vector_size(64), aligned(1), may_alias));
typedef uint16_t bf16_half_line __attribute__((vector_size(32), aligned(1), may_alias));
typedef uint32_t u32_line __attribute__((vector_size(64), aligned(1), may_alias));

#define LOAD(line, p) (*(const line *)(const void *)(p))
#define LOAD_F32(p) LOAD(f32_line, p)
#define LOAD_F64(p) LOAD(f64_line, p)
#define LOAD_BF16(p) ((f32_line)(__builtin_convertvector(LOAD(bf16_half_line, p), u32_line) << 16))
RSHI_INLINE float read_f32(const char *p) { return LOAD(unaligned_f32, p); }
RSHI_INLINE double read_f64(const char *p) { return LOAD(unaligned_f64, p); }
RSHI_INLINE float read_bf16(const char *p) { return f32_from_bf16(LOAD(unaligned_u16, p)); }

/* k sources; with `more` the accumulator takes the place of src[0].  `i` counts elements. */
#define SUM_CASE(k, type, line, size, load)                                                                               \
    case k:                                                                                                               \
        for (; i + sizeof(line) / sizeof(type) <= n; i += sizeof(line) / sizeof(type)) {                                  \
            for (int s = 0; s < (k); s++) __builtin_prefetch(src[s] + i * (size) + ahead, 0, 2);                          \
            line v = more ? LOAD(line, acc + i * sizeof(type)) : load(src[0] + i * (size));                               \
            for (int s = 1; s < (k); s++) v += load(src[s] + i * (size));                                                 \
            *(line *)(void *)(acc + i * sizeof(type)) = v;                                                                \
        }                                                                                                                 \
        break;
#define SUM(target, name, type, line, size, load, read)                                                                   \
    target static void name(bool more, int nsrc, const char *const *src, char *acc, size_t n) {                           \
        size_t i = 0, ahead = rshi_ahead(n * (size));                                                                     \
        switch (nsrc) {                                                                                                   \
            SUM_CASE(2, type, line, size, load)                                                                           \
            SUM_CASE(3, type, line, size, load)                                                                           \
            SUM_CASE(4, type, line, size, load)                                                                           \
            SUM_CASE(5, type, line, size, load)                                                                           \
            SUM_CASE(6, type, line, size, load)                                                                           \
            SUM_CASE(7, type, line, size, load)                                                                           \
            SUM_CASE(8, type, line, size, load)                                                                           \
        }                                                                                                                 \
        for (; i < n; i++) {                                                                                              \
            type v = more ? LOAD(unaligned_##type, acc + i * sizeof(type)) : read(src[0] + i * (size));                   \
            for (int s = 1; s < nsrc; s++) v += read(src[s] + i * (size));                                                \
            memcpy(acc + i * sizeof(type), &v, sizeof v);                                                                 \
        }                                                                                                                 \
    }
#define DIVIDE(name, type)                                                                                                \
    static void name(char *acc, type divisor, size_t n) {                                                                 \
        for (size_t i = 0; i < n; i++) {                                                                                  \
            type x;                                                                                                       \
            memcpy(&x, acc + i * sizeof x, sizeof x);                                                                     \
            x /= divisor;                                                                                                 \
            memcpy(acc + i * sizeof x, &x, sizeof x);                                                                     \
        }                                                                                                                 \
    }
DIVIDE(divide_f32, float)
DIVIDE(divide_f64, double)

void rshi_divide(rsh_dtype t, int64_t divisor, char *acc, size_t n) {
    if (divisor <= 1) return;
    if (t == RSH_F32 || t == RSH_C64) divide_f32(acc, (float)divisor, t == RSH_C64 ? 2 * n : n);
    if (t == RSH_F64 || t == RSH_C128) divide_f64(acc, (double)divisor, t == RSH_C128 ? 2 * n : n);
}
