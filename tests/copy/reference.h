/* Reference arithmetic: reads every dtype as a long double, and writes with one correct rounding,
 * by definition rather than by bit operations.
 *
 * The small floats are tables of all their values; rounding finds the nearest one. */
#ifndef RESHARD_TESTS_COPY_REFERENCE_H
#define RESHARD_TESTS_COPY_REFERENCE_H

#include <reshard/dtype.h>

#include <math.h>
#include <stdbool.h>
#include <string.h>

typedef struct small_format {
    int ebits, mbits;
    bool has_infinity;
} small_format;

static inline bool reference_is_small(rsh_dtype t, small_format *f) {
    switch (t) {
    case RSH_F16: *f = (small_format){5, 10, true}; return true;
    case RSH_BF16: *f = (small_format){8, 7, true}; return true;
    case RSH_F8E4M3: *f = (small_format){4, 3, false}; return true;
    case RSH_F8E5M2: *f = (small_format){5, 2, true}; return true;
    default: return false;
    }
}

static inline bool reference_is_integer(rsh_dtype t) { return t >= RSH_U8 && t <= RSH_I64; }

/* The magnitude of a code without its sign, as if there were neither infinity nor NaN. */
static inline long double small_magnitude(small_format f, int code) {
    int bias = (1 << (f.ebits - 1)) - 1, e = code >> f.mbits, m = code & ((1 << f.mbits) - 1);
    if (e == 0) return ldexpl((long double)m, 1 - bias - f.mbits);
    return ldexpl((long double)(m + (1 << f.mbits)), e - bias - f.mbits);
}

/* The code of infinity, or the only NaN of a format without it. */
static inline int small_top(small_format f) {
    int top = ((1 << f.ebits) - 1) << f.mbits;
    return f.has_infinity ? top : top | ((1 << f.mbits) - 1);
}

static inline long double small_value(small_format f, unsigned bits) {
    int width = f.ebits + f.mbits, code = (int)(bits & ((1u << width) - 1)), top = small_top(f);
    long double sign = bits >> width ? -1.0L : 1.0L;
    if (code > top || (code == top && !f.has_infinity)) return NAN;
    if (code == top) return sign * (long double)INFINITY;
    return sign * small_magnitude(f, code);
}

/* Finds the nearest code by bisection over the magnitudes, ties to the even code; `top` stands for
 * everything beyond the largest number. */
static inline unsigned small_code(small_format f, long double x) {
    int top = small_top(f), lo = 0, hi = top, width = f.ebits + f.mbits;
    unsigned sign = signbit(x) ? 1u << width : 0;
    if (isnan(x)) return sign | (unsigned)top | (f.has_infinity ? 1u << (f.mbits - 1) : 0);
    long double a = fabsl(x);
    if (a >= small_magnitude(f, top)) return sign | (unsigned)top;
    while (hi - lo > 1) {
        int middle = (lo + hi) / 2;
        if (small_magnitude(f, middle) <= a)
            lo = middle;
        else
            hi = middle;
    }
    long double below = a - small_magnitude(f, lo), above = small_magnitude(f, hi) - a;
    if (below < above || (below == above && lo % 2 == 0)) return sign | (unsigned)lo;
    return sign | (unsigned)hi;
}

#define REFERENCE_READ(type)                                                                       \
    {                                                                                              \
        type v;                                                                                    \
        memcpy(&v, p, sizeof v);                                                                   \
        return (long double)v;                                                                     \
    }

