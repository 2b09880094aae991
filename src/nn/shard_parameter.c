/* Shard parameter: turns a whole parameter into a distributed one. */
#include "nn/shard_parameter.h"

#include "nn/impl.h"
#include "nn/module.h"

rsh_status rshn_group_agree(rsh_group *group, rsh_status mine) {
    if (!group && !rsh_group_default())
        return rshn_fail(RSH_ERUNTIME, "there is no default group; call "
                                       "rsh_group_init first");
    rsh_comm *comm = rsh_group_comm(group);
    return comm ? rsh_comm_agree(comm, mine) : mine;
}

rsh_status rshn_find_parameter(const rsh_module *m, const char *name, rsh_value **out) {
    if (!m || !name) return rshn_fail(RSH_EVALUE, "cannot shard a parameter: %s is NULL", m ? "name" : "m");
    const rshn_slot *slot = rshn_slot_find(m, name);
    if (!slot) return rshn_fail(RSH_EATTR, "%s has no parameter \"%s\"", m->kind->name, name);
    if (slot->kind != RSHN_PARAMETER)
        return rshn_fail(RSH_EKEY, "\"%s\" of %s is a %s, not a parameter", name, m->kind->name,
                         slot->kind == RSHN_BUFFER ? "buffer" : "child");
    if (!slot->value || rsh_value_sharded(slot->value))
        return rshn_fail(RSH_EVALUE, "cannot shard parameter \"%s\" of %s: it %s", name, m->kind->name,
                         slot->value ? "is already distributed" : "has no value");
    if (!rsh_tensor_dense(rsh_value_tensor(slot->value)))
        return rshn_fail(RSH_EVALUE, "cannot shard parameter \"%s\" of %s: it must be contiguous", name, m->kind->name);
    *out = slot->value;
    return RSH_OK;
}

/* Sets the cut dim in the layout of a single chunk: it is the whole tensor, so its metadata do not tell which dim is
 * cut, but layers need to know. */
static rsh_status set_cut_dim(const rsh_spec *spec, rsh_sharded **s) {
    rsh_layout_desc desc = *rsh_layout_describe(rsh_sharded_layout(*s));
    const rsh_tensor *part = rsh_sharded_part(*s, 0);
    int dim = 0;
    if (desc.naxes || desc.is_boxes || rsh_comm_size(rsh_sharded_comm(*s)) != 1) return RSH_OK;
    if (rsh_spec_chunk_dim(spec, desc.ndim, &dim)) return RSH_OK; /* the spec is not a chunk spec */
    desc.naxes = 1;
    desc.axis[0] = (rsh_axis){"x", 1};
    desc.dim[dim].cut = (rsh_cut){.naxes = 1, .rule = RSH_CUT_CHUNK};
    rsh_layout *layout = NULL;
    rsh_sharded *named = NULL;
    NN_TRY(rsh_layout_new(&desc, &layout));
    rsh_status st = rsh_sharded_from_tensors(rsh_sharded_comm(*s), layout, 1, &part, &named);
    rsh_layout_free(layout);
    if (st) return st;
    rsh_sharded_free(*s);
    *s = named;
    return RSH_OK;
}

rsh_status rshn_shard_value(const rsh_value *v, const rsh_spec *spec, int src_rank, rsh_group *group, rsh_value **out) {
    rsh_torch_tensor *t = NULL;
    rsh_sharded *s = NULL;
    rsh_tensor_props props = rsh_tensor_get_props(rsh_value_tensor(v));
    NN_TRY(rsh_shard_tensor(rsh_value_tensor(v), spec, src_rank, group, &props, &t));
    rsh_status st = rsh_torch_sharded(t, &s);
    if (!st) st = set_cut_dim(spec, &s);
    if (!st) st = rsh_value_adopt_sharded(s, rsh_value_requires_grad(v), out);
    if (st) rsh_sharded_free(s);
    rsh_torch_free(t);
    return st;
}

rsh_status rsh_shard_parameter(rsh_module *m, const char *name, const rsh_spec *spec, int src_rank, rsh_group *group) {
    rsh_value *whole = NULL, *cut = NULL;
    rshn_ranks *ranks = NULL;
    rsh_status st =
        spec ? rshn_find_parameter(m, name, &whole) : rshn_fail(RSH_EVALUE, "rsh_shard_parameter: spec is NULL");
    NN_TRY(rshn_group_agree(group, st));
    if (rsh_group_rank(group) < 0) return RSH_OK;
    st = rshn_shard_value(whole, spec, src_rank, group, &cut);
    if (!st) st = rshn_ranks_of(group, &ranks);
    st = rshn_group_agree(group, st);
    if (!st) st = rsh_module_set_parameter(m, name, cut);
    if (!st) rshn_slot_find(m, name)->ranks = rshn_ranks_hold(ranks);
    rshn_ranks_drop(ranks);
    rsh_value_free(cut);
    return st;
}
