/* Search: finds the pieces of a layout that overlap a region, without visiting the others.
 *
 * On a mesh the pieces that overlap a product of stripes are themselves a product: for each dim the (segment,
 * coordinate) pairs that overlap the region's stripe.  The search enumerates their combinations.  For flat layouts it
 * enumerates the parts that are flattened and, in each of them, the flat coordinates in range. */
#include "layout/impl.h"

#include <stdlib.h>

/* ---- coordinates of one cut that overlap a stripe ---- */

typedef struct numbers {
    int64_t *at;
    int64_t n, room;
} numbers;

static rsh_status push_number(numbers *out, int64_t k) {
    RSH_TRY(RSHI_GROW(out->at, out->n + 1, &out->room));
    out->at[out->n++] = k;
    return RSH_OK;
}

/* Intersects block j of a stripe with [lo, hi); false if the result is empty. */
static bool block_within(const rshi_stripe *q, int64_t j, int64_t lo, int64_t hi, int64_t *from, int64_t *to) {
    int64_t start = q->lo + j * q->stride;
    *from = rshi_max(start, lo);
    *to = rshi_min(start + (j == q->count - 1 ? q->last : q->len), hi);
    return *from < *to;
}

static bool holds_something(rshi_cut_walk *w, int64_t k) {
    if (w->c->rule == RSH_CUT_SIZES) return w->c->starts[k] < w->c->starts[k + 1];
    return rshi_cut_walk_at(w, k).count;
}

/* Lists coordinates for rules that keep indices in order: coordinates ascend along the dim. */
static rsh_status list_ordered_coordinates(const rsh_layout *l, const rshi_resolved_segment *g, const rshi_stripe *q,
                                numbers *out) {
    int64_t from, to, next = 0, hi = g->start + g->size;
    /* there may be empty parts between two non-empty ones */
    bool may_be_empty = g->cut.naxes > 1 || g->cut.rule == RSH_CUT_SIZES;
    int64_t j = q->lo < g->start ? (g->start - q->lo) / q->stride : 0;
    rshi_cut_walk walk;
    rshi_cut_walk_start(l, &g->cut, g->start, g->size, &walk);
    for (; j < q->count && q->lo + j * q->stride < hi && next < g->cut.parts; j++) {
        if (!block_within(q, j, g->start, hi, &from, &to)) continue;
        int64_t last = rshi_cut_locate(l, &g->cut, g->size, to - 1 - g->start);
        int64_t k = rshi_max(next, rshi_cut_locate(l, &g->cut, g->size, from - g->start));
        RSH_TRY(RSHI_GROW(out->at, out->n + rshi_max(0, last + 1 - k), &out->room));
        for (; k <= last; k++)
            if (!may_be_empty || holds_something(&walk, k)) out->at[out->n++] = k;
        next = last + 1;
        rshi_stripe done = rshi_cut_walk_at(&walk, last);
        j = rshi_max(j,
                     (rshi_stripe_end(&done) - q->lo) / q->stride - 1); /* skip blocks that end inside part `last` */
    }
    return RSH_OK;
}

/* Computes the range of q's blocks that must be visited.  The pattern of coordinates repeats after a whole number of
 * rounds of the cyclic distribution. */
static void query_blocks(const rshi_resolved_segment *g, const rshi_stripe *q, int64_t *first, int64_t *stop) {
    int64_t round;
    *first = q->lo < g->start ? (g->start - q->lo) / q->stride : 0;
    *stop = q->count;
    if (rshi_mul(g->cut.number, g->cut.parts, &round))
        *stop = rshi_min(*stop, *first + round / rshi_gcd(round, q->stride) + 2);
}

/* Adds the coordinates that block j of q overlaps. */
static rsh_status add_cyclic(const rshi_resolved_segment *g, const rshi_stripe *q, int64_t j, numbers *out) {
    int64_t from, to, b = g->cut.number, p = g->cut.parts;
    if (!block_within(q, j, g->start, g->start + g->size, &from, &to)) return RSH_OK;
    int64_t first = (from - g->start) / b, last = rshi_min((to - 1 - g->start) / b, first + p - 1);
    for (int64_t i = first; i <= last; i++) RSH_TRY(push_number(out, i % p));
    return RSH_OK;
}

