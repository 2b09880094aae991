/* Encounter: how many parts of a side have elements in common with given cells.
 *
 * Along a dim of a product side the coordinates that a stripe meets are a few ranges.  One cell meets the product of
 * them; several cells that are cut along one dim only meet their union, and otherwise parts that meet several cells are
 * taken off again, for every set of cells.  The parts of a flat side that meet a box are ranges too. */
#include "plan/sums.h"

#define MOST_SETS 6 /* cells for which all sets of them are looked at; beyond that parts are ticked off one by one */

struct rshi_encounter {
    const rshi_grouped_side *s;
    int cut[RSH_MAX_NDIM]; /* dims that are divided among several coordinates */
    int ncut;
    rshi_ranges *met;      /* owned: [cell][cut dim] */
    int64_t room;          /* cells */
    rshi_ranges both[RSH_MAX_NDIM + 1], flat; /* owned */
    int64_t *tick, ticks;  /* owned: parts by coordinates; when each was last met */
};

rsh_status rshi_encounter_new(const rshi_grouped_side *s, rshi_encounter **out) {
    rshi_encounter *m = RSHI_NEW(rshi_encounter);
    if (!m) return rshi_nomem();
    m->s = s;
    for (int d = 0; d < s->ndim && s->product; d++)
        if (s->ruler[d].parts > 1) m->cut[m->ncut++] = d;
    *out = m;
    return RSH_OK;
}

void rshi_encounter_free(rshi_encounter *m) {
    if (!m) return;
    for (int64_t i = 0; i < m->room * RSH_MAX_NDIM; i++) rshi_free(m->met[i].range);
    for (int d = 0; d <= RSH_MAX_NDIM; d++) rshi_free(m->both[d].range);
    rshi_free(m->flat.range);
    rshi_free(m->met);
    rshi_free(m->tick);
    rshi_free(m);
}

