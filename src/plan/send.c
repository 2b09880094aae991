/* Send: all edges out of a rank.
 *
 * A rank sends what others read from it.  For each source piece of the rank, it finds the destination pieces that
 * overlap it, and computes the legs with which their holders read sources.  In later stages a rank sends elements of
 * its destination; for these it computes the legs of the other holders of the same piece.  This file does not decide
 * which rank serves which. */
#include "plan/impl.h"

typedef struct sending {
    rshi_walk *w;
    const rshi_pair *pair;
    int64_t tensor;
    const rshi_piece *own; /* a piece of the rank's source or destination */
    rshi_piece first;      /* the same at its first holder; a source piece also at partial position 0 */
    const rshi_piece *b;   /* the current destination piece */
    const rshi_region *region;
    int64_t me;      /* number of the rank among the holders of `own` */
    int64_t holders; /* number of holders of the source piece */
    rshi_edge e;     /* the edge from the source piece to the current destination */
} sending;

/* ---- from the source ---- */

/* Emits the legs of holder j of b that read the source on this rank. */
static rsh_status send_to_holder(sending *s, const rshi_piece *b, int64_t j) {
    rshi_region region;
    rshi_piece dst;
    rshi_region_init(s->w->p, s->tensor, &s->first, b, &region);
    rshi_piece_at_holder(s->pair->to, b, j, &dst);
    if (dst.rank == s->w->rank) return RSH_OK;
    RSH_TRY(rshi_route(s->w, &region, j, RSHI_FROM_SOURCES, &s->w->legs));
    for (int64_t i = 0; i < s->w->legs.n; i++) RSH_TRY(rshi_emit_leg(s->w, &region, &dst, &s->w->legs.leg[i]));
    return RSH_OK;
}

/* Filters the edges that another rank receives: keeps those that read this rank's piece. */
typedef struct filter {
    const sending *s;
    rshi_edge_fn emit;
    void *ctx;
} filter;

static rsh_status keep_mine(void *ctx, const rshi_edge *e) {
    filter *f = ctx;
    bool mine = e->nsrc == 1 && e->src->rank == f->s->own->rank && e->src->part == f->s->own->part;
    return mine && rshi_same_start(f->s->pair->from, e->src, f->s->own) ? f->emit(f->ctx, e) : RSH_OK;
}

static rsh_status send_overlapping_to_holder(sending *s, const rshi_piece *b, int64_t j) {
    rshi_piece dst;
    filter f = {s, s->w->emit, s->w->ctx};
    rshi_piece_at_holder(s->pair->to, b, j, &dst);
    if (dst.rank == s->w->rank) return RSH_OK;
    s->w->emit = keep_mine, s->w->ctx = &f;
    rsh_status st = rshi_receive_overlapping(s->w, s->tensor, &dst);
    s->w->emit = f.emit, s->w->ctx = f.ctx;
    return st;
}

/* There is one region with one leg.  Only the destination differs from edge to edge. */
static rsh_status send_directly_to_holder(sending *s, const rshi_piece *b, int64_t j) {
    rshi_piece held;
    const rshi_piece *dst = b;
    if (j) rshi_piece_at_holder(s->pair->to, b, j, &held), dst = &held;
    if (dst->rank == s->w->rank) return RSH_OK;
    if (s->holders > 1) {
        rshi_region r = {.p = s->w->p, .pair = s->pair, .a = &s->first};
        if (!rshi_region_serves(&r, dst->rank, rshi_turn_of_rank(s->pair->to, dst->rank), s->own)) return RSH_OK;
    }
    rshi_edge_aim(&s->e, dst);
    return s->w->emit(s->w->ctx, &s->e);
}

static bool sends_directly(const sending *s, int64_t holders) {
    const rshi_pair *pair = s->pair;
    if (pair->by_node || (pair->reduce && s->w->whole_sends)) return false;
    return rshi_goes_directly(pair, holders);
}

