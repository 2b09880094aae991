/* Spec and layout: converts metadata to a layout, and a layout to a spec.
 *
 * If the shards are chunks of one dim and every rank owns one, the layout is a mesh with one axis, which plans handle
 * without visiting every rank.  Otherwise it consists of boxes. */
#include "spec/impl.h"

#include <stdlib.h>
#include <string.h>

/* ---- metadata to layout ---- */

static rsh_status check_owners(const rsh_tensor_meta *m) {
    for (int64_t i = 0; i < m->nshards; i++) {
        char text[RSHI_SHARD_TEXT];
        const rsh_shard_meta *s = &m->shards[i];
        RSH_REQUIRE(s->has_placement && (s->placement.worker[0] || s->placement.rank >= 0), RSH_EVALUE,
                    "cannot convert to a layout: shard %lld, %s, has no rank", (long long)i,
                    rshi_shard_print(s, text));
        RSH_REQUIRE(!s->placement.worker[0], RSH_ERUNTIME,
                    "cannot convert to a layout: shard %lld, %s, names a worker; give its rank instead", (long long)i,
                    rshi_shard_print(s, text));
    }
    return RSH_OK;
}

static rsh_layout_desc describe_tensor(const rsh_tensor_meta *m) {
    rsh_layout_desc desc = {.dtype = m->props.dtype, .ndim = m->ndim};
    for (int d = 0; d < m->ndim; d++) desc.dim[d].size = m->size[d];
    return desc;
}

/* Creates a mesh with one axis that cuts dim; ranks[i] owns chunk i. */
static rsh_status mesh_layout(const rsh_tensor_meta *m, int dim, const int64_t *ranks, rsh_layout **out) {
    rsh_layout_desc desc = describe_tensor(m);
    desc.naxes = 1;
    desc.axis[0] = (rsh_axis){"x", m->nshards};
    desc.dim[dim].cut = (rsh_cut){.naxes = 1, .rule = RSH_CUT_CHUNK};
    desc.ranks = ranks;
    return rsh_layout_new(&desc, out);
}

static rsh_status boxes_layout(const rsh_tensor_meta *m, const int64_t *ranks, rsh_layout **out) {
    rsh_ranked_box *boxes = rshi_calloc((size_t)m->nshards, sizeof *boxes);
    if (!boxes) return rshi_nomem();
    for (int64_t i = 0; i < m->nshards; i++) {
        boxes[i] = (rsh_ranked_box){.nranks = 1, .ranks = &ranks[i]};
        for (int d = 0; d < m->ndim; d++) {
            boxes[i].box.lo[d] = m->shards[i].offsets[d];
            boxes[i].box.hi[d] = m->shards[i].offsets[d] + m->shards[i].sizes[d];
        }
    }
    rsh_layout_desc desc = describe_tensor(m);
    desc.is_boxes = true;
    desc.nboxes = m->nshards;
    desc.boxes = boxes;
    rsh_status st = rsh_layout_new(&desc, out);
    rshi_free(boxes);
    return st;
}

/* Returns whether no rank owns two shards.  Sorts the list. */
static bool all_differ(int64_t n, int64_t *ranks) {
    qsort(ranks, (size_t)n, sizeof *ranks, rshi_compare_int64);
    for (int64_t i = 1; i < n; i++)
        if (ranks[i] == ranks[i - 1]) return false;
    return true;
}

/* Finds the dim along which the shards are chunks, and their order in a new list. -1: there is none, or *st is an
 * error. */
static int find_chunks(const rsh_tensor_meta *m, int64_t **order, rsh_status *st) {
    for (int d = 0; d < m->ndim && !*st; d++) {
        *order = rshi_order_along(m->nshards, m->shards, d);
        if (!*order) *st = rshi_nomem();
        if (*order && rshi_chunks_match(m->nshards, m->shards, *order, d, m->size)) return d;
        rshi_free(*order);
        *order = NULL;
    }
    return -1;
}

/* Returns whether a single shard is the whole tensor. */
static bool is_whole(const rsh_tensor_meta *m) {
    bool whole = m->nshards == 1;
    for (int d = 0; whole && d < m->ndim; d++) whole = !m->shards->offsets[d] && m->shards->sizes[d] == m->size[d];
    return whole;
}

static void list_ranks(const rsh_tensor_meta *m, const int64_t *order, int64_t *ranks) {
    for (int64_t i = 0; i < m->nshards; i++) ranks[i] = m->shards[order ? order[i] : i].placement.rank;
}

rsh_status rsh_tensor_meta_layout(const rsh_tensor_meta *m, rsh_layout **out) {
    RSH_REQUIRE(m && out, RSH_EVALUE, "layout: %s is NULL", m ? "out" : "metadata");
    RSH_TRY(check_owners(m));
    int64_t *ranks = rshi_alloc((size_t)m->nshards, sizeof *ranks), *order = NULL;
    rsh_status st = ranks ? RSH_OK : rshi_nomem();
    if (st) return st;
    list_ranks(m, NULL, ranks);
    int dim = m->nshards > 1 && all_differ(m->nshards, ranks) ? find_chunks(m, &order, &st) : -1;
    list_ranks(m, order, ranks);
    if (!st && is_whole(m))
        st = rsh_layout_whole(m->props.dtype, m->ndim, m->size, ranks[0], out);
    else if (!st)
        st = dim >= 0 ? mesh_layout(m, dim, ranks, out) : boxes_layout(m, ranks, out);
    rshi_free(order);
    rshi_free(ranks);
    return st;
}

