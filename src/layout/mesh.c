/* Mesh: plain questions about positions and axes, and layouts made from layouts. */
#include "layout/impl.h"

#include <string.h>

bool rshi_layout_plain(const rsh_layout *l) {
    if (l->is_boxes || l->flat.naxes) return false;
    for (int d = 0; d < l->ndim; d++)
        if (l->dim[d].nsegments != 1) return false;
    return true;
}

int64_t rshi_layout_cut_parts(const rsh_layout *l, int dim) { return l->dim[dim].segment[0].cut.parts; }

rshi_stripe rshi_layout_cut_stripe(const rsh_layout *l, int dim, int64_t k) {
    const rshi_segment *g = &l->dim[dim].segment[0];
    return rshi_cut_stripe(l, &g->cut, g->start, g->size, k);
}

int64_t rshi_layout_cut_coordinate(const rsh_layout *l, int dim, int64_t position) {
    return rshi_cut_coordinate(l, &l->dim[dim].segment[0].cut, position);
}

unsigned rshi_layout_free_axes(const rsh_layout *l) {
    unsigned used = l->partial | rshi_cut_axes(&l->flat);
    for (int d = 0; d < l->ndim; d++) used |= l->dim[d].axes;
    return ((1u << l->naxes) - 1) & ~used;
}

int64_t rshi_layout_positions(const rsh_layout *l) { return l->is_boxes ? l->nranks : l->npositions; }
int64_t rshi_layout_axis_size(const rsh_layout *l, int axis) { return l->axis[axis].size; }
int64_t rshi_layout_axis_step(const rsh_layout *l, int axis) { return l->axis_step[axis]; }

int64_t rshi_layout_rank_bound(const rsh_layout *l) {
    int64_t n = rsh_layout_nranks(l);
    return n ? rsh_layout_rank(l, n - 1) + 1 : 0;
}

/* ---- a description of a layout, to build a changed one from ---- */

typedef struct description {
    rsh_layout_desc desc;
    rsh_segment *segment[RSH_MAX_NDIM];
    rsh_ranked_box *boxes;
} description;

static rsh_cut describe_cut(const rshi_cut *c, int64_t **sizes) {
    rsh_cut out = {.naxes = c->naxes, .rule = c->rule, .number = c->number};
    memcpy(out.axes, c->axes, sizeof out.axes);
    if (c->rule != RSH_RULE_SIZES || !c->naxes) return out;
    int64_t *list = rshi_alloc((size_t)c->parts, sizeof *list);
    for (int64_t i = 0; list && i < c->parts; i++) list[i] = c->starts[i + 1] - c->starts[i];
    out.sizes = *sizes = list;
    out.nsizes = c->parts;
    return out;
}

/* Sizes lists stand in `sizes` (one per dim, and the flat one), to be freed. */
static rsh_status describe_dim(const rsh_layout *l, int d, description *out, int64_t **sizes) {
    rsh_dim *dim = &out->desc.dim[d];
    dim->size = l->dim[d].size;
    if (l->dim[d].nsegments == 1 || l->dim[d].group_cut) dim->cut = describe_cut(&l->dim[d].segment[0].cut, sizes);
    if (l->dim[d].nsegments == 1) return dim->cut.nsizes && !*sizes ? rshi_nomem() : RSH_OK;
    rsh_segment *list = out->segment[d] = rshi_calloc((size_t)l->dim[d].nsegments, sizeof *list);
    if (!list) return rshi_nomem();
    for (int s = 0; s < l->dim[d].nsegments; s++) {
        list[s].size = l->dim[d].segment[s].size;
        if (!l->dim[d].group_cut) list[s].cut = describe_cut(&l->dim[d].segment[s].cut, sizes);
    }
    dim->nsegments = l->dim[d].nsegments;
    dim->segment = list;
    return RSH_OK;
}

static rsh_status describe_boxes(const rsh_layout *l, description *out) {
    out->desc.is_boxes = true;
    out->desc.nboxes = l->nboxes;
    out->desc.boxes = out->boxes = rshi_calloc((size_t)l->nboxes, sizeof *out->boxes);
    if (!out->boxes) return rshi_nomem();
    for (int64_t b = 0; b < l->nboxes; b++)
        out->boxes[b] = (rsh_ranked_box){l->boxes[b].nranks, l->boxes[b].ranks, l->boxes[b].box};
    return RSH_OK;
}

