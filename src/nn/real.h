/* Real: the float type that a kernel file is compiled for, and functions that loops can vectorize.
 *
 * Every kernel_*.c is compiled once per dtype and level of instructions: NN_BITS is 32 or 64, and
 * NN_LEVEL is generic or avx2.  The f32 functions have no branches and no calls; they are within 2
 * ulp of libm, as tests/nn/test_nn_kernels.c checks.  The f64 functions are those of libm. */
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

#define NN_PASTE(name, bits, level)  rshn_##name##_f##bits##_##level
#define NN_EXPAND(name, bits, level) NN_PASTE(name, bits, level)
#define NN(name)                     NN_EXPAND(name, NN_BITS, NN_LEVEL)

/* Marks loops in which iteration i accesses element i only, even if operands overlap. */
#if defined(__clang__)
#define NN_EACH _Pragma("clang loop vectorize(assume_safety)")
#else
#define NN_EACH _Pragma("GCC ivdep")
#endif

#define NN_SQRT1_2    0.70710678118654752440
#define NN_SQRT_2_PI  0.79788456080286535588 /* sqrt(2 / pi) */
#define NN_1_SQRT_2PI 0.39894228040143267794

#if NN_BITS == 32
typedef float real;
#define LANES 32 /* independent partial sums */

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

/* 2^n for -127 < n < 128; for any other n, which only NaN causes, the result is arbitrary. */
static inline float power_of_two(int32_t n) {
    return float_of((int32_t)((uint32_t)(n + 127) << 23));
}

/* e^r for |r| <= ln 2 / 2. */
static inline float exp_rest(float r) {
    float p = 0.00139515626f;
    p = p * r + 0.00836953055f;
    p = p * r + 0.0416661911f;
    p = p * r + 0.166665137f;
    p = p * r + 0.5f;
    return p * (r * r) + r + 1;
}

/* e^x = 2^n e^r with |r| <= ln 2 / 2.  Adding a large number and subtracting it again rounds n to
 * an integer.  2^n is applied as two factors, so that subnormal results and overflow are
 * correct. */
static inline float real_exp(float x) {
    const float shift = 12582912.f; /* 1.5 * 2^23 */
    x = x > 89.f ? 89.f : x;
    x = x < -104.f ? -104.f : x;
    float t = x * 1.44269504f + shift, n = t - shift;
    float p = exp_rest((x - n * 0.693359375f) - n * -2.12194440e-4f);
    int32_t whole = bits_of(t) - bits_of(shift), half = whole >> 1;
    return p * power_of_two(half) * power_of_two(whole - half);
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

/* e^x for x <= 0, as softmax needs it: results below the smallest normal number are 0. */
static inline float real_exp_down(float x) {
    const float shift = 12582912.f;
    float c = x < -87.3f ? -87.3f : x;
    float t = c * 1.44269504f + shift, n = t - shift;
    float y = exp_rest((c - n * 0.693359375f) - n * -2.12194440e-4f) *
              power_of_two(bits_of(t) - bits_of(shift));
    return x < -87.3f ? 0 : y;
}

/* Computes the standard normal density at x and the distribution function at x.  The tail beyond
 * |x| is the density times a smooth function, a polynomial in 1 / (1 + 0.35 |x|), so one
 * exponential is enough for both. */
static inline void real_normal(float x, float *below, float *at) {
    float t = 1 / (1 + 0.35f * fabsf(x)), p = -0.0730077624f;
    p = p * t + 0.360634416f;
    p = p * t - 0.640455365f;
    p = p * t + 0.39837712f;
    p = p * t - 0.057495188f;
    p = p * t + 0.264281303f;
    p = p * t + 0.30042547f;
    p = p * t + 0.350574732f;
    p = p * t + 0.349979371f;
    float density = (float)NN_1_SQRT_2PI * real_exp_down(-0.5f * x * x), tail = density * t * p;
    *at = density;
    *below = x < 0 ? tail : 1 - tail;
}

static inline float real_log(float x) { return logf(x); }
static inline float real_pow(float x, float y) { return powf(x, y); }
static inline float real_sqrt(float x) { return sqrtf(x); }
#else
typedef double real;
#define LANES 16
static inline double real_exp(double x) { return exp(x); }
static inline double real_tanh(double x) { return tanh(x); }
static inline double real_exp_down(double x) { return exp(x); }
static inline void real_normal(double x, double *below, double *at) {
    *below = 0.5 * erfc(-x * NN_SQRT1_2);
    *at = NN_1_SQRT_2PI * exp(-0.5 * x * x);
}
static inline double real_log(double x) { return log(x); }
static inline double real_pow(double x, double y) { return pow(x, y); }
static inline double real_sqrt(double x) { return sqrt(x); }
#endif

static inline real real_sigmoid(real x) { return 1 / (1 + real_exp(-x)); }

#endif
