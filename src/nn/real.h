/* Real: the float that a kernel file is compiled for, and functions of it that loops can vectorise.
 *
 * Every kernel_*.c is compiled once per dtype and level of instructions: NN_BITS is 32 or 64, and NN_LEVEL is
 * generic or avx2.  The functions of f32 have no branches and no calls; their errors, 2 ulp and less of libm's,
 * are in tests/nn/test_nn_kernels.c.  Those of f64 are libm's. */
#ifndef RESHARD_NN_REAL_H
#define RESHARD_NN_REAL_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#ifndef NN_BITS
#define NN_BITS 32
#endif
#ifndef NN_LEVEL
#define NN_LEVEL generic
#endif

#define NN_PASTE(name, bits, level) rshn_##name##_f##bits##_##level
#define NN_EXPAND(name, bits, level) NN_PASTE(name, bits, level)
#define NN(name) NN_EXPAND(name, NN_BITS, NN_LEVEL)

/* Loops in which iteration i reads and writes element i only, even if operands are one memory. */
#if defined(__clang__)
#define NN_EACH _Pragma("clang loop vectorize(assume_safety)")
#else
#define NN_EACH _Pragma("GCC ivdep")
#endif

#define NN_SQRT1_2 0.70710678118654752440
#define NN_SQRT_2_PI 0.79788456080286535588 /* sqrt(2 / pi) */
#define NN_1_SQRT_2PI 0.39894228040143267794

#if NN_BITS == 32
typedef float real;
#define LANES 32 /* partial sums that do not wait for one another */

static inline int32_t bits_of(float x) {
    int32_t i;
    memcpy(&i, &x, sizeof i);
    return i;
}

static inline float float_of(int32_t i) {
    float x;
    memcpy(&x, &i, sizeof x);
    return x;
}

/* e^x = 2^n e^r with |r| <= ln 2 / 2.  n is rounded by a number so large that its fraction has no bits left; 2^n is
 * applied in two factors, so that results below the normal numbers and above the largest come out right. */
static inline float real_exp(float x) {
    const float shift = 12582912.f; /* 1.5 * 2^23 */
    x = x > 89.f ? 89.f : x;
    x = x < -104.f ? -104.f : x;
    float t = x * 1.44269504f + shift, n = t - shift;
    float r = (x - n * 0.693359375f) - n * -2.12194440e-4f;
    float p = 0.00139515626f;
    p = p * r + 0.00836953055f;
    p = p * r + 0.0416661911f;
    p = p * r + 0.166665137f;
    p = p * r + 0.5f;
    p = p * (r * r) + r + 1;
    int32_t whole = bits_of(t) - bits_of(shift), half = whole >> 1;
    return p * float_of((half + 127) << 23) * float_of((whole - half + 127) << 23);
}

static inline float real_tanh(float x) {
    float a = fabsf(x), t = x * x;
    float p = 0.00203376357f;
    p = p * t - 0.00805667229f;
    p = p * t + 0.0216515474f;
    p = p * t - 0.0539377965f;
    p = p * t + 0.133331358f;
    p = p * t - 0.333333284f;
    float small = x + x * (t * p), large = copysignf(1 - 2 / (real_exp(2 * a) + 1), x);
    return a < 0.625f ? small : large;
}

/* A polynomial below 1; above, erf = 1 - erfc, and the logarithm of erfc is a polynomial. */
static inline float real_erf(float x) {
    float a = fabsf(x), t = x * x, b = a > 4.1f ? 4.1f : a;
    float p = -9.72545422e-06f;
    p = p * t + 0.000112874084f;
    p = p * t - 0.000848721596f;
    p = p * t + 0.00522126351f;
    p = p * t - 0.0268655214f;
    p = p * t + 0.112837844f;
    p = p * t - 0.376126379f;
    float q = -2.1445594e-05f;
    q = q * b + 0.000438530231f;
    q = q * b - 0.00419085706f;
    q = q * b + 0.0251718126f;
    q = q * b - 0.108361557f;
    q = q * b - 0.633272409f;
    q = q * b - 1.12955201f;
    q = q * b + 0.000182460513f;
    float small = x * 1.12837917f + x * (t * p), large = copysignf(1 - real_exp(q), x);
    return a < 1 ? small : large;
}

static inline float real_log(float x) { return logf(x); }
static inline float real_pow(float x, float y) { return powf(x, y); }
static inline float real_sqrt(float x) { return sqrtf(x); }
#else
typedef double real;
#define LANES 16
static inline double real_exp(double x) { return exp(x); }
static inline double real_tanh(double x) { return tanh(x); }
static inline double real_erf(double x) { return erf(x); }
static inline double real_log(double x) { return log(x); }
static inline double real_pow(double x, double y) { return pow(x, y); }
static inline double real_sqrt(double x) { return sqrt(x); }
#endif

static inline real real_sigmoid(real x) { return 1 / (1 + real_exp(-x)); }

#endif
