/* Drawn parts: computes the elements of a rank from the description of its layout. */
#include "drawn.h"

#include <stdlib.h>

typedef struct range {
    int64_t lo, n;
} range;

static int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }

static int64_t coordinate(const rsh_layout_desc *l, int64_t position, int axis) {
    for (int a = l->naxes - 1; a > axis; a--) position /= l->axis[a].size;
    return position % l->axis[axis].size;
}

/* Treats the axes of a cut as one, the first as the slowest: returns the number of parts, and the number of this
 * one. */
static int64_t taken_as_one(const rsh_layout_desc *l, const rsh_cut *cut, int64_t position, int64_t *parts) {
    int64_t k = 0;
    *parts = 1;
    for (int i = 0; i < cut->naxes; i++) {
        *parts *= l->axis[cut->axes[i]].size;
        k = k * l->axis[cut->axes[i]].size + coordinate(l, position, cut->axes[i]);
    }
    return k;
}

/* Returns part k of p of a range. */
static range cut_once(const rsh_cut *cut, range r, int64_t p, int64_t k) {
    int64_t unit = cut->rule == RSH_CUT_UNIT ? cut->number : 1;
    int64_t each = ((r.n + unit - 1) / unit + p - 1) / p * unit, lo = smaller(k * each, r.n);
    if (cut->rule != RSH_CUT_BALANCED) return (range){r.lo + lo, smaller(each, r.n - lo)};
    return (range){r.lo + k * (r.n / p) + smaller(k, r.n % p), r.n / p + (k < r.n % p)};
}

/* Returns the elements, of n, that a position has, if they are a range.  All rules nest, except explicit sizes. */
static range cut_range(const rsh_layout_desc *l, const rsh_cut *cut, int64_t n, int64_t position) {
    range r = {0, n};
    if (cut->rule == RSH_CUT_SIZES) {
        int64_t parts, k = taken_as_one(l, cut, position, &parts);
        for (int64_t i = 0; i < k; i++) r.lo += cut->sizes[i];
        return (range){r.lo, cut->sizes[k]};
    }
    for (int i = 0; i < cut->naxes; i++)
        r = cut_once(cut, r, l->axis[cut->axes[i]].size, coordinate(l, position, cut->axes[i]));
    return r;
}

static void add_indices(drawn_part *p, int d, int64_t lo, int64_t n) {
    for (int64_t i = 0; i < n; i++) p->index[d][p->n[d]++] = lo + i;
}

/* Adds the cut of n indices from `base` on. */
static void add_cut(const rsh_layout_desc *l, const rsh_cut *cut, int64_t base, int64_t n, int64_t position, int d,
                    drawn_part *p) {
    if (cut->rule != RSH_CUT_CYCLIC) {
        range r = cut_range(l, cut, n, position);
        add_indices(p, d, base + r.lo, r.n);
        return;
    }
    int64_t parts, b = cut->number, k = taken_as_one(l, cut, position, &parts);
    for (int64_t lo = k * b; lo < n; lo += parts * b) add_indices(p, d, base + lo, smaller(b, n - lo));
}

static void add_dim(const rsh_layout_desc *l, int d, int64_t position, drawn_part *p) {
    const rsh_dim *dim = &l->dim[d];
    int64_t base = 0;
    if (!dim->nsegments) add_cut(l, &dim->cut, 0, dim->size, position, d, p);
    for (int s = 0; s < dim->nsegments; s++) {
        const rsh_segment *segment = &dim->segment[s];
        add_cut(l, dim->cut.naxes ? &dim->cut : &segment->cut, base, segment->size, position, d, p);
        base += segment->size;
    }
}

static drawn_part new_part(const drawn *d) {
    drawn_part p = {.ndim = d->desc.ndim, .shape = d->shape, .count = 1};
    for (int k = 0; k < p.ndim; k++) p.index[k] = prop_alloc((size_t)d->shape[k] * sizeof(int64_t));
    return p;
}

static void count_elements(drawn_part *p) {
    for (int k = 0; k < p->ndim; k++) {
        p->count *= p->n[k];
        p->index[k] = realloc(p->index[k], (size_t)(p->n[k] + 1) * sizeof(int64_t));
        if (!p->index[k]) abort();
    }
}

static drawn_part mesh_part(const drawn *d, int64_t position) {
    const rsh_layout_desc *l = &d->desc;
    drawn_part p = new_part(d);
    for (int k = 0; k < l->ndim; k++) add_dim(l, k, position, &p);
    for (int a = 0; a < l->naxes; a++)
        for (int i = 0; i < l->npartial; i++)
            if (l->partial[i] == a) p.partial = p.partial * l->axis[a].size + coordinate(l, position, a);
    count_elements(&p);
    if (!l->flat.naxes) return p;
    range r = cut_range(l, &l->flat, p.count, position);
    p.flat = true;
    p.lo = r.lo, p.count = r.n;
    return p;
}

