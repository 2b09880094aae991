/* Sharded tensor: its form, its shards, and the questions that can be asked of it. */
#include "torch/impl.h"

#include <string.h>

/* ---- groups and forms ---- */

rsh_status rshi_group_take(rsh_group *given, rsh_group **group, rsh_comm **comm) {
    rsh_group *g = given ? given : rsh_group_default();
    RSH_REQUIRE(g, RSH_ERUNTIME, "this rank has no default group: rsh_group_init makes one");
    rsh_comm *c = rsh_group_comm(g);
    RSH_REQUIRE(c, RSH_ERUNTIME, "this rank is no member of the group");
    *group = g;
    *comm = c;
    return RSH_OK;
}

static rsh_status check_props(const rsh_tensor_props *p) {
    RSH_REQUIRE((unsigned)p->dtype < RSH_DTYPE_COUNT, RSH_EVALUE, "%d is not a dtype", (int)p->dtype);
    RSH_REQUIRE(p->layout == RSH_STRIDED, RSH_EVALUE, "only strided tensors can be sharded");
    RSH_REQUIRE(p->memory_format == RSH_CONTIGUOUS, RSH_EVALUE, "only the contiguous memory format is possible");
    RSH_REQUIRE(!p->requires_grad || rshi_dtype_has_grad(p->dtype), RSH_ERUNTIME,
                "a tensor of %s cannot require a gradient", rsh_dtype_name(p->dtype));
    return RSH_OK;
}

rsh_status rshi_placements_check(const rsh_tensor_meta *m, const rsh_comm *comm) {
    for (int64_t i = 0; i < m->nshards; i++) {
        const rsh_shard_meta *s = &m->shards[i];
        RSH_REQUIRE(s->has_placement, RSH_EVALUE, "shard %lld has no placement", (long long)i);
        RSH_TRY(rsh_placement_check(&s->placement, comm->size));
        if (s->placement.device.type == RSH_DEVICE_CPU) continue;
        char text[RSH_PLACEMENT_TEXT];
        rsh_placement_print(&s->placement, text);
        return rshi_fail(RSH_EUNSUP, "shard %lld is placed on %s; memory is on cpu only", (long long)i, text);
    }
    return RSH_OK;
}

static rsh_status fill_form(rsh_torch_tensor *t, const rsh_spec *spec, int ndim, const int64_t *size,
                            const rsh_tensor_props *props) {
    RSH_TRY(rsh_spec_copy(spec, &t->spec));
    RSH_TRY(rsh_spec_build(spec, ndim, size, props, &t->meta));
    return rshi_placements_check(t->meta, t->comm);
}

rsh_status rshi_torch_form(const rsh_spec *spec, int ndim, const int64_t *size, const rsh_tensor_props *props,
                        rsh_group *group, rsh_torch_tensor **out) {
    rsh_comm *comm;
    RSH_REQUIRE(spec && out, RSH_EVALUE, "a sharded tensor needs a spec and a place for the result");
    RSH_TRY(check_props(props));
    RSH_TRY(rshi_group_take(group, &group, &comm));
    rsh_torch_tensor *t = RSHI_NEW(rsh_torch_tensor);
    if (!t) return rshi_nomem();
    t->group = group;
    t->comm = comm;
    rsh_status st = fill_form(t, spec, ndim, size, props);
    if (st)
        rsh_torch_free(t);
    else
        *out = t;
    return st;
}

void rsh_torch_free(rsh_torch_tensor *t) {
    if (!t) return;
    for (int64_t i = 0; i < t->nshards; i++) rsh_shard_clear(&t->shards[i]);
    rshi_free(t->shards);
    rsh_sharded_free(t->core);
    rsh_tensor_meta_free(t->meta);
    rsh_spec_free(t->spec);
    rshi_free(t);
}

/* ---- shards ---- */

int64_t rshi_torch_next_owned(const rsh_torch_tensor *t, int64_t from) {
    while (from < t->meta->nshards && t->meta->shards[from].placement.rank != t->comm->rank) from++;
    return from;
}

int64_t rshi_torch_count_owned(const rsh_torch_tensor *t) {
    int64_t n = 0;
    for (int64_t i = rshi_torch_next_owned(t, 0); i < t->meta->nshards; i = rshi_torch_next_owned(t, i + 1)) n++;
    return n;
}

rsh_status rshi_torch_room(rsh_torch_tensor *t) {
    int64_t n = rshi_torch_count_owned(t);
    t->shards = rshi_calloc((size_t)n, sizeof *t->shards);
    if (!t->shards) return rshi_nomem();
    t->nshards = n;
    for (int64_t i = rshi_torch_next_owned(t, 0), k = 0; k < n; i = rshi_torch_next_owned(t, i + 1), k++)
        t->shards[k] = (rsh_shard){.meta = t->meta->shards[i], .props = t->meta->props};
    return RSH_OK;
}

/* The part that holds the next shard with elements; parts without any are passed over. */
static const rsh_tensor *next_part(const rsh_sharded *s, int64_t *part) {
    while (*part < s->nparts && !rsh_tensor_count(s->part[*part])) ++*part;
    return *part < s->nparts ? s->part[(*part)++] : NULL;
}

