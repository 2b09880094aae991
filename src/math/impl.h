/* math/impl: tensors as operands of moves, and as rows. */
#ifndef RESHARD_MATH_IMPL_H
#define RESHARD_MATH_IMPL_H

#include "copy/copy.h"
#include "math/math.h"
#include "tensor/tensor.h"

static inline size_t rshi_item(const rsh_tensor *t) { return rsh_dtype_size(rsh_tensor_dtype(t)); }
static inline bool rshi_is_complex(rsh_dtype t) { return t == RSH_C64 || t == RSH_C128; }
static inline bool rshi_is_integer(rsh_dtype t) { return t <= RSH_I64; } /* or bool */

/* Byte strides of a tensor, one per dim. */
void rshi_byte_strides(const rsh_tensor *t, int64_t *out);
/* Do their address ranges overlap? */
bool rshi_share_memory(const rsh_tensor *a, const rsh_tensor *b);
bool rshi_same_shape(const rsh_tensor *a, const rsh_tensor *b);
/* RSH_EVALUE naming the first difference of the shapes; `name` is the function's. */
rsh_status rshi_require_shape(const char *name, const rsh_tensor *a, const rsh_tensor *b);
/* Prepares and runs a move that is described except for its destination. */
void rshi_run_move(rshi_move *m, const rsh_tensor *to, const char *const *src);

/* Iterates over the rows of a tensor, or of two of the same shape, in row-major order; if all are
 * dense, there is a single row. */
typedef struct rshi_rows {
    int nd;                      /* outer dims */
    int64_t n;                   /* elements of a row; 0: no elements */
    int64_t index[RSH_MAX_NDIM]; /* of the row */
    const rsh_tensor *t;
} rshi_rows;
rshi_rows rshi_rows_of(const rsh_tensor *t, const rsh_tensor *other);
bool rshi_rows_next(rshi_rows *r); /* false after the last */
/* Returns the first element of the row in t; *step is the distance of its elements in bytes. */
char *rshi_row_in(const rshi_rows *r, const rsh_tensor *t, int64_t *step);

#endif
