/* draw: computes a scene from layouts and plans, which the output formats then draw.
 *
 * Two dims of the tensor are drawn, one down (rows) and one across (columns); the HTML page can
 * show slices along a third.  Of all other dims only index 0 is drawn.  The borders of all parts of
 * both layouts divide these three dims into intervals, at most RSHI_DRAW_INTERVALS each; a cell is
 * a product of one interval per dim.  So a cell is entirely inside or outside of every part, and an
 * interval is one bit of a mask.  A dim with more borders is drawn from both ends; one interval,
 * the gap, stands for everything between. */
#ifndef RESHARD_DRAW_IMPL_H
#define RESHARD_DRAW_IMPL_H

#include <reshard/draw.h>

#include "base/base.h"
#include "layout/layout.h"

#define RSHI_DRAW_INTERVALS 64 /* bits of a mask */
#define RSHI_DRAW_LABEL 48     /* bytes of a label with its NUL */

/* ---- borders ---- */

/* Along one dim: interval i is [at[i], at[i + 1]). */
typedef struct rshi_borders {
    int dim; /* -1: no dim; the only interval is [0, 1) */
    int n;   /* number of intervals */
    int gap; /* the interval that is not drawn in detail; -1: none */
    int64_t at[RSHI_DRAW_INTERVALS + 1];
    int64_t unit;  /* the period of the cuts, in indices; 0: no period is known */
    int64_t times; /* number of periods; 0: the dim is not a multiple of `unit` */
} rshi_borders;

static inline int64_t rshi_borders_span(const rshi_borders *e) { return e->at[e->n] - e->at[0]; }

enum { RSHI_ROWS, RSHI_COLUMNS, RSHI_SLICES, RSHI_DIRECTIONS };

/* The level of detail of a picture. */
typedef struct rshi_detail {
    int exact;      /* limit of intervals along a dim that is drawn without a gap */
    int head, tail; /* intervals before and after a gap; more if one round of cyclic blocks has
                       more */
    int slices;     /* limit of intervals along the third dim */
    int cells;      /* limit of cells per slice; with more, dims get gaps */
} rshi_detail;

/* ---- holders ---- */

/* Bits of rows, columns and slices: all cells of their product. */
typedef struct rshi_mask {
    uint64_t in[RSHI_DIRECTIONS];
} rshi_mask;
static inline bool rshi_mask_empty(const rshi_mask *m) {
    return !m->in[0] || !m->in[1] || !m->in[2];
}

/* A summary of a set of ranks, which is enough to label it and to compare it with another.  Ranks
 * are added in ascending order. */
#define RSHI_RANKS_NAMED 8
typedef struct rshi_ranks {
    int64_t count;
    int64_t first[RSHI_RANKS_NAMED];
    int64_t last;
    uint64_t hash;
} rshi_ranks;

/* Adds a rank, unless it is equal to the last one. */
void rshi_ranks_add(rshi_ranks *s, int64_t rank);
bool rshi_ranks_equal(const rshi_ranks *a, const rshi_ranks *b);
/* Writes "3", "0,4", "0-7" or "0,4,8,12,.. (64)". */
void rshi_ranks_label(const rshi_ranks *s, char label[RSHI_DRAW_LABEL]);

/* The holders of a cell of a partial layout: groups of ranks whose contributions are combined; the
 * groups are replicas of each other.  Only the first groups are kept, for labels. */
#define RSHI_DRAW_GROUPS 2
#define RSHI_SUM_LABEL (2 * RSHI_DRAW_LABEL + 8)
typedef struct rshi_sum {
    rshi_ranks group[RSHI_DRAW_GROUPS];
    int64_t leader[RSHI_DRAW_GROUPS]; /* the rank of each group at the origin of the partial axes */
} rshi_sum;

/* The ranks that hold a cell; shared by all cells with the same ranks. */
typedef struct rshi_holders {
    rshi_ranks ranks;
    const int64_t *list; /* ranks.count ranks, ascending; borrowed from the side */
    rshi_sum sum;        /* for a partial layout */
} rshi_holders;

