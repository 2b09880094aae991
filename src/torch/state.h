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
 *   hash                                              u64, of all preceding pieces; the hash of
 *                                                     each piece seeds the next
 *
 * Numbers and elements are little-endian. */
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
    char *spec;            /* owned; text */
    const char *shards;    /* points into the bytes that were read */
} rshi_state;

/* Returns this rank's ranks and sizes, as saved in a state. */
rsh_status rshi_state_ranks(const rsh_group *g, int ranks[RSHI_STATE_RANKS]);
/* Reads a state.  RSH_ERUNTIME if it is not a state, truncated, or corrupt.  The result borrows the
 * bytes. */
rsh_status rshi_state_read(const void *data, size_t bytes, rshi_state *out);
void rshi_state_clear(rshi_state *s);

#endif
