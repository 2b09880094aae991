/* impl: the structs of specs, for this room only. */
#ifndef RESHARD_SPEC_IMPL_H
#define RESHARD_SPEC_IMPL_H

#include <stdatomic.h>

#include "spec/spec.h"

struct rsh_spec {
    atomic_long refs;
    const rsh_spec_kind *kind;
    void *self; /* freed by kind->free unless that is NULL */
    char *text; /* owned, canonical */
};

/* The two built-in kinds. */
typedef struct rshi_chunk_spec {
    int dim; /* as the caller gave it; may be negative */
    int64_t n;
    rsh_remote_device *placements; /* owned, n */
} rshi_chunk_spec;

typedef struct rshi_boxes_spec {
    int64_t n;
    rsh_shard_meta *shards; /* owned, n >= 1, all of one ndim, no two overlap */
} rshi_boxes_spec;

extern const rsh_spec_kind rshi_chunk_kind, rshi_boxes_kind;
/* Creates a spec and takes ownership of `self`, even if it fails. */
rsh_status rshi_spec_take(const rsh_spec_kind *kind, void *self, rsh_spec **out);

/* Returns whether these n >= 1 shards, in the order `order`, are the chunks of a tensor of this
 * size along dim. */
bool rshi_chunks_match(int64_t n, const rsh_shard_meta *shards, const int64_t *order, int dim,
                       const int64_t *size);
/* Returns the numbers of the shards sorted by offset along dim; the sort is stable.  NULL if memory
 * runs out.  The caller frees it with rshi_free. */
int64_t *rshi_order_along(int64_t n, const rsh_shard_meta *shards, int dim);

#endif
