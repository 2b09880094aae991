/* Ops: arithmetic on values, with gradients.
 *
 * An op takes values and computes a new value.  If gradients are recorded (<reshard/grad.h>),
 * rsh_backward can differentiate it.  Inputs are f32 or f64, all of one dtype, except masks (bool
 * or u8) and indices (i64).  Names and results are those of PyTorch.  Inputs may have any strides
 * and are not copied first.  If possible, an op returns a view of its input.
 *
 * Pointwise ops also take distributed values and work part by part.  All distributed inputs must
 * have the same layout, and plain inputs must have one element; the gradient of a plain input is
 * that of this rank's own parts.  Other ops, and inputs with different layouts, follow the op's
 * placement rule (<reshard/rule.h>) if each rank has one part of every input; docs/nn.md describes
 * the results.  Everything else returns RSH_EUNSUP with the op's name.  All ops take DTensors; see
 * the table in docs/dtensor.md.
 *
 * Every function here is local on plain values.  On distributed values a function is collective
 * over their comm if one input is replicated and another is cut, if the op works along a dim that
 * is cut, or if that table says that elements move.  The caller frees *out.  In addition to the
 * errors in their comments, all functions return RSH_ETYPE if the op does not support the dtype,
 * RSH_EVALUE if sizes do not match, RSH_EINDEX if a dim is out of range, RSH_ENOMEM, and the errors
 * of rsh_grad_apply and of hooks for saved tensors.  Negative dims count from the end. */
#ifndef RESHARD_NN_OPS_H
#define RESHARD_NN_OPS_H

#include <reshard/grad.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- threads ---- */

typedef struct rsh_nn_opts {
    size_t struct_size;     /* sizeof(rsh_nn_opts) */
    int threads;            /* threads that ops of this thread use; 0: the number of cores divided
                               by the number of ranks on this machine, at least 1 */
    bool keep_blas_threads; /* do not change the number of BLAS threads; otherwise it is set to
                               `threads` */
} rsh_nn_opts;
#define RSH_NN_OPTS_INIT {sizeof(rsh_nn_opts), 0, 0}

/* Lets ops of the calling thread use several threads.  Without this call they use the calling
 * thread only and do not change BLAS.  Calls nest: only the first one has an effect, and each needs
 * an rsh_nn_close.  `comm` tells how many ranks share the machine (NULL: one); `opts` may be NULL
 * for defaults.  OpenBLAS has one number of threads per process: the last thread that opens sets
 * it, and the last thread that closes restores the old number.  Other BLAS libraries are not
 * changed.
 * RSH_EVALUE if the number of threads is negative; RSH_ERUNTIME if a thread cannot be started;
 * RSH_ENOMEM.  Local. */
RSH_API rsh_status rsh_nn_open(const rsh_comm *comm, const rsh_nn_opts *opts);
/* Ends the latest rsh_nn_open.  No-op if there is none.  Local. */
RSH_API void rsh_nn_close(void);
/* Return the number of threads that ops of the calling thread use, and the number that BLAS uses;
 * 0 if the BLAS library does not report it.  Local. */
RSH_API int rsh_nn_threads(void);
RSH_API int rsh_nn_blas_threads(void);

/* ---- pointwise ---- */

/* Binary ops.  Shapes broadcast: they are aligned at the last dim, and a size of 1 is repeated.
 * Local. */
RSH_API rsh_status rsh_nn_add(rsh_value *a, rsh_value *b, rsh_value **out);
RSH_API rsh_status rsh_nn_sub(rsh_value *a, rsh_value *b, rsh_value **out);
RSH_API rsh_status rsh_nn_mul(rsh_value *a, rsh_value *b, rsh_value **out);
RSH_API rsh_status rsh_nn_div(rsh_value *a, rsh_value *b, rsh_value **out);
RSH_API rsh_status rsh_nn_pow(rsh_value *a, rsh_value *b, rsh_value **out);
/* The same ops with a number as the second operand.  Local. */
RSH_API rsh_status rsh_nn_add_number(rsh_value *x, double number, rsh_value **out);
RSH_API rsh_status rsh_nn_mul_number(rsh_value *x, double number, rsh_value **out);
RSH_API rsh_status rsh_nn_pow_number(rsh_value *x, double exponent, rsh_value **out);
/* Limits each element to the range lo to hi; use infinities for no limit.  The gradient of elements
 * outside the range is 0.
 * RSH_EVALUE if lo or hi is NaN.  Local. */
