/* Scene: which rank holds which cell of the picture, before and after. */
#include "draw/impl.h"

#include <inttypes.h>
#include <stdio.h>

const rshi_borders *rshi_scene_rows(const rshi_scene *s) { return &s->borders[s->down < 0 ? RSH_MAX_NDIM : s->down]; }
const rshi_borders *rshi_scene_columns(const rshi_scene *s) {
    return &s->borders[s->across < 0 ? RSH_MAX_NDIM : s->across];
}

/* ---- the cells of one rank ---- */

typedef struct dim_mask {
    const rshi_borders *borders;
    uint64_t bits;
} dim_mask;

static int mark_range(void *ctx, int64_t lo, int64_t hi) {
    dim_mask *m = ctx;
    const rshi_borders *e = m->borders;
    for (int i = 0; i < e->n && e->at[i] < hi; i++)
        if (e->at[i] >= lo) m->bits |= (uint64_t)1 << i;
    return hi >= e->at[e->n];
}

typedef struct box_cells {
    const rshi_scene *scene;
    int ndim;
    rshi_cells_fn fn;
    void *ctx;
} box_cells;

/* Hidden dims have one interval, at index 0: what does not reach it is not in the picture. */
static void give(const box_cells *b, const uint64_t *bits) {
    for (int d = 0; d < b->ndim; d++)
        if (!bits[d]) return;
    b->fn(b->ctx, b->scene->down < 0 ? 1 : bits[b->scene->down], b->scene->across < 0 ? 1 : bits[b->scene->across]);
}

static int mark_box(void *ctx, const rsh_box *box, int64_t offset, const int64_t *strides) {
    const box_cells *b = ctx;
    uint64_t bits[RSH_MAX_NDIM];
    (void)offset;
    (void)strides;
    for (int d = 0; d < b->ndim; d++) {
        dim_mask m = {&b->scene->borders[d], 0};
        mark_range(&m, box->lo[d], box->hi[d]);
        bits[d] = m.bits;
    }
    give(b, bits);
    return 0;
}

static rsh_status mark_part(box_cells *b, const rsh_layout *l, int64_t rank, int64_t part) {
    uint64_t bits[RSH_MAX_NDIM];
    for (int d = 0; d < b->ndim; d++) {
        dim_mask m = {&b->scene->borders[d], 0};
        rsh_status st = rsh_layout_index_set(l, rank, part, d, mark_range, &m);
        if (st == RSH_EUNSUP) return rsh_layout_boxes(l, rank, part, mark_box, b);
        if (st) return st;
        bits[d] = m.bits;
    }
    give(b, bits);
    return RSH_OK;
}

rsh_status rshi_scene_cells(const rshi_scene *s, const rsh_layout *l, int64_t rank, rshi_cells_fn fn, void *ctx) {
    box_cells b = {s, rsh_layout_ndim(l), fn, ctx};
    int64_t nparts = rsh_layout_nparts(l, rank);
    for (int64_t part = 0; part < nparts; part++) RSH_TRY(mark_part(&b, l, rank, part));
    return RSH_OK;
}

/* ---- all ranks of a side ---- */

typedef struct adding {
    rshi_side *side;
    int columns;
    int64_t rank;
    int64_t leader; /* of its group, in a partial layout */
    bool seen;
} adding;

static void add_cells(void *ctx, uint64_t rows, uint64_t columns) {
    adding *a = ctx;
    for (uint64_t r = rows; r; r &= r - 1)
        for (uint64_t c = columns; c; c &= c - 1) {
            int i = __builtin_ctzll(r) * a->columns + __builtin_ctzll(c);
            rshi_ranks_add(&a->side->cell[i], a->rank);
            if (a->side->sum) rshi_sum_add(&a->side->sum[i], a->rank, a->leader);
        }
    a->seen = true;
}

static rsh_status fill_side(rshi_scene *s, rshi_side *side) {
    int rows = rshi_scene_rows(s)->n, columns = rshi_scene_columns(s)->n;
    side->cell = rshi_calloc((size_t)rows * (size_t)columns, sizeof *side->cell);
    bool partial = rsh_layout_op(side->layout) != RSH_OP_NONE;
    if (partial) side->sum = rshi_calloc((size_t)rows * (size_t)columns, sizeof *side->sum);
    if (!side->cell || (partial && !side->sum)) return rshi_nomem();
    int64_t nranks = rsh_layout_nranks(side->layout);
    for (int64_t i = 0; i < nranks; i++) {
        adding a = {.side = side, .columns = columns, .rank = rsh_layout_rank(side->layout, i)};
        if (partial) a.leader = rshi_sum_leader(side->layout, a.rank);
        RSH_TRY(rshi_scene_cells(s, side->layout, a.rank, add_cells, &a));
        side->nshown += a.seen;
    }
    return RSH_OK;
}

