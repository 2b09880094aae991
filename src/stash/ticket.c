/* Ticket: one packed tensor, which one gather restores.
 *
 * Dims are cut and gathered in their memory order, so that a transposed tensor is transposed again afterwards.  Kernels
 * then take the same path and give the same bits. */
#include "stash/impl.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "math/math.h"
#include "tensor/tensor.h"

struct rsh_ticket {
    rsh_stash *stash; /* held */
    uint64_t number;
    rsh_dtype dtype;
    int ndim;
    int64_t shape[RSH_MAX_NDIM];
    int64_t strides[RSH_MAX_NDIM]; /* strides of the restored tensor: in the order of the original, without gaps */
    int64_t count;
    rsh_sharded *mine;    /* owned: this rank's chunk, with dims in memory order; NULL: not cut */
    rsh_layout *whole;    /* owned: layout of the gathered tensor, also in memory order */
    rsh_transit *gather;  /* owned: a gather in progress; NULL: none */
    rsh_tensor *original; /* owned: a tensor that was not cut */
    uint64_t version;     /* version of `original` when it was packed */
};

/* ---- memory order ---- */

/* Sorts dims by descending stride. */
static void sort_by_stride(const rsh_tensor *t, int *order) {
    const int64_t *strides = rsh_tensor_strides(t);
    for (int i = 0; i < rsh_tensor_ndim(t); i++) {
        int at = i;
        for (; at && llabs(strides[order[at - 1]]) < llabs(strides[i]); at--) order[at] = order[at - 1];
        order[at] = i;
    }
}

/* Creates a view of the tensor with its dims in memory order, and updates `*dim`; sets the ticket's strides to those of
 * a tensor in that order without gaps. */
static rsh_status view_in_memory_order(const rsh_tensor *t, int *dim, rsh_ticket *ticket, rsh_tensor **out) {
    int order[RSH_MAX_NDIM], ndim = rsh_tensor_ndim(t), cut_tensor = 0;
    int64_t shape[RSH_MAX_NDIM], strides[RSH_MAX_NDIM], stride = 1;
    sort_by_stride(t, order);
    for (int i = ndim - 1; i >= 0; i--) {
        shape[i] = rsh_tensor_shape(t)[order[i]];
        strides[i] = rsh_tensor_strides(t)[order[i]];
        ticket->strides[order[i]] = stride;
        stride *= shape[i];
        if (order[i] == *dim) cut_tensor = i;
    }
    *dim = cut_tensor;
    return rsh_tensor_view(t, 0, ndim, shape, strides, out);
}

/* ---- packing ---- */

/* Returns whether the tensor is expanded: it then has fewer elements in memory than one of its chunks would have. */
static bool is_expanded(const rsh_tensor *t) {
    for (int d = 0; d < rsh_tensor_ndim(t); d++)
        if (!rsh_tensor_strides(t)[d] && rsh_tensor_shape(t)[d] > 1) return true;
    return false;
}

/* Returns the dim to cut, counted from 0; -1: none.  All ranks decide the same way, because only shape and strides are
 * used. */
static int dim_to_cut(const rsh_stash *s, const rsh_tensor *t, int dim) {
    int ndim = rsh_tensor_ndim(t), ranks = rsh_comm_size(s->comm), d = dim < 0 ? dim + ndim : dim;
    bool cut_tensor = d >= 0 && d < ndim && ranks > 1 && rsh_tensor_count(t) >= ranks && !is_expanded(t);
    return cut_tensor ? d : -1;
}

bool rsh_stash_would_cut(const rsh_stash *s, const rsh_tensor *t, int dim) {
    return s && t && dim_to_cut(s, t, dim) >= 0;
}

/* Copies this rank's chunk of the ordered tensor to memory that peers can read. */
static rsh_status copy_chunk(const rsh_tensor *t, int dim, rsh_sharded *into) {
    if (!into->nparts || !rsh_tensor_count(into->part[0])) return RSH_OK;
    int64_t offsets[RSH_MAX_NDIM] = {0}, ranks = into->comm->size;
    rsh_tensor *view = NULL;
    offsets[dim] = into->comm->rank * ((rsh_tensor_shape(t)[dim] + ranks - 1) / ranks);
    RSH_TRY(rsh_tensor_narrow(t, offsets, rsh_tensor_shape(into->part[0]), &view));
    rsh_status st = rsh_math_copy(view, into->part[0]);
    rsh_tensor_free(view);
    return st;
}

static rsh_status cut_ordered(rsh_ticket *k, const rsh_tensor *t, int dim) {
    const rshi_cutting *by = NULL;
    RSH_TRY(rshi_stash_cutting(k->stash, k->dtype, k->ndim, rsh_tensor_shape(t), dim, &by));
    RSH_TRY(rsh_sharded_empty(k->stash->comm, by->cut, &k->mine));
    k->whole = rsh_layout_hold(by->whole);
    return copy_chunk(t, dim, k->mine);
}

static rsh_status cut_tensor(rsh_ticket *k, const rsh_tensor *t, int dim) {
    rsh_tensor *ordered = NULL;
    RSH_TRY(view_in_memory_order(t, &dim, k, &ordered));
    rsh_status st = cut_ordered(k, ordered, dim);
    rsh_tensor_free(ordered);
    return st;
}

