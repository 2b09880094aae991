/* flow: what a rank gets from the same ranks in one stage, as streams of packed elements that both ends cut at the same places.
 *
 * Nothing about the order is exchanged: both ends derive it from the plan.  A flow carries one stream from each contributor; the receiver combines
 * them cut by cut.  Plain copies are flows of one contributor. */
#ifndef RESHARD_SHARD_FLOW_H
#define RESHARD_SHARD_FLOW_H

#include "shard/program.h"

/* An edge between ranks, seen from one of its ends. */
typedef struct rshi_leg {
    int stage;
    int shift;                    /* from this rank to the destination, around the comm; 0: this rank is it */
    int64_t shifts, nshifts;      /* in rshi_flows.shifts: from each other contributor to the destination, ascending */
    int64_t tensor, part, offset; /* where the region begins in the destination, were its parts dense */
    int64_t first, last;          /* tasks */
    int own;                      /* outgoing: which of the sources is this rank */
    rsh_dtype wire;               /* of the packed elements */
} rshi_leg;

typedef struct rshi_flow {
    int64_t order;  /* of its messages among all: (order, round, shift of the sender) rises at every rank */
    int stage, shift;
    int64_t first, last; /* legs */
    const int *shifts;
    int64_t nshifts;
    int64_t slot; /* bytes of a message, at most */
    int64_t leg, task, outer, at; /* the next element: task of a leg, combined index over its outer dims, index along the dim that is cut */
} rshi_flow;

typedef struct rshi_flows {
    int rank, size;
    rshi_program in, out; /* tasks of the legs; never finished: each cut is prepared when it is run */
    rshi_leg *legs;
    int64_t nlegs, legs_room;
    int *shifts;
    int64_t nshifts, shifts_room;
    rshi_flow *list; /* by order; of one order the incoming flow, if there is one, and then the outgoing ones by shift */
    int64_t n;
    const char **pointers; /* most_sources of `in` */
    int64_t *strides;      /* RSHI_MOVE_DIMS for each of them */
    uint64_t bytes;        /* received in a run */
} rshi_flows;

/* All flows into and out of a rank.  Moves that stay inside it are added to `local` instead.  `own` finds this rank's parts. */
rsh_status rshi_flows_build(rshi_flows *f, const rsh_plan *plan, int rank, int size, const rshi_finder *own, rshi_program *local);
void rshi_flows_free(rshi_flows *f);

void rshi_flows_rewind(rshi_flows *f);
static inline bool rshi_flow_done(const rshi_flow *w) { return w->leg == w->last; }
/* Pack the next message of an outgoing flow; returns its bytes. */
int64_t rshi_flow_pack(rshi_flows *f, rshi_flow *w, char *const *base, char *chunk);
/* Unpack, and combine, the next message of every contributor; they lie `slot` bytes apart in the order of their shifts. */
void rshi_flow_unpack(rshi_flows *f, rshi_flow *w, char *const *base, const char *chunk);

#endif
