/* Shared by the files of nn: kernels on tensors, threads, and helpers for op records.
 *
 * nn is a library of its own that uses public headers only: it includes nothing of other rooms. */
#ifndef RESHARD_NN_IMPL_H
#define RESHARD_NN_IMPL_H

#include <reshard/rule.h>
#include <reshard/nn/ops.h>
#include <reshard/pool.h>

#include "nn/kernels.h"

#define NN_TRY(call)                                                                               \
    do {                                                                                           \
        rsh_status st_ = (call);                                                                   \
        if (st_) return st_;                                                                       \
    } while (0)
#define NN_GOTO(call)                                                                              \
    do {                                                                                           \
        if ((st = (call))) goto out;                                                               \
    } while (0)

/* Reads the caller's options into a variable that was initialized with `init`; NULL keeps it. */
#define NN_READ_OPTS(given, init, options)                                                         \
    NN_TRY(rsh_options_read((given), sizeof *(options), #init, (options)))
/* Sets the message and returns the status. */
rsh_status rshn_fail(rsh_status status, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Formats sizes as "[2, 3]" for error messages; valid until the fourth following call on this
 * thread. */
const char *rshn_shape_text(const rsh_tensor *t);
const char *rshn_sizes_text(int ndim, const int64_t *sizes);

/* ---- memory (nn_memory.c): NULL if memory runs out; zero bytes give a valid pointer ---- */

void *rshn_malloc(size_t bytes);
void *rshn_calloc(size_t n, size_t size);
void *rshn_realloc(void *p, size_t bytes);
char *rshn_duplicate(const char *text);
void rshn_free(void *p); /* no-op for NULL */

/* ---- comparing ranks (ranks_compare.c) ---- */

/* Mix bytes, or a text, into a hash.  Start with 0. */
uint64_t rshn_hash(uint64_t h, const void *data, size_t bytes);
uint64_t rshn_hash_text(uint64_t h, const char *text);
/* Sets *other to the first rank whose bytes differ from those of rank 0; 0 if there is none.  If
 * `ready` is not RSH_OK on a rank, all ranks return that status.  Collective. */
rsh_status rshn_ranks_compare(rsh_comm *comm, rsh_status ready, const void *mine, size_t bytes,
                              int *other);

/* ---- threads (nn_threads.c) ---- */

/* Calls fn(ctx, lo, hi) for ranges that cover 0..n-1, on this thread's pool if n > grain.  Only the
 * last range may be shorter than `grain`. */
void rshn_spread(int64_t n, int64_t grain, void (*fn)(void *ctx, int64_t lo, int64_t hi),
                 void *ctx);
/* Returns the number of ranges that rshn_spread makes. */
int64_t rshn_ranges(int64_t n, int64_t grain);
/* Returns the number of threads in this thread's pool, including the calling one. */
int rshn_threads(void);
/* Between begin and end, BLAS calls use one thread each, so that several threads of the pool can
 * call BLAS. */
bool rshn_blas_serial_begin(void);
void rshn_blas_serial_end(bool began);

/* ---- tensors (shape.c) ---- */

/* Sizes, at most RSH_MAX_NDIM. */
typedef struct rshn_sizes {
    int n;
    int64_t at[RSH_MAX_NDIM];
} rshn_sizes;

rshn_sizes rshn_sizes_of(const rsh_tensor *t);
rsh_status rshn_empty(rsh_dtype dtype, const rshn_sizes *sizes, rsh_tensor **out);
/* Creates a tensor whose dims are in the same memory order as those of t, which has as many. */
rsh_status rshn_empty_as(const rsh_tensor *t, const rshn_sizes *sizes, rsh_tensor **out);
/* Computes the shape to which two shapes broadcast.  RSH_EVALUE, naming the op, if they do not
 * broadcast or have too many dims. */
rsh_status rshn_broadcast(const char *op, const rshn_sizes *a, const rshn_sizes *b,
                          rshn_sizes *out);
/* Creates a view of t with the shape `to`, with stride 0 for repeated dims.  t must broadcast. */
rsh_status rshn_expand(const rsh_tensor *t, const rshn_sizes *to, rsh_tensor **out);
/* Converts a dim in the range -ndim to ndim - 1 to one counted from 0; for a tensor without dims,
 * -1 and 0 give 0.  RSH_EINDEX, naming the op, if it is out of range. */
rsh_status rshn_dim(const char *op, int dim, int ndim, int *out);
/* Changes the shape: a view if the strides allow it, otherwise a dense copy.  Counts are equal. */
rsh_status rshn_reshape(const rsh_tensor *t, const rshn_sizes *to, rsh_tensor **out);
/* Returns a view of the tensor if it is dense, otherwise a dense copy. */
rsh_status rshn_dense(const rsh_tensor *t, rsh_tensor **out);
/* Does the same for indices or targets.  RSH_ETYPE, naming the op and `what`, unless they are
 * i64. */
rsh_status rshn_dense_indices(const char *op, const char *what, const rsh_tensor *t,
                              rsh_tensor **out);
rsh_status rshn_alias(const rsh_tensor *t, rsh_tensor **out);
/* Creates a view of `length` elements along a dim, starting at `start`. */
rsh_status rshn_window(const rsh_tensor *t, int dim, int64_t start, int64_t length,
                       rsh_tensor **out);
/* Moves a dim to the end and makes the result dense, for kernels that work on rows. */
rsh_status rshn_rows(const rsh_tensor *t, int dim, rsh_tensor **out);
/* Returns RSH_ETYPE, naming the op, unless the dtype is f32 or f64. */
rsh_status rshn_needs_float(const char *op, const rsh_tensor *t);
/* Returns RSH_ETYPE, naming the op, unless all are floats of one dtype.  Skips NULL entries. */
rsh_status rshn_needs_alike(const char *op, int n, const rsh_tensor *const *t);

/* ---- maps (map.c): y = f(...), elementwise, operands broadcast to y, which is dense ---- */

rsh_status rshn_map1_new(rshn_map1_kind kind, const double *p, const rsh_tensor *x, rsh_tensor **y);
rsh_status rshn_map2_new(rshn_map2_kind kind, const double *p, const rsh_tensor *a,
                         const rsh_tensor *b, const rshn_sizes *to, rsh_tensor **y);
rsh_status rshn_map3_new(rshn_map3_kind kind, const double *p, const rsh_tensor *a,
                         const rsh_tensor *b, const rsh_tensor *c, const rshn_sizes *to,
                         rsh_tensor **y);
/* mask must be bool or u8. */
rsh_status rshn_where_new(const rsh_tensor *mask, const rsh_tensor *a, const rsh_tensor *b,
                          const rshn_sizes *to, rsh_tensor **y);
/* Writes to an existing dense tensor. */
void rshn_map1_into(rshn_map1_kind kind, const double *p, const rsh_tensor *x, const rsh_tensor *y);
/* Creates a tensor without dims that holds a number. */
rsh_status rshn_number(rsh_dtype dtype, double value, rsh_tensor **out);
double rshn_item(const rsh_tensor *t); /* its first element */

/* ---- sums (sum_dims.c) ---- */

/* Sums over the dims whose bit is set and multiplies by `scale`; with `keep`, dims keep size 1. */
rsh_status rshn_sum(const rsh_tensor *x, unsigned dims, bool keep, double scale, rsh_tensor **out);
/* Sums a gradient over the dims along which a tensor of shape `to` was repeated.  Returns a view of
 * g if there are none. */
rsh_status rshn_sum_to(const rsh_tensor *g, const rshn_sizes *to, rsh_tensor **out);

/* ---- products (gemm.c) ---- */

/* c = alpha * a b + beta * c, for matrices in the last two dims.  Leading dims of all three
 * broadcast; if c is repeated, products are summed.  If beta is 0, c may be uninitialized. */
rsh_status rshn_gemm(double alpha, const rsh_tensor *a, const rsh_tensor *b, double beta,
                     const rsh_tensor *c);
/* A matrix in memory: element strides of rows and columns. */
typedef struct rshn_matrix {
    void *data;
    int64_t rows, columns, row_stride, column_stride;
} rshn_matrix;
/* Returns whether BLAS can use it in place, as adjacent rows or adjacent columns. */
bool rshn_matrix_fits(const rshn_matrix *m);
/* Computes one product on the calling thread.  All three matrices must fit. */
void rshn_gemm_one(rsh_dtype dtype, double alpha, const rshn_matrix *a, const rshn_matrix *b,
                   double beta, const rshn_matrix *c);
rshn_matrix rshn_transposed(rshn_matrix m);

/* ---- records of ops ---- */

/* Applies an op with one output.  RSH_EVALUE, naming the op, if one of the first `needed` inputs or
 * `out` is NULL. */
rsh_status rshn_apply(const rsh_grad_op *op, const void *attrs, int nin, int needed,
                      rsh_value *const *in, rsh_value **out);
/* The sizes of input i for backward: those of this rank's part, if the input is distributed, and
 * those of the whole tensor. */
typedef struct rshn_operand {
    bool in_parts; /* the rank has several parts; `sizes` are those of one of them */
    bool plain;    /* not distributed, so its gradient is not either */
    rshn_sizes sizes, whole;
} rshn_operand;
rshn_operand rshn_operand_of(const rsh_grad_call *c, int i);
/* Sums a gradient of the output to an operand's sizes and sets the result as the gradient of input
 * i.  Takes ownership of g, even if it fails. */
rsh_status rshn_give_summed(rsh_grad_call *c, int i, const rshn_operand *o, rsh_tensor *g);
/* Does the same with the gradient of output 0. */
rsh_status rshn_pass_summed(rsh_grad_call *c, int i, const rshn_operand *o);

/* ---- rules (rule_dims.c), <reshard/rule.h> ---- */

/* Rules for pointwise ops: not linear in any input; linear in one input. */
extern const rsh_placement_rule rshn_curved_rule, rshn_straight_rule;
/* Sets the letter of dim d of tensor t. */
void rshn_rule_letter(rsh_rule_tensor *t, int d, int letter);
/* Adds a dim to an output. */
void rshn_rule_add_dim(rsh_rule_tensor *t, int64_t size, int letter);
/* Makes the output equal to the input, dim by dim, each with its own letter. */
void rshn_rule_same(rsh_rule_tensor *in, rsh_rule_tensor *out);
/* Declares that dim d of tensor t, which has a letter, is the range from `start` on of a letter of
 * `of` elements. */
void rshn_rule_range(rsh_rule_tensor *t, int d, int64_t start, int64_t of);
/* Returns the sizes of this rank's part of output i, whose shape on all ranks is `whole`. */
rsh_status rshn_own_sizes(const rsh_grad_call *c, int i, const rshn_sizes *whole, rshn_sizes *out);
/* Returns the start of this rank's part of input i in dim d of the whole tensor; 0 for a plain
 * input and for an empty part. */
rsh_status rshn_own_start(const rsh_grad_call *c, int i, int d, int64_t *out);
/* Returns the number of elements of the whole input i, over the dims whose bit is set. */
int64_t rshn_whole_count(const rsh_grad_call *c, int i, unsigned dims);

#endif
