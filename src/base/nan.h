/* nan: the NaN that every reduction gives.
 *
 * Processors differ in which operand's NaN they pass on, and make new NaNs with either sign;
 * compilers swap operands.  So every operation of a reduction replaces any NaN by the positive
 * quiet one without payload.  Bits are compared, not numbers, so that floating-point compiler
 * options cannot remove the comparison, and there is no branch, so that loops can be vectorised. */
#ifndef RESHARD_BASE_NAN_H
#define RESHARD_BASE_NAN_H

#include <stdint.h>
#include <string.h>

#define RSHI_F32_INF    0x7f800000
#define RSHI_F32_NAN    0x7fc00000
#define RSHI_F64_INF    INT64_C(0x7ff0000000000000)
#define RSHI_F64_NAN    INT64_C(0x7ff8000000000000)
#define RSHI_F8E4M3_NAN 0x7f

static inline __attribute__((always_inline)) float rshi_f32_settle(float x) {
    int32_t u;
    memcpy(&u, &x, sizeof u);
    int32_t nan = -(int32_t)((u & INT32_MAX) > RSHI_F32_INF);
    u ^= (u ^ RSHI_F32_NAN) & nan;
    memcpy(&x, &u, sizeof x);
    return x;
}

static inline __attribute__((always_inline)) double rshi_f64_settle(double x) {
    int64_t u;
    memcpy(&u, &x, sizeof u);
    int64_t nan = -(int64_t)((u & INT64_MAX) > RSHI_F64_INF);
    u ^= (u ^ RSHI_F64_NAN) & nan;
    memcpy(&x, &u, sizeof x);
    return x;
}

#endif
