/* comm_cache: the data that this room attaches to a comm: its execs, the runs in progress, and the
 * cached plans and bindings. */
#ifndef RESHARD_SHARD_CLIENTS_H
#define RESHARD_SHARD_CLIENTS_H

#include <reshard/shard.h>

#include "comm/comm.h"
#include "shard/exec.h"
#include "shard/lru.h"

typedef struct rshi_comm_cache {
    rsh_comm *comm;
    int execs;      /* of users, alive */
    rsh_exec *begun; /* a list of runs in progress */
    rshi_lru plans;    /* of cached_plan in cache.c */
    rshi_lru bindings; /* of rshi_cached_binding */
    rshi_taken_parts taken; /* of the current run; kept for its memory */
    struct {
        void *at; /* owned */
        size_t bytes;
    } room[2]; /* for the lists of the current call; kept for its memory */
    rshi_extent *spans; /* [2 * size of the comm], owned: room to sort the ranges of all ranks */
    int64_t scratch;   /* bytes of element buffers that the cached bindings hold */
    uint64_t hits, misses;
} rshi_comm_cache;

/* The cache of a comm; made on first use.  NULL with an error message: no memory. */
rshi_comm_cache *rshi_comm_cache_of(rsh_comm *comm);

enum { RSHI_ROOM_LAYOUTS, RSHI_ROOM_MEMORY };
/* Memory for a list that lasts for one call, one of each sort.  NULL with an error message: no
 * memory. */
void *rshi_comm_cache_room(rsh_comm *comm, int sort, size_t bytes);

#endif
