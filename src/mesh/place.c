/* Place: converts lists of placements to layouts and back. */
#include "mesh/impl.h"

#include <inttypes.h>
#include <string.h>

/* ---- places to layouts ---- */

static rsh_status add_shard(rsh_layout_desc *desc, int axis, int dim) {
    int d = dim < 0 ? dim + desc->ndim : dim;
    RSH_REQUIRE(d >= 0 && d < desc->ndim, RSH_EINDEX,
                "placement of mesh dim %d shards tensor dim %d, but the tensor has %d dims", axis,
                dim, desc->ndim);
    rsh_cut *cut = &desc->dim[d].cut;
    cut->axes[cut->naxes++] = axis;
    return RSH_OK;
}

static rsh_status add_partial(rsh_layout_desc *desc, int axis, rsh_op op) {
    RSH_REQUIRE(op > RSH_OP_NONE && op < RSH_OP_COUNT, RSH_EVALUE,
                "placement of mesh dim %d is partial with an unknown reduction %d", axis,
                (int)op);
    RSH_REQUIRE(!desc->npartial || desc->op == op, RSH_EUNSUP,
                "partial placements must use one reduction, got \"%s\" on mesh dim %d and \"%s\" on mesh dim %d",
                rsh_op_name(desc->op), desc->partial[0], rsh_op_name(op), axis);
    desc->op = op;
    desc->partial[desc->npartial++] = axis;
    return RSH_OK;
}

static rsh_status add_place(rsh_layout_desc *desc, int axis, const rsh_place *p) {
    switch (p->kind) {
        case RSH_PLACE_REPLICATE: return RSH_OK;
        case RSH_PLACE_SHARD: return add_shard(desc, axis, p->dim);
        case RSH_PLACE_PARTIAL: return add_partial(desc, axis, p->op);
    }
    return rshi_fail(RSH_EVALUE, "placement of mesh dim %d has an unknown kind %d", axis, (int)p->kind);
}

static rsh_status describe_tensor(rsh_dtype dtype, int ndim, const int64_t *shape, rsh_layout_desc *desc) {
    RSH_REQUIRE(ndim >= 0 && ndim <= RSH_MAX_NDIM, RSH_EVALUE, "tensor cannot have %d dims: expected 0 to %d", ndim,
                RSH_MAX_NDIM);
    RSH_REQUIRE(shape || !ndim, RSH_EVALUE, "tensor has %d dims but its shape is NULL", ndim);
    *desc = (rsh_layout_desc){.dtype = dtype, .ndim = ndim};
    for (int d = 0; d < ndim; d++) desc->dim[d].size = shape[d];
    return RSH_OK;
}

rsh_status rsh_mesh_layout(const rsh_mesh *m, rsh_mesh_numbering numbers, int n, const rsh_place *places,
                           rsh_dtype dtype, int ndim, const int64_t *shape, rsh_layout **out) {
    RSH_NEEDS(m);
    RSH_NEEDS(places);
    RSH_NEEDS(out);
    RSH_REQUIRE(numbers == RSH_MESH_POSITIONS || numbers == RSH_MESH_PARENT, RSH_EVALUE,
                "rsh_mesh_layout: unknown kind of rank numbers %d", (int)numbers);
    RSH_REQUIRE(n == m->ndim, RSH_EVALUE, "expected one placement per mesh dim (%d), got %d", m->ndim, n);
    rsh_layout_desc desc;
    rsh_layout *known = rshi_known_layout(m, numbers, n, places, dtype, ndim, shape);
    if (known) {
        *out = rsh_layout_hold(known);
        return RSH_OK;
    }
    RSH_TRY(describe_tensor(dtype, ndim, shape, &desc));
    desc.naxes = m->ndim;
    memcpy(desc.axis, m->axis, (size_t)m->ndim * sizeof *m->axis);
    if (numbers == RSH_MESH_PARENT) desc.ranks = m->ranks;
    for (int i = 0; i < n; i++) RSH_TRY(add_place(&desc, i, &places[i]));
    RSH_TRY(rsh_layout_new(&desc, out));
    rshi_known_add(m, numbers, n, places, dtype, ndim, shape, *out);
    return RSH_OK;
}

/* ---- layouts to places ---- */

static rsh_status check_axes(const rsh_mesh *m, const rsh_layout_desc *desc) {
    bool same = desc->naxes == m->ndim && !desc->is_boxes;
    for (int i = 0; same && i < m->ndim; i++) same = desc->axis[i].size == m->shape[i];
    RSH_REQUIRE(same, RSH_EUNSUP, "the layout is on a different mesh");
    return RSH_OK;
}

