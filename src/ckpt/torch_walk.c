/* Torch walk: visits the values of a torch.save file and gives them names. */
#include "ckpt/torch_values.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

typedef rshi_pickle_value value;

enum { DEEP = 64 }; /* most levels of nested dicts and lists */

typedef struct walking {
    const rshi_torch_file *s;
    const rshi_torch_visitor *to;
    const char *stem;
    rshi_text name; /* name of the current value; empty: the stem of the file */
    uint64_t visited;
} walking;

static rsh_status walk_value(walking *w, const value *v, int depth);

/* Writes a short description of a non-tensor value. */
static void describe_value(const value *v, char *what, size_t room) {
    switch (v->kind) {
    case RSHI_PICKLE_NONE: snprintf(what, room, "None"); break;
    case RSHI_PICKLE_BOOL: snprintf(what, room, "%s", v->number ? "True" : "False"); break;
    case RSHI_PICKLE_INT: snprintf(what, room, "the integer %" PRId64, v->number); break;
    case RSHI_PICKLE_LONG: snprintf(what, room, "an integer of %u bytes", v->n); break;
    case RSHI_PICKLE_FLOAT: snprintf(what, room, "a float"); break;
    case RSHI_PICKLE_TEXT: snprintf(what, room, "a text of %u bytes", v->n); break;
    case RSHI_PICKLE_BYTES: snprintf(what, room, "%u bytes", v->n); break;
    case RSHI_PICKLE_DICT: snprintf(what, room, "an empty dict"); break;
    case RSHI_PICKLE_TUPLE:
    case RSHI_PICKLE_LIST:
    case RSHI_PICKLE_SET: snprintf(what, room, "a list of %u value%s", v->n, v->n == 1 ? "" : "s"); break;
    default: {
        const value *class = v->kind == RSHI_PICKLE_CLASS ? v : v->n ? v->item[0] : v;
        bool named = class->kind == RSHI_PICKLE_CLASS && class->class == RSHI_CLASS_OPAQUE;
        snprintf(what, room, "a Python object%s%.*s", named ? " of class " : "",
                 named ? (int)(class->n < 100 ? class->n : 100) : 0, named ? class->text : "");
    }
    }
}

static const char *name_of(const walking *w) { return w->name.length ? w->name.data : w->stem; }

static rsh_status report_other(walking *w, const value *v) {
    char what[160];
    describe_value(v, what, sizeof what);
    return w->to->other(w->to->ctx, name_of(w), what);
}

static bool is_container(const value *v) { return v->kind >= RSHI_PICKLE_TUPLE && v->kind <= RSHI_PICKLE_DICT; }

/* Returns whether a value is a list of only numbers and texts.  Such a list is reported as one entry. */
static bool is_simple(const value *v) {
    for (uint32_t i = 0; i < v->n; i++)
        if (is_container(v->item[i]) || v->item[i]->kind == RSHI_PICKLE_OBJECT) return false;
    return true;
}

/* Visits a value whose name is the current name, a dot and `text`. */
static rsh_status walk_named(walking *w, const value *v, int depth, const char *text, size_t n) {
    size_t before = w->name.length;
    rshi_text_add(&w->name, "%s%.*s", before ? "." : "", (int)n, text);
    if (w->name.failed) return rshi_nomem();
    RSH_TRY(walk_value(w, v, depth + 1));
    w->name.length = before;
    w->name.data[before] = 0;
    return RSH_OK;
}

static rsh_status walk_key(walking *w, const value *key, const value *v, int depth) {
    char number[32];
    if (key->kind == RSHI_PICKLE_TEXT) {
        if (memchr(key->text, 0, key->n))
            return rshi_pickle_fail(&w->s->pickle, key, "the key of a dict contains a NUL character");
        return walk_named(w, v, depth, key->text, key->n);
    }
    if (key->kind == RSHI_PICKLE_INT || key->kind == RSHI_PICKLE_BOOL) {
        int n = snprintf(number, sizeof number, "%" PRId64, key->number);
        return walk_named(w, v, depth, number, (size_t)n);
    }
    snprintf(number, sizeof number, "[key at byte %u]", key->at);
    return walk_named(w, v, depth, number, strlen(number));
}

static rsh_status walk_items(walking *w, const value *v, int depth) {
    if (v->kind == RSHI_PICKLE_DICT) {
        for (uint32_t i = 0; i + 1 < v->n; i += 2) RSH_TRY(walk_key(w, v->item[i], v->item[i + 1], depth));
        return RSH_OK;
    }
    for (uint32_t i = 0; i < v->n; i++) {
        char number[16];
        int n = snprintf(number, sizeof number, "%u", i);
        RSH_TRY(walk_named(w, v->item[i], depth, number, (size_t)n));
    }
    return RSH_OK;
}

static rsh_status walk_value(walking *w, const value *v, int depth) {
    const rshi_pickle *p = &w->s->pickle;
    if (++w->visited > (uint64_t)p->length || depth > DEEP)
        return rshi_pickle_fail(
            p, v,
            depth > DEEP ? "dicts and lists are nested more than %d deep"
                         : "values refer to each other too often; the file is damaged or malicious",
            DEEP);
    if (rshi_saved_is_tensor(v) || rshi_torch_is_sharded(v)) return w->to->tensor(w->to->ctx, name_of(w), v);
    if (!is_container(v) || (v->kind != RSHI_PICKLE_DICT && is_simple(v))) return report_other(w, v);
    return walk_items(w, v, depth);
}

rsh_status rshi_torch_walk(const rshi_torch_file *s, const char *stem, const rshi_torch_visitor *to) {
    walking w = {.s = s, .stem = stem, .to = to};
    rsh_status st = walk_value(&w, s->pickle.root, 0);
    rshi_text_free(&w.name);
    return st;
}
