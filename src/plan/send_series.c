/* Sends to series: edges from a rank's piece into destination pieces that all have copies in the same way.
 *
 * A rank may send to as many others as there are.  Whether it serves a copy follows from where that stands, before the
 * piece is made (serve.c); what is sent to one copy after the other differs along one dim only. */
#include "plan/relay.h"
#include "plan/sending.h"

#define FEW_COPIES 1024 /* so many holders of a piece are compared with one another */

static rsh_status list_copies(rshi_sending *w, const rsh_layout *to) {
    int64_t first, partials = rshi_sending_partials(w, &first), holders = rshi_layout_holders(to);
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
static rsh_status send_to_copy(rshi_sending *w, rshi_series *s, int64_t position, int64_t rank) {
    s->piece->position = position, s->piece->rank = rank;
    if (w->e.series)
        rshi_edge_aim_along(&w->e, s->piece);
    else
        rshi_edge_aim(&w->e, s->piece);
    return rshi_edges_give(w->edges, &w->edges->sends, &w->e);
}

/* Piece i of the series at all its copies that this rank serves: only these are looked at more closely. */
static rsh_status send_series_piece(rshi_sending *w, rshi_series *s, int64_t i) {
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
static void group_copies(rshi_sending *w, const rshi_series *s, int64_t i) {
    int64_t position = rshi_series_position(s, i), highest = -1, first = 0;
    rshi_copy *c = w->copy;
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
static rsh_status send_if_served(rshi_sending *w, rshi_series *s, int64_t i, int64_t k) {
    int64_t at = rshi_series_position(s, i) + w->copy[k].offset, rank = rshi_series_rank(s, at);
    if (!rshi_serves(w->p, &w->p->pair[w->tensor], &w->from, rank, at)) return RSH_OK;
    rshi_series_choose(s, i);
    return send_to_copy(w, s, at, rank);
}

/* Number `owner` of the copies that are together with copy k fetches its range of piece i. */
static rsh_status send_range(rshi_sending *w, rshi_series *s, int64_t i, int64_t k, const rshi_owners *o,
                             int64_t owner) {
    int64_t n = w->copy[k].together, series = w->e.series, left = owner, j = k;
    while (w->copy[j].first != k || left--) j++;
    const rshi_piece *b = rshi_series_choose(s, i);
    int64_t at = b->position + w->copy[j].offset, lo, hi;
    if (w->from.holders > 1 && !rshi_serves_far(&w->from, rshi_relay_turn(s->l, at))) return RSH_OK;
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

/* Copies of piece i on the node of copy k, the first of them, where ranges are cut evenly. */
static rsh_status send_to_owners(rshi_sending *w, rshi_series *s, int64_t i, int64_t k) {
    int64_t n = w->copy[k].together;
    rshi_owners o = rshi_relay_even_owners(s->l, &w->sought, s->piece, n);
    if (o.first == o.last) return send_range(w, s, i, k, &o, o.first);
    for (int64_t owner = o.first; owner <= o.last;) {
        RSH_TRY(send_range(w, s, i, k, &o, owner));
        owner = rshi_relay_next_owner(s->l, &w->sought, rshi_series_choose(s, i), n, owner);
    }
    return RSH_OK;
}

/* A node has ranks_per_node ranks at most, which mostly is answer enough. */
static bool node_is_even(const rshi_sending *w, const rshi_piece *b, int64_t node) {
    const rshi_pair *pair = &w->p->pair[w->tensor];
    if (!w->p->node_of && rshi_relay_is_even(pair, b->set, w->p->ranks_per_node)) return true;
    return rshi_relay_is_even(pair, b->set, rshi_plan_crew(w->p, node).n);
}

/* The copies of piece i on the node of copy k, the first of them.  What the node holds itself is not relayed. */
static rsh_status send_to_node(rshi_sending *w, rshi_series *s, int64_t i, int64_t k) {
    const rshi_pair *pair = &w->p->pair[w->tensor];
    int64_t at = rshi_series_position(s, i) + w->copy[k].offset;
    bool near = rshi_server_is_near(w->p, pair, &w->from, rshi_series_rank(s, at), at);
    const rshi_piece *b = rshi_series_choose(s, i);
    if (!near && node_is_even(w, b, w->copy[k].node)) return send_to_owners(w, s, i, k);
    for (int64_t j = k; j < w->copies; j++) {
        if (w->copy[j].first != k) continue;
        RSH_TRY(near ? send_if_served(w, s, i, j) : rshi_send_to_holder(w, rshi_series_choose(s, i), j));
    }
    return RSH_OK;
}

/* Piece i of the series; a copy that is alone on its node takes it directly. */
static rsh_status send_relayed_piece(rshi_sending *w, rshi_series *s, int64_t i) {
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
static rsh_status send_reduced_piece(rshi_sending *w, rshi_series *s, int64_t i) {
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

rsh_status rshi_send_to_series(void *ctx, rshi_series *s) {
    rshi_sending *w = ctx;
    rshi_edge_begin_series(&w->e, s, w->edges);
    if (w->e.series) rshi_edge_aim(&w->e, s->piece);
    for (int64_t i = 0; i < s->n; i++)
        RSH_TRY(w->directly  ? send_series_piece(w, s, i)
                : w->relayed ? send_relayed_piece(w, s, i)
                : w->reduced ? send_reduced_piece(w, s, i)
                             : rshi_send_to_copies(w, rshi_series_choose(s, i)));
    return RSH_OK;
}

rsh_status rshi_sending_settle(rshi_sending *w) {
    const rshi_pair *pair = &w->p->pair[w->tensor];
    w->directly = w->relayed = w->reduced = false;
    if (!rshi_layout_has_groups(pair->to) || pair->irregular || pair->slice || pair->spread) return RSH_OK;
    int64_t holders = rshi_layout_holders(pair->to);
    bool partial = rshi_layout_partials(pair->to) > 1, own_only = !pair->by_node && !w->edges->whole_sends;
    w->directly = rshi_sends_directly(w, holders);
    w->relayed = rshi_pair_relays(w->p, pair) && holders <= FEW_COPIES && !partial;
    w->reduced = pair->reduce && own_only && rsh_layout_ndim(pair->to) && !partial;
    return w->directly || w->relayed || w->reduced ? list_copies(w, pair->to) : RSH_OK;
}