static void read_cut(const rsh_cut *cut, int dim, rsh_place *places) {
    for (int i = 0; i < cut->naxes; i++) places[cut->axes[i]] = rsh_place_shard(dim);
}

void rshi_mesh_read_places(const rsh_layout *l, rsh_place *places) {
    const rsh_layout_desc *desc = rsh_layout_describe(l);
    for (int i = 0; i < desc->naxes; i++) places[i] = rsh_place_replicate();
    for (int d = 0; d < desc->ndim; d++) read_cut(&desc->dim[d].cut, d, places);
    for (int i = 0; i < desc->npartial; i++) places[desc->partial[i]] = rsh_place_partial(desc->op);
}

/* Checks the placements: converted to a layout again, they must put the same elements on the same ranks.  Other
 * properties of the layout (another cut rule, segments, an order, other ranks) then make no difference. */
static rsh_status check_places(const rsh_mesh *m, rsh_mesh_numbering numbers, const rsh_layout *l,
                               const rsh_place *places) {
    rsh_layout *again = NULL;
    RSH_TRY(rsh_mesh_layout(m, numbers, m->ndim, places, rsh_layout_dtype(l), rsh_layout_ndim(l), rsh_layout_shape(l),
                            &again));
    rsh_status st = RSH_OK;
    if (!rsh_layout_same_parts(l, again))
        st = rshi_fail(RSH_EUNSUP, "placements cannot express layout \"%s\"; the nearest one is \"%s\"",
                       rsh_layout_text(l), rsh_layout_text(again));
    rsh_layout_free(again);
    return st;
}

static rsh_status find_places(const rsh_mesh *m, rsh_mesh_numbering numbers, const rsh_layout *layout,
                              rsh_place *found) {
    RSH_TRY(check_axes(m, rsh_layout_describe(layout)));
    rshi_mesh_read_places(layout, found);
    return check_places(m, numbers, layout, found);
}

rsh_status rsh_mesh_places(const rsh_mesh *m, rsh_mesh_numbering numbers, const rsh_layout *layout, rsh_place *places) {
    RSH_NEEDS(m);
    RSH_NEEDS(layout);
    RSH_NEEDS(places);
    size_t bytes = (size_t)m->ndim * sizeof *places;
    rshi_known *known = rshi_known_of(m, numbers, layout);
    if (known && known->has_places) {
        memcpy(places, known->places, bytes);
        return RSH_OK;
    }
    rsh_place found[RSH_MAX_AXES];
    RSH_TRY(find_places(m, numbers, layout, found));
    memcpy(places, found, bytes);
    known = rshi_known_of(m, numbers, layout); /* the check may have replaced the entry */
    if (known) memcpy(known->places, found, bytes);
    if (known) known->has_places = true;
    return RSH_OK;
}

/* ---- lists of places ---- */

static bool place_equal(int ndim, const rsh_place *a, const rsh_place *b) {
    if (a->kind != b->kind) return false;
    if (a->kind == RSH_PLACE_PARTIAL) return a->op == b->op;
    if (a->kind == RSH_PLACE_REPLICATE) return true;
    return (a->dim < 0 ? a->dim + ndim : a->dim) == (b->dim < 0 ? b->dim + ndim : b->dim);
}

bool rsh_places_equal(int ndim, int n, const rsh_place *a, const rsh_place *b) {
    if (!a || !b) return false;
    for (int i = 0; i < n; i++)
        if (!place_equal(ndim, &a[i], &b[i])) return false;
    return true;
}

static rsh_status print_place(const rsh_place *p, const rsh_sink *sink) {
    if (p->kind == RSH_PLACE_SHARD) return rshi_sink_format(sink, "S%d", p->dim);
    if (p->kind == RSH_PLACE_PARTIAL) return rshi_sink_format(sink, "P(%s)", rsh_op_name(p->op));
    return rshi_sink_text(sink, "R");
}

rsh_status rsh_places_print(int n, const rsh_place *places, const rsh_sink *sink) {
    RSH_NEEDS(places);
    RSH_NEEDS(sink);
    for (int i = 0; i < n; i++) {
        RSH_TRY(rshi_sink_text(sink, i ? ", " : "("));
        RSH_TRY(print_place(&places[i], sink));
    }
    return rshi_sink_text(sink, n > 0 ? ")" : "()");
}
