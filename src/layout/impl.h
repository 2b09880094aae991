/* The layout itself, seen by this room only. */
#ifndef RESHARD_LAYOUT_IMPL_H
#define RESHARD_LAYOUT_IMPL_H

#include "layout/layout.h"

typedef struct rshi_cut {
    int naxes; /* 0: not cut */
    int axes[RSH_MAX_AXES];
    rsh_rule rule;
    int64_t number;
    int64_t *starts; /* owned; RSH_RULE_SIZES: parts + 1 prefix sums */
    int64_t parts;   /* product of the sizes of its axes; 1 if not cut */
} rshi_cut;

typedef struct rshi_segment {
    int64_t start, size;
    rshi_cut cut;
} rshi_segment;

typedef struct rshi_dim {
    int64_t size;
    int nsegments;         /* at least 1 */
    rshi_segment *segment; /* owned; segments of size 0 included */
    bool group_cut; /* more than one segment, and the cut was written once, after the parenthesis */
    unsigned axes;         /* bit set of the mesh axes that cut this dim */
} rshi_dim;

typedef struct rshi_ranked_box {
    rsh_box box;
    int64_t nranks;
    int64_t *ranks; /* owned, ascending */
} rshi_ranked_box;

typedef struct rshi_rank_entry {
    int64_t rank;
    int64_t value; /* mesh: position; boxes: first entry of box_of */
} rshi_rank_entry;
int rshi_rank_entry_compare(const void *x, const void *y); /* by rank, then value: for qsort */
#define RSHI_RANK_MAX INT64_C(2147483647)

struct rsh_layout {
    rsh_dtype dtype;
    int ndim;
    int64_t shape[RSH_MAX_NDIM];
    int64_t count;

    /* mesh form */
    rshi_dim dim[RSH_MAX_NDIM];
    rshi_cut flat;
    int naxes; /* 0: no mesh was written, one position */
    rsh_axis axis[RSH_MAX_AXES];
    int64_t axis_step[RSH_MAX_AXES]; /* positions between neighbours along the axis; the last axis
                                        has 1 */
    int64_t npositions;              /* 1 without a mesh */
    int64_t first_rank;              /* ranks are first_rank + position unless `ranks` is there */
    int64_t *ranks;                  /* owned, by position; NULL: consecutive */
    rsh_op op;
    unsigned partial; /* bit set of axes */
    bool has_order;   /* written and not the default */
    int order[RSH_MAX_NDIM];

    /* boxes form */
    bool is_boxes;
    int64_t nboxes;
    rshi_ranked_box *boxes; /* owned, in canonical order */
    int64_t *box_of; /* owned: box numbers, grouped by rank in `entry` order; ascending, which is
                        each rank's order */
    int index_dim;          /* the dim along which boxes are looked up */
    int64_t *by_start;      /* owned: box numbers by rising lo[index_dim] */
    int64_t *reach;         /* owned: the largest hi[index_dim] among by_start[0..i] */

    /* by ascending rank; NULL for consecutive ranks on a mesh.  Boxes: nranks + 1 entries, the last
     * marks the end of box_of */
    rshi_rank_entry *entry;
    int64_t nranks;

    char *text; /* owned, canonical */
    uint64_t hash;
};

/* Coordinate of a position along an axis, and along all axes of a cut taken as one, outermost
 * first. */
static inline int64_t rshi_coordinate(const rsh_layout *l, int64_t position, int axis) {
    return position / l->axis_step[axis] % l->axis[axis].size;
}
int64_t rshi_cut_coordinate(const rsh_layout *l, const rshi_cut *c, int64_t position);
/* What coordinate k of a cut of [start, start + size) holds, and which coordinate holds start + i
 * (0 <= i < size). */
rshi_stripe rshi_cut_stripe(const rsh_layout *l, const rshi_cut *c, int64_t start, int64_t size,
                            int64_t k);
int64_t rshi_cut_locate(const rsh_layout *l, const rshi_cut *c, int64_t size, int64_t i);
/* How many parts that hold something come before the one that holds start + i; not for cyclic cuts
 * and explicit sizes. */
int64_t rshi_cut_full_before(const rsh_layout *l, const rshi_cut *c, int64_t size, int64_t i);
/* Local extent of a dim at a position: its segments' pieces one after the other. */
int64_t rshi_dim_extent(const rsh_layout *l, int dim, int64_t position);
/* The pieces at one mesh position, appended to a growing list. */
typedef struct rshi_pieces {
    rshi_piece *piece;
    int64_t n, room;
} rshi_pieces;
rsh_status rshi_pieces_at(const rsh_layout *l, int64_t position, rshi_pieces *out);
unsigned rshi_cut_axes(const rshi_cut *c); /* as a bit set */

/* From where in a text each element of a description came, to name it in errors; all columns are
 * 1-based, 0 = unknown. */
typedef struct rshi_where {
    const char *name; /* "layout" */
    int line;
    int dim[RSH_MAX_NDIM];          /* column of the dim */
    int cut[RSH_MAX_NDIM];          /* of the dim's own cut */
    int *segment[RSH_MAX_NDIM];     /* of each segment */
    int *segment_cut[RSH_MAX_NDIM]; /* of each segment's cut */
    int flat, mesh, ranks, partial, order, boxes;
    int axis[RSH_MAX_AXES]; /* of each axis of the mesh */
    int *box;               /* of each box */
} rshi_where;

/* The one constructor: checks everything that NOTATION demands and builds; `where` NULL when not
 * from text. */
rsh_status rshi_layout_build(const rsh_layout_desc *desc, const rshi_where *where,
                             rsh_layout **out);
/* Boxes tile the shape exactly (sweep, n log n); empty boxes are free.  `column` as where->box, or
 * NULL. */
rsh_status rshi_boxes_check(const rsh_layout *l, const rshi_where *where);
/* Canonical order, and box_of and entry. */
rsh_status rshi_boxes_arrange(rsh_layout *l);
/* Boxes in the order in which search looks them up: index_dim, by_start, reach. */
rsh_status rshi_boxes_index(rsh_layout *l);
/* Boxes that may meet [lo, hi) along index_dim are by_start[i] for i from *first down to 0, while
 * reach[i] > lo. */
int64_t rshi_boxes_last(const rsh_layout *l, int64_t hi);
/* Canonical text into t. */
void rshi_layout_write(const rsh_layout *l, rshi_text *t);

#endif
