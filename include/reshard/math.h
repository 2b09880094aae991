/* Math: arithmetic on the elements of local tensors of any strides.
 *
 * Everything here is local and works on this rank's memory only.  Tensors that are written are
 * passed as const, because the handle does not change; their elements do, and the version of their
 * storage is bumped.  Tensors may share memory: results are as if every source had been read before
 * the first element was written. */
#ifndef RESHARD_MATH_H
#define RESHARD_MATH_H

#include <reshard/tensor.h>
#include <reshard/sink.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Copies `from` to `to`.  Converts if the dtypes differ: floats to the nearest float, ties to even;
 * floats to integers toward zero, saturating, NaN to 0; integers wrap around.  docs/notation.md has
 * all rules.
 * RSH_EVALUE if the shapes differ; RSH_ETYPE for complex to real; RSH_ENOMEM, but only if the
 * tensors share memory.  Local. */
RSH_API rsh_status rsh_math_copy(const rsh_tensor *from, const rsh_tensor *to);
/* Makes a new dense row-major tensor with the elements of `from` converted to `dtype`.  The caller
 * frees *out.
 * RSH_ETYPE for complex to real; RSH_ENOMEM.  Local. */
RSH_API rsh_status rsh_math_convert(const rsh_tensor *from, rsh_dtype dtype, rsh_tensor **out);

/* Sets every element to *value, one element of the tensor's dtype.  Local. */
RSH_API rsh_status rsh_math_fill(const rsh_tensor *t, const void *value);
/* Sets every element to `value`, converted to the tensor's dtype; complex ones get a zero imaginary
 * part.  Local. */
RSH_API rsh_status rsh_math_fill_number(const rsh_tensor *t, double value);

/* Sets *out to whether both have the same dtype, shape and numbers. -0 equals 0, NaN equals
 * nothing.  Different dtypes or shapes are not an error.  Local. */
RSH_API rsh_status rsh_math_equal(const rsh_tensor *a, const rsh_tensor *b, bool *out);
/* Sets *out to whether |a - b| <= atol + rtol * |b| for all elements.  An infinity is close only to
 * itself; NaN is close to NaN only if `equal_nan` is set.
 * RSH_EVALUE if the shapes differ or a tolerance is negative; RSH_ETYPE if the dtypes differ.
 * Local. */
RSH_API rsh_status rsh_math_allclose(const rsh_tensor *a, const rsh_tensor *b, double rtol,
                                     double atol, bool equal_nan, bool *out);

/* Sets `to` to from[0] op from[1] op ..., element by element and left to right, in f32 for the
 * 8-bit and 16-bit floats; avg divides by n.  The result is converted once to the dtype of `to`.
 * RSH_EVALUE if n < 1, if shapes differ, or if the dtypes of the sources differ; RSH_ETYPE if the
 * op does not exist for the dtype, or for complex to real; RSH_ENOMEM.  Local. */
RSH_API rsh_status rsh_math_combine(rsh_op op, int n, const rsh_tensor *const *from,
                                    const rsh_tensor *to);

/* ---- text ---- */

/* Writes "tensor([[0, 1],\n        [2, 3]], size=[2, 2], dtype=f32)".  If the tensor has more than
 * 1,000 elements, only the first and last three of every dim are written.  Floats have five digits.
 * RSH_EIO if the sink stops.  Local. */
RSH_API rsh_status rsh_tensor_print(const rsh_tensor *t, const rsh_sink *sink);

/* ---- random numbers by position ---- */

/* Which random numbers a tensor gets: element (i0, i1, ...) has the position
 * first + i0*pitch[0] + ..., and its number depends only on seed, stream and position.  So the
 * parts of a sharded tensor get the same numbers as the whole tensor, if their positions are global
 * indices. */
typedef struct rsh_random {
    uint64_t seed;
    uint64_t stream;      /* different streams give different numbers; 0 for global positions */
    uint64_t first;       /* position of element 0,...,0 */
    const int64_t *pitch; /* one per dim; NULL: row-major over the tensor itself */
} rsh_random;

/* Fill a tensor with random numbers.  Uniform: from 0 up to but not including 1, with as many
 * random bits as the dtype's significand.  Normal: standard normal.  For complex dtypes both parts
 * are random; a complex normal number has variance 1 in total.
 * RSH_ETYPE if the dtype is neither a float nor complex.  Local. */
RSH_API rsh_status rsh_math_uniform(const rsh_tensor *t, const rsh_random *from);
RSH_API rsh_status rsh_math_normal(const rsh_tensor *t, const rsh_random *from);

#ifdef __cplusplus
}
#endif
#endif
