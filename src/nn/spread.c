/* Spread: describes a weight that is cut over ranks, and the rows that each rank passes to it. */
#include "nn/spread.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nn/impl.h"

/* ---- the weight ---- */

/* Returns the dim that the only axis cuts into chunks; -1: the layout is not of this form. */
static int cut_dim(const rsh_layout_desc *d) {
    if (d->is_boxes || d->naxes != 1 || d->ndim != 2 || d->op || d->flat.naxes || d->has_order) return -1;
    int dim = d->dim[0].cut.naxes ? 0 : 1;
    const rsh_dim *cut = &d->dim[dim], *other = &d->dim[1 - dim];
    bool plain = cut->cut.naxes == 1 && cut->cut.rule == RSH_CUT_CHUNK && !cut->nsegments && !other->nsegments;
    return plain && !other->cut.naxes ? dim : -1;
}

static int64_t find_position(const rsh_layout_desc *d, int64_t rank) {
    for (int64_t i = 0; i < d->axis[0].size; i++)
        if ((d->ranks ? d->ranks[i] : d->first_rank + i) == rank) return i;
    return -1;
}

rsh_status rshn_cut_weight_of(const char *layer, const rsh_value *weight, rshn_cut_weight *out) {
    *out = (rshn_cut_weight){.comm = rsh_value_comm(weight), .layout = rsh_value_layout(weight)};
    out->desc = rsh_layout_describe(out->layout);
    out->dim = cut_dim(out->desc);
    out->position = out->dim < 0 ? -1 : find_position(out->desc, rsh_comm_rank(out->comm));
    if (out->position < 0 || out->desc->axis[0].size != rsh_comm_size(out->comm))
        return rshn_fail(RSH_EVALUE,
                         "%s: the weight must be cut into chunks along dim 0 or 1, one on each of %d ranks, got layout "
                         "\"%.200s\"",
                         layer, rsh_comm_size(out->comm), rsh_layout_text(out->layout));
    int64_t n = out->desc->dim[out->dim].size, parts = out->desc->axis[0].size, size = (n + parts - 1) / parts;
    int64_t first = size * out->position, end = first + size;
    out->first = first < n ? first : n;
    out->n = (end < n ? end : n) - out->first;
    return RSH_OK;
}

/* ---- rows ---- */

rsh_status rshn_agree_on_rows(rsh_comm *comm, rsh_status mine, int64_t rows, int64_t **counts, int64_t *total) {
    int size = rsh_comm_size(comm);
    int64_t *all = rshn_malloc((size_t)size * sizeof *all);
    if (!mine && !all) mine = rshn_fail(RSH_ENOMEM, "out of memory for the rows of %d ranks", size);
    NN_TRY((rshn_free(mine ? all : NULL), rsh_comm_agree(comm, mine)));
    rsh_status st = rsh_comm_allgather(comm, &rows, all, sizeof rows);
    *total = 0;
    for (int r = 0; !st && r < size; r++) *total += all[r];
    if (st) rshn_free(all);
    else *counts = all;
    return st;
}

/* ---- layouts ---- */

static rsh_layout_desc describe_rows(rsh_dtype dtype, int ndim, const int64_t *sizes, int64_t ranks) {
    rsh_layout_desc d = {.dtype = dtype, .ndim = ndim, .naxes = 1};
    for (int i = 0; i < ndim; i++) d.dim[i].size = sizes[i];
    snprintf(d.axis[0].name, sizeof d.axis[0].name, "x");
    d.axis[0].size = ranks;
    return d;
}

rsh_status rshn_rows_layout(rsh_comm *comm, rsh_dtype dtype, int ndim, const int64_t *sizes, const int64_t *counts,
                            rsh_layout **out) {
    rsh_layout_desc d = describe_rows(dtype, ndim, sizes, rsh_comm_size(comm));
    d.dim[0].cut = (rsh_cut){.naxes = 1, .rule = RSH_CUT_SIZES, .sizes = counts, .nsizes = rsh_comm_size(comm)};
    return rsh_layout_new(&d, out);
}

static rsh_layout_desc describe_on_weight(const rshn_cut_weight *w, rsh_dtype dtype, int ndim, const int64_t *sizes) {
    rsh_layout_desc d = describe_rows(dtype, ndim, sizes, w->desc->axis[0].size);
    d.ranks = w->desc->ranks;
    d.first_rank = w->desc->first_rank;
    return d;
}

rsh_status rshn_whole_layout(const rshn_cut_weight *w, rsh_dtype dtype, int ndim, const int64_t *sizes, rsh_op op,
                             rsh_layout **out) {
    rsh_layout_desc d = describe_on_weight(w, dtype, ndim, sizes);
    d.op = op;
    d.npartial = op != RSH_OP_NONE;
    return rsh_layout_new(&d, out);
}

rsh_status rshn_last_cut_layout(const rshn_cut_weight *w, rsh_dtype dtype, int ndim, const int64_t *sizes,
                                rsh_layout **out) {
    rsh_layout_desc d = describe_on_weight(w, dtype, ndim, sizes);
    d.dim[ndim - 1].cut = (rsh_cut){.naxes = 1, .rule = RSH_CUT_CHUNK};
    return rsh_layout_new(&d, out);
}

/* ---- moves of plain values ---- */

rsh_status rshn_move_plain(rsh_value *v, rsh_comm *comm, const rsh_layout *from, const rsh_layout *to,
                           rsh_derivative how, rsh_value **out) {
    rsh_value *tagged = NULL, *moved = NULL;
    rsh_status st = rsh_value_from_local(v, comm, from, &tagged);
    st = rsh_comm_agree(comm, st);
    if (!st) st = rsh_value_reshard(tagged, to, how, NULL, &moved);
    if (!st) st = rsh_value_to_local(moved, out);
    rsh_value_free(tagged);
    rsh_value_free(moved);
    return st;
}
