/* Model state: collects all values of a model checkpoint under their names in the files. */
#include "nn/model_state.h"

#include <stdio.h>
#include <string.h>

#include "nn/impl.h"
#include "nn/module.h"
#include "nn/state_dict.h"

/* ---- tied parameters ---- */

typedef struct naming {
    rshn_seen seen;
    rshn_tied *aliases;
    struct {
        const rsh_value *value;
        char *path; /* owned */
    } *first;
    int64_t n, room;
} naming;

static rsh_status add_alias(naming *w, const char *path, const rsh_value *v) {
    rshn_tied *a = w->aliases;
    int64_t i = 0;
    while (w->first[i].value != v) i++;
    NN_TRY(RSHN_GROW(a->at, a->n + 1, &a->room));
    rshn_tied_path one = {rshn_duplicate(path), rshn_duplicate(w->first[i].path)};
    a->at[a->n++] = one; /* freed with the others if memory has run out */
    return one.path && one.first ? RSH_OK : rshn_fail(RSH_ENOMEM, "out of memory for the path \"%s\"", path);
}

static rsh_status note_path(void *ctx, const char *path, rsh_module *owner, const char *name, rsh_value *v) {
    naming *w = ctx;
    bool was = false;
    (void)owner, (void)name;
    NN_TRY(rshn_seen_add(&w->seen, v, &was));
    if (was) return add_alias(w, path, v);
    NN_TRY(RSHN_GROW(w->first, w->n + 1, &w->room));
    char *copy = rshn_duplicate(path);
    if (!copy) return rshn_fail(RSH_ENOMEM, "out of memory for the path \"%s\"", path);
    w->first[w->n].value = v;
    w->first[w->n++].path = copy;
    return RSH_OK;
}

rsh_status rshn_tied_of(rsh_module *m, rshn_tied *out) {
    naming w = {.aliases = out};
    *out = (rshn_tied){0};
    rsh_status st = rsh_module_each_parameter(m, true, note_path, &w);
    for (int64_t i = 0; i < w.n; i++) rshn_free(w.first[i].path);
    rshn_free(w.first);
    rshn_seen_free(&w.seen);
    return st;
}

const char *rshn_tied_first(const rshn_tied *a, const char *path) {
    for (int64_t i = 0; i < a->n; i++)
        if (!strcmp(a->at[i].path, path)) return a->at[i].first;
    return path;
}

void rshn_tied_end(rshn_tied *a) {
    for (int64_t i = 0; i < a->n; i++) {
        rshn_free(a->at[i].path);
        rshn_free(a->at[i].first);
    }
    rshn_free(a->at);
}

/* ---- names ---- */

static bool begins_with(const char *text, const char *prefix) { return !strncmp(text, prefix, strlen(prefix)); }

static rsh_status copy_model(const rsh_state_dict *from, const rshn_tied *tied, rsh_state_dict *out) {
    for (int64_t i = 0; i < rsh_state_dict_count(from); i++) {
        const char *name = rsh_state_dict_name(from, i);
        if (begins_with(name, RSHN_OPTIMIZER_PREFIX) || begins_with(name, RSHN_EXTRA_PREFIX))
            return rshn_fail(RSH_EKEY,
                             "path \"%s\" must not begin with \"optimizer.\" or \"extra.\", which "
                             "checkpoints reserve; rename the module",
                             name);
        if (strcmp(rshn_tied_first(tied, name), name)) continue;
        NN_TRY(rsh_state_dict_set(out, name, rsh_state_dict_value(from, i)));
    }
    return RSH_OK;
}

static rsh_status check_filled(void *ctx, const char *path, rsh_module *m) {
    (void)ctx;
    for (int64_t i = 0; i < m->nslots; i++)
        if (m->slot[i].init)
            return rshn_fail(RSH_ERUNTIME,
                             "parameter \"%s\" of module \"%s\" is still deferred; call "
                             "rsh_module_materialize first",
                             m->slot[i].name, path);
    return RSH_OK;
}

rsh_status rshn_model_state(rsh_module *m, rsh_state_dict *out) {
    rsh_state_dict *all = NULL;
    rshn_tied tied = {0};
    NN_TRY(rsh_module_each_module(m, check_filled, NULL));
    rsh_status st = rsh_module_state_dict(m, &all);
    if (!st) st = rshn_tied_of(m, &tied);
    if (!st) st = copy_model(all, &tied, out);
    rshn_tied_end(&tied);
    rsh_state_dict_free(all);
    return st;
}

rsh_status rshn_prefixed_state(const rsh_state_dict *from, const char *prefix, rsh_state_dict *out) {
    char name[1300];
    for (int64_t i = 0; i < rsh_state_dict_count(from); i++) {
        const char *own = rsh_state_dict_name(from, i);
        if (snprintf(name, sizeof name, "%s%s", prefix, own) >= (int)sizeof name)
            return rshn_fail(RSH_EVALUE, "name \"%.100s...\" is too long for a checkpoint; shorten the path", own);
        NN_TRY(rsh_state_dict_set(out, name, rsh_state_dict_value(from, i)));
    }
    return RSH_OK;
}
