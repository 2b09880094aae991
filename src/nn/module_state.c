/* Module state: creates the state dict of a tree, and loads one. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nn/impl.h"
#include "nn/module.h"
#include "nn/state_dict.h"

typedef struct prefix {
    char text[1024]; /* path of the current module, with a trailing dot, or "" */
} prefix;

static rsh_status extend_prefix(const prefix *before, const char *name, prefix *out) {
    int n = snprintf(out->text, sizeof out->text, "%s%s.", before->text, name);
    if (n < (int)sizeof out->text) return RSH_OK;
    return rshn_fail(RSH_EVALUE, "path \"%s%s\" is too long, at most %zu bytes", before->text, name,
                     sizeof out->text - 2);
}

static rsh_status run_hooks(rsh_module *m, rshn_hook_kind kind, rsh_state_dict *d, const prefix *at) {
    for (int64_t i = 0; i < m->nhooks; i++)
        if (m->hook[i].kind == kind) NN_TRY(((rsh_state_hook_fn)m->hook[i].fn)(m->hook[i].ctx, m, d, at->text));
    return RSH_OK;
}

static bool is_state(const rshn_slot *s) { return s->value && (s->kind == RSHN_PARAMETER || s->persistent); }

/* Writes the name of an entry, which has no trailing dot. */
static rsh_status entry_name(const prefix *at, const rshn_slot *s, prefix *out) {
    NN_TRY(extend_prefix(at, s->name, out));
    out->text[strlen(out->text) - 1] = 0;
    return RSH_OK;
}

/* ---- saving ---- */

static rsh_status add_value(const prefix *at, const rshn_slot *s, rsh_state_dict *d) {
    prefix name;
    rsh_value *shared = NULL;
    NN_TRY(entry_name(at, s, &name));
    NN_TRY(rshn_share_value(s->value, &shared));
    rsh_status st = rsh_state_dict_set(d, name.text, shared);
    rsh_value_free(shared);
    return st;
}

static rsh_status collect_values(rsh_module *m, const prefix *at, rsh_state_dict *d) {
    for (int64_t i = 0; i < m->nslots; i++)
        if (is_state(&m->slot[i])) NN_TRY(add_value(at, &m->slot[i], d));
    for (int64_t i = 0; i < m->nslots; i++) {
        prefix below;
        if (!m->slot[i].child) continue;
        NN_TRY(extend_prefix(at, m->slot[i].name, &below));
        NN_TRY(collect_values(m->slot[i].child, &below, d));
    }
    return run_hooks(m, RSHN_STATE, d, at);
}

rsh_status rsh_module_state_dict(rsh_module *m, rsh_state_dict **out) {
    if (!m || !out) return rshn_fail(RSH_EVALUE, "rsh_module_state_dict: %s is NULL", m ? "out" : "m");
    rsh_state_dict *d = NULL;
    NN_TRY(rsh_state_dict_new(&d));
    rsh_status st = collect_values(m, &(prefix){""}, d);
    if (st) rsh_state_dict_free(d);
    else *out = d;
    return st;
}

/* ---- loading ---- */

typedef struct loading {
    rsh_state_dict *d;
    unsigned flags;
    char *used;        /* [entries]: whether a parameter uses the entry */
    char missing[512]; /* names, for the error message */
    rsh_comm *comm;    /* comm of the first distributed parameter; NULL: none so far */
    rsh_status (*step)(struct loading *l, const char *name, rsh_value *from, rsh_value *to);
} loading;

static rsh_status check_step(loading *l, const char *name, rsh_value *from, rsh_value *to) {
    if (!l->comm) l->comm = rsh_value_comm(to);
    size_t used = strlen(l->missing);
    if (!from) snprintf(l->missing + used, sizeof l->missing - used, "%s\"%s\"", used ? ", " : "", name);
    return from ? rshn_check_copy(name, from, to) : RSH_OK;
}

static rsh_status copy_step(loading *l, const char *name, rsh_value *from, rsh_value *to) {
    (void)l, (void)name;
    return from ? rshn_copy_value(from, to) : RSH_OK;
}

static void mark_used(loading *l, const rsh_value *from) {
    for (int64_t i = 0; from && i < rsh_state_dict_count(l->d); i++)
        if (rsh_state_dict_value(l->d, i) == from) l->used[i] = 1;
}

