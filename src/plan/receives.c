/* Receives: all edges into a rank. */
#include "plan/relay.h"

/* One destination piece, while the source pieces that meet it are searched for. */
typedef struct receiving {
    const rsh_plan *p;
    const rshi_pair *pair;
    int64_t tensor;
    const rshi_piece *b;
    rshi_rank_edges *edges;
    rshi_edges *out;
    rshi_edge e;    /* where b goes directly: the edge from the source piece at hand */
    rshi_piece src; /* that piece, at the holder that serves b */
    const rshi_vicinity *near; /* what b's node has of the source, if several ranks hold the same */
    bool single; /* every source piece has one holder, which is found with it */
} receiving;

/* Every source piece, one after the other. */
static rsh_status receive_from(void *ctx, const rshi_piece *a) {
    receiving *r = ctx;
    rshi_kept mark = rshi_pieces_end(r->edges);
    RSH_TRY(rshi_region_edges(r->p, r->tensor, a, r->b, r->edges, r->out));
    return r->out == &r->edges->receives ? rshi_edges_hand_over(r->edges, r->out, mark) : RSH_OK;
}

/* ---- directly ---- */

/* A rank may have as many neighbours as there are ranks, and nothing of the edge but its source differs. */
static rsh_status receive_directly(receiving *r, const rshi_piece *a) {
    const rsh_layout *from = r->pair->from;
    r->e.src = r->e.with = a;
    if (r->single) return rshi_edges_give(r->edges, r->out, &r->e);
    if (r->pair->keep) {
        rshi_piece_at_partial(from, a, rshi_piece_partial(r->pair->to, r->b), &r->src);
        a = &r->src;
    }
    int64_t holder = rshi_serving_far_or_near(r->p, r->pair, r->near, a, r->b->rank, r->e.turn);
    if (holder) {
        rshi_piece_at_holder(from, a, holder, &r->src);
        a = &r->src;
    }
    r->e.src = r->e.with = a;
    return rshi_edges_give(r->edges, r->out, &r->e);
}

static rsh_status receive_series(void *ctx, rshi_series *s) {
    receiving *r = ctx;
    rshi_edge_begin_series(&r->e, s, r->edges);
    for (int64_t i = 0; i < s->n; i++) RSH_TRY(receive_directly(r, rshi_series_choose(s, i)));
    return RSH_OK;
}

static rsh_status search_directly(receiving *r, const rshi_stripe *query) {
    const rsh_layout *from = r->pair->from;
    rshi_edge_init(r->p, r->tensor, NULL, r->b, &r->e);
    if (!r->single) RSH_TRY(rshi_vicinity_find(r->p, r->tensor, r->b->rank, r->edges, &r->near));
    return rshi_layout_search_series(from, query, receive_series, r);
}

/* ---- relayed ---- */

/* Pieces of which b's node has nothing. */
static rsh_status receive_far_series(void *ctx, rshi_series *s) {
    receiving *r = ctx;
    rshi_edge_begin_series(&r->e, s, r->edges);
    for (int64_t i = 0; i < s->n; i++)
        if (!rshi_vicinity_may_have(r->near, rshi_series_position(s, i)))
            RSH_TRY(receive_directly(r, rshi_series_choose(s, i)));
    return RSH_OK;
}

/* What lies in the range of b that its rank fetches for its node. */
static rsh_status receive_own_range(receiving *r, const rshi_relay *relay) {
    const rsh_layout *to = r->pair->to;
    int64_t me = rshi_piece_holder_index(to, r->b, r->b->rank), i = 0;
    rshi_stripe query[RSH_MAX_NDIM];
    while (relay->holder[i] != me) i++;
    for (int d = 0; d < rsh_layout_ndim(to); d++) query[d] = r->b->set[d];
    query[relay->dim] = rshi_stripe_range(relay->at[i], relay->at[i + 1]);
    rshi_edge_init(r->p, r->tensor, NULL, r->b, &r->e);
    r->e.turn = rshi_relay_turn(to, rshi_layout_position(to, r->b->rank));
    r->e.lo[relay->dim] = relay->at[i], r->e.hi[relay->dim] = relay->at[i + 1];
    return rshi_layout_search_series(r->pair->from, query, receive_far_series, r);
}

/* What ranks of b's node hold, each part once. */
static rsh_status receive_near(receiving *r) {
    const rsh_layout *from = r->pair->from;
    rsh_status st = RSH_OK;
    for (int64_t k = 0; k < r->near->n && !st; k++) {
        rshi_piece *list = NULL;
        int64_t n = 0;
        if (k && r->near->first[k] == r->near->first[k - 1]) continue;
        st = rshi_layout_pieces(from, rshi_layout_rank_at(from, r->near->first[k]), &list, &n);
        for (int64_t i = 0; i < n && !st; i++)
            if (rshi_pieces_common(from, &list[i], r->b)) st = receive_from(r, &list[i]);
        rshi_free(list);
    }
    return st;
}

static rsh_status receive_relayed(receiving *r, const rshi_relay *relay) {
    rshi_kept mark = rshi_pieces_end(r->edges);
    RSH_TRY(rshi_vicinity_find(r->p, r->tensor, r->b->rank, r->edges, &r->near));
    RSH_TRY(receive_own_range(r, relay));
    RSH_TRY(rshi_relayed_takes(r->p, r->tensor, r->b, relay, r->edges, r->out));
    if (r->out == &r->edges->receives) RSH_TRY(rshi_edges_hand_over(r->edges, r->out, mark));
    return receive_near(r);
}

/* ---- */

/* Among the ways that a region may take, is being relayed the only one beside the direct one? */
static bool may_only_relay(const receiving *r) {
    return !r->pair->irregular && !r->pair->spread && !r->pair->slice && rshi_pair_relays(r->p, r->pair);
}