rsh_status rsh_spec_layout(const rsh_spec *s, rsh_dtype dtype, int ndim, const int64_t *size, rsh_layout **out) {
    rsh_tensor_props props = RSH_TENSOR_PROPS_INIT;
    rsh_tensor_meta *m = NULL;
    props.dtype = dtype;
    RSH_TRY(rsh_spec_build(s, ndim, size, &props, &m));
    rsh_status st = rsh_tensor_meta_layout(m, out);
    rsh_tensor_meta_free(m);
    return st;
}

/* ---- layout to spec ---- */

typedef struct ranges {
    int64_t n, lo, hi; /* number of ranges, and bounds of the first one */
} ranges;

static int count_range(void *ctx, int64_t lo, int64_t hi) {
    ranges *r = ctx;
    if (!r->n++) r->lo = lo, r->hi = hi;
    return 0;
}

/* Returns whether the part is stored row-major.  Strides of dims of size 1 are ignored. */
static bool is_row_major(const rsh_part *p) {
    int64_t strides[RSH_MAX_NDIM];
    rshi_dense_strides(p->ndim, p->shape, NULL, strides);
    for (int d = 0; p->count && d < p->ndim; d++)
        if (p->shape[d] > 1 && p->strides[d] != strides[d]) return false;
    return true;
}

/* Converts a part to a shard.  If it is empty along a dim, the shard begins at the end of that dim, like an empty
 * chunk. */
static rsh_status part_to_shard(const rsh_layout *l, int64_t rank, int64_t part, rsh_shard_meta *out) {
    rsh_part p;
    RSH_TRY(rsh_layout_part(l, rank, part, &p));
    RSH_REQUIRE(is_row_major(&p), RSH_EUNSUP,
                "cannot convert to a spec: the memory order must be row-major: \"%.300s\"",
                rsh_layout_text(l));
    *out = (rsh_shard_meta){.ndim = rsh_layout_ndim(l),
                            .has_placement = true,
                            .placement = {.rank = (int)rank, .device = {RSH_DEVICE_CPU, -1}}};
    for (int d = 0; d < out->ndim; d++) {
        ranges r = {0, rsh_layout_shape(l)[d], rsh_layout_shape(l)[d]};
        RSH_TRY(rsh_layout_each_range(l, rank, part, d, count_range, &r));
        RSH_REQUIRE(r.n <= 1, RSH_EUNSUP,
                    "cannot convert to a spec: part %lld of rank %lld has %lld ranges along dim %d, expected one: "
                    "\"%.300s\"", (long long)part,
                    (long long)rank, (long long)r.n, d, rsh_layout_text(l));
        out->offsets[d] = r.lo;
        out->sizes[d] = r.hi - r.lo;
    }
    return RSH_OK;
}

/* Lists all parts by rank, in a new list of `n` entries. */
static rsh_status list_parts(const rsh_layout *l, rsh_shard_meta **out, int64_t *n) {
    int64_t at = 0;
    *n = 0;
    for (int64_t i = 0; i < rsh_layout_nranks(l); i++) *n += rsh_layout_nparts(l, rsh_layout_rank(l, i));
    rsh_shard_meta *shards = rshi_alloc((size_t)*n, sizeof *shards);
    rsh_status st = shards ? RSH_OK : rshi_nomem();
    for (int64_t i = 0; i < rsh_layout_nranks(l) && !st; i++) {
        int64_t rank = rsh_layout_rank(l, i), parts = rsh_layout_nparts(l, rank);
        for (int64_t part = 0; part < parts && !st; part++) st = part_to_shard(l, rank, part, &shards[at++]);
    }
    if (st)
        rshi_free(shards);
    else
        *out = shards;
    return st;
}

rsh_status rsh_spec_from_layout(const rsh_layout *l, rsh_spec **out) {
    RSH_REQUIRE(l && out, RSH_EVALUE, "spec: %s is NULL", l ? "out" : "layout");
    RSH_REQUIRE(!rsh_layout_op(l), RSH_EUNSUP, "cannot convert to a spec: the layout is partial: \"%.300s\"",
                rsh_layout_text(l));
    rsh_shard_meta *shards = NULL;
    int64_t n;
    RSH_TRY(list_parts(l, &shards, &n));
    rsh_status st = n ? rsh_shards_check_overlap(n, shards)
                      : rshi_fail(RSH_EUNSUP, "cannot convert to a spec: at least one shard is required: \"%.300s\"",
                                  rsh_layout_text(l));
    if (st == RSH_EVALUE)
        st = rshi_fail(RSH_EUNSUP, "cannot convert to a spec: elements are replicated: \"%.300s\"", rsh_layout_text(l));
    if (!st) st = rsh_spec_infer(n, shards, out);
    rshi_free(shards);
    return st;
}
