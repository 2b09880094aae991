/* Kernel map: elementwise functions of one, two and three operands. */
#include "nn/kernel_list.h"
#include "nn/real.h"

/* Separate loops for strides 1 and 0, which are the most frequent. */
#define MAP1(name, value)                                                                                              \
    static void name(const double *p, const void *xv, int64_t sx, void *yv, int64_t n) {                               \
        const real *xs = xv, p0 = (real)p[0], p1 = (real)p[1];                                                         \
        real *ys = yv;                                                                                                 \
        (void)p0, (void)p1;                                                                                            \
        if (sx == 1) {                                                                                                 \
            NN_EACH for (int64_t i = 0; i < n; i++) {                                                                  \
                real x = xs[i];                                                                                        \
                ys[i] = (value);                                                                                       \
            }                                                                                                          \
        } else {                                                                                                       \
            for (int64_t i = 0; i < n; i++) {                                                                          \
                real x = xs[i * sx];                                                                                   \
                ys[i] = (value);                                                                                       \
            }                                                                                                          \
        }                                                                                                              \
    }

#define MAP2(name, value)                                                                                              \
    static void name(const double *p, const void *av, int64_t sa, const void *bv, int64_t sb, void *yv, int64_t n) {   \
        const real *as = av, *bs = bv, p0 = (real)p[0], p1 = (real)p[1];                                               \
        real *ys = yv;                                                                                                 \
        (void)p0, (void)p1;                                                                                            \
        if (sa == 1 && sb == 1) {                                                                                      \
            NN_EACH for (int64_t i = 0; i < n; i++) {                                                                  \
                real a = as[i], b = bs[i];                                                                             \
                ys[i] = (value);                                                                                       \
            }                                                                                                          \
        } else if (sa == 1 && sb == 0) {                                                                               \
            const real b = bs[0];                                                                                      \
            NN_EACH for (int64_t i = 0; i < n; i++) {                                                                  \
                real a = as[i];                                                                                        \
                ys[i] = (value);                                                                                       \
            }                                                                                                          \
        } else if (sa == 0 && sb == 1) {                                                                               \
            const real a = as[0];                                                                                      \
            NN_EACH for (int64_t i = 0; i < n; i++) {                                                                  \
                real b = bs[i];                                                                                        \
                ys[i] = (value);                                                                                       \
            }                                                                                                          \
        } else {                                                                                                       \
            for (int64_t i = 0; i < n; i++) {                                                                          \
                real a = as[i * sa], b = bs[i * sb];                                                                   \
                ys[i] = (value);                                                                                       \
            }                                                                                                          \
        }                                                                                                              \
    }

#define MAP3(name, value)                                                                                              \
    static void name(const double *p, const void *av, int64_t sa, const void *bv, int64_t sb, const void *cv,          \
                     int64_t sc, void *yv, int64_t n) {                                                                \
        const real *as = av, *bs = bv, *cs = cv, p0 = (real)p[0];                                                      \
        real *ys = yv;                                                                                                 \
        (void)p0;                                                                                                      \
        if (sa == 1 && sb == 1 && sc == 1) {                                                                           \
            NN_EACH for (int64_t i = 0; i < n; i++) {                                                                  \
                real a = as[i], b = bs[i], c = cs[i];                                                                  \
                ys[i] = (value);                                                                                       \
            }                                                                                                          \
        } else {                                                                                                       \
            for (int64_t i = 0; i < n; i++) {                                                                          \
                real a = as[i * sa], b = bs[i * sb], c = cs[i * sc];                                                   \
                ys[i] = (value);                                                                                       \
            }                                                                                                          \
        }                                                                                                              \
    }

static inline real gelu(real x) {
    real below, at;
    real_normal(x, &below, &at);
    return x * below;
}

static inline real gelu_slope(real x) {
    real below, at;
    real_normal(x, &below, &at);
    return below + x * at;
}

static inline real gelu_inner(real x) { return (real)NN_SQRT_2_PI * (x + (real)0.044715 * x * x * x); }

static inline real gelu_tanh_slope(real x) {
    real t = real_tanh(gelu_inner(x)), inner = (real)NN_SQRT_2_PI * (1 + (real)(3 * 0.044715) * x * x);
    return (real)0.5 * (1 + t) + (real)0.5 * x * (1 - t * t) * inner;
}

static inline real silu_slope(real x) {
    real s = real_sigmoid(x);
    return s * (1 + x * (1 - s));
}

