/* draw: a scene computed once from what layouts and plans say in public, and formats that put it on
 * paper.
 *
 * Two dims of the tensor are drawn, one down and one across; all other dims are looked at where
 * their index is 0.  The borders of all parts, of both layouts, cut the two dims into at most
 * RSHI_DRAW_INTERVALS intervals each: a cell is one interval of each.  So a cell lies wholly inside
 * or outside of every part, and an interval is one bit of a mask.  What has more borders is drawn
 * from index 0 up to the last border kept: a corner of the tensor, exact. */
#ifndef RESHARD_DRAW_IMPL_H
#define RESHARD_DRAW_IMPL_H

#include <reshard/draw.h>

#include "base/base.h"

#define RSHI_DRAW_INTERVALS 64 /* bits of a mask */
#define RSHI_DRAW_LABEL 48     /* bytes of a label with its NUL */

/* Along one dim: interval i is [at[i], at[i + 1]). */
typedef struct rshi_borders {
    int n;     /* intervals */
    int limit; /* the most that are kept */
    int64_t at[RSHI_DRAW_INTERVALS + 1];
} rshi_borders;

void rshi_borders_add(rshi_borders *e, int64_t x);

/* A set of ranks, added in ascending order: enough of it to name it, colour it and tell it from
 * another. */
typedef struct rshi_ranks {
    int64_t count;
    int64_t first[4];
    int64_t last;
    bool consecutive;
    uint64_t hash;
} rshi_ranks;

void rshi_ranks_add(rshi_ranks *s,
                    int64_t rank); /* a rank that was just added is not added again */
bool rshi_ranks_equal(const rshi_ranks *a, const rshi_ranks *b);
/* "3", "0,4", "0-7" or "0,4,8,12,.. (64)". */
void rshi_ranks_label(const rshi_ranks *s, char label[RSHI_DRAW_LABEL]);

/* Who makes up the value of a cell of a partial layout: groups of ranks that are combined, each a
 * replica of the others.  The first groups are enough to name them. */
#define RSHI_DRAW_GROUPS 2
#define RSHI_SUM_LABEL (2 * RSHI_DRAW_LABEL + 8)
typedef struct rshi_sum {
    rshi_ranks group[RSHI_DRAW_GROUPS];
    int64_t leader[RSHI_DRAW_GROUPS]; /* of each: its rank at the origin of the partial axes */
} rshi_sum;

int64_t rshi_sum_leader(const rsh_layout *l, int64_t rank); /* of the group of a rank */
void rshi_sum_add(rshi_sum *s, int64_t rank, int64_t leader);

/* How the first holder of a cell of `to` comes by it. */
typedef enum rshi_origin_kind {
    RSHI_ORIGIN_UNKNOWN,
    RSHI_ORIGIN_STAYS,
    RSHI_ORIGIN_MOVES,
    RSHI_ORIGIN_REDUCED
} rshi_origin_kind;
typedef struct rshi_origin {
    rshi_origin_kind kind;
    rshi_ranks from;
} rshi_origin;

typedef struct rshi_side {
    const rsh_layout *layout;
    int64_t nshown;   /* ranks that hold a cell of the picture */
    rshi_ranks *cell; /* rows * columns, row-major: who holds it */
    rshi_sum *sum;    /* as `cell`, of a partial layout; else NULL */
} rshi_side;

/* Of a cell of a partial layout: "0-3", "0-3 or 4-7" or "0,4 (4 replicas)". */
void rshi_sum_label(const rshi_side *side, int i, char label[RSHI_SUM_LABEL]);

typedef struct rshi_scene {
    const rsh_plan *plan; /* NULL: one layout */
    int nsides;
    rshi_side side[2];
    rshi_origin *origin; /* of side[1], as its cells; NULL with one side */
    rsh_plan_totals totals;
    int down, across; /* dims; -1: there is none, the interval is [0, 1) */
    rshi_borders borders[RSH_MAX_NDIM + 1]; /* by dim; those not drawn, and the last, are [0, 1) */
} rshi_scene;

/* `limit`: intervals along a dim.  Free with rshi_scene_free, after failure too. */
rsh_status rshi_scene_make(rshi_scene *s, const rsh_plan *plan, const rsh_layout *from,
                           const rsh_layout *to, int limit);
