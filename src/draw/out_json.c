/* JSON: writes the scene as data, for the script of the page and for other programs.  docs/draw.md lists its members.
 */
#include "draw/impl.h"

#include <inttypes.h>

#define MOST_RUNS 15000 /* limit of runs of ranks per side, since a page has bounded size */

/* Writes a JSON string.  "<" is escaped, because the JSON is also embedded in HTML. */
static rsh_status write_string(const rsh_sink *sink, const char *text) {
    RSH_TRY(rshi_sink_text(sink, "\""));
    for (; *text; text++) {
        char one[2] = {*text, '\0'};
        unsigned char c = (unsigned char)*text;
        if (c == '"' || c == '\\')
            RSH_TRY(rshi_sink_format(sink, "\\%c", c));
        else if (c < 0x20 || c == '<')
            RSH_TRY(rshi_sink_format(sink, "\\u%04x", c));
        else
            RSH_TRY(rshi_sink_text(sink, one));
    }
    return rshi_sink_text(sink, "\"");
}

static rsh_status put_numbers(const rsh_sink *sink, const char *name, const int64_t *at, int64_t n) {
    RSH_TRY(rshi_sink_format(sink, "\"%s\":[", name));
    for (int64_t i = 0; i < n; i++) RSH_TRY(rshi_sink_format(sink, "%s%" PRId64, i ? "," : "", at[i]));
    return rshi_sink_text(sink, "]");
}

static rsh_status put_colour(const rsh_sink *sink, rshi_colour k) {
    return rshi_sink_format(sink, "\"#%02x%02x%02x\"", (unsigned)k.red, (unsigned)k.green, (unsigned)k.blue);
}

/* ---- dims, notes, legend, totals ---- */

typedef struct tick_list {
    const rsh_sink *sink;
    int n;
} tick_list;

static rsh_status put_tick(void *ctx, int place, int64_t index) {
    tick_list *t = ctx;
    return rshi_sink_format(t->sink, "%s[%d,%" PRId64 "]", t->n++ ? "," : "", place, index);
}

/* Writes the positions of the borders in a panel of the SVG picture. */
static rsh_status put_places(const rshi_scene *s, int direction, const rsh_sink *sink) {
    const rshi_canvas canvas = {.format = &rshi_format_svg, .scene = s};
    const rshi_borders *e = &s->along[direction];
    rshi_panel p = rshi_panel_at(&canvas, 0, 0, 0);
    const int *place = direction == RSHI_ROWS ? p.row : p.column;
    int64_t wide[RSHI_DRAW_INTERVALS + 1];
    for (int i = 0; i <= e->n; i++) wide[i] = place[i];
    RSH_TRY(put_numbers(sink, "places", wide, e->n + 1));
    return rshi_sink_text(sink, ",");
}

/* Writes the indices that belong beside the panel of a side. */
static rsh_status put_ticks(const rshi_scene *s, int side, const rsh_sink *sink) {
    static const char *const names[] = {"rows", "columns"};
    const rshi_canvas canvas = {.format = &rshi_format_svg, .scene = s};
    rshi_panel p = rshi_panel_at(&canvas, side, 0, 0);
    for (int i = 0; i < RSHI_SLICES; i++) {
        tick_list ticks = {sink, 0};
        RSH_TRY(rshi_sink_format(sink, "%s\"%s\":[", i ? "," : "\"ticks\":{", names[i]));
        RSH_TRY(rshi_ticks_each(&canvas, &p, i, put_tick, &ticks));
        RSH_TRY(rshi_sink_text(sink, "]"));
    }
    return rshi_sink_text(sink, "},\n");
}

static rsh_status put_dims(const rshi_scene *s, const rsh_sink *sink) {
    static const char *const names[] = {"rows", "columns", "slices"};
    for (int i = 0; i < RSHI_DIRECTIONS; i++) {
        const rshi_borders *e = &s->along[i];
        RSH_TRY(rshi_sink_format(sink, "\"%s\":{\"dim\":%d,\"gap\":%d,\"unit\":%" PRId64 ",\"times\":%" PRId64 ",",
                                 names[i], e->dim, e->gap, e->unit, e->times));
        if (i != RSHI_SLICES) RSH_TRY(put_places(s, i, sink));
        RSH_TRY(put_numbers(sink, "at", e->at, e->n + 1));
        RSH_TRY(rshi_sink_text(sink, "},\n"));
    }
    return RSH_OK;
}

