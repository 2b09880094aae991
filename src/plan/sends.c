/* Sends: all edges out of a rank.
 *
 * What a rank sends is what others receive from it: for each of its source pieces, the destination pieces that meet it
 * are asked, wherever they are held, which edges they make, and those that read this rank are kept.  In later stages a
 * rank passes on what lies in its destination; there the other holders of the same destination piece are asked. */
#include "plan/impl.h"

#define FEW_COPIES 1024 /* so many holders of a piece are compared with one another */

/* One of the copies that every destination piece has. */
typedef struct copy {
    int64_t offset;  /* how far it is from the first, in positions */
    int64_t node;    /* relayed: where it is for the piece at hand, */
    int64_t first;   /* the first copy on the same node, */
    int64_t together; /* and at that how many there are */
} copy;

/* One piece of this rank, while the pieces of others that may read it are looked at. */
typedef struct sending {
    const rsh_plan *p;
    int64_t tensor;
    rshi_server from; /* this rank, with its source piece */
    rshi_piece sought; /* that piece where others look for it */
    rshi_rank_edges *edges;
    rshi_edge e;     /* where regions go directly: the edge into the piece at hand */
    rshi_piece held; /* that piece at one of its holders */
    bool directly, relayed, reduced; /* how all destination pieces are sent, if all have copies in the same way */
    copy *copy; /* owned */
    int64_t copies, room;
} sending;

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
static rsh_status send_to(sending *w, const rshi_piece *b, rshi_kept mark) {
    rshi_rank_edges *s = w->edges;
    int64_t first = s->sends.n;
    RSH_TRY(w->p->pair[w->tensor].irregular ? rshi_piece_receives(w->p, w->tensor, b, s, &s->sends)
                                            : rshi_region_edges(w->p, w->tensor, &w->sought, b, s, &s->sends));
    keep_mine(s, first, w->from.a, mark);
    return rshi_edges_hand_over(s, &s->sends, mark);
}

/* Is b's rank one of several of its node, to whom others pass on what this rank's piece has of b?  Only the owner of a
 * range that the piece meets reads it.  What is near is read by all. */
