/* State dict: an ordered list of names and values. */
#include "nn/state_dict.h"

#include <stdlib.h>
#include <string.h>

#include "nn/impl.h"
#include "nn/module.h"

typedef struct entry {
    char *name;       /* owned */
    rsh_value *value; /* held */
} entry;

struct rsh_state_dict {
    entry *at;
    int64_t n, room;
    /* hash table of the names: index + 1 of an entry; 0: unused slot. It is rebuilt when entries are removed */
    int64_t *slots;
    int64_t nslots; /* 0 or a power of two, at least 2 * n */
};

static uint64_t hash_name(const char *name) {
    uint64_t h = rshn_hash_text(0, name);
    return h ^ h >> 29;
}

/* Returns the slot of a name, or the unused slot for this name. */
static int64_t *slot_of(const rsh_state_dict *d, const char *name) {
    int64_t i = (int64_t)(hash_name(name) & (uint64_t)(d->nslots - 1));
    while (d->slots[i] && strcmp(d->at[d->slots[i] - 1].name, name)) i = (i + 1) & (d->nslots - 1);
    return &d->slots[i];
}

static rsh_status rehash(rsh_state_dict *d, int64_t nslots) {
    int64_t *slots = rshn_calloc((size_t)nslots, sizeof *slots);
    if (!slots) return rshn_fail(RSH_ENOMEM, "out of memory for a state dict of %lld entries", (long long)d->n);
    rshn_free(d->slots);
    d->slots = slots;
    d->nslots = nslots;
    for (int64_t i = 0; i < d->n; i++) *slot_of(d, d->at[i].name) = i + 1;
    return RSH_OK;
}

rsh_status rsh_state_dict_new(rsh_state_dict **out) {
    if (!out) return rshn_fail(RSH_EVALUE, "rsh_state_dict_new: out is NULL");
    rsh_state_dict *d = rshn_calloc(1, sizeof *d);
    if (!d) return rshn_fail(RSH_ENOMEM, "out of memory for a state dict");
    rsh_status st = rehash(d, 16);
    if (st) rshn_free(d);
    else *out = d;
    return st;
}

void rsh_state_dict_free(rsh_state_dict *d) {
    if (!d) return;
    for (int64_t i = 0; i < d->n; i++) {
        rsh_value_free(d->at[i].value);
        rshn_free(d->at[i].name);
    }
    rshn_free(d->slots);
    rshn_free(d->at);
    rshn_free(d);
}

int64_t rsh_state_dict_count(const rsh_state_dict *d) { return d ? d->n : 0; }
static bool in_range(const rsh_state_dict *d, int64_t i) { return d && i >= 0 && i < d->n; }
const char *rsh_state_dict_name(const rsh_state_dict *d, int64_t i) { return in_range(d, i) ? d->at[i].name : NULL; }
rsh_value *rsh_state_dict_value(const rsh_state_dict *d, int64_t i) { return in_range(d, i) ? d->at[i].value : NULL; }

rsh_value *rsh_state_dict_find(const rsh_state_dict *d, const char *name) {
    if (!d || !name) return NULL;
    int64_t found = *slot_of(d, name);
    return found ? d->at[found - 1].value : NULL;
}

rsh_status rsh_state_dict_set(rsh_state_dict *d, const char *name, rsh_value *value) {
    if (!d || !name || !value)
        return rshn_fail(RSH_EVALUE, "rsh_state_dict_set: %s is NULL", !d ? "d" : name ? "value" : "name");
    int64_t found = *slot_of(d, name);
    if (found) {
        rsh_value_hold(value);
        rsh_value_free(d->at[found - 1].value);
        d->at[found - 1].value = value;
        return RSH_OK;
    }
    NN_TRY(RSHN_GROW(d->at, d->n + 1, &d->room));
    if (2 * (d->n + 1) > d->nslots) NN_TRY(rehash(d, 2 * d->nslots));
    char *copy = rshn_duplicate(name);
    if (!copy) return rshn_fail(RSH_ENOMEM, "out of memory for the name \"%s\"", name);
    d->at[d->n] = (entry){copy, rsh_value_hold(value)};
    *slot_of(d, name) = ++d->n;
    return RSH_OK;
}

rsh_status rsh_state_dict_remove(rsh_state_dict *d, const char *name) {
    if (!d || !name) return rshn_fail(RSH_EVALUE, "rsh_state_dict_remove: %s is NULL", d ? "name" : "d");
    int64_t found = *slot_of(d, name) - 1;
    if (found < 0) return rshn_fail(RSH_EKEY, "the state dict has no entry \"%s\"", name);
    entry gone = d->at[found];
    memmove(d->at + found, d->at + found + 1, (size_t)(d->n - found - 1) * sizeof *d->at);
    d->n--;
    memset(d->slots, 0, (size_t)d->nslots * sizeof *d->slots);
    for (int64_t i = 0; i < d->n; i++) *slot_of(d, d->at[i].name) = i + 1;
    rsh_value_free(gone.value);
    rshn_free(gone.name);
    return RSH_OK;
}
