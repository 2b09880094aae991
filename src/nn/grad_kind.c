/* Grad kind: derives from the tree how the gradients that different ranks have for a parameter are related.
 *
 * In a tree with sharded parameters, plain inputs are each rank's own rows and each rank has its own loss, so the
 * gradient of a plain parameter is partial.  In a tree with DTensors, plain inputs are replicated and the ranks of a
 * mesh compute one loss together, so the gradient is the same on every rank. */
#include "nn/grad_kind.h"

#include <string.h>

#include <reshard/dtensor.h>

#include "nn/impl.h"

/* ---- lists of ranks ---- */

rsh_status rshn_ranks_of(const rsh_group *group, rshn_ranks **out) {
    int n = rsh_group_size(group);
    if (n < 1 || rsh_group_rank(group) < 0)
        return rshn_fail(RSH_EVALUE, "this rank is not a member of the group; "
                                     "call it on members only");
    rshn_ranks *r = rshn_malloc(sizeof *r + (size_t)n * sizeof *r->at);
    if (!r) return rshn_fail(RSH_ENOMEM, "out of memory for a list of %d ranks", n);
    *r = (rshn_ranks){.refs = 1, .n = n};
    for (int i = 0; i < n; i++) {
        int global = -1;
        rsh_status st = rsh_group_to_global(group, i, &global);
        if (st) return rshn_free(r), st;
        r->at[i] = global;
    }
    *out = r;
    return RSH_OK;
}

rshn_ranks *rshn_ranks_hold(rshn_ranks *r) {
    if (r) r->refs++;
    return r;
}

void rshn_ranks_drop(rshn_ranks *r) {
    if (r && !--r->refs) rshn_free(r);
}

static rsh_status relate_ranks(const rsh_group *group, int n, const int64_t *ranks, rshn_relation *out) {
    int both = 0, size = rsh_group_size(group);
    for (int r = 0; r < size; r++) {
        int global = -1;
        NN_TRY(rsh_group_to_global(group, r, &global));
        for (int i = 0; i < n; i++) both += ranks[i] == global;
    }
    *out = both <= 1 ? RSHN_CROSSES : both == size ? RSHN_INSIDE : both == n ? RSHN_AROUND : RSHN_OVERLAPS;
    return RSH_OK;
}

/* ---- distributed parameters ---- */

static rsh_status of_dtensor(const rsh_group *group, const char *path, const rsh_mesh *mesh, rshn_gradient *out) {
    if (rsh_mesh_parent(mesh) != rsh_group_comm(NULL))
        return rshn_fail(RSH_EUNSUP, "the mesh of \"%s\" must have the comm of the default group as its parent", path);
    *out = (rshn_gradient){RSH_GRAD_REPLICATED, (int)rsh_mesh_size(mesh), rsh_mesh_ranks(mesh), RSHN_CROSSES};
    return relate_ranks(group, out->n, out->ranks, &out->relation);
}

/* Finds the ranks.  If the library has cut the parameter, the slot knows them.  Otherwise the comm must be that of a
 * known group. */
static rsh_status of_sharded(const rsh_group *group, const char *path, const rshn_slot *slot, rshn_gradient *out) {
    const rsh_comm *comm = rsh_value_comm(slot->value);
    *out = (rshn_gradient){.kind = RSH_GRAD_COMPLETE, .relation = RSHN_INSIDE};
    if (slot->ranks) {
        out->n = slot->ranks->n;
        out->ranks = slot->ranks->at;
        return relate_ranks(group, out->n, out->ranks, &out->relation);
    }
    if (comm == rsh_group_comm(group) || comm == rsh_group_comm(NULL)) return RSH_OK;
    return rshn_fail(RSH_EUNSUP,
                     "the ranks that share \"%s\" are unknown; shard it with rsh_shard_parameter, or on a comm of "
                     "the group",
                     path);
}

static rsh_status of_distributed(const rsh_group *group, const char *path, const rshn_slot *slot, rshn_gradient *out) {
    const rsh_mesh *mesh = rsh_dtensor_mesh(slot->value);
    return mesh ? of_dtensor(group, path, mesh, out) : of_sharded(group, path, slot, out);
}

/* ---- the tree ---- */

static bool same_ranks(const rsh_mesh *a, const rsh_mesh *b) {
    return rsh_mesh_size(a) == rsh_mesh_size(b) &&
           !memcmp(rsh_mesh_ranks(a), rsh_mesh_ranks(b), (size_t)rsh_mesh_size(a) * sizeof(int64_t));
}

