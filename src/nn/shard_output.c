/* Shard output: hooks that reshard a module's output, or reduce it to this rank's part. */
#include <string.h>

#include "nn/impl.h"
#include "nn/shard_parameter.h"

/* ---- resharding ---- */

static rsh_status reshard_value(const rsh_spec *spec, rsh_value **v) {
    rsh_layout *to = NULL;
    rsh_value *moved = NULL;
    rsh_comm *comm = rsh_value_comm(*v);
    rsh_status st = rsh_spec_layout(spec, rsh_value_dtype(*v), rsh_value_ndim(*v), rsh_value_shape(*v), &to);
    st = rsh_comm_agree(comm, st);
    if (!st) st = rsh_value_reshard(*v, to, RSH_DERIVATIVE_ADJOINT, NULL, &moved);
    rsh_layout_free(to);
    if (st) return st;
    rsh_value_free(*v);
    *v = moved;
    return RSH_OK;
}

static rsh_status reshard_hook(void *ctx, rsh_module *m, rsh_value *const *in, rsh_value **out) {
    (void)in;
    for (int i = 0; i < rsh_module_get_kind(m)->nout; i++)
        if (rsh_value_sharded(out[i])) NN_TRY(reshard_value(ctx, &out[i]));
    return RSH_OK;
}

static void drop_spec(void *ctx) { rsh_spec_free(ctx); }

rsh_status rsh_reshard_output(rsh_module *m, const rsh_spec *spec) {
    if (!m || !spec) return rshn_fail(RSH_EVALUE, "rsh_reshard_output: %s is NULL", m ? "spec" : "m");
    rsh_spec *held = rsh_spec_hold(spec);
    rsh_status st = rsh_module_add_forward_hook(m, reshard_hook, held, drop_spec, RSH_HOOK_ON_SUCCESS, NULL);
    if (st) rsh_spec_free(held);
    return st;
}

/* ---- this rank's part ---- */

/* Returns the dim that is cut into chunks of length 1 on all ranks; -1: none.  The answer is the same on all ranks. */
static int thin_dim(const rsh_layout *l) {
    const rsh_layout_desc *d = rsh_layout_describe(l);
    for (int i = 0; !d->is_boxes && i < d->ndim; i++) {
        int64_t parts = 1;
        for (int a = 0; a < d->dim[i].cut.naxes; a++) parts *= d->axis[d->dim[i].cut.axes[a]].size;
        if (d->dim[i].cut.naxes && d->dim[i].size == parts) return i;
    }
    return -1;
}

static rsh_status collect_part(rsh_value **v) {
    if (rsh_value_nparts(*v) != 1)
        return rshn_fail(RSH_EUNSUP, "rsh_collect_local_shard: the output must have 1 shard on this rank, got %lld",
                         (long long)rsh_value_nparts(*v));
    int dim = thin_dim(rsh_value_layout(*v));
    rsh_value *part = NULL, *thin = NULL;
    NN_TRY(rsh_value_to_local(*v, &part));
    if (dim >= 0) {
        rsh_status st = rsh_nn_squeeze(part, dim, &thin);
        rsh_value_free(part);
        if (st) return st;
        part = thin;
    }
    rsh_value_free(*v);
    *v = part;
    return RSH_OK;
}

static rsh_status collect_hook(void *ctx, rsh_module *m, rsh_value *const *in, rsh_value **out) {
    (void)ctx, (void)in;
    for (int i = 0; i < rsh_module_get_kind(m)->nout; i++)
        if (rsh_value_sharded(out[i]) && !rsh_layout_op(rsh_value_layout(out[i]))) NN_TRY(collect_part(&out[i]));
    return RSH_OK;
}

rsh_status rsh_collect_local_shard(rsh_module *m) {
    return rsh_module_add_forward_hook(m, collect_hook, NULL, NULL, RSH_HOOK_ON_SUCCESS, NULL);
}
