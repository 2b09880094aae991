/* Outline: describes a tensor before it has memory: spec, properties, metadata of all shards and the layout. */
#include "torch/impl.h"

rsh_status rshi_group_take(rsh_group *given, rsh_group **group, rsh_comm **comm) {
    rsh_group *g = given ? given : rsh_group_default();
    RSH_REQUIRE(g, RSH_ERUNTIME, "this rank has no default group; call rsh_group_init first");
    rsh_comm *c = rsh_group_comm(g);
    RSH_REQUIRE(c, RSH_ERUNTIME, "this rank is not a member of the group");
    *group = g;
    *comm = c;
    return RSH_OK;
}

rsh_status rshi_props_check(const rsh_tensor_props *p) {
    RSH_REQUIRE((unsigned)p->dtype < RSH_NDTYPES, RSH_EVALUE, "sharded tensor: unknown dtype %d", (int)p->dtype);
    RSH_REQUIRE(p->layout == RSH_STRIDED, RSH_EVALUE, "only strided tensors can be sharded");
    RSH_REQUIRE(p->memory_format == RSH_CONTIGUOUS, RSH_EVALUE, "memory_format must be contiguous");
    RSH_REQUIRE(!p->requires_grad || rshi_dtype_has_grad(p->dtype), RSH_ERUNTIME,
                "dtype %s cannot require a gradient; use a float or complex dtype", rsh_dtype_name(p->dtype));
    return RSH_OK;
}

rsh_status rshi_placements_check(const rsh_tensor_meta *m, const rsh_comm *comm) {
    for (int64_t i = 0; i < m->nshards; i++) {
        const rsh_shard_meta *s = &m->shards[i];
        RSH_REQUIRE(s->has_placement, RSH_EVALUE, "shard %lld has no placement; give it a rank of the group",
                    (long long)i);
        RSH_TRY(rsh_remote_device_check(&s->placement, comm->size));
        if (s->placement.device.type == RSH_DEVICE_CPU) continue;
        char text[RSH_REMOTE_DEVICE_TEXT];
        rsh_remote_device_print(&s->placement, text);
        return rshi_fail(RSH_EUNSUP, "shard %lld is placed on %s; only CPU memory is supported", (long long)i, text);
    }
    return RSH_OK;
}

static rsh_status fill_outline(rshi_outline *o, int ndim, const int64_t *size) {
    RSH_TRY(rsh_spec_build(o->spec, ndim, size, &o->props, &o->meta));
    RSH_TRY(rshi_placements_check(o->meta, o->comm));
    return rsh_tensor_meta_layout(o->meta, &o->layout);
}

rsh_status rshi_outline_make(const rsh_spec *spec, int ndim, const int64_t *size, const rsh_tensor_props *props,
                             rsh_group *group, rshi_outline *out) {
    rshi_outline o = {.spec = spec, .props = *props};
    RSH_REQUIRE(spec, RSH_EVALUE, "cannot create a sharded tensor: spec is NULL");
    RSH_TRY(rshi_props_check(props));
    RSH_TRY(rshi_group_take(group, &o.group, &o.comm));
    rsh_status st = fill_outline(&o, ndim, size);
    if (st)
        rshi_outline_clear(&o);
    else
        *out = o;
    return st;
}

void rshi_outline_clear(rshi_outline *o) {
    rsh_layout_free(o->layout);
    rsh_tensor_meta_free(o->meta);
    *o = (rshi_outline){.spec = NULL};
}

int64_t rshi_outline_next_owned(const rshi_outline *o, int64_t from) {
    while (from < o->meta->nshards && o->meta->shards[from].placement.rank != o->comm->rank) from++;
    return from;
}

int64_t rshi_outline_count_owned(const rshi_outline *o) { return rsh_layout_nparts(o->layout, o->comm->rank); }