static rsh_status visit_slots(loading *l, rsh_module *m, const prefix *at) {
    for (int64_t i = 0; i < m->nslots; i++) {
        prefix name;
        if (!is_state(&m->slot[i])) continue;
        NN_TRY(entry_name(at, &m->slot[i], &name));
        rsh_value *from = rsh_state_dict_find(l->d, name.text);
        if (l->used) mark_used(l, from);
        NN_TRY(l->step(l, name.text, from, m->slot[i].value));
    }
    for (int64_t i = 0; i < m->nslots; i++) {
        prefix below;
        if (!m->slot[i].child) continue;
        NN_TRY(extend_prefix(at, m->slot[i].name, &below));
        NN_TRY(visit_slots(l, m->slot[i].child, &below));
    }
    return RSH_OK;
}

static rsh_status run_load_hooks(rsh_module *m, const prefix *at, rsh_state_dict *d) {
    NN_TRY(run_hooks(m, RSHN_LOAD, d, at));
    for (int64_t i = 0; i < m->nslots; i++) {
        prefix below;
        if (!m->slot[i].child) continue;
        NN_TRY(extend_prefix(at, m->slot[i].name, &below));
        NN_TRY(run_load_hooks(m->slot[i].child, &below, d));
    }
    return RSH_OK;
}

static rsh_status check_names(const loading *l) {
    char extra[512] = "";
    for (int64_t i = 0; i < rsh_state_dict_count(l->d); i++) {
        size_t used = strlen(extra);
        if (!l->used[i])
            snprintf(extra + used, sizeof extra - used, "%s\"%s\"", used ? ", " : "", rsh_state_dict_name(l->d, i));
    }
    if ((l->flags & RSH_LOAD_NONSTRICT) || (!*extra && !*l->missing)) return RSH_OK;
    return rshn_fail(RSH_ERUNTIME,
                     "the state dict does not match the module: missing %s; unexpected %s; use "
                     "RSH_LOAD_NONSTRICT to ignore this",
                     *l->missing ? l->missing : "nothing", *extra ? extra : "nothing");
}

static rsh_status check_all(loading *l, rsh_module *m) {
    l->used = rshn_calloc((size_t)rsh_state_dict_count(l->d) + 1, 1);
    if (!l->used) return rshn_fail(RSH_ENOMEM, "out of memory: cannot load a state dict");
    l->step = check_step;
    rsh_status st = visit_slots(l, m, &(prefix){""});
    if (!st) st = check_names(l);
    rshn_free(l->used);
    l->used = NULL;
    return st;
}

static rsh_status find_comm(void *ctx, const char *path, rsh_module *owner, const char *name, rsh_value *v) {
    (void)path, (void)owner, (void)name;
    rsh_comm **comm = ctx;
    if (!*comm) *comm = rsh_value_comm(v);
    return RSH_OK;
}

rsh_status rshn_module_load_state(rsh_module *m, rsh_state_dict *d, unsigned flags, rsh_comm *comm) {
    loading l = {.d = d, .flags = flags};
    rsh_status st = d ? RSH_OK : rshn_fail(RSH_EVALUE, "rsh_module_load_state_dict: d is NULL");
    if (!st) st = run_load_hooks(m, &(prefix){""}, d);
    if (!st) st = check_all(&l, m);
    if (comm) st = rsh_comm_agree(comm, st);
    if (st) return st;
    l.step = copy_step;
    return visit_slots(&l, m, &(prefix){""});
}

rsh_status rsh_module_load_state_dict(rsh_module *m, rsh_state_dict *d, unsigned flags) {
    if (!m) return rshn_fail(RSH_EVALUE, "rsh_module_load_state_dict: m is NULL");
    rsh_comm *comm = NULL; /* find the comm first, so that a rank that fails can tell the others */
    NN_TRY(rsh_module_each_parameter(m, true, find_comm, &comm));
    return rshn_module_load_state(m, d, flags, comm);
}

/* ---- hooks ---- */

static rsh_status add_hook(rsh_module *m, rshn_hook_kind kind, rsh_state_hook_fn fn, void *ctx, void (*drop)(void *),
                           int64_t *id) {
    return rshn_hook_add(m, &(rshn_hook){.kind = kind, .fn = (void (*)(void))fn, .ctx = ctx, .drop = drop}, id);
}

rsh_status rsh_module_add_state_hook(rsh_module *m, rsh_state_hook_fn fn, void *ctx, void (*drop)(void *ctx),
                                     int64_t *id) {
    return add_hook(m, RSHN_STATE, fn, ctx, drop, id);
}

rsh_status rsh_module_add_load_hook(rsh_module *m, rsh_state_hook_fn fn, void *ctx, void (*drop)(void *ctx),
                                    int64_t *id) {
    return add_hook(m, RSHN_LOAD, fn, ctx, drop, id);
}
