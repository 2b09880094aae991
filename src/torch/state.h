/* state: one rank's sharded tensor as bytes.
 *
 *   "rshstate"                                        8 bytes
 *   version, 0                                        u32 each
 *   group rank, global rank, group size, global size  i32 each
 *   bytes of metadata, of the spec's text, of shards  u64 each
 *   metadata                                          JSON of rsh_tensor_meta_save
 *   spec                                              its text
 *   shards                                            those of the group rank, in metadata order,
 *                                                     dense, row-major
 *   hash                                              u64, of all pieces before, each with the hash
 *                                                     so far as seed
 *
 * Numbers are little-endian, as elements are. */
#ifndef RESHARD_TORCH_STATE_H
#define RESHARD_TORCH_STATE_H

#include "torch/impl.h"

#define RSHI_STATE_MAGIC "rshstate"
#define RSHI_STATE_VERSION 1
#define RSHI_STATE_HEAD 56 /* bytes before the metadata */

enum { RSHI_GROUP_RANK, RSHI_GLOBAL_RANK, RSHI_GROUP_SIZE, RSHI_GLOBAL_SIZE, RSHI_STATE_RANKS };

typedef struct rshi_state {
    int ranks[RSHI_STATE_RANKS];
    rsh_tensor_meta *meta; /* owned */
    char *spec;            /* owned: text */
    const char *shards;    /* in the bytes that were read */
} rshi_state;

/* Where this rank stands in a group, as a state says it. */
rsh_status rshi_state_ranks(const rsh_group *g, int ranks[RSHI_STATE_RANKS]);
/* RSH_ERUNTIME: not a state, cut short, or changed since it was saved.  The bytes are borrowed by
 * the result. */
rsh_status rshi_state_read(const void *data, size_t bytes, rshi_state *out);
void rshi_state_clear(rshi_state *s);

#endif
