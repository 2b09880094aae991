/* Tensor: dtype, shape, strides and a reference to a storage on this rank.
 *
 * Tensors share storage by reference; the last one frees it.  Only one thread may use a tensor at a
 * time, but tensors of several threads may share a storage.  Everything here is local. */
#ifndef RESHARD_TENSOR_H
#define RESHARD_TENSOR_H

#include <stdbool.h>

#include <reshard/dtype.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct rsh_tensor rsh_tensor;

/* Create a tensor on new memory: dense, row-major, 64-byte aligned, on huge pages if it is large.
 * `shape` has ndim entries.  Elements of rsh_tensor_empty are undefined.  The caller frees *out.
 * RSH_EVALUE if ndim, a size or the number of bytes is out of range; RSH_ENOMEM.  Local. */
RSH_API rsh_status rsh_tensor_empty(rsh_dtype dtype, int ndim, const int64_t *shape,
                                    rsh_tensor **out);
RSH_API rsh_status rsh_tensor_zeros(rsh_dtype dtype, int ndim, const int64_t *shape,
                                    rsh_tensor **out);

/* Creates a tensor on the caller's memory.  `data` points to the element at index 0,...,0;
 * `strides` are in elements and may be negative (NULL: dense row-major).  With a deleter the
 * storage owns the memory and calls deleter(ctx) once, when the last reference is dropped; with
 * NULL the memory is borrowed and must outlive all tensors on it.  The caller frees *out.  If the
 * call fails, the deleter is not called and the caller still owns the memory.
 * RSH_EVALUE if ndim, a size or a stride is out of range, or data is NULL and there are elements;
 * RSH_ENOMEM.
 * Local. */
RSH_API rsh_status rsh_tensor_wrap(void *data, rsh_dtype dtype, int ndim, const int64_t *shape,
                                   const int64_t *strides, void (*deleter)(void *ctx), void *ctx,
                                   rsh_tensor **out);

/* Creates another tensor on the same storage.  It starts `offset` elements after t's first element
 * and has its own shape and strides (NULL: dense row-major).  The storage of wrapped memory extends
 * from its lowest to its highest element.  The caller frees *out; `t` may be freed first.
 * RSH_EVALUE if the view would reach beyond the storage, or as for rsh_tensor_wrap; RSH_ENOMEM.
 * Local. */
RSH_API rsh_status rsh_tensor_view(const rsh_tensor *t, int64_t offset, int ndim,
                                   const int64_t *shape, const int64_t *strides, rsh_tensor **out);
/* Creates a view of the box that begins at `offsets` and has `sizes`, ndim entries each.  If a size
 * is that of the whole dim, its offset is ignored.  The caller frees *out.
 * RSH_EINDEX if the box exceeds the tensor; RSH_ENOMEM.  Local. */
RSH_API rsh_status rsh_tensor_narrow(const rsh_tensor *t, const int64_t *offsets,
                                     const int64_t *sizes, rsh_tensor **out);
/* Creates a view with dims a and b swapped; negative dims count from the end.  The caller frees
 * *out.
 * RSH_EINDEX if the tensor has no such dim; RSH_ENOMEM.  Local. */
RSH_API rsh_status rsh_tensor_transpose(const rsh_tensor *t, int a, int b, rsh_tensor **out);
/* Frees the tensor and drops its reference to the storage.  No-op for NULL.  Local. */
RSH_API void rsh_tensor_free(rsh_tensor *t);

/* Getters.  Shape and strides have ndim entries and are valid as long as the tensor; data points to
 * the element at index 0,...,0 and is valid as long as the storage.  Local. */
RSH_API void *rsh_tensor_data(const rsh_tensor *t);
RSH_API rsh_dtype rsh_tensor_dtype(const rsh_tensor *t); /* RSH_DTYPE_NONE for NULL */
RSH_API int rsh_tensor_ndim(const rsh_tensor *t);        /* -1 for NULL */
RSH_API const int64_t *rsh_tensor_shape(const rsh_tensor *t);
RSH_API const int64_t *rsh_tensor_strides(const rsh_tensor *t);
RSH_API int64_t rsh_tensor_count(const rsh_tensor *t);
RSH_API bool rsh_tensor_dense(const rsh_tensor *t); /* row-major without gaps */

/* ---- the storage ---- */

/* Return the first byte of the storage, borrowed, and its size in bytes.  Local. */
RSH_API void *rsh_tensor_storage(const rsh_tensor *t);
RSH_API size_t rsh_tensor_storage_bytes(const rsh_tensor *t);
/* Returns a number that is unique to this storage within the process and never reused, even if its
 * memory is; 0 for NULL.  Local. */
RSH_API uint64_t rsh_tensor_storage_serial(const rsh_tensor *t);

/* Return and increment the version of a storage, which counts changes of its elements: a saved
 * tensor is stale if the version has changed since.  Library functions that write to a caller's
 * tensor increment it.  Call rsh_tensor_bump_version after writing through a pointer, or through a
 * plan that is bound to the memory.  Local; any thread may call them. */
RSH_API uint64_t rsh_tensor_version(const rsh_tensor *t);
RSH_API void rsh_tensor_bump_version(const rsh_tensor *t);

#ifdef __cplusplus
}
#endif
#endif
