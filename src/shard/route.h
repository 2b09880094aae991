/* route: whether a transfer is read in place or sent.  Both ends know the whole transfer and the
 * same node map, so both reach the same decision. */
#ifndef RESHARD_SHARD_ROUTE_H
#define RESHARD_SHARD_ROUTE_H

#include "comm/comm.h"
#include "plan/plan.h"

/* Does the destination read all sources of the transfer in place?  It does if all of them are on
 * its node.  If `all` transfers use messages, it does only if all sources are its own. */
static inline bool rshi_route_direct(const rsh_comm *comm, bool all, const rsh_transfer *t) {
    if (!comm->node && !all) return true;
    for (int64_t i = 0; i < t->nsrc; i++) {
        if (t->src[i].rank == t->dst.rank) continue;
        if (all || !rshi_comm_near(comm, (int)t->src[i].rank, (int)t->dst.rank)) return false;
    }
    return true;
}

/* Returns what a rank must know about its sends.  With messages, both ends need to know all
 * contributions. */
static inline rshi_share_sends rshi_route_sends(const rsh_comm *comm, bool all) {
    return comm->node || all ? RSHI_SENDS_WHOLE : RSHI_SENDS_OWN;
}

/* Returns an upper bound for the number of ranks of this node that have destinations.  These ranks
 * share the caches and write at the same time. */
static inline int64_t rshi_route_writers(const rsh_comm *comm, const rsh_plan *plan) {
    int64_t most = 1;
    for (int64_t t = 0; t < rsh_plan_ntensors(plan); t++)
        most = rshi_max(most, rsh_layout_nranks(rshi_plan_dst(plan, t)));
    return rshi_min(most, comm->here->size);
}

#endif
