/* Chunk: this rank's part of a tensor that all ranks have, and the way back by one gather.
 *
 * Dims are cut and gathered in the order in which they lie in memory, so that a transposed tensor comes back
 * transposed: kernels then take the same path and give the same bits. */
#include "nn/kept_chunk.h"

#include <stdlib.h>
#include <string.h>

#include <reshard/math.h>

#include "nn/impl.h"
#include "nn/module.h"

/* ---- layouts ---- */

static bool cutting_fits(const rshn_cutting *c, rsh_dtype dtype, const rshn_sizes *s, int dim) {
    return c->dtype == dtype && c->ndim == s->n && c->dim == dim &&
           !memcmp(c->shape, s->at, (size_t)s->n * sizeof *s->at);
}

static rsh_status cutting_new(const rsh_mesh *mesh, rsh_dtype dtype, const rshn_sizes *s, int dim, rshn_cutting *out) {
    rsh_place cut = rsh_shard_on(dim), whole = rsh_replicate();
    *out = (rshn_cutting){.dtype = dtype, .ndim = s->n, .dim = dim};
    memcpy(out->shape, s->at, (size_t)s->n * sizeof *s->at);
    NN_TRY(rsh_mesh_layout(mesh, RSH_MESH_POSITIONS, 1, &cut, dtype, s->n, s->at, &out->cut));
    rsh_status st = rsh_mesh_layout(mesh, RSH_MESH_POSITIONS, 1, &whole, dtype, s->n, s->at, &out->whole);
    if (st) rsh_layout_free(out->cut);
    return st;
}

static rsh_status find_cutting(rshn_cuttings *c, rsh_dtype dtype, const rshn_sizes *s, int dim, rshn_cutting *out) {
    for (int64_t i = 0; i < c->n; i++) {
        if (!cutting_fits(&c->list[i], dtype, s, dim)) continue;
        *out = c->list[i];
        return RSH_OK;
    }
    NN_TRY(RSHN_GROW(c->list, c->n + 1, &c->room));
    NN_TRY(cutting_new(c->mesh, dtype, s, dim, &c->list[c->n]));
    *out = c->list[c->n++];
    return RSH_OK;
}

void rshn_cuttings_end(rshn_cuttings *c) {
    for (int64_t i = 0; i < c->n; i++) {
        rsh_layout_free(c->list[i].cut);
        rsh_layout_free(c->list[i].whole);
    }
    rshn_free(c->list);
    rsh_mesh_free(c->mesh);
}

/* ---- the order in memory ---- */

/* Dims by descending stride. */
static void memory_order(const rsh_tensor *t, int *order) {
    const int64_t *strides = rsh_tensor_strides(t);
    for (int i = 0; i < rsh_tensor_ndim(t); i++) {
        int at = i;
        for (; at && llabs(strides[order[at - 1]]) < llabs(strides[i]); at--) order[at] = order[at - 1];
        order[at] = i;
    }
}

/* The tensor with its dims in memory order, where dim `*dim` moves to, and the strides of a tensor without gaps. */
static rsh_status in_order(const rsh_tensor *t, int *dim, int64_t *restored, rsh_tensor **out) {
    int order[RSH_MAX_NDIM], ndim = rsh_tensor_ndim(t), cut = 0;
    int64_t shape[RSH_MAX_NDIM], strides[RSH_MAX_NDIM], stride = 1;
    memory_order(t, order);
    for (int i = ndim - 1; i >= 0; i--) {
        shape[i] = rsh_tensor_shape(t)[order[i]];
        strides[i] = rsh_tensor_strides(t)[order[i]];
        restored[order[i]] = stride;
        stride *= shape[i] ? shape[i] : 1;
        if (order[i] == *dim) cut = i;
    }
    *dim = cut;
    return rsh_tensor_view(t, 0, ndim, shape, strides, out);
}

/* ---- cutting ---- */

static rsh_status copy_chunk(const rsh_tensor *t, int dim, int64_t rank, int64_t ranks, rsh_tensor **out) {
    int64_t offsets[RSH_MAX_NDIM] = {0}, n = rsh_tensor_shape(t)[dim], length = (n + ranks - 1) / ranks;
    rshn_sizes sizes = rshn_sizes_of(t);
    rsh_tensor *view = NULL, *copy = NULL;
    offsets[dim] = rank * length < n ? rank * length : n;
    sizes.at[dim] = n - offsets[dim] < length ? n - offsets[dim] : length;
    NN_TRY(rsh_tensor_narrow(t, offsets, sizes.at, &view));
    rsh_status st = rshn_empty(rsh_tensor_dtype(t), &sizes, &copy);
    if (!st) st = rsh_math_copy(view, copy);
    rsh_tensor_free(view);
    if (st) rsh_tensor_free(copy);
    else *out = copy;
    return st;
}

static rsh_status cut(rshn_cuttings *c, const rsh_tensor *t, int dim, rshn_chunk *out) {
    rshn_sizes sizes = rshn_sizes_of(t);
    rshn_cutting by;
    rsh_tensor *mine = NULL;
    int rank = rsh_comm_rank(out->comm);
    NN_TRY(find_cutting(c, out->dtype, &sizes, dim, &by));
    NN_TRY(copy_chunk(t, dim, rank, rsh_mesh_size(c->mesh), &mine));
    int64_t nparts = rsh_layout_nparts(by.cut, rank);
    rsh_status st = rsh_sharded_from_tensors(out->comm, by.cut, nparts, (const rsh_tensor *[]){mine}, &out->mine);
    rsh_tensor_free(mine);
    out->whole = rsh_layout_hold(by.whole);
    return st;
}

