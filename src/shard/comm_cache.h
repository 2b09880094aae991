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
    int execs;      /* number of the user's execs that exist */
    rsh_exec *begun; /* a list of runs in progress */
    rshi_lru plans;    /* of cached_plan in cache.c */
    rshi_lru bindings; /* of rshi_cached_binding */
    rshi_taken_parts taken; /* the parts of the current run; the list is kept so that its memory is
                               reused */
    struct {
        void *at; /* owned */
        size_t bytes;
    } room[2]; /* memory for the lists of the current call; kept so that it is reused */
    rshi_extent *spans; /* [2 * size of the comm], owned: memory to sort the address ranges of all
                           ranks */
    int64_t scratch;   /* bytes of element buffers that the cached bindings hold */
    uint64_t hits, misses;
} rshi_comm_cache;

/* Returns the cache of a comm, which is made on first use; NULL with an error message if memory
 * runs out. */
rshi_comm_cache *rshi_comm_cache_of(rsh_comm *comm);

enum { RSHI_ROOM_LAYOUTS, RSHI_ROOM_MEMORY };
/* Returns memory for a list that is used during one call; there is one list of each sort.  NULL
 * with an error message if memory runs out. */
void *rshi_comm_cache_room(rsh_comm *comm, int sort, size_t bytes);

#endif
