/* The layout struct, private to this room. */
#ifndef RESHARD_LAYOUT_IMPL_H
#define RESHARD_LAYOUT_IMPL_H

#include <stdatomic.h>

#include "layout/layout.h"

typedef struct rshi_resolved_cut {
    int naxes; /* 0: not cut */
    int axes[RSH_MAX_AXES];
    rsh_cut_rule rule;
    int64_t number;
    int64_t *starts; /* owned; RSH_CUT_SIZES: parts + 1 prefix sums */
    int64_t parts;   /* product of the sizes of its axes; 1 if not cut */
} rshi_resolved_cut;

typedef struct rshi_resolved_segment {
    int64_t start, size;
    rshi_resolved_cut cut;
} rshi_resolved_segment;

typedef struct rshi_resolved_dim {
    int64_t size;
    int nsegments;         /* at least 1 */
    rshi_resolved_segment *segment; /* owned; segments of size 0 included */
    unsigned axes; /* bit set of the mesh axes that cut segments of this dim that have elements */
} rshi_resolved_dim;

typedef struct rshi_rank_entry {
    int64_t rank;
    int64_t value; /* mesh: position; boxes: first entry of box_of */
} rshi_rank_entry;
int rshi_rank_entry_compare(const void *x, const void *y); /* by rank, then value: for qsort */
#define RSHI_RANK_MAX INT64_C(2147483647)

struct rsh_layout {
    atomic_long refs;
    rsh_layout_desc desc; /* canonical; owns its lists.  The members below are derived from it */
    int64_t shape[RSH_MAX_NDIM];
    int64_t count;

    /* mesh form */
    rshi_resolved_dim dim[RSH_MAX_NDIM];
    rshi_resolved_cut flat;
    int64_t axis_step[RSH_MAX_AXES]; /* distance of neighbouring positions along the axis; 1 for the
                                        last axis */
    int64_t npositions;              /* 1 without a mesh */
    unsigned partial;                /* bit set of axes */

    /* boxes form */
    int64_t *box_ranks; /* owned: the lists of ranks of all boxes; ascending in each box */
    int64_t *box_of; /* owned: box numbers, grouped by rank in `entry` order; ascending, which is
                        each rank's order */
    int64_t *by_place;  /* owned: numbers of the non-empty boxes, in tree order */
    int64_t nplaced;
    int64_t *bounds;    /* owned: lo and hi of each node of the tree, ndim each */

    /* By ascending rank; NULL for consecutive ranks on a mesh.  Boxes: nranks + 1 entries, of which
     * the last marks the end of box_of. */
    rshi_rank_entry *entry;
    int64_t nranks;

    char *text; /* owned, canonical */
    uint64_t hash;
};

/* Return the coordinate of a position along an axis, and along all axes of a cut combined,
 * outermost first. */
static inline int64_t rshi_coordinate(const rsh_layout *l, int64_t position, int axis) {
    return position / l->axis_step[axis] % l->desc.axis[axis].size;
}
int64_t rshi_cut_coordinate(const rsh_layout *l, const rshi_resolved_cut *c, int64_t position);
/* Return the indices that coordinate k of a cut of [start, start + size) holds, and the coordinate
 * that holds start + i (0 <= i < size). */
rshi_stripe rshi_cut_stripe(const rsh_layout *l, const rshi_resolved_cut *c, int64_t start,
                            int64_t size, int64_t k);
int64_t rshi_cut_locate(const rsh_layout *l, const rshi_resolved_cut *c, int64_t size, int64_t i);
/* The state of a walk over consecutive coordinates of a cut.  It gives the same stripes as
 * rshi_cut_stripe, but common values are computed once. */
typedef struct rshi_cut_walk {
    const rsh_layout *l;        /* borrowed, as is the cut */
    const rshi_resolved_cut *c;
    int64_t start, size;
    int64_t parts; /* of the innermost level */
    int64_t outer; /* the current part of the outer levels; -1: none */
    int64_t lo, n; /* the indices of that part */
    int64_t each, longer; /* its parts have `each` indices; balanced: the first `longer`
                             have one more */
} rshi_cut_walk;
void rshi_cut_walk_start(const rsh_layout *l, const rshi_resolved_cut *c, int64_t start,
                         int64_t size, rshi_cut_walk *w);
rshi_stripe rshi_cut_walk_at(rshi_cut_walk *w, int64_t k);
/* Counts the non-empty parts before the one that holds start + i; not for cyclic cuts and explicit
 * sizes. */
int64_t rshi_cut_full_before(const rsh_layout *l, const rshi_resolved_cut *c, int64_t size,
                             int64_t i);
/* Returns the local extent of a dim at a position: the sum over its segments. */
int64_t rshi_dim_extent(const rsh_layout *l, int dim, int64_t position);
/* The pieces at one mesh position, appended to a growing list. */
typedef struct rshi_pieces {
    rshi_piece *piece;
    int64_t n, room;
} rshi_pieces;
rsh_status rshi_pieces_at(const rsh_layout *l, int64_t position, rshi_pieces *out);

