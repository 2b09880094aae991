/* bag: sums, means and largest of rows of a table, by lists of indices. */
#ifndef RESHARD_NN_BAG_H
#define RESHARD_NN_BAG_H

#include <reshard/nn/layers.h>

/* Which rows are in which bag.  Lists are owned by who has the struct. */
typedef struct rshn_bags {
    int64_t n, nbags;
    int64_t *index; /* [n]: rows of the whole table */
    int64_t *start; /* [nbags + 1]: where bags begin in `index`; the last is n */
} rshn_bags;

/* From indices [bags, n], or [n] with offsets [bags].  RSH_EVALUE, RSH_ETYPE, naming the layer;
 * RSH_EINDEX if an index is not a row of `rows`. */
rsh_status rshn_bags_read(const char *layer, const rsh_value *input, const rsh_value *offsets,
                          bool include_last, int64_t rows, rshn_bags *out);
/* One bag for every index, whatever shape they have. */
rsh_status rshn_bags_single(const char *layer, const rsh_value *input, int64_t rows,
                            rshn_bags *out);
void rshn_bags_free(rshn_bags *b);

/* One row for each bag: [nbags, columns] of the table, which has the rows from `first` on; others
 * count as zeros. Index `padding` (-1: none) is in no bag; row `frozen` (-1: none) gets no
 * gradient.  `weights`, if not NULL, has one number for each index, for sums.  Takes the bags over,
 * also if it fails. */
rsh_status rshn_bag(rshn_bags *b, rsh_value *table, int64_t first, int64_t padding, int64_t frozen,
                    rsh_bag_mode mode, rsh_value *weights, rsh_value **out);

/* Shortens the rows that are looked up and longer than max_norm, in place.  The table has rows from
 * `first` on.  `comm`, if not NULL, has ranks with other columns of the same rows; collective then.
 */
rsh_status rshn_shorten(const rshn_bags *b, const rsh_value *table, int64_t first, double max_norm,
                        double p, rsh_comm *comm);

#endif