/* Sorts the numbers from `head` on and removes duplicates. */
static void sort_unique(numbers *out, int64_t head) {
    int64_t n = head;
    qsort(out->at + head, (size_t)(out->n - head), sizeof *out->at, rshi_compare_int64);
    for (int64_t i = head; i < out->n; i++)
        if (n == head || out->at[n - 1] != out->at[i]) out->at[n++] = out->at[i];
    out->n = n;
}

/* A range overlaps consecutive coordinates, which may wrap around to 0. */
static rsh_status list_cyclic_coordinates_of_range(const rshi_resolved_segment *g, const rshi_stripe *q, numbers *out) {
    int64_t from, to, b = g->cut.number, p = g->cut.parts;
    if (!block_within(q, 0, g->start, g->start + g->size, &from, &to)) return RSH_OK;
    int64_t first = (from - g->start) / b, n = rshi_min((to - 1 - g->start) / b - first + 1, p);
    first %= p;
    int64_t wrapped = rshi_max(0, first + n - p); /* coordinates from 0 on */
    RSH_TRY(RSHI_GROW(out->at, out->n + n, &out->room));
    for (int64_t k = 0; k < wrapped; k++) out->at[out->n++] = k;
    for (int64_t k = first; k < first + n - wrapped; k++) out->at[out->n++] = k;
    return RSH_OK;
}

static rsh_status list_cyclic_coordinates(const rshi_resolved_segment *g, const rshi_stripe *q, numbers *out) {
    int64_t first, stop, head = out->n, p = g->cut.parts;
    if (q->count == 1) return list_cyclic_coordinates_of_range(g, q, out);
    query_blocks(g, q, &first, &stop);
    for (int64_t j = first; j < stop; j++) {
        RSH_TRY(add_cyclic(g, q, j, out));
        if (out->n - head <= 4 * p) continue;
        sort_unique(out, head);
        if (out->n - head == p) return RSH_OK; /* the list has all coordinates */
    }
    if (out->n > head) sort_unique(out, head);
    return RSH_OK;
}

static rsh_status list_coordinates(const rsh_layout *l, const rshi_resolved_segment *g, const rshi_stripe *q,
                               numbers *out) {
    rshi_stripe all = rshi_stripe_range(g->start, g->start + g->size);
    if (!rshi_stripe_common(&all, q, g->start, g->start + g->size)) return RSH_OK;
    if (!g->cut.naxes) return push_number(out, 0);
    return g->cut.rule == RSH_CUT_CYCLIC ? list_cyclic_coordinates(g, q, out) : list_ordered_coordinates(l, g, q, out);
}

rsh_status rshi_layout_cut_meets(const rsh_layout *l, int dim, const rshi_stripe *query, int64_t **out, int64_t *n) {
    numbers list = {0};
    rsh_status st = query->count ? list_coordinates(l, &l->dim[dim].segment[0], query, &list) : RSH_OK;
    if (st) {
        rshi_free(list.at);
        return st;
    }
    *out = list.at;
    *n = list.n;
    return RSH_OK;
}

rsh_status rshi_layout_cut_count(const rsh_layout *l, int dim, const rshi_stripe *query, int64_t *n) {
    const rshi_resolved_segment *g = &l->dim[dim].segment[0];
    if (query->count == 1 && g->cut.rule != RSH_CUT_CYCLIC && g->cut.rule != RSH_CUT_SIZES) {
        int64_t last = rshi_cut_full_before(l, &g->cut, g->size, rshi_stripe_end(query) - 1);
        *n = last - rshi_cut_full_before(l, &g->cut, g->size, query->lo) + 1;
        return RSH_OK;
    }
    int64_t *list = NULL;
    RSH_TRY(rshi_layout_cut_meets(l, dim, query, &list, n));
    rshi_free(list);
    return RSH_OK;
}

/* ---- mesh ---- */

typedef struct search {
    const rsh_layout *l;
    const rshi_stripe *query;
    rshi_series_fn fn;
    rshi_range_fn range_fn; /* flat layouts: reports ranges of parts instead of pieces */
    void *ctx;
    numbers list[RSH_MAX_NDIM]; /* per dim: runs of [segment, number of coordinates, coordinates...] */
    int open[RSH_MAX_NDIM], nopen; /* dims along which several coordinates overlap the query */
    rshi_cut_walk *walk; /* owned: one walk for each segment of the last open dim */
    rshi_piece box;     /* boxes: the current box as a piece */
} search;

