/* hybrid: what the files of comms on wires share.  Ranks of one node are a comm of their own, which
 * reads memory; all ranks have a line. */
#ifndef RESHARD_COMM_HYBRID_H
#define RESHARD_COMM_HYBRID_H

#include "comm/line.h"

#define RSHI_HYBRID_ENTRY 64 /* bytes of a rank's place on the board */
#define RSHI_EXCHANGE_PIECE ((size_t)1 << 18) /* bytes of a message of an exchange, at most */

typedef struct rshi_hybrid {
    rsh_comm base;       /* first: the comm's address is this struct's */
    rshi_comm_ops ops;   /* what this comm can do depends on its node */
    char name[32];       /* of the engine */
    rshi_line *line;     /* owned */
    rsh_comm *near;      /* owned: the ranks of this node, in the order of their ranks here */
    int64_t *node;       /* [size], owned: as rsh_comm.node, also where there is one */
    int *place;          /* [size], owned: rank in its node's comm */
    int *called;         /* [near->size], owned: the other way round, for this node */
    unsigned char *board; /* [size * RSHI_HYBRID_ENTRY], owned: what the ranks said in a step of a
                             collective call */
    size_t message;      /* bytes of the longest message of an exchange */
    rshi_patience patience; /* for flags of this node, where there are others */
} rshi_hybrid;

static inline rshi_hybrid *rshi_hybrid_of(rsh_comm *c) { return (rshi_hybrid *)c; }

/* Local.  A comm on a line with the ranks of equal `node` [size], 0 or more, as one node; `near` is
 * the comm of those of this rank's, in the order of their ranks.  Takes the line and `near` only if
 * it succeeds. */
rsh_status rshi_hybrid_new(rshi_line *line, rsh_comm *near, const int64_t *node, rsh_comm **out);
/* The same on a wire; takes wire and `near` also when it fails. */
rsh_status rshi_comm_hybrid(const rsh_wire *wire, rsh_comm *near, const int64_t *node,
                            rsh_comm **out);

/* Give nodes, 0 or more, numbers from 0 in order of their lowest ranks, in place; how many there
 * are. */
int rshi_number_nodes(int size, int64_t *node);

rsh_status rshi_hybrid_exchange(rsh_comm *c, int64_t nsend, const rsh_message *send, int64_t nrecv,
                                const rsh_message *recv);
rsh_status rshi_hybrid_split(rsh_comm *c, int colour, int key, rsh_comm **out);

#endif
