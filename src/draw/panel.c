/* Panel: draws one side of the scene, in the units of the format. */
#include "draw/impl.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Computes the positions of the borders.  Intervals are proportional to their lengths, but at least `least` wide; equal
 * intervals are equally wide.  The last position is `total`, except for rounding. */
static void place_borders(const rshi_borders *e, int total, int least, int gap, int *place) {
    int64_t span = 0;
    int room = total - (e->gap < 0 ? 0 : gap) - least * (e->n - (e->gap >= 0));
    for (int i = 0; i < e->n; i++) span += i == e->gap ? 0 : e->at[i + 1] - e->at[i];
    place[0] = 0;
    for (int i = 0; i < e->n; i++) {
        double share = span ? (double)(e->at[i + 1] - e->at[i]) / (double)span : 1.0 / e->n;
        place[i + 1] = place[i] + (i == e->gap ? gap : least + (int)(share * (room > 0 ? room : 0) + 1e-9));
    }
}

static void place_columns(const rshi_canvas *c, int *place) {
    place_borders(&c->scene->along[RSHI_COLUMNS], c->format->width, c->format->min_width, c->format->gap_width, place);
}

/* Chooses the height in proportion to the shape of the tensor, within limits. */
static void place_rows(const rshi_canvas *c, int *place) {
    const rshi_format *f = c->format;
    const rshi_borders *rows = &c->scene->along[RSHI_ROWS], *columns = &c->scene->along[RSHI_COLUMNS];
    int height = f->height;
    if (f->letter > 1) {
        double ratio = (double)rshi_borders_span(rows) / (double)rshi_max(1, rshi_borders_span(columns));
        if (rows->gap >= 0 || columns->gap >= 0) ratio = 0.75;
        height = (int)(f->width * (ratio < 0.4 ? 0.4 : ratio > 1 ? 1 : ratio));
    }
    if (rows->dim < 0)
        place_borders(rows, f->strip, 1, 0, place);
    else
        place_borders(rows, (int)rshi_max(height, rows->n * f->min_height), f->min_height, f->gap_height, place);
}

rshi_panel rshi_panel_at(const rshi_canvas *c, int i, int x, int y) {
    const rshi_scene *s = c->scene;
    rshi_panel p = {&s->side[i], s->nsides == 1 ? "layout" : i ? "to" : "from", i == 1, x, y, {0}, {0}};
    place_rows(c, p.row);
    place_columns(c, p.column);
    return p;
}

int rshi_panel_width(const rshi_canvas *c) {
    int place[RSHI_DRAW_INTERVALS + 1];
    place_columns(c, place);
    return place[c->scene->along[RSHI_COLUMNS].n];
}

int rshi_panel_height(const rshi_canvas *c) {
    int place[RSHI_DRAW_INTERVALS + 1];
    place_rows(c, place);
    return place[c->scene->along[RSHI_ROWS].n];
}

/* ---- boxes and their labels ---- */

typedef struct size {
    int w, h;
} size;

/* Which boxes get labels.  Either all boxes of a size have a label or none has.  If labels would cover much of small
 * boxes, each set of holders is labelled once. */
typedef struct boxing {
    rshi_canvas *canvas;
    const rshi_panel *panel;
    int ncrowded;
    size crowded[RSHI_DRAW_INTERVALS]; /* sizes of boxes that are too small for some label */
    bool dense;                        /* each set of holders is labelled only once */
    uint8_t *labelled;                 /* owned; if dense: whether this set of holders has a label already */
} boxing;

static rshi_figure figure_of(const boxing *b, const rshi_rect *r) {
    const rshi_panel *p = b->panel;
    return (rshi_figure){.side = p->name,
                         .x = p->x + p->column[r->c0],
                         .y = p->y + p->row[r->r0],
                         .w = p->column[r->c1] - p->column[r->c0],
                         .h = p->row[r->r1] - p->row[r->r0],
                         .rank = -1,
                         .source = -1};
}

static bool fits(const rshi_format *f, const rshi_figure *m, const char *label) {
    return (int)strlen(label) <= (m->w - 1) / f->letter && m->h >= f->line;
}

