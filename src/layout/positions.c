/* Positions: getters for positions and axes of the mesh, and layouts derived from layouts. */
#include "layout/impl.h"

bool rshi_layout_plain(const rsh_layout *l) {
    if (l->desc.is_boxes || l->flat.naxes) return false;
    for (int d = 0; d < l->desc.ndim; d++)
        if (l->dim[d].nsegments != 1) return false;
    return true;
}

int64_t rshi_layout_cut_parts(const rsh_layout *l, int dim) { return l->dim[dim].segment[0].cut.parts; }

rshi_stripe rshi_layout_cut_stripe(const rsh_layout *l, int dim, int64_t k) {
    const rshi_resolved_segment *g = &l->dim[dim].segment[0];
    return rshi_cut_stripe(l, &g->cut, g->start, g->size, k);
}

unsigned rshi_layout_free_axes(const rsh_layout *l) {
    unsigned used = l->partial | rshi_cut_axes(&l->flat);
    for (int d = 0; d < l->desc.ndim; d++) used |= l->dim[d].axes;
    return ((1u << l->desc.naxes) - 1) & ~used;
}

int64_t rshi_layout_holders(const rsh_layout *l) {
    int64_t n = 1;
    unsigned axes = rshi_layout_free_axes(l);
    for (int a = 0; axes >> a; a++)
        if (axes >> a & 1) n *= l->desc.axis[a].size;
    return n;
}

static bool has_shared_box(const rsh_layout_desc *desc) {
    for (int64_t b = 0; b < desc->nboxes; b++)
        if (desc->boxes[b].nranks > 1) return true;
    return false;
}

bool rshi_layout_has_replicas(const rsh_layout *l) {
    if (l->desc.is_boxes) return has_shared_box(&l->desc);
    return !rshi_layout_has_groups(l) || rshi_layout_holders(l) > 1;
}

int64_t rshi_layout_positions(const rsh_layout *l) { return l->desc.is_boxes ? l->nranks : l->npositions; }
int64_t rshi_layout_axis_step(const rsh_layout *l, int axis) { return l->axis_step[axis]; }

int64_t rshi_layout_rank_bound(const rsh_layout *l) {
    int64_t n = rsh_layout_nranks(l);
    return n ? rsh_layout_rank(l, n - 1) + 1 : 0;
}

/* ---- layouts derived from layouts ---- */

rsh_status rshi_layout_unpartial(const rsh_layout *l, rsh_layout **out) {
    if (!l->partial) {
        *out = rsh_layout_hold(l);
        return RSH_OK;
    }
    rsh_layout_desc desc = l->desc;
    desc.op = RSH_OP_NONE;
    desc.npartial = 0;
    return rsh_layout_new(&desc, out);
}

/* Drops segments without elements, because they may name axes that nothing else names.  The other segments move to
 * `room`, which is advanced. */
static void drop_empty_segments(rsh_dim *dim, rsh_segment **room) {
    rsh_segment *kept = *room;
    int n = 0, cut = 0;
    int64_t size = 0;
    for (int s = 0; s < dim->nsegments; s++) {
        const rsh_segment *g = &dim->segment[s];
        if (!g->size) continue;
        kept[n++] = *g;
        size += g->size;
        cut += dim->cut.naxes || g->cut.naxes;
    }
    if (dim->nsegments ? !cut : !dim->size) /* a plain dim, whole on every rank */
        *dim = (rsh_dim){.size = size};
    else if (dim->nsegments)
        dim->nsegments = n, dim->segment = kept;
    *room += n;
}

static rsh_status sum_over(rsh_layout_desc *desc, unsigned axes, rsh_layout **out) {
    size_t n = 1;
    for (int d = 0; d < desc->ndim; d++) n += (size_t)desc->dim[d].nsegments;
    rsh_segment *room = rshi_alloc(n, sizeof *room);
    if (!room) return rshi_nomem();
    rsh_segment *next = room;
    for (int d = 0; d < desc->ndim; d++) drop_empty_segments(&desc->dim[d], &next);
    desc->op = axes ? RSH_OP_SUM : RSH_OP_NONE;
    desc->npartial = 0;
    for (int a = 0; a < desc->naxes; a++)
        if (axes >> a & 1) desc->partial[desc->npartial++] = a;
    rsh_status st = rsh_layout_new(desc, out);
    rshi_free(room);
    return st;
}

rsh_status rshi_layout_sum_copies(const rsh_layout *l, rsh_layout **out) {
    rsh_layout_desc desc = l->desc;
    if (!l->desc.is_boxes) return sum_over(&desc, rshi_layout_free_axes(l) | l->partial, out);
    *out = rsh_layout_hold(l);
    return RSH_OK;
}
static rsh_status renumber_mesh(const rsh_layout *l, const int64_t *ranks, rsh_layout **out) {
    rsh_layout_desc desc = l->desc;
    desc.ranks = ranks;
    return rsh_layout_new(&desc, out);
}

/* `boxes` and `list` have room for all boxes and for the ranks of all boxes. */
static rsh_status renumber_into(const rsh_layout *l, const int64_t *ranks, rsh_ranked_box *boxes, int64_t *list,
                                rsh_layout **out) {
    rsh_layout_desc desc = l->desc;
    desc.boxes = boxes;
    for (int64_t b = 0; b < desc.nboxes; b++) {
        boxes[b] = l->desc.boxes[b];
        boxes[b].ranks = list;
        for (int64_t i = 0; i < boxes[b].nranks; i++)
            *list++ = ranks[rshi_layout_position(l, l->desc.boxes[b].ranks[i])];
    }
    return rsh_layout_new(&desc, out);
}

static rsh_status renumber_boxes(const rsh_layout *l, const int64_t *ranks, rsh_layout **out) {
    int64_t total = l->entry[l->nranks].value; /* number of ranks of all boxes together */
    rsh_ranked_box *boxes = rshi_alloc((size_t)l->desc.nboxes, sizeof *boxes);
    int64_t *list = rshi_alloc((size_t)total, sizeof *list);
    rsh_status st = boxes && list ? renumber_into(l, ranks, boxes, list, out) : rshi_nomem();
    rshi_free(boxes);
    rshi_free(list);
    return st;
}

rsh_status rshi_layout_renumber(const rsh_layout *l, const int64_t *ranks, rsh_layout **out) {
    if (l->desc.is_boxes) return renumber_boxes(l, ranks, out);
    if (l->desc.naxes) return renumber_mesh(l, ranks, out);
    /* without a mesh there is one rank with one box */
    return rsh_layout_whole(l->desc.dtype, l->desc.ndim, l->shape, ranks[0], out);
}