static rsh_status keep_tensor(rsh_ticket *k, const rsh_tensor *t) {
    k->version = rsh_tensor_version(t);
    return rsh_tensor_view(t, 0, k->ndim, k->shape, rsh_tensor_strides(t), &k->original);
}

rsh_status rsh_stash_pack(rsh_stash *s, const rsh_tensor *t, int dim, rsh_ticket **out) {
    RSH_NEEDS(s);
    RSH_NEEDS(t);
    RSH_NEEDS(out);
    rsh_ticket *k = RSHI_NEW(rsh_ticket);
    if (!k) return rshi_nomem();
    *k = (rsh_ticket){.stash = s, .dtype = rsh_tensor_dtype(t), .ndim = rsh_tensor_ndim(t),
                      .count = rsh_tensor_count(t)};
    s->refs++;
    memcpy(k->shape, rsh_tensor_shape(t), (size_t)k->ndim * sizeof *k->shape);
    int d = dim_to_cut(s, t, dim);
    rsh_status st = d >= 0 ? cut_tensor(k, t, d) : keep_tensor(k, t);
    if (st) {
        rsh_ticket_free(k);
        return st;
    }
    k->number = ++s->packed;
    *out = k;
    return RSH_OK;
}

/* ---- unpacking ---- */

#define TEXT 400

/* Writes the text that ranks compare: "ticket 7, f32[8/ranks, 5] on ranks=4". */
static void ticket_text(const rsh_ticket *k, char text[TEXT]) {
    snprintf(text, TEXT, "ticket %" PRIu64 ", %s", k->number, rsh_layout_text(k->mine->layout));
}

static rsh_status begin_gather(rsh_ticket *k, const char *name) {
    char what[TEXT];
    ticket_text(k, what);
    return rshi_transit_begin(k->stash->comm, &(rshi_call){name, what}, RSH_OK, k->mine, k->whole, NULL, &k->gather);
}

rsh_status rsh_stash_prefetch(rsh_ticket *k) {
    RSH_NEEDS(k);
    return k->mine && !k->gather ? begin_gather(k, "rsh_stash_prefetch") : RSH_OK;
}

/* Compares the tickets of all ranks.  They synchronize here even if the gather was prefetched, to detect a rank that
 * has failed in between or that unpacks another ticket.  In both cases the gather is still in progress on all ranks. */
static rsh_status compare_tickets(const rsh_ticket *k) {
    char what[TEXT];
    ticket_text(k, what);
    return rshi_comm_open(k->stash->comm, "rsh_stash_unpack", rshi_hash(what, strlen(what), 0), what, RSH_OK);
}

static rsh_status finish_gather(rsh_ticket *k, rsh_tensor **out) {
    rsh_sharded *all = NULL;
    rsh_status st = rsh_transit_wait(k->gather, &all);
    rsh_stash_forget(k);
    RSH_TRY(st);
    st = rsh_tensor_view(all->part[0], 0, k->ndim, k->shape, k->strides, out);
    rsh_sharded_free(all);
    return st ? rsh_comm_agree(k->stash->comm, st)
              : RSH_OK; /* the other ranks have the tensor; they get this status in their next call */
}

static rsh_status read_original(const rsh_ticket *k, rsh_tensor **out) {
    uint64_t now = rsh_tensor_version(k->original);
    RSH_REQUIRE(
        now == k->version, RSH_ERUNTIME,
        "rsh_stash_unpack: a tensor that was not cut has been modified since it was packed: expected version %" PRIu64
        ", found %" PRIu64,
        k->version, now);
    return rsh_tensor_view(k->original, 0, k->ndim, k->shape, rsh_tensor_strides(k->original), out);
}

rsh_status rsh_stash_unpack(rsh_ticket *k, rsh_tensor **out) {
    RSH_NEEDS(k);
    RSH_NEEDS(out);
    if (!k->mine) return read_original(k, out);
    RSH_TRY(k->gather ? compare_tickets(k) : begin_gather(k, "rsh_stash_unpack"));
    return finish_gather(k, out);
}

void rsh_stash_forget(rsh_ticket *k) {
    if (!k) return;
    rsh_transit_free(k->gather);
    k->gather = NULL;
}

void rsh_ticket_free(rsh_ticket *k) {
    if (!k) return;
    rsh_stash_forget(k);
    rsh_sharded_free(k->mine);
    rsh_layout_free(k->whole);
    rsh_tensor_free(k->original);
    rshi_stash_drop(k->stash);
    rshi_free(k);
}

/* ---- getters ---- */

uint64_t rsh_ticket_number(const rsh_ticket *k) { return k ? k->number : 0; }

bool rsh_ticket_is_cut(const rsh_ticket *k) { return k && k->mine; }

bool rsh_ticket_is_begun(const rsh_ticket *k) { return k && k->gather; }

uint64_t rsh_ticket_bytes(const rsh_ticket *k) { return k ? (uint64_t)k->count * rsh_dtype_size(k->dtype) : 0; }

uint64_t rsh_ticket_bytes_kept(const rsh_ticket *k) {
    if (!k || !k->mine) return rsh_ticket_bytes(k);
    return k->mine->nparts ? (uint64_t)rsh_tensor_count(k->mine->part[0]) * rsh_dtype_size(k->dtype) : 0;
}
