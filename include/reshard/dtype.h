/* Dtype: the types of elements and the reductions on them. */
#ifndef RESHARD_DTYPE_H
#define RESHARD_DTYPE_H

#include <reshard/status.h>

#ifdef __cplusplus
extern "C" {
#endif

#define RSH_MAX_NDIM 8
#define RSH_MAX_AXES 8

/* name, bytes */
#define RSH_DTYPE_MAP(X)                                                                           \
    X(BOOL, "bool", 1)                                                                             \
    X(U8, "u8", 1)                                                                                 \
    X(I8, "i8", 1)                                                                                 \
    X(U16, "u16", 2)                                                                               \
    X(I16, "i16", 2)                                                                               \
    X(U32, "u32", 4)                                                                               \
    X(I32, "i32", 4)                                                                               \
    X(U64, "u64", 8)                                                                               \
    X(I64, "i64", 8)                                                                               \
    X(F16, "f16", 2)                                                                               \
    X(BF16, "bf16", 2)                                                                             \
    X(F32, "f32", 4)                                                                               \
    X(F64, "f64", 8)                                                                               \
    X(F8E4M3, "f8e4m3", 1)                                                                         \
    X(F8E5M2, "f8e5m2", 1)                                                                         \
    X(C64, "c64", 8)                                                                               \
    X(C128, "c128", 16)

/* name, bits.  Storage-only: layouts and checkpoints name such elements and move them as they are;
 * there is no tensor, plan or conversion of them. */
#define RSH_STORED_MAP(X)                                                                          \
    X(F8E8M0, "f8e8m0", 8)                                                                         \
    X(F8E4M3FNUZ, "f8e4m3fnuz", 8)                                                                 \
    X(F8E5M2FNUZ, "f8e5m2fnuz", 8)                                                                 \
    X(F6E2M3, "f6e2m3", 6)                                                                         \
    X(F6E3M2, "f6e3m2", 6)                                                                         \
    X(F4, "f4", 4)

typedef enum rsh_dtype {
#define RSH_DTYPE_ENUM(name, text, bytes) RSH_##name,
    RSH_DTYPE_MAP(RSH_DTYPE_ENUM)
#undef RSH_DTYPE_ENUM
        RSH_DTYPE_COUNT, /* no dtype; those below it have tensors, those above are storage-only */
#define RSH_STORED_ENUM(name, text, bits) RSH_##name,
    RSH_STORED_MAP(RSH_STORED_ENUM)
#undef RSH_STORED_ENUM
        RSH_STORED_END
} rsh_dtype;

#define RSH_OP_MAP(X)                                                                              \
    X(SUM, "sum") X(AVG, "avg") X(MIN, "min") X(MAX, "max") X(PROD, "prod") X(BAND, "band")        \
        X(BOR, "bor") X(BXOR, "bxor")

typedef enum rsh_op {
    RSH_OP_NONE,
#define RSH_OP_ENUM(name, text) RSH_OP_##name,
    RSH_OP_MAP(RSH_OP_ENUM)
#undef RSH_OP_ENUM
        RSH_OP_COUNT
} rsh_op;

/* Bytes of an element, and the names of the notation: "f32", "sum".  An invalid dtype or op has
 * size 0 and the name "?"; a storage-only dtype has size 0 too.  Static strings.  Pure. */
RSH_API size_t rsh_dtype_size(rsh_dtype dtype);
/* Bits of an element, of a storage-only dtype too; 0 for an invalid dtype.  Pure. */
RSH_API int rsh_dtype_bits(rsh_dtype dtype);
RSH_API const char *rsh_dtype_name(rsh_dtype dtype);
RSH_API const char *rsh_op_name(rsh_op op);
/* The dtype or op that `length` bytes of text name.  RSH_EVALUE if they name none.  Pure. */
RSH_API rsh_status rsh_dtype_parse(const char *text, size_t length, rsh_dtype *out);
RSH_API rsh_status rsh_op_parse(const char *text, size_t length, rsh_op *out);
/* Does the op exist for the dtype?  RSH_ETYPE if it does not (avg of integers, band of floats,
 * ...).  Pure. */
RSH_API rsh_status rsh_op_check(rsh_op op, rsh_dtype dtype);
/* Does one dtype convert to the other?  RSH_ETYPE for complex to real; every other pair converts,
 * complex to bool too (true: either part is not 0).  Pure. */
RSH_API rsh_status rsh_dtype_check_convert(rsh_dtype from, rsh_dtype to);

#ifdef __cplusplus
}
#endif
#endif