static rsh_status put_notes(const rshi_scene *s, const rsh_sink *sink) {
    char text[192];
    RSH_TRY(rshi_sink_text(sink, "\"notes\":["));
    for (int i = 0; rshi_scene_note(s, i, text, sizeof text); i++) {
        if (i) RSH_TRY(rshi_sink_text(sink, ","));
        RSH_TRY(write_string(sink, text));
    }
    return rshi_sink_text(sink, "],\n");
}

typedef struct stage_list {
    const rsh_sink *sink;
    rsh_status status;
} stage_list;

static int put_stage(void *ctx, int stage, const char *what, int64_t moved, int64_t between) {
    stage_list *l = ctx;
    l->status = rshi_sink_text(l->sink, stage ? ",\n{\"what\":" : "{\"what\":");
    if (!l->status) l->status = write_string(l->sink, what);
    if (!l->status)
        l->status = rshi_sink_format(l->sink, ",\"moved\":%" PRId64 ",\"between_nodes\":%" PRId64 "}", moved, between);
    return l->status != RSH_OK;
}

static rsh_status put_stages(const rshi_scene *s, const rsh_sink *sink) {
    stage_list l = {sink, RSH_OK};
    RSH_TRY(rshi_sink_text(sink, ",\n\"stages\":["));
    if (s->plan) RSH_TRY(rsh_plan_each_stage(s->plan, put_stage, &l));
    RSH_TRY(l.status);
    return rshi_sink_text(sink, "],\n");
}

static rsh_status put_scale(const rshi_scene *s, const rsh_sink *sink, int which) {
    char label[RSHI_DRAW_LABEL];
    rshi_colour colour;
    rshi_legend_name(s, which, label);
    RSH_TRY(rshi_sink_text(sink, "{\"name\":"));
    RSH_TRY(write_string(sink, label));
    RSH_TRY(rshi_sink_text(sink, ",\"entries\":["));
    for (int64_t i = 0; rshi_legend_entry(s, which, i, label, &colour); i++) {
        RSH_TRY(rshi_sink_text(sink, i ? ",[" : "["));
        RSH_TRY(write_string(sink, label));
        RSH_TRY(rshi_sink_text(sink, ","));
        RSH_TRY(put_colour(sink, colour));
        RSH_TRY(rshi_sink_text(sink, "]"));
    }
    return rshi_sink_text(sink, "]}");
}

/* Writes the scales that have at least two entries. */
static rsh_status put_legend(const rshi_scene *s, const rsh_sink *sink) {
    RSH_TRY(rshi_sink_text(sink, "\"legend\":["));
    if (s->palette.hue.n > 1) RSH_TRY(put_scale(s, sink, 0));
    if (s->palette.shade.n > 1) RSH_TRY(rshi_sink_text(sink, ","));
    if (s->palette.shade.n > 1) RSH_TRY(put_scale(s, sink, 1));
    return rshi_sink_text(sink, "],\n");
}

static rsh_status put_totals(const rshi_scene *s, const rsh_sink *sink) {
    const rsh_plan_totals *t = &s->totals;
    if (!s->plan) return RSH_OK;
    return rshi_sink_format(
        sink,
        "\"totals\":{\"ranks\":%" PRId64 ",\"tensor\":%" PRId64 ",\"moved\":%" PRId64 ",\"least\":%" PRId64
        ",\"local\":%" PRId64 ",\"between_nodes\":%" PRId64 ",\"max_send\":%" PRId64 ",\"max_recv\":%" PRId64
        ",\"messages\":%" PRId64 ",\"scratch\":%" PRId64 ",\"fingerprint\":\"%016" PRIx64 "\"},\n",
        rsh_plan_nranks(s->plan), t->tensor_bytes, t->bytes_moved, t->lower_bound, t->bytes_local,
        t->bytes_between_nodes, t->max_send, t->max_recv, t->messages, t->scratch_bytes, rsh_plan_fingerprint(s->plan));
}

