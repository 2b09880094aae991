/* Cut line: the ranks among which dims of a value are cut, and numbers that they combine.
 *
 * Softmax, norms and losses along a cut dim need little of the other ranks: a maximum and some sums
 * of each row.  A line knows which ranks these are from a comm and a layout, whatever the value is
 * to its user. */
#ifndef RESHARD_NN_CUT_LINE_H
#define RESHARD_NN_CUT_LINE_H

#include "nn/impl.h"

typedef struct rshn_line {
    rsh_comm *comm;     /* borrowed; NULL: none of the dims is cut: there is nothing to combine */
    rsh_layout *layout; /* owned: of the value */
    unsigned dims;      /* a bit for each dim of the value that rows run along */
} rshn_line;

/* Of a value on a comm, either NULL for a plain one.  What it was before is not freed.
 * RSH_EUNSUP if one of the dims is cut and the layout is partial, or not made of axes. */
rsh_status rshn_line_of(rsh_comm *comm, const rsh_layout *layout, unsigned dims, rshn_line *out);
/* The same of input i of a call. */
rsh_status rshn_line_of_input(const rsh_grad_call *c, int i, unsigned dims, rshn_line *out);
void rshn_line_end(rshn_line *l);

/* What ranks have computed of their parts of rows, combined.  `part` has the value's dims; those of
 * the rows have size 1, but for the first of them, which counts numbers of a row.  With a status
 * that is not RSH_OK, this rank has failed before, and all ranks get that status; if this fails, it
 * fails on all ranks.  So what fails between two of them is given to the next.  A line without a
 * comm returns the part as it is.  Takes over the part; the caller frees *out.  Collective. */
rsh_status rshn_line_combine(const rshn_line *l, rsh_status status, rsh_op op, rsh_tensor *part,
                             rsh_tensor **out);

/* ---- along a dim that is cut (softmax_cut.c) ---- */

/* Softmax, or its logarithm, of this rank's part; rows run along the line's only dim. */
rsh_status rshn_softmax_cut(const rshn_line *l, const rsh_tensor *x, bool log, rsh_tensor **y);
/* The gradient from the result and its gradient.  Collective, both. */
rsh_status rshn_softmax_cut_back(const rshn_line *l, const rsh_tensor *y, const rsh_tensor *g,
                                 bool log, rsh_tensor **gx);
/* The largest element of each row along one dim, which stays with size 1; -infinity of none. */
rsh_status rshn_row_max(const rsh_tensor *x, int dim, rsh_tensor **out);

/* ---- norms over dims that are cut (norm_cut.c) ---- */

typedef struct rshn_norm_cut {
    double count; /* elements of a row, on all ranks */
    double eps;
    bool centred;
} rshn_norm_cut;

/* y, and the means (of a centred norm) and 1/deviations of rows.  Weight and bias may be NULL. */
rsh_status rshn_norm_cut_forward(const rshn_line *l, const rshn_norm_cut *n,
                                 const rsh_tensor *const *in, rsh_tensor **y, rsh_tensor **mean,
                                 rsh_tensor **rstd);
/* Gradients of x, weight and bias, those that `wanted` asks for; `in` are x, weight (NULL: ones),
 * the gradient, 1/deviations and means (NULL: zeros).  Collective, both. */
rsh_status rshn_norm_cut_backward(const rshn_line *l, const rshn_norm_cut *n,
                                  const rsh_tensor *const *in, const bool *wanted,
                                  rsh_tensor **out);

#endif