/* b is at its first holder and partial position 0.  Visits each partial position that gets the value. */
static rsh_status send_to_piece(sending *s, const rshi_piece *b) {
    const rshi_pair *pair = s->pair;
    int64_t holders = rshi_piece_holders(pair->to, b), n = rshi_layout_partials(pair->to), i = 0;
    bool directly = sends_directly(s, holders), overlaps = pair->from_overlaps && !pair->reduce;
    rshi_piece moved;
    if (pair->keep) i = rshi_piece_partial(pair->from, s->own), n = i + 1;
    if (pair->fill_others) n = 1;
    for (; i < n; i++) {
        const rshi_piece *at = b;
        if (i) rshi_piece_at_partial(pair->to, b, i, &moved), at = &moved;
        for (int64_t j = 0; j < holders; j++)
            RSH_TRY(overlaps   ? send_overlapping_to_holder(s, at, j)
                    : directly ? send_directly_to_holder(s, at, j)
                               : send_to_holder(s, at, j));
    }
    return RSH_OK;
}

static rsh_status send_to_series(void *ctx, rshi_series *series) {
    sending *s = ctx;
    rshi_edge_begin_series(&s->e, series, s->w);
    for (int64_t i = 0; i < series->n; i++) RSH_TRY(send_to_piece(s, rshi_series_choose(series, i)));
    return RSH_OK;
}

static rsh_status send_source_piece(sending *s) {
    const rshi_pair *pair = s->pair;
    s->first = *s->own;
    bool unread = pair->from_overlaps && pair->reduce && !rshi_piece_first_copy(pair->from, s->own);
    if (unread) return RSH_OK;
    rshi_piece_at_partial(pair->from, s->own, 0, &s->first);
    rshi_piece_at_holder(pair->from, &s->first, 0, &s->first);
    s->holders = rshi_piece_holders(pair->from, &s->first);
    rshi_edge_init(s->w->p, s->tensor, s->own, s->own, &s->e); /* rshi_edge_aim sets the destination */
    return rshi_layout_search_series(pair->to, s->own->set, send_to_series, s);
}

/* ---- from the destination ---- */

static rsh_status pass_to_reader(void *ctx, int64_t reader) {
    sending *s = ctx;
    rshi_piece dst;
    if (reader == s->me) return RSH_OK;
    rshi_piece_at_holder(s->pair->to, s->b, reader, &dst);
    RSH_TRY(rshi_route(s->w, s->region, reader, s->me, &s->w->legs));
    for (int64_t i = 0; i < s->w->legs.n; i++) RSH_TRY(rshi_emit_leg(s->w, s->region, &dst, &s->w->legs.leg[i]));
    return RSH_OK;
}

static rsh_status pass_region(void *ctx, const rshi_piece *a) {
    sending *s = ctx;
    rshi_region region;
    if (s->pair->from_overlaps && !rshi_piece_first_copy(s->pair->from, a)) return RSH_OK;
    rshi_region_init(s->w->p, s->tensor, a, s->b, &region);
    s->region = &region;
    return rshi_route_readers(s->w, &region, s->me, pass_to_reader, s);
}

static rsh_status pass_on_piece(sending *s) {
    const rshi_pair *pair = s->pair;
    if (pair->fill_others && rshi_piece_partial(pair->to, s->b)) return RSH_OK;
    if (rshi_piece_holders(pair->to, s->b) == 1) return RSH_OK;
    s->me = rshi_piece_holder_index(pair->to, s->b, s->w->rank);
    return rshi_layout_search(pair->from, s->b->set, pass_region, s);
}

/* ---- */

static rsh_status send_pieces(rshi_walk *w, int64_t tensor, bool of_source) {
    const rshi_pair *pair = &w->p->pair[tensor];
    rshi_piece *list = NULL;
    int64_t n = 0;
    rsh_status st = rshi_layout_pieces(of_source ? pair->from : pair->to, w->rank, &list, &n);
    for (int64_t i = 0; i < n && !st; i++) {
        sending s = {.w = w, .pair = pair, .tensor = tensor, .own = &list[i], .b = &list[i]};
        st = of_source ? send_source_piece(&s) : pass_on_piece(&s);
    }
    rshi_free(list);
    return st;
}

static rsh_status send_tensor(rshi_walk *w, int64_t tensor) {
    if (w->p->pair[tensor].transposed) return rshi_send_transposed(w, tensor);
    RSH_TRY(send_pieces(w, tensor, true));
    if (w->p->pair[tensor].chain != RSHI_CHAIN_DIRECT) RSH_TRY(send_pieces(w, tensor, false));
    return rshi_node_result_edges(w, tensor);
}

rsh_status rshi_send_all(rshi_walk *w) {
    w->sends = true;
    for (int64_t t = 0; t < w->p->n; t++) RSH_TRY(send_tensor(w, t));
    return RSH_OK;
}