static drawn_part box_part(const drawn *d, const rsh_box *box) {
    drawn_part p = new_part(d);
    for (int k = 0; k < d->desc.ndim; k++) add_indices(&p, k, box->lo[k], box->hi[k] - box->lo[k]);
    count_elements(&p);
    return p;
}

static bool has_box(const rsh_ranked_box *box, int64_t rank) {
    for (int64_t i = 0; i < box->nranks; i++)
        if (box->ranks[i] == rank) return true;
    return false;
}

static void add_boxes(const drawn *d, int64_t rank, drawn_parts *held) {
    for (int64_t b = 0; b < d->desc.nboxes; b++) held->n += has_box(&d->desc.boxes[b], rank);
    held->at = prop_alloc((size_t)held->n * sizeof *held->at);
    for (int64_t b = 0, n = 0; b < d->desc.nboxes; b++)
        if (has_box(&d->desc.boxes[b], rank)) held->at[n++] = box_part(d, &d->desc.boxes[b].box);
}

void drawn_know(drawn *d) {
    const rsh_layout_desc *l = &d->desc;
    int64_t positions = l->is_boxes ? 0 : 1;
    d->npartial = 1;
    for (int k = 0; k < l->ndim; k++) d->shape[k] = rsh_layout_shape(d->layout)[k];
    for (int a = 0; a < l->naxes; a++) positions *= l->axis[a].size;
    for (int i = 0; i < l->npartial; i++) d->npartial *= l->axis[l->partial[i]].size;
    for (int64_t r = 0; r < DRAWN_NAMES; r++) d->position[r] = -1;
    for (int64_t i = 0; i < positions; i++) d->position[l->ranks ? l->ranks[i] : l->first_rank + i] = i;
}

const drawn_parts *drawn_parts_of(drawn *d, int64_t rank) {
    drawn_parts *held = &d->held[rank];
    if (held->known) return held;
    held->known = true;
    if (d->desc.is_boxes) add_boxes(d, rank, held);
    if (d->position[rank] < 0) return held;
    held->n = 1;
    held->at = prop_alloc(sizeof *held->at);
    held->at[0] = mesh_part(d, d->position[rank]);
    return held;
}

const drawn_part *drawn_part_of(drawn *d, int64_t rank, int64_t number) {
    if (rank < 0 || rank >= DRAWN_NAMES) return NULL;
    const drawn_parts *held = drawn_parts_of(d, rank);
    return number >= 0 && number < held->n ? &held->at[number] : NULL;
}

int64_t drawn_element(const drawn_part *p, int64_t i) {
    int64_t index[DRAWN_DIMS], element = 0;
    i += p->lo;
    for (int d = p->ndim - 1; d >= 0; d--) {
        index[d] = p->index[d][i % p->n[d]];
        i /= p->n[d];
    }
    for (int d = 0; d < p->ndim; d++) element = element * p->shape[d] + index[d];
    return element;
}

int64_t drawn_slot(const drawn_part *p, const rsh_transfer *t, const rsh_transfer_end *end, const int64_t *at) {
    int64_t i[DRAWN_DIMS], slot = 0;
    if (end->flat != p->flat) return -1;
    for (int d = 0; d < (p->flat ? 1 : p->ndim); d++) i[d] = end->first[d];
    for (int l = 0; l < t->nloops; l++) i[p->flat ? 0 : t->dim[l]] += at[l] * end->step[l];
    if (p->flat) return i[0] >= 0 && i[0] < p->count ? i[0] : -1;
    for (int d = 0; d < p->ndim; d++) {
        if (i[d] < 0 || i[d] >= p->n[d]) return -1;
        slot = slot * p->n[d] + i[d];
    }
    return slot;
}

bool drawn_has_own_cuts(const drawn *d) {
    for (int k = 0; k < d->desc.ndim; k++)
        if (d->desc.dim[k].nsegments && !d->desc.dim[k].cut.naxes) return true;
    return false;
}

void drawn_free(drawn *d) {
    for (int64_t r = 0; r < DRAWN_NAMES; r++) {
        for (int64_t i = 0; i < d->held[r].n; i++)
            for (int k = 0; k < DRAWN_DIMS; k++) free(d->held[r].at[i].index[k]);
        free(d->held[r].at);
    }
    rsh_layout_free(d->layout);
}
