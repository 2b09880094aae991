/* Reduce: combines contributions from left to right in the accumulator type. */
#include "oracle.h"

#include <float.h>
#include <math.h>
#include <string.h>

_Static_assert(FLT_EVAL_METHOD == 0, "float arithmetic must round to float");

static ora_dtype accumulator(ora_dtype t) {
    return t == ORA_F16 || t == ORA_BF16 || t == ORA_F8E4M3 || t == ORA_F8E5M2 ? ORA_F32 : t;
}

/* Rounds a number to the dtype. */
static ora_number wrap(ora_dtype t, ora_number n) {
    unsigned char element[16];
    ora_encode(t, n, element);
    return ora_decode(t, element);
}

static bool less(ora_number a, ora_number b) {
    if (!a.is_integer) return a.re < b.re;
    return a.is_signed ? (int64_t)a.bits < (int64_t)b.bits : a.bits < b.bits;
}

static ora_number smaller(ora_number a, ora_number b, bool want_larger) {
    if (!a.is_integer && isnan(a.re)) return a;
    if (!b.is_integer && isnan(b.re)) return b;
    return (want_larger ? less(a, b) : less(b, a)) ? b : a;
}

static ora_number combine_integers(ora_op op, ora_number a, ora_number b) {
    switch (op) {
    case ORA_SUM: a.bits += b.bits; break;
    case ORA_PROD: a.bits *= b.bits; break;
    case ORA_BAND: a.bits &= b.bits; break;
    case ORA_BOR: a.bits |= b.bits; break;
    case ORA_BXOR: a.bits ^= b.bits; break;
    default: break;
    }
    return a;
}

static ora_number combine_singles(ora_op op, bool is_complex, ora_number a, ora_number b) {
    float ar = (float)a.re, ai = (float)a.im, br = (float)b.re, bi = (float)b.im;
    float re = ar + br, im = ai + bi;
    if (op == ORA_PROD) {
        float p = ar * br, q = ai * bi, r = ar * bi, s = ai * br;
        re = is_complex ? p - q : p;
        im = is_complex ? r + s : 0;
    }
    return (ora_number){.re = re, .im = im};
}

static ora_number combine_doubles(ora_op op, bool is_complex, ora_number a, ora_number b) {
    double ar = (double)a.re, ai = (double)a.im, br = (double)b.re, bi = (double)b.im;
    double re = ar + br, im = ai + bi;
    if (op == ORA_PROD) {
        double p = ar * br, q = ai * bi, r = ar * bi, s = ai * br;
        re = is_complex ? p - q : p;
        im = is_complex ? r + s : 0;
    }
    return (ora_number){.re = re, .im = im};
}

static bool is_double(ora_dtype acc) { return acc == ORA_F64 || acc == ORA_C128; }

static ora_number combine(ora_op op, ora_dtype acc, ora_number a, ora_number b) {
    if (op == ORA_MIN || op == ORA_MAX_OP) return smaller(a, b, op == ORA_MAX_OP);
    if (a.is_integer) return wrap(acc, combine_integers(op, a, b));
    bool is_complex = ora_is_complex(acc);
    return is_double(acc) ? combine_doubles(op, is_complex, a, b) : combine_singles(op, is_complex, a, b);
}

static ora_number divide(ora_dtype acc, ora_number a, int64_t n) {
    if (is_double(acc)) return (ora_number){.re = (double)a.re / (double)n, .im = (double)a.im / (double)n};
    return (ora_number){.re = (float)a.re / (float)n, .im = (float)a.im / (float)n};
}

ora_number ora_reduce(ora_op op, ora_dtype t, int64_t n, const unsigned char *const *contribution) {
    ora_dtype acc = accumulator(t);
    ora_number sum = ora_decode(t, contribution[0]);
    for (int64_t i = 1; i < n; i++) sum = combine(op, acc, sum, ora_decode(t, contribution[i]));
    return op == ORA_AVG ? divide(acc, sum, n) : sum;
}

