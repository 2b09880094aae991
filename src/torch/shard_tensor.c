/* Shard tensor: cuts a whole tensor of one rank by a spec and sends each rank its shards. */
#include "torch/impl.h"

#include <string.h>

#include "spec/spec.h"

/* The arguments of a rank, followed by the text of its spec. */
typedef struct wish {
    int32_t src_rank;
    int32_t dtype;
    int32_t ndim;
    int64_t shape[RSH_MAX_NDIM];
} wish;

/* State of one call. */
typedef struct cutting {
    const char *name;
    const rsh_tensor *tensor;
    const rsh_spec *spec;
    int src_rank;
    rsh_group *group;
    rsh_comm *comm;
    rsh_tensor_props props;
} cutting;

/* ---- comparing the arguments of all ranks ---- */

static rsh_status check_own(const cutting *c, const rsh_torch_tensor *const *out) {
    RSH_REQUIRE(c->tensor && c->spec && out, RSH_EVALUE, "%s: tensor, spec and out must not be NULL",
                c->name);
    RSH_REQUIRE(rsh_tensor_dense(c->tensor), RSH_EVALUE,
                "shard_tensor: the tensor must be contiguous; pass a dense copy");
    RSH_REQUIRE(c->src_rank >= 0 && c->src_rank < c->comm->size, RSH_ERUNTIME,
                "source rank %d is out of range; the group has ranks 0 to %d",
                c->src_rank, c->comm->size - 1);
    RSH_REQUIRE(c->props.dtype == rsh_tensor_dtype(c->tensor), RSH_EVALUE,
                "properties have dtype %s, but the tensor has %s",
                rsh_dtype_name(c->props.dtype), rsh_dtype_name(rsh_tensor_dtype(c->tensor)));
    return RSH_OK;
}

static rsh_status write_wish(const cutting *c, char **out, size_t *bytes) {
    const char *text = rsh_spec_text(c->spec);
    *bytes = sizeof(wish) + strlen(text) + 1;
    char *data = rshi_calloc(*bytes, 1);
    if (!data) return rshi_nomem();
    wish *w = (wish *)data;
    *w = (wish){
        .src_rank = c->src_rank, .dtype = (int32_t)rsh_tensor_dtype(c->tensor), .ndim = rsh_tensor_ndim(c->tensor)};
    memcpy(w->shape, rsh_tensor_shape(c->tensor), (size_t)w->ndim * sizeof *w->shape);
    memcpy(data + sizeof *w, text, strlen(text) + 1);
    *out = data;
    return RSH_OK;
}

/* Returns whether two specs are equal.  Their texts may differ, because a dim may be given as negative. */
static bool same_spec(const char *a, const char *b, int ndim) {
    rsh_spec *x = NULL, *y = NULL;
    if (!strcmp(a, b)) return true;
    bool same = !strncmp(a, "chunk(", 6) && !strncmp(b, "chunk(", 6) && !rsh_spec_parse(a, &x) &&
                !rsh_spec_parse(b, &y) && rsh_spec_equal(x, y, ndim);
    rsh_spec_free(x);
    rsh_spec_free(y);
    return same;
}

static rsh_status compare_wishes(const rsh_objects *o) {
    const wish *zero = o->data[0];
    const char *zero_spec = (const char *)(zero + 1);
    for (int r = 1; r < o->n; r++) {
        const wish *w = o->data[r];
        const char *spec = (const char *)(w + 1);
        RSH_REQUIRE(w->src_rank == zero->src_rank, RSH_EVALUE,
                    "ranks must give the same src_rank: it is %d on rank 0 and %d on rank %d",
                    zero->src_rank, w->src_rank, r);
        RSH_REQUIRE(same_spec(zero_spec, spec, zero->ndim), RSH_EVALUE,
                    "ranks must give the same spec: it is %.300s on rank 0 and %.300s on rank %d", zero_spec, spec, r);
        RSH_REQUIRE(w->dtype == zero->dtype, RSH_EVALUE,
                    "ranks must give the same dtype: it is %s on rank 0 and %s on rank %d",
                    rsh_dtype_name((rsh_dtype)zero->dtype), rsh_dtype_name((rsh_dtype)w->dtype), r);
        RSH_REQUIRE(w->ndim == zero->ndim && !memcmp(w->shape, zero->shape, sizeof w->shape), RSH_EVALUE,
                    "ranks must give tensors of the same shape: rank 0 and rank %d differ", r);
    }
    return RSH_OK;
}

