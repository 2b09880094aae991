/* Ops: arithmetic on values, with gradients.
 *
 * An op takes values, computes a new one and, if gradients are recorded (<reshard/grad.h>), can be
 * gone back through.  Inputs are f32 or f64, all of one dtype, but for masks (bool or u8) and
 * indices (i64).  Names and results are PyTorch's.  Inputs of any strides are read where they are,
 * and an op whose result can be a view of its input returns one.
 *
 * Pointwise ops take distributed values too and work part by part: all distributed inputs have one
 * layout, plain ones have one element, and of such an input each rank gets the gradient of its own
 * parts.  Other ops, and inputs of several layouts, follow the op's rule (<reshard/rule.h>)
 * where each rank has one part of every input; docs/nn.md says what follows.  Otherwise they answer
 * RSH_EUNSUP with the op's name.  DTensors go through all ops, by the table in docs/dtensor.md.
 *
 * Every function here is local on plain values.  On distributed ones it is collective over their
 * comm if a replicated input meets one that is cut, if an op goes along a dim that is cut, or where
 * that table says that something moves.  The caller frees *out.  All of them return, beside what
 * their comment says: RSH_ETYPE for a dtype that the op does not take; RSH_EVALUE for sizes that do
 * not match; RSH_EINDEX for a dim that the value does not have; RSH_ENOMEM; what rsh_grad_apply and
 * hooks for saved tensors return.  Dims count from the end if they are negative. */
#ifndef RESHARD_NN_OPS_H
#define RESHARD_NN_OPS_H

#include <reshard/grad.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- threads ---- */

typedef struct rsh_nn_opts {
    size_t struct_size;     /* sizeof(rsh_nn_opts) */
    int threads;            /* of ops on this thread; 0: cores / ranks of the comm on this machine,
                               at least 1 */
    bool keep_blas_threads; /* leave BLAS as it is; otherwise it gets the same number of threads */
} rsh_nn_opts;
#define RSH_NN_OPTS_INIT {sizeof(rsh_nn_opts), 0, 0}

/* The calling thread begins to use nn: its ops use several threads from now on.  Without it, they
 * use the calling thread alone, and BLAS as it is.  A thread may open more often than once; only
 * the first time counts, and it closes as often.  `comm` says how many ranks share the machine
 * (NULL: this one alone); `opts` of NULL are zeros.  OpenBLAS has one number of threads per
 * process: the last thread that opens sets it, and what was before comes back when the last one
 * closes.  Other BLAS libraries are left alone.
 * RSH_EVALUE if the number of threads is negative; RSH_ERUNTIME if a thread cannot be started;
 * RSH_ENOMEM.  Local. */
RSH_API rsh_status rsh_nn_open(const rsh_comm *comm, const rsh_nn_opts *opts);
/* Ends what rsh_nn_open began.  No-op without it.  Local. */
RSH_API void rsh_nn_close(void);
/* The threads that ops of the calling thread use; those of BLAS, 0 if it does not say.  Local. */
RSH_API int rsh_nn_threads(void);
RSH_API int rsh_nn_blas_threads(void);

/* ---- pointwise ---- */

/* Sizes broadcast: aligned at the last dim, a size of 1 is repeated.  Local. */
RSH_API rsh_status rsh_nn_add(rsh_value *a, rsh_value *b, rsh_value **out);
RSH_API rsh_status rsh_nn_sub(rsh_value *a, rsh_value *b, rsh_value **out);
RSH_API rsh_status rsh_nn_mul(rsh_value *a, rsh_value *b, rsh_value **out);
RSH_API rsh_status rsh_nn_div(rsh_value *a, rsh_value *b, rsh_value **out);
RSH_API rsh_status rsh_nn_pow(rsh_value *a, rsh_value *b, rsh_value **out);
/* The same with a number.  Local. */
RSH_API rsh_status rsh_nn_add_number(rsh_value *x, double number, rsh_value **out);
RSH_API rsh_status rsh_nn_mul_number(rsh_value *x, double number, rsh_value **out);
RSH_API rsh_status rsh_nn_pow_number(rsh_value *x, double exponent, rsh_value **out);
/* The nearest number from lo to hi; infinities for no limit.  The gradient is 0 outside.
 * RSH_EVALUE if lo or hi is NaN.  Local. */
