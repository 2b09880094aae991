/* impl: shared by the files of the stash room. */
#ifndef RESHARD_STASH_IMPL_H
#define RESHARD_STASH_IMPL_H

#include <reshard/stash.h>

#include "base/base.h"
#include "shard/shard.h"

/* Two layouts for tensors of one shape and dtype: cut along a dim, and whole on every rank. */
typedef struct rshi_cutting {
    rsh_dtype dtype;
    int ndim, dim;
    int64_t shape[RSH_MAX_NDIM];
    rsh_layout *cut, *whole; /* owned */
} rshi_cutting;

/* A stash caches layouts, so that a training loop creates them once. */
struct rsh_stash {
    int64_t refs; /* one for the user, and one for each ticket */
    rsh_comm *comm;
    uint64_t packed; /* number of tickets since the last restart */
    rshi_cutting *list; /* owned */
    int64_t n, room;
};

void rshi_stash_drop(rsh_stash *s); /* drops one reference */
/* Returns the layouts for this shape and dtype, borrowed from the stash. */
rsh_status rshi_stash_cutting(rsh_stash *s, rsh_dtype dtype, int ndim, const int64_t *shape,
                              int dim, const rshi_cutting **out);

#endif
