/* Sync grads: gradients combined over the ranks of a group. */
#include <stdlib.h>
#include <string.h>

#include <reshard/dtensor.h>

#include "nn/impl.h"
#include "nn/module.h"
#include "nn/shard_parameter.h"
#include "nn/state_dict.h"

/* The parameters of a tree whose gradients are to be combined; all ranks have the same ones. */
typedef struct listing {
    const rsh_group *group;
    rsh_value **at; /* borrowed */
    int64_t n, room;
    uint64_t shapes; /* a hash of their paths, dtypes and sizes */
} listing;

/* Ranks of the group that are in the mesh too, this one among them.  Both count ranks of the default group's comm. */
static int in_both(const rsh_group *group, const rsh_mesh *mesh) {
    int both = 0;
    for (int r = 0; r < rsh_group_size(group); r++) {
        int global = -1;
        if (rsh_group_to_global(group, r, &global)) continue;
        for (int64_t i = 0; i < rsh_mesh_size(mesh); i++) both += rsh_mesh_ranks(mesh)[i] == global;
    }
    return both;
}

/* Over a mesh that crosses the group, as that of tensor parallelism crosses that of data parallelism, every rank of the
 * group has the same part and a gradient of its own.  A mesh or comm that the group is in combines gradients itself. */
static rsh_status crosses(const listing *l, const char *path, const rsh_value *v, bool *out) {
    const rsh_mesh *mesh = rsh_dtensor_mesh(v);
    *out = false;
    if (!mesh) return RSH_OK;
    if (rsh_mesh_parent(mesh) != rsh_group_comm(NULL))
        return rshn_fail(RSH_EUNSUP, "\"%s\" is on a mesh whose parent is not the comm of the default group", path);
    *out = in_both(l->group, mesh) == 1;
    return RSH_OK;
}

static rsh_status list(void *ctx, const char *path, rsh_module *owner, const char *name, rsh_value *v) {
    (void)owner, (void)name;
    listing *l = ctx;
    bool combines = true;
    if (rsh_value_sharded(v)) NN_TRY(crosses(l, path, v, &combines));
    if (!combines || !rsh_value_requires_grad(v)) return RSH_OK;
    NN_TRY(RSHN_GROW(l->at, l->n + 1, &l->room));
    if (rsh_value_layout(v))
        l->shapes = rshn_hash_text(l->shapes, rsh_layout_text(rsh_value_layout(v)));
    l->at[l->n++] = v;
    int32_t dtype = (int32_t)rsh_value_dtype(v);
    l->shapes = rshn_hash(rshn_hash_text(l->shapes, path), &dtype, sizeof dtype);
    l->shapes = rshn_hash(l->shapes, rsh_value_shape(v), (size_t)rsh_value_ndim(v) * sizeof(int64_t));
    return RSH_OK;
}

static rsh_status compare(rsh_group *group, const listing *l) {
    int other = 0;
    NN_TRY(rshn_ranks_compare(rsh_group_comm(group), RSH_OK, &l->shapes, sizeof l->shapes, &other));
    if (!other) return RSH_OK;
    return rshn_fail(RSH_EVALUE, "rank %d has other parameters that require gradients than rank 0", other);
}

/* For each parameter: has any rank a gradient? */
static rsh_status find_wanted(rsh_group *group, const listing *l, unsigned char *mine, unsigned char *any) {
    for (int64_t i = 0; i < l->n; i++) mine[i] = rsh_value_grad(l->at[i]) != NULL;
    if (!l->n) return RSH_OK;
    return rsh_comm_allreduce(rsh_group_comm(group), mine, any, l->n, RSH_U8, RSH_OP_MAX);
}

/* A gradient of this rank's own, dense: zeros if it has none. */
static rsh_status prepare(rsh_value *parameter) {
    rsh_value *g = rsh_value_grad(parameter), *fresh = NULL;
    if (g && rsh_tensor_dense(rsh_value_part(g, 0))) return RSH_OK;
    NN_TRY(rshn_zeros_like(parameter, &fresh));
    rsh_status st = g ? rshn_copy_value(g, fresh) : RSH_OK;
    if (!st) st = rsh_value_set_grad(parameter, fresh);
    rsh_value_free(fresh);
    return st;
}

static rsh_status combine(rsh_group *group, const listing *l, const unsigned char *any, rsh_op op) {
    rsh_status st = RSH_OK;
    for (int64_t i = 0; !st && i < l->n; i++)
        if (any[i]) st = prepare(l->at[i]);
    NN_TRY(rshn_group_agree(group, st));
    for (int64_t i = 0; i < l->n; i++)
        if (any[i])
            NN_TRY(
                rsh_group_all_reduce(group, (rsh_tensor *)(uintptr_t)rsh_value_part(rsh_value_grad(l->at[i]), 0), op));
    return RSH_OK;
}

static rsh_status sync(rsh_group *group, const listing *l, rsh_op op) {
    unsigned char *mine = rshn_malloc((size_t)l->n + 1), *any = rshn_malloc((size_t)l->n + 1);
    rsh_status st = mine && any ? RSH_OK : rshn_fail(RSH_ENOMEM, "no memory for %lld gradients", (long long)l->n);
    st = rshn_group_agree(group, st);
    if (!st) st = find_wanted(group, l, mine, any);
    if (!st) st = combine(group, l, any, op);
    rshn_free(mine);
    rshn_free(any);
    return st;
}

rsh_status rsh_module_sync_grads(rsh_module *m, rsh_group *group, rsh_op op) {
    listing l = {.group = group};
    rsh_status st = m ? RSH_OK : rshn_fail(RSH_EVALUE, "rsh_module_sync_grads: m is NULL");
    if (!st && op != RSH_OP_SUM && op != RSH_OP_AVG)
        st = rshn_fail(RSH_EVALUE, "gradients are combined by sum or avg, not by %s", rsh_op_name(op));
    if (!st) st = rsh_module_each_parameter(m, false, list, &l);
    st = rshn_group_agree(group, st);
    if (!st && rsh_group_rank(group) >= 0) {
        st = compare(group, &l);
        if (!st) st = sync(group, &l, op);
    }
    rshn_free(l.at);
    return st;
}