RSH_API rsh_status rsh_nn_clamp(rsh_value *x, double lo, double hi, rsh_value **out);

/* `nan` for NaN, `positive` and `negative` for the infinities; of these two, an infinity stands
 * for the largest finite number of the dtype.  The gradient is 0 where a number was replaced.
 * Local. */
RSH_API rsh_status rsh_nn_nan_to_num(rsh_value *x, double nan, double positive, double negative,
                                     rsh_value **out);
/* x in the dtype of `like`; x itself if it has it.  The gradient comes back in the dtype of x;
 * there is none through an integer.  RSH_ETYPE for complex to real.  Local. */
RSH_API rsh_status rsh_nn_type_as(rsh_value *x, const rsh_value *like, rsh_value **out);

RSH_API rsh_status rsh_nn_neg(rsh_value *x, rsh_value **out);
RSH_API rsh_status rsh_nn_exp(rsh_value *x, rsh_value **out);
RSH_API rsh_status rsh_nn_log(rsh_value *x, rsh_value **out);
RSH_API rsh_status rsh_nn_sqrt(rsh_value *x, rsh_value **out);
RSH_API rsh_status rsh_nn_relu(rsh_value *x, rsh_value **out);
RSH_API rsh_status rsh_nn_tanh(rsh_value *x, rsh_value **out);
RSH_API rsh_status rsh_nn_sigmoid(rsh_value *x, rsh_value **out);
RSH_API rsh_status rsh_nn_silu(rsh_value *x, rsh_value **out);
/* x times the normal distribution's integral up to x, by erf or approximated by tanh.  Local. */
typedef enum rsh_gelu { RSH_GELU_ERF, RSH_GELU_TANH } rsh_gelu;
RSH_API rsh_status rsh_nn_gelu(rsh_value *x, rsh_gelu form, rsh_value **out);

/* a where the mask is true, b elsewhere; all three broadcast.  Local. */
RSH_API rsh_status rsh_nn_where(rsh_value *mask, rsh_value *a, rsh_value *b, rsh_value **out);
/* `number` where the mask is true, x elsewhere; both broadcast.  Local. */
RSH_API rsh_status rsh_nn_masked_fill(rsh_value *x, rsh_value *mask, double number,
                                      rsh_value **out);
/* Sets elements to 0 with probability p and divides the others by 1 - p.  Which ones depends on the
 * seed, the number of the call and an element's global position alone, so not on layout or ranks.
 * The caller counts the calls.
 * RSH_EVALUE if p is not from 0 to 1.  Local. */
RSH_API rsh_status rsh_nn_dropout(rsh_value *x, double p, uint64_t seed, uint64_t call,
                                  rsh_value **out);

/* ---- comparisons ---- */

/* Are all elements equal, or close: |a - b| <= atol + rtol * |b|?  Every rank gets the same answer.
 * Values of other sizes, dtypes, cuts or comms are not equal.
 * RSH_ETYPE if one is distributed and the other is not; RSH_EVALUE if a tolerance is negative.
 * Collective over the comm of distributed values; otherwise local. */
RSH_API rsh_status rsh_nn_equal(const rsh_value *a, const rsh_value *b, bool *out);
RSH_API rsh_status rsh_nn_allclose(const rsh_value *a, const rsh_value *b, double rtol, double atol,
                                   bool equal_nan, bool *out);

/* ---- reductions ---- */

/* Over `dims`, ndims of them (0 and NULL: all).  They stay with size 1 if keepdim is set.
 * RSH_EVALUE if a dim is named twice.  Local. */
RSH_API rsh_status rsh_nn_sum(rsh_value *x, int ndims, const int *dims, bool keepdim,
                              rsh_value **out);
RSH_API rsh_status rsh_nn_mean(rsh_value *x, int ndims, const int *dims, bool keepdim,
                               rsh_value **out);
