/* Relayed: a byte that several ranks of a node need enters the node once.
 *
 * Applies between nodes, where several holders of the destination piece are on one node, no source is, and elements do
 * not grow wider on the way: ranks would then pass on more bytes than they must.  The destination piece is cut along
 * one dim into a range for each of those holders, its owner (relay.c): in stage 0 a rank takes what lies in its own
 * range from the sources, in stage 1 the rest from its owners. */
#include "plan/impl.h"

bool rshi_pair_relays(const rsh_plan *p, const rshi_pair *pair) {
    if (pair->reduce || pair->keep || !rshi_plan_has_nodes(p) || !rsh_layout_ndim(pair->to)) return false;
    return (int64_t)rsh_dtype_size(rsh_layout_dtype(pair->to)) <= pair->wire_size;
}

/* What lies in the same range of many parts is fetched by ranks in the same place of their nodes, so turns count parts
 * too: otherwise few of the replicas that hold it would give it to all of them. */
int64_t rshi_relay_turn(const rsh_layout *to, int64_t position) {
    return rsh_layout_describe(to)->is_boxes ? position : position + rshi_layout_holding(to, position).part;
}

static rsh_status take_or_read(rshi_region *r, int64_t holder) {
    int64_t owner = rshi_piece_holder(r->pair->to, r->b, holder),
            turn = rshi_relay_turn(r->pair->to, rshi_layout_position(r->pair->to, owner));
    if (owner == r->b->rank) return rshi_region_from_sources(r, turn);
    return rshi_region_from_holder(r, 1, holder, owner, turn);
}

/* Restrict the region to [lo, hi) along the dim; false: nothing is left. */
static bool restrict_to(rshi_region *r, int dim, int64_t lo, int64_t hi) {
    const rshi_stripe *a = &r->a->set[dim], *b = &r->b->set[dim];
    r->whole.lo[dim] = rshi_max(b->lo, lo);
    r->whole.hi[dim] = rshi_min(rshi_stripe_end(b), hi);
    return lo < hi && rshi_stripe_common(a, b, r->whole.lo[dim], r->whole.hi[dim]);
}

rsh_status rshi_relayed_edges(rshi_region *r, bool *applies) {
    const rshi_relay *relay;
    *applies = false;
    if (!r->extent || !rshi_pair_relays(r->p, r->pair) || rshi_piece_holders(r->pair->to, r->b) == 1) return RSH_OK;
    RSH_TRY(rshi_relay_find(r->p, r->whole.tensor, r->b, r->edges, &relay));
    if (relay->n < 2 || rshi_holders_on(r->p, r->pair->from, r->a, relay->node)) return RSH_OK;
    *applies = true;
    const rshi_stripe *a = &r->a->set[relay->dim];
    int64_t i = 0, end = rshi_stripe_end(a);
    while (i < relay->n && relay->at[i + 1] <= a->lo) i++; /* most ranges lie before or behind */
    for (; i < relay->n && relay->at[i] < end; i++)
        if (restrict_to(r, relay->dim, relay->at[i], relay->at[i + 1])) RSH_TRY(take_or_read(r, relay->holder[i]));
    return RSH_OK;
}
