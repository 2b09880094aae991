/* What the files of nn share: kernels on tensors, threads, and help for the records of ops.
 *
 * nn is a library of its own on public headers: it includes nothing of other rooms. */
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

/* Reads options that a caller gives into a variable that starts from `init`; NULL keeps that. */
#define NN_READ_OPTS(given, init, options)                                                         \
    NN_TRY(rsh_options_read((given), sizeof *(options), #init, (options)))
/* Sets the message and returns the status. */
rsh_status rshn_fail(rsh_status status, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* "[2, 3]", for sentences; good until the fourth call from now on this thread. */
const char *rshn_shape_text(const rsh_tensor *t);
const char *rshn_sizes_text(int ndim, const int64_t *sizes);

/* ---- memory (nn_memory.c): NULL when there is none; zero bytes give a valid pointer ---- */

void *rshn_malloc(size_t bytes);
void *rshn_calloc(size_t n, size_t size);
void *rshn_realloc(void *p, size_t bytes);
char *rshn_duplicate(const char *text);
void rshn_free(void *p); /* no-op for NULL */

/* ---- the same on all ranks? (ranks_compare.c) ---- */

/* A hash with more bytes, or a text, mixed in; 0 begins one. */
uint64_t rshn_hash(uint64_t h, const void *data, size_t bytes);
uint64_t rshn_hash_text(uint64_t h, const char *text);
/* *other: the first rank whose bytes are not those of rank 0; 0: there is none.  With a status that
 * is not RSH_OK, all ranks get that status.  Collective. */
rsh_status rshn_ranks_compare(rsh_comm *comm, rsh_status ready, const void *mine, size_t bytes,
                              int *other);

/* ---- threads (nn_threads.c) ---- */

/* Calls fn(ctx, lo, hi) for ranges that cover 0..n-1, on this thread's pool if n > grain.  No range
 * but the last is shorter than `grain`. */
void rshn_spread(int64_t n, int64_t grain, void (*fn)(void *ctx, int64_t lo, int64_t hi),
                 void *ctx);
/* The number of ranges that rshn_spread makes. */
int64_t rshn_ranges(int64_t n, int64_t grain);
/* Threads of this thread's pool, the calling one included. */
int rshn_threads(void);
/* From begin to end, calls of BLAS use one thread each: for calls from several threads of the pool.
 */
bool rshn_blas_serial_begin(void);
void rshn_blas_serial_end(bool began);

/* ---- tensors (shape.c) ---- */

/* Sizes with room for RSH_MAX_NDIM. */
typedef struct rshn_sizes {
    int n;
    int64_t at[RSH_MAX_NDIM];
} rshn_sizes;

rshn_sizes rshn_sizes_of(const rsh_tensor *t);
rsh_status rshn_empty(rsh_dtype dtype, const rshn_sizes *sizes, rsh_tensor **out);
/* A new tensor whose dims lie in memory in the order of those of t, which has as many. */
rsh_status rshn_empty_as(const rsh_tensor *t, const rshn_sizes *sizes, rsh_tensor **out);
/* The shape to which two broadcast.  RSH_EVALUE, naming the op, if they do not, or have too many
 * dims. */
rsh_status rshn_broadcast(const char *op, const rshn_sizes *a, const rshn_sizes *b,
                          rshn_sizes *out);
/* A view of t with the shape `to`, strides 0 where it is repeated.  t broadcasts to it. */
rsh_status rshn_expand(const rsh_tensor *t, const rshn_sizes *to, rsh_tensor **out);
/* A dim from -ndim to ndim - 1 as one from 0; of a tensor without dims, -1 and 0 are 0. RSH_EINDEX,
 * naming the op. */
rsh_status rshn_dim(const char *op, int dim, int ndim, int *out);
/* Other sizes, as a view if strides allow and as a dense copy otherwise.  Counts are equal. */
rsh_status rshn_reshape(const rsh_tensor *t, const rshn_sizes *to, rsh_tensor **out);
/* The tensor itself if it is dense, as a view; otherwise a dense copy. */
rsh_status rshn_dense(const rsh_tensor *t, rsh_tensor **out);
/* The same for indices or targets.  RSH_ETYPE, naming the op and what they are, unless they are
 * i64. */
rsh_status rshn_dense_indices(const char *op, const char *what, const rsh_tensor *t,
                              rsh_tensor **out);
rsh_status rshn_alias(const rsh_tensor *t, rsh_tensor **out);
/* A view of `length` elements along a dim from `start` on. */
rsh_status rshn_window(const rsh_tensor *t, int dim, int64_t start, int64_t length,
                       rsh_tensor **out);
/* A view with dims `from` and `to` exchanged, made dense: for kernels of rows. */
rsh_status rshn_rows(const rsh_tensor *t, int dim, rsh_tensor **out);
/* RSH_ETYPE, naming the op, unless the dtype is f32 or f64. */
rsh_status rshn_needs_float(const char *op, const rsh_tensor *t);
/* RSH_ETYPE, naming the op, unless all are floats of one dtype.  NULL entries are skipped. */
rsh_status rshn_needs_alike(const char *op, int n, const rsh_tensor *const *t);

/* ---- maps (map.c): y = f(...), elementwise, operands broadcast to y, which is dense ---- */

rsh_status rshn_map1_new(rshn_map1_kind kind, const double *p, const rsh_tensor *x, rsh_tensor **y);
rsh_status rshn_map2_new(rshn_map2_kind kind, const double *p, const rsh_tensor *a,
                         const rsh_tensor *b, const rshn_sizes *to, rsh_tensor **y);
rsh_status rshn_map3_new(rshn_map3_kind kind, const double *p, const rsh_tensor *a,
                         const rsh_tensor *b, const rsh_tensor *c, const rshn_sizes *to,
                         rsh_tensor **y);
/* mask is bool or u8. */
rsh_status rshn_where_new(const rsh_tensor *mask, const rsh_tensor *a, const rsh_tensor *b,
                          const rshn_sizes *to, rsh_tensor **y);
/* Into a dense tensor that is there. */
void rshn_map1_into(rshn_map1_kind kind, const double *p, const rsh_tensor *x, const rsh_tensor *y);
/* A tensor without dims that holds a number. */
rsh_status rshn_number(rsh_dtype dtype, double value, rsh_tensor **out);
double rshn_item(const rsh_tensor *t); /* its first element */

/* ---- sums (sum_dims.c) ---- */

/* Sum over the dims whose bit is set, times `scale`; dims stay as 1 if `keep`. */
rsh_status rshn_sum(const rsh_tensor *x, unsigned dims, bool keep, double scale, rsh_tensor **out);
/* Sums a gradient over the dims along which a tensor of the shape `to` was repeated.  A view of g
 * if there are none. */
rsh_status rshn_sum_to(const rsh_tensor *g, const rshn_sizes *to, rsh_tensor **out);

/* ---- products (gemm.c) ---- */

/* c = alpha * a b + beta * c, over matrices in the last two dims.  Leading dims of all three
 * broadcast; where c is repeated, products add up.  With beta 0 c need not be set. */
rsh_status rshn_gemm(double alpha, const rsh_tensor *a, const rsh_tensor *b, double beta,
                     const rsh_tensor *c);
/* A matrix in memory: element strides of rows and columns. */
typedef struct rshn_matrix {
    void *data;
    int64_t rows, columns, row_stride, column_stride;
} rshn_matrix;
/* Can BLAS read and write it where it is, as rows or as columns of adjacent elements? */
bool rshn_matrix_fits(const rshn_matrix *m);
/* One product, on the calling thread.  All three matrices fit. */
void rshn_gemm_one(rsh_dtype dtype, double alpha, const rshn_matrix *a, const rshn_matrix *b,
                   double beta, const rshn_matrix *c);
rshn_matrix rshn_transposed(rshn_matrix m);

/* ---- records of ops ---- */

/* Applies an op with one output.  RSH_EVALUE, naming the op, if an input among the first `needed`
 * or `out` is NULL. */
rsh_status rshn_apply(const rsh_grad_op *op, const void *attrs, int nin, int needed,
                      rsh_value *const *in, rsh_value **out);
/* The sizes of input i as backward will find them: of a distributed one those of the gradient's
 * part, and of the whole. */
typedef struct rshn_operand {
    bool in_parts; /* several: sizes are those of one of them */
    rshn_sizes sizes, whole;
} rshn_operand;
rshn_operand rshn_operand_of(const rsh_grad_call *c, int i);
/* Sums a gradient of the output to an operand's sizes and gives it to input i.  Takes over g, also
 * if it fails. */
rsh_status rshn_give_summed(rsh_grad_call *c, int i, const rshn_operand *o, rsh_tensor *g);
/* The same with the gradient of output 0 as it is. */
rsh_status rshn_pass_summed(rsh_grad_call *c, int i, const rshn_operand *o);

/* ---- rules (rule_dims.c), <reshard/rule.h> ---- */

/* Pointwise ops: of no linear input; of one that the result is linear in. */
extern const rsh_placement_rule rshn_curved_rule, rshn_straight_rule;
/* Dim d of tensor t gets a letter. */
void rshn_rule_letter(rsh_rule_tensor *t, int d, int letter);
/* Adds a dim to an output. */
void rshn_rule_add_dim(rsh_rule_tensor *t, int64_t size, int letter);
/* The output is the input, dim by dim, each with its own letter. */
void rshn_rule_same(rsh_rule_tensor *in, rsh_rule_tensor *out);
/* Dim d of tensor t, which has a letter, is the range from `start` on of a dim of `of` elements. */
void rshn_rule_range(rsh_rule_tensor *t, int d, int64_t start, int64_t of);
/* The sizes of output i on this rank, if it is `whole` on all ranks together. */
rsh_status rshn_own_sizes(const rsh_grad_call *c, int i, const rshn_sizes *whole, rshn_sizes *out);
/* Where this rank's part of input i begins in dim d of the whole; 0 for a plain one and for a part
 * without elements. */
rsh_status rshn_own_start(const rsh_grad_call *c, int i, int d, int64_t *out);
/* The number of elements of input i in all, over the dims whose bit is set. */
int64_t rshn_whole_count(const rsh_grad_call *c, int i, unsigned dims);

#endif
