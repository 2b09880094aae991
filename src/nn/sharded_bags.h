/* sharded_bags: rows of a table that is cut over ranks. */
#ifndef RESHARD_NN_SHARDED_BAGS_H
#define RESHARD_NN_SHARDED_BAGS_H

#include "nn/bag.h"

typedef struct rshn_lookup {
    const char *layer;
    rsh_value *weight;
    rsh_bag_mode mode;
    int64_t padding;            /* in no bag; -1: none */
    int64_t frozen;             /* row without a gradient; -1: none */
    double max_norm, norm_type; /* max_norm 0: none */
} rshn_lookup;

/* One row, [bags, columns], for each bag that this rank brings; the weight is distributed.  `mine`
 * is this rank's refusal, which every rank then gets.  Takes the bags over.  Collective. */
rsh_status rshn_sharded_bags(const rshn_lookup *l, rsh_status mine, rshn_bags *bags,
                             rsh_value *weights, rsh_value **out);

#endif
