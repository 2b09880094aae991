/* Receive: all edges into a rank.
 *
 * For each destination piece of the rank, it finds the source pieces that overlap it, and routes each such region. */
#include "plan/impl.h"

/* The state of a search for the source pieces that overlap a destination piece. */
typedef struct receiving {
    rshi_walk *w;
    const rshi_pair *pair;
    int64_t tensor;
    const rshi_piece *b;
    int64_t me;  /* number of the rank among b's holders */
    rshi_edge e; /* direct moves: the edge from the current source piece */
    int64_t turn;
    bool single; /* every source piece has one holder */
} receiving;

/* ---- by route ---- */

static rsh_status receive_piece(void *ctx, const rshi_piece *a) {
    receiving *r = ctx;
    rshi_region region;
    if (r->pair->from_overlaps && !rshi_piece_first_copy(r->pair->from, a)) return RSH_OK;
    rshi_region_init(r->w->p, r->tensor, a, r->b, &region);
    RSH_TRY(rshi_route(r->w, &region, r->me, RSHI_FROM_ANY, &r->w->legs));
    for (int64_t i = 0; i < r->w->legs.n; i++) RSH_TRY(rshi_emit_leg(r->w, &region, r->b, &r->w->legs.leg[i]));
    return RSH_OK;
}

/* ---- directly ---- */

/* A rank may have as many neighbours as there are ranks.  Only the source differs from edge to edge. */
static rsh_status receive_directly(receiving *r, const rshi_piece *a) {
    const rsh_layout *from = r->pair->from;
    rshi_piece src;
    r->e.src = r->e.with = a;
    if (r->single) return r->w->emit(r->w->ctx, &r->e);
    rshi_piece_at_partial(from, a, r->pair->keep ? rshi_piece_partial(r->pair->to, r->b) : 0, &src);
    int64_t holder = rshi_serving_holder(r->w->p, r->pair, &src, r->b->rank, r->turn);
    if (holder) rshi_piece_at_holder(from, &src, holder, &src);
    r->e.src = r->e.with = &src;
    return r->w->emit(r->w->ctx, &r->e);
}

static rsh_status receive_series(void *ctx, rshi_series *s) {
    receiving *r = ctx;
    rshi_edge_begin_series(&r->e, s, r->w);
    for (int64_t i = 0; i < s->n; i++) RSH_TRY(receive_directly(r, rshi_series_choose(s, i)));
    return RSH_OK;
}

static rsh_status search_directly(receiving *r, const rshi_stripe *query) {
    const rsh_layout *from = r->pair->from;
    rshi_edge_init(r->w->p, r->tensor, NULL, r->b, &r->e);
    r->turn = rshi_turn_of_rank(r->pair->to, r->b->rank);
    r->single = !r->pair->keep && rshi_layout_has_groups(from) && rshi_layout_holders(from) == 1;
    return rshi_layout_search_series(from, query, receive_series, r);
}

/* ---- */

/* Emits an edge that fills b with the identity of the op, if no source contributes to it. */
static rsh_status fill(receiving *r) {
    rshi_edge_init(r->w->p, r->tensor, r->b, r->b, &r->e);
    r->e.nsrc = 0;
    r->e.op = rsh_layout_op(r->pair->to);
    return r->w->emit(r->w->ctx, &r->e);
}

/* Restricts the search to the part of b inside w->box; false: there is none. */
static bool restrict_query(const receiving *r, rshi_stripe *query) {
    for (int d = 0; d < rsh_layout_ndim(r->pair->to); d++) {
        const rshi_stripe *box = r->w->box ? &r->w->box[d] : NULL;
        query[d] = r->b->set[d];
        if (!box) continue;
        if (!rshi_stripe_common(&query[d], box, box->lo, rshi_stripe_end(box))) return false;
        if (query[d].count == 1)
            query[d] = rshi_stripe_range(rshi_max(query[d].lo, box->lo),
                                         rshi_min(rshi_stripe_end(&query[d]), rshi_stripe_end(box)));
    }
    return true;
}

static rsh_status receive_into(rshi_walk *w, int64_t tensor, const rshi_piece *b) {
    const rshi_pair *pair = &w->p->pair[tensor];
    receiving r = {.w = w, .pair = pair, .tensor = tensor, .b = b};
    rshi_stripe query[RSH_MAX_NDIM];
    if (pair->fill_others && rshi_piece_partial(pair->to, b)) return fill(&r);
    if (pair->from_overlaps && !pair->reduce) return rshi_receive_overlapping(w, tensor, b);
    if (!restrict_query(&r, query)) return RSH_OK;
    if (!pair->reduce && rshi_goes_directly(pair, rshi_piece_holders(pair->to, b))) return search_directly(&r, query);
    r.me = rshi_piece_holder_index(pair->to, b, b->rank);
    return rshi_layout_search(pair->from, query, receive_piece, &r);
}

rsh_status rshi_receive_untransposed(rshi_walk *w, int64_t tensor) {
    rshi_piece *list = NULL;
    int64_t n = 0;
    rsh_status st = rshi_layout_pieces(w->p->pair[tensor].to, w->rank, &list, &n);
    for (int64_t i = 0; i < n && !st; i++) st = receive_into(w, tensor, &list[i]);
    rshi_free(list);
    return st ? st : rshi_node_result_edges(w, tensor);
}

static rsh_status receive_tensor(rshi_walk *w, int64_t tensor) {
    return w->p->pair[tensor].transposed ? rshi_receive_transposed(w, tensor) : rshi_receive_untransposed(w, tensor);
}

rsh_status rshi_receive_all(rshi_walk *w) {
    w->sends = false;
    for (int64_t t = 0; t < w->p->n; t++) RSH_TRY(receive_tensor(w, t));
    return RSH_OK;
}