/* The largest element; ties share the gradient evenly.  RSH_EVALUE without elements.  Local. */
RSH_API rsh_status rsh_nn_max(rsh_value *x, rsh_value **out);
/* The largest along a dim and, if `index` is not NULL, where it is first (i64); its gradient goes
 * there.  The caller frees both.  RSH_EVALUE if the dim has size 0.  Local. */
RSH_API rsh_status rsh_nn_max_dim(rsh_value *x, int dim, bool keepdim, rsh_value **out,
                                  rsh_value **index);

/* ---- shapes: views where strides allow ---- */

/* Other sizes of the same count; one of them may be -1.  Local. */
RSH_API rsh_status rsh_nn_reshape(rsh_value *x, int ndim, const int64_t *sizes, rsh_value **out);
RSH_API rsh_status rsh_nn_transpose(rsh_value *x, int a, int b, rsh_value **out);
/* Dim d of the result is dim dims[d] of x; one entry for every dim.  Local. */
RSH_API rsh_status rsh_nn_permute(rsh_value *x, const int *dims, rsh_value **out);
/* The same elements, dense and row-major; x itself if it is.  Local. */
RSH_API rsh_status rsh_nn_contiguous(rsh_value *x, rsh_value **out);
/* Without dim `dim` if its size is 1, otherwise as it is; without all dims of size 1.  Local. */
RSH_API rsh_status rsh_nn_squeeze(rsh_value *x, int dim, rsh_value **out);
RSH_API rsh_status rsh_nn_squeeze_all(rsh_value *x, rsh_value **out);
/* With a new dim of size 1 before dim `dim`; -1: after the last.  Local. */
RSH_API rsh_status rsh_nn_unsqueeze(rsh_value *x, int dim, rsh_value **out);
/* Repeats dims of size 1, and adds leading dims; -1 keeps a size.  Local. */
RSH_API rsh_status rsh_nn_expand(rsh_value *x, int ndim, const int64_t *sizes, rsh_value **out);
/* `length` elements of a dim from `start` on.  RSH_EINDEX if there are not so many.  Local. */
RSH_API rsh_status rsh_nn_narrow(rsh_value *x, int dim, int64_t start, int64_t length,
                                 rsh_value **out);

/* n values one after the other along a dim that they have; along a new one.  Other sizes are equal.
 * RSH_EVALUE if n < 1.  Local. */
RSH_API rsh_status rsh_nn_cat(int n, rsh_value *const *x, int dim, rsh_value **out);
RSH_API rsh_status rsh_nn_stack(int n, rsh_value *const *x, int dim, rsh_value **out);
/* Pieces of `size` along a dim, the last maybe smaller; n of them, which is checked.  The caller
 * frees all n entries of `out`.  RSH_EVALUE if there are not n pieces, or size < 1.  Local. */
RSH_API rsh_status rsh_nn_split(rsh_value *x, int64_t size, int dim, int n, rsh_value **out);
/* Pieces of the given sizes, whose sum is the dim's.  Local. */
RSH_API rsh_status rsh_nn_split_sizes(rsh_value *x, int dim, int n, const int64_t *sizes,
                                      rsh_value **out);
/* At most n pieces of equal size, the last maybe smaller; *count says how many.  `out` has room for
 * n, and the caller frees the first *count of them.  RSH_EVALUE if n < 1.  Local. */
RSH_API rsh_status rsh_nn_chunk(rsh_value *x, int n, int dim, int *count, rsh_value **out);

/* ---- rows by index ---- */

/* Slices of x along a dim, one for each of `index`, which is i64 and has at most one dim.
 * RSH_EINDEX if an index is not below the dim's size, or is negative.  Local. */
RSH_API rsh_status rsh_nn_index_select(rsh_value *x, int dim, rsh_value *index, rsh_value **out);
/* Rows of a matrix by index, in any shape.  Row `padding` gets no gradient; -1: every row gets one.
 * RSH_EINDEX as above, and if `padding` is no row.  Local. */