/* Reduces, in order, the contributions of one node: the node of contribution `first`. */
static ora_number reduce_node(ora_op op, ora_dtype t, int64_t n, const unsigned char *const *contribution,
                              const int64_t *node, int64_t first) {
    ora_number sum = ora_decode(t, contribution[first]);
    for (int64_t i = first + 1; i < n; i++)
        if (node[i] == node[first]) sum = combine(op, accumulator(t), sum, ora_decode(t, contribution[i]));
    return sum;
}

static bool is_first_of_node(const int64_t *node, int64_t i) {
    for (int64_t k = 0; k < i; k++)
        if (node[k] == node[i]) return false;
    return true;
}

static ora_number reduce_nodes(ora_op op, ora_dtype t, int64_t n, const unsigned char *const *contribution,
                               const int64_t *node) {
    ora_number sum = reduce_node(op, t, n, contribution, node, 0);
    for (int64_t i = 1; i < n; i++)
        if (is_first_of_node(node, i))
            sum = combine(op, accumulator(t), sum, reduce_node(op, t, n, contribution, node, i));
    return op == ORA_AVG ? divide(accumulator(t), sum, n) : sum;
}

/* Do the results of nodes have fewer bytes than the contributions? */
static bool nodes_save(ora_dtype t, int64_t n, const int64_t *node) {
    int64_t nodes = 0;
    for (int64_t i = 0; i < n; i++) nodes += is_first_of_node(node, i);
    return nodes * (int64_t)ora_size(accumulator(t)) < n * (int64_t)ora_size(t);
}

/* ora_encode returns the same NaN for any NaN, but a value that is too large for f8e4m3 becomes a NaN with a sign. */
void ora_reduce_to(ora_op op, ora_dtype t, int64_t n, const unsigned char *const *contribution, const int64_t *node,
                   ora_dtype to, void *element) {
    if (n == 1 && t == to) {
        memcpy(element, contribution[0], ora_size(t));
        return;
    }
    bool by_node = node && nodes_save(t, n, node);
    ora_encode(to, by_node ? reduce_nodes(op, t, n, contribution, node) : ora_reduce(op, t, n, contribution), element);
    if (n > 1 && ora_is_float(to) && isnan(ora_decode(to, element).re))
        ora_encode(to, (ora_number){.re = (long double)NAN}, element);
}

static ora_number integer_extreme(ora_dtype t, bool largest) {
    if (t == ORA_BOOL) return (ora_number){.is_integer = true, .bits = largest};
    return (ora_number){.re = largest ? (long double)INFINITY : -(long double)INFINITY}; /* conversion saturates it */
}

static ora_number extreme(ora_dtype t, bool largest) {
    if (!ora_is_float(t)) return integer_extreme(t, largest);
    long double top = t == ORA_F8E4M3 ? 448.0L : (long double)INFINITY;
    return (ora_number){.re = largest ? top : -top};
}

void ora_identity(ora_op op, ora_dtype t, void *element) {
    ora_number n = {.is_integer = true};
    if (op == ORA_PROD) n.bits = 1;
    if (op == ORA_BAND) n.bits = t == ORA_BOOL ? 1 : ~(uint64_t)0;
    if (op == ORA_MIN || op == ORA_MAX_OP) n = extreme(t, op == ORA_MIN);
    ora_encode(t, n, element);
}

static bool same_real(long double a, long double b) { return a == b || (isnan(a) && isnan(b)); }

bool ora_equal(ora_dtype t, ora_likeness like, const void *a, const void *b) {
    if (memcmp(a, b, ora_size(t)) == 0) return true;
    if (like == ORA_BITS || (!ora_is_float(t) && !ora_is_complex(t))) return false;
    ora_number x = ora_decode(t, a), y = ora_decode(t, b);
    if (like == ORA_ZEROS) return x.re == y.re && x.im == y.im;
    return same_real(x.re, y.re) && same_real(x.im, y.im);
}