/* Reports a single piece, as a series of one. */
static rsh_status emit_piece(search *s, rshi_piece *p) {
    rshi_series one = {.l = s->l, .piece = p, .n = 1, .base = p->position};
    one.ranks = s->l->desc.ranks, one.first_rank = s->l->desc.first_rank;
    return s->fn(s->ctx, &one);
}

static rsh_status list_dim(search *s, int d) {
    numbers *list = &s->list[d];
    for (int g = 0; g < s->l->dim[d].nsegments; g++) {
        int64_t head = list->n;
        RSH_TRY(push_number(list, g));
        RSH_TRY(push_number(list, 0));
        RSH_TRY(list_coordinates(s->l, &s->l->dim[d].segment[g], &s->query[d], list));
        list->at[head + 1] = list->n - head - 2;
    }
    return RSH_OK;
}

/* Selects coordinate k of segment g along dim d; `position` is the position with coordinate 0. */
static void choose_coordinate(const search *s, int d, int g, int64_t k, int64_t position, rshi_piece *p) {
    const rshi_resolved_segment *segment = &s->l->dim[d].segment[g];
    p->set[d] = rshi_cut_stripe(s->l, &segment->cut, segment->start, segment->size, k);
    p->position = position + rshi_cut_position(s->l, &segment->cut, k);
}

/* Reports the coordinates of segment p->seg[d] along the last open dim; all other dims have been decided. */
static rsh_status walk_series(search *s, int d, const int64_t *coordinate, int64_t n, rshi_piece *p) {
    const rshi_resolved_cut *cut = &s->l->dim[d].segment[p->seg[d]].cut;
    rshi_series series = {.l = s->l, .piece = p, .dim = d, .n = n, .coordinate = coordinate, .walk = s->walk};
    int64_t position = p->position;
    series.base = position, series.step = rshi_cut_step(s->l, cut);
    series.ranks = s->l->desc.ranks, series.first_rank = s->l->desc.first_rank;
    if (!n) return RSH_OK;
    choose_coordinate(s, d, p->seg[d], coordinate[0], position, p);
    rshi_piece_move(s->l, p->position, p); /* along the other axes its coordinates are 0 */
    RSH_TRY(s->fn(s->ctx, &series));
    p->position = position;
    return RSH_OK;
}

/* Enumerates all combinations of the open dims. */
static rsh_status walk_dims(search *s, int i, rshi_piece *p) {
    int d = s->open[i];
    const numbers *list = &s->list[d];
    int64_t position = p->position;
    unsigned fixed = p->fixed;
    for (int64_t at = 0; at < list->n; at += 2 + list->at[at + 1]) {
        const int64_t *coordinate = &list->at[at + 2], n = list->at[at + 1];
        p->seg[d] = (int)list->at[at];
        p->fixed = fixed | rshi_cut_axes(&s->l->dim[d].segment[p->seg[d]].cut);
        if (i == s->nopen - 1) RSH_TRY(walk_series(s, d, coordinate, n, p));
        for (int64_t j = 0; j < n && i < s->nopen - 1; j++) {
            choose_coordinate(s, d, p->seg[d], coordinate[j], position, p);
            RSH_TRY(walk_dims(s, i + 1, p));
        }
        p->position = position;
    }
    p->fixed = fixed;
    return RSH_OK;
}

/* Decides a dim along which only one coordinate overlaps the query; the others become open dims. */
static void decide_dim(search *s, int d, rshi_piece *p) {
    const numbers *list = &s->list[d];
    int64_t n = 0, at = 0;
    for (int64_t i = 0; i < list->n; i += 2 + list->at[i + 1]) {
        if (!n) at = i;
        n += list->at[i + 1];
    }
    if (n != 1) {
        s->open[s->nopen++] = d;
        return;
    }
    p->seg[d] = (int)list->at[at];
    p->fixed |= rshi_cut_axes(&s->l->dim[d].segment[p->seg[d]].cut);
    choose_coordinate(s, d, p->seg[d], list->at[at + 2], p->position, p);
}