/* Would a label hide more than a third of a box whose colour shows its origin?  In text pictures a label hides
 * nothing. */
static bool covers_much(const rshi_format *f, const rshi_figure *m, const char *label) {
    return f->letter > 1 && 3 * (int)(strlen(label) + 1) * f->letter * f->line > m->w * m->h;
}

static bool is_crowded(const boxing *b, const rshi_figure *m) {
    for (int i = 0; i < b->ncrowded; i++)
        if (b->crowded[i].w == m->w && b->crowded[i].h == m->h) return true;
    return false;
}

static rsh_status find_crowded(void *ctx, const rshi_rect *r) {
    boxing *b = ctx;
    rshi_figure m = figure_of(b, r);
    char label[RSHI_SUM_LABEL];
    rshi_held_label(b->panel->side, r->cell, label);
    if (fits(b->canvas->format, &m, label)) {
        if (b->panel->origins && *label && covers_much(b->canvas->format, &m, label)) b->dense = true;
    } else if (!is_crowded(b, &m) && b->ncrowded < RSHI_DRAW_INTERVALS)
        b->crowded[b->ncrowded++] = (size){m.w, m.h};
    return RSH_OK;
}

static rsh_status label_box(boxing *b, rshi_figure m, int holders, const char *label) {
    const rshi_format *f = b->canvas->format;
    rsh_op op = rsh_layout_op(b->panel->side->layout);
    char text[RSHI_SUM_LABEL + 8];
    snprintf(text, sizeof text, "%s%s%s", op ? rsh_op_name(op) : "", op ? " " : "", label);
    if (!fits(f, &m, text)) snprintf(text, sizeof text, "%s", label);
    if (!*label || !fits(f, &m, text) || is_crowded(b, &m)) return RSH_OK;
    if (b->labelled && holders >= 0) {
        if (b->labelled[holders]) return RSH_OK;
        b->labelled[holders] = 1;
    }
    m.kind = "label";
    m.x += (m.w + 1) / 2;
    m.y += m.h / 2;
    m.anchor = 'm';
    m.label = text;
    m.tip = NULL;
    return f->text(b->canvas, &m);
}

static rsh_status draw_held(void *ctx, const rshi_rect *r) {
    boxing *b = ctx;
    const rshi_side *side = b->panel->side;
    char label[RSHI_SUM_LABEL], tip[RSHI_TIP];
    rshi_figure m = figure_of(b, r);
    rshi_held_label(side, r->cell, label);
    rshi_tip_held(side, r->cell, tip);
    m.kind = b->panel->origins ? "outline" : "held";
    m.tip = tip;
    if (side->cell[r->cell] >= 0) {
        m.rank = side->holders[side->cell[r->cell]].ranks.first[0];
        m.source = b->panel->origins ? -1 : m.rank;
        m.combined = rsh_layout_op(side->layout) && !b->panel->origins;
    }
    RSH_TRY(b->canvas->format->box(b->canvas, &m));
    return label_box(b, m, side->cell[r->cell], label);
}

static rsh_status draw_origin(void *ctx, const rshi_rect *r) {
    static const char *const kinds[] = {"none", "stays", "moves", "reduced"};
    boxing *b = ctx;
    const rshi_scene *s = b->canvas->scene;
    const rshi_origin *origin = &s->origin[r->cell];
    char tip[RSHI_TIP];
    rshi_figure m = figure_of(b, r);
    rshi_tip_origin(s, r->cell, tip);
    m.kind = kinds[origin->kind];
    m.tip = tip;
    if (s->side[1].cell[r->cell] >= 0) m.rank = s->side[1].holders[s->side[1].cell[r->cell]].ranks.first[0];
    if (origin->from.count) m.source = origin->from.first[0];
    m.combined = origin->kind == RSHI_ORIGIN_REDUCED;
    return b->canvas->format->box(b->canvas, &m);
}

/* ---- gaps ---- */

