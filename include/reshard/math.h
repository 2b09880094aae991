/* Math: arithmetic on the elements of local tensors of any strides.
 *
 * Everything here is local and works on this rank's memory alone.  Tensors that are written are
 * passed as const: the handle does not change, its elements do, and the version of their storage
 * is bumped.  Tensors may share memory: results are as if every source had been read before the
 * first element was written. */
#ifndef RESHARD_MATH_H
#define RESHARD_MATH_H

#include <reshard/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

/* `to` = `from`, converted where the dtypes differ: to the nearest value, ties to even; floats
 * saturate in integers.  RSH_EVALUE: different shapes.  RSH_ETYPE: complex to real.  RSH_ENOMEM:
 * they share memory and there is none for a copy. */
RSH_API rsh_status rsh_math_copy(const rsh_tensor *from, const rsh_tensor *to);
/* A new dense row-major tensor with the elements of `from` as `dtype`.  The caller frees it.
 * RSH_ETYPE: complex to real. */
RSH_API rsh_status rsh_math_convert(const rsh_tensor *from, rsh_dtype dtype, rsh_tensor **out);

/* Every element = *value, one element of the tensor's dtype. */
RSH_API rsh_status rsh_math_fill(const rsh_tensor *t, const void *value);
/* Every element = value, converted to the tensor's dtype. */
RSH_API rsh_status rsh_math_fill_number(const rsh_tensor *t, double value);

/* Do both have the same dtype, shape and numbers?  -0 equals 0, nan equals nothing. */
RSH_API rsh_status rsh_math_equal(const rsh_tensor *a, const rsh_tensor *b, bool *out);
/* Is |a - b| <= atol + rtol * |b| everywhere?  Infinities are close to themselves only; nan is
 * close to nan if `equal_nan`.  RSH_EVALUE: different shapes, or a negative tolerance.  RSH_ETYPE:
 * different dtypes. */
RSH_API rsh_status rsh_math_allclose(const rsh_tensor *a, const rsh_tensor *b, double rtol,
                                     double atol, bool equal_nan, bool *out);

/* `to` = from[0] op from[1] op ..., element by element and left to right, in f32 for the 8-bit and
 * 16-bit floats; avg divides by n; converted once to the dtype of `to`.  n is at least 1.  All of
 * one shape, and the sources of one dtype: else RSH_EVALUE.  RSH_ETYPE: the op does not exist for
 * the dtype, or complex to real. */
RSH_API rsh_status rsh_math_combine(rsh_op op, int n, const rsh_tensor *const *from,
                                    const rsh_tensor *to);

/* ---- text ---- */

/* "tensor([[0, 1],\n        [2, 3]], size=[2, 2], dtype=f32)".  Of a tensor of more than 1,000
 * elements the first and last three of every dim.  Floats have five digits.
 * RSH_EIO: the sink failed. */
RSH_API rsh_status rsh_tensor_print(const rsh_tensor *t, const rsh_sink *sink);

/* ---- random numbers by position ---- */

/* Which numbers a tensor gets: element (i0, i1, ...) has the position first + i0*pitch[0] + ...,
 * and its number depends on seed, stream and position alone.  So the parts of a tensor that is cut
 * in any way get the numbers that the whole one would get, if their positions are global indices.
 */
typedef struct rsh_random {
    uint64_t seed;
    uint64_t stream; /* 0 by convention for numbers by global position; rsh_torch_rand on rank r
                        takes r + 1 */
    uint64_t first;       /* position of element 0,...,0 */
    const int64_t *pitch; /* one a dim; NULL: row-major over the tensor itself */
} rsh_random;

/* From 0 up to but not 1, with as many random bits as the dtype's significand has; and from the
 * standard normal distribution.  Of a complex number both parts are drawn; a normal one has
 * variance 1 as a whole.  RSH_ETYPE: neither floats nor complex. */
RSH_API rsh_status rsh_math_uniform(const rsh_tensor *t, const rsh_random *from);
RSH_API rsh_status rsh_math_normal(const rsh_tensor *t, const rsh_random *from);

#ifdef __cplusplus
}
#endif
#endif
