/* lru: a table of entries by 64-bit key that drops the least recently used one. */
#ifndef RESHARD_SHARD_LRU_H
#define RESHARD_SHARD_LRU_H

#include "base/base.h"

/* The first member of every cached object. */
typedef struct rshi_lru_entry {
    uint64_t key;
    struct rshi_lru_entry *next;          /* of the same bucket */
    struct rshi_lru_entry *newer, *older; /* by last use */
} rshi_lru_entry;

typedef struct rshi_lru {
    int64_t limit;                      /* entries, at most */
    void (*forget)(rshi_lru_entry *e);  /* frees an entry that is no longer in the table */
    int64_t n;
    rshi_lru_entry **bucket;            /* owned: a power of two, more than `limit`; allocated with
                                           the first entry */
    int64_t nbuckets;
    rshi_lru_entry *newest, *oldest;
} rshi_lru;

/* Entries of a key: the first, and the next of the same key; NULL: no more. */
rshi_lru_entry *rshi_lru_first(const rshi_lru *t, uint64_t key);
rshi_lru_entry *rshi_lru_next(const rshi_lru_entry *e);
void rshi_lru_use(rshi_lru *t, rshi_lru_entry *e); /* marks it as used now */
/* Adds an entry under its key, as used now; if the table is full, frees the oldest.  RSH_ENOMEM: it
 * was not added. */
rsh_status rshi_lru_add(rshi_lru *t, rshi_lru_entry *e);
void rshi_lru_take(rshi_lru *t, rshi_lru_entry *e); /* removes it; the caller owns it */
void rshi_lru_drop(rshi_lru *t, rshi_lru_entry *e); /* removes and frees it */
void rshi_lru_free(rshi_lru *t);                    /* frees all */

#endif
