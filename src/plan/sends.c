/* Sends: all edges out of a rank.
 *
 * What a rank sends is what others receive from it: for each of its source pieces, the destination pieces that meet it
 * are asked, wherever they are held, which edges they make, and those that read this rank are kept.  In later stages a
 * rank passes on what lies in its destination; there the other holders of the same destination piece are asked. */
#include "plan/relay.h"
#include "plan/sending.h"

/* Of the edges from number `first` on, keep those that read this rank: its source piece `a`, or without one its
 * destination.  If there are none, the pieces kept since the mark go too. */
static void keep_mine(rshi_rank_edges *s, int64_t first, const rshi_piece *a, rshi_kept mark) {
    rshi_edges *list = &s->sends;
    int64_t kept = first;
    for (int64_t i = first; i < list->n; i++) {
        const rshi_edge *e = &list->edge[i];
        bool mine = false;
        for (int64_t k = 0; k < e->nsrc && e->from_dst == !a; k++)
            mine |= rshi_edge_source(e, k) == s->rank &&
                    (!a || rshi_same_start(e->src_layout, rshi_edge_source_piece(e, k), a));
        if (mine) list->edge[kept++] = *e;
    }
    list->n = kept;
    if (kept == first) rshi_pieces_forget_after(s, mark);
}

/* Edges into b, at its rank and kept since the mark, that read this rank's source piece. */
static rsh_status send_to(rshi_sending *w, const rshi_piece *b, rshi_kept mark) {
    rshi_rank_edges *s = w->edges;
    int64_t first = s->sends.n;
    RSH_TRY(w->p->pair[w->tensor].irregular ? rshi_piece_receives(w->p, w->tensor, b, s, &s->sends)
                                            : rshi_region_edges(w->p, w->tensor, &w->sought, b, s, &s->sends));
    keep_mine(s, first, w->from.a, mark);
    return rshi_edges_hand_over(s, &s->sends, mark);
}

/* Is b's rank one of several of its node, to whom others pass on what this rank's piece has of b?  Only the owner of a
 * range that the piece meets reads it.  What is near is read by all. */
static rsh_status leaves_it_to_others(rshi_sending *w, const rshi_piece *b, bool *leaves) {
    const rshi_pair *pair = &w->p->pair[w->tensor];
    const rshi_relay *relay;
    *leaves = false;
    if (pair->irregular || pair->spread || !rshi_pair_relays(w->p, pair)) return RSH_OK;
    if (rshi_plan_node(w->p, b->rank) == rshi_plan_node(w->p, w->edges->rank)) return RSH_OK;
    if (rshi_piece_holders(pair->to, b) == 1) return RSH_OK;
    RSH_TRY(rshi_relay_find(w->p, w->tensor, b, w->edges, &relay));
    if (relay->n < 2) return RSH_OK;
    const rshi_stripe *a = &w->sought.set[relay->dim];
    int64_t holder = rshi_piece_holder_index(pair->to, b, b->rank), i = 0;
    while (relay->holder[i] != holder) i++;
    *leaves = relay->at[i] >= relay->at[i + 1] ||
              !rshi_stripe_common(a, &b->set[relay->dim], relay->at[i], relay->at[i + 1]);
    return RSH_OK;
}

rsh_status rshi_send_to_holder(rshi_sending *w, const rshi_piece *b, int64_t j) {
    const rshi_pair *pair = &w->p->pair[w->tensor];
    bool leaves;
    int64_t rank = rshi_piece_holder(pair->to, b, j);
    if (!rshi_may_serve(w->p, pair, &w->from, rank, rshi_layout_position(pair->to, rank))) return RSH_OK;
    rshi_kept mark = rshi_pieces_end(w->edges);
    rshi_piece *held = rshi_pieces_room(w->edges, 1);
    if (!held) return RSH_ENOMEM;
    rshi_piece_at_holder(pair->to, b, j, held);
    RSH_TRY(leaves_it_to_others(w, held, &leaves));
    if (!leaves) return send_to(w, held, mark);
    rshi_pieces_forget_after(w->edges, mark);
    return RSH_OK;
}

bool rshi_sends_directly(const rshi_sending *w, int64_t holders) {
    const rshi_pair *pair = &w->p->pair[w->tensor];
    if (!pair->reduce) return rshi_goes_directly(w->p, pair, holders);
    return !pair->irregular && !pair->slice && !pair->by_node && !w->edges->whole_sends && holders == 1;
}

/* Into `held`; nothing of the edge but its destination differs. */
static rsh_status send_directly(rshi_sending *w, const rshi_piece *held) {
    rshi_edge_aim(&w->e, held);
    return rshi_edges_give(w->edges, &w->edges->sends, &w->e);
}

