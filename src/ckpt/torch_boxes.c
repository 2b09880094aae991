/* Torch boxes: finds the boxes of a whole tensor that a rank's DTensor or ShardedTensor holds. */
#include "ckpt/torch_values.h"

#include <inttypes.h>
#include <string.h>

typedef rshi_pickle_value value;

enum { MESH_DIMS = RSH_MAX_NDIM, MESH_MOST = 1 << 20 /* most dims of a mesh, and most ranks */ };

/* Returns (function, type, arguments, state) of a tensor subclass, also inside parameters; NULL: it is no subclass. */
static const value *find_wrapped(const value *v) {
    for (int i = 0; i < 4 && rshi_pickle_is(v, RSHI_CLASS_PARAMETER) && v->n; i++) v = v->item[0];
    bool is = rshi_pickle_is(v, RSHI_CLASS_FROM_TYPE) && v->n == 4 &&
              rshi_pickle_is_class(v->item[0], RSHI_CLASS_WRAPPER) && v->item[2]->kind == RSHI_PICKLE_TUPLE &&
              v->item[2]->n > 2;
    return is ? v : NULL;
}

bool rshi_torch_is_sharded(const value *v) {
    const value *w = find_wrapped(v);
    return w && (rshi_pickle_is_class(w->item[1], RSHI_CLASS_DTENSOR) ||
                 rshi_pickle_is_class(w->item[1], RSHI_CLASS_SHARDED_TENSOR));
}

static rsh_status refuse(const rshi_torch_file *s, const value *v, const char *sentence) {
    return rshi_pickle_fail(&s->pickle, v, "%s", sentence);
}

/* ---- meshes ---- */

/* The position of this rank in a mesh, and the mesh's sizes. */
typedef struct position {
    int ndim;
    int64_t size[MESH_DIMS], at[MESH_DIMS];
    bool inside; /* whether the rank is in the mesh */
} position;

/* Reads element i of a tensor of integers from the file. */
static rsh_status read_rank(const rshi_torch_file *s, const rshi_saved_tensor *t, int64_t i, int64_t *out) {
    unsigned char bytes[8];
    int64_t size = rsh_dtype_bits(t->dtype) / 8;
    uint64_t v = 0;
    RSH_TRY(rshi_file_span_read(&s->span, t->at - s->span.at + (uint64_t)(i * size), bytes, (uint64_t)size));
    for (int64_t k = size; k--;) v = v << 8 | bytes[k];
    *out = size == 4 ? (int32_t)(uint32_t)v : (int64_t)v;
    return RSH_OK;
}

/* Finds the index of the rank in a contiguous tensor of ranks; -1: the rank is not there.  If rank is -1, this is a
 * single file, whose mesh must have one rank. */
static rsh_status find_rank(const rshi_torch_file *s, const value *mesh, int64_t rank, rshi_saved_tensor *t,
                            int64_t *at) {
    int64_t count = 1, got = 0, dense = 1;
    RSH_TRY(rshi_saved_tensor_of(s, mesh, t));
    bool right = t->dtype == RSH_I32 || t->dtype == RSH_I64;
    for (int d = t->ndim; d--; dense *= t->shape[d]) right &= t->shape[d] == 1 || t->strides[d] == dense;
    if (!right || !rshi_product(t->ndim, t->shape, &count) || count < 1 || count > MESH_MOST)
        return refuse(s, mesh, "a mesh must be a contiguous tensor of ranks");
    if (rank < 0 && count > 1)
        return refuse(s, mesh,
                      "the file holds one rank's part of a tensor, but its name has no rank; rename the files of all "
                      "ranks to NAME_RANK.pt and open their directory");
    *at = rank < 0 ? 0 : -1;
    for (int64_t i = 0; i < count && *at < 0; i++) {
        RSH_TRY(read_rank(s, t, i, &got));
        if (got == rank) *at = i;
    }
    return RSH_OK;
}

/* Reads the sizes of a mesh; a mesh of one dim may have a number instead of a tuple. */
static rsh_status mesh_sizes(const rshi_torch_file *s, const value *v, int *n, int64_t *out) {
    if (!v || v->kind != RSHI_PICKLE_INT || v->number < 1) return rshi_pickle_sizes(&s->pickle, v, "a mesh", n, out);
    *n = 1;
    out[0] = v->number;
    return RSH_OK;
}

