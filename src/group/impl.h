/* impl: what the collectives of the group room share. */
#ifndef RESHARD_GROUP_IMPL_H
#define RESHARD_GROUP_IMPL_H

#include "group/group.h"

/* What a rank brings to a call, as it travels to the others to be compared. */
typedef struct rshi_offer {
    int64_t root; /* -1: the call has none */
    int64_t dtype, ndim, shape[RSH_MAX_NDIM];
} rshi_offer;
rshi_offer rshi_offer_of(const rsh_tensor *t, int root);

/* Tensors of one call on one rank: RSH_ERUNTIME for another dtype, RSH_EVALUE for another shape. */
rsh_status rshi_offer_match(const char *name, const rshi_offer *a, const char *whose_a,
                            const rshi_offer *b, const char *whose_b);

/* Collective, after the call was opened: every rank's offer must be the same, roots first, then
 * dtypes, then shapes.  All ranks read the same offers and so come to the same verdict.  `all` has
 * room for one a rank. */
rsh_status rshi_offers_agree(rsh_comm *c, const char *name, const rshi_offer *mine,
                             rshi_offer *all);

/* RSH_EVALUE if two elements of a tensor that is to be written lie in one place, or if that cannot
 * be told; `name` is the call's. */
rsh_status rshi_elements_check_written(const char *name, const rsh_tensor *t);

/* A tensor of this rank, and whether it is written. */
typedef struct rshi_touched {
    const rsh_tensor *tensor;
    bool written;
} rshi_touched;
/* Does one that is written share an element with any other in the list?  Also true where that
 * cannot be told. */
rsh_status rshi_elements_meet(const rshi_touched *list, int64_t n, bool *out);

#endif
