/* Walk: visits the modules, parameters and buffers of a tree. */
#include "nn/module.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nn/impl.h"

/* ---- sets of visited objects ---- */

static int64_t home_of(const rshn_seen *s, const void *p) {
    uint64_t h = (uint64_t)(uintptr_t)p * 0x9e3779b97f4a7c15u;
    int64_t i = (int64_t)(h >> 20) & (s->room - 1);
    while (s->at[i] && s->at[i] != p) i = (i + 1) & (s->room - 1);
    return i;
}

static rsh_status grow_seen(rshn_seen *s) {
    rshn_seen more = {.room = s->room ? 2 * s->room : 32};
    more.at = rshn_calloc((size_t)more.room, sizeof *more.at);
    if (!more.at) return rshn_fail(RSH_ENOMEM, "out of memory: cannot walk over %lld modules", (long long)more.room);
    for (int64_t i = 0; i < s->room; i++)
        if (s->at[i]) more.at[home_of(&more, s->at[i])] = s->at[i];
    more.n = s->n;
    rshn_free(s->at);
    *s = more;
    return RSH_OK;
}

rsh_status rshn_seen_add(rshn_seen *s, const void *p, bool *was) {
    if (2 * s->n >= s->room) NN_TRY(grow_seen(s));
    const void **at = &s->at[home_of(s, p)];
    *was = *at == p;
    s->n += !*was;
    *at = p;
    return RSH_OK;
}

bool rshn_seen_has(const rshn_seen *s, const void *p) { return s->room && s->at[home_of(s, p)] == p; }

void rshn_seen_free(rshn_seen *s) { rshn_free(s->at); }

/* ---- the path of the current module ---- */

typedef struct walk {
    char *path;
    int64_t room;
    rshn_seen seen;
    bool children_first, repeats;
    rsh_module_fn fn;
    void *ctx;
} walk;

/* Appends a name; *length is the length of the path before and after. */
static rsh_status append_name(walk *w, const char *name, int64_t *length) {
    int64_t bytes = (int64_t)strlen(name), dot = *length > 0;
    NN_TRY(RSHN_GROW(w->path, *length + dot + bytes + 1, &w->room));
    if (dot) w->path[*length] = '.';
    memcpy(w->path + *length + dot, name, (size_t)bytes + 1);
    *length += dot + bytes;
    return RSH_OK;
}

static rsh_status visit_module(walk *w, rsh_module *m, int64_t length);

static rsh_status visit_children(walk *w, rsh_module *m, int64_t length) {
    for (int64_t i = 0; i < m->nslots; i++) {
        if (!m->slot[i].child) continue;
        int64_t longer = length;
        NN_TRY(append_name(w, m->slot[i].name, &longer));
        NN_TRY(visit_module(w, m->slot[i].child, longer));
        w->path[length] = 0;
    }
    return RSH_OK;
}

static rsh_status visit_module(walk *w, rsh_module *m, int64_t length) {
    bool was = false;
    NN_TRY(rshn_seen_add(&w->seen, m, &was));
    if (was && !w->repeats) return RSH_OK;
    if (w->children_first) NN_TRY(visit_children(w, m, length));
    NN_TRY(w->fn(w->ctx, w->path, m));
    if (!w->children_first) NN_TRY(visit_children(w, m, length));
    return RSH_OK;
}

static rsh_status run_walk(rsh_module *m, walk *w) {
    if (!m || !w->fn) return rshn_fail(RSH_EVALUE, "cannot walk over the modules: %s is NULL", m ? "fn" : "m");
    rsh_status st = RSHN_GROW(w->path, 64, &w->room);
    if (!st) {
        *w->path = 0;
        st = visit_module(w, m, 0);
    }
    rshn_free(w->path);
    rshn_seen_free(&w->seen);
    return st;
}

rsh_status rsh_module_each_module(rsh_module *m, rsh_module_fn fn, void *ctx) {
    return run_walk(m, &(walk){.fn = fn, .ctx = ctx});
}

