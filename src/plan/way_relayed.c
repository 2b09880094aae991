/* Relayed: a byte that several ranks of a node need enters the node once.
 *
 * Applies between nodes, where several holders of the destination piece are on one node, no source is, and elements do
 * not grow wider on the way: ranks would then pass on more bytes than they must.  The region is cut into one slice for
 * each of those holders, its owner: in stage 0 a rank takes its own slice from the sources, in stage 1 the others from
 * their owners. */
#include "plan/impl.h"

int64_t rshi_relayed_slices(const rshi_region *r) {
    const rshi_pair *pair = r->pair;
    if (pair->reduce || pair->keep || !rshi_plan_has_nodes(r->p) || !r->extent) return 1;
    if (rshi_piece_holders(pair->to, r->b) == 1) return 1;
    if ((int64_t)rsh_dtype_size(rsh_layout_dtype(pair->to)) > pair->wire_size) return 1;
    int64_t node = rshi_plan_node(r->p, r->b->rank);
    if (rshi_holders_on(r->p, pair->from, r->a, node)) return 1;
    return rshi_holders_on(r->p, pair->to, r->b, node);
}

static rsh_status take_or_read(rshi_region *r, int64_t holder) {
    int64_t owner = rshi_piece_holder(r->pair->to, r->b, holder);
    if (owner == r->b->rank) return rshi_region_from_sources(r, r->whole.turn);
    return rshi_region_from_holder(r, 1, holder, owner, rshi_layout_position(r->pair->to, owner));
}

rsh_status rshi_relayed_edges(rshi_region *r, int64_t n) {
    int64_t node = rshi_plan_node(r->p, r->b->rank), holder = -1;
    for (int64_t i = 0; i < n; i++) {
        do holder++;
        while (rshi_plan_node(r->p, rshi_piece_holder(r->pair->to, r->b, holder)) != node);
        if (rshi_region_cut(r, rshi_slice_start(r->extent, n, i), rshi_slice_start(r->extent, n, i + 1)))
            RSH_TRY(take_or_read(r, holder));
    }
    return RSH_OK;
}