/* A group of ranks whose pieces cover the same cells. */
typedef struct rshi_alike {
    rshi_mask mask;
    int64_t first, n; /* in rshi_side.rank */
} rshi_alike;

typedef struct rshi_side {
    const rsh_layout *layout;
    int64_t nshown; /* number of ranks that hold a cell of the picture */
    rshi_alike *alike;
    int64_t nalike;
    int64_t *rank;   /* owned: ranks of all `alike`, each list ascending */
    int64_t *start;  /* owned: nranks + 1; rank i is in groups member[start[i]..start[i + 1]) */
    int64_t *member; /* owned: indices in `alike` */
    rshi_holders *holders;
    int64_t nholders;
    int64_t *merged; /* owned: lists of holders that are in several `alike` */
    int *cell;       /* owned: slices x rows x columns: index in `holders`; -1: no rank */
} rshi_side;

/* Groups the ranks of a partial layout; h->list must be set. */
void rshi_sum_fill(const rsh_layout *l, rshi_holders *h);
/* Writes "0-3", "0-3 or 4-7" or "0,4 (4 replicas)". */
void rshi_sum_label(const rsh_layout *l, const rshi_holders *h, char label[RSHI_SUM_LABEL]);

/* How the first holder of a destination cell gets it. */
typedef enum rshi_origin_kind {
    RSHI_ORIGIN_UNKNOWN,
    RSHI_ORIGIN_STAYS,
    RSHI_ORIGIN_MOVES,
    RSHI_ORIGIN_REDUCED
} rshi_origin_kind;
typedef struct rshi_origin {
    rshi_origin_kind kind;
    unsigned stages; /* bits: the stages of the plan in which data of the cell arrives */
    rshi_ranks from;
} rshi_origin;

/* ---- colours ---- */

typedef struct rshi_colour {
    int red, green, blue;
} rshi_colour;
bool rshi_colour_dark(rshi_colour c); /* is white text readable on it? */
/* Returns a hue in a shade from 0 (dark) to 1 (light). */
#define RSHI_HUES 8
rshi_colour rshi_colour_of(int hue, double level);
#define RSHI_LEVEL_PLAIN 0.5 /* the shade of a hue that has only one */

/* The mesh axes of the source layout that determine the hue or the shade.  Only coordinates that
 * appear in the picture are counted. */
typedef struct rshi_scale {
    unsigned axes; /* bits; 0: the rank itself is the coordinate */
    int64_t n;
    int64_t *value; /* owned, ascending: the coordinates that appear */
} rshi_scale;
typedef struct rshi_palette {
    rshi_scale hue, shade; /* shade.n is 0 if the hue is enough */
} rshi_palette;

/* ---- the scene ---- */

typedef struct rshi_scene {
    const rsh_plan *plan; /* NULL: one layout */
    int64_t tensor;       /* of the plan */
    int nsides;
    rshi_side side[2];
    rshi_origin *origin; /* of side[1], as its cells; NULL with one side */
    int stages;
    rsh_plan_totals totals;
    rshi_borders along[RSHI_DIRECTIONS];
    rshi_palette palette;
} rshi_scene;

/* Computes a scene.  Free it with rshi_scene_free, also after a failure. */
rsh_status rshi_scene_make(rshi_scene *s, const rsh_plan *plan, int64_t tensor,
                           const rsh_layout *from, const rsh_layout *to, const rshi_detail *detail);