/* Finds the rank in a mesh of later versions of PyTorch, which store a list of all ranks with sizes and strides. */
static rsh_status find_in_layout(const rshi_torch_file *s, const value *mesh, int64_t rank, position *out) {
    const value *layout = rshi_pickle_field(mesh, "_layout"), *map = rshi_pickle_field(mesh, "_rank_map");
    int64_t at, strides[RSH_MAX_NDIM];
    rshi_saved_tensor t;
    int n;
    if (!map) return refuse(s, mesh, "the description of a mesh is malformed");
    RSH_TRY(mesh_sizes(s, rshi_pickle_field(layout, "shape"), &out->ndim, out->size));
    RSH_TRY(mesh_sizes(s, rshi_pickle_field(layout, "stride"), &n, strides));
    RSH_TRY(find_rank(s, map, rank, &t, &at));
    out->inside = at >= 0;
    for (int d = 0; d < out->ndim && out->inside; d++) {
        if (n != out->ndim || !strides[d] || !out->size[d])
            return refuse(s, mesh, "the strides of a mesh are not supported");
        out->at[d] = at / strides[d] % out->size[d];
    }
    return RSH_OK;
}

static rsh_status find_position(const rshi_torch_file *s, const value *mesh, int64_t rank, position *out) {
    rshi_saved_tensor t;
    int64_t at;
    if (!rshi_pickle_is(mesh, RSHI_CLASS_DEVICE_MESH)) return refuse(s, mesh, "the mesh of a DTensor is missing");
    const value *ranks = rshi_pickle_field(mesh, "mesh");
    if (!ranks || !rshi_saved_is_tensor(ranks)) return find_in_layout(s, mesh, rank, out);
    RSH_TRY(find_rank(s, ranks, rank, &t, &at));
    *out = (position){.ndim = t.ndim, .inside = at >= 0};
    for (int d = t.ndim; d--;) {
        out->size[d] = t.shape[d];
        out->at[d] = at >= 0 ? at % t.shape[d] : 0;
        at = at >= 0 ? at / t.shape[d] : -1;
    }
    return RSH_OK;
}

/* ---- placements ---- */

typedef struct placement {
    int64_t dim;    /* dim of the tensor; -1: replicated */
    int64_t factor; /* split_factor of a _StridedShard; 0: a plain Shard */
} placement;

static rsh_status read_placement(const rshi_torch_file *s, const value *v, int ndim, placement *out) {
    bool strided = rshi_pickle_is(v, RSHI_CLASS_STRIDED_SHARD);
    *out = (placement){-1, 0};
    if (rshi_pickle_is(v, RSHI_CLASS_REPLICATE)) return RSH_OK;
    if (!strided && !rshi_pickle_is(v, RSHI_CLASS_SHARD))
        return rshi_fail(RSH_EUNSUP,
                         "%.150s: byte %" PRIu64 ": DTensor placement %s is not supported; expected Shard or Replicate",
                         s->pickle.file, s->pickle.base + v->at,
                         rshi_pickle_is(v, RSHI_CLASS_PARTIAL) ? "Partial" : "of an unknown class");
    const value *dim = rshi_pickle_field(v, "dim"), *factor = rshi_pickle_field(v, "split_factor");
    if (!dim || dim->kind != RSHI_PICKLE_INT || dim->number < -ndim || dim->number >= ndim ||
        (strided && (!factor || factor->kind != RSHI_PICKLE_INT || factor->number < 1)))
        return refuse(s, v, "the dim of a placement is out of range");
    *out = (placement){dim->number < 0 ? dim->number + ndim : dim->number, strided ? factor->number : 0};
    return RSH_OK;
}

/* Computes a piece as torch.chunk does: pieces have equal sizes, except that the last ones may be smaller or empty. */
static void cut_chunk(int64_t pieces, int64_t at, int64_t *lo, int64_t *size) {
    int64_t step = rshi_ceil_div(*size, pieces), from = rshi_min(*size, at * step);
    *size = rshi_min(*size - from, step);
    *lo += from;
}

/* Cuts one dim of the tensor: first by the plain shards in mesh order, then by the strided ones in reverse order.  The
 * split_factor of a strided shard is the number of pieces into which the dim was cut before it. */
static rsh_status cut_dim(const rshi_torch_file *s, const value *v, const position *p, const placement *place,
                          int64_t d, int64_t *lo, int64_t *size) {
    int64_t before = 1;
    for (int m = 0; m < p->ndim; m++) {
        if (place[m].dim != d || place[m].factor) continue;
        cut_chunk(p->size[m], p->at[m], lo, size);
        before *= p->size[m];
    }
    for (int m = p->ndim; m--;) {
        if (place[m].dim != d || !place[m].factor) continue;
        if (place[m].factor != before)
            return rshi_fail(RSH_EUNSUP,
                             "%.150s: byte %" PRIu64 ": a _StridedShard must have split_factor %" PRId64
                             ", the number of pieces cut before it, got %" PRId64,
                             s->pickle.file, s->pickle.base + v->at, before, place[m].factor);
        cut_chunk(p->size[m], p->at[m], lo, size);
        before *= p->size[m];
    }
    return RSH_OK;
}