/* ---- holders ---- */

/* Writes ranks as runs [first, step, count], found greedily; regular meshes give few runs. */
static rsh_status put_runs(const rsh_sink *sink, const int64_t *list, int64_t n, int64_t *budget) {
    RSH_TRY(rshi_sink_text(sink, "["));
    for (int64_t i = 0, k; i<n && * budget> 0; i = k, --*budget) {
        int64_t step = i + 1 < n ? list[i + 1] - list[i] : 1;
        for (k = i + 1; k < n && list[k] - list[k - 1] == step; k++) {
        }
        if (k == i + 2) k = i + 1, step = 1; /* two ranks are written as two runs */
        RSH_TRY(rshi_sink_format(sink, "%s[%" PRId64 ",%" PRId64 ",%" PRId64 "]", i ? "," : "", list[i], step, k - i));
    }
    return rshi_sink_text(sink, "]");
}

static rsh_status put_holders(const rshi_scene *s, const rshi_side *side, const rsh_sink *sink) {
    int64_t budget = MOST_RUNS;
    char label[RSHI_SUM_LABEL];
    RSH_TRY(rshi_sink_text(sink, "\"holders\":["));
    for (int64_t h = 0; h < side->nholders; h++) {
        const rshi_holders *own = &side->holders[h];
        if (rsh_layout_op(side->layout))
            rshi_sum_label(side->layout, own, label);
        else
            rshi_ranks_label(&own->ranks, label);
        RSH_TRY(rshi_sink_format(sink, "%s{\"count\":%" PRId64 ",\"label\":", h ? ",\n" : "\n", own->ranks.count));
        RSH_TRY(write_string(sink, label));
        if (side == &s->side[0]) {
            RSH_TRY(rshi_sink_text(sink, ",\"colour\":"));
            RSH_TRY(put_colour(sink, rshi_scene_colour(s, own->ranks.first[0])));
        }
        RSH_TRY(rshi_sink_text(sink, ",\"ranks\":"));
        RSH_TRY(put_runs(sink, own->list, own->ranks.count, &budget));
        RSH_TRY(rshi_sink_text(sink, "}"));
    }
    return rshi_sink_text(sink, "],\n");
}

/* ---- rectangles ---- */

typedef struct writing {
    const rshi_scene *scene;
    const rshi_side *side;
    const rsh_sink *sink;
    int64_t n; /* number of rectangles written so far in this list */
} writing;

static rsh_status put_held(void *ctx, const rshi_rect *r) {
    writing *w = ctx;
    if (w->side->cell[r->cell] < 0) return RSH_OK;
    return rshi_sink_format(w->sink, "%s[%d,%d,%d,%d,%d]", w->n++ ? "," : "", r->r0, r->c0, r->r1, r->c1,
                            w->side->cell[r->cell]);
}

/* Writes a rectangle with its sources: the first ranks and their number; for a reduction, the holders before. */
static rsh_status put_origin(void *ctx, const rshi_rect *r) {
    writing *w = ctx;
    const rshi_origin *o = &w->scene->origin[r->cell];
    int64_t n = rshi_min(o->from.count, RSHI_RANKS_NAMED);
    if (o->kind == RSHI_ORIGIN_UNKNOWN) return RSH_OK;
    RSH_TRY(rshi_sink_format(w->sink, "%s[%d,%d,%d,%d,%d,%d,%u,", w->n++ ? "," : "", r->r0, r->c0, r->r1, r->c1,
                             (int)o->kind, w->scene->side[1].cell[r->cell], o->stages));
    if (o->kind == RSHI_ORIGIN_REDUCED) return rshi_sink_format(w->sink, "%d]", w->scene->side[0].cell[r->cell]);
    RSH_TRY(rshi_sink_text(w->sink, "["));
    for (int64_t i = 0; i < n; i++) RSH_TRY(rshi_sink_format(w->sink, "%s%" PRId64, i ? "," : "", o->from.first[i]));
    RSH_TRY(rshi_sink_format(w->sink, "],%" PRId64 ",", o->from.count));
    RSH_TRY(put_colour(w->sink, rshi_scene_colour(w->scene, o->from.first[0])));
    return rshi_sink_text(w->sink, "]");
}