void rshi_scene_free(rshi_scene *s);
static inline int rshi_scene_cells(const rshi_scene *s) {
    return s->along[RSHI_ROWS].n * s->along[RSHI_COLUMNS].n * s->along[RSHI_SLICES].n;
}
static inline int rshi_scene_cell(const rshi_scene *s, int slice, int row, int column) {
    return (slice * s->along[RSHI_ROWS].n + row) * s->along[RSHI_COLUMNS].n + column;
}
/* Calls fn for each cell of a mask. */
typedef void (*rshi_cell_fn)(void *ctx, int cell);
void rshi_scene_each(const rshi_scene *s, const rshi_mask *m, rshi_cell_fn fn, void *ctx);
/* Writes the sentence above the picture: how many bytes move, or how many a layout holds. */
#define RSHI_HEADING 192
void rshi_scene_heading(const rshi_scene *s, char text[RSHI_HEADING]);
/* Writes note i about what the picture omits; false: there is no such note. */
bool rshi_scene_note(const rshi_scene *s, int i, char *text, size_t room);

/* The steps of rshi_scene_make. */
rsh_status rshi_scene_borders(rshi_scene *s, const rshi_detail *detail);
rsh_status rshi_side_fill(const rshi_scene *s, rshi_side *side);
void rshi_side_free(rshi_side *side);
rsh_status rshi_scene_origins(rshi_scene *s);
rsh_status rshi_scene_stages(rshi_scene *s);
rsh_status rshi_scene_palette(rshi_scene *s);
/* Does the move reduce contributions?  It does not if both layouts have the same partial axes. */
bool rshi_scene_reduces(const rshi_scene *s);

/* Returns the colour of a rank of the source layout. */
rshi_colour rshi_scene_colour(const rshi_scene *s, int64_t rank);
/* For the legend of hues (which = 0) or shades (1): write the name of the axis, and entry i.
 * Returns false if there is no such entry. */
void rshi_legend_name(const rshi_scene *s, int which, char label[RSHI_DRAW_LABEL]);
bool rshi_legend_entry(const rshi_scene *s, int which, int64_t i, char label[RSHI_DRAW_LABEL],
                       rshi_colour *colour);

/* A rectangle of equal cells of one slice: rows [r0, r1) and columns [c0, c1).  Rectangles are made
 * as wide as possible, then as high, and do not overlap.  Cells in a gap are included only if a
 * rank holds all of the gap. */
typedef struct rshi_rect {
    int slice, r0, r1, c0, c1;
    int cell; /* its first cell */
} rshi_rect;
typedef rsh_status (*rshi_rect_fn)(void *ctx, const rshi_rect *r);
/* Call fn for each rectangle of cells with equal holders, or with equal origins and holders. */
rsh_status rshi_rects_held(const rshi_scene *s, const rshi_side *side, int slice, rshi_rect_fn fn,
                           void *ctx);
rsh_status rshi_rects_origin(const rshi_scene *s, int slice, rshi_rect_fn fn, void *ctx);
/* Write tooltips: "rank 3: stays", "0 to 3", "sum of ranks 0-3 to 0". */
#define RSHI_TIP (RSHI_SUM_LABEL + RSHI_DRAW_LABEL + 64)
void rshi_tip_held(const rshi_side *side, int cell, char tip[RSHI_TIP]);
void rshi_tip_origin(const rshi_scene *s, int cell, char tip[RSHI_TIP]);
void rshi_held_label(const rshi_side *side, int cell, char label[RSHI_SUM_LABEL]);

/* ---- formats ---- */

typedef struct rshi_figure {
    const char *kind;        /* its class in SVG */
    const char *side;        /* "from", "to" or "" */
    int x, y, w, h;          /* of a line: from (x, y) by (w, h); of a text: (x, y) is the anchor */
    int64_t rank;            /* the rank that holds it after the move; -1: none */
    int64_t source;          /* the rank whose colour it has; -1: none */
    const rshi_colour *fill; /* NULL: the colour of `source` */
    bool combined;           /* a combination of several contributions */
    char anchor;             /* of a text: 's'tart, 'm'iddle or 'e'nd */
    const char *label, *tip;
} rshi_figure;

