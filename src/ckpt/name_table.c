/* Name table: a hash table with linear probing, at most half full. */
#include "ckpt/name_table.h"

#include <string.h>

typedef struct rshi_name_slot {
    uint64_t hash;
    const char *name; /* NULL: free */
    int64_t number;
} slot;

/* Finds the slot of the name, or the free slot where it would be inserted. */
static slot *find_slot(const rshi_name_table *t, uint64_t hash, const char *name) {
    for (int64_t at = (int64_t)hash & (t->nslots - 1);; at = (at + 1) & (t->nslots - 1)) {
        slot *s = &t->slot[at];
        if (!s->name || (s->hash == hash && !strcmp(s->name, name))) return s;
    }
}

static uint64_t hash_of(const char *name) { return rshi_hash(name, strlen(name), 0); }

int64_t rshi_name_table_find(const rshi_name_table *t, const char *name) {
    const slot *s = t->nslots ? find_slot(t, hash_of(name), name) : NULL;
    return s && s->name ? s->number : -1;
}

static rsh_status grow_table(rshi_name_table *t) {
    rshi_name_table larger = {.nslots = t->nslots ? 2 * t->nslots : 64, .n = t->n};
    if (2 * (t->n + 1) <= t->nslots) return RSH_OK;
    larger.slot = rshi_calloc((size_t)larger.nslots, sizeof *larger.slot);
    if (!larger.slot) return rshi_nomem();
    for (int64_t i = 0; i < t->nslots; i++)
        if (t->slot[i].name) *find_slot(&larger, t->slot[i].hash, t->slot[i].name) = t->slot[i];
    rshi_free(t->slot);
    *t = larger;
    return RSH_OK;
}

rsh_status rshi_name_table_add(rshi_name_table *t, const char *name, int64_t number) {
    uint64_t hash = hash_of(name);
    RSH_TRY(grow_table(t));
    *find_slot(t, hash, name) = (slot){hash, name, number};
    t->n++;
    return RSH_OK;
}

void rshi_name_table_free(rshi_name_table *t) {
    rshi_free(t->slot);
    *t = (rshi_name_table){0};
}
