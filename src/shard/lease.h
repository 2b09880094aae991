/* lease: a binding that the comm lends for one run. */
#ifndef RESHARD_SHARD_LEASE_H
#define RESHARD_SHARD_LEASE_H

#include "shard/cache.h"
#include "shard/shard.h"

typedef struct rshi_lease {
    rshi_comm_cache *clients;
    rsh_exec *exec;             /* owned, through the entry if there is one */
    rshi_cached_binding *entry; /* owned; NULL: it will not be cached */
    bool known;                 /* the binding has run before */
} rshi_lease;

/* Collective.  Begins a run of the plan on this memory, with a cached or a new binding; arguments
 * as for rshi_run_cached.  Then test or wait for the exec. */
rsh_status rshi_lease_begin(rsh_comm *comm, const rshi_call *call, rsh_status ready,
                            const rsh_plan *plan, const rsh_memory *src, const rsh_memory *dst,
                            rshi_lease *out);
/* Called when the run has ended with that status: returns the binding to the comm.  No-op if none
 * is lent. */
void rshi_lease_end(rshi_lease *l, rsh_status status);

#endif
