/* Product: checks whether a rank's part is a product over dims, and finds ranks that hold equal parts. */
#include "layout/impl.h"

bool rshi_layout_product(const rsh_layout *l) {
    if (l->desc.is_boxes || l->flat.naxes) return false;
    for (int d = 0; d < l->desc.ndim; d++)
        for (int s = 1; s < l->dim[d].nsegments; s++)
            if (!rshi_cut_same_axes(&l->dim[d].segment[0].cut, &l->dim[d].segment[s].cut)) return false;
    return true;
}

bool rshi_layout_has_groups(const rsh_layout *l) {
    if (l->desc.is_boxes) return false;
    for (int d = 0; d < l->desc.ndim; d++)
        for (int s = 0; s < l->dim[d].nsegments; s++)
            if (l->dim[d].segment[s].size && rshi_cut_axes(&l->dim[d].segment[s].cut) != l->dim[d].axes) return false;
    return true;
}

int rshi_layout_segments(const rsh_layout *l, int dim) { return l->dim[dim].nsegments; }

rshi_stripe rshi_layout_segment_stripe(const rsh_layout *l, int dim, int segment, int64_t k) {
    const rshi_resolved_segment *g = &l->dim[dim].segment[segment];
    return rshi_cut_stripe(l, &g->cut, g->start, g->size, k);
}

rshi_holding rshi_layout_holding(const rsh_layout *l, int64_t position) {
    unsigned free_axes = rshi_layout_free_axes(l);
    rshi_holding p = {0, 0, 0};
    for (int a = 0; a < l->desc.naxes; a++) {
        int64_t size = l->desc.axis[a].size, c = rshi_coordinate(l, position, a);
        int64_t *n = free_axes >> a & 1 ? &p.holder : l->partial >> a & 1 ? &p.partial : &p.part;
        *n = *n * size + c;
    }
    return p;
}
