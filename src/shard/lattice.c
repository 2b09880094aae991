/* Lattice: decides questions about strided memory element by element.
 *
 * A common byte of two lattices is a solution of  c[0] x[0] + c[1] x[1] + ... in [lo, hi]  with 0 <= x[k] <= most[k]:
 * the strides of both, with the indices of the second counted from their ends.  A depth-first search from the largest
 * stride down skips values that the smaller strides cannot reach or that their common divisor excludes.  If strides
 * nest, as in all views of one dense array, hardly more than one value is left for each x. */
#include "shard/lattice.h"

#define MOST_TERMS (2 * RSH_MAX_NDIM)
#define FARTHEST   (INT64_MAX / 4) /* distances up to this can be added and doubled */

/* ---- canonical form ---- */

static void insert_dim(rshi_lattice *l, int64_t n, int64_t stride) {
    int at = l->nd++;
    for (; at > 0 && l->stride[at - 1] < stride; at--) {
        l->n[at] = l->n[at - 1];
        l->stride[at] = l->stride[at - 1];
    }
    l->n[at] = n;
    l->stride[at] = stride;
}

/* Does dim d continue where dim d + 1 ends? */
static bool dim_continues(const rshi_lattice *l, int d) {
    int64_t inner = l->stride[d + 1];
    return inner && l->stride[d] % inner == 0 && l->stride[d] / inner == l->n[d + 1];
}

/* Fuses dims that continue one another; the innermost becomes the run. */
static void fuse_dims(rshi_lattice *l) {
    while (l->nd && l->stride[l->nd - 1] == l->run) l->run *= l->n[--l->nd];
    for (int d = l->nd - 2; d >= 0; d--)
        if (dim_continues(l, d)) {
            l->n[d + 1] *= l->n[d];
            for (int k = d; k + 1 < l->nd; k++) l->n[k] = l->n[k + 1], l->stride[k] = l->stride[k + 1];
            l->nd--;
        }
}

rshi_lattice rshi_lattice_of(const void *data, int64_t size, int nd, const int64_t *shape, const int64_t *strides) {
    rshi_lattice l = {.start = (uintptr_t)data, .run = size};
    for (int d = 0; d < nd; d++) {
        if (shape[d] < 1) return (rshi_lattice){.start = (uintptr_t)data};
        if (shape[d] == 1) continue;
        int64_t stride = strides[d] * size;
        if (stride < 0) l.start -= (uintptr_t)((shape[d] - 1) * -stride);
        insert_dim(&l, shape[d], stride < 0 ? -stride : stride);
    }
    fuse_dims(&l);
    return l;
}

/* Returns the bytes from the first byte to one past the last. */
static int64_t lattice_span(const rshi_lattice *l) {
    int64_t bytes = l->run;
    for (int d = 0; d < l->nd; d++) bytes += (l->n[d] - 1) * l->stride[d];
    return bytes;
}

/* ---- the search ---- */

typedef struct terms {
    int n;
    int64_t c[MOST_TERMS], most[MOST_TERMS]; /* coefficients, positive and descending; and the largest index of each */
    int64_t reach[MOST_TERMS + 1];           /* the largest sum of the terms from k on */
    int64_t divisor[MOST_TERMS];             /* the greatest common divisor of c[k] and all later coefficients */
    int64_t *steps;
} terms;

/* Adds a term.  Equal strides are merged into one term, whose index is the sum of both. */
static void add_term(terms *t, int64_t c, int64_t most) {
    int at = 0;
    if (!c || most < 1) return;
    while (at < t->n && t->c[at] > c) at++;
    if (at < t->n && t->c[at] == c) {
        t->most[at] += most;
        return;
    }
    for (int k = t->n++; k > at; k--) t->c[k] = t->c[k - 1], t->most[k] = t->most[k - 1];
    t->c[at] = c;
    t->most[at] = most;
}

