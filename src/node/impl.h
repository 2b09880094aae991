/* impl: what the files of a node share: the board and the meetings at it. */
#ifndef RESHARD_NODE_IMPL_H
#define RESHARD_NODE_IMPL_H

#include "node/node.h"

#define RSHI_BLOCK_BYTES ((size_t)4096) /* that a rank can put on the board at one meeting */

/* What a rank puts on the board for everybody to read. */
typedef struct rshi_block {
    _Alignas(64) size_t bytes;
    _Alignas(64) unsigned char data[RSHI_BLOCK_BYTES];
} rshi_block;

/* One rank's place at the board.  Written by that rank only. */
typedef struct rshi_seat {
    _Alignas(64) _Atomic uint64_t arrived; /* meetings this rank has come to */
    atomic_bool gone; /* takes no further part; why stands in status and detail, written before */
    rsh_status status;
    char detail[RSHI_DETAIL_BYTES];
    /* By the parity of the meeting: a rank can be one meeting ahead of a reader but not two. */
    rshi_block block[2];
} rshi_seat;

/* What the ranks of a node share, in memory of the rank that made it. */
typedef struct rshi_board {
    rshi_flag met;                      /* meetings that were complete */
    _Alignas(64) atomic_int arrivals;   /* at the meeting under way */
    _Alignas(64) atomic_int departures; /* ranks that said that they are gone */
    atomic_int open;                    /* ranks that may still look at it */
    rshi_seat seats[];
} rshi_board;

/* Local, on the rank that makes it.  NULL and a sentence: no memory. */
rshi_board *rshi_board_new(rshi_world *w, int size);

/* Collective.  Put up to RSHI_BLOCK_BYTES on the board and wait until everybody has.  What the
 * peers put there can be read until this rank's next meeting. */
rsh_status rshi_node_meet(rshi_node *n, const void *from, size_t bytes);
/* What rank r put there at the last meeting. */
const rshi_block *rshi_node_block(const rshi_node *n, int r);

void rshi_staging_free(rshi_node *n);

/* Local.  A node of this rank whose board the caller sets; holds the world.  `member` becomes the
 * node's, or is freed; NULL is no memory.  NULL and a sentence: no memory. */
rshi_node *rshi_node_new(rshi_world *w, int rank, int size, int *member, int maker);
/* The first node of a world: all of its ranks. */
rshi_node *rshi_node_first(rshi_world *w);

/* Fill in a world that nobody holds yet. */
void rshi_world_init(rshi_world *w, const rshi_mapping *map, int rank, int size,
                     rshi_patience patience);
void rshi_world_drop(rshi_world *w);
/* Free what the part that all mappings share has taken: for rshi_mapping.close. */
void rshi_world_fini(rshi_world *w);

#endif