void rshi_scene_free(rshi_scene *s);
const rshi_borders *rshi_scene_rows(const rshi_scene *s);
const rshi_borders *rshi_scene_columns(const rshi_scene *s);
/* One sentence about what the picture leaves out, number i; false when there is no such sentence.
 */
bool rshi_scene_note(const rshi_scene *s, int i, char *text, size_t room);

/* Borders of every dim, both layouts together. */
rsh_status rshi_scene_borders(rshi_scene *s, int limit);
/* The cells that one rank holds: fn(ctx, bits of rows, bits of columns), a few times. */
typedef void (*rshi_cells_fn)(void *ctx, uint64_t rows, uint64_t columns);
rsh_status rshi_scene_cells(const rshi_scene *s, const rsh_layout *l, int64_t rank,
                            rshi_cells_fn fn, void *ctx);
rsh_status rshi_scene_origins(rshi_scene *s);
/* Are contributions combined on the way, and not kept apart on both sides? */
bool rshi_scene_reduces(const rshi_scene *s);

/* ---- formats ---- */

typedef struct rshi_figure {
    const char *kind; /* its class in SVG */
    const char *side; /* "from", "to" or "" */
    int x, y, w, h;   /* of a line: from (x, y) by (w, h); of a text: where it is anchored */
    int64_t rank;     /* who holds it after the move; -1: nobody */
    int64_t source;   /* whose colour it has; -1: nobody's */
    bool pale;
    char anchor; /* of a text: 's'tart, 'm'iddle or 'e'nd */
    const char *label, *tip;
} rshi_figure;

struct rshi_canvas;
typedef struct rshi_format {
    int intervals;             /* the most along a dim when all ranks can be told apart */
    int width, height;         /* of a panel */
    int strip;                 /* height of a 1-D panel */
    int min_width, min_height; /* of an interval */
    int gap, line;             /* between panels, between lines of text */
    int margin, top;           /* left and right of the page, above and below */
    int letter;                /* width of a letter */
    int tick_width, tick_height; /* room of an index at an border; 0: no indices */
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
    int64_t marks;      /* so far, for ids */
    int width, height;  /* of the page */
    void *glyphs;       /* of the text format */
} rshi_canvas;

extern const rshi_format rshi_format_text, rshi_format_ansi, rshi_format_svg, rshi_format_html;

/* What SVG has and HTML takes over. */
rsh_status rshi_svg_begin(rshi_canvas *c, int width, int height);
rsh_status rshi_svg_box(rshi_canvas *c, const rshi_figure *m);
rsh_status rshi_svg_text(rshi_canvas *c, const rshi_figure *m);
rsh_status rshi_svg_line(rshi_canvas *c, const rshi_figure *m);
rsh_status rshi_svg_end(rshi_canvas *c);
#define RSHI_SVG_LOOK                                                                              \
    .intervals = RSHI_DRAW_INTERVALS, .width = 384, .height = 384, .strip = 64, .min_width = 4,    \
    .min_height = 4, .gap = 150, .margin = 20, .top = 16, .line = 18, .letter = 8,                 \
    .tick_width = 44, .tick_height = 18, .box = rshi_svg_box, .text = rshi_svg_text,               \
    .line_to = rshi_svg_line

rsh_status rshi_page_draw(rshi_canvas *c);

/* ---- colours and words ---- */

typedef struct rshi_colour {
    int red, green, blue;
} rshi_colour;
/* Number i of n, told apart by colour-blind readers too; `pale` mixes it with white. */
rshi_colour rshi_colour_of(int64_t i, int64_t n, bool pale);
/* Of 0..1 on a scale from light to dark. */
rshi_colour rshi_colour_heat(double x);
bool rshi_colour_dark(rshi_colour c); /* is white text readable on it? */
rshi_colour rshi_figure_colour(const rshi_scene *s, const rshi_figure *m);

void rshi_bytes_label(int64_t bytes, char label[RSHI_DRAW_LABEL]); /* "129.0 MiB" */
rsh_status rshi_sink_escaped(const rsh_sink *sink, const char *text); /* for XML and HTML */
/* The table of totals and the map of bytes between ranks, below the picture on a page. */
rsh_status rshi_html_tables(const rshi_scene *s, const rsh_sink *sink);

#endif
