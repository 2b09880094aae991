/* Count overlaps: how many parts of a side have elements in common with given cells?
 *
 * In a product side, the coordinates whose blocks overlap a stripe are a few ranges per dim.  One cell overlaps the
 * product of these ranges.  If only one dim is cut, several cells overlap the union of their ranges.  Otherwise
 * the parts that overlap several cells are marked one by one.  In a flat side the parts that overlap a box are ranges
 * of numbers. */
#include "plan/totals.h"

struct rshi_overlap_counter {
    const rshi_grouped_side *s;
    int cut[RSH_MAX_NDIM]; /* the dims that are divided among several coordinates */
    int ncut;
    rshi_ranges *met;     /* owned: [cell][cut dim], the coordinates that overlap */
    int64_t room;         /* in cells */
    rshi_ranges all;      /* owned: coordinates or parts that overlap any cell */
    int64_t *tick, ticks; /* owned, by part: the last query in which it was marked; the current query */
};

rsh_status rshi_overlap_counter_new(const rshi_grouped_side *s, rshi_overlap_counter **out) {
    rshi_overlap_counter *m = RSHI_NEW(rshi_overlap_counter);
    if (!m) return rshi_nomem();
    m->s = s;
    for (int d = 0; d < s->ndim && s->product; d++)
        if (s->blocks[d].parts > 1) m->cut[m->ncut++] = d;
    *out = m;
    return RSH_OK;
}

void rshi_overlap_counter_free(rshi_overlap_counter *m) {
    if (!m) return;
    for (int64_t i = 0; i < m->room * RSH_MAX_NDIM; i++) rshi_free(m->met[i].range);
    rshi_free(m->all.range);
    rshi_free(m->met);
    rshi_free(m->tick);
    rshi_free(m);
}

/* Makes room for the ranges of n cells.  New ones are empty. */
static rsh_status make_room(rshi_overlap_counter *m, int64_t n) {
    if (n <= m->room) return RSH_OK;
    int64_t room = rshi_max(n, 2 * m->room);
    rshi_ranges *more = rshi_calloc((size_t)room, RSH_MAX_NDIM * sizeof *more);
    if (!more) return rshi_nomem();
    for (int64_t i = 0; i < m->room * RSH_MAX_NDIM; i++) more[i] = m->met[i];
    rshi_free(m->met);
    m->met = more;
    m->room = room;
    return RSH_OK;
}

static rshi_ranges *met_by(rshi_overlap_counter *m, int64_t cell, int i) { return &m->met[cell * RSH_MAX_NDIM + i]; }

/* ---- along one dim ---- */

static int64_t block_of(const rshi_dim_blocks *r, int64_t x) {
    int64_t lo = 0, hi = r->n - 1;
    while (lo < hi) {
        int64_t mid = lo + (hi - lo + 1) / 2;
        if (r->start[mid] <= x)
            lo = mid;
        else
            hi = mid - 1;
    }
    return lo;
}

/* Lists the coordinates that own something in [lo, hi). */
static rsh_status meet_range(const rshi_dim_blocks *r, int64_t lo, int64_t hi, rshi_ranges *out) {
    int64_t last = block_of(r, hi - 1);
    for (int64_t i = block_of(r, lo), j; i <= last; i = j + 1) {
        j = rshi_min(r->run[i], last);
        RSH_TRY(rshi_ranges_add(out, r->owner[i], r->owner[j] + 1));
        if (j - i + 1 == r->full) return RSH_OK; /* all coordinates */
    }
    return RSH_OK;
}

static rsh_status meet_stripe(const rshi_dim_blocks *r, const rshi_stripe *s, rshi_ranges *out) {
    for (int64_t j = 0; j < s->count; j++) {
        int64_t lo = s->lo + j * s->stride;
        RSH_TRY(meet_range(r, lo, lo + (j == s->count - 1 ? s->last : s->len), out));
        if (out->n > 4 * r->full && rshi_ranges_merge(out) == r->full) break;
    }
    return RSH_OK;
}

/* Lists in `met` the coordinates that the cell overlaps along cut dim i, and counts them. */
static rsh_status meet_dim(rshi_overlap_counter *m, const rshi_stripe *set, int64_t cell, int i, int64_t *n) {
    int d = m->cut[i];
    rshi_ranges *out = met_by(m, cell, i);
    out->n = 0;
    RSH_TRY(meet_stripe(&m->s->blocks[d], &set[d], out));
    *n = rshi_ranges_merge(out);
    return RSH_OK;
}

/* ---- several cells ---- */

static rsh_status count_union(rshi_overlap_counter *m, int64_t n, int64_t *count) {
    rshi_ranges *all = &m->all;
    all->n = 0;
    for (int64_t c = 0; c < n; c++)
        for (int64_t i = 0; i < met_by(m, c, 0)->n; i++)
            RSH_TRY(rshi_ranges_add(all, met_by(m, c, 0)->range[i].lo, met_by(m, c, 0)->range[i].hi));
    *count = rshi_ranges_merge(all);
    return RSH_OK;
}

