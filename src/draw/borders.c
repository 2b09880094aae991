/* Borders: finds where the parts of both layouts begin and end along each dim, chooses the dims to draw, and omits the
 * middle of a dim with too many borders. */
#include "draw/impl.h"

#include <string.h>

/* The lowest and the highest borders of one dim, ascending.  A list that is not full has all borders. */
#define KEPT (RSHI_DRAW_INTERVALS + 2)
typedef struct both_ends {
    int nlow, nhigh;
    int64_t low[KEPT], high[KEPT];
} both_ends;

/* Inserts x into an ascending list.  A full list loses its last entry, or its first if `high`. */
static void insert_border(int64_t *list, int *n, int64_t x, bool high) {
    int i = *n;
    while (i > 0 && list[i - 1] > x) i--;
    if (i > 0 && list[i - 1] == x) return;
    bool full = *n == KEPT;
    if (full && (high ? i == 0 : i == KEPT)) return;
    if (full && high) {
        memmove(list, list + 1, (size_t)(i - 1) * sizeof *list);
        list[i - 1] = x;
        return;
    }
    memmove(list + i + 1, list + i, (size_t)((full ? KEPT - 1 : *n) - i) * sizeof *list);
    list[i] = x;
    *n += !full;
}

static void add_border(both_ends *e, int64_t x) {
    insert_border(e->low, &e->nlow, x, false);
    insert_border(e->high, &e->nhigh, x, true);
}

/* Adds the borders of a stripe.  Only its first and last blocks can have borders that are kept. */
static void add_stripe(both_ends *e, const rshi_stripe *s) {
    for (int64_t j = 0; j < s->count; j++) {
        if (j == KEPT && s->count > 2 * KEPT) j = s->count - KEPT;
        add_border(e, s->lo + j * s->stride);
        add_border(e, s->lo + j * s->stride + (j + 1 < s->count ? s->len : s->last));
    }
}

static rsh_status add_layout(both_ends *ends, const rsh_layout *l) {
    rshi_stripe before[RSH_MAX_NDIM] = {{0}};
    int ndim = rsh_layout_ndim(l);
    for (int64_t i = 0; i < rsh_layout_nranks(l); i++) {
        rshi_piece *piece = NULL;
        int64_t n = 0;
        RSH_TRY(rshi_layout_pieces(l, rsh_layout_rank(l, i), &piece, &n));
        for (int64_t k = 0; k < n; k++)
            for (int d = 0; d < ndim; d++) {
                const rshi_stripe *set = &piece[k].set[d];
                if (memcmp(set, &before[d], sizeof *set))
                    add_stripe(&ends[d], set); /* neighbours often have equal stripes */
                before[d] = *set;
            }
        rshi_free(piece);
    }
    return RSH_OK;
}

/* ---- repetition ---- */

/* Returns the period of a dim in one layout: a round of blocks, or the size of a part if all parts except the last ones
 * are equal. 0: the dim is not cut; -1: it has no period. */
static int64_t unit_of(const rsh_layout *l, int d) {
    if (!rshi_layout_plain(l)) return -1;
    int64_t parts = rshi_layout_cut_parts(l, d), size = rsh_layout_shape(l)[d];
    rshi_stripe first = rshi_layout_cut_stripe(l, d, 0);
    if (parts == 1 || !first.count) return 0;
    if (first.count > 1) return first.stride;
    for (int64_t k = 1; k < parts; k++) {
        rshi_stripe s = rshi_layout_cut_stripe(l, d, k);
        if (s.count && (s.lo != k * first.len || (s.last != first.len && s.lo + s.last != size))) return -1;
    }
    return first.len;
}

static void find_unit(const rshi_scene *s, rshi_borders *e) {
    int64_t unit = 1, size = rsh_layout_shape(s->side[0].layout)[e->dim];
    for (int i = 0; i < s->nsides; i++) {
        int64_t of_side = unit_of(s->side[i].layout, e->dim);
        if (of_side < 0) return;
        if (of_side && !rshi_mul(unit / rshi_gcd(unit, of_side), of_side, &unit)) return;
    }
    if (size / unit < 2) return;
    e->unit = unit;
    e->times = size % unit ? 0 : size / unit;
}

/* Is one of the layouts block-cyclic along the dim? */
static bool is_cyclic(const rshi_scene *s, int d) {
    for (int i = 0; i < s->nsides; i++)
        if (rshi_layout_plain(s->side[i].layout) && rshi_layout_cut_stripe(s->side[i].layout, d, 0).count > 1)
            return true;
    return false;
}

/* ---- choosing what to draw ---- */

static void keep_all(rshi_borders *e, const both_ends *ends) {
    e->n = (int)rshi_max(1, ends->nlow - 1);
    memcpy(e->at, ends->low, (size_t)ends->nlow * sizeof *e->at);
    if (ends->nlow == 1) e->at[1] = e->at[0];
}

/* Returns the number of intervals closest to `want` that makes whole periods; `want` itself if a period has too many
 * intervals. */
