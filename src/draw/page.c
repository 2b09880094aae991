/* Page: where panels, arrow, legend and notes stand, in the units of the format. */
#include "draw/impl.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define LEGEND 16 /* ranks with a swatch of their own */

typedef struct panel {
    const rshi_scene *scene;
    const rshi_side *side;
    const char *name;
    bool origins; /* coloured by where cells come from, not by who holds them */
    int x, y;
    int row[RSHI_DRAW_INTERVALS + 1], column[RSHI_DRAW_INTERVALS + 1]; /* places of the borders, from x and y */
} panel;

/* In proportion, but at least `least` for each interval. */
static void spread(const rshi_borders *e, int total, int least, int *place) {
    int64_t span = e->at[e->n] - e->at[0];
    for (int i = 0; i <= e->n; i++) {
        double share = span ? (double)(e->at[i] - e->at[0]) / (double)span : (double)i / e->n;
        place[i] = i * least + (int)((total - e->n * least) * share + 0.5);
    }
}

static int panel_height(const rshi_scene *s, const rshi_format *f) {
    const rshi_borders *rows = rshi_scene_rows(s), *columns = rshi_scene_columns(s);
    if (s->down < 0) return f->strip;
    if (f->letter == 1) return (int)rshi_max(f->height, rows->n * f->min_height);
    double ratio = (double)rows->at[rows->n] / (double)rshi_max(1, columns->at[columns->n]);
    int height = (int)(f->width * (ratio < 0.4 ? 0.4 : ratio > 1 ? 1 : ratio));
    return (int)rshi_max(height, rows->n * f->min_height);
}

static panel panel_at(const rshi_canvas *c, int i, int x, int y) {
    const rshi_scene *s = c->scene;
    panel p = {s, &s->side[i], s->nsides == 1 ? "layout" : i ? "to" : "from", i == 1, x, y, {0}, {0}};
    spread(rshi_scene_rows(s), panel_height(s, c->format), c->format->min_height, p.row);
    spread(rshi_scene_columns(s), c->format->width, c->format->min_width, p.column);
    return p;
}

/* ---- rectangles of equal cells ---- */

typedef bool (*equal_fn)(const panel *p, int i, int j);
typedef rsh_status (*rect_fn)(rshi_canvas *c, const panel *p, int cell, rshi_figure *m);

static bool same_holders(const panel *p, int i, int j) {
    return rshi_ranks_equal(&p->side->cell[i], &p->side->cell[j]);
}

static bool same_origin(const panel *p, int i, int j) {
    const rshi_origin *a = &p->scene->origin[i], *b = &p->scene->origin[j];
    const rshi_ranks *before = p->scene->side[0].cell;
    if (!same_holders(p, i, j) || a->kind != b->kind) return false;
    return a->kind == RSHI_ORIGIN_REDUCED ? rshi_ranks_equal(&before[i], &before[j])
                                        : rshi_ranks_equal(&a->from, &b->from);
}

/* Columns of a row that are equal to cell (r, c) and not yet drawn, from c on. */
static uint64_t equal_run(const panel *p, equal_fn equal, const uint64_t *done, int columns, int r, int c, int first) {
    uint64_t bits = 0;
    for (int k = c; k < columns && !(done[r] >> k & 1) && equal(p, first, r * columns + k); k++)
        bits |= (uint64_t)1 << k;
    return bits;
}

/* Each cell once: rectangles are made as wide as they go, then as high. */
static rsh_status each_rect(rshi_canvas *c, const panel *p, equal_fn equal, rect_fn draw) {
    int rows = rshi_scene_rows(p->scene)->n, columns = rshi_scene_columns(p->scene)->n;
    uint64_t done[RSHI_DRAW_INTERVALS] = {0};
    for (int i = 0; i < rows * columns; i++) {
        int r = i / columns, k = i % columns, end = r;
        if (done[r] >> k & 1) continue;
        uint64_t run = equal_run(p, equal, done, columns, r, k, i);
        while (end < rows && (equal_run(p, equal, done, columns, end, k, i) & run) == run) done[end++] |= run;
        int width = __builtin_popcountll(run);
        rshi_figure m = {.side = p->name, .x = p->x + p->column[k], .y = p->y + p->row[r],
                       .w = p->column[k + width] - p->column[k], .h = p->row[end] - p->row[r]};
        RSH_TRY(draw(c, p, i, &m));
    }
    return RSH_OK;
}

/* ---- what a rectangle says ---- */

/* Letters that fit inside a box of this width. */
static int fitting(const rshi_format *f, int width) { return (width - 1) / f->letter; }

