/* Text: draws the scene with letters and box-drawing characters, at most 100 columns wide and optionally in colour. */
#include "draw/impl.h"

#include <stdio.h>
#include <string.h>

#define COLUMNS 100

enum { UP = 1, DOWN = 2, LEFT = 4, RIGHT = 8 };

/* A position on the page: a letter, or the lines that meet here. */
typedef struct glyph {
    char letter;
    uint8_t lines;
    uint8_t fill; /* background as a number of the 256 terminal colours; 0: none */
    bool dark;    /* the background is dark, so letters are white */
} glyph;

static size_t places(const rshi_canvas *c) { return (size_t)c->width * (size_t)c->height; }

/* Returns the glyph at a position; positions off the page share one spare glyph at the end. */
static glyph *at(rshi_canvas *c, int x, int y) {
    bool inside = x >= 0 && x < c->width && y >= 0 && y < c->height;
    return (glyph *)c->glyphs + (inside ? (size_t)y * (size_t)c->width + (size_t)x : places(c));
}

static rsh_status begin(rshi_canvas *c, int width, int height) {
    (void)width; /* notes may be wider than the panels; trailing blanks are omitted */
    c->width = COLUMNS;
    c->height = height;
    c->glyphs = rshi_calloc(places(c) + 1, sizeof(glyph));
    return c->glyphs ? RSH_OK : rshi_nomem();
}

static void across(rshi_canvas *c, int x, int y, int w) {
    for (int i = 0; i <= w; i++) at(c, x + i, y)->lines |= (uint8_t)((i ? LEFT : 0) | (i < w ? RIGHT : 0));
}

static void down(rshi_canvas *c, int x, int y, int h) {
    for (int i = 0; i <= h; i++) at(c, x, y + i)->lines |= (uint8_t)((i ? UP : 0) | (i < h ? DOWN : 0));
}

/* Draws a box; adjacent boxes share the characters of their border.  Without colours only the boxes of holders are
 * drawn. */
static rsh_status box(rshi_canvas *c, const rshi_figure *m) {
    if (strcmp(m->kind, "held") && strcmp(m->kind, "outline") && strcmp(m->kind, "gap")) return RSH_OK;
    across(c, m->x, m->y, m->w);
    across(c, m->x, m->y + m->h, m->w);
    down(c, m->x, m->y, m->h);
    down(c, m->x + m->w, m->y, m->h);
    return RSH_OK;
}

/* Terminals have a cube of 6 x 6 x 6 colours, starting at number 16. */
static int level(int x) { return (x * 5 + 127) / 255; }

/* Draws a filled box.  Its last row and column belong to the next box.  Cells that stay are not coloured. */
static rsh_status filled_box(rshi_canvas *c, const rshi_figure *m) {
    if (!strcmp(m->kind, "outline") || !strcmp(m->kind, "stays") || m->source < 0 || m->combined)
        return box(c, m);
    rshi_colour colour = rshi_scene_colour(c->scene, m->source);
    int number = 16 + 36 * level(colour.red) + 6 * level(colour.green) + level(colour.blue);
    for (int y = m->y; y < m->y + m->h; y++)
        for (int x = m->x; x < m->x + m->w; x++) {
            at(c, x, y)->fill = (uint8_t)number;
            at(c, x, y)->dark = rshi_colour_dark(colour);
        }
    return box(c, m);
}

static rsh_status text(rshi_canvas *c, const rshi_figure *m) {
    int n = (int)strlen(m->label), x = m->x;
    if (m->anchor == 'm') x -= n / 2;
    if (m->anchor == 'e') x -= n;
    for (int i = 0; i < n; i++) at(c, x + i, m->y)->letter = m->label[i];
    return RSH_OK;
}

static rsh_status line_to(rshi_canvas *c, const rshi_figure *m) {
    across(c, m->x, m->y, m->w);
    at(c, m->x + m->w, m->y)->letter = '>';
    return RSH_OK;
}

static const char *character(const glyph *g) {
    static const char *const lines[16] = {" ", "╵", "╷", "│", "╴", "┘", "┐", "┤",
                                          "╶", "└", "┌", "├", "─", "┴", "┬", "┼"};
    return lines[g->lines];
}

/* Lines between boxes are not coloured. */
static int fill_of(const glyph *g) { return g->lines ? 0 : g->fill; }

static size_t put_colour(char *row, const glyph *g) {
    if (!fill_of(g)) return (size_t)sprintf(row, "\033[0m");
    return (size_t)sprintf(row, "\033[48;5;%d;38;5;%dm", g->fill, g->dark ? 231 : 16);
}

static rsh_status put_line(rshi_canvas *c, int y) {
    int end = c->width, fill = 0;
    while (end && !at(c, end - 1, y)->letter && !at(c, end - 1, y)->lines) end--;
    char row[32 * COLUMNS];
    size_t n = 0;
    for (int x = 0; x < end; x++) {
        const glyph *g = at(c, x, y);
        char letter[2] = {g->letter, '\0'};
        const char *s = g->letter ? letter : character(g);
        if (fill_of(g) != fill) n += put_colour(row + n, g);
        fill = fill_of(g);
        size_t length = strlen(s);
        memcpy(row + n, s, length);
        n += length;
    }
    strcpy(row + n, fill ? "\033[0m\n" : "\n");
    return rshi_sink_text(c->sink, row);
}

static rsh_status end(rshi_canvas *c) {
    for (int y = 0; y < c->height; y++) RSH_TRY(put_line(c, y));
    return RSH_OK;
}

#define LOOK                                                                                                           \
    .detail = {9, 5, 2, 1, 81}, .width = 40, .height = 8, .strip = 2, .min_width = 4, .min_height = 2, .gap_width = 8, \
    .gap_height = 2, .gap = 16, .line = 1, .margin = 2, .letter = 1, .begin = begin, .text = text, .line_to = line_to, \
    .end = end
const rshi_format rshi_format_text = {LOOK, .box = box};
const rshi_format rshi_format_ansi = {LOOK, .box = filled_box};
