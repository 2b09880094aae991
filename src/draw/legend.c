/* Legend: draws swatches of hues and shades by mesh axis, and of blocks that stay or are combined. */
#include "draw/impl.h"

#include <stdio.h>
#include <string.h>

/* Position of the next entry of the legend.  Entries start a new line if there is no space left; if `dry` is set,
 * nothing is drawn. */
typedef struct pen {
    rshi_canvas *canvas;
    int left, right, x, y;
    bool dry;
} pen;

static void make_room(pen *p, int width) {
    if (p->x + width <= p->right || p->x == p->left) return;
    p->x = p->left;
    p->y += p->canvas->format->line * 4 / 3;
}

/* Returns the width of a text; letters of a legend are smaller than those of labels. */
static int width_of(const pen *p, const char *text) { return (int)strlen(text) * p->canvas->format->letter * 7 / 8; }

static rsh_status put_words(pen *p, const char *text) {
    int step = p->canvas->format->line, width = width_of(p, text);
    make_room(p, width);
    if (!p->dry) RSH_TRY(rshi_canvas_say(p->canvas, "note", p->x, p->y + step / 2, 's', text));
    p->x += width + step / 2;
    return RSH_OK;
}

/* Draws a swatch with its label.  `kind` is "swatch", or the kind of a block. */
static rsh_status put_swatch(pen *p, const char *label, const char *kind, const rshi_colour *colour, bool combined) {
    int step = p->canvas->format->line, width = width_of(p, label);
    make_room(p, step + step / 3 + width);
    rshi_figure m = {.kind = kind,
                     .side = "",
                     .x = p->x,
                     .y = p->y,
                     .w = step,
                     .h = step,
                     .rank = -1,
                     .source = -1,
                     .fill = colour,
                     .combined = combined,
                     .tip = combined ? label : NULL};
    if (!p->dry) RSH_TRY(p->canvas->format->box(p->canvas, &m));
    p->x += step + step / 3;
    if (!p->dry) RSH_TRY(rshi_canvas_say(p->canvas, "note", p->x, p->y + step / 2, 's', label));
    p->x += width + step / 2;
    return RSH_OK;
}

static rsh_status put_scale(pen *p, int which) {
    char label[RSHI_DRAW_LABEL], title[RSHI_DRAW_LABEL + 2];
    const rshi_scene *s = p->canvas->scene;
    rshi_colour colour;
    if ((which ? s->palette.shade.n : s->palette.hue.n) < 2) return RSH_OK;
    rshi_legend_name(s, which, label);
    snprintf(title, sizeof title, "%s:", label);
    RSH_TRY(put_words(p, title));
    for (int64_t i = 0; rshi_legend_entry(s, which, i, label, &colour); i++)
        RSH_TRY(put_swatch(p, label, "swatch", &colour, false));
    p->x += p->canvas->format->line;
    return RSH_OK;
}

/* Does any cell have this kind of origin? */
static bool has_origin(const rshi_scene *s, rshi_origin_kind kind) {
    for (int i = 0; s->origin && i < rshi_scene_cells(s); i++)
        if (s->origin[i].kind == kind) return true;
    return false;
}

static rsh_status put_hints(pen *p) {
    const rshi_scene *s = p->canvas->scene;
    rsh_op op = rsh_layout_op(s->side[0].layout);
    rshi_colour plain = rshi_colour_of(0, RSHI_LEVEL_PLAIN);
    char text[RSHI_DRAW_LABEL];
    if (s->plan && s->palette.hue.n > 1) RSH_TRY(put_words(p, "colour: the rank that held it before"));
    if (has_origin(s, RSHI_ORIGIN_STAYS)) RSH_TRY(put_swatch(p, "faded: stays on its rank", "pale", &plain, false));
    if (!op) return RSH_OK;
    snprintf(text, sizeof text, "hatched: %s of several ranks", rsh_op_name(op));
    return put_swatch(p, text, "swatch", &plain, true);
}

static rsh_status put_legend(pen *p) {
    for (int which = 0; which < 2; which++) RSH_TRY(put_scale(p, which));
    return put_hints(p);
}

int rshi_legend_height(rshi_canvas *c, int width) {
    pen p = {c, 0, width, 0, 0, true};
    if (!c->format->tick_width) return 0;
    (void)put_legend(&p); /* cannot fail, since it only measures */
    return p.x || p.y ? p.y + c->format->line * 4 / 3 : 0;
}

rsh_status rshi_legend_draw(rshi_canvas *c, int x, int y, int width) {
    pen p = {c, x, x + width, x, y, false};
    return c->format->tick_width ? put_legend(&p) : RSH_OK;
}