static int64_t common_divisor(int64_t a, int64_t b) {
    while (b) {
        int64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

static void finish_terms(terms *t) {
    t->reach[t->n] = 0;
    for (int k = t->n - 1; k >= 0; k--) {
        t->reach[k] = t->reach[k + 1] + t->c[k] * t->most[k];
        t->divisor[k] = common_divisor(t->c[k], k + 1 < t->n ? t->divisor[k + 1] : 0);
    }
}

/* Returns a / b, rounded up, for a > 0. */
static int64_t quotient_up(int64_t a, int64_t b) { return a / b + (a % b > 0); }

/* Can the terms from k on add up to a value in [lo, hi]? */
static rshi_sharing search_terms(const terms *t, int k, int64_t lo, int64_t hi) {
    if (hi < lo || hi < 0 || lo > t->reach[k]) return RSHI_APART;
    /* all indices 0, or all indices at their maximum, is a solution */
    if (lo <= 0 || hi >= t->reach[k]) return RSHI_SHARED;
    if (quotient_up(lo, t->divisor[k]) > hi / t->divisor[k]) return RSHI_APART;
    if (--*t->steps < 0) return RSHI_UNDECIDED;
    int64_t c = t->c[k], rest = lo - t->reach[k + 1];
    int64_t first = rest > 0 ? quotient_up(rest, c) : 0, last = rshi_min(t->most[k], hi / c);
    rshi_sharing found = RSHI_APART;
    for (int64_t x = first; x <= last && found == RSHI_APART; x++)
        found = search_terms(t, k + 1, lo - c * x, hi - c * x);
    return found;
}

rshi_sharing rshi_lattices_meet(const rshi_lattice *a, const rshi_lattice *b, int64_t *steps) {
    if (!a->run || !b->run) return RSHI_APART;
    if (a->start > b->start) return rshi_lattices_meet(b, a, steps);
    int64_t sa = lattice_span(a), sb = lattice_span(b);
    uintptr_t distance = b->start - a->start;
    if (distance >= (uintptr_t)sa) return RSHI_APART;
    if (sa > FARTHEST || sb > FARTHEST) return RSHI_UNDECIDED;
    terms t = {.steps = steps};
    for (int d = 0; d < a->nd; d++) add_term(&t, a->stride[d], a->n[d] - 1);
    for (int d = 0; d < b->nd; d++) add_term(&t, b->stride[d], b->n[d] - 1);
    finish_terms(&t);
    int64_t middle = (int64_t)distance + (sb - b->run); /* b's indices are counted from its last run */
    return search_terms(&t, 0, middle - (a->run - 1), middle + (b->run - 1));
}

/* Is every stride at least as large as the span of everything inside it? */
static bool strides_nest(const rshi_lattice *a) {
    int64_t inside = a->run;
    for (int d = a->nd - 1; d >= 0; d--) {
        if (a->stride[d] < inside) return false;
        inside += (a->n[d] - 1) * a->stride[d];
    }
    return true;
}

/* Searches for two elements with a common byte whose indices differ first in dim d: by 1 to n[d] - 1 in that dim, and
 * by anything in the inner dims. */
static rshi_sharing folds_from(const rshi_lattice *a, int d, int64_t *steps) {
    terms t = {.steps = steps};
    int64_t middle = -a->stride[d];
    add_term(&t, a->stride[d], a->n[d] - 2);
    for (int k = d + 1; k < a->nd; k++) {
        add_term(&t, a->stride[k], 2 * (a->n[k] - 1));
        middle += (a->n[k] - 1) * a->stride[k];
    }
    finish_terms(&t);
    return search_terms(&t, 0, middle - (a->run - 1), middle + (a->run - 1));
}

rshi_sharing rshi_lattice_folds(const rshi_lattice *a, int64_t *steps) {
    rshi_sharing found = RSHI_APART;
    if (!a->run) return RSHI_APART;
    if (a->nd && !a->stride[a->nd - 1]) return RSHI_SHARED;
    if (strides_nest(a)) return RSHI_APART;
    if (lattice_span(a) > FARTHEST) return RSHI_UNDECIDED;
    for (int d = a->nd - 1; d >= 0 && found == RSHI_APART; d--) found = folds_from(a, d, steps);
    return found;
}
