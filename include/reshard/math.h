/* Math: arithmetic on the elements of local tensors of any strides.
 *
 * Everything here is local and works on this rank's memory alone.  Tensors that are written are
 * passed as const: the handle does not change, its elements do, and the version of their storage
 * is bumped.  Tensors may share memory: results are as if every source had been read before the
 * first element was written. */
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
 * RSH_EVALUE if the shapes differ; RSH_ETYPE for complex to real; RSH_ENOMEM, only if they share
 * memory.  Local. */
RSH_API rsh_status rsh_math_copy(const rsh_tensor *from, const rsh_tensor *to);
/* A new dense row-major tensor with the elements of `from` as `dtype`.  The caller frees *out.
 * RSH_ETYPE for complex to real; RSH_ENOMEM.  Local. */
RSH_API rsh_status rsh_math_convert(const rsh_tensor *from, rsh_dtype dtype, rsh_tensor **out);

/* Sets every element to *value, one element of the tensor's dtype.  Local. */
RSH_API rsh_status rsh_math_fill(const rsh_tensor *t, const void *value);
/* Sets every element to `value`, converted to the tensor's dtype; complex ones get a zero imaginary
 * part.  Local. */
RSH_API rsh_status rsh_math_fill_number(const rsh_tensor *t, double value);

/* Do both have the same dtype, shape and numbers?  -0 equals 0, nan equals nothing.  Another dtype
 * or shape is not an error: *out is false.  Local. */
RSH_API rsh_status rsh_math_equal(const rsh_tensor *a, const rsh_tensor *b, bool *out);
/* Is |a - b| <= atol + rtol * |b| everywhere?  Infinities are close to themselves only; nan is
 * close to nan if `equal_nan`.
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

/* Writes "tensor([[0, 1],\n        [2, 3]], size=[2, 2], dtype=f32)".  Of a tensor of more than
 * 1,000 elements it writes the first and last three of every dim.  Floats have five digits.
 * RSH_EIO if the sink stops.  Local. */
RSH_API rsh_status rsh_tensor_print(const rsh_tensor *t, const rsh_sink *sink);

/* ---- random numbers by position ---- */

/* Which numbers a tensor gets: element (i0, i1, ...) has the position first + i0*pitch[0] + ...,
 * and its number depends on seed, stream and position alone.  So the parts of a tensor that is cut
 * in any way get the numbers that the whole one would get, if their positions are global indices.
 */
typedef struct rsh_random {
    uint64_t seed;
    uint64_t stream;      /* another one, other numbers; 0 for numbers by global position */
    uint64_t first;       /* position of element 0,...,0 */
    const int64_t *pitch; /* one per dim; NULL: row-major over the tensor itself */
} rsh_random;

/* Fill a tensor with random numbers.  Uniform: at least 0 and below 1, with as many random bits as
 * the dtype's significand has.  Normal: standard normal.  Of a complex number both parts are drawn;
 * a normal one has variance 1 as a whole.
 * RSH_ETYPE if the dtype is neither a float nor complex.  Local. */
RSH_API rsh_status rsh_math_uniform(const rsh_tensor *t, const rsh_random *from);
RSH_API rsh_status rsh_math_normal(const rsh_tensor *t, const rsh_random *from);

#ifdef __cplusplus
}
#endif
#endif
