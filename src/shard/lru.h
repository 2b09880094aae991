/* lru: a table of entries by 64-bit key that forgets the one not used for longest. */
#ifndef RESHARD_SHARD_LRU_H
#define RESHARD_SHARD_LRU_H

#include "base/base.h"

/* The first member of whatever is remembered. */
typedef struct rshi_lru_entry {
    uint64_t key;
    struct rshi_lru_entry *next;          /* of the same bucket */
    struct rshi_lru_entry *newer, *older; /* by last use */
} rshi_lru_entry;

typedef struct rshi_lru {
    int64_t limit;                      /* entries, at most */
    void (*forget)(rshi_lru_entry *e);  /* frees an entry that is no longer in the table */
    int64_t n;
    rshi_lru_entry **bucket;            /* owned: a power of two of them, above `limit`; made with
                                           the first entry */
    int64_t nbuckets;
    rshi_lru_entry *newest, *oldest;
} rshi_lru;

/* Entries of a key: the first, and the next of the same key; NULL: no more. */
rshi_lru_entry *rshi_lru_first(const rshi_lru *t, uint64_t key);
rshi_lru_entry *rshi_lru_next(const rshi_lru_entry *e);
void rshi_lru_use(rshi_lru *t, rshi_lru_entry *e); /* it was used just now */
/* Add an entry under its key, used just now; where the table is full the oldest is forgotten.
 * RSH_ENOMEM: it was not added. */
rsh_status rshi_lru_add(rshi_lru *t, rshi_lru_entry *e);
void rshi_lru_take(rshi_lru *t, rshi_lru_entry *e); /* take it out; it is the caller's */
void rshi_lru_drop(rshi_lru *t, rshi_lru_entry *e); /* take it out and forget it */
void rshi_lru_free(rshi_lru *t);                    /* forget all */

#endif