/* Draws a gap; its kind is "gap" if parts are omitted, "skipped" if only origins are. */
static rsh_status draw_gap(rshi_canvas *c, const rshi_borders *e, rshi_figure m, bool named) {
    char label[RSHI_DRAW_LABEL] = "...", tip[RSHI_DRAW_LABEL * 2];
    if (m.w <= 0 || m.h <= 0) return RSH_OK;
    if (e->times) snprintf(label, sizeof label, "x %" PRId64, e->times);
    snprintf(tip, sizeof tip, "indices %" PRId64 " to %" PRId64, e->at[e->gap], e->at[e->gap + 1] - 1);
    m.tip = tip;
    RSH_TRY(c->format->box(c, &m));
    return named ? rshi_canvas_say(c, "times", m.x + (m.w + 1) / 2, m.y + m.h / 2, 'm', label) : RSH_OK;
}

/* Does the side have parts that begin or end in the gap of this direction? */
static bool leaves_out(const rshi_scene *s, const rshi_side *side, int direction) {
    const rshi_borders *e = &s->along[direction], *other = &s->along[1 - direction];
    for (int i = 0; i < other->n && e->gap >= 0; i++) {
        int cell = direction == RSHI_ROWS ? rshi_scene_cell(s, 0, e->gap, i) : rshi_scene_cell(s, 0, i, e->gap);
        if (i != other->gap && side->cell[cell] < 0) return true;
    }
    return false;
}

/* Returns the kind of figure to draw in the gap of a direction; NULL: none. */
static const char *gap_kind(const rshi_canvas *c, const rshi_panel *p, int direction) {
    if (c->scene->along[direction].gap < 0) return NULL;
    return leaves_out(c->scene, p->side, direction) ? "gap" : p->origins ? "skipped" : NULL;
}

/* The gap of the rows spans all columns; that of the columns is drawn above and below it. */
static rsh_status draw_gaps(rshi_canvas *c, const rshi_panel *p) {
    const rshi_borders *rows = &c->scene->along[RSHI_ROWS], *columns = &c->scene->along[RSHI_COLUMNS];
    const char *in_rows = gap_kind(c, p, RSHI_ROWS), *in_columns = gap_kind(c, p, RSHI_COLUMNS);
    int width = p->column[columns->n], height = p->row[rows->n], above = in_rows ? p->row[rows->gap] : height;
    int below = in_rows ? p->row[rows->gap + 1] : height;
    rshi_figure m = {.kind = in_rows,
                     .side = "",
                     .x = p->x,
                     .y = p->y + above,
                     .w = width,
                     .h = below - above,
                     .rank = -1,
                     .source = -1};
    if (in_rows) RSH_TRY(draw_gap(c, rows, m, !strcmp(in_rows, "gap")));
    if (!in_columns) return RSH_OK;
    if (in_rows && strcmp(in_rows, "gap"))
        above = below = height; /* parts continue through the gap, and so does the columns' gap */
    m.kind = in_columns;
    m.x = p->x + p->column[columns->gap];
    m.w = p->column[columns->gap + 1] - p->column[columns->gap];
    m.y = p->y;
    m.h = above;
    RSH_TRY(draw_gap(c, columns, m, !strcmp(in_columns, "gap")));
    m.y = p->y + below;
    m.h = height - below;
    return draw_gap(c, columns, m, false);
}

rsh_status rshi_panel_draw(rshi_canvas *c, const rshi_panel *p) {
    boxing b = {.canvas = c, .panel = p};
    RSH_TRY(rshi_panel_ticks(c, p));
    RSH_TRY(draw_gaps(c, p));
    if (p->origins) RSH_TRY(rshi_rects_origin(c->scene, 0, draw_origin, &b));
    RSH_TRY(rshi_rects_held(c->scene, p->side, 0, find_crowded, &b));
    if (b.dense) b.labelled = rshi_calloc((size_t)p->side->nholders, 1);
    if (b.dense && !b.labelled) return rshi_nomem();
    rsh_status st = rshi_rects_held(c->scene, p->side, 0, draw_held, &b);
    rshi_free(b.labelled);
    return st;
}
