/* Combine: combines many dense sources into one accumulator, strictly from left to right.
 *
 * Sums of floats, which are the most frequent reductions, read all sources in one pass.  All other reductions combine
 * one source after the other.  Small floats are widened first. */
#include "copy/number.h"

#define SUM_WAYS   8
#define WIDE_COUNT 1024 /* number of small floats that are widened at a time */

/* ---- sums ---- */

/* A vector register of f32, one of f64, and one of as many bf16 (read as u16) as there are f32. */
#define VECTORS(level, bytes)                                                                                          \
    typedef float f32_##level __attribute__((vector_size(bytes), aligned(1), may_alias));                              \
    typedef double f64_##level __attribute__((vector_size(bytes), aligned(1), may_alias));                             \
    typedef int32_t i32_##level __attribute__((vector_size(bytes), aligned(1), may_alias));                            \
    typedef int64_t i64_##level __attribute__((vector_size(bytes), aligned(1), may_alias));                            \
    typedef uint32_t u32_##level __attribute__((vector_size(bytes), aligned(1), may_alias));                           \
    typedef uint16_t u16_##level __attribute__((vector_size(bytes / 2), aligned(1), may_alias));

#define VECTOR_AT(vec, p) (*(const vec *)(const void *)(p))
#define F32_AT(level, p)  VECTOR_AT(f32_##level, p)
#define F64_AT(level, p)  VECTOR_AT(f64_##level, p)
#define BF16_AT(level, p) ((f32_##level)(widened_##level(p) << 16))

/* Widens words to twice their size.  Without this, compilers use several instructions instead of one. */
#define WIDENED(target, level, expression)                                                                             \
    target RSHI_INLINE u32_##level widened_##level(const char *p) { return (u32_##level)(expression); }
/* A vector of sums with every NaN replaced by the canonical one (base/nan.h). */
#define SETTLED(vec, bits, v, least, most, nan)                                                                        \
    ((vec)((bits)(v) ^ (((bits)(v) ^ (nan)) & (bits)(((bits)(v) & (most)) > (least)))))
#define settled_f32(level, v) SETTLED(f32_##level, i32_##level, v, RSHI_F32_INF, INT32_MAX, RSHI_F32_NAN)
#define settled_f64(level, v) SETTLED(f64_##level, i64_##level, v, RSHI_F64_INF, INT64_MAX, RSHI_F64_NAN)

RSHI_INLINE void ask_line(const char *src, int64_t ahead) {
    __builtin_prefetch((const void *)((uintptr_t)src + (uintptr_t)ahead), 0, 2);
}
RSHI_INLINE float read_f32(const char *p) {
    float x;
    memcpy(&x, p, sizeof x);
    return x;
}
RSHI_INLINE double read_f64(const char *p) {
    double x;
    memcpy(&x, p, sizeof x);
    return x;
}
RSHI_INLINE float read_bf16(const char *p) {
    uint16_t x;
    memcpy(&x, p, sizeof x);
    return f32_from_bf16(x);
}

/* Adds k operands, one cache line of each at a time, register by register. i counts elements, and `size` is the size of
 * a source element in bytes.  With `more`, the accumulator replaces src[0]. */
#define SUM_CASE(k, level, vec, real, size, source_at, sum)                                                            \
    case k:                                                                                                            \
        for (; i + RSHI_LINE / (size) <= n; i += RSHI_LINE / (size)) {                                                 \
            for (int s = 0; s < (k); s++) ask_line(src[s] + i * (size), ahead);                                        \
            for (size_t e = i; e < i + RSHI_LINE / (size); e += sizeof(vec) / sizeof(real)) {                          \
                vec v = more ? VECTOR_AT(vec, acc + e * sizeof(real)) : source_at(level, src[0] + e * (size));         \
                for (int s = 1; s < (k); s++) v += source_at(level, src[s] + e * (size));                              \
                *(vec *)(void *)(acc + e * sizeof(real)) = settled_##sum(level, v);                                    \
            }                                                                                                          \
        }                                                                                                              \
        break;
#define SUM(target, name, level, vec, real, size, source_at, read_source, read_acc, sum)                               \
    target static void name(bool more, int operands, const char *const *src, char *acc, size_t n) {                    \
        size_t i = 0;                                                                                                  \
        int64_t ahead = rshi_ahead(n * (size));                                                                        \
        switch (operands) {                                                                                            \
            SUM_CASE(1, level, vec, real, size, source_at, sum)                                                        \
            SUM_CASE(2, level, vec, real, size, source_at, sum)                                                        \
            SUM_CASE(3, level, vec, real, size, source_at, sum)                                                        \
            SUM_CASE(4, level, vec, real, size, source_at, sum)                                                        \
            SUM_CASE(5, level, vec, real, size, source_at, sum)                                                        \
        }                                                                                                              \
        for (; i < n; i++) {                                                                                           \
            real v = more ? read_acc(acc + i * sizeof v) : read_source(src[0] + i * (size));                           \
            for (int s = 1; s < operands; s++) v += read_source(src[s] + i * (size));                                  \
            v = rshi_##sum##_settle(v);                                                                                \
            memcpy(acc + i * sizeof v, &v, sizeof v);                                                                  \
        }                                                                                                              \
    }
