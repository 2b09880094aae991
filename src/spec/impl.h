/* Specs from the inside, seen by this room only. */
#ifndef RESHARD_SPEC_IMPL_H
#define RESHARD_SPEC_IMPL_H

#include <stdatomic.h>

#include "spec/spec.h"

struct rsh_spec {
    atomic_long refs;
    const rsh_spec_kind *kind;
    void *self; /* freed by kind->free, if there is one */
    char *text; /* owned, canonical */
};

/* The two kinds that are built in. */
typedef struct rshi_chunk_spec {
    int dim; /* as it was given; may be negative */
    int64_t n;
    rsh_remote_device *placements; /* owned, n */
} rshi_chunk_spec;

typedef struct rshi_boxes_spec {
    int64_t n;
    rsh_shard_meta *shards; /* owned, n >= 1, all of one ndim, no two overlap */
} rshi_boxes_spec;

extern const rsh_spec_kind rshi_chunk_kind, rshi_boxes_kind;
/* A spec that takes over `self`, also where it fails. */
rsh_status rshi_spec_take(const rsh_spec_kind *kind, void *self, rsh_spec **out);

/* Are these n >= 1 shards, taken in the order of `order`, the chunks of a tensor of this size along
 * dim? */
bool rshi_chunks_match(int64_t n, const rsh_shard_meta *shards, const int64_t *order, int dim,
                       const int64_t *size);
/* Numbers of the shards by rising offset along dim, equal ones as they stood.  NULL: no memory. New
 * (rshi_free). */
int64_t *rshi_order_along(int64_t n, const rsh_shard_meta *shards, int dim);

#endif