static void tick_off(rshi_overlap_counter *m, int64_t cell, int i, int64_t number, int64_t *count) {
    if (i == m->ncut) {
        *count += m->tick[number] != m->ticks;
        m->tick[number] = m->ticks;
        return;
    }
    const rshi_ranges *met = met_by(m, cell, i);
    for (int64_t k = 0; k < met->n; k++)
        for (int64_t x = met->range[k].lo; x < met->range[k].hi; x++)
            tick_off(m, cell, i + 1, number * m->s->blocks[m->cut[i]].parts + x, count);
}

static rsh_status count_ticks(rshi_overlap_counter *m, int64_t n, int64_t *count) {
    if (!m->tick) m->tick = rshi_calloc((size_t)m->s->parts, sizeof *m->tick);
    if (!m->tick) return rshi_nomem();
    m->ticks++;
    *count = 0;
    for (int64_t c = 0; c < n; c++) tick_off(m, c, 0, 0, count);
    return RSH_OK;
}

/* Omits cells that overlap nothing along some dim. */
static rsh_status count_products(rshi_overlap_counter *m, const rshi_stripe *cells, int64_t n, int64_t *count) {
    int64_t kept = 0, product = 0;
    RSH_TRY(make_room(m, n));
    for (int64_t c = 0; c < n; c++) {
        product = 1;
        for (int i = 0; i < m->ncut && product; i++) {
            int64_t along;
            RSH_TRY(meet_dim(m, cells + c * m->s->ndim, kept, i, &along));
            product *= along;
        }
        kept += product > 0;
        if (!m->ncut) break; /* there is only one part */
    }
    *count = kept == 1 && n == 1 ? product : kept > 0;
    if (n == 1 || !kept || !m->ncut) return RSH_OK;
    if (m->ncut == 1) return count_union(m, kept, count);
    return count_ticks(m, kept, count);
}

/* ---- flat sides ---- */

static rsh_status add_numbers(void *ctx, int64_t first, int64_t last) {
    rshi_overlap_counter *m = ctx;
    return rshi_ranges_add(&m->all, first, last + 1);
}

/* Visits every block of the cell, from dim d on. */
static rsh_status meet_blocks(rshi_overlap_counter *m, const rshi_stripe *cell, int d, rshi_stripe *box) {
    if (d == m->s->ndim) return rshi_layout_flat_meets(m->s->l, box, add_numbers, m);
    const rshi_stripe *s = &cell[d];
    for (int64_t j = 0; j < s->count; j++) {
        int64_t lo = s->lo + j * s->stride, hi = lo + (j == s->count - 1 ? s->last : s->len);
        box[d] = rshi_stripe_range(lo, hi);
        if (box[d].count) RSH_TRY(meet_blocks(m, cell, d + 1, box));
    }
    return RSH_OK;
}

static rsh_status count_flat(rshi_overlap_counter *m, const rshi_stripe *cells, int64_t n, int64_t *count) {
    rshi_stripe box[RSH_MAX_NDIM];
    m->all.n = 0;
    for (int64_t c = 0; c < n; c++) RSH_TRY(meet_blocks(m, cells + c * m->s->ndim, 0, box));
    *count = rshi_ranges_merge(&m->all);
    return RSH_OK;
}

/* ---- boxes ---- */

typedef struct ticking {
    rshi_overlap_counter *m;
    const rshi_stripe *cell;
    int64_t count;
} ticking;

static rsh_status tick_box(void *ctx, int64_t box) {
    ticking *w = ctx;
    rshi_overlap_counter *m = w->m;
    if (m->tick[box] == m->ticks) return RSH_OK;
    if (!rshi_cells_common(m->s->ndim, rshi_grouped_side_cell(m->s, m->s->first_cell[box]), w->cell)) return RSH_OK;
    m->tick[box] = m->ticks;
    w->count++;
    return RSH_OK;
}

static rsh_status count_boxes(rshi_overlap_counter *m, const rshi_stripe *cells, int64_t n, int64_t *count) {
    ticking w = {.m = m};
    if (!m->tick) m->tick = rshi_calloc((size_t)m->s->parts, sizeof *m->tick);
    if (!m->tick) return rshi_nomem();
    m->ticks++;
    for (int64_t c = 0; c < n; c++) {
        w.cell = cells + c * m->s->ndim;
        RSH_TRY(rshi_boxes_meeting(m->s->l, w.cell, tick_box, &w));
    }
    *count = w.count;
    return RSH_OK;
}

rsh_status rshi_count_overlaps(rshi_overlap_counter *m, const rshi_stripe *cells, int64_t n, int64_t *count) {
    if (rsh_layout_describe(m->s->l)->is_boxes) return count_boxes(m, cells, n, count);
    return m->s->product ? count_products(m, cells, n, count) : count_flat(m, cells, n, count);
}
