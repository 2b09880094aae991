/* layout: parts of a layout as products of index sets, for the rooms that plan and move.
 *
 * An index set along one dim is a stripe (equal blocks at equal distances).  A part is a union of
 * pieces, each a product of one stripe per dim.  The ranks that hold the same piece are its
 * holders. */
#ifndef RESHARD_LAYOUT_LAYOUT_H
#define RESHARD_LAYOUT_LAYOUT_H

#include <reshard/layout.h>

#include "base/base.h"

/* Blocks j = 0..count-1 cover [lo + j*stride, lo + j*stride + len); the last one only its first
 * `last` indices.  count 0: empty.  Otherwise 0 < last <= len <= stride (stride is ignored if count
 * is 1). */
typedef struct rshi_stripe {
    int64_t lo, len, stride, count, last;
} rshi_stripe;

static inline int64_t rshi_stripe_size(const rshi_stripe *s) {
    return s->count ? (s->count - 1) * s->len + s->last : 0;
}
/* [lo, hi); empty if lo >= hi */
static inline rshi_stripe rshi_stripe_range(int64_t lo, int64_t hi) {
    if (lo >= hi) return (rshi_stripe){lo, 0, 0, 0, 0};
    return (rshi_stripe){lo, hi - lo, hi - lo, 1, hi - lo};
}
/* Returns one past the last index; lo if empty. */
static inline int64_t rshi_stripe_end(const rshi_stripe *s) {
    return s->count ? s->lo + (s->count - 1) * s->stride + s->last : s->lo;
}
int64_t rshi_stripe_before(const rshi_stripe *s, int64_t x); /* how many of its indices are < x */
bool rshi_stripe_has(const rshi_stripe *s, int64_t x);
int64_t rshi_stripe_at(const rshi_stripe *s, int64_t i); /* its i-th index, 0 <= i < size */

/* Regular runs common to two stripes: run j = 0..count-1 has `len` indices and starts at index
 * number ia + j*da of a and ib + j*db of b. */
typedef struct rshi_run {
    int64_t ia, ib, len, count, da, db;
} rshi_run;
typedef struct rshi_runs {
    rshi_run *run;
    int64_t n, room;
} rshi_runs;
/* Appends the runs of a and b inside [lo, hi), in ascending order of first index.  RSH_ENOMEM. */
rsh_status rshi_stripe_overlap(const rshi_stripe *a, const rshi_stripe *b, int64_t lo, int64_t hi,
                               rshi_runs *out);
/* Does the same for two stripes of one block each, which have at most one run.  Returns false if
 * they have none. */
static inline bool rshi_range_overlap(const rshi_stripe *a, const rshi_stripe *b, int64_t lo,
                                      int64_t hi, rshi_run *out) {
    int64_t from = rshi_max(lo, rshi_max(a->lo, b->lo));
    int64_t to = rshi_min(hi, rshi_min(a->lo + a->last, b->lo + b->last));
    *out = (rshi_run){from - a->lo, from - b->lo, to - from, 1, 0, 0};
    return from < to;
}
/* Returns how many indices a and b have in common inside [lo, hi). */
int64_t rshi_stripe_common(const rshi_stripe *a, const rshi_stripe *b, int64_t lo, int64_t hi);

/* A piece of one rank's part.  Its local dims are those of the tensor: local index i along dim d is
 * the i-th index of set[d].  Element (i0, i1, ..) is at offset  sum (at[d] + i_d) * S[d]  in a part
 * with strides S or, if flat, at  (at[0] + sum i_d * step[d]) * S[0].  All holders have the same
 * elements: the ranks whose coordinates agree on the `fixed` axes, or all ranks of the box. */
typedef struct rshi_piece {
    int64_t rank;
    int64_t part;
    int64_t position; /* on the mesh; boxes: the box's number */
    unsigned fixed;   /* bit set of mesh axes; partial axes are always fixed */
    int seg[RSH_MAX_NDIM];
    rshi_stripe set[RSH_MAX_NDIM];
    bool flat;
    int64_t at[RSH_MAX_NDIM];
    int64_t step[RSH_MAX_NDIM];
} rshi_piece;
int64_t rshi_piece_count(const rsh_layout *l, const rshi_piece *p);
/* Computes the base offset and the strides, in elements, of the piece in a part with strides S. */
void rshi_piece_place(const rsh_layout *l, const rshi_piece *p, const int64_t *S, int64_t *base,
                      int64_t *strides);

/* Lists all non-empty pieces of a rank, in order of local offset within each part.  The caller
 * frees *out with rshi_free. */