static rsh_status label_box(rshi_canvas *c, const panel *p, rshi_figure m, const char *label) {
    const char *op = rsh_layout_op(p->side->layout) ? rsh_op_name(rsh_layout_op(p->side->layout)) : "";
    char text[RSHI_SUM_LABEL + 8];
    snprintf(text, sizeof text, "%s%s%s", op, *op ? " " : "", label);
    if ((int)strlen(text) > fitting(c->format, m.w)) snprintf(text, sizeof text, "%s", label);
    if ((int)strlen(text) > fitting(c->format, m.w) || m.h < c->format->line) return RSH_OK;
    rshi_figure t = m;
    t.kind = "label";
    t.x += (m.w + 1) / 2;
    t.y += m.h / 2;
    t.anchor = 'm';
    t.label = text;
    return c->format->text(c, &t);
}

static rsh_status draw_held(rshi_canvas *c, const panel *p, int i, rshi_figure *m) {
    const rshi_ranks *held = &p->side->cell[i];
    char label[RSHI_SUM_LABEL], tip[RSHI_SUM_LABEL + 32];
    rsh_op op = rsh_layout_op(p->side->layout);
    if (op && held->count) rshi_sum_label(p->side, i, label);
    else rshi_ranks_label(held, label);
    if (op) snprintf(tip, sizeof tip, "ranks %s, to be combined by %s", label, rsh_op_name(op));
    else snprintf(tip, sizeof tip, "%s %s", held->count == 1 ? "rank" : "ranks", label);
    m->kind = p->origins ? "outline" : "held";
    m->rank = held->count ? held->first[0] : -1;
    m->source = p->origins || op || !held->count ? -1 : held->first[0];
    m->tip = held->count ? tip : "nothing";
    RSH_TRY(c->format->box(c, m));
    return label_box(c, p, *m, label);
}

static rsh_status draw_origin(rshi_canvas *c, const panel *p, int i, rshi_figure *m) {
    static const char *const kinds[] = {"none", "stays", "moves", "reduced"};
    const rshi_origin *origin = &p->scene->origin[i];
    char from[RSHI_SUM_LABEL], to[RSHI_DRAW_LABEL], tip[RSHI_SUM_LABEL + RSHI_DRAW_LABEL + 32];
    if (origin->kind == RSHI_ORIGIN_REDUCED) rshi_sum_label(&p->scene->side[0], i, from);
    else rshi_ranks_label(&origin->from, from);
    rshi_ranks_label(&p->side->cell[i], to);
    if (origin->kind == RSHI_ORIGIN_STAYS) snprintf(tip, sizeof tip, "rank %s: stays", to);
    else if (origin->kind == RSHI_ORIGIN_REDUCED)
        snprintf(tip, sizeof tip, "%s of ranks %s to %s", rsh_op_name(rsh_layout_op(p->scene->side[0].layout)), from,
                 to);
    else snprintf(tip, sizeof tip, "%s to %s", from, to);
    m->kind = kinds[origin->kind];
    m->rank = p->side->cell[i].count ? p->side->cell[i].first[0] : -1;
    m->source = origin->kind == RSHI_ORIGIN_REDUCED || !origin->from.count ? -1 : origin->from.first[0];
    m->pale = origin->kind == RSHI_ORIGIN_STAYS;
    m->tip = tip;
    return c->format->box(c, m);
}

/* ---- around the panels ---- */

static rsh_status say(rshi_canvas *c, const char *kind, int x, int y, char anchor, const char *label) {
    rshi_figure m = {
        .kind = kind, .side = "", .x = x, .y = y, .rank = -1, .source = -1, .anchor = anchor, .label = label};
    return c->format->text(c, &m);
}

/* Clipped to the panel, with dots for what is left out. */
static rsh_status draw_title(rshi_canvas *c, const panel *p) {
    char text[128];
    int room = (int)rshi_min((int64_t)sizeof text, c->format->width / c->format->letter + 1);
    if (snprintf(text, (size_t)room, "%s", rsh_layout_text(p->side->layout)) >= room) memcpy(text + room - 4, "...", 3);
    return say(c, "title", p->x, p->y - c->format->tick_height - c->format->line, 's', text);
}

