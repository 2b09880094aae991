/* sums: totals of a pair of layouts from what the ranks of each side hold, seen by the files that
 * add them up.
 *
 * A part is what a rank holds: cells, each a product of one stripe per dim.  A group is a part at
 * one partial position, with the ranks that hold it.  On a mesh a rank is in one group; with boxes
 * each box is a part, and a rank is in the groups of all its boxes. */
#ifndef RESHARD_PLAN_SUMS_H
#define RESHARD_PLAN_SUMS_H

#include "plan/slices.h"

/* ---- rulers: a dim divided among coordinates, as blocks in ascending order ---- */

typedef struct rshi_ruler {
    int64_t n;
    int64_t *line;  /* owned, n + 1: block i is [line[i], line[i + 1]) */
    int64_t *owner; /* owned, n: its coordinate, counted among those that own something */
    int64_t *run;   /* owned, n: the last block up to which owners count up by one from here on */
    int64_t parts;  /* coordinates */
    int64_t full;   /* coordinates that own something */
} rshi_ruler;
/* Of dim d of a product layout.  RSH_ENOMEM: free it all the same. */
rsh_status rshi_ruler_make(const rsh_layout *l, int d, rshi_ruler *out);
bool rshi_rulers_fit(const rsh_layout *l); /* are the blocks of each dim few enough to list? */
void rshi_ruler_free(rshi_ruler *r);

/* Numbers as ranges [lo, hi), disjoint and ascending once settled. */
typedef struct rshi_ranges {
    rshi_range *range; /* owned */
    int64_t n, room;
} rshi_ranges;
rsh_status rshi_ranges_add(rshi_ranges *list, int64_t lo, int64_t hi);
int64_t rshi_ranges_settle(rshi_ranges *list); /* how many numbers there are */

/* ---- halves: the layouts of a pair ---- */

typedef struct rshi_held {
    int64_t group, index; /* a rank is holder number `index` of the group */
} rshi_held;

typedef struct rshi_grouped_side {
    const rsh_layout *l;
    int ndim;
    bool product; /* see rshi_layout_product; then there are rulers and coordinates */
    bool single;  /* no rank is in two groups */
    int64_t parts, partials, groups; /* group = part * partials + partial position */
    int64_t *first_holder, *holder;  /* owned: groups + 1; ordinals of ranks, in mesh order */
    int64_t *first_held;             /* owned: ranks + 1 */
    rshi_held *held;                 /* owned: what each rank holds; see rshi_grouped_side_make */
    int64_t *turn;                   /* owned: position of each rank, -1 if it is not in it */
    int64_t *first_cell;             /* owned: parts + 1 */
    rshi_stripe *cell;               /* owned: ndim stripes each */
    int64_t *size;                   /* owned: elements of each part */
    int64_t *coordinate;             /* owned: of each part, ndim of them */
    int64_t least_holders, most_holders; /* of the parts that have elements */
    rshi_ruler ruler[RSH_MAX_NDIM];
} rshi_grouped_side;

/* Can the layout be seen as a half?  Not where ranks hold the same of some segments only, nor with
 * millions of blocks. */
bool rshi_grouped_side_fits(const rsh_layout *l);
/* only_first: what lies at other partial positions than 0 is left out of `held`.  A pass of `w`.
 * RSH_ENOMEM: free it all the same. */
rsh_status rshi_grouped_side_make(const rsh_plan *p, const rsh_layout *l, bool only_first,
                                  rshi_progress *w, rshi_grouped_side *out);
void rshi_grouped_side_free(rshi_grouped_side *s);

static inline const rshi_stripe *rshi_grouped_side_cell(const rshi_grouped_side *s, int64_t cell) {
    return s->cell + cell * s->ndim;
}
static inline int64_t rshi_grouped_side_holders(const rshi_grouped_side *s, int64_t group) {
    return s->first_holder[group + 1] - s->first_holder[group];
}

/* A cell of a side, restricted to [lo, hi) along `dim`; dim -1: whole. */
typedef struct rshi_clip {
    const rshi_stripe *set;
    int dim;
    int64_t lo, hi;
} rshi_clip;
/* Elements that a cell and a restricted one have in common. */
int64_t rshi_clip_common(int ndim, const rshi_stripe *a, const rshi_clip *b);

/* A stripe for each dim around it. */
void rshi_clip_hull(int ndim, const rshi_clip *c, rshi_stripe *out);

/* ---- how many parts of a half meet cells of the other? ---- */

typedef struct rshi_encounter rshi_encounter;
rsh_status rshi_encounter_new(const rshi_grouped_side *s, rshi_encounter **out);
void rshi_encounter_free(rshi_encounter *m);
/* Parts that have elements in common with any of n cells. */
rsh_status rshi_encounter_count(rshi_encounter *m, const rshi_clip *cells, int64_t n,
                                int64_t *count);

/* ---- measures: how much of a cell do weighted cells cover? ---- */

typedef struct rshi_measure rshi_measure;
/* Lines are those of a product side: of the cells that are added (then these are whole cells of
 * that side) or of those that are asked for.  Each class is on its own.  *out is NULL if that would
 * need too much memory. */
rsh_status rshi_measure_new(const rshi_grouped_side *lines, bool of_added, int64_t classes,
                            rshi_measure **out);
void rshi_measure_free(rshi_measure *m);
void rshi_measure_add(rshi_measure *m, int64_t class_, const rshi_clip *cell, int64_t weight);
void rshi_measure_settle(rshi_measure *m); /* after the last one was added */
/* The sum, over all that was added to the class, of weight times common elements. */
int64_t rshi_measure_of(const rshi_measure *m, int64_t class_, const rshi_stripe *cell);

/* ---- the sums themselves ---- */

/* Adds what the pair costs, if it is known without its edges: *done is false otherwise, and nothing
 * was added.  moved, local and the largest are left to the caller. */
rsh_status rshi_sums_of_pair(const rsh_plan *p, int64_t tensor, rshi_progress *w,
                             rsh_plan_totals *t, rshi_rank_bytes *out, bool *done);

#endif