rsh_status rsh_module_apply(rsh_module *m, rsh_module_fn fn, void *ctx) {
    return run_walk(m, &(walk){.fn = fn, .ctx = ctx, .children_first = true});
}

/* ---- values ---- */

typedef struct value_walk {
    rshn_slot_kind kind;
    bool tied;
    rshn_seen seen;
    rsh_value_fn fn;
    void *ctx;
} value_walk;

static rsh_status visit_value(value_walk *w, const char *path, rsh_module *m, const rshn_slot *slot) {
    bool was = false;
    NN_TRY(rshn_seen_add(&w->seen, slot->value, &was));
    if (was && !w->tied) return RSH_OK;
    size_t before = strlen(path), bytes = before + strlen(slot->name) + 2;
    char *whole = rshn_malloc(bytes);
    if (!whole) return rshn_fail(RSH_ENOMEM, "out of memory for the path of \"%s\"", slot->name);
    snprintf(whole, bytes, "%s%s%s", path, before ? "." : "", slot->name);
    rsh_status st = w->fn(w->ctx, whole, m, slot->name, slot->value);
    rshn_free(whole);
    return st;
}

static rsh_status visit_values(void *ctx, const char *path, rsh_module *m) {
    value_walk *w = ctx;
    for (int64_t i = 0; i < m->nslots; i++)
        if (m->slot[i].kind == w->kind && m->slot[i].value) NN_TRY(visit_value(w, path, m, &m->slot[i]));
    return RSH_OK;
}

static rsh_status walk_values(rsh_module *m, value_walk *w) {
    if (!w->fn) return rshn_fail(RSH_EVALUE, "cannot walk over the values: fn is NULL");
    rsh_status st = run_walk(m, &(walk){.fn = visit_values, .ctx = w, .repeats = w->tied});
    rshn_seen_free(&w->seen);
    return st;
}

rsh_status rsh_module_each_parameter(rsh_module *m, bool tied, rsh_value_fn fn, void *ctx) {
    return walk_values(m, &(value_walk){.kind = RSHN_PARAMETER, .tied = tied, .fn = fn, .ctx = ctx});
}

rsh_status rsh_module_each_buffer(rsh_module *m, rsh_value_fn fn, void *ctx) {
    return walk_values(m, &(value_walk){.kind = RSHN_BUFFER, .fn = fn, .ctx = ctx});
}

/* ---- changes of a whole tree ---- */

void rsh_module_train(rsh_module *m, bool training) {
    if (!m) return;
    m->training = training;
    for (int64_t i = 0; i < m->nslots; i++) rsh_module_train(m->slot[i].child, training);
}

static rsh_status check_can_require_grad(void *ctx, const char *path, rsh_module *owner, const char *name,
                                         rsh_value *v) {
    (void)ctx, (void)owner, (void)name;
    if (rsh_value_dtype(v) == RSH_F32 || rsh_value_dtype(v) == RSH_F64) return RSH_OK;
    return rshn_fail(RSH_ETYPE, "parameter \"%s\" must be f32 or f64 to require a gradient, got %s", path,
                     rsh_dtype_name(rsh_value_dtype(v)));
}

static rsh_status set_requires_grad(void *ctx, const char *path, rsh_module *owner, const char *name, rsh_value *v) {
    (void)path, (void)owner, (void)name;
    return rsh_value_set_requires_grad(v, *(const bool *)ctx);
}

rsh_status rsh_module_require_grad(rsh_module *m, bool requires_grad) {
    if (requires_grad) NN_TRY(rsh_module_each_parameter(m, false, check_can_require_grad, NULL));
    return rsh_module_each_parameter(m, false, set_requires_grad, &requires_grad);
}

static rsh_status drop_grad(void *ctx, const char *path, rsh_module *owner, const char *name, rsh_value *v) {
    (void)ctx, (void)path, (void)owner, (void)name;
    return rsh_value_set_grad(v, NULL);
}

rsh_status rsh_module_zero_grad(rsh_module *m) { return rsh_module_each_parameter(m, false, drop_grad, NULL); }