static rsh_status note_parameter(void *ctx, const char *path, rsh_module *owner, const char *name, rsh_value *v) {
    rshn_grad_tree *t = ctx;
    rshn_gradient g;
    if (!rsh_value_sharded(v)) return RSH_OK;
    NN_TRY(of_distributed(t->group, path, rshn_slot_find(owner, name), &g));
    if (g.relation == RSHN_CROSSES) return RSH_OK;
    const rsh_mesh *mesh = rsh_dtensor_mesh(v);
    if (!mesh) t->rows = true;
    else if (!t->mesh) t->mesh = mesh;
    else if (!same_ranks(mesh, t->mesh)) t->meshes_differ = true;
    return RSH_OK;
}

rsh_status rshn_grad_tree_of(rsh_module *m, const rsh_group *group, rshn_grad_tree *out) {
    *out = (rshn_grad_tree){.group = group};
    return rsh_module_each_parameter(m, false, note_parameter, out);
}

/* ---- plain parameters ---- */

/* Returns the weight of a Linear that runs over ranks; its bias gets the gradient of all ranks' rows
 * (sharded_linear.c). */
static const rshn_slot *sharded_weight_of_bias(const rsh_module *owner, const char *name) {
    const rshn_slot *w = strcmp(owner->kind->name, "Linear") || strcmp(name, "bias") ? NULL
                                                                                      : rshn_slot_find(owner, "weight");
    return w && w->value && rsh_value_sharded(w->value) && !rsh_dtensor_mesh(w->value) ? w : NULL;
}

static rsh_status of_plain(const rshn_grad_tree *t, const char *path, const rsh_module *owner, const rshn_slot *slot,
                           rshn_gradient *out) {
    const rshn_slot *weight = sharded_weight_of_bias(owner, slot->name);
    *out = (rshn_gradient){.kind = RSH_GRAD_PARTIAL};
    if (slot->grad == RSH_GRAD_PARTIAL) return RSH_OK;
    if (slot->grad != RSH_GRAD_AUTO) {
        *out = (rshn_gradient){slot->grad, slot->ranks->n, slot->ranks->at, RSHN_CROSSES};
        return relate_ranks(t->group, out->n, out->ranks, &out->relation);
    }
    if (weight) return of_sharded(t->group, path, weight, out);
    if (!t->mesh) return RSH_OK;
    if (t->rows || t->meshes_differ)
        return rshn_fail(RSH_EUNSUP,
                         "cannot tell whether the gradient of \"%s\" is partial or replicated: the tree has DTensors "
                         "and %s; call rsh_module_set_grad_kind",
                         path, t->rows ? "sharded parameters" : "DTensors on other ranks");
    return of_dtensor(t->group, path, t->mesh, out);
}

rsh_status rshn_gradient_of(const rshn_grad_tree *t, const char *path, const rsh_module *owner, const char *name,
                            rshn_gradient *out) {
    const rshn_slot *slot = rshn_slot_find(owner, name);
    return rsh_value_sharded(slot->value) ? of_distributed(t->group, path, slot, out)
                                          : of_plain(t, path, owner, slot, out);
}

/* ---- public functions ---- */

rsh_status rsh_module_grad_kind(rsh_module *m, const char *path, const rsh_group *group, rsh_grad_kind *out) {
    rsh_module *owner = NULL;
    const char *name = NULL;
    rsh_value *v = NULL;
    rshn_grad_tree t;
    rshn_gradient g;
    if (!m || !path || !out) return rshn_fail(RSH_EVALUE, "rsh_module_grad_kind: m, path or out is NULL");
    NN_TRY(rsh_module_owner(m, path, &owner, &name));
    NN_TRY(rsh_module_parameter(owner, name, &v));
    if (!v) return rshn_fail(RSH_EATTR, "parameter \"%s\" is reserved but has no value", path);
    NN_TRY(rshn_grad_tree_of(m, group, &t));
    NN_TRY(rshn_gradient_of(&t, path, owner, name, &g));
    *out = g.kind;
    return RSH_OK;
}

rsh_status rsh_module_set_grad_kind(rsh_module *m, const char *name, rsh_grad_kind kind, const rsh_group *group) {
    rsh_value *v = NULL;
    rshn_ranks *ranks = NULL;
    if ((int)kind < RSH_GRAD_AUTO || (int)kind > RSH_GRAD_REPLICATED)
        return rshn_fail(RSH_EVALUE, "rsh_module_set_grad_kind: unknown kind of gradient %d", (int)kind);
    NN_TRY(rsh_module_parameter(m, name, &v));
    if (!v) return rshn_fail(RSH_EATTR, "parameter \"%s\" is reserved but has no value", name);
    if (rsh_value_sharded(v))
        return rshn_fail(RSH_EVALUE,
                         "cannot set the kind of the gradient of \"%s\": it is distributed, which "
                         "determines the kind",
                         name);
    if (kind != RSH_GRAD_AUTO) NN_TRY(rshn_ranks_of(group, &ranks));
    rshn_slot *slot = rshn_slot_find(m, name);
    rshn_ranks_drop(slot->ranks);
    slot->ranks = ranks;
    slot->grad = kind;
    return RSH_OK;
}
