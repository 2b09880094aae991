/* Sharded tensor: a sharded tensor of the core with a spec, properties and a group, and its getters. */
#include "torch/impl.h"

#include <string.h>

/* ---- creating ---- */

/* Creates a tensor around `sharded` and takes ownership of it, even if it fails.  The shards' boxes are not set. */
static rsh_status wrap_sharded(rsh_group *group, const rsh_spec *spec, const rsh_tensor_props *props,
                               rsh_sharded *sharded, rsh_torch_tensor **out) {
    rsh_torch_tensor *t = RSHI_NEW(rsh_torch_tensor);
    rsh_shard *shards = rshi_calloc((size_t)sharded->nparts, sizeof *shards);
    if (!t || !shards) {
        rshi_free(t);
        rshi_free(shards);
        rsh_sharded_free(sharded);
        return rshi_nomem();
    }
    *t = (rsh_torch_tensor){
        .group = group, .spec = rsh_spec_hold(spec), .sharded = sharded, .props = *props, .shards = shards};
    t->world = rshi_group_add_tensor(group);
    for (int64_t i = 0; i < sharded->nparts; i++) shards[i] = (rsh_shard){.tensor = sharded->part[i], .props = *props};
    *out = t;
    return RSH_OK;
}

/* Wraps the core's tensor.  Its parts are the entries of the metadata that this rank owns, in the same order. */
static rsh_status wrap_outline(const rshi_outline *o, rsh_sharded *sharded, rsh_torch_tensor **out) {
    RSH_TRY(wrap_sharded(o->group, o->spec, &o->props, sharded, out));
    int64_t at = rshi_outline_next_owned(o, 0);
    for (int64_t i = 0; i < sharded->nparts; i++, at = rshi_outline_next_owned(o, at + 1))
        (*out)->shards[i].meta = o->meta->shards[at];
    return RSH_OK;
}

rsh_status rshi_torch_alloc(const rshi_outline *o, bool zero, rsh_torch_tensor **out) {
    rsh_sharded *s;
    RSH_TRY((zero ? rsh_sharded_zeros : rsh_sharded_empty)(o->comm, o->layout, &s));
    return wrap_outline(o, s, out);
}

rsh_status rshi_torch_new(const rsh_spec *spec, int ndim, const int64_t *size, const rsh_tensor_props *props,
                          rsh_group *group, bool zero, rsh_torch_tensor **out) {
    rshi_outline o;
    RSH_TRY(rshi_outline_make(spec, ndim, size, props, group, &o));
    rsh_status st = rshi_torch_alloc(&o, zero, out);
    rshi_outline_clear(&o);
    return st;
}

/* Creates the layout with another dtype. */
static rsh_status retype(const rsh_layout *l, rsh_dtype dtype, rsh_layout **out) {
    rsh_layout_desc d = *rsh_layout_describe(l);
    d.dtype = dtype;
    if (dtype != rsh_layout_dtype(l)) return rsh_layout_new(&d, out);
    *out = rsh_layout_hold(l);
    return RSH_OK;
}

static rsh_status wrap_like(const rsh_torch_tensor *t, const rsh_tensor_props *props, rsh_sharded *sharded,
                            rsh_torch_tensor **out) {
    RSH_TRY(wrap_sharded(t->group, t->spec, props, sharded, out));
    for (int64_t i = 0; i < sharded->nparts; i++) (*out)->shards[i].meta = t->shards[i].meta;
    return RSH_OK;
}

rsh_status rshi_torch_like(const rsh_torch_tensor *t, const rsh_tensor_props *props, bool zero,
                           rsh_torch_tensor **out) {
    rsh_layout *l;
    rsh_sharded *s;
    RSH_TRY(retype(t->sharded->layout, props->dtype, &l));
    rsh_status st = (zero ? rsh_sharded_zeros : rsh_sharded_empty)(t->sharded->comm, l, &s);
    rsh_layout_free(l);
    return st ? st : wrap_like(t, props, s, out);
}

rsh_status rsh_torch_sharded(const rsh_torch_tensor *t, rsh_sharded **out) {
    RSH_REQUIRE(t && out, RSH_EVALUE, "rsh_torch_sharded: t and out must not be NULL");
    const rsh_sharded *s = t->sharded;
    return rsh_sharded_from_tensors(s->comm, s->layout, s->nparts, (const rsh_tensor *const *)s->part, out);
}

rsh_status rshi_torch_share(const rsh_torch_tensor *t, const rsh_tensor_props *props, rsh_torch_tensor **out) {
    rsh_sharded *s;
    RSH_TRY(rsh_torch_sharded(t, &s));
    return wrap_like(t, props, s, out);
}

/* Finds the next unused shard with this box, starting at `*next` and wrapping at the end of the list. */
static const rsh_shard *find_box(const rsh_shard_meta *m, int64_t n, const rsh_shard *shards, bool *taken,
                                 int64_t *next) {
    for (int64_t i = 0; i < n; i++) {
        int64_t k = (*next + i) % n;
        if (taken[k] || !rshi_same_box(m, &shards[k].meta)) continue;
        taken[k] = true;
        *next = k + 1;
        return &shards[k];
    }
    return NULL;
}

static rsh_status list_tensors(const rshi_outline *o, int64_t n, const rsh_shard *shards, bool *taken,
                               const rsh_tensor **list) {
    int64_t next = 0, at = rshi_outline_next_owned(o, 0);
    for (int64_t k = 0; k < n; k++, at = rshi_outline_next_owned(o, at + 1)) {
        const rsh_shard *from = find_box(&o->meta->shards[at], n, shards, taken, &next);
        RSH_REQUIRE(from, RSH_EVALUE, "shard %lld of rank %d, which spec %.200s requires, is missing", (long long)k,
                    o->comm->rank, rsh_spec_text(o->spec));
        list[k] = from->tensor;
    }
    return RSH_OK;
}

