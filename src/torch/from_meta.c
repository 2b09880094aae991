/* From metadata: creates a sharded tensor from this rank's shards or tensor and a description of the whole tensor.
 * This is local; the description is not compared with other ranks. */
#include "torch/impl.h"

/* ---- shards and metadata ---- */

static rsh_status check_meta(const rsh_tensor_meta *m) {
    RSH_REQUIRE(m && m->nshards > 0, RSH_EVALUE, "metadata must have at least one shard");
    RSH_REQUIRE(m->props.layout == RSH_STRIDED, RSH_EVALUE, "metadata must describe a strided tensor");
    return RSH_OK;
}

static int64_t count_owned(const rsh_tensor_meta *m, int rank) {
    int64_t n = 0;
    for (int64_t i = 0; i < m->nshards; i++) n += m->shards[i].placement.rank == rank;
    return n;
}

static rsh_status compare_props(const rsh_tensor_props *a, const rsh_tensor_props *b, long long i) {
    RSH_REQUIRE(a->pin_memory == b->pin_memory, RSH_EVALUE,
                "shard %lld does not match its metadata: pin_memory is %s, expected %s", i,
                a->pin_memory ? "on" : "off", b->pin_memory ? "on" : "off");
    RSH_REQUIRE(a->dtype == b->dtype, RSH_EVALUE, "shard %lld does not match its metadata: dtype is %s, expected %s", i,
                rsh_dtype_name(a->dtype), rsh_dtype_name(b->dtype));
    RSH_REQUIRE(a->requires_grad == b->requires_grad, RSH_EVALUE,
                "shard %lld does not match its metadata: requires_grad is %s, expected %s", i,
                a->requires_grad ? "on" : "off", b->requires_grad ? "on" : "off");
    return RSH_OK;
}

static rsh_status check_shard(const rsh_shard *s, const rsh_shard_meta *m, const rsh_tensor_props *props, long long i) {
    RSH_TRY(rshi_shard_check(s, i));
    RSH_REQUIRE(rsh_tensor_ndim(s->tensor) == m->ndim, RSH_EVALUE,
                "shard %lld does not match its metadata: it has %d dims, expected %d", i,
                rsh_tensor_ndim(s->tensor), m->ndim);
    for (int d = 0; d < m->ndim; d++)
        RSH_REQUIRE(rsh_tensor_shape(s->tensor)[d] == m->sizes[d] && s->meta.offsets[d] == m->offsets[d], RSH_EVALUE,
                    "shard %lld does not match its metadata: size %lld at offset %lld along dim %d, expected size "
                    "%lld at offset %lld", i,
                    (long long)rsh_tensor_shape(s->tensor)[d], (long long)s->meta.offsets[d], d, (long long)m->sizes[d],
                    (long long)m->offsets[d]);
    RSH_REQUIRE(!s->meta.has_placement || rsh_remote_device_equal(&s->meta.placement, &m->placement), RSH_EVALUE,
                "shard %lld does not match its metadata: its placement differs", i);
    return compare_props(&s->props, props, i);
}

static rsh_status check_shards(int64_t n, const rsh_shard *shards, const rsh_tensor_meta *m, int rank) {
    int64_t owned = count_owned(m, rank), k = 0;
    RSH_REQUIRE(n == owned && (!n || shards), RSH_ERUNTIME, "rank %d has %lld shards, expected %lld by the metadata",
                rank,
                (long long)n, (long long)owned);
    for (int64_t i = 0; i < m->nshards; i++)
        if (m->shards[i].placement.rank == rank) {
            RSH_TRY(check_shard(&shards[k], &m->shards[i], &m->props, (long long)k));
            k++;
        }
    return rshi_shards_check(m->nshards, m->shards, m->ndim, m->size);
}

/* Creates a tensor from shards.  The spec is given or inferred. */
static rsh_status create_from_shards(int64_t n, const rsh_shard *shards, const rsh_tensor_meta *meta,
                                     const rsh_spec *spec, rsh_group *group, rsh_torch_tensor **out) {
    rshi_outline o;
    RSH_TRY(rshi_outline_make(spec, meta->ndim, meta->size, &meta->props, group, &o));
    rsh_status st = rsh_tensor_meta_same(o.meta, meta)
                        ? rshi_torch_adopt(&o, n, shards, out)
                        : rshi_fail(RSH_EVALUE, "metadata do not match the spec %.300s", rsh_spec_text(spec));
    rshi_outline_clear(&o);
    return st;
}

rsh_status rsh_torch_from_shards_and_meta(int64_t n, const rsh_shard *shards, const rsh_tensor_meta *meta,
                                          const rsh_spec *spec, rsh_group *group, rsh_torch_tensor **out) {
    rsh_comm *comm;
    rsh_spec *inferred = NULL;
    RSH_REQUIRE(out, RSH_EVALUE, "rsh_torch_from_shards_and_meta: out is NULL");
    RSH_TRY(check_meta(meta));
    RSH_TRY(rshi_group_take(group, &group, &comm));
    RSH_TRY(rshi_placements_check(meta, comm));
    RSH_REQUIRE(n < 1 || shards, RSH_EVALUE, "got %lld shards but the list is NULL", (long long)n);
    RSH_TRY(check_shards(n, shards, meta, comm->rank));
    if (!spec) RSH_TRY(rsh_spec_infer(meta->nshards, meta->shards, &inferred));
    rsh_status st = create_from_shards(n, shards, meta, spec ? spec : inferred, group, out);
    rsh_spec_free(inferred);
    return st;
}

/* ---- a tensor and a spec ---- */

static rsh_status fill_from_tensor(const rshi_outline *o, const rsh_tensor *local, rsh_torch_tensor **out) {
    rsh_shard s;
    int64_t owned = rshi_outline_count_owned(o);
    if (!owned) return rshi_torch_adopt(o, 0, NULL, out);
    RSH_REQUIRE(owned == 1, RSH_EVALUE, "rank %d owns %lld shards; a single local tensor requires exactly one",
                o->comm->rank,
                (long long)owned);
    RSH_REQUIRE(local, RSH_EVALUE, "rank %d owns a shard but its local tensor is NULL", o->comm->rank);
    RSH_TRY(rsh_shard_make(local, &o->meta->shards[rshi_outline_next_owned(o, 0)], &o->props, &s));
    rsh_status st = rshi_torch_adopt(o, 1, &s, out);
    rsh_shard_clear(&s);
    return st;
}

rsh_status rsh_torch_from_tensor(const rsh_tensor *local, const rsh_tensor_props *props, const rsh_spec *spec, int ndim,
                                 const int64_t *size, rsh_group *group, rsh_torch_tensor **out) {
    rshi_outline o;
    rsh_tensor_props p = RSH_TENSOR_PROPS_INIT;
    RSH_REQUIRE(out, RSH_EVALUE, "rsh_torch_from_tensor: out is NULL");
    RSH_REQUIRE(!local || rsh_tensor_dense(local), RSH_EVALUE,
                "rsh_torch_from_tensor: the local tensor must be contiguous; pass a dense copy");
    if (local) p = rsh_tensor_get_props(local);
    if (props) p = *props;
    RSH_TRY(rshi_outline_make(spec, ndim, size, &p, group, &o));
    rsh_status st = fill_from_tensor(&o, local, out);
    rshi_outline_clear(&o);
    return st;
}