RSH_API rsh_status rsh_nn_clamp(rsh_value *x, double lo, double hi, rsh_value **out);

/* Replaces NaN by `nan`, +infinity by `positive` and -infinity by `negative`.  If `positive` or
 * `negative` is itself infinite, the largest finite number of the dtype is used.  The gradient of
 * replaced elements is 0.  Local. */
RSH_API rsh_status rsh_nn_nan_to_num(rsh_value *x, double nan, double positive, double negative,
                                     rsh_value **out);
/* Converts x to the dtype of `like`; returns x itself if it already has that dtype.  The gradient
 * is converted back to the dtype of x; integers have no gradient.  RSH_ETYPE for complex to real.
 * Local. */
RSH_API rsh_status rsh_nn_type_as(rsh_value *x, const rsh_value *like, rsh_value **out);

RSH_API rsh_status rsh_nn_neg(rsh_value *x, rsh_value **out);
RSH_API rsh_status rsh_nn_exp(rsh_value *x, rsh_value **out);
RSH_API rsh_status rsh_nn_log(rsh_value *x, rsh_value **out);
RSH_API rsh_status rsh_nn_sqrt(rsh_value *x, rsh_value **out);
RSH_API rsh_status rsh_nn_relu(rsh_value *x, rsh_value **out);
RSH_API rsh_status rsh_nn_tanh(rsh_value *x, rsh_value **out);
RSH_API rsh_status rsh_nn_sigmoid(rsh_value *x, rsh_value **out);
RSH_API rsh_status rsh_nn_silu(rsh_value *x, rsh_value **out);
/* Multiplies x by the standard normal distribution function at x, computed exactly (erf) or
 * approximated with tanh.  Local. */
typedef enum rsh_gelu { RSH_GELU_ERF, RSH_GELU_TANH } rsh_gelu;
RSH_API rsh_status rsh_nn_gelu(rsh_value *x, rsh_gelu form, rsh_value **out);

/* Selects a where the mask is true and b elsewhere; all three broadcast.  Local. */
RSH_API rsh_status rsh_nn_where(rsh_value *mask, rsh_value *a, rsh_value *b, rsh_value **out);
/* Selects `number` where the mask is true and x elsewhere; both broadcast.  Local. */
RSH_API rsh_status rsh_nn_masked_fill(rsh_value *x, rsh_value *mask, double number,
                                      rsh_value **out);
/* Sets elements to 0 with probability p and divides the others by 1 - p.  The choice depends only
 * on the seed, the call number and the element's global position, not on layout or ranks.  The
 * caller numbers the calls.
 * RSH_EVALUE if p is not in the range 0 to 1.  Local. */
RSH_API rsh_status rsh_nn_dropout(rsh_value *x, double p, uint64_t seed, uint64_t call,
                                  rsh_value **out);

/* ---- comparisons ---- */

/* Test whether all elements are equal, or close: |a - b| <= atol + rtol * |b|.  Every rank gets the
 * same answer.  Values with different shapes, dtypes, cuts or comms are not equal.
 * RSH_ETYPE if only one of them is distributed; RSH_EVALUE if a tolerance is negative.
 * Collective over the comm of distributed values; otherwise local. */
RSH_API rsh_status rsh_nn_equal(const rsh_value *a, const rsh_value *b, bool *out);
RSH_API rsh_status rsh_nn_allclose(const rsh_value *a, const rsh_value *b, double rtol, double atol,
                                   bool equal_nan, bool *out);

/* ---- reductions ---- */

/* Reduce over `dims`, which has ndims entries (0 and NULL: all dims).  With keepdim, reduced dims
 * keep size 1.
 * RSH_EVALUE if a dim is listed twice.  Local. */
RSH_API rsh_status rsh_nn_sum(rsh_value *x, int ndims, const int *dims, bool keepdim,
                              rsh_value **out);
RSH_API rsh_status rsh_nn_mean(rsh_value *x, int ndims, const int *dims, bool keepdim,
                               rsh_value **out);
