/* impl: shared by the collectives of the group room. */
#ifndef RESHARD_GROUP_IMPL_H
#define RESHARD_GROUP_IMPL_H

#include "group/group.h"

/* The arguments of a rank, as sent to the others for comparison. */
typedef struct rshi_offer {
    int64_t root; /* -1: the call has none */
    int64_t dtype, ndim, shape[RSH_MAX_NDIM];
} rshi_offer;
rshi_offer rshi_offer_of(const rsh_tensor *t, int root);

/* Compares tensors of one call on one rank: RSH_ERUNTIME if dtypes differ, RSH_EVALUE if shapes
 * differ. */
rsh_status rshi_offer_match(const char *name, const rshi_offer *a, const char *whose_a,
                            const rshi_offer *b, const char *whose_b);

/* Collective, after the call was opened: the offers of all ranks must be equal; roots are compared
 * first, then dtypes, then shapes.  All ranks compare the same offers and reach the same verdict.
 * `all` has room for one offer per rank. */
rsh_status rshi_offers_agree(rsh_comm *c, const char *name, const rshi_offer *mine,
                             rshi_offer *all);

/* Returns RSH_EVALUE if two elements of an output share memory, or if that cannot be determined;
 * `name` is the name of the call. */
rsh_status rshi_elements_check_written(const char *name, const rsh_tensor *t);

/* A tensor of this rank, and whether the call writes to it. */
typedef struct rshi_touched {
    const rsh_tensor *tensor;
    bool written;
} rshi_touched;
/* Returns whether a tensor that is written shares an element with any other in the list; also true
 * if that cannot be determined. */
rsh_status rshi_elements_meet(const rshi_touched *list, int64_t n, bool *out);

#endif