/* Indices at the borders, as many as have room. */
static rsh_status draw_ticks(rshi_canvas *c, const panel *p, const rshi_borders *e, const int *place, bool down) {
    int last = -c->format->tick_width, room = down ? c->format->tick_height : c->format->tick_width;
    char label[32];
    for (int i = 0; i <= e->n && room; i++) {
        if (place[i] - last < room || (i < e->n && place[e->n] - place[i] < room)) continue;
        snprintf(label, sizeof label, "%" PRId64, e->at[i]);
        if (down) RSH_TRY(say(c, "tick", p->x - c->format->letter / 2, p->y + place[i], 'e', label));
        else RSH_TRY(say(c, "tick", p->x + place[i], p->y - c->format->tick_height / 2, 'm', label));
        last = place[i];
    }
    return RSH_OK;
}

static rsh_status draw_panel(rshi_canvas *c, const panel *p) {
    RSH_TRY(draw_title(c, p));
    if (p->scene->down >= 0) RSH_TRY(draw_ticks(c, p, rshi_scene_rows(p->scene), p->row, true));
    RSH_TRY(draw_ticks(c, p, rshi_scene_columns(p->scene), p->column, false));
    if (p->origins) RSH_TRY(each_rect(c, p, same_origin, draw_origin));
    return each_rect(c, p, same_holders, draw_held);
}

static rsh_status draw_arrow(rshi_canvas *c, int x, int y) {
    const rshi_format *f = c->format;
    int64_t moved = c->scene->totals.bytes_moved;
    int room = f->gap - f->tick_width, length = room - room / 3;
    rshi_figure m = {
        .kind = "arrow", .side = "", .x = x + (room - length) / 2, .y = y, .w = length, .rank = -1, .source = -1};
    char label[RSHI_DRAW_LABEL];
    rshi_bytes_label(moved, label);
    RSH_TRY(f->line_to(c, &m));
    RSH_TRY(say(c, "moved", x + room / 2, y - f->line, 'm', moved ? label : "nothing"));
    return say(c, "moved", x + room / 2, y + f->line, 'm', "moves");
}

static const char *legend_hint(const rsh_layout *from) {
    if (rsh_layout_op(from)) return "hatched: combined from several ranks; pale: stays";
    if (rsh_layout_nranks(from) > LEGEND) return "colour: the rank it comes from; pale: it stays";
    return "the rank it comes from; pale: it stays";
}

/* Swatches of the source ranks, where colours are seen and are few. */
static rsh_status draw_legend(rshi_canvas *c, int x, int y) {
    const rsh_layout *l = c->scene->side[0].layout;
    int64_t n = rsh_layout_nranks(l) > LEGEND || rsh_layout_op(l) ? 0 : rsh_layout_nranks(l);
    int step = c->format->line;
    char label[32];
    for (int64_t i = 0; i < n; i++) {
        rshi_figure m = {.kind = "swatch", .side = "", .x = x, .y = y, .w = step, .h = step, .rank = -1,
                       .source = rsh_layout_rank(l, i)};
        RSH_TRY(c->format->box(c, &m));
        int room = snprintf(label, sizeof label, "%" PRId64, m.source);
        RSH_TRY(say(c, "note", x + step + step / 3, y + step / 2, 's', label));
        x += 2 * step + room * c->format->letter;
    }
    return say(c, "note", x, y + step / 2, 's', legend_hint(l));
}

static rsh_status draw_notes(rshi_canvas *c, int x, int y) {
    char text[192];
    for (int i = 0; rshi_scene_note(c->scene, i, text, sizeof text); i++, y += c->format->line)
        RSH_TRY(say(c, "note", x, y, 's', text));
    return RSH_OK;
}

static int count_notes(const rshi_scene *s) {
    char text[192];
    int n = 0;
    while (rshi_scene_note(s, n, text, sizeof text)) n++;
    return n;
}

rsh_status rshi_page_draw(rshi_canvas *c) {
    const rshi_format *f = c->format;
    const rshi_scene *s = c->scene;
    bool legend = f->tick_width && s->plan;
    int x = f->margin + f->tick_width, y = f->top + f->line + f->tick_height;
    int height = panel_height(s, f), step = f->width + f->gap;
    int below = y + height + f->line;
    int notes = below + (legend ? 2 * f->line : 0);
    c->width = x + (s->nsides - 1) * step + f->width + f->margin;
    c->height = notes + count_notes(s) * f->line + f->top / 2;
    RSH_TRY(f->begin(c, c->width, c->height));
    for (int i = 0; i < s->nsides; i++) {
        panel p = panel_at(c, i, x + i * step, y);
        RSH_TRY(draw_panel(c, &p));
    }
    if (s->plan) RSH_TRY(draw_arrow(c, x + f->width, y + height / 2));
    if (legend) RSH_TRY(draw_legend(c, x, below));
    RSH_TRY(draw_notes(c, x, notes));
    return f->end(c);
}
