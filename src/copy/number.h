/* copy/number: conversion of one element to another type.
 *
 * Every function rounds at most once, to nearest even, and has no branches, so that loops over it
 * can be vectorised. */
#ifndef RESHARD_COPY_NUMBER_H
#define RESHARD_COPY_NUMBER_H

#include "copy/impl.h"

#include <string.h>

RSHI_INLINE uint32_t bits_of_f32(float x) {
    uint32_t u;
    memcpy(&u, &x, sizeof u);
    return u;
}
RSHI_INLINE uint64_t bits_of_f64(double x) {
    uint64_t u;
    memcpy(&u, &x, sizeof u);
    return u;
}
RSHI_INLINE float f32_of_bits(uint32_t u) {
    float x;
    memcpy(&x, &u, sizeof x);
    return x;
}
RSHI_INLINE double f64_of_bits(uint64_t u) {
    double x;
    memcpy(&x, &u, sizeof x);
    return x;
}

/* A choice without a branch.  With a conditional the compiler would move arithmetic into a branch,
 * and the loop would stay scalar. */
RSHI_INLINE uint32_t pick32(bool condition, uint32_t yes, uint32_t no) {
    return no ^ ((no ^ yes) & -(uint32_t)condition);
}
RSHI_INLINE uint64_t pick64(bool condition, uint64_t yes, uint64_t no) {
    return no ^ ((no ^ yes) & -(uint64_t)condition);
}

/* ---- small floats: sign, `ebits` of exponent with bias 2^(ebits-1)-1, `mbits` of mantissa ---- */

/* Converts to a small float from a wide one with MBITS of mantissa and EBITS of exponent.  Three
 * results are computed and one is chosen:
 * - normal: adds half a unit in the last place (less one for a tie to an even number) and
 *   truncates;
 * - subnormal: adds 2^k, whose last place is the target's smallest step, so that the processor
 *   rounds; the result is in the low bits of the sum;
 * - NaN: keeps the sign and the leading payload bits, and sets the quiet bit.
 * `top` is the code for values that are too large: infinity, or NaN for f8e4m3.  Compared values
 * have no sign bit and are compared as signed, for which every processor has instructions. */
#define SMALL_FROM(name, real, word, number, pick, to_bits, of_bits, MBITS, EBITS)                 \
    RSHI_INLINE uint32_t name(real x, int ebits, int mbits, uint32_t top) {                        \
        const int bias = (1 << (ebits - 1)) - 1, wide_bias = (1 << (EBITS - 1)) - 1,               \
                  cut = MBITS - mbits;                                                             \
        const word wide_inf = (((word)1 << EBITS) - 1) << MBITS;                                   \
        const word step = (word)(wide_bias + 1 - bias - mbits + MBITS) << MBITS;                   \
        const word least = (word)(wide_bias + 1 - bias) << MBITS;                                  \
        word all = to_bits(x), a = all & (((word)1 << (MBITS + EBITS)) - 1);                       \
        word normal = ((a + (((word)1 << (cut - 1)) - 1) + ((a >> cut) & 1)) >> cut) -             \
                      ((word)(wide_bias - bias) << mbits);                                         \
        word subnormal = to_bits(of_bits(a) + of_bits(step)) - step;                               \
        word nan = top | ((word)1 << (mbits - 1)) | ((a >> cut) & (((word)1 << mbits) - 1));       \
        word code = pick((number)a < (number)least, subnormal, normal);                            \
        code = pick(((number)a >= (number)wide_inf) | ((number)code > (number)top), top, code);    \
        code = pick((number)a > (number)wide_inf, nan, code);                                      \
        return (uint32_t)(code | (all >> (MBITS + EBITS)) << (mbits + ebits));                     \
    }
SMALL_FROM(small_from_f32, float, uint32_t, int32_t, pick32, bits_of_f32, f32_of_bits, 23, 8)
SMALL_FROM(small_from_f64, double, uint64_t, int64_t, pick64, bits_of_f64, f64_of_bits, 52, 11)

#define F16_TOP    0x7c00u
#define BF16_TOP   0x7f80u
#define F8E4M3_TOP 0x7fu
#define F8E5M2_TOP 0x7cu

/* Converts from a small float with 5 exponent bits or fewer; exact.  Subnormals are normalised by a
 * subtraction. */
RSHI_INLINE float f32_from_small(uint32_t h, int ebits, int mbits) {
    const int bias = (1 << (ebits - 1)) - 1, grow = 23 - mbits;
    const uint32_t rebias = (uint32_t)(127 - bias) << 23, one = (uint32_t)1 << 23;
    uint32_t a = (h & ((1u << (ebits + mbits)) - 1)) << grow, exponent = a >> 23;
    uint32_t normal = a + rebias;
    uint32_t subnormal = bits_of_f32(f32_of_bits(a + rebias + one) - f32_of_bits(rebias + one));
    uint32_t code = pick32(exponent == 0, subnormal, normal);
    return f32_of_bits(code | (h >> (ebits + mbits)) << 31);
}

