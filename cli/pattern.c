/* Pattern: computes the test value of each index, encoded in a dtype. */
#include "pattern.h"

#include "pattern_row.h"
#include "contributions.h"

#include <stdlib.h>
#include <string.h>

/* Returns the number of bits such that the dtype represents all integers below 2^bits exactly. */
static int exact_bits(rsh_dtype dtype) {
    static const int bits[RSH_NDTYPES] = {
        [RSH_BOOL] = 1,    [RSH_U8] = 7,    [RSH_I8] = 7,   [RSH_U16] = 15,  [RSH_I16] = 15, [RSH_U32] = 31,
        [RSH_I32] = 31,    [RSH_U64] = 31,  [RSH_I64] = 31, [RSH_F16] = 11,  [RSH_BF16] = 8, [RSH_F32] = 24,
        [RSH_F64] = 31,    [RSH_F8E4M3] = 4, [RSH_F8E5M2] = 3, [RSH_C64] = 24, [RSH_C128] = 31};
    return bits[dtype];
}

static int common_bits(const layout_pair *pair) {
    int a = exact_bits(rsh_layout_dtype(pair->from)), b = exact_bits(rsh_layout_dtype(pair->to)), bits = a < b ? a : b;
    bool avg = rsh_layout_op(pair->from) == RSH_OP_AVG;
    return avg && bits > 12 ? 12 : bits; /* sums of equal values must be exact too */
}

/* ---- encodings of one or two bytes ---- */

static uint16_t encode_float(unsigned value, int mantissa, int bias) {
    if (!value) return 0;
    int exponent = 31 - __builtin_clz(value);
    unsigned fraction = (value << (mantissa - exponent)) & ((1u << mantissa) - 1);
    return (uint16_t)((unsigned)(exponent + bias) << mantissa | fraction);
}

static uint16_t encode(rsh_dtype dtype, unsigned value) {
    switch (dtype) {
    case RSH_F16: return encode_float(value, 10, 15);
    case RSH_BF16: return encode_float(value, 7, 127);
    case RSH_F8E4M3: return encode_float(value, 3, 7);
    case RSH_F8E5M2: return encode_float(value, 2, 15);
    default: return (uint16_t)value;
    }
}

static bool make_table(pattern *p) {
    if (p->size > 2) return true;
    p->table = malloc(sizeof *p->table << p->bits);
    for (unsigned v = 0; p->table && v < 1u << p->bits; v++) p->table[v] = encode(rsh_layout_dtype(p->layout), v);
    return p->table != NULL;
}

/* ---- neutral elements ---- */

/* Returns a small integer that is neutral for the op. */
static uint64_t neutral(rsh_op op, int bits) {
    switch (op) {
    case RSH_OP_PROD: return 1;
    case RSH_OP_MIN:
    case RSH_OP_BAND: return ((uint64_t)1 << bits) - 1;
    default: return 0;
    }
}

static void put_bits(unsigned char *out, uint64_t bits) { memcpy(out, &bits, sizeof bits); }

/* Returns the bits of infinity, or of the largest value if the dtype has no infinity. */
static uint64_t largest(rsh_dtype dtype) {
    switch (dtype) {
    case RSH_BOOL: return 1;
    case RSH_F16: return 0x7c00;
    case RSH_BF16: return 0x7f80;
    case RSH_F8E4M3: return 0x7e;
    case RSH_F8E5M2: return 0x7c;
    case RSH_F32: return 0x7f800000;
    case RSH_F64: return 0x7ff0000000000000;
    case RSH_U8:
    case RSH_U16:
    case RSH_U32:
    case RSH_U64: return UINT64_MAX;
    default: return UINT64_MAX >> (65 - 8 * rsh_dtype_size(dtype));
    }
}

static uint64_t lowest(rsh_dtype dtype) {
    bool is_unsigned = dtype == RSH_BOOL || dtype == RSH_U8 || dtype == RSH_U16 || dtype == RSH_U32 || dtype == RSH_U64;
    bool is_signed = dtype == RSH_I8 || dtype == RSH_I16 || dtype == RSH_I32 || dtype == RSH_I64;
    if (is_unsigned) return 0;
    uint64_t sign = (uint64_t)1 << (8 * rsh_dtype_size(dtype) - 1);
    return is_signed ? sign : sign | largest(dtype);
}

/* Sets `other` to the identity of the op, which the library writes for missing contributions. */
static void put_identity(pattern *p, rsh_op op) {
    rsh_dtype dtype = rsh_layout_dtype(p->layout);
    if (op == RSH_OP_MIN) put_bits(p->other, largest(dtype));
    else if (op == RSH_OP_MAX) put_bits(p->other, lowest(dtype));
    else if (op == RSH_OP_BAND) put_bits(p->other, dtype == RSH_BOOL ? 1 : UINT64_MAX);
    else pattern_encode(p, op == RSH_OP_PROD, p->other);
}

/* ---- both sides of a move ---- */

static bool start_pattern(pattern *p, const layout_pair *pair, const rsh_layout *layout) {
    *p = (pattern){.layout = layout,
                   .size = rsh_dtype_size(rsh_layout_dtype(layout)),
                   .bits = common_bits(pair),
                   .contributions = 1};
    return make_table(p);
}

static void set_contributions(pattern *p, rsh_op op, int64_t contributions) {
    p->contributions = op == RSH_OP_AVG ? 1 : contributions;
    pattern_encode(p, neutral(op, p->bits), p->other);
}

bool pattern_source(pattern *p, const layout_pair *pair) {
    if (!start_pattern(p, pair, pair->from)) return false;
    set_contributions(p, rsh_layout_op(pair->from), contributions_count(pair->from));
    return true;
}

bool pattern_result(pattern *p, const layout_pair *pair) {
    rsh_op op = rsh_layout_op(pair->to);
    if (!start_pattern(p, pair, pair->to)) return false;
    set_contributions(p, op, contributions_count(pair->to));
    bool moved = rsh_layout_op(pair->from) == op && contributions_same(pair->from, pair->to);
    p->first_only = p->contributions > 1 && !moved;
    if (p->first_only) put_identity(p, op);
    return true;
}

void pattern_free(pattern *p) { free(p->table); }