/* What it is cut from. */
static void describe(rshn_chunk *c, const rsh_value *v, const rsh_tensor *t) {
    size_t bytes = (size_t)rsh_tensor_ndim(t) * sizeof *c->shape;
    c->serial = rsh_tensor_storage_serial(t);
    c->version = rsh_tensor_version(t);
    c->data = rsh_tensor_data(t);
    c->dtype = rsh_tensor_dtype(t);
    c->ndim = rsh_tensor_ndim(t);
    memcpy(c->shape, rsh_tensor_shape(t), bytes);
    memcpy(c->strides, rsh_tensor_strides(t), bytes);
    c->layout = rsh_layout_hold(rsh_value_layout(v));
    c->reading = rsh_value_reading(v, &c->what);
    if (c->reading && c->reading->hold) c->reading->hold(c->what);
}

rsh_status rshn_chunk_new(rshn_cuttings *c, const rsh_value *v, int dim, rshn_chunk **out) {
    rshn_chunk *k = rshn_calloc(1, sizeof *k);
    if (!k) return rshn_fail(RSH_ENOMEM, "no memory for a chunk of a saved tensor");
    const rsh_tensor *t = rsh_value_part(v, 0);
    rsh_tensor *ordered = NULL;
    k->refs = 1;
    k->comm = rsh_mesh_comm(c->mesh);
    describe(k, v, t);
    rsh_status st = in_order(t, &dim, k->restored, &ordered);
    if (!st) st = cut(c, ordered, dim, k);
    rsh_tensor_free(ordered);
    if (st) rshn_chunk_drop(k);
    else *out = k;
    return st;
}

void rshn_chunk_drop(rshn_chunk *c) {
    if (!c || --c->refs) return;
    rsh_sharded_free(c->mine);
    rsh_layout_free(c->whole);
    rsh_layout_free(c->layout);
    if (c->reading && c->reading->drop) c->reading->drop(c->what);
    rsh_value_free(c->full);
    rshn_free(c);
}

/* ---- questions ---- */

bool rshn_chunk_is_of(const rshn_chunk *c, const rsh_tensor *t) {
    size_t bytes = (size_t)c->ndim * sizeof *c->shape;
    return c->serial == rsh_tensor_storage_serial(t) && c->version == rsh_tensor_version(t) &&
           c->data == rsh_tensor_data(t) && c->dtype == rsh_tensor_dtype(t) && c->ndim == rsh_tensor_ndim(t) &&
           !memcmp(c->shape, rsh_tensor_shape(t), bytes) && !memcmp(c->strides, rsh_tensor_strides(t), bytes);
}

static uint64_t bytes_of(rsh_dtype dtype, int64_t count) { return (uint64_t)count * rsh_dtype_size(dtype); }

uint64_t rshn_chunk_bytes(const rshn_chunk *c) {
    return rsh_sharded_nparts(c->mine) ? bytes_of(c->dtype, rsh_tensor_count(rsh_sharded_part(c->mine, 0))) : 0;
}

uint64_t rshn_chunk_whole_bytes(const rshn_chunk *c) {
    int64_t count = 1;
    for (int d = 0; d < c->ndim; d++) count *= c->shape[d];
    return bytes_of(c->dtype, count);
}

/* ---- the way back ---- */

/* t has the dims of the original again.  It is taken over, also if this fails. */
static rsh_status as_value(const rshn_chunk *c, rsh_tensor *t, rsh_value **out) {
    rsh_status st;
    if (!c->layout) {
        st = rsh_value_take(t, false, out);
        if (st) rsh_tensor_free(t);
        return st;
    }
    rsh_sharded *s = NULL;
    st = rsh_sharded_from_tensors(c->comm, c->layout, 1, (const rsh_tensor *[]){t}, &s);
    rsh_tensor_free(t);
    NN_TRY(st);
    st = rsh_value_take_sharded(s, false, out);
    if (st) rsh_sharded_free(s);
    return st ? st : rsh_value_read(*out, c->reading, c->what);
}

static rsh_status gather(const rshn_chunk *c, rsh_value **out) {
    rsh_sharded *all = NULL;
    rsh_tensor *t = NULL;
    NN_TRY(rsh_reshard(c->mine, c->whole, NULL, &all));
    rsh_status st = rsh_tensor_view(rsh_sharded_part(all, 0), 0, c->ndim, c->shape, c->restored, &t);
    rsh_sharded_free(all);
    if (!st) st = as_value(c, t, out);
    if (st) rsh_comm_agree(c->comm, st); /* the other ranks have the tensor and go on */
    return st;
}

rsh_status rshn_chunk_read(rshn_chunk *c, bool *gathered, rsh_value **out) {
    *gathered = !c->full;
    if (!c->full) {
        c->unread = c->slots;
        NN_TRY(gather(c, &c->full));
    }
    if (--c->unread > 0) return rsh_value_detach(c->full, out);
    *out = c->full;
    c->full = NULL;
    return RSH_OK;
}