/* The state of flattening a part while the pieces of its flat coordinates are made.  All flat
 * coordinates share the part, and there may be as many of them as ranks. */
typedef struct rshi_flattening {
    const rsh_layout *l;
    rshi_piece p;                                     /* the piece under construction */
    int64_t extent[RSH_MAX_NDIM], step[RSH_MAX_NDIM]; /* of the part */
    int64_t total;                                    /* elements of the part */
    rshi_stripe whole[RSH_MAX_NDIM]; /* the part's indices in the first segment of each dim */
    bool plain; /* `whole` has all indices of each dim, in one block */
    rshi_cut_walk walk;              /* over the flat coordinates */
    int64_t lo[RSH_MAX_NDIM], hi[RSH_MAX_NDIM];       /* the current local box */
    int64_t first;                                    /* start of the flat range */
    const rshi_stripe *query; /* borrowed: only pieces that overlap it are made; NULL: all */
    rsh_status (*fn)(void *ctx, rshi_piece *p); /* may move the piece to another holder */
    void *ctx;
} rshi_flattening;
/* Starts flattening the part at a position, which may be that of any flat coordinate. */
void rshi_flatten(const rsh_layout *l, int64_t position, const rshi_stripe *query,
                  rshi_flattening *f);
/* Calls fn for the pieces of flat coordinate k, which is at that position. */
rsh_status rshi_flattening_pieces(rshi_flattening *f, int64_t position, int64_t k);
unsigned rshi_cut_axes(const rshi_resolved_cut *c); /* as a bit set */
/* Are both cuts along the same axes, in the same order? */
bool rshi_cut_same_axes(const rshi_resolved_cut *a, const rshi_resolved_cut *b);
/* Return the contribution of coordinate k of a cut to the position; and the contribution of one
 * step if all contributions are multiples of it (k times for coordinate k), otherwise 0. */
int64_t rshi_cut_position(const rsh_layout *l, const rshi_resolved_cut *c, int64_t k);
int64_t rshi_cut_step(const rsh_layout *l, const rshi_resolved_cut *c);
/* Converts a piece to that of the holder at `position` of a mesh. */
void rshi_piece_move(const rsh_layout *l, int64_t position, rshi_piece *p);

/* The subject of an error: a position in the text or, if that is unknown, an item by name. */
typedef struct rshi_text_place {
    int at;           /* 1-based offset in bytes; 0: unknown, as always without a text */
    const char *noun; /* "dim"; NULL: the whole layout */
    int64_t number;   /* of the noun; -1: there is only one */
    int dim;          /* of a segment; -1: none */
} rshi_text_place;

/* The position of each item of a description in a text: values of rshi_text_place.at. */
typedef struct rshi_text_origin {
    const char *text; /* NULL: the description came from code */
    int dim[RSH_MAX_NDIM];
    int cut[RSH_MAX_NDIM];          /* the dim's own cut */
    int *segment[RSH_MAX_NDIM];     /* each segment; NULL: unknown; the same for the lists below */
    int *segment_cut[RSH_MAX_NDIM]; /* each segment's cut */
    int flat, mesh, ranks, partial, order, boxes;
    int axis[RSH_MAX_AXES]; /* each axis of the mesh */
    int *box;               /* each box */
    rsh_text_error *error;  /* written by failures; never NULL if there is a text */
} rshi_text_origin;
static inline int rshi_origin_at(const int *list, int64_t i) { return list ? list[i] : 0; }
/* Sets every error message about a layout: "layout:LINE:COLUMN: message" or "layout: item:
 * message". */
rsh_status rshi_origin_fail(const rshi_text_origin *o, rshi_text_place place, rsh_status status,
                            const char *format, ...) __attribute__((format(printf, 4, 5)));

/* The only constructor: checks all rules of the notation and builds. */
rsh_status rshi_layout_build(const rsh_layout_desc *desc, const rshi_text_origin *origin,
                             rsh_layout **out);

/* State of the builder. */
typedef struct rshi_builder {
    const rsh_layout_desc *desc; /* the requested layout */
    const rshi_text_origin *origin;
    rsh_layout *l;
    unsigned used; /* bit set of the axes that cut or are partial */
} rshi_builder;
/* For functions with a builder `b`. */
#define RSHI_CHECK(condition, place, ...)                                                          \
    do {                                                                                           \
        if (!(condition)) return rshi_origin_fail(b->origin, (place), RSH_EVALUE, __VA_ARGS__);    \
    } while (0)
rsh_status rshi_count_elements(rshi_builder *b); /* l->count from l->shape */
rsh_status rshi_boxes_build(rshi_builder *b);
/* Checks that the boxes tile the shape exactly.  A sweep, n log n. */
rsh_status rshi_boxes_check(const rsh_layout *l, const rshi_text_origin *origin);
/* Sorts boxes into canonical order; sets box_of and entry. */
rsh_status rshi_boxes_arrange(rsh_layout *l);
/* Builds the search tree of the boxes: by_place, bounds. */
rsh_status rshi_boxes_index(rsh_layout *l);
/* Writes the canonical text to t. */
void rshi_layout_write(const rsh_layout *l, rshi_text *t);

#endif
