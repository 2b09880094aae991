/* Shard module: applies a plan to a tree, completely or not at all.
 *
 * First all new values are created outside of the tree: parameters are cut, and sharders create their modules.  When
 * all ranks have succeeded, these are installed.  Installing can only fail if there is no memory for hooks. */
#include <stdlib.h>
#include <string.h>

#include "nn/impl.h"
#include "nn/module.h"
#include "nn/shard_parameter.h"
#include "nn/sharding_plan.h"

/* The result of one entry of the plan. */
typedef struct change {
    rsh_module *owner; /* borrowed */
    const char *name;  /* borrowed from the plan */
    rsh_value *old;    /* borrowed: the whole parameter */
    rsh_value *cut;    /* owned: the new, cut parameter */
    rsh_module *made;  /* owned: the new module */
} change;

typedef struct work {
    rsh_module *root;
    const rsh_sharding_plan *plan;
    int src_rank;
    rsh_group *group;
    change *at;        /* [entries of the plan] */
    rshn_ranks *ranks; /* owned: ranks of the group */
} work;

/* ---- checking ---- */

static rsh_status find_targets(work *w) {
    for (int64_t i = 0; i < w->plan->n; i++) {
        const rshn_entry *e = &w->plan->entry[i];
        change *c = &w->at[i];
        if (e->what != RSHN_ENTRY_SHARD) NN_TRY(rsh_module_submodule(w->root, e->path, &c->owner));
        else NN_TRY(rsh_module_owner(w->root, e->path, &c->owner, &c->name));
        if (e->what == RSHN_ENTRY_SHARD && e->spec) NN_TRY(rshn_find_parameter(c->owner, c->name, &c->old));
        rsh_module *child = NULL;
        if (e->has_sharder) NN_TRY(rsh_module_submodule(w->root, e->path, &child));
    }
    return RSH_OK;
}

/* Hashes the plan to check that all ranks will make the same calls.  Specs are compared when they are used. */
static uint64_t fingerprint(const rsh_sharding_plan *p) {
    uint64_t h = 0;
    for (int64_t i = 0; i < p->n; i++) {
        int kind[] = {(int)p->entry[i].what, p->entry[i].has_sharder};
        h = rshn_hash(rshn_hash_text(h, p->entry[i].path), kind, sizeof kind);
    }
    return h;
}

static rsh_status agree_on_plan(const work *w) {
    uint64_t mine = fingerprint(w->plan);
    int other = 0;
    NN_TRY(rshn_ranks_compare(rsh_group_comm(w->group), RSH_OK, &mine, sizeof mine, &other));
    return other ? rshn_fail(RSH_EVALUE,
                             "the sharding plan of rank %d differs from that of rank 0; all ranks must "
                             "pass the same plan",
                             other)
                 : RSH_OK;
}

static rsh_status check_plan(work *w) {
    if (!w->root || !w->plan) return rshn_fail(RSH_EVALUE, "rsh_shard_module: %s is NULL", w->root ? "plan" : "m");
    NN_TRY(rshn_plan_check(w->plan));
    w->at = rshn_calloc((size_t)w->plan->n + 1, sizeof *w->at);
    if (!w->at) return rshn_fail(RSH_ENOMEM, "out of memory for a plan of %lld entries", (long long)w->plan->n);
    NN_TRY(rshn_ranks_of(w->group, &w->ranks));
    return find_targets(w);
}

/* ---- creating ---- */

static rsh_status run_sharder(const work *w, const rshn_entry *e, change *c) {
    rsh_module *old = NULL;
    NN_TRY(rsh_module_submodule(w->root, e->path, &old));
    NN_TRY(e->sharder.shard(e->sharder.ctx, old, &c->made));
    if (c->made && c->made != old) return RSH_OK;
    if (c->made) rsh_module_free(c->made);
    c->made = NULL;
    return rshn_fail(RSH_EVALUE,
                     "the sharder of \"%s\" must return a new module, but it returned none or the old "
                     "one",
                     e->path);
}

static rsh_status create_all(const work *w) {
    for (int64_t i = 0; i < w->plan->n; i++) {
        const rshn_entry *e = &w->plan->entry[i];
        change *c = &w->at[i];
        rsh_status st = RSH_OK;
        if (e->what != RSHN_ENTRY_SHARD) continue;
        if (e->spec) st = rshn_shard_value(c->old, e->spec, w->src_rank, w->group, &c->cut);
        else st = run_sharder(w, e, c);
        NN_TRY(rshn_group_agree(w->group, st));
    }
    return RSH_OK;
}