static rsh_status find_box(const rshi_torch_file *s, const value *spec, int64_t rank, rshi_torch_box *box,
                           int64_t *size, bool *inside) {
    const value *places = rshi_pickle_field(spec, "placements");
    placement place[MESH_DIMS];
    position p = {0};
    RSH_TRY(find_position(s, rshi_pickle_field(spec, "mesh"), rank, &p));
    *inside = p.inside;
    if (!places || (places->kind != RSHI_PICKLE_TUPLE && places->kind != RSHI_PICKLE_LIST) ||
        places->n != (uint32_t)p.ndim)
        return refuse(s, places, "a DTensor must have one placement for each dim of its mesh");
    for (int m = 0; m < p.ndim; m++) RSH_TRY(read_placement(s, places->item[m], box->ndim, &place[m]));
    for (int d = 0; d < box->ndim; d++) {
        box->offset[d] = 0;
        size[d] = box->shape[d];
        RSH_TRY(cut_dim(s, places, &p, place, d, &box->offset[d], &size[d]));
    }
    return RSH_OK;
}

/* ---- both kinds of tensors ---- */

static rsh_status check_local(const rshi_torch_file *s, const value *v, const rshi_torch_box *box,
                              const int64_t *size) {
    if (box->local.ndim != box->ndim || (box->ndim && memcmp(box->local.shape, size, (size_t)box->ndim * sizeof *size)))
        return refuse(s, v, "the shape of the local tensor does not match its placements");
    return RSH_OK;
}

static rsh_status dtensor_box(const rshi_torch_file *s, const value *state, int64_t rank, rshi_torch_box *box,
                              rshi_torch_box_fn fn, void *ctx) {
    value *items[1] = {(value *)(uintptr_t)state};
    value object = {.kind = RSHI_PICKLE_OBJECT, .class = RSHI_CLASS_DTENSOR_SPEC, .n = 1, .item = items};
    const value *local = rshi_pickle_field(&object, "_local_tensor"), *spec = rshi_pickle_field(&object, "_spec");
    int64_t size[RSH_MAX_NDIM];
    bool inside = true;
    if (!local || !rshi_saved_is_tensor(local) || !rshi_pickle_is(spec, RSHI_CLASS_DTENSOR_SPEC))
        return refuse(s, state, "the description of a DTensor is malformed");
    RSH_TRY(find_box(s, spec, rank, box, size, &inside));
    if (!inside) return RSH_OK;
    RSH_TRY(rshi_saved_tensor_of(s, local, &box->local));
    RSH_TRY(check_local(s, state, box, size));
    return fn(ctx, box);
}

static rsh_status shard_box(const rshi_torch_file *s, const value *shard, rshi_torch_box *box) {
    const value *tensor = rshi_pickle_field(shard, "tensor"), *meta = rshi_pickle_field(shard, "metadata");
    int64_t size[RSH_MAX_NDIM];
    int n[2];
    if (!rshi_pickle_is(shard, RSHI_CLASS_LOCAL_SHARD) || !rshi_saved_is_tensor(tensor) ||
        !rshi_pickle_is(meta, RSHI_CLASS_SHARD_METADATA))
        return refuse(s, shard, "the description of a shard is malformed");
    RSH_TRY(rshi_pickle_sizes(&s->pickle, rshi_pickle_field(meta, "shard_offsets"), "the offset of a shard", &n[0],
                              box->offset));
    RSH_TRY(rshi_pickle_sizes(&s->pickle, rshi_pickle_field(meta, "shard_sizes"), "the size of a shard", &n[1], size));
    if (n[0] != box->ndim || n[1] != box->ndim)
        return refuse(s, shard, "a shard and its tensor have different numbers of dims");
    RSH_TRY(rshi_saved_tensor_of(s, tensor, &box->local));
    return check_local(s, shard, box, size);
}

/* Reads (local shards, metadata, ...). */
static rsh_status sharded_boxes(const rshi_torch_file *s, const value *state, rshi_torch_box *box, rshi_torch_box_fn fn,
                                void *ctx) {
    const value *list = state->kind == RSHI_PICKLE_TUPLE && state->n ? state->item[0] : NULL;
    if (!list || list->kind != RSHI_PICKLE_LIST)
        return refuse(s, state, "the description of a ShardedTensor is malformed");
    for (uint32_t i = 0; i < list->n; i++) {
        RSH_TRY(shard_box(s, list->item[i], box));
        RSH_TRY(fn(ctx, box));
    }
    return RSH_OK;
}

rsh_status rshi_torch_boxes(const rshi_torch_file *s, const value *v, int64_t rank, rshi_torch_box_fn fn, void *ctx) {
    const value *w = find_wrapped(v);
    rshi_torch_box box = {0};
    RSH_TRY(rshi_pickle_sizes(&s->pickle, w->item[2]->item[2], "the size of a tensor", &box.ndim, box.shape));
    if (rshi_pickle_is_class(w->item[1], RSHI_CLASS_DTENSOR)) return dtensor_box(s, w->item[3], rank, &box, fn, ctx);
    return sharded_boxes(s, w->item[3], &box, fn, ctx);
}
