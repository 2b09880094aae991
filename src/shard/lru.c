/* LRU: a hash table with chains, and a list in the order of use. */
#include "shard/lru.h"

static rshi_lru_entry **bucket_of(const rshi_lru *t, uint64_t key) {
    return &t->bucket[(key ^ key >> 32) & (uint64_t)(t->nbuckets - 1)];
}

static rshi_lru_entry *same_key(rshi_lru_entry *e, uint64_t key) {
    while (e && e->key != key) e = e->next;
    return e;
}

rshi_lru_entry *rshi_lru_first(const rshi_lru *t, uint64_t key) {
    return t->n ? same_key(*bucket_of(t, key), key) : NULL;
}

rshi_lru_entry *rshi_lru_next(const rshi_lru_entry *e) { return same_key(e->next, e->key); }

/* ---- the order of use ---- */

static void unlink_order(rshi_lru *t, rshi_lru_entry *e) {
    *(e->newer ? &e->newer->older : &t->newest) = e->older;
    *(e->older ? &e->older->newer : &t->oldest) = e->newer;
}

static void link_newest(rshi_lru *t, rshi_lru_entry *e) {
    e->newer = NULL;
    e->older = t->newest;
    *(t->newest ? &t->newest->newer : &t->oldest) = e;
    t->newest = e;
}

void rshi_lru_use(rshi_lru *t, rshi_lru_entry *e) {
    if (t->newest == e) return;
    unlink_order(t, e);
    link_newest(t, e);
}

/* ---- adding and removing ---- */

static rsh_status make_buckets(rshi_lru *t) {
    if (t->bucket) return RSH_OK;
    int64_t n = 1;
    while (n <= t->limit) n *= 2;
    t->bucket = rshi_calloc((size_t)n, sizeof(rshi_lru_entry *));
    t->nbuckets = n;
    return t->bucket ? RSH_OK : rshi_nomem();
}

rsh_status rshi_lru_add(rshi_lru *t, rshi_lru_entry *e) {
    RSH_TRY(make_buckets(t));
    if (t->n == t->limit) rshi_lru_drop(t, t->oldest);
    rshi_lru_entry **at = bucket_of(t, e->key);
    e->next = *at;
    *at = e;
    link_newest(t, e);
    t->n++;
    return RSH_OK;
}

void rshi_lru_take(rshi_lru *t, rshi_lru_entry *e) {
    rshi_lru_entry **at = bucket_of(t, e->key);
    while (*at != e) at = &(*at)->next;
    *at = e->next;
    unlink_order(t, e);
    t->n--;
}

void rshi_lru_drop(rshi_lru *t, rshi_lru_entry *e) {
    rshi_lru_take(t, e);
    t->forget(e);
}

void rshi_lru_free(rshi_lru *t) {
    while (t->oldest) rshi_lru_drop(t, t->oldest);
    rshi_free(t->bucket);
    t->bucket = NULL;
}
