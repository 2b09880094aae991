/* layout: parts of a layout as products of index sets, for the rooms that plan and move.
 *
 * An index set along one dim is a stripe (equal blocks at equal distances); a part is a union of pieces, each a product of one stripe per dim.
 * A cell is a piece seen from the tensor: the same elements with all the ranks that hold them. */
#ifndef RESHARD_LAYOUT_LAYOUT_H
#define RESHARD_LAYOUT_LAYOUT_H

#include <reshard/layout.h>

#include "base/base.h"

/* Blocks j = 0..count-1 cover [lo + j*stride, lo + j*stride + len), the last one only `last` of it.  count 0: empty.
 * Otherwise 0 < last <= len <= stride (stride is free when count is 1). */
typedef struct rshi_stripe {
    int64_t lo, len, stride, count, last;
} rshi_stripe;

static inline int64_t rshi_stripe_size(const rshi_stripe *s) { return s->count ? (s->count - 1) * s->len + s->last : 0; }
rshi_stripe rshi_stripe_range(int64_t lo, int64_t hi);                    /* [lo, hi); empty if lo >= hi */
int64_t rshi_stripe_end(const rshi_stripe *s);                            /* one past the last index; lo if empty */
int64_t rshi_stripe_before(const rshi_stripe *s, int64_t x);              /* how many of its indices are < x */
bool rshi_stripe_has(const rshi_stripe *s, int64_t x);
int64_t rshi_stripe_at(const rshi_stripe *s, int64_t i);                  /* its i-th index, 0 <= i < size */
rshi_stripe rshi_stripe_slice(const rshi_stripe *s, int64_t i0, int64_t i1); /* its i0-th to i1-th index; only for count <= 1 or whole */

/* Regular runs common to two stripes: run j = 0..count-1 has `len` indices, starts at a's i-th index ia + j*da and at b's ib + j*db. */
typedef struct rshi_run {
    int64_t ia, ib, len, count, da, db;
} rshi_run;
typedef struct rshi_runs {
    rshi_run *run;
    int64_t n, room;
} rshi_runs;
/* Appends the runs of a and b inside [lo, hi), in ascending order of first index.  RSH_ENOMEM. */
rsh_status rshi_stripe_overlap(const rshi_stripe *a, const rshi_stripe *b, int64_t lo, int64_t hi, rshi_runs *out);
/* How many indices a and b have in common inside [lo, hi). */
int64_t rshi_stripe_common(const rshi_stripe *a, const rshi_stripe *b, int64_t lo, int64_t hi);

/* A piece of one rank's part.  Its local dims are those of the tensor: local index i along dim d is the i-th index of set[d].
 * Element (i0, i1, ..) lies at  sum (at[d] + i_d) * S[d]  of a part with strides S, or, if flat, at  (at[0] + sum i_d * step[d]) * S[0]. */
typedef struct rshi_piece {
    int64_t rank;
    int64_t part;
    rshi_stripe set[RSH_MAX_NDIM];
    bool flat;
    int64_t at[RSH_MAX_NDIM];
    int64_t step[RSH_MAX_NDIM];
} rshi_piece;
int64_t rshi_piece_count(const rsh_layout *l, const rshi_piece *p);
/* Base offset and strides, in elements, of the piece in a part with strides S. */
void rshi_piece_place(const rsh_layout *l, const rshi_piece *p, const int64_t *S, int64_t *base, int64_t *strides);

/* All pieces of a rank, in order of local offset within each part; *out is new (rshi_free), NULL if there are none. */
rsh_status rshi_layout_pieces(const rsh_layout *l, int64_t rank, rshi_piece **out, int64_t *n);

#endif