static rsh_status walk_mesh(search *s, rshi_piece *p) {
    if (!s->nopen) {
        rshi_piece_move(s->l, p->position, p);
        return emit_piece(s, p);
    }
    const rshi_resolved_dim *dim = &s->l->dim[s->open[s->nopen - 1]];
    s->walk = rshi_alloc((size_t)dim->nsegments, sizeof *s->walk);
    if (!s->walk) return rshi_nomem();
    for (int g = 0; g < dim->nsegments; g++)
        rshi_cut_walk_start(s->l, &dim->segment[g].cut, dim->segment[g].start, dim->segment[g].size, &s->walk[g]);
    return walk_dims(s, 0, p);
}

static rsh_status search_mesh(search *s) {
    rshi_piece p = {.fixed = s->l->partial};
    rsh_status st = RSH_OK;
    for (int d = 0; d < s->l->desc.ndim && !st; d++) st = list_dim(s, d);
    for (int d = 0; d < s->l->desc.ndim && !st; d++) decide_dim(s, d, &p);
    if (!st) st = walk_mesh(s, &p);
    for (int d = 0; d < s->l->desc.ndim; d++) rshi_free(s->list[d].at);
    rshi_free(s->walk);
    return st;
}

/* ---- flat ---- */

/* Computes the range of local indices of the query along a dim at a position: the first and one past the last.  Returns
 * false if the range is empty. */
static bool local_range_of_query(const rsh_layout *l, int d, int64_t position, const rshi_stripe *q, int64_t *from,
                                 int64_t *to) {
    bool any = false;
    int64_t at = 0, end = rshi_stripe_end(q);
    for (int s = 0; s < l->dim[d].nsegments; s++) {
        const rshi_resolved_segment *g = &l->dim[d].segment[s];
        rshi_stripe set = rshi_cut_stripe(l, &g->cut, g->start, g->size, rshi_cut_coordinate(l, &g->cut, position));
        if (rshi_stripe_common(&set, q, q->lo, end)) {
            if (!any) *from = at + rshi_stripe_before(&set, q->lo);
            *to = at + rshi_stripe_before(&set, end);
            any = true;
        }
        at += rshi_stripe_size(&set);
    }
    return any;
}

/* A flattened part: its local extents, and for each dim the range that the query overlaps. */
typedef struct flattened {
    int64_t position, number; /* the position of the part, and the number of its first flat part */
    rshi_flattening part;
    int64_t from[RSH_MAX_NDIM], to[RSH_MAX_NDIM];
} flattened;

static int64_t least_part(const rsh_layout *l, int64_t total) {
    if (l->flat.naxes > 1 || l->flat.rule == RSH_CUT_SIZES) return 0;
    if (l->flat.rule == RSH_CUT_BALANCED) return total / l->flat.parts;
    rshi_stripe first = rshi_cut_stripe(l, &l->flat, 0, total, 0); /* length of all non-empty parts except the last */
    return rshi_stripe_size(&first);
}

static rsh_status emit_part_range(search *s, const flattened *f, int64_t first, int64_t last) {
    const rsh_layout *l = s->l;
    if (l->flat.rule != RSH_CUT_SIZES)
        return s->range_fn(s->ctx, f->number + rshi_cut_full_before(l, &l->flat, f->part.total, first),
                           f->number + rshi_cut_full_before(l, &l->flat, f->part.total, last));
    int64_t end = rshi_cut_locate(l, &l->flat, f->part.total, last);
    for (int64_t k = rshi_cut_locate(l, &l->flat, f->part.total, first); k <= end; k++)
        if (l->flat.starts[k] < l->flat.starts[k + 1]) RSH_TRY(s->range_fn(s->ctx, f->number + k, f->number + k));
    return RSH_OK;
}

/* Reports the rows that start at flat index `at`, from dim d on.  If every gap between rows is shorter than a part, all
 * parts from the first element to the last overlap the query. */
