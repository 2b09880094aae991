/* Tree change: creates DTensors outside of a tree, and installs them and their hooks when all ranks have succeeded. */
#include "nn/tree_change.h"

#include <string.h>

#include "nn/deferred_init.h"
#include "nn/impl.h"

/* ---- planning ---- */

void rshn_change_mix(rshn_tree_change *c, const void *data, size_t bytes) {
    c->print = rshn_hash(c->print, data, bytes);
}

static rsh_status check_places(const rshn_tree_change *c, const char *path, int ndim, const rsh_place *are,
                               const rsh_place *places, const char *why) {
    if (rsh_places_equal(ndim, rsh_mesh_ndim(c->mesh), are, places)) return RSH_OK;
    return rshn_fail(RSH_EVALUE, "\"%s\" %s with different placements; all uses must agree", path, why);
}

/* Checks a value that is already distributed: it must be distributed in the same way. */
static rsh_status check_distributed(const rshn_tree_change *c, const char *path, const rsh_value *v,
                                    const rsh_place *places) {
    rsh_mesh *mesh = rsh_dtensor_mesh(v);
    rsh_place are[RSH_MAX_AXES];
    if (!mesh || !rsh_mesh_equal(mesh, c->mesh))
        return rshn_fail(RSH_EVALUE, "cannot distribute \"%s\": it is already distributed, %s", path,
                         mesh ? "on another mesh" : "and is not a DTensor");
    NN_TRY(rsh_dtensor_places(v, are));
    return check_places(c, path, rsh_value_ndim(v), are, places, "is already a DTensor");
}

rsh_status rshn_change_value(rshn_tree_change *c, const char *path, rsh_value *v, const rsh_place *places) {
    size_t bytes = (size_t)rsh_mesh_ndim(c->mesh) * sizeof *places;
    rshn_change_mix(c, path, strlen(path) + 1);
    for (int i = 0; i < rsh_mesh_ndim(c->mesh); i++)
        rshn_change_mix(c, (const int[]){(int)places[i].kind, places[i].dim, (int)places[i].op}, 3 * sizeof(int));
    if (rsh_value_sharded(v)) return check_distributed(c, path, v, places);
    for (int64_t i = 0; i < c->nplaces; i++)
        if (c->place[i].old == v)
            return check_places(c, path, rsh_value_ndim(v), c->place[i].places, places, "is tied to a parameter");
    NN_TRY(RSHN_GROW(c->place, c->nplaces + 1, &c->place_room));
    rshn_new_place *p = &c->place[c->nplaces++];
    *p = (rshn_new_place){.old = rsh_value_hold(v), .empty = rshn_is_deferred(v)};
    memcpy(p->places, places, bytes);
    return RSH_OK;
}

rsh_status rshn_change_hook(rshn_tree_change *c, rsh_module *m, rshn_hook hook) {
    rsh_status st = RSHN_GROW(c->hook, c->nhooks + 1, &c->hook_room);
    rshn_change_mix(c, &hook.kind, sizeof hook.kind);
    if (st && hook.drop) hook.drop(hook.ctx);
    if (!st) c->hook[c->nhooks++] = (rshn_new_hook){.m = m, .hook = hook};
    return st;
}

void rshn_change_end(rshn_tree_change *c) {
    for (int64_t i = 0; i < c->nplaces; i++) {
        rsh_value_free(c->place[i].old);
        rsh_value_free(c->place[i].made);
    }
    for (int64_t i = 0; i < c->nhooks; i++)
        if (!c->hook[i].added && c->hook[i].hook.drop) c->hook[i].hook.drop(c->hook[i].hook.ctx);
    rshn_free(c->place);
    rshn_free(c->hook);
}

/* ---- applying ---- */

static rsh_status compare_plans(const rshn_tree_change *c, rsh_comm *comm, rsh_status mine) {
    int other = 0;
    NN_TRY(rshn_ranks_compare(comm, mine, &c->print, sizeof c->print, &other));
    if (!other) return RSH_OK;
    return rshn_fail(RSH_EMISMATCH,
                     "ranks %d and 0 of the mesh plan different placements or hooks; all ranks must pass the same "
                     "plan",
                     other);
}

/* Creates a DTensor; collective, except for a deferred value. */
static rsh_status create_dtensor(const rshn_tree_change *c, rshn_new_place *p) {
    int n = rsh_mesh_ndim(c->mesh);
    bool requires_grad = rsh_value_requires_grad(p->old);
    if (!p->empty)
        return rsh_dtensor_distribute(rsh_value_tensor(p->old), requires_grad, c->mesh, n, p->places, 0, &p->made);
    NN_TRY(rsh_dtensor_full(c->mesh, n, p->places, rsh_value_dtype(p->old), rsh_value_ndim(p->old),
                            rsh_value_shape(p->old), 0, &p->made));
    return rsh_value_set_requires_grad(p->made, requires_grad);
}

static rsh_status add_hooks(rshn_tree_change *c) {
    for (int64_t i = 0; i < c->nhooks; i++) {
        NN_TRY(rshn_hook_add(c->hook[i].m, &c->hook[i].hook, &c->hook[i].id));
        c->hook[i].added = true;
    }
    return RSH_OK;
}

/* Removes the hooks, which frees their contexts. */
static void remove_hooks(const rshn_tree_change *c) {
    for (int64_t i = 0; i < c->nhooks; i++)
        if (c->hook[i].added) rsh_module_remove_hook(c->hook[i].m, c->hook[i].id);
}

rsh_status rshn_change_run(rshn_tree_change *c, rsh_module *root, rsh_status mine) {
    rsh_comm *comm = rsh_mesh_comm(c->mesh);
    rsh_status st = RSH_OK;
    NN_TRY(compare_plans(c, comm, mine));
    for (int64_t i = 0; i < c->nplaces && !st; i++) st = rsh_comm_agree(comm, create_dtensor(c, &c->place[i]));
    if (!st) st = rsh_comm_agree(comm, add_hooks(c));
    if (st) {
        remove_hooks(c);
        return st;
    }
    for (int64_t i = 0; i < c->nplaces; i++) rshn_slots_exchange(root, c->place[i].old, c->place[i].made, NULL);
    return RSH_OK;
}