RSH_API rsh_status rsh_nn_embedding(rsh_value *index, rsh_value *weight, int64_t padding,
                                    rsh_value **out);

/* ---- products: by CBLAS ---- */

/* Of vectors and matrices; dims before the last two broadcast.  A vector counts as a row on the
 * left and as a column on the right, and that dim is dropped again.  Values of 1 to 5 dims or more.
 * RSH_EVALUE for a value without dims.  Local. */
RSH_API rsh_status rsh_nn_matmul(rsh_value *a, rsh_value *b, rsh_value **out);
/* Of two batches of matrices with three dims and equal first sizes.  Local. */
RSH_API rsh_status rsh_nn_bmm(rsh_value *a, rsh_value *b, rsh_value **out);
/* x times the transpose of the weight [out, in], plus the bias [out], which may be NULL, along the
 * last dim of x.  Local. */
RSH_API rsh_status rsh_nn_linear(rsh_value *x, rsh_value *weight, rsh_value *bias,
                                 rsh_value **out);

/* ---- layers ---- */

RSH_API rsh_status rsh_nn_softmax(rsh_value *x, int dim, rsh_value **out);
RSH_API rsh_status rsh_nn_log_softmax(rsh_value *x, int dim, rsh_value **out);
/* Over the last `ndims` dims together: (x - mean) / sqrt(variance + eps) * weight + bias.  Weight
 * and bias have these dims' sizes; each may be NULL.  RSH_EVALUE if ndims < 1.  Local. */
RSH_API rsh_status rsh_nn_layer_norm(rsh_value *x, int ndims, rsh_value *weight, rsh_value *bias,
                                     double eps, rsh_value **out);
/* Over the last dim: x / sqrt(mean of squares + eps) * weight, which may be NULL.  Local. */
RSH_API rsh_status rsh_nn_rms_norm(rsh_value *x, rsh_value *weight, double eps, rsh_value **out);
/* softmax(q k' / sqrt(d) + mask) v over the last two dims, d being the last size of q; leading
 * sizes are equal.  The mask, if not NULL, broadcasts to the scores and gets no gradient; it is of
 * q's dtype, or bool, where true means that an element is seen.  Causal: row i sees the first i + 1
 * columns alone.  Local. */
RSH_API rsh_status rsh_nn_attention(rsh_value *q, rsh_value *k, rsh_value *v, rsh_value *mask,
                                    bool causal, rsh_value **out);

/* ---- losses ---- */

typedef enum rsh_loss_reduction { RSH_LOSS_MEAN, RSH_LOSS_SUM, RSH_LOSS_NONE } rsh_loss_reduction;

typedef struct rsh_cross_entropy_opts {
    size_t struct_size;      /* sizeof(rsh_cross_entropy_opts) */
    rsh_loss_reduction reduction; /* mean: over targets that are not ignored; NaN if there are
                                     none */
    bool ignore;             /* ignore targets of ignore_index */
    int64_t ignore_index;
    double label_smoothing; /* from 0 to 1: the share of the target that all classes get evenly */
} rsh_cross_entropy_opts;
#define RSH_CROSS_ENTROPY_OPTS_INIT {sizeof(rsh_cross_entropy_opts), RSH_LOSS_MEAN, 0, 0, 0}

/* Of logits with classes in dim 1 (dim 0 if there is one dim) and class indices (i64) in the other
 * dims.  `opts` of NULL are zeros.
 * RSH_EINDEX if a target is no class and not ignored; RSH_EVALUE if the smoothing is out of range,
 * or the options do not start from RSH_CROSS_ENTROPY_OPTS_INIT.  Local. */
RSH_API rsh_status rsh_nn_cross_entropy(rsh_value *logits, rsh_value *target,
                                        const rsh_cross_entropy_opts *opts, rsh_value **out);
/* (a - b)^2 of values with equal sizes.  Local. */
RSH_API rsh_status rsh_nn_mse(rsh_value *a, rsh_value *b, rsh_loss_reduction reduction,
                              rsh_value **out);

#ifdef __cplusplus
}
#endif
#endif
