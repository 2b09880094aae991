/* Pickle values: allocates the values of a pickle, and looks up their fields. */
#include "ckpt/pickle.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

typedef rshi_pickle_value value;

struct rshi_pickle_block {
    struct rshi_pickle_block *next;
    size_t size; /* bytes that follow this head */
};
enum { BLOCK = 65536 - 64, FIELDS_MOST = 64 };

void *rshi_pickle_memory(rshi_pickle *p, size_t bytes) {
    bytes = (bytes + 7) & ~(size_t)7;
    if (!p->block || p->block->size - p->used < bytes) {
        size_t size = bytes > BLOCK ? bytes : BLOCK;
        struct rshi_pickle_block *b = rshi_alloc(sizeof *b + size, 1);
        if (!b) return NULL;
        *b = (struct rshi_pickle_block){p->block, size};
        p->block = b;
        p->used = 0;
    }
    void *at = (char *)(p->block + 1) + p->used;
    p->used += bytes;
    p->total += bytes;
    return at;
}

void rshi_pickle_free(rshi_pickle *p) {
    rshi_free(p->id);
    p->id = NULL;
    while (p->block) {
        struct rshi_pickle_block *next = p->block->next;
        rshi_free(p->block);
        p->block = next;
    }
}

rsh_status rshi_pickle_fail(const rshi_pickle *p, const value *v, const char *format, ...) {
    char sentence[RSHI_DETAIL_BYTES - 200];
    va_list list;
    va_start(list, format);
    vsnprintf(sentence, sizeof sentence, format, list);
    va_end(list);
    return rshi_fail(RSH_EVALUE, "%.150s: byte %" PRIu64 ": %s", p->file, p->base + (v ? v->at : 0), sentence);
}

/* ---- lookup ---- */

bool rshi_pickle_is(const value *v, rshi_pickle_class class) {
    return v && v->kind == RSHI_PICKLE_OBJECT && v->class == class;
}

bool rshi_pickle_is_class(const value *v, rshi_pickle_class class) {
    return v && v->kind == RSHI_PICKLE_CLASS && v->class == class;
}

bool rshi_pickle_text_is(const value *v, const char *text) {
    size_t n = strlen(text);
    return v && v->kind == RSHI_PICKLE_TEXT && v->n == n && !memcmp(v->text, text, n);
}

/* Finds a key in the state of an object.  Many objects may share one state, and searching a long one for each of them
 * would be slow, so a state of more than FIELDS_MOST fields is treated as empty. */
static const value *find_in(const value *dict, const char *name) {
    if (dict->kind != RSHI_PICKLE_DICT || dict->n > 2 * FIELDS_MOST) return NULL;
    for (uint32_t i = 0; i + 1 < dict->n; i += 2)
        if (rshi_pickle_text_is(dict->item[i], name)) return dict->item[i + 1];
    return NULL;
}

const value *rshi_pickle_get(const value *dict, const char *key) {
    for (uint32_t i = 0; dict && dict->kind == RSHI_PICKLE_DICT && i + 1 < dict->n; i += 2)
        if (rshi_pickle_text_is(dict->item[i], key)) return dict->item[i + 1];
    return NULL;
}

const value *rshi_pickle_field(const value *object, const char *name) {
    bool known = object && object->kind == RSHI_PICKLE_OBJECT && object->class != RSHI_CLASS_OPAQUE;
    if (!known || object->n != 1) return NULL;
    const value *state = object->item[0], *found = NULL;
    if (state->kind != RSHI_PICKLE_TUPLE) return find_in(state, name);
    for (uint32_t i = 0; i < state->n && i < 2 && !found; i++) found = find_in(state->item[i], name);
    return found;
}

rsh_status rshi_pickle_sizes(const rshi_pickle *p, const value *v, const char *what, int *n, int64_t *sizes) {
    if (!v || (v->kind != RSHI_PICKLE_TUPLE && v->kind != RSHI_PICKLE_LIST))
        return rshi_pickle_fail(p, v, "%s must be a list of non-negative integers", what);
    if (v->n > RSH_MAX_NDIM)
        return rshi_fail(RSH_EUNSUP, "%.150s: byte %" PRIu64 ": %s has %u dims; at most %d are supported", p->file,
                         p->base + v->at, what, v->n, RSH_MAX_NDIM);
    *n = (int)v->n;
    for (uint32_t i = 0; i < v->n; i++) {
        if (v->item[i]->kind != RSHI_PICKLE_INT || v->item[i]->number < 0)
            return rshi_pickle_fail(p, v, "%s must be a list of non-negative integers", what);
        sizes[i] = v->item[i]->number;
    }
    return RSH_OK;
}
