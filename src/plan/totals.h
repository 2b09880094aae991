/* totals: computes the totals of a direct move from what the ranks of each side hold.
 *
 * A part is what a rank holds: cells, each a product of one stripe per dim.  A group is a part
 * at one partial position, with the ranks that hold it.  On a mesh a rank is in one group.  With
 * boxes each box is a part, and a rank is in the groups of all its boxes. */
#ifndef RESHARD_PLAN_TOTALS_H
#define RESHARD_PLAN_TOTALS_H

#include "plan/impl.h"

/* ---- a dim divided among coordinates, as blocks in ascending order ---- */

typedef struct rshi_dim_blocks {
    int64_t n;
    int64_t *start; /* owned, n + 1: block i is [start[i], start[i + 1]) */
    int64_t *owner; /* owned, n: its coordinate, numbered among those that own something */
    /* owned, n: the last block of the run that begins here and in which owners count up by one */
    int64_t *run;
    int64_t parts; /* number of coordinates */
    int64_t full;  /* number of coordinates that own something */
} rshi_dim_blocks;
/* Of dim d of a product layout.  Free it even if this fails. */
rsh_status rshi_dim_blocks_make(const rsh_layout *l, int d, rshi_dim_blocks *out);
bool rshi_dim_blocks_fit(const rsh_layout *l); /* are the blocks few enough to list? */
void rshi_dim_blocks_free(rshi_dim_blocks *r);

/* Numbers as ranges [lo, hi); disjoint and ascending after rshi_ranges_merge. */
typedef struct rshi_ranges {
    rshi_range *range; /* owned */
    int64_t n, room;
} rshi_ranges;
rsh_status rshi_ranges_add(rshi_ranges *list, int64_t lo, int64_t hi);
int64_t rshi_ranges_merge(rshi_ranges *list); /* returns how many numbers there are */

/* ---- the two sides of a pair ---- */

typedef struct rshi_grouped_side {
    const rsh_layout *l;
    int ndim;
    bool product;                    /* see rshi_layout_product; then `blocks` is set */
    bool single;                     /* no rank is in two groups */
    int64_t parts, partials, groups; /* group = part * partials + partial position */
    int64_t *first_holder, *holder;  /* owned: groups + 1; ordinals of ranks, in mesh order */
    int64_t *group_of;               /* owned: a group of each rank; -1: none */
    int64_t *turn;                   /* owned: the position of each rank; -1: not in the layout */
    int64_t *first_cell;             /* owned: parts + 1 */
    rshi_stripe *cell;               /* owned: ndim stripes each */
    int64_t *size;                   /* owned: elements of each part */
    int64_t least_holders, most_holders; /* of the parts that have elements */
    rshi_dim_blocks blocks[RSH_MAX_NDIM];
} rshi_grouped_side;

/* Can the layout be grouped?  Not if ranks share only some segments, nor with millions of
 * blocks. */
bool rshi_grouped_side_fits(const rsh_layout *l);
/* only_first: `group_of` omits partial positions other than 0.  This is one pass of `w`.  Free the
 * side even if this fails. */
rsh_status rshi_grouped_side_make(const rsh_plan *p, const rsh_layout *l, bool only_first,
                                  rshi_progress *w, rshi_grouped_side *out);
void rshi_grouped_side_free(rshi_grouped_side *s);

static inline const rshi_stripe *rshi_grouped_side_cell(const rshi_grouped_side *s, int64_t cell) {
    return s->cell + cell * s->ndim;
}
static inline int64_t rshi_grouped_side_holders(const rshi_grouped_side *s, int64_t group) {
    return s->first_holder[group + 1] - s->first_holder[group];
}

/* The number of elements that two cells have in common. */
int64_t rshi_cells_common(int ndim, const rshi_stripe *a, const rshi_stripe *b);

/* ---- how many parts of one side overlap cells of the other? ---- */

typedef struct rshi_overlap_counter rshi_overlap_counter;
rsh_status rshi_overlap_counter_new(const rshi_grouped_side *s, rshi_overlap_counter **out);
void rshi_overlap_counter_free(rshi_overlap_counter *m);
/* The number of parts that have elements in common with any of n consecutive cells. */
rsh_status rshi_count_overlaps(rshi_overlap_counter *m, const rshi_stripe *cells, int64_t n,
                               int64_t *count);

/* ---- coverage: how many elements of a cell do other cells cover? ---- */

typedef struct rshi_coverage rshi_coverage;
/* `lines` is a product side.  of_added: the added cells are whole cells of this side; otherwise the
 * cells in queries are.  Classes are independent of one another.  *out is NULL if it would need too
 * much memory. */
rsh_status rshi_coverage_new(const rshi_grouped_side *lines, bool of_added, int64_t classes,
                             rshi_coverage **out);
void rshi_coverage_free(rshi_coverage *m);
void rshi_coverage_add(rshi_coverage *m, int64_t class_, const rshi_stripe *cell);
void rshi_coverage_finish(rshi_coverage *m); /* call it after the last rshi_coverage_add */
/* The number of elements in common with the cells added to the class, counting each cell. */
int64_t rshi_coverage_of(const rshi_coverage *m, int64_t class_, const rshi_stripe *cell);

/* ---- the totals themselves ---- */

/* Adds the totals of the pair if they can be computed without edges.  Otherwise *done is false
 * and nothing is added.  The caller computes moved, local and the maxima. */
rsh_status rshi_direct_totals(const rsh_plan *p, int64_t tensor, rshi_progress *w,
                              rsh_plan_totals *t, rshi_rank_bytes *out, bool *done);

#endif