static int whole_units(const rshi_borders *e, const both_ends *ends, int want, int most) {
    int in_unit = 0;
    while (e->unit && in_unit + 1 < ends->nlow && ends->low[in_unit + 1] <= e->unit) in_unit++;
    if (!in_unit || in_unit > most) return want;
    return in_unit * (int)rshi_max(1, want / in_unit);
}

static void keep_ends(rshi_borders *e, const both_ends *ends, const rshi_detail *detail) {
    int most = (detail->exact - 1) / 2;
    int head = whole_units(e, ends, detail->head, most), tail = whole_units(e, ends, detail->tail, most);
    /* the last period is shorter */
    if (e->unit && ends->high[ends->nhigh - 1] % e->unit) tail = (int)rshi_min(tail + 1, most);
    e->gap = head;
    e->n = head + 1 + tail;
    memcpy(e->at, ends->low, (size_t)(head + 1) * sizeof *e->at);
    memcpy(e->at + head + 1, ends->high + ends->nhigh - tail - 1, (size_t)(tail + 1) * sizeof *e->at);
}

static void choose_intervals(const rshi_scene *s, rshi_borders *e, const both_ends *ends, rshi_detail detail) {
    if (e->dim < 0) return;
    *e = (rshi_borders){.dim = e->dim, .gap = -1};
    find_unit(s, e);
    int most = is_cyclic(s, e->dim) ? (detail.exact + 1) / 2 : detail.exact;
    int head = whole_units(e, ends, detail.head, (detail.exact - 1) / 2);
    int tail = whole_units(e, ends, detail.tail, (detail.exact - 1) / 2);
    if (ends->nlow <= most + 1 || ends->nlow <= head + tail + 3)
        keep_all(e, ends);
    else
        keep_ends(e, ends, &detail);
}

/* The first of the dims with most borders, except those in `taken`; -1 if all have at most `least` borders. */
static int most_cut(const both_ends *ends, int ndim, const int64_t *shape, unsigned taken, int least) {
    int best = -1;
    for (int d = 0; d < ndim; d++)
        if (!(taken >> d & 1) && shape[d] > 1 && ends[d].nlow > least && (best < 0 || ends[d].nlow > ends[best].nlow))
            best = d;
    return best;
}

static void choose_dims(rshi_scene *s, const both_ends *ends, int ndim, const int64_t *shape) {
    int a = most_cut(ends, ndim, shape, 0, 0), b = a < 0 ? -1 : most_cut(ends, ndim, shape, 1u << a, 0);
    unsigned taken = (a < 0 ? 0 : 1u << a) | (b < 0 ? 0 : 1u << b);
    s->along[RSHI_ROWS].dim = b < 0 ? -1 : (int)rshi_min(a, b);
    s->along[RSHI_COLUMNS].dim = (int)rshi_max(a, b);
    s->along[RSHI_SLICES].dim = most_cut(ends, ndim, shape, taken, 2);
}

/* Limits the number of slices, so that the page has bounded size. */
static rshi_detail slice_detail(const rshi_scene *s, const rshi_detail *detail) {
    int cells = s->along[RSHI_ROWS].n * s->along[RSHI_COLUMNS].n;
    int most = (int)rshi_max(rshi_min(detail->slices, 4), rshi_min(detail->slices, 12000 / cells));
    return (rshi_detail){most, most - 1 - most / 3, most / 3, 0, 0};
}

rsh_status rshi_scene_borders(rshi_scene *s, const rshi_detail *detail) {
    const rsh_layout *l = s->side[0].layout;
    int ndim = rsh_layout_ndim(l);
    const int64_t *shape = rsh_layout_shape(l);
    both_ends *ends = rshi_calloc(RSH_MAX_NDIM, sizeof *ends);
    if (!ends) return rshi_nomem();
    for (int d = 0; d < ndim; d++) add_border(&ends[d], 0), add_border(&ends[d], shape[d]);
    rsh_status st = RSH_OK;
    for (int i = 0; i < s->nsides && !st; i++) st = add_layout(ends, s->side[i].layout);
    for (int i = 0; i < RSHI_DIRECTIONS; i++) s->along[i] = (rshi_borders){.dim = -1, .n = 1, .gap = -1, .at = {0, 1}};
    if (!st) {
        choose_dims(s, ends, ndim, shape);
        for (int i = 0; i < RSHI_SLICES; i++) choose_intervals(s, &s->along[i], &ends[s->along[i].dim], *detail);
        rshi_detail coarse = *detail;
        coarse.exact = (detail->exact + 1) / 3;
        int most = detail->slices > 1 && s->along[RSHI_SLICES].dim >= 0 ? detail->cells / 4 : detail->cells;
        bool many = s->along[RSHI_ROWS].n * s->along[RSHI_COLUMNS].n > most;
        for (int i = 0; i < RSHI_SLICES && many; i++) choose_intervals(s, &s->along[i], &ends[s->along[i].dim], coarse);
        rshi_borders *slices = &s->along[RSHI_SLICES];
        if (detail->slices > 1) choose_intervals(s, slices, &ends[slices->dim], slice_detail(s, detail));
    }
    rshi_free(ends);
    return st;
}