static rsh_status put_slices(const rshi_scene *s, const rshi_side *side, const rsh_sink *sink, bool origins) {
    RSH_TRY(rshi_sink_format(sink, "\"%s\":[", origins ? "origins" : "held"));
    for (int k = 0; k < s->along[RSHI_SLICES].n; k++) {
        writing w = {s, side, sink, 0};
        RSH_TRY(rshi_sink_text(sink, k ? ",\n[" : "\n["));
        if (k != s->along[RSHI_SLICES].gap)
            RSH_TRY(origins ? rshi_rects_origin(s, k, put_origin, &w) : rshi_rects_held(s, side, k, put_held, &w));
        RSH_TRY(rshi_sink_text(sink, "]"));
    }
    return rshi_sink_text(sink, "]");
}

/* ---- sides ---- */

static rsh_status put_mesh(const rshi_side *side, const rsh_sink *sink) {
    const rsh_layout_desc *d = rsh_layout_describe(side->layout);
    RSH_TRY(rshi_sink_format(sink, "\"nranks\":%" PRId64 ",\"consecutive\":%s,\"first_rank\":%" PRId64 ",\"axes\":[",
                             rsh_layout_nranks(side->layout), !d->is_boxes && !d->ranks ? "true" : "false",
                             d->first_rank));
    for (int a = 0; a < d->naxes && !d->is_boxes; a++)
        RSH_TRY(rshi_sink_format(sink, "%s[\"%s\",%" PRId64 "]", a ? "," : "", d->axis[a].name, d->axis[a].size));
    return rshi_sink_text(sink, "],\n");
}

static rsh_status put_side(const rshi_scene *s, int number, const rsh_sink *sink) {
    const rshi_side *side = &s->side[number];
    rsh_op op = rsh_layout_op(side->layout);
    char text[RSHI_LAYOUT_SHOWN];
    rshi_layout_shown(side->layout, text);
    RSH_TRY(rshi_sink_text(sink, "{\"text\":"));
    RSH_TRY(write_string(sink, text));
    RSH_TRY(rshi_sink_format(sink, ",\"element\":%zu,\"op\":\"%s\",", rsh_dtype_size(rsh_layout_dtype(side->layout)),
                             op ? rsh_op_name(op) : ""));
    RSH_TRY(put_mesh(side, sink));
    RSH_TRY(put_ticks(s, number, sink));
    RSH_TRY(put_holders(s, side, sink));
    RSH_TRY(put_slices(s, side, sink, false));
    return rshi_sink_text(sink, "}");
}

rsh_status rshi_json_write(const rshi_scene *s, const rsh_sink *sink) {
    const rsh_layout *l = s->side[0].layout;
    char heading[RSHI_HEADING];
    RSH_TRY(rshi_sink_text(sink, "{"));
    RSH_TRY(put_numbers(sink, "shape", rsh_layout_shape(l), rsh_layout_ndim(l)));
    RSH_TRY(rshi_sink_text(sink, ",\"heading\":"));
    rshi_scene_heading(s, heading);
    RSH_TRY(write_string(sink, heading));
    RSH_TRY(put_stages(s, sink));
    RSH_TRY(put_dims(s, sink));
    RSH_TRY(put_notes(s, sink));
    RSH_TRY(put_legend(s, sink));
    RSH_TRY(put_totals(s, sink));
    RSH_TRY(rshi_json_ranks(s, sink));
    if (s->plan) RSH_TRY(put_slices(s, &s->side[1], sink, true));
    RSH_TRY(rshi_sink_text(sink, s->plan ? ",\n\"sides\":[" : "\"sides\":["));
    for (int i = 0; i < s->nsides; i++) {
        if (i) RSH_TRY(rshi_sink_text(sink, ",\n"));
        RSH_TRY(put_side(s, i, sink));
    }
    return rshi_sink_text(sink, "]}\n");
}
