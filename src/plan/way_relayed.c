/* Relayed: a byte that several ranks of a node need enters the node once.
 *
 * Applies between nodes, where several holders of the destination piece are on one node, no source is, and elements do
 * not grow wider on the way: ranks would then pass on more bytes than they must.  The destination piece is cut along
 * one dim into a range for each of those holders, its owner (relay.c): in stage 0 a rank takes what lies in its own
 * range from the sources, in stage 1 the rest from its owners.  What an owner fetched may come from many sources; it is
 * passed on in stretches, each as long as nothing of it is near. */
#include "plan/relay.h"

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

/* ---- in stretches ---- */

bool rshi_relay_in_stretches(const rsh_plan *p, int64_t tensor, const rshi_relay *relay,
                             const rshi_rank_edges *edges) {
    const rshi_pair *pair = &p->pair[tensor];
    return relay->banded && !edges->by_region && !pair->slice && rshi_layout_has_groups(pair->from);
}

/* What the owner with number `i` fetched of b: from there to b's rank. */
static rsh_status pass_stretches(const rsh_plan *p, int64_t tensor, const rshi_piece *b, const rshi_relay *relay,
                                 int64_t i, rshi_rank_edges *edges, rshi_edges *out) {
    const rsh_layout *to = p->pair[tensor].to;
    rshi_region r = {.p = p, .pair = &p->pair[tensor], .a = b, .b = b, .a_kept = b, .edges = edges, .out = out};
    int64_t owner = rshi_piece_holder(to, b, relay->holder[i]), lo = relay->at[i], hi;
    int64_t turn = rshi_relay_turn(to, rshi_layout_position(to, owner));
    rshi_edge_init(p, tensor, b, b, &r.whole);
    for (; rshi_relay_next_far(relay, relay->at[i + 1], &lo, &hi); lo = hi) {
        r.whole.lo[relay->dim] = lo, r.whole.hi[relay->dim] = hi;
        RSH_TRY(rshi_region_from_holder(&r, 1, relay->holder[i], owner, turn));
    }
    return RSH_OK;
}

rsh_status rshi_relayed_takes(const rsh_plan *p, int64_t tensor, const rshi_piece *b, const rshi_relay *relay,
                              rshi_rank_edges *edges, rshi_edges *out) {
    int64_t me = rshi_piece_holder_index(p->pair[tensor].to, b, b->rank);
    for (int64_t i = 0; i < relay->n; i++)
        if (relay->holder[i] != me) RSH_TRY(pass_stretches(p, tensor, b, relay, i, edges, out));
    return RSH_OK;
}

rsh_status rshi_relayed_gives(const rsh_plan *p, int64_t tensor, const rshi_piece *b, const rshi_relay *relay,
                              rshi_rank_edges *edges, rshi_edges *out) {
    const rsh_layout *to = p->pair[tensor].to;
    int64_t me = rshi_piece_holder_index(to, b, b->rank), i = 0;
    while (relay->holder[i] != me) i++;
    for (int64_t k = 0; k < relay->n; k++) {
        if (k == i) continue;
        rshi_piece *at = rshi_pieces_room(edges, 1);
        if (!at) return RSH_ENOMEM;
        rshi_piece_at_holder(to, b, relay->holder[k], at);
        RSH_TRY(pass_stretches(p, tensor, at, relay, i, edges, out));
    }
    return RSH_OK;
}
