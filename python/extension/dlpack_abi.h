/* DLPack: the structs with which programs pass arrays to each other without copying.
 *
 * They have the memory layout of version 1, and of the older capsules without a version, as the
 * standard requires; only the names are ours. */
#ifndef DLPACK_ABI_H
#define DLPACK_ABI_H

#include <stdint.h>

enum { DLPACK_MAJOR = 1, DLPACK_MINOR = 0 };
enum { DLPACK_CPU = 1, DLPACK_CUDA_HOST = 3, DLPACK_ROCM_HOST = 11 };
enum { DLPACK_READ_ONLY = 1, DLPACK_IS_COPY = 2 }; /* flags */

/* The type code of an element; bits and lanes are separate members. */
enum {
    DLPACK_INT = 0,
    DLPACK_UINT = 1,
    DLPACK_FLOAT = 2,
    DLPACK_BFLOAT = 4,
    DLPACK_COMPLEX = 5,
    DLPACK_BOOL = 6,
    DLPACK_F8E4M3FN = 10,
    DLPACK_F8E4M3FNUZ = 11,
    DLPACK_F8E5M2 = 12,
    DLPACK_F8E5M2FNUZ = 13,
    DLPACK_F8E8M0FNU = 14
};

typedef struct dlpack_version {
    uint32_t major, minor;
} dlpack_version;

typedef struct dlpack_tensor {
    void *data;
    int32_t device_type, device_id;
    int32_t ndim;
    uint8_t code, bits;
    uint16_t lanes;
    int64_t *shape;
    int64_t *strides; /* in elements; NULL: dense and row-major */
    uint64_t byte_offset;
} dlpack_tensor;

typedef struct dlpack_old {
    dlpack_tensor tensor;
    void *ctx;
    void (*deleter)(struct dlpack_old *self);
} dlpack_old;

typedef struct dlpack_versioned {
    dlpack_version version;
    void *ctx;
    void (*deleter)(struct dlpack_versioned *self);
    uint64_t flags;
    dlpack_tensor tensor;
} dlpack_versioned;

/* The table behind __dlpack_c_exchange_api__, an attribute of the type. */
typedef struct dlpack_exchange_header {
    dlpack_version version;
    struct dlpack_exchange_header *previous; /* a table of an older version, or NULL */
} dlpack_exchange_header;

typedef struct dlpack_exchange {
    dlpack_exchange_header header;
    void (*allocate)(void);
    int (*from_object)(void *object, dlpack_versioned **out);
    void (*to_object)(void);
    void (*view_of_object)(void);
    void (*current_stream)(void);
} dlpack_exchange;

#endif