rsh_status rshi_layout_pieces(const rsh_layout *l, int64_t rank, rshi_piece **out, int64_t *n);

/* Calls fn once for every piece that overlaps `query` (one stripe per dim) in all dims, at its
 * first holder.  In irregular layouts (flat over segments that are replicated along an axis of
 * their dim) every copy of a segment is a separate piece. */
typedef rsh_status (*rshi_piece_fn)(void *ctx, const rshi_piece *p);
rsh_status rshi_layout_search(const rsh_layout *l, const rshi_stripe *query, rshi_piece_fn fn,
                              void *ctx);
/* The same pieces as series.  The pieces of a series differ only in their coordinate along one dim,
 * and therefore in their indices along it, their offset, position and rank.  In flat layouts and
 * boxes every series has one piece. */
typedef struct rshi_series {
    const rsh_layout *l; /* borrowed, like everything it points to */
    rshi_piece *piece;   /* the piece that was chosen last, at its first holder */
    int dim;
    int64_t n;
    const int64_t *coordinate; /* n of them, along the dim; NULL: `piece` is the only one */
    int64_t base, step; /* piece i is at position base + step * coordinate[i], a single one at
                           `base`; step 0: use rshi_series_look_up */
    struct rshi_cut_walk *walk; /* one for each segment of the dim */
    const int64_t *ranks; /* of each position; NULL: position i is rank first_rank + i */
    int64_t first_rank;
} rshi_series;
typedef rsh_status (*rshi_series_fn)(void *ctx, rshi_series *s);
rsh_status rshi_layout_search_series(const rsh_layout *l, const rshi_stripe *query,
                                     rshi_series_fn fn, void *ctx);
/* Return the position of piece i, the rank at a position of a mesh, and piece i itself, which is
 * valid until the next call of rshi_series_choose. */
int64_t rshi_series_look_up(const rshi_series *s, int64_t i);
static inline int64_t rshi_series_position(const rshi_series *s, int64_t i) {
    if (!s->coordinate) return s->base;
    return s->step ? s->base + s->step * s->coordinate[i] : rshi_series_look_up(s, i);
}
static inline int64_t rshi_series_rank(const rshi_series *s, int64_t position) {
    return s->ranks ? s->ranks[position] : s->first_rank + position;
}
const rshi_piece *rshi_series_choose(rshi_series *s, int64_t i);
bool rshi_layout_irregular(const rsh_layout *l);
/* Calls fn with the numbers of the boxes that overlap `query`, in no particular order. */
typedef rsh_status (*rshi_box_fn)(void *ctx, int64_t box);
rsh_status rshi_boxes_meeting(const rsh_layout *l, const rshi_stripe *query, rshi_box_fn fn,
                              void *ctx);
/* Returns whether the piece is the first copy of its elements.  In an irregular layout, exactly one
 * of the copies of an element is the first. */
bool rshi_piece_first_copy(const rsh_layout *l, const rshi_piece *p);

/* The holders of a piece, in mesh order (boxes: in ascending order).  These functions return the
 * number of holders, the j-th holder, the index of a rank among the holders (-1: it is not one),
 * and the piece of the j-th holder. */
int64_t rshi_piece_holders(const rsh_layout *l, const rshi_piece *p);
int64_t rshi_piece_holder(const rsh_layout *l, const rshi_piece *p, int64_t j);
int64_t rshi_piece_holder_index(const rsh_layout *l, const rshi_piece *p, int64_t rank);
void rshi_piece_at_holder(const rsh_layout *l, const rshi_piece *p, int64_t j, rshi_piece *out);

/* Returns the distance from the first position at partial position 0 that holds a part to holder j
 * of the part at partial position i.  Only for layouts with rshi_layout_has_groups. */
int64_t rshi_layout_copy_offset(const rsh_layout *l, int64_t i, int64_t j);
int64_t rshi_layout_holders(const rsh_layout *l); /* of each part, at a partial position */
/* Do several ranks hold some element at the same partial position?  True also if the layout would
 * have to be searched to find out. */
bool rshi_layout_has_replicas(const rsh_layout *l);

/* For partial layouts.  A partial position is a position along the partial axes.  Return the number
 * of partial positions (1 if the layout is not partial), and the partial position of a piece; make
 * the same piece at partial position i. */
int64_t rshi_layout_partials(const rsh_layout *l);
int64_t rshi_piece_partial(const rsh_layout *l, const rshi_piece *p);
void rshi_piece_at_partial(const rsh_layout *l, const rshi_piece *p, int64_t i, rshi_piece *out);
/* Do two layouts have the same sizes along their partial axes, in mesh order? */
bool rshi_layout_same_partials(const rsh_layout *a, const rsh_layout *b);