static bool has_shape(const rsh_tensor *t, const rsh_shard_meta *m) {
    return rsh_tensor_ndim(t) == m->ndim && !memcmp(rsh_tensor_shape(t), m->sizes, (size_t)m->ndim * sizeof *m->sizes);
}

static rsh_status take_parts(rsh_torch_tensor *t, const rsh_sharded *s) {
    int64_t part = 0;
    for (int64_t k = 0; k < t->nshards; k++) {
        const rsh_shard_meta *m = &t->shards[k].meta;
        if (!rsh_shard_meta_count(m)) {
            RSH_TRY(rsh_tensor_empty(t->meta->props.dtype, m->ndim, m->sizes, &t->shards[k].tensor));
            continue;
        }
        const rsh_tensor *p = next_part(s, &part);
        RSH_REQUIRE(p && has_shape(p, m), RSH_ERUNTIME, "shard %lld has no part of its own in %.300s", (long long)k,
                    rsh_layout_text(s->layout));
        RSH_TRY(rsh_tensor_view(p, 0, m->ndim, m->sizes, NULL, &t->shards[k].tensor));
    }
    return RSH_OK;
}

/* The core allocates, where peers can read; shards are views of its parts. */
rsh_status rshi_torch_alloc(rsh_torch_tensor *t, bool zero) {
    rsh_layout *l;
    RSH_TRY(rsh_tensor_meta_layout(t->meta, &l, NULL));
    rsh_status st = (zero ? rsh_sharded_zeros : rsh_sharded_empty)(t->comm, l, &t->core);
    rsh_layout_free(l);
    if (!st) st = rshi_torch_room(t);
    return st ? st : take_parts(t, t->core);
}

rsh_status rshi_torch_new(const rsh_spec *spec, int ndim, const int64_t *size, const rsh_tensor_props *props,
                       rsh_group *group, bool zero, rsh_torch_tensor **out) {
    rsh_torch_tensor *t;
    RSH_TRY(rshi_torch_form(spec, ndim, size, props, group, &t));
    rsh_status st = rshi_torch_alloc(t, zero);
    if (st)
        rsh_torch_free(t);
    else
        *out = t;
    return st;
}

/* The first of the shards from `*next` on, around the end of the list, that has this box and is not taken. */
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

rsh_status rshi_torch_adopt(rsh_torch_tensor *t, int64_t n, const rsh_shard *shards) {
    int64_t next = 0;
    rsh_status st = RSH_OK;
    RSH_TRY(rshi_torch_room(t));
    RSH_REQUIRE(n == t->nshards, RSH_ERUNTIME, "rank %d has %lld shards; the metadata give it %lld", t->comm->rank,
                (long long)n, (long long)t->nshards);
    bool *taken = rshi_calloc((size_t)n, sizeof *taken);
    if (!taken) return rshi_nomem();
    for (int64_t k = 0; k < n && !st; k++) {
        rsh_shard *to = &t->shards[k];
        const rsh_shard *from = find_box(&to->meta, n, shards, taken, &next);
        if (from)
            st = rsh_tensor_view(from->tensor, 0, to->meta.ndim, to->meta.sizes, NULL, &to->tensor);
        else
            st = rshi_fail(RSH_EVALUE, "shard %lld of rank %d by the spec %.200s is not among its shards", (long long)k,
                           t->comm->rank, rsh_spec_text(t->spec));
    }
    rshi_free(taken);
    return st;
}

/* ---- the core's view ---- */

/* The core's tensor without memory: parts are wrapped as given and then replaced by views that share the storage. */
static rsh_status hold_views(rsh_sharded *s, const rsh_tensor *const *parts) {
    for (int64_t i = 0; i < s->nparts; i++) {
        if (!parts[i]) continue;
        rsh_tensor *view;
        RSH_TRY(rsh_tensor_view(parts[i], 0, rsh_tensor_ndim(parts[i]), rsh_tensor_shape(parts[i]),
                                rsh_tensor_strides(parts[i]), &view));
        rsh_tensor_free(s->part[i]);
        s->part[i] = view;
    }
    return RSH_OK;
}

static rsh_status wrap_parts(rsh_comm *comm, const rsh_layout *l, int64_t n, const rsh_tensor *const *parts,
                             rsh_sharded **out) {
    rsh_memory *memory = rshi_calloc((size_t)n, sizeof *memory);
    rsh_sharded *s = NULL;
    if (!memory) return rshi_nomem();
    for (int64_t i = 0; i < n; i++)
        if (parts[i]) memory[i] = (rsh_memory){rsh_tensor_data(parts[i]), rsh_tensor_strides(parts[i])};
    rsh_status st = rsh_sharded_wrap(comm, l, memory, &s);
    if (!st) st = hold_views(s, parts);
    rshi_free(memory);
    if (st)
        rsh_sharded_free(s);
    else
        *out = s;
    return st;
}

