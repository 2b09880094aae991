/* flow: what a rank gets from the same ranks in one stage, as streams of packed elements that both
 * ends cut at the same places.
 *
 * Nothing about the order is exchanged: both ends derive it from the plan.  A flow carries one
 * stream from each contributor; the receiver combines them cut by cut.  Plain copies are flows of
 * one contributor.  Edges that are read where they lie (see route.h) are in no flow. */
#ifndef RESHARD_SHARD_FLOW_H
#define RESHARD_SHARD_FLOW_H

#include "comm/comm.h"
#include "shard/program.h"

/* An edge between ranks, seen from one of its ends. */
typedef struct rshi_leg {
    int stage;
    int shift; /* from this rank to the destination, around the comm; 0: this rank is it */
    int64_t shifts, nshifts; /* in rshi_flows.shifts: from each other contributor to the
                                destination, ascending */
    int64_t tensor, part,
        offset; /* where the region begins in the destination, were its parts dense */
    int64_t first, last;          /* tasks */
    int own;                      /* outgoing: which of the sources is this rank */
    rsh_dtype wire;               /* of the packed elements */
} rshi_leg;

/* An element of a flow: task of a leg, combined index over its outer dims, index along the dim that
 * is cut. */
typedef struct rshi_place {
    int64_t leg, task, outer, at;
} rshi_place;

typedef struct rshi_flow {
    int64_t order; /* of its messages among all: (order, round, shift of the sender) rises at every
                      rank */
    int stage, shift;
    int64_t first, last; /* legs */
    const int *shifts;
    int64_t nshifts;
    int64_t slot;    /* bytes of a message, at most */
    rshi_place next; /* where the next message begins */
    int64_t round;   /* its number */
} rshi_flow;

/* One message, or one of each contributor. */
typedef struct rshi_portion {
    rshi_place from;
    int64_t round;
    int64_t bytes;
    char *whole; /* of an incoming flow: where all of it belongs just as it travels; NULL: it must
                    be unpacked */
} rshi_portion;

typedef struct rshi_flows {
    const rsh_comm *comm;
    const rsh_plan *plan;
    bool all; /* messages also between ranks of one node */
    rshi_program in,
        out; /* tasks of the legs; never finished: each cut is prepared when it is run */
    rshi_leg *legs;
    int64_t nlegs, legs_room;
    int *shifts;
    int64_t nshifts, shifts_room;
    rshi_flow *list; /* by order; of one order the incoming flow, if there is one, and then the
                        outgoing ones by shift */
    int64_t n;
    int64_t most_shifts;   /* of one flow */
    const char **pointers; /* most_sources of `in` */
    int64_t *strides;      /* RSHI_MOVE_DIMS for each of them */
    uint64_t bytes_near, bytes_far; /* received in a run, from ranks of this node and of others */
} rshi_flows;

/* All flows into and out of this rank of the comm; `all`: also where memory could be read.  `own`
 * are its parts. */
rsh_status rshi_flows_build(rshi_flows *f, const rsh_plan *plan, const rsh_share *share,
                            const rsh_comm *comm, bool all, const rshi_parts *own);
void rshi_flows_free(rshi_flows *f);

/* `base` has the address of each of this rank's parts by number. */
void rshi_flows_rewind(rshi_flows *f);
static inline bool rshi_flow_done(const rshi_flow *w) { return w->next.leg == w->last; }
/* Cut off the next message; the flow goes on behind it. */
void rshi_flow_next(const rshi_flows *f, rshi_flow *w, char *const *base, rshi_portion *out);
/* Leave the message for later; only the one that was cut off last. */
void rshi_flow_undo(rshi_flow *w, const rshi_portion *p);
void rshi_portion_pack(const rshi_flows *f, const rshi_flow *w, const rshi_portion *p,
                       char *const *base, char *message);
/* Unpack, and combine, the messages of every contributor; they lie `apart` bytes from one another
 * in the order of their shifts. */
void rshi_portion_unpack(const rshi_flows *f, const rshi_flow *w, const rshi_portion *p,
                         char *const *base, const char *messages, int64_t apart);

#endif
