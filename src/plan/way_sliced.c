/* Sliced: replicas of the source share the sending of one region.
 *
 * Applies where the plan as a whole sends less from its busiest rank that way (choose.c), several holders could serve
 * the destination, and each would send 16 KiB at least.  The region is cut into one slice for each of them; slice i
 * comes from the candidate whose turn is i after the destination's own. */
#include "plan/impl.h"

int64_t rshi_sliced_slices(const rshi_region *r) {
    if (!r->pair->slice || r->pair->keep || !r->extent) return 1;
    int64_t n = rshi_serving_candidates(r->p, r->pair, r->a, r->b->rank);
    return n > 1 && rshi_region_bytes(r) / n >= RSHI_SLICE_BYTES ? n : 1;
}

rsh_status rshi_sliced_edges(rshi_region *r, int64_t n) {
    for (int64_t i = 0; i < n; i++)
        if (rshi_region_cut(r, rshi_slice_start(r->extent, n, i), rshi_slice_start(r->extent, n, i + 1)))
            RSH_TRY(rshi_region_from_sources(r, r->whole.turn + i));
    return RSH_OK;
}
