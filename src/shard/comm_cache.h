/* clients: what this room attaches to a comm: its execs, the runs that are under way, and the plans
 * and bindings that it remembers. */
#ifndef RESHARD_SHARD_CLIENTS_H
#define RESHARD_SHARD_CLIENTS_H

#include <reshard/shard.h>

#include "comm/comm.h"
#include "shard/exec.h"
#include "shard/lru.h"

typedef struct rshi_comm_cache {
    rsh_comm *comm;
    int execs;      /* of users, alive */
    rsh_exec *begun; /* a list of runs under way */
    rshi_lru plans;    /* of what cache.c calls planned */
    rshi_lru bindings; /* of rshi_cached_binding */
    rshi_taken_parts taken; /* of the run at hand; kept for its memory */
    struct {
        void *at; /* owned */
        size_t bytes;
    } room[2]; /* for the lists of the call at hand, kept for its memory */
    rshi_extent *spans; /* [2 * size of the comm], owned: room to sort where all ranks' parts lie */
    int64_t scratch;   /* bytes of element buffers that the remembered bindings hold */
    uint64_t hits, misses;
} rshi_comm_cache;

/* Those of a comm; made at the first question.  NULL and a sentence: no memory. */
rshi_comm_cache *rshi_comm_cache_of(rsh_comm *comm);

enum { RSHI_ROOM_LAYOUTS, RSHI_ROOM_MEMORY };
/* Room for a list that lasts for one call, one of each sort.  NULL and a sentence: no memory. */
void *rshi_comm_cache_room(rsh_comm *comm, int sort, size_t bytes);

#endif
