/* Number: decodes every dtype to an exact value, and encodes it again with one rounding. */
#include "oracle.h"

#include <float.h>
#include <math.h>
#include <string.h>

_Static_assert(LDBL_MANT_DIG >= 64 && LDBL_MAX_EXP >= 16384, "a long double must hold every i64, u64 and f64 exactly");

static const struct {
    const char *name;
    size_t size;
    char kind; /* kinds: b bool, u unsigned, i signed, f float, c complex */
    int exponent_bits, mantissa_bits; /* bits of the float format, or of that of a complex component */
} type[ORA_DTYPES] = {
    {"bool", 1, 'b', 0, 0},  {"u8", 1, 'u', 0, 0},    {"i8", 1, 'i', 0, 0},    {"u16", 2, 'u', 0, 0},
    {"i16", 2, 'i', 0, 0},   {"u32", 4, 'u', 0, 0},   {"i32", 4, 'i', 0, 0},   {"u64", 8, 'u', 0, 0},
    {"i64", 8, 'i', 0, 0},   {"f16", 2, 'f', 5, 10},  {"bf16", 2, 'f', 8, 7},  {"f32", 4, 'f', 8, 23},
    {"f64", 8, 'f', 11, 52}, {"f8e4m3", 1, 'f', 4, 3}, {"f8e5m2", 1, 'f', 5, 2}, {"c64", 8, 'c', 8, 23},
    {"c128", 16, 'c', 11, 52},
};

static const char *const op_name[ORA_OPS] = {"", "sum", "avg", "min", "max", "prod", "band", "bor", "bxor"};

const char *ora_dtype_name(ora_dtype t) { return type[t].name; }
const char *ora_op_name(ora_op op) { return op_name[op]; }
size_t ora_size(ora_dtype t) { return type[t].size; }
bool ora_is_float(ora_dtype t) { return type[t].kind == 'f'; }
bool ora_is_complex(ora_dtype t) { return type[t].kind == 'c'; }
bool ora_converts(ora_dtype from, ora_dtype to) { return !ora_is_complex(from) || ora_is_complex(to); }

ora_dtype ora_dtype_of(const char *name, size_t length) {
    int t = 0;
    while (t < ORA_DTYPES && (strlen(type[t].name) != length || memcmp(type[t].name, name, length) != 0)) t++;
    return (ora_dtype)t;
}

ora_op ora_op_of(const char *name, size_t length) {
    int op = 1;
    while (op < ORA_OPS && (strlen(op_name[op]) != length || memcmp(op_name[op], name, length) != 0)) op++;
    return (ora_op)op;
}

bool ora_op_exists(ora_op op, ora_dtype t) {
    bool fractional = ora_is_float(t) || ora_is_complex(t);
    if (op == ORA_SUM || op == ORA_PROD) return t != ORA_BOOL;
    if (op == ORA_AVG) return fractional;
    if (op == ORA_MIN || op == ORA_MAX_OP) return !ora_is_complex(t);
    return op == ORA_NONE || !fractional;
}

static uint64_t load(const void *p, size_t bytes) {
    uint64_t bits = 0;
    for (size_t i = 0; i < bytes; i++) bits |= (uint64_t)((const unsigned char *)p)[i] << (8 * i);
    return bits;
}

static void store(void *p, size_t bytes, uint64_t bits) {
    for (size_t i = 0; i < bytes; i++) ((unsigned char *)p)[i] = (unsigned char)(bits >> (8 * i));
}

/* Decodes a float. f8e4m3 has no infinities: if all bits except the last mantissa bit are 1, it is a number; if all
 * bits are 1, it is NaN. */
static long double decode_float(ora_dtype t, uint64_t bits) {
    int eb = type[t].exponent_bits, mb = type[t].mantissa_bits, bias = (1 << (eb - 1)) - 1;
    uint64_t mantissa = bits & (((uint64_t)1 << mb) - 1);
    int exponent = (int)(bits >> mb) & ((1 << eb) - 1);
    long double sign = bits >> (eb + mb) & 1 ? -1.0L : 1.0L;
    bool top = exponent == (1 << eb) - 1;
    if (top && t == ORA_F8E4M3 && mantissa == 7) return (long double)NAN;
    if (top && t != ORA_F8E4M3) return mantissa ? (long double)NAN : sign * (long double)INFINITY;
    if (exponent == 0) return sign * ldexpl((long double)mantissa, 1 - bias - mb);
    return sign * ldexpl((long double)(mantissa | (uint64_t)1 << mb), exponent - bias - mb);
}

