/* bag: sums, means and maxima of rows of a table, selected by lists of indices. */
#ifndef RESHARD_NN_BAG_H
#define RESHARD_NN_BAG_H

#include <reshard/nn/layers.h>

/* Assigns rows to bags.  The struct owns its lists; rshn_bags_free frees them. */
typedef struct rshn_bags {
    int64_t n, nbags;
    int64_t *index; /* [n]: rows of the whole table */
    int64_t *start; /* [nbags + 1]: where bags begin in `index`; the last is n */
} rshn_bags;

/* Reads indices [bags, n], or [n] with offsets [bags].  RSH_EVALUE, RSH_ETYPE, naming the layer;
 * RSH_EINDEX if an index is not below `rows`. */
rsh_status rshn_bags_read(const char *layer, const rsh_value *input, const rsh_value *offsets,
                          bool include_last, int64_t rows, rshn_bags *out);
/* Makes one bag for every index; the indices may have any shape. */
rsh_status rshn_bags_single(const char *layer, const rsh_value *input, int64_t rows,
                            rshn_bags *out);
void rshn_bags_free(rshn_bags *b);

/* Returns one row for each bag: [nbags, columns].  This rank's table has the rows from `first` on;
 * other rows count as zeros.  Index `padding` (-1: none) is skipped; row `frozen` (-1: none) gets
 * no gradient.  `weights`, if not NULL, has one number for each index, for sums.  Takes ownership
 * of the bags, even if it fails. */
rsh_status rshn_bag(rshn_bags *b, rsh_value *table, int64_t first, int64_t padding, int64_t frozen,
                    rsh_bag_mode mode, rsh_value *weights, rsh_value **out);

/* Scales rows that are looked up and whose norm exceeds max_norm down to it, in place.  The table
 * has the rows from `first` on.  If `comm` is not NULL, its ranks have other columns of the same
 * rows, and the call is collective. */
rsh_status rshn_shorten(const rshn_bags *b, const rsh_value *table, int64_t first, double max_norm,
                        double p, rsh_comm *comm);

#endif