#define SUMS(target, level, bytes, widen)                                                                              \
    VECTORS(level, bytes)                                                                                              \
    WIDENED(target, level, widen)                                                                                      \
    SUM(target, sum_f32_##level, level, f32_##level, float, 4, F32_AT, read_f32, read_f32, f32)                        \
    SUM(target, sum_f64_##level, level, f64_##level, double, 8, F64_AT, read_f64, read_f64, f64)                       \
    SUM(target, sum_bf16_##level, level, f32_##level, float, 2, BF16_AT, read_bf16, read_f32, f32)
SUMS(, generic, 16, __builtin_convertvector(VECTOR_AT(u16_generic, p), u32_generic))
#if RSHI_X86
SUMS(RSHI_AVX2, avx2, 32, _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)(const void *)p)))
SUMS(RSHI_AVX512, avx512, 64, _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)(const void *)p)))
#endif

typedef void sum_fn(bool more, int operands, const char *const *src, char *acc, size_t n);
static sum_fn *const sum_f32[RSHI_SIMD_COUNT] = RSHI_PER_LEVEL(sum_f32);
static sum_fn *const sum_f64[RSHI_SIMD_COUNT] = RSHI_PER_LEVEL(sum_f64);
static sum_fn *const sum_bf16[RSHI_SIMD_COUNT] = RSHI_PER_LEVEL(sum_bf16);

/* Returns the one-pass sum for a dtype; NULL: there is none.  Complex sums are sums of the components. */
static sum_fn *sum_of(rsh_dtype t) {
    rshi_simd level = rshi_simd_level();
    switch (t) {
    case RSH_F32:
    case RSH_C64: return sum_f32[level];
    case RSH_F64:
    case RSH_C128: return sum_f64[level];
    case RSH_BF16: return sum_bf16[level];
    default: return NULL;
    }
}

static void sum_all(sum_fn *sum, bool more, int nsrc, const char *const *src, char *acc, size_t n) {
    const char *operand[RSHI_COMBINE_MOST + 1] = {acc};
    int lead = more ? 1 : 0;
    memcpy(operand + lead, src, (size_t)nsrc * sizeof *src);
    sum(more, lead + nsrc, operand, acc, n);
}

/* ---- folds ---- */

/* Folds a source of small floats, which is widened tile by tile. */
static void fold_widened(rshi_fold_fn *fold, rsh_dtype from, const char *src, char *acc, size_t n) {
    _Alignas(RSHI_PAGE) char wide[WIDE_COUNT * sizeof(float)];
    size_t size = rsh_dtype_size(from);
    for (size_t i = 0; i < n; i += WIDE_COUNT) {
        size_t count = n - i < WIDE_COUNT ? n - i : WIDE_COUNT;
        rshi_convert(from, src + i * size, RSH_F32, wide, count);
        fold(acc + i * sizeof(float), wide, count);
    }
}

static void fold_all(rsh_op op, rsh_dtype from, bool more, int nsrc, const char *const *src, char *acc, size_t n) {
    rsh_dtype t = rshi_accumulator(from);
    rshi_fold_fn *fold = rshi_fold_of(op, t);
    if (!more) rshi_convert(from, src[0], t, acc, n);
    for (int k = more ? 0 : 1; k < nsrc; k++)
        if (t == from)
            fold(acc, src[k], n);
        else
            fold_widened(fold, from, src[k], acc, n);
}

/* ---- interface ---- */

static size_t parts_of(rsh_dtype t) { return t == RSH_C64 || t == RSH_C128 ? 2 : 1; }

void rshi_combine(rsh_op op, rsh_dtype from, bool more, int nsrc, const char *const *src, char *acc, size_t n) {
    sum_fn *sum = op == RSH_OP_SUM ? sum_of(from) : NULL;
    if (sum)
        sum_all(sum, more, nsrc, src, acc, n * parts_of(from));
    else
        fold_all(op, from, more, nsrc, src, acc, n);
}

#define DIVIDE(name, real, settle)                                                                                     \
    static void name(char *acc, real divisor, size_t n) {                                                              \
        for (size_t i = 0; i < n; i++) {                                                                               \
            real x;                                                                                                    \
            memcpy(&x, acc + i * sizeof x, sizeof x);                                                                  \
            x = settle(x / divisor);                                                                                   \
            memcpy(acc + i * sizeof x, &x, sizeof x);                                                                  \
        }                                                                                                              \
    }
DIVIDE(divide_f32, float, rshi_f32_settle)
DIVIDE(divide_f64, double, rshi_f64_settle)

void rshi_divide(rsh_dtype t, int64_t divisor, char *acc, size_t n) {
    if (divisor <= 1) return;
    if (t == RSH_F32 || t == RSH_C64) divide_f32(acc, (float)divisor, n * parts_of(t));
    if (t == RSH_F64 || t == RSH_C128) divide_f64(acc, (double)divisor, n * parts_of(t));
}
