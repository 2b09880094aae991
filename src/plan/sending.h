/* sending: one piece of a rank, while the pieces of others that may read it are looked at. */
#ifndef RESHARD_PLAN_SENDING_H
#define RESHARD_PLAN_SENDING_H

#include "plan/impl.h"

/* One of the copies that every destination piece has. */
typedef struct rshi_copy {
    int64_t offset;   /* how far it is from the first, in positions */
    int64_t node;     /* relayed: where it is for the piece at hand, */
    int64_t first;    /* the first copy on the same node, */
    int64_t together; /* and at that how many there are */
} rshi_copy;

typedef struct rshi_sending {
    const rsh_plan *p;
    int64_t tensor;
    rshi_server from;  /* this rank, with its source piece */
    rshi_piece sought; /* that piece where others look for it */
    rshi_rank_edges *edges;
    rshi_edge e;     /* where regions go directly: the edge into the piece at hand */
    rshi_piece held; /* that piece at one of its holders */
    bool directly, relayed, reduced; /* how all destination pieces are sent, if all have copies in
                                        the same way */
    rshi_copy *copy; /* owned */
    int64_t copies, room;
} rshi_sending;

/* Where all destination pieces are sent in the same way, it is settled once, for all pieces of this
 * rank. */
rsh_status rshi_sending_settle(rshi_sending *w);
/* Add the edges from this rank's piece into a series of destination pieces; w is a rshi_sending. */
rsh_status rshi_send_to_series(void *w, rshi_series *s);

/* Into b at every partial position and every holder, and at holder j; b is at its first one. */
rsh_status rshi_send_to_copies(rshi_sending *w, const rshi_piece *b);
rsh_status rshi_send_to_holder(rshi_sending *w, const rshi_piece *b, int64_t j);
/* Does all that this rank sends into a piece with so many holders go directly?  Also to a reduction
 * that one rank wants: of its sources only this rank is listed. */
bool rshi_sends_directly(const rshi_sending *w, int64_t holders);
/* The partial positions of the destination that get something from this rank: from *first on. */
int64_t rshi_sending_partials(const rshi_sending *w, int64_t *first);

#endif