/* Compares the arguments of all ranks; collective.  Every rank reaches the same verdict. */
static rsh_status agree_on_arguments(cutting *c, const rsh_torch_tensor *const *out) {
    char *mine = NULL;
    size_t bytes = 0;
    rsh_objects *all = NULL;
    rsh_status st = check_own(c, out);
    if (!st) st = write_wish(c, &mine, &bytes);
    RSH_GOTO(rshi_comm_open(c->comm, c->name, 0, NULL, st));
    RSH_GOTO(rsh_group_all_gather_object(c->group, mine, bytes, &all));
    RSH_GOTO(rshi_comm_open(c->comm, c->name, 0, NULL,
                            compare_wishes(all))); /* the comparison may run out of memory on one rank */
out:
    rsh_objects_free(all);
    rshi_free(mine);
    return st;
}

/* ---- cutting ---- */

static rsh_status prepare_cut(const cutting *c, rsh_torch_tensor **made, rsh_sharded **src) {
    rsh_layout *l;
    int ndim = rsh_tensor_ndim(c->tensor);
    const int64_t *shape = rsh_tensor_shape(c->tensor);
    RSH_TRY(rshi_torch_new(c->spec, ndim, shape, &c->props, c->group, false, made));
    RSH_TRY(rsh_layout_whole(c->props.dtype, ndim, shape, c->src_rank, &l));
    rsh_status st = rsh_sharded_from_tensors(c->comm, l, c->comm->rank == c->src_rank, &c->tensor, src);
    rsh_layout_free(l);
    return st;
}

static rsh_status cut_and_send(const cutting *c, rsh_torch_tensor **out) {
    rsh_torch_tensor *made = NULL;
    rsh_sharded *src = NULL;
    rsh_status st = prepare_cut(c, &made, &src);
    st = rshi_reshard_as(c->comm, c->name, st, src, made ? made->sharded : NULL, NULL);
    rsh_sharded_free(src);
    if (st)
        rsh_torch_free(made);
    else
        *out = made;
    return st;
}

static rsh_status start_call(cutting *c, const rsh_tensor_props *props, rsh_torch_tensor **out) {
    RSH_TRY(rshi_group_take(c->group, &c->group, &c->comm));
    if (c->tensor) c->props = props ? *props : rsh_tensor_get_props(c->tensor);
    return agree_on_arguments(c, (const rsh_torch_tensor *const *)out);
}

rsh_status rsh_torch_scatter(const rsh_tensor *tensor, const rsh_spec *spec, int src_rank, rsh_group *group,
                          const rsh_tensor_props *props, rsh_torch_tensor **out) {
    cutting c = {.name = "torch_scatter", .tensor = tensor, .spec = spec, .src_rank = src_rank, .group = group};
    RSH_TRY(start_call(&c, props, out));
    return cut_and_send(&c, out);
}

/* Calls the sharder of a user-defined kind.  The sharder does not know the properties, so they are set here. */
static rsh_status shard_by_kind(const cutting *c, rsh_torch_tensor **out) {
    const rsh_spec_kind *kind = rshi_spec_kind(c->spec);
    const rsh_spec_sharder *sharder = kind->sharder;
    rsh_torch_tensor *made = NULL;
    RSH_REQUIRE(sharder && sharder->shard, RSH_EUNSUP,
                "spec kind \"%s\" has no shard function; use rsh_torch_scatter", kind->name);
    uint64_t before = rshi_sentences();
    RSH_TRY(rshi_kind_said(before, sharder->shard(rshi_spec_inside(c->spec), c->tensor, c->src_rank, c->group, &made),
                           kind->name, "shard a tensor"));
    RSH_REQUIRE(made, RSH_ERUNTIME, "spec kind \"%s\" reported success but made no tensor", kind->name);
    rsh_status st = c->props.requires_grad ? rsh_torch_set_requires_grad(made, true) : RSH_OK;
    if (st)
        rsh_torch_free(made);
    else
        *out = made;
    return st;
}

rsh_status rsh_shard_tensor(const rsh_tensor *tensor, const rsh_spec *spec, int src_rank, rsh_group *group,
                            const rsh_tensor_props *props, rsh_torch_tensor **out) {
    cutting c = {.name = "shard_tensor", .tensor = tensor, .spec = spec, .src_rank = src_rank, .group = group};
    RSH_TRY(start_call(&c, props, out));
    return rshi_spec_is_chunk(spec) ? cut_and_send(&c, out) : shard_by_kind(&c, out);
}
