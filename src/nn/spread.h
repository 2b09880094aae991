/* spread: a weight that is cut over ranks, and the rows that each rank passes to it. */
#ifndef RESHARD_NN_SPREAD_H
#define RESHARD_NN_SPREAD_H

#include <reshard/grad.h>

/* A matrix cut into chunks along one dim, one on every rank of its comm. */
typedef struct rshn_cut_weight {
    rsh_comm *comm;
    const rsh_layout *layout;   /* borrowed */
    const rsh_layout_desc *desc; /* of the layout */
    int dim;                    /* the dim that is cut: 0 or 1 */
    int64_t position;           /* of this rank in the mesh */
    int64_t first, n;           /* the first row or column of this rank's chunk, and the number of
                                   rows or columns */
} rshn_cut_weight;

/* RSH_EVALUE, naming the layer, if the layout is not of this form. */
rsh_status rshn_cut_weight_of(const char *layer, const rsh_value *weight, rshn_cut_weight *out);

/* Exchanges the number of rows of each rank.  If `mine` is an error on a rank, all ranks return it.
 * *counts has one entry per rank and is freed by the caller; *total is their sum.  Collective. */
rsh_status rshn_agree_on_rows(rsh_comm *comm, rsh_status mine, int64_t rows, int64_t **counts,
                              int64_t *total);

/* The following layouts are over the ranks of the comm.  `sizes` has ndim sizes; the first is the
 * total number of rows.
 * Makes the layout of rows in rank order, with as many rows on each rank as it has. */
rsh_status rshn_rows_layout(rsh_comm *comm, rsh_dtype dtype, int ndim, const int64_t *sizes,
                            const int64_t *counts, rsh_layout **out);
/* Makes the layout of the whole tensor on every rank, partial with `op` unless that is RSH_OP_NONE.
 * Positions are those of the weight. */
rsh_status rshn_whole_layout(const rshn_cut_weight *w, rsh_dtype dtype, int ndim,
                             const int64_t *sizes, rsh_op op, rsh_layout **out);
/* Makes the layout in which the last dim is cut like the weight. */
rsh_status rshn_last_cut_layout(const rshn_cut_weight *w, rsh_dtype dtype, int ndim,
                                const int64_t *sizes, rsh_layout **out);

/* Moves a plain value from one layout to another; the result is plain.
 * Collective. */
rsh_status rshn_move_plain(rsh_value *v, rsh_comm *comm, const rsh_layout *from,
                           const rsh_layout *to, rsh_derivative how, rsh_value **out);

#endif