struct rshi_canvas;
typedef struct rshi_format {
    rshi_detail detail;
    int width, height;           /* of a panel */
    int strip;                   /* height of a 1-D panel */
    int min_width, min_height;   /* of an interval */
    int gap_width, gap_height;   /* of the gap */
    int gap, line;               /* distance of panels, and of lines of text */
    int margin, top;             /* margins: left and right, above and below */
    int letter;                  /* width of a letter */
    int tick_width, tick_height; /* space for an index at a border; 0: no indices and no legend */
    rsh_status (*begin)(struct rshi_canvas *c, int width, int height);
    rsh_status (*box)(struct rshi_canvas *c, const rshi_figure *m);
    rsh_status (*text)(struct rshi_canvas *c, const rshi_figure *m);
    rsh_status (*line_to)(struct rshi_canvas *c, const rshi_figure *m);
    rsh_status (*end)(struct rshi_canvas *c);
} rshi_format;

typedef struct rshi_canvas {
    const rshi_format *format;
    const rshi_scene *scene;
    const rsh_sink *sink;
    int64_t marks;     /* number of elements so far, for ids */
    int width, height; /* of the page */
    void *glyphs;      /* of the text format */
} rshi_canvas;

extern const rshi_format rshi_format_text, rshi_format_ansi, rshi_format_svg;

/* The position of one side of the scene on the page. */
typedef struct rshi_panel {
    const rshi_side *side;
    const char *name;
    bool origins; /* cells have the colour of their origin; false: of their holder */
    int x, y;
    int row[RSHI_DRAW_INTERVALS + 1],
        column[RSHI_DRAW_INTERVALS + 1]; /* positions of the borders */
} rshi_panel;
rshi_panel rshi_panel_at(const rshi_canvas *c, int side, int x, int y);
int rshi_panel_width(const rshi_canvas *c);
int rshi_panel_height(const rshi_canvas *c);
rsh_status rshi_panel_draw(rshi_canvas *c, const rshi_panel *p);
/* Calls fn(ctx, place, index) for each index to write next to rows or columns, in ascending order;
 * indices are at cuts of the panel's own side. */
typedef rsh_status (*rshi_tick_fn)(void *ctx, int place, int64_t index);
rsh_status rshi_ticks_each(const rshi_canvas *c, const rshi_panel *p, int direction,
                           rshi_tick_fn fn, void *ctx);
rsh_status rshi_panel_ticks(rshi_canvas *c, const rshi_panel *p);
/* The legend: colour swatches by axis, wrapped to the width. */
int rshi_legend_height(rshi_canvas *c, int width);
rsh_status rshi_legend_draw(rshi_canvas *c, int x, int y, int width);

rsh_status rshi_page_draw(rshi_canvas *c);
rsh_status rshi_canvas_say(rshi_canvas *c, const char *kind, int x, int y, char anchor,
                           const char *label);

/* ---- the page and its scene ---- */

rsh_status rshi_json_write(const rshi_scene *s, const rsh_sink *sink);
rsh_status rshi_json_ranks(const rshi_scene *s, const rsh_sink *sink); /* moves of listed ranks */
rsh_status rshi_json_every(const rshi_scene *s, const rsh_sink *sink); /* totals of every rank */
rsh_status rshi_held_bytes(const rsh_layout *l, int64_t rank, int64_t *bytes); /* of all parts */
rsh_status rshi_html_write(const rshi_scene *s, const rsh_sink *sink);
extern const char rshi_page_script[], rshi_page_style[]; /* generated from the files in page/ */

/* ---- words ---- */

/* Writes the text of a layout, truncated if it is very long, since a page has bounded size. */
#define RSHI_LAYOUT_SHOWN 4096
void rshi_layout_shown(const rsh_layout *l, char text[RSHI_LAYOUT_SHOWN]);
void rshi_bytes_label(int64_t bytes, char label[RSHI_DRAW_LABEL]);    /* "129.0 MiB" */
rsh_status rshi_sink_escaped(const rsh_sink *sink, const char *text); /* for XML and HTML */

#endif