static rsh_status emit_rows(search *s, const flattened *f, int d, int64_t at) {
    int64_t first = at, last = at, gap = 0;
    for (int i = s->l->desc.ndim - 1; i >= d; i--) {
        first += f->from[i] * f->part.step[i];
        last += (f->to[i] - 1) * f->part.step[i];
    }
    for (int i = s->l->desc.ndim - 1, whole = 1; i >= d; i--) {
        if (!whole && f->to[i] - f->from[i] > 1) gap = INT64_MAX; /* several rows with gaps between them */
        whole = whole && f->from[i] == 0 && f->to[i] == f->part.extent[i];
    }
    if (gap) { /* the longest gap: between rows of the outermost dim that has several */
        int i = d;
        while (f->to[i] - f->from[i] == 1) i++;
        gap = f->part.step[i];
        for (int k = i + 1; k < s->l->desc.ndim; k++) gap -= (f->to[k] - 1 - f->from[k]) * f->part.step[k];
    }
    if (gap <= least_part(s->l, f->part.total)) return emit_part_range(s, f, first, last);
    for (int64_t i = f->from[d]; i < f->to[d]; i++) RSH_TRY(emit_rows(s, f, d + 1, at + i * f->part.step[d]));
    return RSH_OK;
}

static rsh_status emit_flat_piece_of_search(void *ctx, rshi_piece *p) { return emit_piece(ctx, p); }

static rsh_status emit_flat_range(search *s, flattened *f, int64_t first, int64_t last) {
    f->part.fn = emit_flat_piece_of_search, f->part.ctx = s;
    for (int64_t k = first; k <= last; k++)
        RSH_TRY(rshi_flattening_pieces(&f->part, f->position + rshi_cut_position(s->l, &s->l->flat, k), k));
    return RSH_OK;
}

#define FEW_BLOCKS 256 /* if the query has more blocks, only the range from the first to the last is considered */

static int64_t count_blocks(const search *s) {
    int64_t n = 1;
    for (int d = 0; d < s->l->desc.ndim; d++)
        if (!rshi_mul(n, s->query[d].count, &n) || n > FEW_BLOCKS) return 1;
    return n;
}

/* Lists the first and last flat coordinate of each block of the query, from dim d on. */
static rsh_status list_block_ends(search *s, const flattened *f, int d, int64_t first, int64_t last, numbers *out) {
    if (d == s->l->desc.ndim) {
        RSH_TRY(push_number(out, rshi_cut_locate(s->l, &s->l->flat, f->part.total, first)));
        return push_number(out, rshi_cut_locate(s->l, &s->l->flat, f->part.total, last));
    }
    const rshi_stripe *q = &s->query[d];
    for (int64_t j = 0; j < q->count; j++) {
        int64_t lo = q->lo + j * q->stride, step = f->part.step[d], from, to;
        rshi_stripe block = rshi_stripe_range(lo, lo + (j == q->count - 1 ? q->last : q->len));
        if (local_range_of_query(s->l, d, f->position, &block, &from, &to))
            RSH_TRY(list_block_ends(s, f, d + 1, first + from * step, last + (to - 1) * step, out));
    }
    return RSH_OK;
}

static int by_first(const void *a, const void *b) {
    const int64_t *x = a, *y = b;
    if (*x != *y) return *x < *y ? -1 : 1;
    return (x[1] > y[1]) - (x[1] < y[1]);
}

/* Visits the blocks.  Several blocks may overlap the same coordinates; each coordinate is reported once. */
static rsh_status walk_blocks(search *s, flattened *f) {
    numbers list = {0};
    rsh_status st = list_block_ends(s, f, 0, 0, 0, &list);
    int64_t next = 0;
    if (list.n) qsort(list.at, (size_t)list.n / 2, 2 * sizeof *list.at, by_first);
    for (int64_t i = 0; i < list.n && !st; i += 2) {
        st = emit_flat_range(s, f, rshi_max(next, list.at[i]), list.at[i + 1]);
        next = rshi_max(next, list.at[i + 1] + 1);
    }
    rshi_free(list.at);
    return st;
}

/* Reports the flat coordinates that may overlap the query, for a given position of all dims. */
static rsh_status walk_flat(search *s, flattened *f) {
    int64_t first = 0, last = 0;
    rshi_flatten(s->l, f->position, s->query, &f->part);
    if (s->range_fn) return emit_rows(s, f, 0, 0);
    if (count_blocks(s) > 1) return walk_blocks(s, f);
    for (int d = 0; d < s->l->desc.ndim; d++) {
        first += f->from[d] * f->part.step[d];
        last += (f->to[d] - 1) * f->part.step[d];
    }
    return emit_flat_range(s, f, rshi_cut_locate(s->l, &s->l->flat, f->part.total, first),
                         rshi_cut_locate(s->l, &s->l->flat, f->part.total, last));
}

