/* Rects: merges equal cells into rectangles, and writes their labels and tooltips. */
#include "draw/impl.h"

#include <inttypes.h>
#include <stdio.h>

typedef bool (*equal_fn)(const rshi_scene *s, const rshi_side *side, int i, int j);

static bool same_holders(const rshi_scene *s, const rshi_side *side, int i, int j) {
    (void)s;
    return side->cell[i] == side->cell[j];
}

static bool same_origin(const rshi_scene *s, const rshi_side *side, int i, int j) {
    const rshi_origin *a = &s->origin[i], *b = &s->origin[j];
    const int *before = s->side[0].cell;
    if (side->cell[i] != side->cell[j] || a->kind != b->kind || a->stages != b->stages) return false;
    return a->kind == RSHI_ORIGIN_REDUCED ? before[i] == before[j] : rshi_ranks_equal(&a->from, &b->from);
}

typedef struct rect_walk {
    const rshi_scene *scene;
    const rshi_side *side;
    equal_fn equal;
    uint64_t done[RSHI_DRAW_INTERVALS]; /* columns that are already in a rectangle, by row */
} rect_walk;

/* Returns the columns of row r, from c0 on, whose cells equal the first cell of the rectangle and are not in another
 * rectangle. */
static uint64_t equal_run(const rect_walk *w, const rshi_rect *rect, int r) {
    const rshi_borders *columns = &w->scene->along[RSHI_COLUMNS];
    uint64_t bits = 0;
    for (int k = rect->c0; k < columns->n && !(w->done[r] >> k & 1); k++) {
        int cell = rshi_scene_cell(w->scene, rect->slice, r, k);
        bool gap = r == w->scene->along[RSHI_ROWS].gap || k == columns->gap;
        if (gap && (w->equal == same_origin || w->side->cell[cell] < 0)) break;
        if (!w->equal(w->scene, w->side, rect->cell, cell)) break;
        bits |= (uint64_t)1 << k;
    }
    return bits;
}

static rsh_status each_rect(rect_walk *w, int slice, rshi_rect_fn fn, void *ctx) {
    int rows = w->scene->along[RSHI_ROWS].n, columns = w->scene->along[RSHI_COLUMNS].n;
    for (int i = 0; i < rows * columns; i++) {
        rshi_rect rect = {slice,       i / columns, i / columns,
                          i % columns, i % columns, rshi_scene_cell(w->scene, slice, i / columns, i % columns)};
        uint64_t run = equal_run(w, &rect, rect.r0);
        if (!run) continue;
        while (rect.r1 < rows && (equal_run(w, &rect, rect.r1) & run) == run) w->done[rect.r1++] |= run;
        rect.c1 = rect.c0 + __builtin_popcountll(run);
        RSH_TRY(fn(ctx, &rect));
    }
    return RSH_OK;
}

rsh_status rshi_rects_held(const rshi_scene *s, const rshi_side *side, int slice, rshi_rect_fn fn, void *ctx) {
    rect_walk w = {s, side, same_holders, {0}};
    return each_rect(&w, slice, fn, ctx);
}

rsh_status rshi_rects_origin(const rshi_scene *s, int slice, rshi_rect_fn fn, void *ctx) {
    rect_walk w = {s, &s->side[1], same_origin, {0}};
    return each_rect(&w, slice, fn, ctx);
}

/* ---- labels and tooltips ---- */

void rshi_held_label(const rshi_side *side, int cell, char label[RSHI_SUM_LABEL]) {
    label[0] = '\0';
    if (side->cell[cell] < 0) return;
    const rshi_holders *h = &side->holders[side->cell[cell]];
    if (rsh_layout_op(side->layout))
        rshi_sum_label(side->layout, h, label);
    else
        rshi_ranks_label(&h->ranks, label);
}

void rshi_tip_held(const rshi_side *side, int cell, char tip[RSHI_TIP]) {
    char label[RSHI_SUM_LABEL];
    rsh_op op = rsh_layout_op(side->layout);
    rshi_held_label(side, cell, label);
    bool one = side->cell[cell] >= 0 && side->holders[side->cell[cell]].ranks.count == 1;
    if (side->cell[cell] < 0)
        snprintf(tip, RSHI_TIP, "nothing");
    else if (op)
        snprintf(tip, RSHI_TIP, "ranks %s, to be combined by %s", label, rsh_op_name(op));
    else
        snprintf(tip, RSHI_TIP, "%s %s", one ? "rank" : "ranks", label);
}

void rshi_tip_origin(const rshi_scene *s, int cell, char tip[RSHI_TIP]) {
    const rshi_origin *origin = &s->origin[cell];
    char from[RSHI_SUM_LABEL], to[RSHI_DRAW_LABEL] = "";
    if (s->side[1].cell[cell] >= 0) rshi_ranks_label(&s->side[1].holders[s->side[1].cell[cell]].ranks, to);
    if (origin->kind == RSHI_ORIGIN_REDUCED)
        rshi_held_label(&s->side[0], cell, from);
    else
        rshi_ranks_label(&origin->from, from);
    if (origin->kind == RSHI_ORIGIN_STAYS)
        snprintf(tip, RSHI_TIP, "rank %s: stays", to);
    else if (origin->kind == RSHI_ORIGIN_REDUCED)
        snprintf(tip, RSHI_TIP, "%s of ranks %s to %s", rsh_op_name(rsh_layout_op(s->side[0].layout)), from, to);
    else
        snprintf(tip, RSHI_TIP, "%s to %s", from, to);
}
