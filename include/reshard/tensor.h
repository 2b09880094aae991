/* Tensor: dtype, shape, strides and a reference to a storage on this rank.
 *
 * Tensors share storage by reference; the last one frees it.  One thread uses a tensor at a time;
 * tensors of several threads may share a storage.  Everything here is local. */
#ifndef RESHARD_TENSOR_H
#define RESHARD_TENSOR_H

#include <stdbool.h>

#include <reshard/dtype.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct rsh_tensor rsh_tensor;

/* Make a tensor on new memory: dense, row-major, 64-byte aligned, on huge pages if it is large.
 * `shape` has ndim entries.  The elements of rsh_tensor_empty are undefined.  The caller frees
 * *out.
 * RSH_EVALUE if ndim, a size or the number of bytes is out of range; RSH_ENOMEM.  Local. */
RSH_API rsh_status rsh_tensor_empty(rsh_dtype dtype, int ndim, const int64_t *shape,
                                    rsh_tensor **out);
RSH_API rsh_status rsh_tensor_zeros(rsh_dtype dtype, int ndim, const int64_t *shape,
                                    rsh_tensor **out);

/* Makes a tensor on memory of the caller.  `data` is the address of index 0,...,0; `strides` count
 * elements and have any sign (NULL: dense row-major).  With a deleter the storage owns the memory
 * and calls deleter(ctx) once, when the last reference is dropped; with NULL the memory is borrowed
 * and must outlive all tensors on it.  The caller frees *out.  If the call fails, the deleter is
 * not called and the memory remains the caller's.
 * RSH_EVALUE if ndim, a size or a stride is out of range, or if data is NULL although there are
 * elements; RSH_ENOMEM.  Local. */
RSH_API rsh_status rsh_tensor_wrap(void *data, rsh_dtype dtype, int ndim, const int64_t *shape,
                                   const int64_t *strides, void (*deleter)(void *ctx), void *ctx,
                                   rsh_tensor **out);

/* Makes another tensor on the same storage, `offset` elements from t's first element, with its own
 * shape and strides (NULL: dense row-major).  The storage of wrapped memory extends from the lowest
 * to the highest element that was wrapped.  The caller frees *out; `t` may be freed first.
 * RSH_EVALUE if the view would reach beyond the storage, or as for rsh_tensor_wrap; RSH_ENOMEM.
 * Local. */
RSH_API rsh_status rsh_tensor_view(const rsh_tensor *t, int64_t offset, int ndim,
                                   const int64_t *shape, const int64_t *strides, rsh_tensor **out);
/* Makes a view of the box that begins at `offsets` and has `sizes`, ndim entries each.  The offset
 * of a dim is ignored if its size is the tensor's.  The caller frees *out.
 * RSH_EINDEX if the box reaches outside the tensor; RSH_ENOMEM.  Local. */
RSH_API rsh_status rsh_tensor_narrow(const rsh_tensor *t, const int64_t *offsets,
                                     const int64_t *sizes, rsh_tensor **out);
/* Makes a view with dims a and b swapped; negative dims count from the end.  The caller frees *out.
 * RSH_EINDEX if the tensor has no such dim; RSH_ENOMEM.  Local. */
RSH_API rsh_status rsh_tensor_transpose(const rsh_tensor *t, int a, int b, rsh_tensor **out);
/* Drops the tensor's reference to its storage.  No-op for NULL.  Local. */
RSH_API void rsh_tensor_free(rsh_tensor *t);

/* Getters.  Shape and strides, ndim entries each, live as long as the tensor.  rsh_tensor_data
 * returns the address of index 0,...,0, which lives as long as the storage.  Local. */
RSH_API void *rsh_tensor_data(const rsh_tensor *t);
RSH_API rsh_dtype rsh_tensor_dtype(const rsh_tensor *t); /* RSH_DTYPE_NONE for NULL */
RSH_API int rsh_tensor_ndim(const rsh_tensor *t);        /* -1 for NULL */
RSH_API const int64_t *rsh_tensor_shape(const rsh_tensor *t);
RSH_API const int64_t *rsh_tensor_strides(const rsh_tensor *t);
RSH_API int64_t rsh_tensor_count(const rsh_tensor *t);
RSH_API bool rsh_tensor_dense(const rsh_tensor *t); /* row-major without gaps */

/* ---- the storage, which views share ---- */

/* Return the first byte of the storage, borrowed, and its size.  Local. */
RSH_API void *rsh_tensor_storage(const rsh_tensor *t);
RSH_API size_t rsh_tensor_storage_bytes(const rsh_tensor *t);
/* Returns a number that identifies the storage within this process; it is never reused, even if its
 * memory is.  0 for NULL.  Local. */
RSH_API uint64_t rsh_tensor_storage_serial(const rsh_tensor *t);

/* The version counts how often the elements have changed: a saved value is stale if the version has
 * changed since.  Functions that write into a tensor of the caller's bump it.  Call
 * rsh_tensor_bump_version after writing through a pointer, or when a plan is bound to the memory.
 * Local, from any thread. */
RSH_API uint64_t rsh_tensor_version(const rsh_tensor *t);
RSH_API void rsh_tensor_bump_version(const rsh_tensor *t);

#ifdef __cplusplus
}
#endif
#endif
