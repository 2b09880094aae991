/* Combine: many dense sources into one accumulator, strictly left to right.
 *
 * Sums of floats, which is what most reductions are, take up to SUM_WAYS sources in one pass so that they are read side by side.
 * Everything else folds in one source after the other; the small floats are widened on the way. */
#include "copy/number.h"

#define SUM_WAYS 8
#define WIDE_COUNT 1024 /* small floats widened at a time */

/* ---- sums ---- */

typedef float f32_line __attribute__((vector_size(64), aligned(1), may_alias));
typedef double f64_line __attribute__((vector_size(64), aligned(1), may_alias));
typedef uint32_t u32_line __attribute__((vector_size(64), aligned(1), may_alias));
typedef uint16_t u16_half_line __attribute__((vector_size(32), aligned(1), may_alias));

#define LINE_AT(line, p) (*(const line *)(const void *)(p))
#define F32_LINE(p) LINE_AT(f32_line, p)
#define F64_LINE(p) LINE_AT(f64_line, p)
#define BF16_LINE(p) ((f32_line)(__builtin_convertvector(LINE_AT(u16_half_line, p), u32_line) << 16))

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

/* Whole lines of the accumulator from k sources; `size` is the bytes of a source element, i counts elements.  With `more` the
 * accumulator takes the place of src[0]. */
#define SUM_CASE(k, real, size, source_line, line)                                                                        \
    case k:                                                                                                               \
        for (; i + sizeof(line) / sizeof(real) <= n; i += sizeof(line) / sizeof(real)) {                                  \
            for (int s = 0; s < (k); s++) __builtin_prefetch(src[s] + i * (size) + ahead, 0, 2);                          \
            line v = more ? LINE_AT(line, acc + i * sizeof(real)) : source_line(src[0] + i * (size));                     \
            for (int s = 1; s < (k); s++) v += source_line(src[s] + i * (size));                                          \
            *(line *)(void *)(acc + i * sizeof(real)) = v;                                                                \
        }                                                                                                                 \
        break;
#define SUM(target, name, real, size, source_line, line, read_source, read_acc)                                           \
    target static void name(bool more, int nsrc, const char *const *src, char *acc, size_t n) {                           \
        size_t i = 0, ahead = rshi_ahead(n * (size));                                                                     \
        switch (nsrc) {                                                                                                   \
            SUM_CASE(1, real, size, source_line, line)                                                                    \
            SUM_CASE(2, real, size, source_line, line)                                                                    \
            SUM_CASE(3, real, size, source_line, line)                                                                    \
            SUM_CASE(4, real, size, source_line, line)                                                                    \
            SUM_CASE(5, real, size, source_line, line)                                                                    \
            SUM_CASE(6, real, size, source_line, line)                                                                    \
            SUM_CASE(7, real, size, source_line, line)                                                                    \
            SUM_CASE(8, real, size, source_line, line)                                                                    \
        }                                                                                                                 \
        for (; i < n; i++) {                                                                                              \
            real v = more ? read_acc(acc + i * sizeof v) : read_source(src[0] + i * (size));                              \
            for (int s = 1; s < nsrc; s++) v += read_source(src[s] + i * (size));                                         \
            memcpy(acc + i * sizeof v, &v, sizeof v);                                                                     \
        }                                                                                                                 \
    }
#define SUMS(target, level)                                                                                               \
    SUM(target, sum_f32_##level, float, 4, F32_LINE, f32_line, read_f32, read_f32)                                        \
    SUM(target, sum_f64_##level, double, 8, F64_LINE, f64_line, read_f64, read_f64)                                       \
    SUM(target, sum_bf16_##level, float, 2, BF16_LINE, f32_line, read_bf16, read_f32)
SUMS(, generic)
#if RSHI_X86
SUMS(RSHI_AVX2, avx2)
SUMS(RSHI_AVX512, avx512)
#endif

typedef void sum_fn(bool more, int nsrc, const char *const *src, char *acc, size_t n);
static sum_fn *const sum_f32[RSHI_SIMD_COUNT] = RSHI_PER_LEVEL(sum_f32);
static sum_fn *const sum_f64[RSHI_SIMD_COUNT] = RSHI_PER_LEVEL(sum_f64);
static sum_fn *const sum_bf16[RSHI_SIMD_COUNT] = RSHI_PER_LEVEL(sum_bf16);

/* The fused sum for a dtype, NULL if there is none; complex numbers are sums of their parts. */
static sum_fn *sum_of(rsh_dtype t) {
    rshi_simd level = rshi_simd_level();
    switch (t) {
    case RSH_F32:
    case RSH_C64:
        return sum_f32[level];
    case RSH_F64:
    case RSH_C128:
        return sum_f64[level];
    case RSH_BF16:
        return sum_bf16[level];
    default:
        return NULL;
    }
}

/* SUM_WAYS operands at a time, of which the first is the accumulator once it holds something. */
static void sum_all(sum_fn *sum, bool more, int nsrc, const char *const *src, char *acc, size_t n) {
    const char *part[SUM_WAYS] = {acc};
    for (int k = 0, take; k < nsrc; k += take, more = true) {
        int lead = more ? 1 : 0;
        take = (int)rshi_min(SUM_WAYS - lead, nsrc - k);
        part[0] = acc;
        memcpy(part + lead, src + k, (size_t)take * sizeof *part);
        sum(more, lead + take, part, acc, n);
    }
}

/* ---- folds ---- */

rsh_dtype rshi_accumulator(rsh_dtype t) {
    bool small = t == RSH_F16 || t == RSH_BF16 || t == RSH_F8E4M3 || t == RSH_F8E5M2;
    return small ? RSH_F32 : t;
}

/* A small float source, widened piece by piece. */
static void fold_widened(rshi_fold_fn *fold, rsh_dtype from, const char *src, char *acc, size_t n) {
    _Alignas(RSHI_LINE) char wide[WIDE_COUNT * sizeof(float)];
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

/* ---- doors ---- */

static size_t parts_of(rsh_dtype t) { return t == RSH_C64 || t == RSH_C128 ? 2 : 1; }

void rshi_combine(rsh_op op, rsh_dtype from, bool more, int nsrc, const char *const *src, char *acc, size_t n) {
    sum_fn *sum = op == RSH_OP_SUM ? sum_of(from) : NULL;
    if (sum)
        sum_all(sum, more, nsrc, src, acc, n * parts_of(from));
    else
        fold_all(op, from, more, nsrc, src, acc, n);
}

#define DIVIDE(name, real)                                                                                                \
    static void name(char *acc, real divisor, size_t n) {                                                                 \
        for (size_t i = 0; i < n; i++) {                                                                                  \
            real x;                                                                                                       \
            memcpy(&x, acc + i * sizeof x, sizeof x);                                                                     \
            x /= divisor;                                                                                                 \
            memcpy(acc + i * sizeof x, &x, sizeof x);                                                                     \
        }                                                                                                                 \
    }
DIVIDE(divide_f32, float)
DIVIDE(divide_f64, double)

void rshi_divide(rsh_dtype t, int64_t divisor, char *acc, size_t n) {
    if (divisor <= 1) return;
    if (t == RSH_F32 || t == RSH_C64) divide_f32(acc, (float)divisor, n * parts_of(t));
    if (t == RSH_F64 || t == RSH_C128) divide_f64(acc, (double)divisor, n * parts_of(t));
}
