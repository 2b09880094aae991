/* Reshard parts: the three functions of PyTorch's reshard, for specs in which each of W ranks owns one chunk. */
#include "torch/impl.h"

#include <string.h>

/* ---- metadata by rank ---- */

/* Fills `by_rank` from metadata in placement order; RSH_EVALUE unless every rank owns one chunk. */
static rsh_status sort_by_rank(const rsh_tensor_meta *m, int W, rsh_shard_meta *by_rank, int *ranks) {
    for (int r = 0; r < W; r++) by_rank[r] = (rsh_shard_meta){.ndim = -1};
    for (int c = 0; c < W; c++) {
        const rsh_shard_meta *s = &m->shards[c];
        RSH_TRY(rsh_remote_device_check(&s->placement, W));
        int rank = s->placement.rank;
        RSH_REQUIRE(by_rank[rank].ndim < 0, RSH_EVALUE,
                    "rank %d owns more than one chunk; each rank must own exactly one", rank);
        by_rank[rank] = *s;
        if (ranks) ranks[c] = rank;
    }
    return RSH_OK;
}

static rsh_status build_by_rank(int ndim, const int64_t *size, const rsh_spec *spec, int W, rsh_shard_meta *by_rank,
                                int *ranks) {
    const rsh_tensor_props props = RSH_TENSOR_PROPS_INIT;
    const rsh_remote_device *placements;
    rsh_tensor_meta *m;
    int64_t n;
    RSH_REQUIRE(!rsh_spec_chunk_placements(spec, &n, &placements), RSH_EVALUE,
                "spec must cut one dim into chunks, got %.300s", rsh_spec_text(spec));
    RSH_REQUIRE(n == W, RSH_EVALUE, "spec %.300s has %lld chunks, expected %d (one per rank)", rsh_spec_text(spec),
                (long long)n, W);
    RSH_TRY(rsh_spec_build(spec, ndim, size, &props, &m));
    rsh_status st = sort_by_rank(m, W, by_rank, ranks);
    rsh_tensor_meta_free(m);
    return st;
}

/* Results are written only on success, so they are computed in temporary memory first. */
rsh_status rsh_reshard_metadata(int ndim, const int64_t *size, const rsh_spec *spec, int W, rsh_shard_meta *by_rank,
                                int *ranks) {
    RSH_REQUIRE(spec && W > 0 && by_rank, RSH_EVALUE, "metadata by rank: spec, ranks and out must not be NULL");
    rsh_shard_meta *list = rshi_calloc((size_t)W, sizeof *list);
    int *order = rshi_calloc((size_t)W, sizeof *order);
    rsh_status st = list && order ? build_by_rank(ndim, size, spec, W, list, order) : rshi_nomem();
    if (!st) memcpy(by_rank, list, (size_t)W * sizeof *list);
    if (!st && ranks) memcpy(ranks, order, (size_t)W * sizeof *order);
    rshi_free(list);
    rshi_free(order);
    return st;
}

/* ---- moving a rank's chunk from one spec to another ---- */

typedef struct moving {
    rsh_group *group;
    rsh_comm *comm;
    rsh_shard_meta *from, *to; /* owned: boxes before and after, by rank */
    rsh_torch_tensor *made;    /* owned */
    rsh_sharded *src;          /* owned */
} moving;

static rsh_status check_dims(int ndim, const rsh_spec *from, const rsh_spec *to, bool same) {
    int a, b;
    RSH_REQUIRE(!rsh_spec_chunk_dim(from, ndim, &a) && !rsh_spec_chunk_dim(to, ndim, &b), RSH_EVALUE,
                "specs %.300s and %.300s must both cut one of the %d dims into chunks", rsh_spec_text(from),
                rsh_spec_text(to),
                ndim);
    RSH_REQUIRE((a == b) == same, RSH_EVALUE,
                same ? "reshuffle requires both specs to cut the same dim, got dims %d and %d; use reshard"
                     : "reshard requires specs that cut different dims, got dims %d and %d; use reshuffle",
                a, b);
    return RSH_OK;
}

