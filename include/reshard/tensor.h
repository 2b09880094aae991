/* Tensor: dtype, shape, strides and a share of a storage on this rank.
 *
 * Storage is reference-counted: tensors share it, the last one frees it.  A tensor is used by one
 * thread at a time; its storage may be shared by tensors of several threads. */
#ifndef RESHARD_TENSOR_H
#define RESHARD_TENSOR_H

#include <stdbool.h>

#include <reshard/dtype.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct rsh_tensor rsh_tensor;

/* Where elements live.  Tensors are on the cpu; other devices have names, which parse, print and
 * compare (see <reshard/torch/spec.h>), and are refused where elements are asked for. */
/* name */
#define RSH_DEVICE_MAP(X)                                                                          \
    X(CPU, "cpu") X(CUDA, "cuda") X(MKLDNN, "mkldnn") X(OPENGL, "opengl") X(OPENCL, "opencl")      \
        X(IDEEP, "ideep") X(HIP, "hip") X(VE, "ve") X(FPGA, "fpga") X(ORT, "ort") X(XLA, "xla")    \
            X(LAZY, "lazy") X(VULKAN, "vulkan") X(MPS, "mps") X(META, "meta") X(HPU, "hpu")        \
                X(XPU, "xpu") X(IPU, "ipu")

typedef enum rsh_device_type {
#define RSH_DEVICE_ENUM(name, text) RSH_DEVICE_##name,
    RSH_DEVICE_MAP(RSH_DEVICE_ENUM)
#undef RSH_DEVICE_ENUM
        RSH_DEVICE_COUNT
} rsh_device_type;

typedef struct rsh_device {
    rsh_device_type type;
    int index; /* -1: none */
} rsh_device;

/* New memory, dense row-major; 64-byte aligned, on huge pages where large.  `shape` has ndim
 * entries.  Local. */
RSH_API rsh_status rsh_tensor_empty(rsh_dtype dtype, int ndim, const int64_t *shape,
                                    rsh_tensor **out);
RSH_API rsh_status rsh_tensor_zeros(rsh_dtype dtype, int ndim, const int64_t *shape,
                                    rsh_tensor **out);

/* Foreign memory.  `strides` in elements, any sign, NULL = dense row-major; `data` is the element
 * at index 0,...,0. `deleter` NULL: borrowed, must outlive the tensor; else called once with `ctx`
 * when the last reference drops.  Local. */
RSH_API rsh_status rsh_tensor_wrap(void *data, rsh_dtype dtype, int ndim, const int64_t *shape,
                                   const int64_t *strides, void (*deleter)(void *ctx), void *ctx,
                                   rsh_tensor **out);

/* The same on a device.  RSH_EUNSUP: another one than the cpu. */
RSH_API rsh_status rsh_tensor_empty_on(rsh_device device, rsh_dtype dtype, int ndim,
                                       const int64_t *shape, rsh_tensor **out);
RSH_API rsh_status rsh_tensor_wrap_on(rsh_device device, void *data, rsh_dtype dtype, int ndim,
                                      const int64_t *shape, const int64_t *strides,
                                      void (*deleter)(void *ctx), void *ctx, rsh_tensor **out);

/* Another tensor on the same storage: `offset` elements from t's first element, with shape and
 * strides of its own.  RSH_EVALUE: it would reach beyond the storage.  The storage of wrapped
 * memory goes from the lowest to the highest element that was wrapped. */
RSH_API rsh_status rsh_tensor_view(const rsh_tensor *t, int64_t offset, int ndim,
                                   const int64_t *shape, const int64_t *strides, rsh_tensor **out);
/* The box that begins at `offsets` and has `sizes`; a dim whose size is the tensor's stays whole,
 * whatever its offset says.  A view.  RSH_EINDEX: outside. */
RSH_API rsh_status rsh_tensor_narrow(const rsh_tensor *t, const int64_t *offsets,
                                     const int64_t *sizes, rsh_tensor **out);
RSH_API rsh_status rsh_tensor_transpose(const rsh_tensor *t, int a, int b,
                                        rsh_tensor **out); /* dims may be negative; a view */
RSH_API void rsh_tensor_free(rsh_tensor *t);

RSH_API void *rsh_tensor_data(const rsh_tensor *t);
RSH_API rsh_dtype rsh_tensor_dtype(const rsh_tensor *t); /* RSH_DTYPE_COUNT for NULL */
RSH_API int rsh_tensor_ndim(const rsh_tensor *t);        /* -1 for NULL */
RSH_API const int64_t *rsh_tensor_shape(const rsh_tensor *t);
RSH_API const int64_t *rsh_tensor_strides(const rsh_tensor *t);
RSH_API int64_t rsh_tensor_count(const rsh_tensor *t);
RSH_API bool rsh_tensor_dense(const rsh_tensor *t); /* row-major without gaps */

/* ---- the storage, which views share ---- */

RSH_API void *rsh_tensor_storage(const rsh_tensor *t); /* its first byte */
RSH_API size_t rsh_tensor_storage_bytes(const rsh_tensor *t);
RSH_API rsh_device rsh_tensor_device(const rsh_tensor *t);

/* How often the elements have changed: a value that was saved is stale if the version has moved.
 * Calls of the library that write into a tensor of the caller's bump it (rsh_math_*,
 * rsh_reshard_into, collectives of groups).  Whoever writes through the pointer, or lets an exec
 * write there, bumps it.  Safe from any thread. */
RSH_API uint64_t rsh_tensor_version(const rsh_tensor *t);
RSH_API void rsh_tensor_bump(const rsh_tensor *t);

#ifdef __cplusplus
}
#endif
#endif