RSHI_INLINE uint16_t f16_from_f32(float x) { return (uint16_t)small_from_f32(x, 5, 10, F16_TOP); }
RSHI_INLINE uint16_t f16_from_f64(double x) { return (uint16_t)small_from_f64(x, 5, 10, F16_TOP); }
RSHI_INLINE uint8_t f8e4m3_from_f32(float x) {
    return (uint8_t)small_from_f32(x, 4, 3, F8E4M3_TOP);
}
RSHI_INLINE uint8_t f8e4m3_from_f64(double x) {
    return (uint8_t)small_from_f64(x, 4, 3, F8E4M3_TOP);
}
RSHI_INLINE uint8_t f8e5m2_from_f32(float x) {
    return (uint8_t)small_from_f32(x, 5, 2, F8E5M2_TOP);
}
RSHI_INLINE uint8_t f8e5m2_from_f64(double x) {
    return (uint8_t)small_from_f64(x, 5, 2, F8E5M2_TOP);
}
RSHI_INLINE uint16_t bf16_from_f64(double x) { return (uint16_t)small_from_f64(x, 8, 7, BF16_TOP); }

/* bf16 is the upper half of f32: subnormals and infinity need no special treatment. */
RSHI_INLINE uint16_t bf16_from_f32(float x) {
    uint32_t u = bits_of_f32(x);
    uint32_t rounded = (u + 0x7fff + ((u >> 16) & 1)) >> 16;
    return (uint16_t)pick32((int32_t)(u & 0x7fffffffu) > 0x7f800000, (u >> 16) | 0x40, rounded);
}
RSHI_INLINE float f32_from_bf16(uint16_t h) { return f32_of_bits((uint32_t)h << 16); }

/* The largest exponent means infinity and NaN (NaNs become quiet). */
RSHI_INLINE float f32_from_ieee_small(uint32_t h, int ebits, int mbits) {
    const int32_t top = ((1 << ebits) - 1) << mbits;
    int32_t a = (int32_t)(h & ((1u << (ebits + mbits)) - 1));
    uint32_t payload = (uint32_t)a << (23 - mbits) & 0x7fffffu, quiet = (uint32_t)(a > top) << 22;
    uint32_t special = 0x7f800000u | payload | quiet | (h >> (ebits + mbits)) << 31;
    float finite = f32_from_small(h, ebits, mbits);
    return f32_of_bits(pick32(a >= top, special, bits_of_f32(finite)));
}
RSHI_INLINE float f32_from_f16(uint16_t h) { return f32_from_ieee_small(h, 5, 10); }
RSHI_INLINE float f32_from_f8e5m2(uint8_t h) { return f32_from_ieee_small(h, 5, 2); }
RSHI_INLINE float f32_from_f8e4m3(uint8_t h) {
    uint32_t nan = 0x7fc00000u | (uint32_t)(h >> 7) << 31;
    float finite = f32_from_small(h, 4, 3);
    return f32_of_bits(pick32((h & 0x7f) == 0x7f, nan, bits_of_f32(finite)));
}

/* ---- integers ---- */

/* Toward zero, saturating, NaN to 0.  `end` is the first power of two above the type, exact as a
 * double. */
#define SATURATE(name, type, low, high, end)                                                       \
    RSHI_INLINE type name##_from_real(double x) {                                                  \
        return x >= (end) ? (high) : x <= (double)(low) ? (low) : x != x ? 0 : (type)x;            \
    }
SATURATE(u8, uint8_t, 0, UINT8_MAX, 256.0)
SATURATE(i8, int8_t, INT8_MIN, INT8_MAX, 128.0)
SATURATE(u16, uint16_t, 0, UINT16_MAX, 65536.0)
SATURATE(i16, int16_t, INT16_MIN, INT16_MAX, 32768.0)
SATURATE(u32, uint32_t, 0, UINT32_MAX, 4294967296.0)
SATURATE(i32, int32_t, INT32_MIN, INT32_MAX, 2147483648.0)
SATURATE(u64, uint64_t, 0, UINT64_MAX, 18446744073709551616.0)
SATURATE(i64, int64_t, INT64_MIN, INT64_MAX, 9223372036854775808.0)

/* Truncates a 64-bit magnitude to the 53 bits of a double, with the last bit set if anything was
 * lost ("rounded to odd").  A second rounding to 51 bits or fewer then gives the result of a single
 * rounding. */
RSHI_INLINE double odd_from_u64(uint64_t x) {
    if (x >> 53 == 0) return (double)x;
    uint64_t lost = x & 0x7ff;
    return (double)((x & ~(uint64_t)0x7ff) | (uint64_t)(lost != 0) << 11);
}
RSHI_INLINE double odd_from_i64(int64_t x) {
    return x < 0 ? -odd_from_u64(-(uint64_t)x) : odd_from_u64((uint64_t)x);
}

#endif