static rsh_status check_local(const rsh_tensor *local, const rsh_shard_meta *m) {
    RSH_REQUIRE(rsh_tensor_ndim(local) == m->ndim, RSH_EVALUE, "local tensor has %d dims, but its chunk has %d",
                rsh_tensor_ndim(local), m->ndim);
    for (int d = 0; d < m->ndim; d++)
        RSH_REQUIRE(rsh_tensor_shape(local)[d] == m->sizes[d], RSH_EVALUE,
                    "local tensor has size %lld along dim %d, but its chunk has %lld",
                    (long long)rsh_tensor_shape(local)[d], d, (long long)m->sizes[d]);
    return RSH_OK;
}

static rsh_status wrap_source(moving *m, const rsh_tensor *local, int ndim, const int64_t *size, const rsh_spec *from) {
    rsh_layout *l;
    RSH_TRY(rsh_spec_layout(from, rsh_tensor_dtype(local), ndim, size, &l));
    rsh_status st = rsh_sharded_from_tensors(m->comm, l, 1, &local, &m->src);
    rsh_layout_free(l);
    return st;
}

static rsh_status prepare_move(moving *m, const rsh_tensor *local, int ndim, const int64_t *size, const rsh_spec *from,
                               const rsh_spec *to, bool same, bool results) {
    RSH_REQUIRE(local && from && to && results, RSH_EVALUE, "local tensor, specs and results must not be NULL");
    int W = m->comm->size;
    rsh_tensor_props props = rsh_tensor_get_props(local);
    m->from = rshi_calloc((size_t)W, sizeof *m->from);
    m->to = rshi_calloc((size_t)W, sizeof *m->to);
    if (!m->from || !m->to) return rshi_nomem();
    RSH_TRY(check_dims(ndim, from, to, same));
    RSH_TRY(build_by_rank(ndim, size, from, W, m->from, NULL));
    RSH_TRY(build_by_rank(ndim, size, to, W, m->to, NULL));
    RSH_TRY(check_local(local, &m->from[m->comm->rank]));
    RSH_TRY(wrap_source(m, local, ndim, size, from));
    return rshi_torch_new(to, ndim, size, &props, m->group, false, &m->made);
}

static rsh_status move_chunk(const rsh_tensor *local, int ndim, const int64_t *size, const rsh_spec *from,
                             const rsh_spec *to, rsh_group *group, bool same, rsh_shard *out, rsh_shard_meta *by_rank) {
    moving m = {.group = group};
    RSH_TRY(rshi_group_take(group, &m.group, &m.comm));
    rsh_status st = prepare_move(&m, local, ndim, size, from, to, same, out && by_rank);
    st = rshi_reshard_as(m.comm, same ? "reshuffle_local_shard" : "reshard_local_shard", st, m.src,
                         m.made ? m.made->sharded : NULL, NULL);
    if (!st) {
        *out = m.made->shards[0];
        m.made->sharded->part[0] = NULL; /* the caller owns the part now */
        memcpy(by_rank, m.to, (size_t)m.comm->size * sizeof *by_rank);
    }
    rsh_sharded_free(m.src);
    rsh_torch_free(m.made);
    rshi_free(m.from);
    rshi_free(m.to);
    return st;
}

rsh_status rsh_reshuffle_local_shard(const rsh_tensor *local, int ndim, const int64_t *size, const rsh_spec *from,
                                     const rsh_spec *to, rsh_group *group, rsh_shard *out, rsh_shard_meta *by_rank) {
    return move_chunk(local, ndim, size, from, to, group, true, out, by_rank);
}

rsh_status rsh_reshard_local_shard(const rsh_tensor *local, int ndim, const int64_t *size, const rsh_spec *from,
                                   const rsh_spec *to, rsh_group *group, rsh_shard *out, rsh_shard_meta *by_rank) {
    return move_chunk(local, ndim, size, from, to, group, false, out, by_rank);
}
