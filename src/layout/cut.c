/* Cut: one dim, segment or flattened part divided over the coordinates of mesh axes. */
#include "layout/impl.h"

unsigned rshi_cut_axes(const rshi_resolved_cut *c) {
    unsigned set = 0;
    for (int i = 0; i < c->naxes; i++) set |= 1u << c->axes[i];
    return set;
}

bool rshi_cut_same_axes(const rshi_resolved_cut *a, const rshi_resolved_cut *b) {
    if (a->naxes != b->naxes) return false;
    for (int i = 0; i < a->naxes; i++)
        if (a->axes[i] != b->axes[i]) return false;
    return true;
}

int64_t rshi_cut_coordinate(const rsh_layout *l, const rshi_resolved_cut *c, int64_t position) {
    int64_t k = 0;
    for (int i = 0; i < c->naxes; i++) k = k * l->desc.axis[c->axes[i]].size + rshi_coordinate(l, position, c->axes[i]);
    return k;
}

/* Returns min(a * b, n) for a, b >= 0, without overflow. */
static int64_t product_up_to(int64_t a, int64_t b, int64_t n) {
    int64_t p;
    return rshi_mul(a, b, &p) ? rshi_min(p, n) : n;
}

/* Returns the length of the equal parts of the chunk rule, in units of u indices; at least 1, because it is used as a
 * divisor. */
static int64_t chunk_length(int64_t n, int64_t p, int64_t u) {
    return rshi_max(1, product_up_to(rshi_ceil_div(rshi_ceil_div(n, u), p), u, INT64_MAX));
}

/* Replaces [*lo, *lo + *n) by its part c of p, for one level of a nested cut. */
static void narrow_to_part(const rshi_resolved_cut *cut, int64_t p, int64_t c, int64_t *lo, int64_t *n) {
    int64_t from, to;
    if (cut->rule == RSH_CUT_BALANCED) {
        from = c * (*n / p) + rshi_min(c, *n % p);
        to = from + *n / p + (c < *n % p);
    } else {
        int64_t s = chunk_length(*n, p, cut->rule == RSH_CUT_UNIT ? cut->number : 1);
        from = product_up_to(s, c, *n);
        to = product_up_to(s, c + 1, *n);
    }
    *lo += from;
    *n = to - from;
}

/* Returns the part, of p, that holds index i of n, for one level. */
static int64_t part_holding(const rshi_resolved_cut *cut, int64_t p, int64_t n, int64_t i) {
    if (cut->rule != RSH_CUT_BALANCED) return i / chunk_length(n, p, cut->rule == RSH_CUT_UNIT ? cut->number : 1);
    int64_t big = n / p + 1, nbig = n % p;
    return i < nbig * big ? i / big : nbig + (i - nbig * big) / (n / p);
}

static rshi_stripe cyclic_stripe(const rshi_resolved_cut *c, int64_t start, int64_t size, int64_t k) {
    int64_t b = c->number, lo = product_up_to(b, k, size);
    if (lo >= size) return rshi_stripe_range(start, start);
    int64_t stride = product_up_to(b, c->parts, INT64_MAX);
    int64_t count = (size - lo - 1) / stride + 1;
    int64_t last = rshi_min(b, size - lo - (count - 1) * stride);
    if (count == 1) return rshi_stripe_range(start + lo, start + lo + last);
    return (rshi_stripe){start + lo, b, stride, count, last};
}

rshi_stripe rshi_cut_stripe(const rsh_layout *l, const rshi_resolved_cut *c, int64_t start, int64_t size, int64_t k) {
    if (!c->naxes) return rshi_stripe_range(start, start + size);
    if (c->rule == RSH_CUT_CYCLIC) return cyclic_stripe(c, start, size, k);
    if (c->rule == RSH_CUT_SIZES) return rshi_stripe_range(start + c->starts[k], start + c->starts[k + 1]);
    int64_t lo = start, n = size, inner = c->parts;
    if (c->naxes == 1) narrow_to_part(c, inner, k, &lo, &n); /* fast path: called for every neighbour of a rank */
    for (int i = 0; i < c->naxes && c->naxes > 1; i++) {
        int64_t p = l->desc.axis[c->axes[i]].size;
        inner /= p;
        narrow_to_part(c, p, k / inner % p, &lo, &n);
    }
    return rshi_stripe_range(lo, lo + n);
}

/* ---- consecutive coordinates ---- */

void rshi_cut_walk_start(const rsh_layout *l, const rshi_resolved_cut *c, int64_t start, int64_t size,
                         rshi_cut_walk *w) {
    *w = (rshi_cut_walk){.l = l, .c = c, .start = start, .size = size, .parts = 1, .outer = -1};
    if (c->naxes) w->parts = l->desc.axis[c->axes[c->naxes - 1]].size;
}

