/* Tensor: dtype, shape, strides and a share of a storage on this rank.
 *
 * Storage is the only reference-counted thing in the library: tensors share it, the last one frees
 * it. A tensor is used by one thread at a time; its storage may be shared by tensors of several
 * threads. */
#ifndef RESHARD_TENSOR_H
#define RESHARD_TENSOR_H

#include <stdbool.h>

#include <reshard/dtype.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct rsh_tensor rsh_tensor;

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

/* Another tensor on the same storage: `offset` elements from t's first element, with shape and
 * strides of its own. The caller answers for staying inside the storage of wrapped memory; for
 * memory of the library it is checked. */
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

#ifdef __cplusplus
}
#endif
#endif
