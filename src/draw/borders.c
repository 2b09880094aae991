/* Borders: where the parts of both layouts begin and end along each dim, and which two dims are worth drawing. */
#include "draw/impl.h"

#include <string.h>

/* Keeps the `limit` lowest intervals; cost per call is their number. */
void rshi_borders_add(rshi_borders *e, int64_t x) {
    int i = e->n;
    while (i >= 0 && e->at[i] > x) i--;
    if (x < e->at[0] || i == e->n || e->at[i] == x) return;
    int64_t *place = e->at + i + 1;
    int after = e->n - i;
    if (e->n == e->limit) after--;
    else e->n++;
    memmove(place + 1, place, (size_t)after * sizeof *place);
    *place = x;
}

static int add_range(void *ctx, int64_t lo, int64_t hi) {
    rshi_borders *e = ctx;
    rshi_borders_add(e, lo);
    rshi_borders_add(e, hi);
    return lo >= e->at[e->n];
}

typedef struct box_borders {
    rshi_borders *borders; /* by dim */
    int ndim;
} box_borders;

static int add_box(void *ctx, const rsh_box *box, int64_t offset, const int64_t *strides) {
    const box_borders *b = ctx;
    (void)offset;
    (void)strides;
    for (int d = 0; d < b->ndim; d++) add_range(&b->borders[d], box->lo[d], box->hi[d]);
    return 0;
}

static rsh_status add_part(rshi_scene *s, const rsh_layout *l, int64_t rank, int64_t part) {
    int ndim = rsh_layout_ndim(l);
    box_borders all = {s->borders, ndim};
    for (int d = 0; d < ndim; d++) {
        rsh_status st = rsh_layout_index_set(l, rank, part, d, add_range, &s->borders[d]);
        if (st == RSH_EUNSUP) return rsh_layout_boxes(l, rank, part, add_box, &all); /* flat: not a product */
        if (st) return st;
    }
    return RSH_OK;
}

static rsh_status add_layout(rshi_scene *s, const rsh_layout *l) {
    int64_t nranks = rsh_layout_nranks(l);
    for (int64_t i = 0; i < nranks; i++) {
        int64_t rank = rsh_layout_rank(l, i), nparts = rsh_layout_nparts(l, rank);
        for (int64_t part = 0; part < nparts; part++) RSH_TRY(add_part(s, l, rank, part));
    }
    return RSH_OK;
}

static void start(rshi_borders *e, int64_t size, int limit) {
    e->n = 1;
    e->limit = limit;
    e->at[0] = 0;
    e->at[1] = size;
}

/* The dim with most intervals, the first of equals, apart from `but`; -1 if all others have at most one index. */
static int most_cut(const rshi_scene *s, int ndim, const int64_t *shape, int but) {
    int best = -1;
    for (int d = 0; d < ndim; d++)
        if (d != but && shape[d] > 1 && (best < 0 || s->borders[d].n > s->borders[best].n)) best = d;
    return best;
}

rsh_status rshi_scene_borders(rshi_scene *s, int limit) {
    const rsh_layout *l = s->side[0].layout;
    int ndim = rsh_layout_ndim(l);
    const int64_t *shape = rsh_layout_shape(l);
    for (int d = 0; d < ndim; d++) start(&s->borders[d], shape[d], limit);
    for (int i = 0; i < s->nsides; i++) RSH_TRY(add_layout(s, s->side[i].layout));
    int a = most_cut(s, ndim, shape, -1), b = most_cut(s, ndim, shape, a);
    s->down = b < 0 ? -1 : (int)rshi_min(a, b);
    s->across = (int)rshi_max(a, b);
    for (int d = 0; d <= RSH_MAX_NDIM; d++)
        if (d >= ndim || (d != s->down && d != s->across)) start(&s->borders[d], 1, limit);
    return RSH_OK;
}
