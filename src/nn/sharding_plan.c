/* Sharding plan: lists how parameters, modules and outputs of a tree are sharded. */
#include "nn/sharding_plan.h"

#include <stdlib.h>
#include <string.h>

#include "nn/impl.h"
#include "nn/module.h"

rsh_status rsh_sharding_plan_new(rsh_sharding_plan **out) {
    if (!out) return rshn_fail(RSH_EVALUE, "rsh_sharding_plan_new: out is NULL");
    *out = rshn_calloc(1, sizeof **out);
    return *out ? RSH_OK : rshn_fail(RSH_ENOMEM, "out of memory for a sharding plan");
}

void rsh_sharding_plan_free(rsh_sharding_plan *p) {
    if (!p) return;
    for (int64_t i = 0; i < p->n; i++) {
        rshn_free(p->entry[i].path);
        rsh_spec_free(p->entry[i].spec);
    }
    rshn_free(p->entry);
    rshn_free(p);
}

static rsh_status add_entry(rsh_sharding_plan *p, rshn_entry entry, const char *path) {
    if (!p || !path) return rshn_fail(RSH_EVALUE, "cannot add to a sharding plan: %s is NULL", p ? "path" : "p");
    NN_TRY(RSHN_GROW(p->entry, p->n + 1, &p->room));
    entry.path = rshn_duplicate(path);
    if (!entry.path) return rshn_fail(RSH_ENOMEM, "out of memory for the path \"%s\"", path);
    entry.spec = rsh_spec_hold(entry.spec);
    p->entry[p->n++] = entry;
    return RSH_OK;
}

rsh_status rsh_sharding_plan_add(rsh_sharding_plan *p, const char *path, const rsh_spec *spec,
                                 const rsh_sharder *sharder) {
    rshn_entry entry = {.what = RSHN_ENTRY_SHARD, .spec = (rsh_spec *)(uintptr_t)spec, .has_sharder = sharder != NULL};
    if (sharder) entry.sharder = *sharder;
    return add_entry(p, entry, path);
}

rsh_status rsh_sharding_plan_reshard_output(rsh_sharding_plan *p, const char *path, const rsh_spec *spec) {
    return add_entry(p, (rshn_entry){.what = RSHN_ENTRY_OUTPUT, .spec = (rsh_spec *)(uintptr_t)spec}, path);
}

rsh_status rsh_sharding_plan_return_local(rsh_sharding_plan *p, const char *path) {
    return add_entry(p, (rshn_entry){.what = RSHN_ENTRY_LOCAL}, path);
}

/* ---- checks that do not depend on the module ---- */

bool rshn_path_within(const char *path, const char *module) {
    size_t n = strlen(module);
    return !strncmp(path, module, n) && (!n || path[n] == '.' || !path[n]);
}

static rsh_status check_shard(const rsh_sharding_plan *p, int64_t at) {
    const rshn_entry *e = &p->entry[at];
    if (!e->spec == !e->has_sharder || (e->has_sharder && !e->sharder.shard))
        return rshn_fail(RSH_ETYPE, "sharding plan: \"%s\" must have either a spec or a sharder, got %s", e->path,
                         e->spec ? "both" : "neither");
    for (int64_t i = 0; e->spec && i < p->n; i++)
        if (p->entry[i].has_sharder && rshn_path_within(e->path, p->entry[i].path))
            return rshn_fail(RSH_ERUNTIME,
                             "sharding plan: parameter \"%s\" is inside \"%s\", which has a sharder; "
                             "remove one of them",
                             e->path, p->entry[i].path);
    for (int64_t i = 0; i < at; i++)
        if (p->entry[i].what == RSHN_ENTRY_SHARD && !strcmp(p->entry[i].path, e->path))
            return rshn_fail(RSH_EVALUE, "sharding plan: \"%s\" is listed twice", e->path);
    return RSH_OK;
}

rsh_status rshn_plan_check(const rsh_sharding_plan *p) {
    for (int64_t i = 0; i < p->n; i++) /* checked first, because the root contains all other entries */
        if (p->entry[i].has_sharder && !*p->entry[i].path)
            return rshn_fail(RSH_EKEY, "sharding plan: the root module \"\" cannot have a sharder, because it cannot "
                                       "be replaced");
    for (int64_t i = 0; i < p->n; i++) {
        const rshn_entry *e = &p->entry[i];
        if (e->what == RSHN_ENTRY_SHARD) NN_TRY(check_shard(p, i));
        if (e->what == RSHN_ENTRY_OUTPUT && !e->spec)
            return rshn_fail(RSH_ETYPE, "sharding plan: the output of \"%s\" needs a spec", e->path);
    }
    return RSH_OK;
}