/* Returns the largest element; equal maxima share the gradient evenly.  RSH_EVALUE if x is empty.
 * Local. */
RSH_API rsh_status rsh_nn_max(rsh_value *x, rsh_value **out);
/* Returns the largest element along a dim and, unless `index` is NULL, the index of its first
 * occurrence (i64), which receives the gradient.  The caller frees both.  RSH_EVALUE if the dim has
 * size 0.  Local. */
RSH_API rsh_status rsh_nn_max_dim(rsh_value *x, int dim, bool keepdim, rsh_value **out,
                                  rsh_value **index);

/* ---- shapes: results are views if the strides allow it ---- */

/* Changes the shape but not the number of elements; one size may be -1 to infer it.  Local. */
RSH_API rsh_status rsh_nn_reshape(rsh_value *x, int ndim, const int64_t *sizes, rsh_value **out);
RSH_API rsh_status rsh_nn_transpose(rsh_value *x, int a, int b, rsh_value **out);
/* Reorders dims: dim d of the result is dim dims[d] of x.  `dims` lists every dim once.  Local. */
RSH_API rsh_status rsh_nn_permute(rsh_value *x, const int *dims, rsh_value **out);
/* Returns x itself if it is dense and row-major, otherwise a dense, row-major copy.  Local. */
RSH_API rsh_status rsh_nn_contiguous(rsh_value *x, rsh_value **out);
/* Remove dim `dim` if its size is 1 (otherwise x is unchanged), or all dims of size 1.  Local. */
RSH_API rsh_status rsh_nn_squeeze(rsh_value *x, int dim, rsh_value **out);
RSH_API rsh_status rsh_nn_squeeze_all(rsh_value *x, rsh_value **out);
/* Inserts a dim of size 1 before dim `dim`; -1: after the last dim.  Local. */
RSH_API rsh_status rsh_nn_unsqueeze(rsh_value *x, int dim, rsh_value **out);
/* Repeats dims of size 1, and adds leading dims; -1 keeps a size.  Local. */
RSH_API rsh_status rsh_nn_expand(rsh_value *x, int ndim, const int64_t *sizes, rsh_value **out);
/* Returns `length` elements of a dim, from `start` on.  RSH_EINDEX if the range exceeds the dim.
 * Local. */
RSH_API rsh_status rsh_nn_narrow(rsh_value *x, int dim, int64_t start, int64_t length,
                                 rsh_value **out);

/* Concatenate n values along an existing dim, or stack them along a new one.  All other sizes must
 * be equal.
 * RSH_EVALUE if n < 1.  Local. */
RSH_API rsh_status rsh_nn_cat(int n, rsh_value *const *x, int dim, rsh_value **out);
RSH_API rsh_status rsh_nn_stack(int n, rsh_value *const *x, int dim, rsh_value **out);
/* Splits a dim into pieces of `size` elements; the last one may be smaller.  `n` is the number of
 * pieces that the caller expects.  The caller frees all n entries of `out`.  RSH_EVALUE if the
 * number of pieces is not n, or size < 1.  Local. */
RSH_API rsh_status rsh_nn_split(rsh_value *x, int64_t size, int dim, int n, rsh_value **out);
/* Splits a dim into n pieces of the given sizes, which must add up to the size of the dim.
 * Local. */
RSH_API rsh_status rsh_nn_split_sizes(rsh_value *x, int dim, int n, const int64_t *sizes,
                                      rsh_value **out);
/* Splits a dim into at most n pieces of equal size; the last one may be smaller.  *count is their
 * number.  `out` has room for n entries; the caller frees the first *count.  RSH_EVALUE if n < 1.
 * Local. */
RSH_API rsh_status rsh_nn_chunk(rsh_value *x, int n, int dim, int *count, rsh_value **out);

/* ---- rows by index ---- */

/* Selects slices of x along a dim, one for each entry of `index`, an i64 vector or scalar.
 * RSH_EINDEX if an index is negative or not below the size of the dim.  Local. */
RSH_API rsh_status rsh_nn_index_select(rsh_value *x, int dim, rsh_value *index, rsh_value **out);
/* Looks up rows of a matrix.  `index` has any shape.  Row `padding` gets no gradient; -1: every row
 * gets one.
 * RSH_EINDEX as above, and if `padding` is not a row.  Local. */