rsh_status rshi_scene_make(rshi_scene *s, const rsh_plan *plan, const rsh_layout *from, const rsh_layout *to,
                           int limit) {
    *s = (rshi_scene){
        .plan = plan, .nsides = to ? 2 : 1, .side = {{.layout = from}, {.layout = to}}, .down = -1, .across = -1};
    RSH_TRY(rshi_scene_borders(s, limit));
    for (int i = 0; i < s->nsides; i++) RSH_TRY(fill_side(s, &s->side[i]));
    if (!plan) return RSH_OK;
    RSH_TRY(rsh_plan_get_totals(plan, &s->totals));
    return rshi_scene_origins(s);
}

void rshi_scene_free(rshi_scene *s) {
    for (int i = 0; i < s->nsides; i++) {
        rshi_free(s->side[i].cell);
        rshi_free(s->side[i].sum);
    }
    rshi_free(s->origin);
}

/* ---- what is left out ---- */

static bool note_empty(const rshi_scene *s, char *text, size_t room) {
    if (rsh_layout_count(s->side[0].layout)) return false;
    snprintf(text, room, "the tensor has no elements");
    return true;
}

static bool note_dims(const rshi_scene *s, char *text, size_t room) {
    int ndim = rsh_layout_ndim(s->side[0].layout), drawn = (s->down >= 0) + (s->across >= 0);
    const int64_t *shape = rsh_layout_shape(s->side[0].layout);
    if (s->across < 0 || !rsh_layout_count(s->side[0].layout)) return false;
    int n = s->down < 0 ? snprintf(text, room, "dim %d (%" PRId64 ") across", s->across, shape[s->across])
                        : snprintf(text, room, "dim %d (%" PRId64 ") down, dim %d (%" PRId64 ") across", s->down,
                                   shape[s->down], s->across, shape[s->across]);
    if (drawn < ndim && n > 0 && (size_t)n < room)
        snprintf(text + n, room - (size_t)n, ", at index 0 of the other dims");
    return true;
}

static bool note_corner(const rshi_scene *s, char *text, size_t room) {
    const rshi_borders *rows = rshi_scene_rows(s), *columns = rshi_scene_columns(s);
    const int64_t *shape = rsh_layout_shape(s->side[0].layout);
    bool cut_rows = s->down >= 0 && rows->at[rows->n] < shape[s->down];
    bool cut_columns = s->across >= 0 && columns->at[columns->n] < shape[s->across];
    if (!cut_rows && !cut_columns) return false;
    if (s->down < 0)
        snprintf(text, room, "showing the first %" PRId64 " elements", columns->at[columns->n]);
    else
        snprintf(text, room, "showing the corner %" PRId64 " x %" PRId64, rows->at[rows->n], columns->at[columns->n]);
    return true;
}

static bool note_ranks(const rshi_scene *s, char *text, size_t room) {
    const rshi_side *a = &s->side[0], *b = &s->side[s->nsides - 1];
    int64_t na = rsh_layout_nranks(a->layout), nb = rsh_layout_nranks(b->layout);
    if ((a->nshown == na && b->nshown == nb) || !rsh_layout_count(a->layout)) return false;
    if (s->nsides == 1 || (a->nshown == b->nshown && na == nb))
        snprintf(text, room, "showing %" PRId64 " of %" PRId64 " ranks", a->nshown, na);
    else
        snprintf(text, room, "showing %" PRId64 " of %" PRId64 " ranks before, %" PRId64 " of %" PRId64 " after",
                 a->nshown, na, b->nshown, nb);
    return true;
}

bool rshi_scene_note(const rshi_scene *s, int i, char *text, size_t room) {
    static bool (*const notes[])(const rshi_scene *, char *, size_t) = {note_empty, note_dims, note_corner, note_ranks};
    for (size_t k = 0; k < sizeof notes / sizeof *notes; k++)
        if (notes[k](s, text, room) && i-- == 0) return true;
    return false;
}