/* One real element; complex ones are read part by part as f32 or f64. */
static inline long double reference_read(rsh_dtype t, const void *p) {
    small_format f;
    unsigned bits = 0;
    if (reference_is_small(t, &f)) {
        memcpy(&bits, p, rsh_dtype_size(t));
        return small_value(f, bits);
    }
    switch (t) {
    case RSH_BOOL: return *(const unsigned char *)p != 0;
    case RSH_U8: REFERENCE_READ(uint8_t)
    case RSH_I8: REFERENCE_READ(int8_t)
    case RSH_U16: REFERENCE_READ(uint16_t)
    case RSH_I16: REFERENCE_READ(int16_t)
    case RSH_U32: REFERENCE_READ(uint32_t)
    case RSH_I32: REFERENCE_READ(int32_t)
    case RSH_U64: REFERENCE_READ(uint64_t)
    case RSH_I64: REFERENCE_READ(int64_t)
    case RSH_F32: REFERENCE_READ(float)
    default: REFERENCE_READ(double)
    }
}

static inline bool reference_is_signed(rsh_dtype t) {
    return t == RSH_I8 || t == RSH_I16 || t == RSH_I32 || t == RSH_I64;
}

/* A real number to an integer: toward zero, saturating. */
static inline uint64_t reference_saturate(rsh_dtype t, long double x) {
    int bits = 8 * (int)rsh_dtype_size(t);
    long double low = reference_is_signed(t) ? -ldexpl(1, bits - 1) : 0;
    long double high = ldexpl(1, reference_is_signed(t) ? bits - 1 : bits) - 1;
    if (isnan(x)) return 0;
    x = truncl(x);
    if (x < low) x = low;
    if (x > high) x = high;
    return x < 0 ? (uint64_t)(int64_t)x : (uint64_t)x;
}

/* One real value to dtype `to`.  `integer`: x came from an integer type, so it wraps. */
static inline void reference_write(rsh_dtype to, void *p, long double x, bool integer) {
    small_format f;
    uint64_t word;
    float single = (float)x;
    double twice = (double)x;
    if (to == RSH_F32) {
        memcpy(p, &single, sizeof single);
    } else if (to == RSH_F64) {
        memcpy(p, &twice, sizeof twice);
    } else {
        if (to == RSH_BOOL)
            word = x != 0;
        else if (reference_is_small(to, &f))
            word = small_code(f, x);
        else
            word = !integer ? reference_saturate(to, x)
                   : x < 0  ? (uint64_t)(int64_t)x
                            : (uint64_t)x;
        memcpy(p, &word,
               rsh_dtype_size(to)); /* little-endian, like every machine that runs these tests */
    }
}

static inline rsh_dtype reference_component(rsh_dtype t) {
    return t == RSH_C64 ? RSH_F32 : t == RSH_C128 ? RSH_F64 : t;
}
static inline bool reference_is_complex(rsh_dtype t) { return reference_component(t) != t; }

static inline void reference_convert(rsh_dtype from, const char *src, rsh_dtype to, char *dst) {
    rsh_dtype a = reference_component(from), b = reference_component(to);
    bool integer = reference_is_integer(from) || from == RSH_BOOL;
    if (from == to) {
        memcpy(dst, src, rsh_dtype_size(to));
        return;
    }
    memset(dst, 0, rsh_dtype_size(to));
    if (a != from && to == RSH_BOOL) { /* true unless both parts are 0 */
        *dst = reference_read(a, src) != 0 || reference_read(a, src + rsh_dtype_size(a)) != 0;
        return;
    }
    reference_write(b, dst, reference_read(a, src), integer);
    if (a != from)
        reference_write(b, dst + rsh_dtype_size(b), reference_read(a, src + rsh_dtype_size(a)),
                        false);
}

/* Equal bits, or both NaN in every component that differs. */
static inline bool reference_same(rsh_dtype t, const char *x, const char *y) {
    rsh_dtype part = reference_component(t);
    size_t size = rsh_dtype_size(part);
    if (!memcmp(x, y, rsh_dtype_size(t))) return true;
    if (reference_is_integer(t) || t == RSH_BOOL) return false;
    for (size_t i = 0; i < rsh_dtype_size(t); i += size)
        if (memcmp(x + i, y + i, size) &&
            !(isnan(reference_read(part, x + i)) && isnan(reference_read(part, y + i))))
            return false;
    return true;
}

#endif
