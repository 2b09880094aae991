/* Grouped side: one layout of a pair, with its ranks grouped by identical part. */
#include "plan/totals.h"

bool rshi_grouped_side_fits(const rsh_layout *l) {
    if (rsh_layout_describe(l)->is_boxes) return true;
    return rshi_layout_has_groups(l) && (!rshi_layout_product(l) || rshi_dim_blocks_fit(l));
}

/* ---- who holds what ---- */

static int64_t partial_of(const rshi_grouped_side *s, int64_t group) { return group % s->partials; }

static rsh_status list_group_of(const rsh_plan *p, bool only_first, rshi_grouped_side *s) {
    s->group_of = rshi_alloc((size_t)p->nranks + 1, sizeof *s->group_of);
    if (!s->group_of) return rshi_nomem();
    for (int64_t q = 0; q < p->nranks; q++) s->group_of[q] = -1;
    for (int64_t g = 0; g < s->groups; g++)
        for (int64_t i = s->first_holder[g]; i < s->first_holder[g + 1]; i++) {
            if (only_first && partial_of(s, g)) continue;
            s->single = s->single && s->group_of[s->holder[i]] < 0;
            s->group_of[s->holder[i]] = g;
        }
    return RSH_OK;
}

static rsh_status list_turns(const rsh_plan *p, rshi_grouped_side *s) {
    s->turn = rshi_alloc((size_t)p->nranks + 1, sizeof *s->turn);
    if (!s->turn) return rshi_nomem();
    for (int64_t q = 0; q < p->nranks; q++) s->turn[q] = rshi_turn_of_rank(s->l, p->rank[q]);
    return RSH_OK;
}

/* Every group has as many holders as there are positions along the axes that replicate.  `where` gets one position
 * of each part. */
static rsh_status list_mesh(const rsh_plan *p, rshi_grouped_side *s, int64_t *where) {
    int64_t n = rshi_layout_positions(s->l), k = n / s->groups;
    for (int64_t g = 0; g <= s->groups; g++) s->first_holder[g] = g * k;
    for (int64_t i = 0; i < n; i++) {
        rshi_holding h = rshi_layout_holding(s->l, i);
        int64_t group = h.part * s->partials + h.partial;
        s->holder[group * k + h.holder] = rshi_plan_ordinal(p, rshi_layout_rank_at(s->l, i));
        where[h.part] = i;
    }
    return RSH_OK;
}

static rsh_status list_boxes(const rsh_plan *p, rshi_grouped_side *s) {
    const rsh_layout_desc *desc = rsh_layout_describe(s->l);
    int64_t n = 0;
    for (int64_t b = 0; b < desc->nboxes; b++) {
        s->first_holder[b] = n;
        for (int64_t i = 0; i < desc->boxes[b].nranks; i++)
            s->holder[n++] = rshi_plan_ordinal(p, desc->boxes[b].ranks[i]);
    }
    s->first_holder[desc->nboxes] = n;
    return RSH_OK;
}

/* ---- what a part consists of ---- */

typedef struct filling {
    rshi_grouped_side *s;
    rshi_progress *w;
    int64_t n, room;
} filling;

static rsh_status add_cells(filling *f, const rshi_piece *list, int64_t n) {
    rshi_grouped_side *s = f->s;
    RSH_TRY(RSHI_GROW(s->cell, (f->n + n) * s->ndim + 1, &f->room)); /* never NULL, even without dims */
    for (int64_t i = 0; i < n; i++, f->n++)
        for (int d = 0; d < s->ndim; d++) s->cell[f->n * s->ndim + d] = list[i].set[d];
    return RSH_OK;
}

static rsh_status fill_mesh(filling *f, const int64_t *where) {
    rshi_grouped_side *s = f->s;
    for (int64_t i = 0; i < s->parts; i++) {
        rshi_piece *list = NULL;
        int64_t n = 0;
        s->first_cell[i] = f->n;
        RSH_TRY(rshi_progress_at(f->w, i, s->parts));
        RSH_TRY(rshi_layout_pieces(s->l, rshi_layout_rank_at(s->l, where[i]), &list, &n));
        rsh_status st = add_cells(f, list, n);
        for (int64_t k = 0; k < n; k++) s->size[i] += rshi_piece_count(s->l, &list[k]);
        rshi_free(list);
        RSH_TRY(st);
    }
    s->first_cell[s->parts] = f->n;
    return RSH_OK;
}

