/* impl: the board and its rounds, shared by the files of this room. */
#ifndef RESHARD_NODE_IMPL_H
#define RESHARD_NODE_IMPL_H

#include "node/node.h"

#define RSHI_BLOCK_BYTES ((size_t)4096) /* bytes that a rank can write in one round */

/* The data that a rank writes in one round. */
typedef struct rshi_block {
    _Alignas(64) size_t bytes;
    _Alignas(64) unsigned char data[RSHI_BLOCK_BYTES];
} rshi_block;

/* One rank's slot of the board.  Only that rank writes it. */
typedef struct rshi_board_slot {
    _Alignas(64) _Atomic uint64_t arrived; /* rounds at which this rank has arrived */
    atomic_bool gone; /* takes no further part; status and detail say why and are written before */
    rsh_status status;
    char detail[RSHI_DETAIL_BYTES];
    /* Indexed by the parity of the round, because a rank can be one round ahead of a reader, but
     * not two. */
    rshi_block block[2];
} rshi_board_slot;

/* Shared by the ranks of a node, in memory of the rank that made it. */
typedef struct rshi_board {
    rshi_flag met;                      /* completed rounds */
    _Alignas(64) atomic_int arrivals;   /* at the current round */
    _Alignas(64) atomic_int departures; /* ranks that have left */
    atomic_int open;                    /* ranks that may still read it */
    rshi_board_slot slots[];
} rshi_board;

/* Local, on the rank that makes it.  NULL with an error message: no memory. */
rshi_board *rshi_board_new(rshi_world *w, int size);

/* Collective.  Writes up to RSHI_BLOCK_BYTES to the board and waits until every rank has.  The data
 * of the peers can be read until this rank's next round. */
rsh_status rshi_node_round(rshi_node *n, const void *from, size_t bytes);
/* Returns the data of rank r in the last round. */
const rshi_block *rshi_node_block(const rshi_node *n, int r);

void rshi_staging_free(rshi_node *n);

/* Local.  Makes a node of this rank; the caller sets its board.  Holds the world.  Takes ownership
 * of `member`, which may be NULL if it could not be allocated.  NULL with an error message: no
 * memory. */
rshi_node *rshi_node_new(rshi_world *w, int rank, int size, int *member, int maker);
/* Makes the first node of a world: all of its ranks. */
rshi_node *rshi_node_first(rshi_world *w);

/* Initialises a world that has no references yet. */
void rshi_world_init(rshi_world *w, const rshi_mapping *map, int rank, int size,
                     rshi_patience patience);
void rshi_world_drop(rshi_world *w);
/* Frees the members of the base struct; for rshi_mapping.close. */
void rshi_world_fini(rshi_world *w);

#endif