static rsh_status describe_mesh(const rsh_layout *l, description *out, int64_t **sizes) {
    rsh_layout_desc *desc = &out->desc;
    for (int d = 0; d < l->ndim; d++) RSH_TRY(describe_dim(l, d, out, &sizes[d]));
    desc->flat = describe_cut(&l->flat, &sizes[RSH_MAX_NDIM]);
    if (desc->flat.nsizes && !sizes[RSH_MAX_NDIM]) return rshi_nomem();
    desc->naxes = l->naxes;
    memcpy(desc->axis, l->axis, sizeof desc->axis);
    desc->op = l->op;
    for (int a = 0; a < l->naxes; a++)
        if (l->partial >> a & 1) desc->partial[desc->npartial++] = a;
    desc->has_order = l->has_order;
    memcpy(desc->order, l->order, sizeof desc->order);
    return RSH_OK;
}

/* Position-order ranks of a mesh, new. */
static int64_t *list_ranks(const rsh_layout *l) {
    int64_t *ranks = rshi_alloc((size_t)l->npositions, sizeof *ranks);
    for (int64_t i = 0; ranks && i < l->npositions; i++) ranks[i] = rshi_layout_rank_at(l, i);
    return ranks;
}

/* Build l anew with the ranks and partial state given. */
static rsh_status rebuild(const rsh_layout *l, const int64_t *ranks, bool keep_partial, rsh_layout **out) {
    description d = {.desc = {.dtype = l->dtype, .ndim = l->ndim}};
    int64_t *sizes[RSH_MAX_NDIM + 1] = {0};
    rsh_status st;
    RSH_GOTO(describe_mesh(l, &d, sizes));
    d.desc.ranks = ranks;
    if (!keep_partial) d.desc.op = RSH_OP_NONE, d.desc.npartial = 0;
    RSH_GOTO(rsh_layout_new(&d.desc, out));
out:
    for (int i = 0; i <= RSH_MAX_NDIM; i++) rshi_free(sizes[i]);
    for (int i = 0; i < RSH_MAX_NDIM; i++) rshi_free(d.segment[i]);
    return st;
}

rsh_status rshi_layout_unpartial(const rsh_layout *l, rsh_layout **out) {
    if (!l->partial) return rsh_layout_copy(l, out);
    int64_t *ranks = list_ranks(l);
    if (!ranks) return rshi_nomem();
    rsh_status st = rebuild(l, ranks, false, out);
    rshi_free(ranks);
    return st;
}

static rsh_status renumber_boxes(const rsh_layout *l, const int64_t *ranks, rsh_layout **out) {
    description d = {.desc = {.dtype = l->dtype, .ndim = l->ndim}};
    int64_t total = 0, *list = NULL;
    rsh_status st;
    for (int i = 0; i < l->ndim; i++) d.desc.dim[i].size = l->shape[i];
    RSH_GOTO(describe_boxes(l, &d));
    for (int64_t b = 0; b < l->nboxes; b++) total += l->boxes[b].nranks;
    list = rshi_alloc((size_t)total, sizeof *list);
    if (!list) RSH_GOTO(rshi_nomem());
    int64_t *next = list;
    for (int64_t b = 0; b < l->nboxes; b++) {
        d.boxes[b].ranks = next;
        for (int64_t i = 0; i < l->boxes[b].nranks; i++) *next++ = ranks[rshi_layout_position(l, l->boxes[b].ranks[i])];
    }
    RSH_GOTO(rsh_layout_new(&d.desc, out));
out:
    rshi_free(list);
    rshi_free(d.boxes);
    return st;
}

rsh_status rshi_layout_renumber(const rsh_layout *l, const int64_t *ranks, rsh_layout **out) {
    if (!l->is_boxes && !l->naxes) /* no mesh: rank 0, or one box elsewhere */
        return ranks[0] ? rsh_layout_whole(l->dtype, l->ndim, l->shape, ranks[0], out) : rsh_layout_copy(l, out);
    return l->is_boxes ? renumber_boxes(l, ranks, out) : rebuild(l, ranks, true, out);
}