RSH_API rsh_status rsh_nn_embedding(rsh_value *index, rsh_value *weight, int64_t padding,
                                    rsh_value **out);

/* ---- products: by CBLAS ---- */

/* Multiplies vectors or matrices; dims before the last two broadcast.  A vector is a row on the
 * left and a column on the right, and the result lacks that dim.
 * RSH_EVALUE for a value without dims.  Local. */
RSH_API rsh_status rsh_nn_matmul(rsh_value *a, rsh_value *b, rsh_value **out);
/* Multiplies two 3-D batches of matrices with the same number of matrices.  Local. */
RSH_API rsh_status rsh_nn_bmm(rsh_value *a, rsh_value *b, rsh_value **out);
/* Multiplies the last dim of x by the transpose of weight [out, in] and adds bias [out], which may
 * be NULL.  Local. */
RSH_API rsh_status rsh_nn_linear(rsh_value *x, rsh_value *weight, rsh_value *bias,
                                 rsh_value **out);

/* ---- layers ---- */

RSH_API rsh_status rsh_nn_softmax(rsh_value *x, int dim, rsh_value **out);
RSH_API rsh_status rsh_nn_log_softmax(rsh_value *x, int dim, rsh_value **out);
/* Normalizes over the last `ndims` dims together: (x - mean) / sqrt(variance + eps) * weight +
 * bias.  weight and bias have the sizes of these dims; each may be NULL.  RSH_EVALUE if ndims < 1.
 * Local. */
RSH_API rsh_status rsh_nn_layer_norm(rsh_value *x, int ndims, rsh_value *weight, rsh_value *bias,
                                     double eps, rsh_value **out);
/* Normalizes over the last dim: x / sqrt(mean of squares + eps) * weight.  weight may be NULL.
 * Local. */
RSH_API rsh_status rsh_nn_rms_norm(rsh_value *x, rsh_value *weight, double eps, rsh_value **out);
/* Computes softmax(q k' / sqrt(d) + mask) v over the last two dims, where d is the last size of q.
 * Leading sizes must be equal.  The mask may be NULL; it broadcasts to the scores and gets no
 * gradient.  It has q's dtype and is added, or it is bool and true means that a score is used.  If
 * `causal` is set, row i uses the first i + 1 columns only.  Local. */
RSH_API rsh_status rsh_nn_attention(rsh_value *q, rsh_value *k, rsh_value *v, rsh_value *mask,
                                    bool causal, rsh_value **out);

/* ---- losses ---- */

typedef enum rsh_loss_reduction { RSH_LOSS_MEAN, RSH_LOSS_SUM, RSH_LOSS_NONE } rsh_loss_reduction;

typedef struct rsh_cross_entropy_opts {
    size_t struct_size;      /* sizeof(rsh_cross_entropy_opts) */
    rsh_loss_reduction reduction; /* the mean is over targets that are not ignored; NaN if there
                                     are none */
    bool ignore;             /* ignore targets that are equal to ignore_index */
    int64_t ignore_index;
    double label_smoothing; /* 0 to 1: the share of the target that is spread over all classes */
} rsh_cross_entropy_opts;
#define RSH_CROSS_ENTROPY_OPTS_INIT {sizeof(rsh_cross_entropy_opts), RSH_LOSS_MEAN, 0, 0, 0}

/* Computes the cross entropy of logits with classes in dim 1 (dim 0 if there is only one dim) and
 * class indices (i64) whose shape is that of the other dims.  `opts` may be NULL for defaults.
 * RSH_EINDEX if a target is not a class and not ignored; RSH_EVALUE if the smoothing is out of
 * range, or the options do not start from RSH_CROSS_ENTROPY_OPTS_INIT.  Local. */
RSH_API rsh_status rsh_nn_cross_entropy(rsh_value *logits, rsh_value *target,
                                        const rsh_cross_entropy_opts *opts, rsh_value **out);
/* Computes the squared error (a - b)^2 of values with equal shapes.  Local. */
RSH_API rsh_status rsh_nn_mse(rsh_value *a, rsh_value *b, rsh_loss_reduction reduction,
                              rsh_value **out);

#ifdef __cplusplus
}
#endif
#endif