/* b is at its first holder. */
static rsh_status send_directly_to_holder(rshi_sending *w, const rshi_piece *b, int64_t j) {
    const rshi_pair *pair = &w->p->pair[w->tensor];
    int64_t rank = j ? rshi_piece_holder(pair->to, b, j) : b->rank;
    int64_t position = w->from.holders > 1 ? rshi_layout_position(pair->to, rank) : 0; /* else it does not matter */
    if (!rshi_serves(w->p, pair, &w->from, rank, position)) return RSH_OK;
    if (j) rshi_piece_at_holder(pair->to, b, j, &w->held);
    return send_directly(w, j ? &w->held : b);
}

int64_t rshi_sending_partials(const rshi_sending *w, int64_t *first) {
    const rshi_pair *pair = &w->p->pair[w->tensor];
    *first = pair->keep ? rshi_piece_partial(pair->from, w->from.a) : 0;
    return pair->keep || pair->fill_others ? 1 : rshi_layout_partials(pair->to);
}

rsh_status rshi_send_to_copies(rshi_sending *w, const rshi_piece *b) {
    const rsh_layout *to = w->p->pair[w->tensor].to;
    int64_t first, partials = rshi_sending_partials(w, &first), holders = rshi_piece_holders(to, b);
    bool directly = rshi_sends_directly(w, holders);
    rshi_piece moved;
    for (int64_t i = first; i < first + partials; i++) {
        const rshi_piece *at = b;
        if (i) rshi_piece_at_partial(to, b, i, &moved), at = &moved; /* it is at the first one */
        for (int64_t j = 0; j < holders; j++)
            RSH_TRY(directly ? send_directly_to_holder(w, at, j) : rshi_send_to_holder(w, at, j));
    }
    return RSH_OK;
}

static rsh_status send_piece(rshi_sending *w) {
    const rshi_pair *pair = &w->p->pair[w->tensor];
    w->sought = *w->from.a;
    if (!pair->irregular) {
        rshi_piece_at_partial(pair->from, w->from.a, 0, &w->sought);
        rshi_piece_at_holder(pair->from, &w->sought, 0, &w->sought);
    }
    rshi_edge_init(w->p, w->tensor, w->from.a, w->from.a, &w->e); /* it is aimed at each */
    return rshi_layout_search_series(pair->to, w->sought.set, rshi_send_to_series, w);
}

/* One source piece, while those are looked at that lie in what this rank passes on to `b`'s. */
typedef struct passing {
    const rsh_plan *p;
    int64_t tensor;
    const rshi_piece *b;
    rshi_rank_edges *edges;
} passing;

static rsh_status pass_region(void *ctx, const rshi_piece *a) {
    passing *w = ctx;
    return rshi_region_edges(w->p, w->tensor, a, w->b, w->edges, &w->edges->sends);
}

/* What lies in this rank's range of b is passed on to the others of its node. */
static rsh_status pass_on_relayed(const rsh_plan *p, int64_t tensor, const rshi_piece *b, rshi_rank_edges *s) {
    const rshi_pair *pair = &p->pair[tensor];
    const rshi_relay *relay;
    rshi_stripe query[RSH_MAX_NDIM];
    RSH_TRY(rshi_relay_find(p, tensor, b, s, &relay));
    int64_t n = relay->n, me = rshi_piece_holder_index(pair->to, b, b->rank), i = 0;
    while (i < n && relay->holder[i] != me) i++;
    if (n < 2 || relay->at[i] >= relay->at[i + 1]) return RSH_OK;
    if (rshi_relay_in_stretches(p, tensor, relay, s)) {
        rshi_kept mark = rshi_pieces_end(s);
        RSH_TRY(rshi_relayed_gives(p, tensor, b, relay, s, &s->sends));
        return rshi_edges_hand_over(s, &s->sends, mark);
    }
    for (int d = 0; d < rsh_layout_ndim(pair->to); d++) query[d] = b->set[d];
    if (query[relay->dim].count == 1) query[relay->dim] = rshi_stripe_range(relay->at[i], relay->at[i + 1]);
    for (int64_t k = 0; k < n; k++) {
        int64_t first = s->sends.n;
        rshi_kept mark = rshi_pieces_end(s);
        rshi_piece *at = rshi_pieces_room(s, 1);
        passing w = {p, tensor, at, s};
        if (!at) return RSH_ENOMEM;
        rshi_piece_at_holder(pair->to, b, s->relay->holder[k], at);
        if (k != i) RSH_TRY(rshi_layout_search(pair->from, query, pass_region, &w));
        keep_mine(s, first, NULL, mark);
        RSH_TRY(rshi_edges_hand_over(s, &s->sends, mark));
    }
    return RSH_OK;
}

