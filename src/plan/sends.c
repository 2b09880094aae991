/* Sends: all edges out of a rank.
 *
 * What a rank sends is what others receive from it: for each of its source pieces, the destination pieces that meet it
 * are asked, wherever they are held, which edges they make, and those that read this rank are kept.  In later stages a
 * rank passes on what lies in its destination; there the other holders of the same destination piece are asked. */
#include "plan/impl.h"

/* One piece of this rank, while the pieces of others that may read it are looked at. */
typedef struct sending {
    const rsh_plan *p;
    int64_t tensor;
    rshi_server from; /* this rank, with its source piece */
    rshi_piece first; /* that piece where others look for it */
    rshi_rank_edges *edges;
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
            mine |= e->src[k].rank == s->rank && (!a || rshi_same_start(e->src_layout, &e->src[k], a));
        if (mine) list->edge[kept++] = *e;
    }
    list->n = kept;
    if (kept == first) rshi_pieces_forget_after(s, mark);
}

/* Edges into b, at its rank, that read this rank's source piece. */
static rsh_status send_to(sending *w, const rshi_piece *b) {
    rshi_rank_edges *s = w->edges;
    int64_t first = s->sends.n;
    rshi_kept mark = rshi_pieces_end(s);
    const rshi_piece *kept = rshi_piece_keep(s, b);
    if (!kept) return RSH_ENOMEM;
    RSH_TRY(w->p->pair[w->tensor].irregular ? rshi_piece_receives(w->p, w->tensor, kept, s, &s->sends)
                                            : rshi_region_edges(w->p, w->tensor, &w->first, kept, s, &s->sends));
    keep_mine(s, first, w->from.a, mark);
    return RSH_OK;
}

/* b at every partial position and every holder. */
static rsh_status send_to_holders(void *ctx, const rshi_piece *b) {
    sending *w = ctx;
    const rshi_pair *pair = &w->p->pair[w->tensor];
    int64_t partials = pair->fill_others ? 1 : rshi_layout_partials(pair->to);
    int64_t holders = rshi_piece_holders(pair->to, b);
    for (int64_t i = 0; i < partials; i++) {
        rshi_piece at, held;
        rshi_piece_at_partial(pair->to, b, i, &at);
        for (int64_t j = 0; j < holders; j++) {
            if (!rshi_may_serve(w->p, pair, &w->from, rshi_piece_holder(pair->to, &at, j))) continue;
            rshi_piece_at_holder(pair->to, &at, j, &held);
            RSH_TRY(send_to(w, &held));
        }
    }
    return RSH_OK;
}

static rsh_status send_piece(sending *w) {
    const rshi_pair *pair = &w->p->pair[w->tensor];
    w->first = *w->from.a;
    if (!pair->irregular) {
        rshi_piece_at_partial(pair->from, w->from.a, 0, &w->first);
        rshi_piece_at_holder(pair->from, &w->first, 0, &w->first);
    }
    return rshi_layout_search(pair->to, w->first.set, send_to_holders, w);
}

/* Edges that read what lies in this rank's destination piece b. */
static rsh_status pass_on(const rsh_plan *p, int64_t tensor, const rshi_piece *b, rshi_rank_edges *s) {
    const rsh_layout *to = p->pair[tensor].to;
    int64_t holders = rshi_piece_holders(to, b);
    for (int64_t j = 0; j < holders; j++) {
        int64_t first = s->sends.n;
        rshi_kept mark = rshi_pieces_end(s);
        rshi_piece *at = rshi_pieces_room(s, 1);
        if (!at) return RSH_ENOMEM;
        rshi_piece_at_holder(to, b, j, at);
        if (at->rank != s->rank) RSH_TRY(rshi_piece_receives(p, tensor, at, s, &s->sends));
        keep_mine(s, first, NULL, mark);
    }
    return RSH_OK;
}

static rsh_status send_sources(const rsh_plan *p, int64_t tensor, rshi_rank_edges *s) {
    sending w = {.p = p, .tensor = tensor, .edges = s};
    rshi_piece *list = NULL;
    int64_t n = 0;
    rsh_status st = rshi_layout_pieces(p->pair[tensor].from, s->rank, &list, &n);
    for (int64_t i = 0; i < n && !st; i++) {
        w.from = rshi_server_of(&p->pair[tensor], &list[i]);
        st = send_piece(&w);
    }
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
    if (p->adjoint) return rshi_adjoint_sends(p, s);
    for (int64_t t = 0; t < p->n; t++) {
        RSH_TRY(send_sources(p, t, s));
        if (rshi_plan_stages(p) > 1) RSH_TRY(send_results(p, t, s));
    }
    return RSH_OK;
}