static rsh_status leaves_it_to_others(sending *w, const rshi_piece *b, bool *leaves) {
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

static rsh_status send_to_holder(sending *w, const rshi_piece *b, int64_t j) {
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

/* Does all that this rank sends into a piece with so many holders go directly?  Also to a reduction that one rank
 * wants: of its sources only this rank is listed. */
static bool sends_directly(const sending *w, int64_t holders) {
    const rshi_pair *pair = &w->p->pair[w->tensor];
    if (!pair->reduce) return rshi_goes_directly(w->p, pair, holders);
    return !pair->irregular && !pair->slice && !pair->by_node && !w->edges->whole_sends && holders == 1;
}

/* Into `held`; nothing of the edge but its destination differs. */
static rsh_status send_directly(sending *w, const rshi_piece *held) {
    rshi_edge_aim(&w->e, held);
    return rshi_edges_give(w->edges, &w->edges->sends, &w->e);
}

/* b is at its first holder. */
static rsh_status send_directly_to_holder(sending *w, const rshi_piece *b, int64_t j) {
    const rshi_pair *pair = &w->p->pair[w->tensor];
    int64_t rank = j ? rshi_piece_holder(pair->to, b, j) : b->rank;
    int64_t position = w->from.holders > 1 ? rshi_layout_position(pair->to, rank) : 0; /* else it does not matter */
    if (!rshi_serves(w->p, pair, &w->from, rank, position)) return RSH_OK;
    if (j) rshi_piece_at_holder(pair->to, b, j, &w->held);
    return send_directly(w, j ? &w->held : b);
}

/* The partial positions of the destination that get something from this rank: from *first on. */
static int64_t count_partials(const sending *w, int64_t *first) {
    const rshi_pair *pair = &w->p->pair[w->tensor];
    *first = pair->keep ? rshi_piece_partial(pair->from, w->from.a) : 0;
    return pair->keep || pair->fill_others ? 1 : rshi_layout_partials(pair->to);
}

/* b at every partial position and every holder. */
static rsh_status send_to_copies(sending *w, const rshi_piece *b) {
    const rsh_layout *to = w->p->pair[w->tensor].to;
    int64_t first, partials = count_partials(w, &first), holders = rshi_piece_holders(to, b);
    bool directly = sends_directly(w, holders);
    rshi_piece moved;
    for (int64_t i = first; i < first + partials; i++) {
        const rshi_piece *at = b;
        if (i) rshi_piece_at_partial(to, b, i, &moved), at = &moved; /* it is at the first one */
        for (int64_t j = 0; j < holders; j++)
            RSH_TRY(directly ? send_directly_to_holder(w, at, j) : send_to_holder(w, at, j));
    }
    return RSH_OK;
}

/* ---- series ---- */

static rsh_status list_copies(sending *w, const rsh_layout *to) {
    int64_t first, partials = count_partials(w, &first), holders = rshi_layout_holders(to);
    int64_t *offset = rshi_alloc((size_t)holders, sizeof *offset);
    w->copies = 0;
    rsh_status st = offset ? RSHI_GROW(w->copy, partials * holders, &w->room) : rshi_nomem();
    if (!st) rshi_layout_holder_offsets(to, offset);
    for (int64_t i = first; i < first + partials && !st; i++) {
        int64_t partial = rshi_layout_copy_offset(to, i, 0);
        for (int64_t j = 0; j < holders; j++) w->copy[w->copies++].offset = partial + offset[j];
    }
    rshi_free(offset);
    return st;
}

/* The piece of the series that was chosen, at one of its copies. */
static rsh_status send_to_copy(sending *w, rshi_series *s, int64_t position, int64_t rank) {
    s->piece->position = position, s->piece->rank = rank;
    if (w->e.series)
        rshi_edge_aim_along(&w->e, s->piece);
    else
        rshi_edge_aim(&w->e, s->piece);
    return rshi_edges_give(w->edges, &w->edges->sends, &w->e);
}

/* Piece i of the series at all its copies that this rank serves: only these are looked at more closely. */
static rsh_status send_series_piece(sending *w, rshi_series *s, int64_t i) {
    const rshi_pair *pair = &w->p->pair[w->tensor];
    int64_t position = rshi_series_position(s, i);
    bool chosen = false;
    for (int64_t k = 0; k < w->copies; k++) {
        int64_t at = position + w->copy[k].offset, rank = rshi_series_rank(s, at);
        if (!rshi_serves(w->p, pair, &w->from, rank, at)) continue;
        if (!chosen) rshi_series_choose(s, i);
        chosen = true;
        RSH_TRY(send_to_copy(w, s, at, rank));
    }
    return RSH_OK;
}

/* ---- where nodes may relay ---- */

/* Which copies of piece i of the series are on the same nodes?  Most follow one another, and nodes ascend. */
static void group_copies(sending *w, const rshi_series *s, int64_t i) {
    int64_t position = rshi_series_position(s, i), highest = -1, first = 0;
    copy *c = w->copy;
    for (int64_t k = 0; k < w->copies; k++) {
        c[k].node = rshi_plan_node(w->p, rshi_series_rank(s, position + c[k].offset));
        if (c[first].node != c[k].node) first = 0;
        if (c[k].node > highest) first = k;
        while (c[first].node != c[k].node) first++;
        highest = rshi_max(highest, c[k].node);
        c[k].first = first;
        c[k].together = 0;
        c[first].together++;
    }
}

/* Copy number k, which takes the piece i of the series directly, if this rank serves it. */
static rsh_status send_if_served(sending *w, rshi_series *s, int64_t i, int64_t k) {
    int64_t at = rshi_series_position(s, i) + w->copy[k].offset, rank = rshi_series_rank(s, at);
    if (!rshi_serves(w->p, &w->p->pair[w->tensor], &w->from, rank, at)) return RSH_OK;
    rshi_series_choose(s, i);
    return send_to_copy(w, s, at, rank);
}

/* Number `owner` of the copies that are together with copy k fetches its range of piece i, which was chosen. */
static rsh_status send_range(sending *w, rshi_series *s, int64_t i, int64_t k, const rshi_owners *o, int64_t owner) {
    int64_t n = w->copy[k].together, series = w->e.series, left = owner, j = k;
    while (w->copy[j].first != k || left--) j++;
    const rshi_piece *b = rshi_series_choose(s, i);
    int64_t at = b->position + w->copy[j].offset, lo, hi;
    if (!rshi_serves_far(&w->from, rshi_relay_turn(s->l, at))) return RSH_OK;
    if (o->first == o->last) return send_to_copy(w, s, at, rshi_series_rank(s, at));
    lo = rshi_relay_even_cut(s->l, b, n, owner), hi = rshi_relay_even_cut(s->l, b, n, owner + 1);
    s->piece->position = at, s->piece->rank = rshi_series_rank(s, at);
    rshi_edge_aim(&w->e, s->piece);
    w->e.lo[o->dim] = lo, w->e.hi[o->dim] = hi;
    w->e.series = 0;
    rsh_status st = rshi_edges_give(w->edges, &w->edges->sends, &w->e);
    w->e.series = series;
    rshi_edge_aim(&w->e, s->piece); /* at all of it again */
    return st;
}

/* The copies of piece i on the node of copy k, the first of them. */
static rsh_status send_to_node(sending *w, rshi_series *s, int64_t i, int64_t k) {
    const rshi_piece *b = rshi_series_choose(s, i);
    const rshi_pair *pair = &w->p->pair[w->tensor];
    int64_t at = b->position + w->copy[k].offset;
    bool even = rshi_relay_is_even(pair, b->set, rshi_plan_crew(w->p, w->copy[k].node).n) &&
                !rshi_server_is_near(w->p, pair, &w->from, rshi_series_rank(s, at), at);
    for (int64_t j = k; j < w->copies && !even; j++)
        if (w->copy[j].first == k) RSH_TRY(send_to_holder(w, rshi_series_choose(s, i), j));
    if (!even) return RSH_OK;
    rshi_owners o = rshi_relay_even_owners(s->l, &w->sought, b, w->copy[k].together);
    for (int64_t owner = o.first; owner <= o.last; owner++) RSH_TRY(send_range(w, s, i, k, &o, owner));
    return RSH_OK;
}

/* Piece i of the series; a copy that is alone on its node takes it directly. */
static rsh_status send_relayed_piece(sending *w, rshi_series *s, int64_t i) {
    group_copies(w, s, i);
    for (int64_t k = 0; k < w->copies; k++) {
        if (w->copy[k].first != k) continue;
        RSH_TRY(w->copy[k].together == 1 ? send_if_served(w, s, i, k) : send_to_node(w, s, i, k));
    }
    return RSH_OK;
}

/* ---- contributions to results that several ranks want ---- */

/* Each copy of piece i combines one slice of it, and gets this rank's contribution to that: a series along the dim that
 * is cut. */
static rsh_status send_reduced_piece(sending *w, rshi_series *s, int64_t i) {
    const rshi_pair *pair = &w->p->pair[w->tensor];
    const rshi_piece *b = rshi_series_choose(s, i);
    int64_t first = b->position;
    int dim = rshi_piece_longest_dim(s->l, b);
    w->e.series = ++w->edges->nseries, w->e.series_dim = dim;
    for (int64_t k = 0; k < w->copies; k++) {
        int64_t at = first + w->copy[k].offset, rank = rshi_series_rank(s, at);
        if (!rshi_serves(w->p, pair, &w->from, rank, at)) continue;
        s->piece->position = at, s->piece->rank = rank;
        rshi_edge_aim(&w->e, s->piece);
        w->e.lo[dim] = rshi_stripe_slice(&b->set[dim], w->copies, k);
        w->e.hi[dim] = rshi_stripe_slice(&b->set[dim], w->copies, k + 1);
        if (w->e.lo[dim] < w->e.hi[dim]) RSH_TRY(rshi_edges_give(w->edges, &w->edges->sends, &w->e));
    }
    return RSH_OK;
}

/* ---- */

static rsh_status send_to_series(void *ctx, rshi_series *s) {
    sending *w = ctx;
    rshi_edge_begin_series(&w->e, s, w->edges);
    if (w->e.series) rshi_edge_aim(&w->e, s->piece);
    for (int64_t i = 0; i < s->n; i++)
        RSH_TRY(w->directly  ? send_series_piece(w, s, i)
                : w->relayed ? send_relayed_piece(w, s, i)
                : w->reduced ? send_reduced_piece(w, s, i)
                             : send_to_copies(w, rshi_series_choose(s, i)));
    return RSH_OK;
}

/* Where all destination pieces are sent in the same way, it is settled once, for all pieces of this rank. */
static rsh_status settle_way(sending *w) {
    const rshi_pair *pair = &w->p->pair[w->tensor];
    w->directly = w->relayed = w->reduced = false;
    if (!rshi_layout_has_groups(pair->to) || pair->irregular || pair->slice || pair->spread) return RSH_OK;
    RSH_TRY(list_copies(w, pair->to));
    w->directly = sends_directly(w, rshi_layout_holders(pair->to));
    if (rshi_layout_partials(pair->to) > 1) return RSH_OK;
    w->relayed = rshi_pair_relays(w->p, pair) && w->copies <= FEW_COPIES;
    w->reduced = pair->reduce && !pair->by_node && !w->edges->whole_sends && rsh_layout_ndim(pair->to);
    return RSH_OK;
}

static rsh_status send_piece(sending *w) {
    const rshi_pair *pair = &w->p->pair[w->tensor];
    w->sought = *w->from.a;
    if (!pair->irregular) {
        rshi_piece_at_partial(pair->from, w->from.a, 0, &w->sought);
        rshi_piece_at_holder(pair->from, &w->sought, 0, &w->sought);
    }
    rshi_edge_init(w->p, w->tensor, w->from.a, w->from.a, &w->e); /* `send_directly` aims it */
    return rshi_layout_search_series(pair->to, w->sought.set, send_to_series, w);
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

/* Edges that read what lies in this rank's destination piece b. */
static rsh_status pass_on(const rsh_plan *p, int64_t tensor, const rshi_piece *b, rshi_rank_edges *s) {
    const rsh_layout *to = p->pair[tensor].to;
    int64_t holders = rshi_piece_holders(to, b);
    if (holders == 1 || (p->pair[tensor].fill_others && rshi_piece_partial(to, b))) return RSH_OK; /* only filled */
    if (!p->pair[tensor].reduce && !p->pair[tensor].spread) {
        bool relays = !p->pair[tensor].irregular && rshi_pair_relays(p, &p->pair[tensor]);
        return relays ? pass_on_relayed(p, tensor, b, s) : RSH_OK;
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
    sending w;
    w.p = p, w.tensor = tensor, w.edges = s;
    w.copy = NULL, w.room = 0;
    rshi_piece *list = NULL;
    int64_t n = 0;
    rsh_status st = rshi_layout_pieces(p->pair[tensor].from, s->rank, &list, &n);
    for (int64_t i = 0; i < n && !st; i++) {
        w.from = rshi_server_of(&p->pair[tensor], &list[i]);
        if (!i) st = settle_way(&w);
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
