/* route: how an edge travels.  Both ends see the whole edge and the same node map, so both decide
 * alike. */
#ifndef RESHARD_SHARD_ROUTE_H
#define RESHARD_SHARD_ROUTE_H

#include "comm/comm.h"
#include "plan/plan.h"

/* Does the destination read all sources of the edge where they lie?  Those of its node; with
 * messages for `all` none but its own. */
static inline bool rshi_route_direct(const rsh_comm *comm, bool all, const rshi_edge *e) {
    if (!comm->node && !all) return true;
    for (int64_t i = 0; i < e->nsrc; i++) {
        if (e->src[i].rank == e->dst->rank) continue;
        if (all || !rshi_comm_near(comm, (int)e->src[i].rank, (int)e->dst->rank)) return false;
    }
    return true;
}

#endif
