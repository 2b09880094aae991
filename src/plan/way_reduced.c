/* Reduced: the result of a reduction that several ranks want is computed once: reduce-scatter, then all-gather.
 *
 * Applies where partial positions are combined and the destination piece has several holders.  The piece is cut along
 * its longest dim into one slice for each of them, its owner: in stage 0 a rank combines the contributions to its own
 * slice, in stage 1 it takes the results of the others from their owners. */
#include "plan/impl.h"

int64_t rshi_reduced_slices(const rshi_region *r) {
    return r->pair->reduce && r->extent ? rshi_piece_holders(r->pair->to, r->b) : 1;
}

/* Restrict the region to slice i of n of the destination piece; false: nothing is left. */
static bool restrict_to(rshi_region *r, int64_t n, int64_t i) {
    int dim = rshi_piece_longest_dim(r->pair->to, r->b);
    const rshi_stripe *a = &r->a->set[dim], *b = &r->b->set[dim];
    int64_t *lo = &r->whole.lo[dim], *hi = &r->whole.hi[dim];
    *lo = rshi_stripe_slice(b, n, i);
    *hi = rshi_stripe_slice(b, n, i + 1);
    return *lo < *hi && rshi_stripe_common(a, b, *lo, *hi);
}

rsh_status rshi_reduced_edges(rshi_region *r, int64_t n) {
    for (int64_t i = 0; i < n; i++) {
        int64_t owner = rshi_piece_holder(r->pair->to, r->b, i);
        if (!restrict_to(r, n, i)) continue;
        if (owner == r->b->rank)
            RSH_TRY(rshi_region_from_sources(r, r->whole.turn));
        else
            RSH_TRY(rshi_region_from_holder(r, 1, i, owner, rshi_layout_position(r->pair->to, owner)));
    }
    return RSH_OK;
}
