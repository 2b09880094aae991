/* Cut line: the ranks among which dims of a value are cut, and reductions over them.
 *
 * Softmax, norms and losses along a cut dim need little from the other ranks: a maximum and a few
 * sums of each row.  A line finds these ranks from a comm and a layout, for values of any kind. */
#ifndef RESHARD_NN_CUT_LINE_H
#define RESHARD_NN_CUT_LINE_H

#include "nn/impl.h"

typedef struct rshn_line {
    rsh_comm *comm;     /* borrowed; NULL: no dim is cut, and there is nothing to reduce */
    rsh_layout *layout; /* owned; layout of the value */
    unsigned dims;      /* bit mask of the dims that form a row */
} rshn_line;

/* Creates the line of a value on a comm; comm and layout are NULL for a plain value.  The old
 * content of *out is not freed.
 * RSH_EUNSUP if one of the dims is cut and the layout is partial, or not made of axes. */
rsh_status rshn_line_of(rsh_comm *comm, const rsh_layout *layout, unsigned dims, rshn_line *out);
/* Does the same for input i of a call. */
rsh_status rshn_line_of_input(const rsh_grad_call *c, int i, unsigned dims, rshn_line *out);
void rshn_line_end(rshn_line *l);

/* Reduces numbers that ranks have computed for their parts of rows.  `part` has the value's dims;
 * row dims have size 1, except the first, which holds the numbers of a row.  If `status` is not
 * RSH_OK, this rank has already failed, and all ranks return that status.  If the reduction fails,
 * it fails on all ranks.  So an error between two reductions is passed to the next one.  A line
 * without a comm returns the part unchanged.  Takes ownership of the part; the caller frees *out.
 * Collective. */
rsh_status rshn_line_combine(const rshn_line *l, rsh_status status, rsh_op op, rsh_tensor *part,
                             rsh_tensor **out);

/* ---- along a dim that is cut (softmax_cut.c) ---- */

/* Computes the softmax, or its logarithm, of this rank's part; the line has one dim. */
rsh_status rshn_softmax_cut(const rshn_line *l, const rsh_tensor *x, bool log, rsh_tensor **y);
/* Computes the gradient of x from the result and the gradient of the result.  Both functions are
 * collective. */
rsh_status rshn_softmax_cut_back(const rshn_line *l, const rsh_tensor *y, const rsh_tensor *g,
                                 bool log, rsh_tensor **gx);
/* Returns the largest element of each row along one dim, which keeps size 1; -infinity if empty. */
rsh_status rshn_row_max(const rsh_tensor *x, int dim, rsh_tensor **out);

/* ---- norms over dims that are cut (norm_cut.c) ---- */

typedef struct rshn_norm_cut {
    double count; /* elements of a row, on all ranks */
    double eps;
    bool centred;
} rshn_norm_cut;

/* Compute y, the means (of a centred norm) and 1/deviations of rows.  Weight and bias may be
 * NULL. */
rsh_status rshn_norm_cut_forward(const rshn_line *l, const rshn_norm_cut *n,
                                 const rsh_tensor *const *in, rsh_tensor **y, rsh_tensor **mean,
                                 rsh_tensor **rstd);
/* Computes the gradients of x, weight and bias for which `wanted` is true; `in` has x, weight
 * (NULL: ones), the gradient, 1/deviations and means (NULL: zeros).  Both are collective. */
rsh_status rshn_norm_cut_backward(const rshn_line *l, const rshn_norm_cut *n,
                                  const rsh_tensor *const *in, const bool *wanted,
                                  rsh_tensor **out);

#endif
