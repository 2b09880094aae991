/* Transit: a reshard in progress, with a binding that the cache of the comm lends. */
#include "plan/plan.h"
#include "shard/lease.h"
#include "shard/shard.h"

struct rsh_transit {
    rsh_comm *comm;
    rshi_lease lease;
    rsh_sharded *src; /* owned: shares the caller's elements */
    rsh_sharded *dst; /* owned, until wait returns it */
    rsh_status status; /* status of the run, when it has ended */
    bool ended;
};

/* Lists the memory of both sides, in the comm's own list. */
static rsh_status list_memory(const rsh_transit *t, rsh_memory *memory[2]) {
    int64_t nsrc = t->src->nparts, n = nsrc + t->dst->nparts;
    memory[0] = rshi_comm_cache_room(t->comm, RSHI_ROOM_MEMORY, (size_t)n * sizeof(rsh_memory));
    if (!memory[0]) return RSH_ENOMEM;
    memory[1] = memory[0] + nsrc;
    rshi_sharded_memory(t->src, memory[0]);
    rshi_sharded_memory(t->dst, memory[1]);
    return RSH_OK;
}

/* Does everything that needs no other rank. */
static rsh_status prepare_transit(rsh_transit *t, const rsh_sharded *src, const rsh_layout *to,
                                  const rsh_plan_opts *opts, const rsh_plan **plan, rsh_memory *memory[2]) {
    RSH_REQUIRE(to, RSH_EVALUE, "reshard: layout is NULL");
    const rsh_layout *from = src->layout;
    RSH_TRY(rshi_plan_cached(t->comm, 1, &from, &to, opts, plan));
    RSH_TRY(rsh_sharded_from_tensors(t->comm, from, src->nparts, (const rsh_tensor *const *)src->part, &t->src));
    RSH_TRY(rsh_sharded_empty(t->comm, to, &t->dst));
    return list_memory(t, memory);
}

static void free_transit(rsh_transit *t) {
    if (!t) return;
    rsh_sharded_free(t->src);
    rsh_sharded_free(t->dst);
    rshi_free(t);
}

rsh_status rshi_transit_begin(rsh_comm *comm, const rshi_call *call, rsh_status ready, const rsh_sharded *src,
                              const rsh_layout *to, const rsh_plan_opts *opts, rsh_transit **out) {
    const rsh_plan *plan = NULL;
    rsh_memory *memory[2] = {NULL, NULL};
    rsh_transit *t = ready ? NULL : RSHI_NEW(rsh_transit);
    rsh_status st = ready ? ready : t ? RSH_OK : rshi_nomem();
    if (!st) *t = (rsh_transit){.comm = comm};
    if (!st) st = prepare_transit(t, src, to, opts, &plan, memory);
    rshi_lease lease = {.clients = NULL};
    st = rshi_lease_begin(comm, call, st, plan, memory[0], memory[1], &lease);
    if (st) {
        free_transit(t);
        return st;
    }
    t->lease = lease;
    t->lease.clients->execs++;
    *out = t;
    return RSH_OK;
}

rsh_status rsh_reshard_begin(const rsh_sharded *src, const rsh_layout *to, const rsh_plan_opts *opts,
                             rsh_transit **out) {
    RSH_REQUIRE(src, RSH_EVALUE, "reshard: sharded tensor is NULL");
    rsh_status st = out ? RSH_OK : rshi_fail(RSH_EVALUE, "rsh_reshard_begin: out is NULL");
    return rshi_transit_begin(src->comm, &(rshi_call){.name = "reshard"}, st, src, to, opts, out);
}

/* Returns the binding to the comm, when the run has ended. */
static rsh_status end_transit(rsh_transit *t, rsh_status status) {
    rshi_comm_cache *clients = t->lease.clients;
    t->ended = true;
    t->status = status;
    rshi_lease_end(&t->lease, status);
    rsh_sharded_free(t->src);
    t->src = NULL;
    clients->execs--;
    rshi_comm_client_gone(t->comm); /* this may free the comm */
    return status;
}

rsh_status rsh_transit_test(rsh_transit *t, bool *done) {
    RSH_NEEDS(t);
    RSH_NEEDS(done);
    *done = true;
    if (t->ended) return t->status;
    rsh_status st = rsh_exec_test(t->lease.exec, done);
    if (st) *done = true;
    return st ? end_transit(t, st) : RSH_OK;
}

rsh_status rsh_transit_wait(rsh_transit *t, rsh_sharded **out) {
    RSH_NEEDS(t);
    RSH_NEEDS(out);
    if (!t->ended) end_transit(t, rsh_exec_wait(t->lease.exec));
    RSH_TRY(t->status);
    RSH_REQUIRE(t->dst, RSH_EVALUE, "the result of this transit was already taken");
    *out = t->dst;
    t->dst = NULL;
    return RSH_OK;
}

void rsh_transit_free(rsh_transit *t) {
    if (!t || (!t->ended && rshi_comm_own(t->comm))) return; /* a forked child does not own the transit */
    if (!t->ended) end_transit(t, rsh_exec_wait(t->lease.exec));
    free_transit(t);
}