static inline real pow_number(real x, real e) { return e == 2 ? x * x : real_pow(x, e); }
/* Returns d/dx x^e; the derivative of x^0 is 0, even at x = 0. */
static inline real pow_slope(real x, real e) { return e == 0 ? 0 : e == 2 ? 2 * x : e * real_pow(x, e - 1); }
/* Returns d/de x^e = x^e log x; 0 if x is 0 and e is not negative. */
static inline real exponent_slope(real x, real e) { return x == 0 && e >= 0 ? 0 : real_pow(x, e) * real_log(x); }

/* Clamps x.  NaN stays NaN, because comparisons with it are false. */
static inline real clamped(real x, real lo, real hi) {
    x = x < lo ? lo : x;
    return x > hi ? hi : x;
}

MAP1(COPY, x)
MAP1(NEG, -x)
MAP1(EXP, real_exp(x))
MAP1(LOG, real_log(x))
MAP1(SQRT, real_sqrt(x))
MAP1(RELU, x < 0 ? 0 : x)
MAP1(TANH, real_tanh(x))
MAP1(SIGMOID, real_sigmoid(x))
MAP1(SILU, real_sigmoid(x) * x)
MAP1(GELU, gelu(x))
MAP1(GELU_TANH, (real)0.5 * x * (1 + real_tanh(gelu_inner(x))))
MAP1(POW_NUMBER, pow_number(x, p0))
MAP1(CLAMP, clamped(x, p0, p1))
MAP1(NAN_TO, x != x ? p0 : x)
MAP1(INFINITY_TO, x - x == 0 || x != x ? x : x > 0 ? p0 : p1)
MAP1(SCALE, p0 * x + p1)

MAP2(ADD, a + b)
MAP2(SUB, a - b)
MAP2(MUL, (a * b))
MAP2(DIV, a / b)
MAP2(POW, real_pow(a, b))
MAP2(SQUARED_DIFFERENCE, (a - b) * (a - b))
MAP2(LOG_BACK, b / a)
MAP2(SQRT_BACK, b / (2 * a))
MAP2(RELU_BACK, a <= 0 ? 0 : b)
MAP2(TANH_BACK, (1 - a * a) * b)
MAP2(SIGMOID_BACK, (1 - a) * a * b)
MAP2(SILU_BACK, silu_slope(a) * b)
MAP2(GELU_BACK, gelu_slope(a) * b)
MAP2(GELU_TANH_BACK, gelu_tanh_slope(a) * b)
MAP2(POW_NUMBER_BACK, pow_slope(a, p0) * b)
MAP2(CLAMP_BACK, a >= p0 && a <= p1 ? b : 0)
MAP2(FINITE_BACK, a - a == 0 ? b : 0)

MAP3(DIV_BACK, (a / b) * -c) /* gradient of the divisor b; a is the quotient */
MAP3(POW_BACK_BASE, pow_slope(a, b) * c)
MAP3(POW_BACK_EXPONENT, exponent_slope(a, b) * c)
MAP3(DIFFERENCE_BACK, (a - b) * p0 * c)
MAP3(EQUAL_BACK, a == b || (a != a && b != b) ? c : 0) /* a NaN equals a NaN */

static void where(const uint8_t *mask, int64_t sm, const void *av, int64_t sa, const void *bv, int64_t sb, void *yv,
                  int64_t n) {
    const real *a = av, *b = bv;
    real *y = yv;
    if (sm == 1 && sa == 1 && sb == 0) {
        const real other = b[0];
        NN_EACH for (int64_t i = 0; i < n; i++) y[i] = mask[i] ? a[i] : other;
    } else if (sm == 1 && sa == 0 && sb == 1) {
        const real other = a[0];
        NN_EACH for (int64_t i = 0; i < n; i++) y[i] = mask[i] ? other : b[i];
    } else {
        for (int64_t i = 0; i < n; i++) y[i] = mask[i * sm] ? a[i * sa] : b[i * sb];
    }
}

static void keep(const void *uv, double p, uint8_t *mask, int64_t n) {
    const real *u = uv, least = (real)p;
    NN_EACH for (int64_t i = 0; i < n; i++) mask[i] = u[i] >= least;
}

static void drop(const uint8_t *mask, const void *xv, double scale, void *yv, int64_t n) {
    const real *x = xv, s = (real)scale;
    real *y = yv;
    NN_EACH for (int64_t i = 0; i < n; i++) y[i] = mask[i] ? x[i] * s : 0;
}

void NN(list_map)(rshn_kernels *k) {
#define ENTRY1(name) k->map1[RSHN_##name] = name;
#define ENTRY2(name) k->map2[RSHN_##name] = name;
#define ENTRY3(name) k->map3[RSHN_##name] = name;
    RSHN_MAP1(ENTRY1)
    RSHN_MAP2(ENTRY2)
    RSHN_MAP3(ENTRY3)
    k->where = where;
    k->keep = keep;
    k->drop = drop;
}
