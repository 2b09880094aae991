/* Reduced: the result of a reduction that several ranks want is computed once: reduce-scatter, then all-gather.
 *
 * Applies where partial positions are combined and the destination piece has several holders.  The region is cut into
 * one slice for each of them, its owner: in stage 0 a rank combines the contributions to its own slice, in stage 1 it
 * takes the results of the others from their owners.  Where nodes combine first (way_by_node.c) each is a stage later.
 */
#include "plan/impl.h"

int64_t rshi_reduced_slices(const rshi_region *r) {
    return r->pair->reduce && r->extent ? rshi_piece_holders(r->pair->to, r->b) : 1;
}

rsh_status rshi_reduced_edges(rshi_region *r, int64_t n) {
    for (int64_t i = 0; i < n; i++) {
        int64_t owner = rshi_piece_holder(r->pair->to, r->b, i);
        if (!rshi_region_cut(r, rshi_slice_start(r->extent, n, i), rshi_slice_start(r->extent, n, i + 1))) continue;
        if (owner == r->b->rank)
            RSH_TRY(rshi_region_from_sources(r, r->whole.turn));
        else
            RSH_TRY(rshi_region_from_holder(r, r->pair->by_node ? 2 : 1, i, owner, rshi_layout_position(r->pair->to, owner)));
    }
    return RSH_OK;
}