/* Returns the position of a rank in the layout: its mesh position or, for boxes, its ordinal; -1 if
 * it is not in the layout.  Used to choose among replicas. */
int64_t rshi_layout_position(const rsh_layout *l, int64_t rank);

/* Returns the index of a rank among the layout's ranks in ascending order; -1 if it is not in the
 * layout. */
int64_t rshi_layout_ordinal(const rsh_layout *l, int64_t rank);

/* Does every dim have a single segment, in a layout without a flat cut and without boxes?  The
 * functions below are for such layouts; they are used to compute totals dim by dim. */
bool rshi_layout_plain(const rsh_layout *l);
int64_t rshi_layout_cut_parts(const rsh_layout *l, int dim); /* coordinates along the dim's cut */
rshi_stripe rshi_layout_cut_stripe(const rsh_layout *l, int dim,
                                   int64_t k); /* the indices of coordinate k */
unsigned rshi_layout_free_axes(const rsh_layout *l); /* neither cut nor partial */
int64_t rshi_layout_positions(const rsh_layout *l);
bool rshi_axis_can_be(const char *name); /* is it a valid axis name in the notation? */
int64_t rshi_layout_axis_step(const rsh_layout *l, int axis);
int64_t rshi_layout_rank_at(const rsh_layout *l, int64_t position);
/* Lists the coordinates k of the dim's cut whose part overlaps `query`, in ascending order.  The
 * caller frees *out with rshi_free. */
rsh_status rshi_layout_cut_meets(const rsh_layout *l, int dim, const rshi_stripe *query,
                                 int64_t **out, int64_t *n);
/* Returns only the number of these coordinates. */
rsh_status rshi_layout_cut_count(const rsh_layout *l, int dim, const rshi_stripe *query,
                                 int64_t *n);

/* Is the part of each rank a product over dims, with every dim divided along its own axes?  Dims
 * may have segments if all of them are cut along the same axes: coordinate k of the dim then has
 * coordinate k of each segment. */
bool rshi_layout_product(const rsh_layout *l);
int rshi_layout_segments(const rsh_layout *l, int dim);
rshi_stripe rshi_layout_segment_stripe(const rsh_layout *l, int dim, int segment, int64_t k);
/* Do all ranks of a mesh that share elements, at the same partial position, hold the same part? */
bool rshi_layout_has_groups(const rsh_layout *l);
/* In such a layout three numbers determine a position: the positions along the axes that cut, along
 * the partial axes, and along the axes that replicate. */
typedef struct rshi_holding {
    int64_t part, partial, holder;
} rshi_holding;
rshi_holding rshi_layout_holding(const rsh_layout *l, int64_t position);
/* Calls fn for the parts of a regular flat layout that overlap a box (one block per dim), as ranges
 * [first, last] of part numbers; these numbers skip empty parts and are used only here.  Cost: one
 * range, or one for each row of the box if parts are shorter than the gaps between its rows. */
typedef rsh_status (*rshi_range_fn)(void *ctx, int64_t first, int64_t last);
rsh_status rshi_layout_flat_meets(const rsh_layout *l, const rshi_stripe *box, rshi_range_fn fn,
                                  void *ctx);

/* Make layouts in which every rank holds the same elements as in l.  In the first, partial axes are
 * replicated.  In the second, every axis that replicates or is partial is a partial sum; boxes stay
 * as they are.  RSH_ETYPE if the dtype has no sums. */
rsh_status rshi_layout_unpartial(const rsh_layout *l, rsh_layout **out);
rsh_status rshi_layout_sum_copies(const rsh_layout *l, rsh_layout **out);
/* Makes a layout like l with other ranks in position order (boxes: rank r becomes ranks[ordinal of
 * r]). */
rsh_status rshi_layout_renumber(const rsh_layout *l, const int64_t *ranks, rsh_layout **out);
/* Returns the largest rank + 1; 0 for a layout without ranks. */
int64_t rshi_layout_rank_bound(const rsh_layout *l);

/* rsh_form_fill with known sizes: sizes[d] (NULL: not known) lists those of all segments of dim d,
 * for dims whose segments are all `_`.  sizes may be NULL. */
rsh_status rshi_form_fill_segments(const rsh_form *f, rsh_dtype dtype, int ndim,
                                   const int64_t *shape, const int64_t *const *sizes,
                                   rsh_text_error *error, rsh_layout **out);

#endif