/* Moves to part `outer` of all levels except the innermost. */
static void enter_outer_part(rshi_cut_walk *w, int64_t outer) {
    int64_t inner = w->c->parts / w->parts;
    w->outer = outer, w->lo = w->start, w->n = w->size;
    for (int i = 0; i < w->c->naxes - 1; i++) {
        int64_t p = w->l->desc.axis[w->c->axes[i]].size;
        inner /= p;
        narrow_to_part(w->c, p, outer / inner % p, &w->lo, &w->n);
    }
    w->each = w->n / w->parts, w->longer = w->n % w->parts;
    if (w->c->rule == RSH_CUT_BALANCED) return;
    w->each = rshi_min(w->n, chunk_length(w->n, w->parts, w->c->rule == RSH_CUT_UNIT ? w->c->number : 1));
}

rshi_stripe rshi_cut_walk_at(rshi_cut_walk *w, int64_t k) {
    const rshi_resolved_cut *c = w->c;
    if (!c->naxes || c->rule == RSH_CUT_CYCLIC || c->rule == RSH_CUT_SIZES)
        return rshi_cut_stripe(w->l, c, w->start, w->size, k);
    int64_t outer = c->naxes == 1 ? 0 : k / w->parts, i = k - outer * w->parts;
    if (outer != w->outer) enter_outer_part(w, outer);
    if (c->rule == RSH_CUT_BALANCED) {
        int64_t lo = w->lo + i * w->each + rshi_min(i, w->longer);
        return rshi_stripe_range(lo, lo + w->each + (i < w->longer));
    }
    int64_t from = product_up_to(w->each, i, w->n);
    return rshi_stripe_range(w->lo + from, w->lo + from + rshi_min(w->each, w->n - from));
}

/* Returns the last part that starts at or before i; empty parts before it hold nothing. */
static int64_t locate_in_sizes(const rshi_resolved_cut *c, int64_t i) {
    int64_t lo = 0, hi = c->parts - 1;
    while (lo < hi) {
        int64_t mid = (lo + hi + 1) / 2;
        if (c->starts[mid] <= i)
            lo = mid;
        else
            hi = mid - 1;
    }
    return lo;
}

int64_t rshi_cut_locate(const rsh_layout *l, const rshi_resolved_cut *c, int64_t size, int64_t i) {
    if (!c->naxes) return 0;
    if (c->rule == RSH_CUT_CYCLIC) return i / c->number % c->parts;
    if (c->rule == RSH_CUT_SIZES) return locate_in_sizes(c, i);
    int64_t k = 0, n = size;
    for (int a = 0; a < c->naxes; a++) {
        int64_t p = l->desc.axis[c->axes[a]].size, at = part_holding(c, p, n, i), lo = 0;
        narrow_to_part(c, p, at, &lo, &n);
        i -= lo;
        k = k * p + at;
    }
    return k;
}

/* ---- counting non-empty parts ---- */

/* Counts the non-empty parts into which the levels from `level` on cut n indices.  Parts of one level have at most two
 * different sizes, so this is fast. */
static int64_t full_parts(const rsh_layout *l, const rshi_resolved_cut *c, int level, int64_t n) {
    if (!n) return 0;
    if (level == c->naxes) return 1;
    int64_t p = l->desc.axis[c->axes[level]].size;
    if (c->rule == RSH_CUT_BALANCED)
        return n % p * full_parts(l, c, level + 1, n / p + 1) + (p - n % p) * full_parts(l, c, level + 1, n / p);
    int64_t s = chunk_length(n, p, c->rule == RSH_CUT_UNIT ? c->number : 1);
    return n / s * full_parts(l, c, level + 1, s) + full_parts(l, c, level + 1, n % s);
}

/* Counts the non-empty parts among the first `at` parts of one level. */
static int64_t full_before(const rsh_layout *l, const rshi_resolved_cut *c, int level, int64_t n, int64_t at) {
    int64_t p = l->desc.axis[c->axes[level]].size;
    if (c->rule == RSH_CUT_BALANCED) {
        int64_t big = rshi_min(at, n % p);
        return big * full_parts(l, c, level + 1, n / p + 1) + (at - big) * full_parts(l, c, level + 1, n / p);
    }
    return at * full_parts(l, c, level + 1, chunk_length(n, p, c->rule == RSH_CUT_UNIT ? c->number : 1));
}

int64_t rshi_cut_full_before(const rsh_layout *l, const rshi_resolved_cut *c, int64_t size, int64_t i) {
    int64_t count = 0, n = size;
    for (int a = 0; a < c->naxes; a++) {
        int64_t p = l->desc.axis[c->axes[a]].size, at = part_holding(c, p, n, i), lo = 0;
        count += full_before(l, c, a, n, at);
        narrow_to_part(c, p, at, &lo, &n);
        i -= lo;
    }
    return count;
}

int64_t rshi_dim_extent(const rsh_layout *l, int dim, int64_t position) {
    int64_t n = 0;
    for (int s = 0; s < l->dim[dim].nsegments; s++) {
        const rshi_resolved_segment *g = &l->dim[dim].segment[s];
        rshi_stripe set = rshi_cut_stripe(l, &g->cut, g->start, g->size, rshi_cut_coordinate(l, &g->cut, position));
        n += rshi_stripe_size(&set);
    }
    return n;
}
