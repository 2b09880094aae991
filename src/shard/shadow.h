/* shadow: copies, in memory that peers can reach, of parts in memory that they cannot.
 *
 * An engine whose ranks are processes can only publish its own memory.  An exec that is bound to
 * other memory uses messages.  If an exec is bound to the engine's memory and then run on other
 * memory (rsh_exec_run_on), each part that others read gets a shadow with the same strides, and
 * nothing changes for the other ranks: sources are copied into their shadows when a run begins, and
 * destinations are copied from their shadows when it ends.  Destinations that other processes write
 * always have a shadow; see team.c. */
#ifndef RESHARD_SHARD_SHADOW_H
#define RESHARD_SHARD_SHADOW_H

#include "comm/comm.h"
#include "copy/copy.h"
#include "layout/layout.h"
#include "shard/memory.h"

typedef struct rshi_shadow {
    bool dst;
    char *own;       /* the caller's element 0,...,0; NULL: not used in the current run */
    char *data;      /* the shadow's */
    rshi_data block; /* owned: `room` bytes */
    int64_t room;
    rshi_move move;  /* copies in either direction */
    int64_t strides[RSHI_MOVE_DIMS];
    uint64_t bytes;
} rshi_shadow;

typedef struct rshi_shadows {
    rshi_shadow *list; /* owned */
    int64_t n, room;
} rshi_shadows;

/* Uses the shadow of a part for the caller's memory p->data.  `number` is the shadow's number, 0
 * until it is made here; `data` is the memory to publish instead. */
rsh_status rshi_shadow_use(rshi_shadows *s, rsh_comm *comm, int64_t *number, const rsh_layout *l,
                           int64_t part, const rshi_part_memory *p, bool dst, char **data);
/* Stops the use of all shadows until rshi_shadow_use is called again. */
void rshi_shadows_rest(rshi_shadows *s);
void rshi_shadows_fill(const rshi_shadows *s);  /* from the caller's sources */
void rshi_shadows_drain(const rshi_shadows *s); /* into the caller's destinations */
/* Returns the number of bytes of the shadows of parts that peers cannot reach. */
uint64_t rshi_shadows_bytes(const rshi_shadows *s, rsh_comm *comm);
void rshi_shadows_free(rshi_shadows *s);
/* Does the same, but keeps the memory of the shadows allocated, because a peer may still write to
 * it. */
void rshi_shadows_abandon(rshi_shadows *s);

#endif