/* One destination piece of this rank, while those are looked for who read a region of it where it is spread. */
typedef struct spreading {
    passing to;          /* `b` is this rank's */
    const rshi_piece *a; /* the source piece at hand */
} spreading;

static rsh_status pass_to_reader(void *ctx, int64_t holder) {
    spreading *w = ctx;
    rshi_rank_edges *s = w->to.edges;
    int64_t first = s->sends.n;
    rshi_kept mark = rshi_pieces_end(s);
    rshi_piece *at = rshi_pieces_room(s, 1);
    if (!at) return RSH_ENOMEM;
    rshi_piece_at_holder(w->to.p->pair[w->to.tensor].to, w->to.b, holder, at);
    if (at->rank != s->rank) RSH_TRY(rshi_region_edges(w->to.p, w->to.tensor, w->a, at, s, &s->sends));
    keep_mine(s, first, NULL, mark);
    return rshi_edges_hand_over(s, &s->sends, mark);
}

static rsh_status pass_on_spread(void *ctx, const rshi_piece *a) {
    spreading *w = ctx;
    w->a = a;
    return rshi_spread_readers(w->to.p, w->to.tensor, a, w->to.b, w->to.edges, pass_to_reader, w);
}

/* Edges that read what lies in this rank's destination piece b. */
static rsh_status pass_on(const rsh_plan *p, int64_t tensor, const rshi_piece *b, rshi_rank_edges *s) {
    const rsh_layout *to = p->pair[tensor].to;
    int64_t holders = rshi_piece_holders(to, b);
    if (holders == 1 || (p->pair[tensor].fill_others && rshi_piece_partial(to, b))) return RSH_OK; /* only filled */
    if (!p->pair[tensor].reduce && !p->pair[tensor].spread) {
        bool relays = !p->pair[tensor].irregular && rshi_pair_relays(p, &p->pair[tensor]);
        return relays ? pass_on_relayed(p, tensor, b, s) : RSH_OK;
    }
    if (p->pair[tensor].spread) { /* and irregular sources are not */
        spreading w = {{p, tensor, b, s}, NULL};
        return rshi_layout_search(p->pair[tensor].from, b->set, pass_on_spread, &w);
    }
    for (int64_t j = 0; j < holders; j++) {
        int64_t first = s->sends.n;
        rshi_kept mark = rshi_pieces_end(s);
        rshi_piece *at = rshi_pieces_room(s, 1);
        if (!at) return RSH_ENOMEM;
        rshi_piece_at_holder(to, b, j, at);
        if (at->rank != s->rank) RSH_TRY(rshi_piece_receives(p, tensor, at, s, &s->sends));
        keep_mine(s, first, NULL, mark);
        RSH_TRY(rshi_edges_hand_over(s, &s->sends, mark));
    }
    return RSH_OK;
}

static rsh_status send_sources(const rsh_plan *p, int64_t tensor, rshi_rank_edges *s) {
    rshi_sending w;
    w.p = p, w.tensor = tensor, w.edges = s;
    w.copy = NULL, w.room = 0;
    rshi_piece *list = NULL;
    int64_t n = 0;
    rsh_status st = rshi_layout_pieces(p->pair[tensor].from, s->rank, &list, &n);
    for (int64_t i = 0; i < n && !st; i++) {
        w.from = rshi_server_of(p, &p->pair[tensor], &list[i]);
        if (!i) st = rshi_sending_settle(&w);
        if (!st) st = send_piece(&w);
        rshi_server_free(&w.from);
    }
    rshi_free(w.copy);
    rshi_free(list);
    return st ? st : rshi_node_result_edges(p, tensor, true, s, &s->sends);
}

static rsh_status send_results(const rsh_plan *p, int64_t tensor, rshi_rank_edges *s) {
    rshi_piece *list = NULL;
    int64_t n = 0;
    rsh_status st = rshi_layout_pieces(p->pair[tensor].to, s->rank, &list, &n);
    for (int64_t i = 0; i < n && !st; i++) st = pass_on(p, tensor, &list[i], s);
    rshi_free(list);
    return st;
}

rsh_status rshi_rank_edges_add_sends(const rsh_plan *p, rshi_rank_edges *s) {
    if (p->adjoint) RSH_TRY(rshi_adjoint_sends(p, s));
    for (int64_t t = 0; t < p->n && !p->adjoint; t++) {
        RSH_TRY(send_sources(p, t, s));
        if (rshi_plan_stages(p) > 1) RSH_TRY(send_results(p, t, s));
    }
    return rshi_edges_hand_over(s, &s->sends, (rshi_kept){0});
}
