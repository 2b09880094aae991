/* sharded_bags: looks up rows of a table that is cut over ranks. */
#ifndef RESHARD_NN_SHARDED_BAGS_H
#define RESHARD_NN_SHARDED_BAGS_H

#include "nn/bag.h"

typedef struct rshn_lookup {
    const char *layer;
    rsh_value *weight;
    rsh_bag_mode mode;
    int64_t padding;            /* row that is left out of bags; -1: none */
    int64_t frozen;             /* row without a gradient; -1: none */
    double max_norm, norm_type; /* max_norm 0: none */
} rshn_lookup;

/* Returns one row, [bags, columns], for each bag of this rank; the weight is distributed.  If
 * `mine` is an error, every rank returns it.  Takes ownership of the bags.  Collective. */
rsh_status rshn_sharded_bags(const rshn_lookup *l, rsh_status mine, rshn_bags *bags,
                             rsh_value *weights, rsh_value **out);

#endif