/* ---- installing ---- */

static rsh_status add_hooks(const work *w, int64_t *added, int64_t *ids) {
    for (int64_t i = 0; i < w->plan->n; i++) {
        const rshn_entry *e = &w->plan->entry[i];
        if (e->what == RSHN_ENTRY_SHARD) continue;
        rsh_module *m = w->at[i].owner;
        ids[i] = m->next_hook;
        NN_TRY(e->what == RSHN_ENTRY_OUTPUT ? rsh_reshard_output(m, e->spec) : rsh_collect_local_shard(m));
        *added = i + 1;
    }
    return RSH_OK;
}

static void remove_hooks(const work *w, int64_t added, const int64_t *ids) {
    for (int64_t i = 0; i < added; i++)
        if (w->plan->entry[i].what != RSHN_ENTRY_SHARD) rsh_module_remove_hook(w->at[i].owner, ids[i]);
}

/* Installs everything.  All names and slots exist, so nothing here can fail.  Output hooks of a replaced module stay
 * with the old module. */
static void install_changes(const work *w) {
    for (int64_t i = 0; i < w->plan->n; i++) {
        change *c = &w->at[i];
        if (c->made) {
            rshn_slot *s = rshn_slot_find(c->owner, c->name);
            rsh_module_free(s->child);
            s->child = c->made;
            c->made = NULL;
        }
        if (!c->cut) continue;
        rsh_value *old = rsh_value_hold(c->old); /* the tree drops its references to the old value one by one */
        rshn_slots_exchange(w->root, old, c->cut, w->ranks);
        rsh_value_free(old);
    }
}

/* Moves output hooks of a module that a sharder replaces to the new module. */
static rsh_status retarget_hooks(const work *w) {
    for (int64_t i = 0; i < w->plan->n; i++) {
        const rshn_entry *e = &w->plan->entry[i];
        for (int64_t j = 0; e->what != RSHN_ENTRY_SHARD && j < w->plan->n; j++) {
            const rshn_entry *s = &w->plan->entry[j];
            if (!w->at[j].made || !rshn_path_within(e->path, s->path)) continue;
            size_t n = strlen(s->path);
            NN_TRY(rsh_module_submodule(w->at[j].made, e->path + n + (e->path[n] == '.'), &w->at[i].owner));
        }
    }
    return RSH_OK;
}

static rsh_status install_plan(const work *w) {
    int64_t added = 0, *ids = rshn_calloc((size_t)w->plan->n + 1, sizeof *ids);
    rsh_status st = ids ? retarget_hooks(w) : rshn_fail(RSH_ENOMEM, "out of memory for the hooks of a plan");
    if (!st) st = add_hooks(w, &added, ids);
    st = rshn_group_agree(w->group, st);
    if (!st)
        install_changes(w);
    else if (ids) remove_hooks(w, added, ids);
    rshn_free(ids);
    return st;
}

rsh_status rsh_shard_module(rsh_module *m, const rsh_sharding_plan *plan, int src_rank, rsh_group *group) {
    work w = {m, plan, src_rank, group, NULL, NULL};
    bool member = rsh_group_rank(group) >= 0;
    rsh_status st = rshn_group_agree(group, member ? check_plan(&w) : RSH_OK);
    if (!st && member) st = agree_on_plan(&w);
    if (!st && member) st = create_all(&w);
    if (!st && member) st = install_plan(&w);
    for (int64_t i = 0; w.at && i < plan->n; i++) {
        rsh_value_free(w.at[i].cut);
        rsh_module_free(w.at[i].made);
    }
    rshn_free(w.at);
    rshn_ranks_drop(w.ranks);
    return st;
}

rsh_status rsh_shard_module_with_planner(rsh_module *m, const rsh_sharding_planner *planner, int src_rank,
                                         rsh_group *group) {
    rsh_sharding_plan *plan = NULL;
    rsh_status st = planner && planner->build_plan ? RSH_OK
                                                   : rshn_fail(RSH_EVALUE, "rsh_shard_module_with_planner: "
                                                                           "planner or its build_plan is "
                                                                           "NULL");
    if (!st && rsh_group_rank(group) >= 0) st = planner->build_plan(planner->ctx, m, &plan);
    st = rshn_group_agree(group, st);
    if (!st) st = rsh_shard_module(m, plan, src_rank, group);
    rsh_sharding_plan_free(plan);
    return st;
}