/* The shard behind each part, or NULL for parts without elements. */
static rsh_status match_parts(const rsh_torch_tensor *t, const rsh_layout *l, int64_t n, const rsh_tensor **parts) {
    int64_t k = 0;
    for (int64_t i = 0; i < n; i++) {
        rsh_part shape;
        RSH_TRY(rsh_layout_part(l, t->comm->rank, i, &shape));
        if (!shape.count) continue;
        while (k < t->nshards && !rsh_tensor_count(t->shards[k].tensor)) k++;
        RSH_REQUIRE(k < t->nshards, RSH_ERUNTIME, "%.300s has more parts on rank %d than the tensor shards",
                    rsh_layout_text(l), t->comm->rank);
        parts[i] = t->shards[k++].tensor;
    }
    return RSH_OK;
}

static rsh_status wrap_shards(const rsh_torch_tensor *t, const rsh_layout *l, rsh_sharded **out) {
    int64_t n = rsh_layout_nparts(l, t->comm->rank);
    const rsh_tensor **parts = rshi_calloc((size_t)n, sizeof *parts);
    if (!parts) return rshi_nomem();
    rsh_status st = match_parts(t, l, n, parts);
    if (!st) st = wrap_parts(t->comm, l, n, parts, out);
    rshi_free(parts);
    return st;
}

/* A tensor is used by one thread at a time, so that what it keeps may be found by those who only read. */
rsh_status rshi_torch_core(const rsh_torch_tensor *t, rsh_sharded **out) {
    rsh_layout *l;
    rsh_status st = RSH_OK;
    if (!t->core) {
        RSH_TRY(rsh_tensor_meta_layout(t->meta, &l, NULL));
        st = wrap_shards(t, l, &((rsh_torch_tensor *)t)->core);
        rsh_layout_free(l);
    }
    if (!st) *out = t->core;
    return st;
}

rsh_status rshi_sharded_of(rsh_comm *comm, const rsh_layout *layout, const rsh_tensor *part, rsh_sharded **out) {
    int64_t n = rsh_layout_nparts(layout, comm->rank);
    RSH_REQUIRE(n <= 1, RSH_ERUNTIME, "%.300s has %lld parts on rank %d", rsh_layout_text(layout), (long long)n,
                comm->rank);
    return wrap_parts(comm, layout, n, &part, out);
}

rsh_status rsh_torch_sharded(const rsh_torch_tensor *t, rsh_sharded **out) {
    rsh_sharded *core;
    RSH_REQUIRE(t && out, RSH_EVALUE, "a sharded tensor and a place for the result are needed");
    RSH_TRY(rshi_torch_core(t, &core));
    return wrap_shards(t, core->layout, out);
}

/* ---- questions ---- */

const rsh_tensor_meta *rsh_torch_meta(const rsh_torch_tensor *t) { return t ? t->meta : NULL; }
const rsh_spec *rsh_torch_spec(const rsh_torch_tensor *t) { return t ? t->spec : NULL; }
rsh_group *rsh_torch_group(const rsh_torch_tensor *t) { return t ? t->group : NULL; }
int64_t rsh_torch_nshards(const rsh_torch_tensor *t) { return t ? t->nshards : 0; }
const rsh_shard *rsh_torch_shard(const rsh_torch_tensor *t, int64_t i) {
    return t && i >= 0 && i < t->nshards ? &t->shards[i] : NULL;
}
int rsh_torch_ndim(const rsh_torch_tensor *t) { return t ? t->meta->ndim : -1; }
rsh_dtype rsh_torch_dtype(const rsh_torch_tensor *t) { return t ? t->meta->props.dtype : RSH_DTYPE_COUNT; }
bool rsh_torch_requires_grad(const rsh_torch_tensor *t) { return t && t->meta->props.requires_grad; }

rsh_status rsh_torch_local_tensor(const rsh_torch_tensor *t, const rsh_tensor **out) {
    RSH_REQUIRE(t && out, RSH_EVALUE, "a sharded tensor and a place for the result are needed");
    RSH_REQUIRE(t->nshards == 1, RSH_EUNSUP, "the local tensor of a rank with %lld shards", (long long)t->nshards);
    *out = t->shards[0].tensor;
    return RSH_OK;
}

rsh_status rsh_torch_size(const rsh_torch_tensor *t, int dim, int64_t *out) {
    RSH_REQUIRE(t && out, RSH_EVALUE, "a sharded tensor and a place for the result are needed");
    int n = t->meta->ndim;
    RSH_REQUIRE(dim >= -n && dim < n, RSH_EINDEX, "dim %d of a tensor of %d dims", dim, n);
    *out = t->meta->size[dim < 0 ? dim + n : dim];
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
    RSH_REQUIRE(t, RSH_EVALUE, "the sharded tensor is NULL");
    RSH_REQUIRE(!on || rshi_dtype_has_grad(rsh_torch_dtype(t)), RSH_ERUNTIME,
                "a tensor of %s cannot require a gradient", rsh_dtype_name(rsh_torch_dtype(t)));
    t->meta->props.requires_grad = on;
    for (int64_t i = 0; i < t->nshards; i++) t->shards[i].props.requires_grad = on;
    return RSH_OK;
}