/* Rounds to the nearest whole number, ties to even; x >= 0 and below 2^63. */
static uint64_t nearest_even(long double x) {
    long double whole = floorl(x), rest = x - whole;
    uint64_t n = (uint64_t)whole;
    return rest > 0.5L || (rest == 0.5L && n % 2) ? n + 1 : n;
}

static uint64_t overflow_bits(ora_dtype t) {
    int eb = type[t].exponent_bits, mb = type[t].mantissa_bits;
    return t == ORA_F8E4M3 ? 0x7f : (((uint64_t)1 << eb) - 1) << mb;
}

static uint64_t encode_float(ora_dtype t, long double x) {
    int eb = type[t].exponent_bits, mb = type[t].mantissa_bits, bias = (1 << (eb - 1)) - 1, e;
    uint64_t sign = signbit(x) ? (uint64_t)1 << (eb + mb) : 0;
    if (isnan(x)) return t == ORA_F8E4M3 ? 0x7f : overflow_bits(t) | (uint64_t)1 << (mb - 1);
    if (isinf(x)) return sign | overflow_bits(t);
    if (x == 0) return sign;
    frexpl(x, &e); /* |x| in [2^(e-1), 2^e) */
    int exponent = e - 1 < 1 - bias ? 1 - bias : e - 1;
    uint64_t mantissa = nearest_even(ldexpl(fabsl(x), mb - exponent));
    /* counted in the smallest step, so a carry out of the mantissa increments the exponent */
    uint64_t bits = ((uint64_t)(exponent + bias - 1) << mb) + mantissa;
    return sign | (bits > overflow_bits(t) ? overflow_bits(t) : bits);
}

static ora_number decode_integer(ora_dtype t, const void *element) {
    ora_number n = {.is_integer = true, .is_signed = type[t].kind == 'i'};
    int width = 8 * (int)type[t].size;
    n.bits = load(element, type[t].size);
    if (t == ORA_BOOL) n.bits = n.bits != 0;
    if (n.is_signed && width < 64 && n.bits >> (width - 1)) n.bits |= ~(uint64_t)0 << width;
    return n;
}

ora_number ora_decode(ora_dtype t, const void *element) {
    if (!ora_is_float(t) && !ora_is_complex(t)) return decode_integer(t, element);
    size_t component = ora_is_complex(t) ? type[t].size / 2 : type[t].size;
    ora_number n = {.re = decode_float(t, load(element, component))};
    if (ora_is_complex(t)) n.im = decode_float(t, load((const char *)element + component, component));
    return n;
}

/* Converts toward zero, saturating, with NaN to 0. */
static uint64_t float_to_integer(ora_dtype t, long double x) {
    int width = 8 * (int)type[t].size;
    bool is_signed = type[t].kind == 'i';
    long double top = ldexpl(1.0L, is_signed ? width - 1 : width), bottom = is_signed ? -top : 0.0L;
    if (isnan(x)) return 0;
    x = truncl(x);
    if (x < bottom) x = bottom;
    if (x > top - 1) x = top - 1;
    return is_signed ? (uint64_t)(int64_t)x : (uint64_t)x;
}

static uint64_t as_integer(ora_dtype t, ora_number n) {
    if (t == ORA_BOOL) return n.is_integer ? n.bits != 0 : n.re != 0 || n.im != 0; /* NaN != 0 */
    return n.is_integer ? n.bits : float_to_integer(t, n.re);
}

static long double as_real(ora_number n) {
    if (!n.is_integer) return n.re;
    return n.is_signed ? (long double)(int64_t)n.bits : (long double)n.bits;
}

void ora_encode(ora_dtype t, ora_number n, void *element) {
    if (!ora_is_float(t) && !ora_is_complex(t)) {
        store(element, type[t].size, as_integer(t, n));
        return;
    }
    size_t component = ora_is_complex(t) ? type[t].size / 2 : type[t].size;
    store(element, component, encode_float(t, as_real(n)));
    if (ora_is_complex(t)) store((char *)element + component, component, encode_float(t, n.is_integer ? 0 : n.im));
}
