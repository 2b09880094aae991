/* cache: plans by their layouts and options, and bindings by plan, strides and kind of memory, so
 * that a loop of one-shot moves plans once and binds once. */
#ifndef RESHARD_SHARD_CACHE_H
#define RESHARD_SHARD_CACHE_H

#include "shard/comm_cache.h"
#include "shard/exec.h"

#define RSHI_CACHE_ENTRIES 1024                     /* of each kind */
#define RSHI_CACHE_SCRATCH ((int64_t)64 << 20)      /* bytes of element buffers, at most */

/* A cached binding. */
typedef struct rshi_cached_binding {
    rshi_lru_entry entry;
    rsh_exec *exec;  /* owned; it holds its plan */
    uint64_t serial; /* collective calls before it was bound: unique, and the same on every rank */
} rshi_cached_binding;

void rshi_cache_begin(rshi_comm_cache *k);
void rshi_cache_end(rshi_comm_cache *k);

/* Returns the key of a binding of this plan to these parts. */
uint64_t rshi_cached_binding_key(const rsh_plan *plan, const rshi_taken_parts *parts);
/* Returns the cached binding of this plan to parts with these strides and kinds of memory; NULL:
 * there is none. */
rshi_cached_binding *rshi_cached_binding_find(rshi_comm_cache *k, const rsh_plan *plan,
                                              const rshi_taken_parts *parts, uint64_t key);
/* Makes an entry for a binding that is not cached yet, and takes ownership of it.  NULL: no memory;
 * the caller still owns it. */
rshi_cached_binding *rshi_cached_binding_new(uint64_t key, rsh_exec *exec, uint64_t serial);
/* rshi_cached_binding_lend removes an entry for the duration of a run, so that it is neither freed
 * nor run a second time.  rshi_cached_binding_return adds an entry, old or new, which the cache
 * then owns. */
void rshi_cached_binding_lend(rshi_comm_cache *k, rshi_cached_binding *b);
void rshi_cached_binding_return(rshi_comm_cache *k, rshi_cached_binding *b);

#endif
