/* Comm cache: the record with a comm's cache.  It is attached to the comm on first use and freed with it. */
#include "shard/comm_cache.h"

#include "shard/cache.h"

static rsh_status check_idle(const void *attached) {
    const rshi_comm_cache *k = attached;
    RSH_REQUIRE(!k->execs, RSH_EBUSY, "cannot free the comm: it is still used by %d execs", k->execs);
    return RSH_OK;
}

static void clients_free(void *attached) {
    rshi_comm_cache *k = attached;
    rshi_cache_end(k);
    for (int i = 0; i < 2; i++) rshi_free(k->room[i].at);
    rshi_free(k->spans);
    rshi_free(k);
}

static const rshi_attached_ops ops = {check_idle, clients_free};

rshi_comm_cache *rshi_comm_cache_of(rsh_comm *comm) {
    if (comm->attached) return comm->attached;
    rshi_comm_cache *k = RSHI_NEW(rshi_comm_cache);
    if (k) k->spans = rshi_calloc(2 * (size_t)comm->size, sizeof *k->spans);
    if (!k || !k->spans) {
        rshi_free(k);
        rshi_nomem();
        return NULL;
    }
    k->comm = comm;
    rshi_cache_begin(k);
    comm->attached = k;
    comm->attached_ops = &ops;
    return k;
}

void *rshi_comm_cache_room(rsh_comm *comm, int sort, size_t bytes) {
    rshi_comm_cache *k = rshi_comm_cache_of(comm);
    if (!k || (k->room[sort].at && k->room[sort].bytes >= bytes)) return k ? k->room[sort].at : NULL;
    void *grown = rshi_realloc(k->room[sort].at, 1, bytes + 256);
    if (!grown) {
        rshi_nomem();
        return NULL;
    }
    k->room[sort].at = grown;
    k->room[sort].bytes = bytes + 256;
    return grown;
}