rsh_status rshi_torch_adopt(const rshi_outline *o, int64_t n, const rsh_shard *shards, rsh_torch_tensor **out) {
    int64_t owned = rshi_outline_count_owned(o);
    rsh_sharded *s = NULL;
    RSH_REQUIRE(n == owned, RSH_ERUNTIME, "rank %d has %lld shards, expected %lld by the metadata", o->comm->rank,
                (long long)n, (long long)owned);
    bool *taken = rshi_calloc((size_t)n, sizeof *taken);
    const rsh_tensor **list = rshi_calloc((size_t)n, sizeof *list);
    rsh_status st = taken && list ? list_tensors(o, n, shards, taken, list) : rshi_nomem();
    if (!st) st = rsh_sharded_from_tensors(o->comm, o->layout, n, list, &s);
    rshi_free(taken);
    rshi_free(list);
    return st ? st : wrap_outline(o, s, out);
}

void rsh_torch_free(rsh_torch_tensor *t) {
    if (!t) return;
    rshi_free(t->shards);
    rsh_sharded_free(t->sharded);
    rsh_tensor_meta_free(t->meta);
    rsh_spec_free(t->spec);
    rshi_group_drop_tensor(t->world);
    rshi_free(t);
}

/* ---- getters ---- */

rsh_status rshi_torch_meta_new(const rsh_torch_tensor *t, rsh_tensor_meta **out) {
    return rsh_spec_build(t->spec, rsh_torch_ndim(t), rshi_torch_shape(t), &t->props, out);
}

/* Returns the metadata, created on first use.  Only one thread uses a tensor at a time, so this may happen through a
 * const pointer. */
const rsh_tensor_meta *rsh_torch_meta(const rsh_torch_tensor *t) {
    if (t && !t->meta) rshi_torch_meta_new(t, &((rsh_torch_tensor *)t)->meta);
    return t ? t->meta : NULL;
}

const rsh_spec *rsh_torch_spec(const rsh_torch_tensor *t) { return t ? t->spec : NULL; }
rsh_group *rsh_torch_group(const rsh_torch_tensor *t) { return t ? t->group : NULL; }
const rsh_tensor_props *rsh_torch_props(const rsh_torch_tensor *t) { return t ? &t->props : NULL; }
int64_t rsh_torch_nshards(const rsh_torch_tensor *t) { return t ? t->sharded->nparts : 0; }
const rsh_shard *rsh_torch_shard(const rsh_torch_tensor *t, int64_t i) {
    return t && i >= 0 && i < t->sharded->nparts ? &t->shards[i] : NULL;
}
int rsh_torch_ndim(const rsh_torch_tensor *t) { return t ? rsh_layout_ndim(t->sharded->layout) : -1; }
const int64_t *rshi_torch_shape(const rsh_torch_tensor *t) { return rsh_layout_shape(t->sharded->layout); }
rsh_dtype rsh_torch_dtype(const rsh_torch_tensor *t) { return t ? t->props.dtype : RSH_DTYPE_NONE; }
bool rsh_torch_requires_grad(const rsh_torch_tensor *t) { return t && t->props.requires_grad; }

rsh_status rsh_torch_local_tensor(const rsh_torch_tensor *t, const rsh_tensor **out) {
    RSH_REQUIRE(t && out, RSH_EVALUE, "rsh_torch_local_tensor: t and out must not be NULL");
    RSH_REQUIRE(t->sharded->nparts == 1, RSH_EUNSUP,
                "rank %d has %lld shards; a local tensor exists only for exactly one", t->sharded->comm->rank,
                (long long)t->sharded->nparts);
    *out = t->sharded->part[0];
    return RSH_OK;
}

rsh_status rsh_torch_size(const rsh_torch_tensor *t, int dim, int64_t *out) {
    RSH_REQUIRE(t && out, RSH_EVALUE, "rsh_torch_size: t and out must not be NULL");
    int n = rsh_torch_ndim(t);
    RSH_REQUIRE(dim >= -n && dim < n, RSH_EINDEX, "dim %d is out of range for a tensor of %d dims", dim, n);
    *out = rshi_torch_shape(t)[dim < 0 ? dim + n : dim];
    return RSH_OK;
}

bool rshi_dtype_has_grad(rsh_dtype dtype) {
    switch (dtype) {
    case RSH_F16:
    case RSH_BF16:
    case RSH_F32:
    case RSH_F64:
    case RSH_F8E4M3:
    case RSH_F8E5M2:
    case RSH_C64:
    case RSH_C128: return true;
    default: return false;
    }
}

rsh_status rsh_torch_set_requires_grad(rsh_torch_tensor *t, bool on) {
    RSH_REQUIRE(t, RSH_EVALUE, "rsh_torch_set_requires_grad: t is NULL");
    RSH_REQUIRE(!on || rshi_dtype_has_grad(rsh_torch_dtype(t)), RSH_ERUNTIME,
                "dtype %s cannot require a gradient; use a float or complex dtype", rsh_dtype_name(rsh_torch_dtype(t)));
    t->props.requires_grad = on;
    if (t->meta) t->meta->props.requires_grad = on;
    for (int64_t i = 0; i < t->sharded->nparts; i++) t->shards[i].props.requires_grad = on;
    return RSH_OK;
}
