/* Dtype: the types of elements and the reductions on them. */
#ifndef RESHARD_DTYPE_H
#define RESHARD_DTYPE_H

#include <reshard/status.h>

#ifdef __cplusplus
extern "C" {
#endif

#define RSH_MAX_NDIM 8
#define RSH_MAX_AXES 8

/* The types of elements: X(name, number, text, bytes).  Numbers never change; new dtypes get new
 * ones. */
#define RSH_DTYPE_MAP(X)                                                                           \
    X(BOOL, 0, "bool", 1)                                                                          \
    X(U8, 1, "u8", 1)                                                                              \
    X(I8, 2, "i8", 1)                                                                              \
    X(U16, 3, "u16", 2)                                                                            \
    X(I16, 4, "i16", 2)                                                                            \
    X(U32, 5, "u32", 4)                                                                            \
    X(I32, 6, "i32", 4)                                                                            \
    X(U64, 7, "u64", 8)                                                                            \
    X(I64, 8, "i64", 8)                                                                            \
    X(F16, 9, "f16", 2)                                                                            \
    X(BF16, 10, "bf16", 2)                                                                         \
    X(F32, 11, "f32", 4)                                                                           \
    X(F64, 12, "f64", 8)                                                                           \
    X(F8E4M3, 13, "f8e4m3", 1)                                                                     \
    X(F8E5M2, 14, "f8e5m2", 1)                                                                     \
    X(C64, 15, "c64", 8)                                                                           \
    X(C128, 16, "c128", 16)

/* Storage-only types: X(name, number, text, bits).  Layouts can name them, and checkpoints move
 * such elements without change; tensors, plans and conversions do not support them. */
#define RSH_STORED_MAP(X)                                                                          \
    X(F8E8M0, 64, "f8e8m0", 8)                                                                     \
    X(F8E4M3FNUZ, 65, "f8e4m3fnuz", 8)                                                             \
    X(F8E5M2FNUZ, 66, "f8e5m2fnuz", 8)                                                             \
    X(F6E2M3, 67, "f6e2m3", 6)                                                                     \
    X(F6E3M2, 68, "f6e3m2", 6)                                                                     \
    X(F4, 69, "f4", 4)

typedef enum rsh_dtype {
#define RSH_DTYPE_ENUM(name, number, text, size) RSH_##name = number,
    RSH_DTYPE_MAP(RSH_DTYPE_ENUM)
    RSH_STORED_MAP(RSH_DTYPE_ENUM)
#undef RSH_DTYPE_ENUM
    RSH_DTYPE_NONE = 255 /* no dtype */
} rsh_dtype;

/* In this version of the headers the dtypes of tensors are 0 to RSH_NDTYPES - 1. */
#define RSH_NDTYPES 17

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

/* Return the bytes of an element, and the names in the notation: "f32", "sum".  An invalid dtype or
 * op has size 0 and the name "?"; a storage-only dtype has size 0 too.  Static strings.  Pure. */
RSH_API size_t rsh_dtype_size(rsh_dtype dtype);
/* Returns the bits of an element, also for a storage-only dtype; 0 for an invalid dtype.  Pure. */
RSH_API int rsh_dtype_bits(rsh_dtype dtype);
RSH_API const char *rsh_dtype_name(rsh_dtype dtype);
RSH_API const char *rsh_op_name(rsh_op op);
/* Parse the name of a dtype or op, which has `length` bytes.  RSH_EVALUE if there is no such name.
 * Pure. */
RSH_API rsh_status rsh_dtype_parse(const char *text, size_t length, rsh_dtype *out);
RSH_API rsh_status rsh_op_parse(const char *text, size_t length, rsh_op *out);
/* Checks that the op exists for the dtype.  RSH_ETYPE if it does not (avg of integers, band of
 * floats, ...).  Pure. */
RSH_API rsh_status rsh_op_check(rsh_op op, rsh_dtype dtype);
/* Checks that one dtype can be converted to the other.  RSH_ETYPE for complex to real; every other
 * pair is supported, also complex to bool (true if either part is not 0).  Pure. */
RSH_API rsh_status rsh_dtype_check_convert(rsh_dtype from, rsh_dtype to);

#ifdef __cplusplus
}
#endif
#endif