static rsh_status fill_boxes(filling *f) {
    rshi_grouped_side *s = f->s;
    const rsh_layout_desc *desc = rsh_layout_describe(s->l);
    for (int64_t b = 0; b < s->parts; b++) {
        rshi_piece at = {0};
        s->first_cell[b] = f->n;
        for (int d = 0; d < s->ndim; d++)
            at.set[d] = rshi_stripe_range(desc->boxes[b].box.lo[d], desc->boxes[b].box.hi[d]);
        s->size[b] = rshi_piece_count(s->l, &at);
        if (s->size[b]) RSH_TRY(add_cells(f, &at, 1));
    }
    s->first_cell[s->parts] = f->n;
    return RSH_OK;
}

static void count_holders(rshi_grouped_side *s) {
    s->least_holders = INT64_MAX;
    for (int64_t g = 0; g < s->groups; g++) {
        if (!s->size[g / s->partials]) continue;
        s->least_holders = rshi_min(s->least_holders, rshi_grouped_side_holders(s, g));
        s->most_holders = rshi_max(s->most_holders, rshi_grouped_side_holders(s, g));
    }
}

/* ---- making and freeing ---- */

static rsh_status side_room(rshi_grouped_side *s, int64_t holders) {
    s->first_holder = rshi_alloc((size_t)s->groups + 1, sizeof *s->first_holder);
    s->holder = rshi_alloc((size_t)holders + 1, sizeof *s->holder);
    s->first_cell = rshi_alloc((size_t)s->parts + 1, sizeof *s->first_cell);
    s->size = rshi_calloc((size_t)s->parts + 1, sizeof *s->size);
    return s->first_holder && s->holder && s->first_cell && s->size ? RSH_OK : rshi_nomem();
}

static int64_t count_parts(const rshi_grouped_side *s) {
    const rsh_layout_desc *desc = rsh_layout_describe(s->l);
    return desc->is_boxes ? desc->nboxes : rshi_layout_positions(s->l) / s->partials / rshi_layout_holders(s->l);
}

static int64_t count_box_ranks(const rsh_layout *l) {
    const rsh_layout_desc *desc = rsh_layout_describe(l);
    int64_t n = 0;
    for (int64_t b = 0; b < desc->nboxes; b++) n += desc->boxes[b].nranks;
    return n;
}

static rsh_status fill_side(const rsh_plan *p, rshi_progress *w, rshi_grouped_side *s) {
    filling f = {.s = s, .w = w};
    int64_t *where = rshi_alloc((size_t)s->parts + 1, sizeof *where);
    rsh_status st = where ? RSH_OK : rshi_nomem();
    if (!st) st = list_mesh(p, s, where);
    if (!st) st = fill_mesh(&f, where);
    rshi_free(where);
    for (int d = 0; d < s->ndim && s->product && !st; d++) st = rshi_dim_blocks_make(s->l, d, &s->blocks[d]);
    return st;
}

rsh_status rshi_grouped_side_make(const rsh_plan *p, const rsh_layout *l, bool only_first, rshi_progress *w,
                                  rshi_grouped_side *out) {
    bool boxes = rsh_layout_describe(l)->is_boxes;
    rshi_grouped_side *s = out;
    *s = (rshi_grouped_side){.l = l, .ndim = rsh_layout_ndim(l), .product = rshi_layout_product(l), .single = true};
    rshi_progress_pass(w, RSHI_PASS_SIDE);
    s->partials = rshi_layout_partials(l);
    s->parts = count_parts(s);
    s->groups = s->parts * s->partials;
    RSH_TRY(side_room(s, boxes ? count_box_ranks(l) : rshi_layout_positions(l)));
    if (boxes) {
        filling f = {.s = s};
        RSH_TRY(list_boxes(p, s));
        RSH_TRY(fill_boxes(&f));
    } else {
        RSH_TRY(fill_side(p, w, s));
    }
    count_holders(s);
    RSH_TRY(list_group_of(p, only_first, s));
    return list_turns(p, s);
}

void rshi_grouped_side_free(rshi_grouped_side *s) {
    rshi_free(s->first_holder);
    rshi_free(s->holder);
    rshi_free(s->group_of);
    rshi_free(s->turn);
    rshi_free(s->first_cell);
    rshi_free(s->cell);
    rshi_free(s->size);
    for (int d = 0; d < RSH_MAX_NDIM; d++) rshi_dim_blocks_free(&s->blocks[d]);
}

/* ---- cells ---- */

int64_t rshi_cells_common(int ndim, const rshi_stripe *a, const rshi_stripe *b) {
    int64_t n = 1;
    for (int d = 0; d < ndim && n; d++) {
        const rshi_stripe *x = &a[d], *y = &b[d];
        int64_t lo = rshi_max(x->lo, y->lo), hi = rshi_min(rshi_stripe_end(x), rshi_stripe_end(y));
        if (lo >= hi) return 0;
        n *= x->count == 1 && y->count == 1 ? hi - lo : rshi_stripe_common(x, y, lo, hi);
    }
    return n;
}
