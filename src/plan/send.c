/* Send: all edges out of a rank.
 *
 * What a rank sends is what others take from it.  For each of its source pieces the destination pieces that meet it are
 * looked up, and their holders are asked for the legs that read the sources.  In later stages a rank passes on what
 * lies in its destination: there the other holders of the same piece are asked for theirs.  Who serves whom is not
 * decided here. */
#include "plan/impl.h"

typedef struct sending {
    rshi_walk *w;
    const rshi_pair *pair;
    int64_t tensor;
    const rshi_piece *own; /* a piece of the rank: of its source, or of its destination */
    rshi_piece first;      /* the same at its first holder; a source also at partial position 0 */
    const rshi_piece *b;   /* the destination piece at hand */
    const rshi_region *region;
    int64_t me;            /* which holder the rank is */
    int64_t holders;       /* of the source piece */
    rshi_edge e;           /* from the source piece, aimed at one destination after the other */
} sending;

/* ---- from the source ---- */

/* The legs of holder j of b that read this rank's source. */
static rsh_status send_to_holder(sending *s, const rshi_piece *b, int64_t j) {
    rshi_region region;
    rshi_piece dst;
    rshi_region_init(s->w->p, s->tensor, &s->first, b, &region);
    rshi_piece_at_holder(s->pair->to, b, j, &dst);
    if (dst.rank == s->w->rank) return RSH_OK;
    RSH_TRY(rshi_route(s->w, &region, j, RSHI_FROM_SOURCES, &s->w->legs));
    for (int64_t i = 0; i < s->w->legs.n; i++) RSH_TRY(rshi_region_give(s->w, &region, &dst, &s->w->legs.leg[i]));
    return RSH_OK;
}

/* Of the edges that another rank makes of the copies of an irregular source, those that read this rank's piece. */
typedef struct filter {
    const sending *s;
    rshi_edge_fn take;
    void *ctx;
} filter;

static rsh_status keep_mine(void *ctx, const rshi_edge *e) {
    filter *f = ctx;
    bool mine = e->nsrc == 1 && e->src->rank == f->s->own->rank && e->src->part == f->s->own->part;
    return mine && rshi_same_start(f->s->pair->from, e->src, f->s->own) ? f->take(f->ctx, e) : RSH_OK;
}

static rsh_status send_copies_to_holder(sending *s, const rshi_piece *b, int64_t j) {
    rshi_piece dst;
    filter f = {s, s->w->take, s->w->ctx};
    rshi_piece_at_holder(s->pair->to, b, j, &dst);
    if (dst.rank == s->w->rank) return RSH_OK;
    s->w->take = keep_mine, s->w->ctx = &f;
    rsh_status st = rshi_receive_copies(s->w, s->tensor, &dst);
    s->w->take = f.take, s->w->ctx = f.ctx;
    return st;
}

/* One region, one leg, and nothing of the edge but its destination differs. */
static rsh_status send_directly_to_holder(sending *s, const rshi_piece *b, int64_t j) {
    rshi_piece held;
    const rshi_piece *dst = b;
    if (j) rshi_piece_at_holder(s->pair->to, b, j, &held), dst = &held;
    if (dst->rank == s->w->rank) return RSH_OK;
    if (s->holders > 1) {
        rshi_region r = {.p = s->w->p, .pair = s->pair, .a = &s->first};
        if (!rshi_region_serves(&r, dst->rank, rshi_layout_position(s->pair->to, dst->rank), s->own)) return RSH_OK;
    }
    rshi_edge_aim(&s->e, dst);
    return s->w->take(s->w->ctx, &s->e);
}

static bool sends_directly(const sending *s, int64_t holders) {
    const rshi_pair *pair = s->pair;
    if (pair->by_node || (pair->reduce && s->w->whole_sends)) return false;
    return rshi_goes_directly(pair, holders);
}

/* b is at its first holder and partial position 0; the partial positions that get the value are asked one by one. */
static rsh_status send_to_piece(sending *s, const rshi_piece *b) {
    const rshi_pair *pair = s->pair;
    int64_t holders = rshi_piece_holders(pair->to, b), n = rshi_layout_partials(pair->to), i = 0;
    bool directly = sends_directly(s, holders), copies = pair->irregular && !pair->reduce;
    rshi_piece moved;
    if (pair->keep) i = rshi_piece_partial(pair->from, s->own), n = i + 1;
    if (pair->fill_others) n = 1;
    for (; i < n; i++) {
        const rshi_piece *at = b;
        if (i) rshi_piece_at_partial(pair->to, b, i, &moved), at = &moved;
        for (int64_t j = 0; j < holders; j++)
            RSH_TRY(copies     ? send_copies_to_holder(s, at, j)
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
    bool unread = pair->irregular && pair->reduce && !rshi_piece_first_copy(pair->from, s->own);
    if (unread) return RSH_OK;
    rshi_piece_at_partial(pair->from, s->own, 0, &s->first);
    rshi_piece_at_holder(pair->from, &s->first, 0, &s->first);
    s->holders = rshi_piece_holders(pair->from, &s->first);
    rshi_edge_init(s->w->p, s->tensor, s->own, s->own, &s->e); /* it is aimed at each */
    return rshi_layout_search_series(pair->to, s->own->set, send_to_series, s);
}

/* ---- from the destination ---- */

static rsh_status pass_to_reader(void *ctx, int64_t reader) {
    sending *s = ctx;
    rshi_piece dst;
    if (reader == s->me) return RSH_OK;
    rshi_piece_at_holder(s->pair->to, s->b, reader, &dst);
    RSH_TRY(rshi_route(s->w, s->region, reader, s->me, &s->w->legs));
    for (int64_t i = 0; i < s->w->legs.n; i++)
        RSH_TRY(rshi_region_give(s->w, s->region, &dst, &s->w->legs.leg[i]));
    return RSH_OK;
}

static rsh_status pass_region(void *ctx, const rshi_piece *a) {
    sending *s = ctx;
    rshi_region region;
    if (s->pair->irregular && !rshi_piece_first_copy(s->pair->from, a)) return RSH_OK;
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

rsh_status rshi_send_tensor(rshi_walk *w, int64_t tensor) {
    if (w->p->pair[tensor].transposed) return rshi_adjoint_sends(w, tensor);
    RSH_TRY(send_pieces(w, tensor, true));
    if (w->p->pair[tensor].chain != RSHI_CHAIN_DIRECT) RSH_TRY(send_pieces(w, tensor, false));
    return rshi_node_result_edges(w, tensor);
}

rsh_status rshi_send_all(rshi_walk *w) {
    w->sends = true;
    for (int64_t t = 0; t < w->p->n; t++) RSH_TRY(rshi_send_tensor(w, t));
    return RSH_OK;
}
