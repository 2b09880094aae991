/* Dtype: names and sizes of element types, names of reductions, and which reductions each type supports. */
#include "base/base.h"

#include <string.h>

static const struct {
    const char *name;
    size_t bytes;
} dtypes[] = {
#define ROW(name, number, text, bytes) [number] = {text, bytes},
    RSH_DTYPE_MAP(ROW)
#undef ROW
};

static const struct {
    const char *name;
    int bits;
} stored[] = {
#define ROW(name, number, text, bits) [number - RSH_F8E8M0] = {text, bits},
    RSH_STORED_MAP(ROW)
#undef ROW
};
#define STORED ((int)(sizeof stored / sizeof *stored))
_Static_assert(sizeof dtypes / sizeof *dtypes == RSH_NDTYPES && RSH_NDTYPES <= RSH_F8E8M0, "a dtype has no row");

static const char *const ops[] = {
    "none",
#define ROW(name, text) text,
    RSH_OP_MAP(ROW)
#undef ROW
};

static bool has_tensors(rsh_dtype dtype) { return (unsigned)dtype < RSH_NDTYPES; }
static bool is_stored(rsh_dtype dtype) { return dtype >= RSH_F8E8M0 && dtype < RSH_F8E8M0 + STORED; }

size_t rsh_dtype_size(rsh_dtype dtype) { return has_tensors(dtype) ? dtypes[dtype].bytes : 0; }

int rsh_dtype_bits(rsh_dtype dtype) {
    return is_stored(dtype) ? stored[dtype - RSH_F8E8M0].bits : 8 * (int)rsh_dtype_size(dtype);
}

const char *rsh_dtype_name(rsh_dtype dtype) {
    if (is_stored(dtype)) return stored[dtype - RSH_F8E8M0].name;
    return has_tensors(dtype) ? dtypes[dtype].name : "?";
}

const char *rsh_op_name(rsh_op op) { return (unsigned)op < RSH_OP_COUNT ? ops[op] : "?"; }

rsh_status rsh_dtype_parse(const char *text, size_t length, rsh_dtype *out) {
    RSH_NEEDS(text);
    RSH_NEEDS(out);
    for (int i = 0; i < RSH_F8E8M0 + STORED; i++) {
        const char *name = rsh_dtype_name((rsh_dtype)i);
        if (!rsh_dtype_bits((rsh_dtype)i) || strlen(name) != length || memcmp(name, text, length)) continue;
        *out = (rsh_dtype)i;
        return RSH_OK;
    }
    return rshi_name_fail("dtype", text, length);
}

rsh_status rsh_op_parse(const char *text, size_t length, rsh_op *out) {
    RSH_NEEDS(text);
    RSH_NEEDS(out);
    for (int i = 1; i < RSH_OP_COUNT; i++)
        if (strlen(ops[i]) == length && !memcmp(ops[i], text, length)) {
            *out = (rsh_op)i;
            return RSH_OK;
        }
    return rshi_name_fail("reduction", text, length);
}

static bool is_complex(rsh_dtype t) { return t == RSH_C64 || t == RSH_C128; }
static bool is_float(rsh_dtype t) {
    return t == RSH_F16 || t == RSH_BF16 || t == RSH_F32 || t == RSH_F64 || t == RSH_F8E4M3 || t == RSH_F8E5M2;
}

static bool op_exists(rsh_op op, rsh_dtype t) {
    switch (op) {
    case RSH_OP_SUM:
    case RSH_OP_PROD:
        return t != RSH_BOOL;
    case RSH_OP_AVG:
        return is_float(t) || is_complex(t);
    case RSH_OP_MIN:
    case RSH_OP_MAX:
        return !is_complex(t);
    case RSH_OP_BAND:
    case RSH_OP_BOR:
    case RSH_OP_BXOR:
        return !is_float(t) && !is_complex(t);
    default:
        return op == RSH_OP_NONE;
    }
}

static rsh_status check_dtype(rsh_dtype dtype) {
    RSH_REQUIRE(!is_stored(dtype), RSH_ETYPE,
                "dtype %s is supported in checkpoints only; its elements cannot be converted or reduced",
                rsh_dtype_name(dtype));
    RSH_REQUIRE(has_tensors(dtype), RSH_EVALUE, "%d is not a dtype", (int)dtype);
    return RSH_OK;
}

rsh_status rsh_op_check(rsh_op op, rsh_dtype dtype) {
    RSH_REQUIRE((unsigned)op < RSH_OP_COUNT, RSH_EVALUE, "%d is not a reduction", (int)op);
    RSH_TRY(check_dtype(dtype));
    RSH_REQUIRE(op_exists(op, dtype), RSH_ETYPE, "reduction \"%s\" is not defined for dtype %s", rsh_op_name(op),
                rsh_dtype_name(dtype));
    return RSH_OK;
}

rsh_status rsh_dtype_check_convert(rsh_dtype from, rsh_dtype to) {
    RSH_TRY(check_dtype(from));
    RSH_TRY(check_dtype(to));
    RSH_REQUIRE(!is_complex(from) || is_complex(to) || to == RSH_BOOL, RSH_ETYPE,
                "cannot convert %s to %s: complex values do not convert to real ones", rsh_dtype_name(from),
                rsh_dtype_name(to));
    return RSH_OK;
}

rsh_dtype rshi_accumulator(rsh_dtype t) {
    bool small = t == RSH_F16 || t == RSH_BF16 || t == RSH_F8E4M3 || t == RSH_F8E5M2;
    return small ? RSH_F32 : t;
}