/* Enumerates the coordinates of the axes that cut dim d, then continues with d + 1.  `number` counts the choices. */
static rsh_status walk_bases(search *s, int d, int64_t position, int64_t number, flattened *f) {
    if (d == s->l->desc.ndim) {
        f->position = position, f->number = number * s->l->flat.parts;
        return walk_flat(s, f);
    }
    rshi_resolved_cut axes = {0}; /* all axes of the dim combined, to enumerate them */
    axes.parts = 1;
    for (int a = 0; a < s->l->desc.naxes; a++) {
        if (!(s->l->dim[d].axes >> a & 1)) continue;
        axes.axes[axes.naxes++] = a;
        axes.parts *= s->l->desc.axis[a].size;
    }
    for (int64_t k = 0; k < axes.parts; k++) {
        int64_t at = position + rshi_cut_position(s->l, &axes, k);
        if (local_range_of_query(s->l, d, at, &s->query[d], &f->from[d], &f->to[d]))
            RSH_TRY(walk_bases(s, d + 1, at, number * axes.parts + k, f));
    }
    return RSH_OK;
}

rsh_status rshi_layout_flat_meets(const rsh_layout *l, const rshi_stripe *box, rshi_range_fn fn, void *ctx) {
    search s = {.l = l, .query = box, .range_fn = fn, .ctx = ctx};
    flattened f;
    for (int d = 0; d < l->desc.ndim; d++)
        if (!box[d].count) return RSH_OK;
    return l->count ? walk_bases(&s, 0, 0, 0, &f) : RSH_OK;
}

bool rshi_layout_irregular(const rsh_layout *l) {
    if (l->desc.is_boxes || !l->flat.naxes) return false;
    for (int d = 0; d < l->desc.ndim; d++)
        for (int s = 0; s < l->dim[d].nsegments; s++)
            if (l->dim[d].segment[s].size && rshi_cut_axes(&l->dim[d].segment[s].cut) != l->dim[d].axes) return true;
    return false;
}

bool rshi_piece_first_copy(const rsh_layout *l, const rshi_piece *p) {
    for (int d = 0; d < l->desc.ndim; d++) {
        unsigned unnamed = l->dim[d].axes & ~rshi_cut_axes(&l->dim[d].segment[p->seg[d]].cut);
        for (int a = 0; a < l->desc.naxes; a++)
            if ((unnamed >> a & 1) && rshi_coordinate(l, p->position, a)) return false;
    }
    return true;
}

/* ---- boxes ---- */

static rsh_status emit_box(void *ctx, int64_t b) {
    search *s = ctx;
    rshi_piece *p = &s->box;
    p->position = b;
    for (int d = 0; d < s->l->desc.ndim; d++)
        p->set[d] = rshi_stripe_range(s->l->desc.boxes[b].box.lo[d], s->l->desc.boxes[b].box.hi[d]);
    rshi_piece_at_holder(s->l, p, 0, p);
    return emit_piece(s, p);
}


rsh_status rshi_layout_search_series(const rsh_layout *l, const rshi_stripe *query, rshi_series_fn fn, void *ctx) {
    search s = {.l = l, .query = query, .fn = fn, .ctx = ctx};
    flattened f;
    if (!l->count) return RSH_OK;
    for (int d = 0; d < l->desc.ndim; d++)
        if (!query[d].count) return RSH_OK;
    if (l->desc.is_boxes) return rshi_boxes_meeting(l, query, emit_box, &s);
    if (!l->flat.naxes) return search_mesh(&s);
    return walk_bases(&s, 0, 0, 0, &f);
}

typedef struct one_by_one {
    rshi_piece_fn fn;
    void *ctx;
} one_by_one;

static rsh_status emit_series_pieces(void *ctx, rshi_series *s) {
    const one_by_one *to = ctx;
    for (int64_t i = 0; i < s->n; i++) RSH_TRY(to->fn(to->ctx, rshi_series_choose(s, i)));
    return RSH_OK;
}

rsh_status rshi_layout_search(const rsh_layout *l, const rshi_stripe *query, rshi_piece_fn fn, void *ctx) {
    return rshi_layout_search_series(l, query, emit_series_pieces, &(one_by_one){fn, ctx});
}