static rsh_status search_sources(receiving *r, const rshi_stripe *query) {
    const rsh_layout *from = r->pair->from;
    const rshi_relay *relay;
    if (rshi_goes_directly(r->p, r->pair, rshi_piece_holders(r->pair->to, r->b))) return search_directly(r, query);
    if (may_only_relay(r)) {
        RSH_TRY(rshi_relay_find(r->p, r->tensor, r->b, r->edges, &relay));
        if (relay->n < 2) return search_directly(r, query);
        if (rshi_relay_in_stretches(r->p, r->tensor, relay, r->edges)) return receive_relayed(r, relay);
    }
    return rshi_layout_search(from, query, receive_from, r);
}

static receiving receiving_of(const rsh_plan *p, int64_t tensor, const rshi_piece *b, rshi_rank_edges *edges,
                              rshi_edges *out) {
    receiving r;
    r.p = p, r.pair = &p->pair[tensor], r.tensor = tensor, r.b = b;
    r.edges = edges, r.out = out;
    r.near = NULL;
    r.single = !r.pair->keep && rshi_layout_has_groups(r.pair->from) && rshi_layout_holders(r.pair->from) == 1;
    return r;
}

/* A piece that no source contributes to gets the identity of the op. */
static rsh_status fill(const rsh_plan *p, int64_t tensor, const rshi_piece *b, rshi_edges *out) {
    rshi_edge e;
    rshi_edge_init(p, tensor, b, b, &e);
    e.nsrc = 0;
    e.op = rsh_layout_op(p->pair[tensor].to);
    return rshi_edges_add(out, &e);
}

rsh_status rshi_piece_receives(const rsh_plan *p, int64_t tensor, const rshi_piece *b, rshi_rank_edges *edges,
                               rshi_edges *out) {
    const rshi_pair *pair = &p->pair[tensor];
    receiving r = receiving_of(p, tensor, b, edges, out);
    if (pair->fill_others && rshi_piece_partial(pair->to, b)) return fill(p, tensor, b, out);
    if (pair->irregular) return rshi_irregular_receives(p, tensor, b, edges, out);
    return search_sources(&r, b->set);
}

rsh_status rshi_tensor_receives(const rsh_plan *p, int64_t tensor, rshi_rank_edges *s) {
    if (p->adjoint) return rshi_adjoint_receives(p, tensor, s, &s->receives);
    rshi_piece *list = NULL;
    int64_t n = 0;
    rsh_status st = rshi_layout_pieces(p->pair[tensor].to, s->rank, &list, &n);
    for (int64_t i = 0; i < n && !st; i++) {
        const rshi_piece *b = rshi_piece_keep(s, &list[i]);
        st = b ? rshi_piece_receives(p, tensor, b, s, &s->receives) : RSH_ENOMEM;
    }
    rshi_free(list);
    return st ? st : rshi_node_result_edges(p, tensor, false, s, &s->receives);
}

/* A piece inside the box is looked for; the others are left out. */
static rsh_status receive_in(const rsh_plan *p, const rshi_piece *b, const rshi_stripe *box, rshi_rank_edges *s) {
    receiving r = receiving_of(p, 0, b, s, &s->receives);
    rshi_stripe query[RSH_MAX_NDIM];
    for (int d = 0; d < rsh_layout_ndim(p->pair[0].to); d++) {
        query[d] = b->set[d];
        if (!rshi_stripe_common(&query[d], &box[d], box[d].lo, rshi_stripe_end(&box[d]))) return RSH_OK;
        if (query[d].count == 1)
            query[d] = rshi_stripe_range(rshi_max(query[d].lo, box[d].lo),
                                         rshi_min(rshi_stripe_end(&query[d]), rshi_stripe_end(&box[d])));
    }
    if (p->pair[0].fill_others && rshi_piece_partial(p->pair[0].to, b)) return RSH_OK;
    return search_sources(&r, query);
}

rsh_status rshi_plan_receives_in(const rsh_plan *p, int64_t rank, const rshi_stripe *box, rshi_rank_edges *s) {
    rshi_piece *list = NULL;
    int64_t n = 0;
    rshi_rank_edges_clear(s);
    s->rank = rank;
    s->by_region = true;
    rsh_status st = rshi_layout_pieces(p->pair[0].to, rank, &list, &n);
    for (int64_t i = 0; i < n && !st; i++) {
        const rshi_piece *b = rshi_piece_keep(s, &list[i]);
        st = b ? receive_in(p, b, box, s) : RSH_ENOMEM;
    }
    rshi_free(list);
    return st;
}

/* Edges that need no other rank leave the receives for the copies; both stay in order. */
static rsh_status set_copies_apart(rshi_rank_edges *s) {
    rshi_edges *in = &s->receives;
    int64_t kept = 0;
    for (int64_t i = 0; i < in->n; i++) {
        if (rshi_edge_is_copy(&in->edge[i]))
            RSH_TRY(rshi_edges_add(&s->copies, &in->edge[i]));
        else if (kept++ < i)
            in->edge[kept - 1] = in->edge[i];
    }
    in->n = kept;
    return RSH_OK;
}

rsh_status rshi_plan_receives(const rsh_plan *p, int64_t rank, rshi_rank_edges *s) {
    rshi_rank_edges_clear(s);
    s->rank = rank;
    for (int64_t t = 0; t < p->n; t++) {
        RSH_TRY(rshi_tensor_receives(p, t, s));
        RSH_TRY(rshi_edges_hand_over(s, &s->receives, (rshi_kept){0}));
    }
    return set_copies_apart(s);
}
