/* Page: places panels, arrow, legend and notes on the page, in the units of the format. */
#include "draw/impl.h"

#include <stdio.h>
#include <string.h>

rsh_status rshi_canvas_say(rshi_canvas *c, const char *kind, int x, int y, char anchor, const char *label) {
    rshi_figure m = {
        .kind = kind, .side = "", .x = x, .y = y, .rank = -1, .source = -1, .anchor = anchor, .label = label};
    return c->format->text(c, &m);
}

/* ---- titles ---- */

#define TITLE_LINES 3

/* Returns the length of the next line of at most `room` letters, up to a space if there is one. */
static size_t line_of(const char *text, size_t room) {
    size_t n = strlen(text), space = 0;
    if (n <= room) return n;
    for (size_t i = 1; i <= room; i++)
        if (text[i] == ' ') space = i;
    return space ? space : room;
}

/* Draws a title of up to TITLE_LINES lines at y, and counts its lines; if y is negative, only counts.  A longer title
 * ends in dots. */
static rsh_status put_title(rshi_canvas *c, const rsh_layout *l, int x, int y, int *lines) {
    const char *text = rsh_layout_text(l);
    size_t room = (size_t)(c->format->width / c->format->letter);
    char line[256];
    for (*lines = 0; *text && *lines < TITLE_LINES; ++*lines) {
        size_t n = line_of(text, room);
        snprintf(line, sizeof line, "%.*s", (int)n, text);
        if (*lines + 1 == TITLE_LINES && text[n] && n > 3) memcpy(line + n - 3, "...", 3);
        if (y >= 0) RSH_TRY(rshi_canvas_say(c, "title", x, y + *lines * c->format->line, 's', line));
        text += n + (text[n] == ' ');
    }
    return RSH_OK;
}

static int title_lines(rshi_canvas *c) {
    int most = 1, lines;
    for (int i = 0; i < c->scene->nsides; i++) {
        (void)put_title(c, c->scene->side[i].layout, 0, -1, &lines); /* cannot fail, since it only counts */
        most = (int)rshi_max(most, lines);
    }
    return most;
}

/* ---- arrow and notes ---- */

static rsh_status draw_arrow(rshi_canvas *c, int x, int y) {
    const rshi_format *f = c->format;
    int64_t moved = c->scene->totals.bytes_moved;
    int room = f->gap - f->tick_width, length = room - room / 3;
    rshi_figure m = {
        .kind = "arrow", .side = "", .x = x + (room - length) / 2, .y = y, .w = length, .rank = -1, .source = -1};
    char label[RSHI_DRAW_LABEL];
    rshi_bytes_label(moved, label);
    RSH_TRY(f->line_to(c, &m));
    RSH_TRY(rshi_canvas_say(c, "moved", x + room / 2, y - f->line, 'm', moved ? label : "nothing"));
    return rshi_canvas_say(c, "moved", x + room / 2, y + f->line, 'm', "moves");
}

static rsh_status draw_notes(rshi_canvas *c, int x, int y) {
    char text[192];
    for (int i = 0; rshi_scene_note(c->scene, i, text, sizeof text); i++, y += c->format->line)
        RSH_TRY(rshi_canvas_say(c, "note", x, y, 's', text));
    return RSH_OK;
}

/* Returns the number of notes, and the length of the longest. */
static int measure_notes(const rshi_scene *s, int *longest) {
    char text[192];
    int n = 0;
    *longest = 0;
    for (; rshi_scene_note(s, n, text, sizeof text); n++) *longest = (int)rshi_max(*longest, (int)strlen(text));
    return n;
}

rsh_status rshi_page_draw(rshi_canvas *c) {
    const rshi_format *f = c->format;
    const rshi_scene *s = c->scene;
    char heading[RSHI_HEADING];
    int head = f->tick_width ? 2 * f->line : 0; /* the height of the heading */
    int x = f->margin + f->tick_width, title = f->top + head + f->line / 2, lines, longest;
    int y = title + title_lines(c) * f->line - f->line / 2 + f->tick_height;
    int height = rshi_panel_height(c), width = rshi_panel_width(c), step = f->width + f->gap;
    int below = y + height + f->line, nnotes = measure_notes(s, &longest);
    int panels = (s->nsides - 1) * step + (int)rshi_max(width, f->width);
    c->width = x + f->margin + (int)rshi_max(panels, longest * f->letter * 3 / 4);
    int legend = rshi_legend_height(c, c->width - x - f->margin), notes = below + legend;
    c->height = notes + nnotes * f->line + f->top / 2;
    RSH_TRY(f->begin(c, c->width, c->height));
    rshi_scene_heading(s, heading);
    if (head) RSH_TRY(rshi_canvas_say(c, "heading", x, f->top + f->line / 2, 's', heading));
    for (int i = 0; i < s->nsides; i++) {
        rshi_panel p = rshi_panel_at(c, i, x + i * step, y);
        RSH_TRY(put_title(c, s->side[i].layout, p.x, title, &lines));
        RSH_TRY(rshi_panel_draw(c, &p));
    }
    if (s->plan) RSH_TRY(draw_arrow(c, x + width, y + height / 2));
    RSH_TRY(rshi_legend_draw(c, x, below, c->width - x - f->margin));
    RSH_TRY(draw_notes(c, x, notes + f->line / 2));
    return f->end(c);
}