/* Room for the ranges of n cells; new ones are empty. */
static rsh_status make_room(rshi_encounter *m, int64_t n) {
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

static rshi_ranges *met_by(rshi_encounter *m, int64_t cell, int i) { return &m->met[cell * RSH_MAX_NDIM + i]; }

/* ---- along one dim ---- */

static int64_t block_of(const rshi_ruler *r, int64_t x) {
    int64_t lo = 0, hi = r->n - 1;
    while (lo < hi) {
        int64_t mid = lo + (hi - lo + 1) / 2;
        if (r->line[mid] <= x)
            lo = mid;
        else
            hi = mid - 1;
    }
    return lo;
}

/* Coordinates that own something in [lo, hi). */
static rsh_status meet_range(const rshi_ruler *r, int64_t lo, int64_t hi, rshi_ranges *out) {
    int64_t last = block_of(r, hi - 1);
    for (int64_t i = block_of(r, lo), j; i <= last; i = j + 1) {
        j = rshi_min(r->run[i], last);
        RSH_TRY(rshi_ranges_add(out, r->owner[i], r->owner[j] + 1));
        if (j - i + 1 == r->full) return RSH_OK; /* all of them */
    }
    return RSH_OK;
}

static rsh_status meet_stripe(const rshi_ruler *r, const rshi_stripe *s, int64_t lo, int64_t hi, rshi_ranges *out) {
    for (int64_t j = 0; j < s->count; j++) {
        int64_t start = s->lo + j * s->stride, from = rshi_max(lo, start),
                to = rshi_min(hi, start + (j == s->count - 1 ? s->last : s->len));
        if (start >= hi) break;
        if (from < to) RSH_TRY(meet_range(r, from, to, out));
        if (out->n > 4 * r->full && rshi_ranges_settle(out) == r->full) break;
    }
    return RSH_OK;
}

/* How many coordinates the cell meets along cut dim i, which are then in `met`. */
static rsh_status meet_dim(rshi_encounter *m, const rshi_clip *c, int64_t cell, int i, int64_t *n) {
    int d = m->cut[i];
    rshi_ranges *out = met_by(m, cell, i);
    int64_t lo = 0, hi = rsh_layout_shape(m->s->l)[d];
    if (d == c->dim) lo = rshi_max(lo, c->lo), hi = rshi_min(hi, c->hi);
    out->n = 0;
    if (lo < hi) RSH_TRY(meet_stripe(&m->s->ruler[d], &c->set[d], lo, hi, out));
    *n = rshi_ranges_settle(out);
    return RSH_OK;
}

static bool is_empty(const rshi_clip *c) {
    if (c->dim < 0) return false;
    const rshi_stripe *s = &c->set[c->dim];
    return c->lo >= c->hi || rshi_stripe_before(s, c->hi) == rshi_stripe_before(s, c->lo);
}

/* ---- several cells ---- */

static rsh_status intersect(const rshi_ranges *a, const rshi_ranges *b, rshi_ranges *out) {
    out->n = 0;
    for (int64_t i = 0, j = 0; i < a->n && j < b->n;) {
        int64_t lo = rshi_max(a->range[i].lo, b->range[j].lo), hi = rshi_min(a->range[i].hi, b->range[j].hi);
        if (lo < hi) RSH_TRY(rshi_ranges_add(out, lo, hi));
        if (a->range[i].hi < b->range[j].hi)
            i++;
        else
            j++;
    }
    return RSH_OK;
}

static rsh_status copy_ranges(const rshi_ranges *from, rshi_ranges *to) {
    to->n = 0;
    for (int64_t i = 0; i < from->n; i++) RSH_TRY(rshi_ranges_add(to, from->range[i].lo, from->range[i].hi));
    return RSH_OK;
}

/* Parts that meet all cells of the set. */
static rsh_status count_common(rshi_encounter *m, unsigned set, int64_t *count) {
    *count = 1;
    for (int i = 0; i < m->ncut && *count; i++) {
        rshi_ranges *now = &m->both[0], *next = &m->both[1];
        bool first = true;
        for (int c = 0; set >> c; c++) {
            if (!(set >> c & 1)) continue;
            RSH_TRY(first ? copy_ranges(met_by(m, c, i), now) : intersect(now, met_by(m, c, i), next));
            if (!first) {
                rshi_ranges t = *now;
                *now = *next;
                *next = t;
            }
            first = false;
        }
        *count *= rshi_ranges_settle(now);
    }
    return RSH_OK;
}

static rsh_status count_by_sets(rshi_encounter *m, int64_t n, int64_t *count) {
    *count = 0;
    for (unsigned set = 1; set < 1u << n; set++) {
        int64_t common;
        RSH_TRY(count_common(m, set, &common));
        *count += __builtin_popcount(set) % 2 ? common : -common;
    }
    return RSH_OK;
}

static rsh_status count_union(rshi_encounter *m, int64_t n, int64_t *count) {
    rshi_ranges *all = &m->both[0];
    all->n = 0;
    for (int64_t c = 0; c < n; c++)
        for (int64_t i = 0; i < met_by(m, c, 0)->n; i++)
            RSH_TRY(rshi_ranges_add(all, met_by(m, c, 0)->range[i].lo, met_by(m, c, 0)->range[i].hi));
    *count = rshi_ranges_settle(all);
    return RSH_OK;
}

static void tick_off(rshi_encounter *m, int64_t cell, int i, int64_t number, int64_t *count) {
    if (i == m->ncut) {
        *count += m->tick[number] != m->ticks;
        m->tick[number] = m->ticks;
        return;
    }
    const rshi_ranges *met = met_by(m, cell, i);
    for (int64_t k = 0; k < met->n; k++)
        for (int64_t x = met->range[k].lo; x < met->range[k].hi; x++)
            tick_off(m, cell, i + 1, number * m->s->ruler[m->cut[i]].parts + x, count);
}

static rsh_status count_ticks(rshi_encounter *m, int64_t n, int64_t *count) {
    if (!m->tick) m->tick = rshi_calloc((size_t)m->s->parts, sizeof *m->tick);
    if (!m->tick) return rshi_nomem();
    m->ticks++;
    *count = 0;
    for (int64_t c = 0; c < n; c++) tick_off(m, c, 0, 0, count);
    return RSH_OK;
}

/* Cells that meet nothing along some dim are left out. */
static rsh_status count_products(rshi_encounter *m, const rshi_clip *cells, int64_t n, int64_t *count) {
    int64_t kept = 0, product = 0;
    RSH_TRY(make_room(m, n));
    for (int64_t c = 0; c < n; c++) {
        if (is_empty(&cells[c])) continue;
        product = 1;
        for (int i = 0; i < m->ncut && product; i++) {
            int64_t along;
            RSH_TRY(meet_dim(m, &cells[c], kept, i, &along));
            product *= along;
        }
        kept += product > 0;
        if (!m->ncut) break; /* the only part */
    }
    *count = kept == 1 && n == 1 ? product : kept > 0;
    if (n == 1 || !kept || !m->ncut) return RSH_OK;
    if (m->ncut == 1) return count_union(m, kept, count);
    return kept <= MOST_SETS ? count_by_sets(m, kept, count) : count_ticks(m, kept, count);
}

/* ---- flat sides ---- */

static rsh_status add_numbers(void *ctx, int64_t first, int64_t last) {
    rshi_encounter *m = ctx;
    return rshi_ranges_add(&m->flat, first, last + 1);
}

/* Every block of the cell, from dim d on. */
static rsh_status meet_blocks(rshi_encounter *m, const rshi_clip *c, int d, rshi_stripe *box) {
    if (d == m->s->ndim) return rshi_layout_flat_meets(m->s->l, box, add_numbers, m);
    const rshi_stripe *s = &c->set[d];
    for (int64_t j = 0; j < s->count; j++) {
        int64_t lo = s->lo + j * s->stride, hi = lo + (j == s->count - 1 ? s->last : s->len);
        if (d == c->dim) lo = rshi_max(lo, c->lo), hi = rshi_min(hi, c->hi);
        box[d] = rshi_stripe_range(lo, hi);
        if (box[d].count) RSH_TRY(meet_blocks(m, c, d + 1, box));
    }
    return RSH_OK;
}

static rsh_status count_flat(rshi_encounter *m, const rshi_clip *cells, int64_t n, int64_t *count) {
    rshi_stripe box[RSH_MAX_NDIM];
    m->flat.n = 0;
    for (int64_t c = 0; c < n; c++) RSH_TRY(meet_blocks(m, &cells[c], 0, box));
    *count = rshi_ranges_settle(&m->flat);
    return RSH_OK;
}

/* ---- boxes ---- */

typedef struct ticking {
    rshi_encounter *m;
    const rshi_clip *cell;
    int64_t count;
} ticking;

static rsh_status tick_box(void *ctx, int64_t box) {
    ticking *w = ctx;
    rshi_encounter *m = w->m;
    if (m->tick[box] == m->ticks) return RSH_OK;
    if (!rshi_clip_common(m->s->ndim, rshi_grouped_side_cell(m->s, m->s->first_cell[box]), w->cell)) return RSH_OK;
    m->tick[box] = m->ticks;
    w->count++;
    return RSH_OK;
}

static rsh_status count_boxes(rshi_encounter *m, const rshi_clip *cells, int64_t n, int64_t *count) {
    ticking w = {.m = m};
    if (!m->tick) m->tick = rshi_calloc((size_t)m->s->parts, sizeof *m->tick);
    if (!m->tick) return rshi_nomem();
    m->ticks++;
    for (int64_t c = 0; c < n; c++) {
        rshi_stripe query[RSH_MAX_NDIM];
        w.cell = &cells[c];
        rshi_clip_hull(m->s->ndim, w.cell, query);
        RSH_TRY(rshi_boxes_meeting(m->s->l, query, tick_box, &w));
    }
    *count = w.count;
    return RSH_OK;
}

rsh_status rshi_encounter_count(rshi_encounter *m, const rshi_clip *cells, int64_t n, int64_t *count) {
    if (rsh_layout_describe(m->s->l)->is_boxes) return count_boxes(m, cells, n, count);
    return m->s->product ? count_products(m, cells, n, count) : count_flat(m, cells, n, count);
}
