/* Region: what a source piece and a destination piece have in common, as edges. */
#include "plan/impl.h"

int64_t rshi_edge_count(const rshi_edge *e) {
    int64_t n = 1;
    for (int d = 0; d < rsh_layout_ndim(e->dst_layout); d++) {
        n *= rshi_stripe_common(&e->with->set[d], &e->dst->set[d], e->lo[d], e->hi[d]);
    }
    return n;
}

int64_t rshi_pieces_common(const rsh_layout *l, const rshi_piece *a, const rshi_piece *b) {
    int64_t n = 1;
    for (int d = 0; d < rsh_layout_ndim(l) && n; d++)
        n *= rshi_stripe_common(&a->set[d], &b->set[d], a->set[d].lo, rshi_stripe_end(&a->set[d]));
    return n;
}

bool rshi_same_start(const rsh_layout *l, const rshi_piece *a, const rshi_piece *b) {
    for (int d = 0; d < rsh_layout_ndim(l); d++)
        if (a->set[d].lo != b->set[d].lo) return false;
    return true;
}

int64_t rshi_region_bytes(const rshi_region *r) {
    return rshi_mul_most(rshi_pieces_common(r->pair->to, r->a, r->b), r->pair->wire_size);
}

void rshi_edge_init(const rsh_plan *p, int64_t tensor, const rshi_piece *a, const rshi_piece *b, rshi_edge *e) {
    const rshi_pair *pair = &p->pair[tensor];
    rsh_op op = rsh_layout_op(pair->from);
    e->tensor = tensor;
    e->stage = 0;
    e->from_dst = false;
    e->src_layout = pair->from;
    e->dst_layout = pair->to;
    e->with = e->src = a;
    e->src_rank = NULL;
    e->nsrc = 1;
    e->op = RSH_OP_NONE;
    e->divisor = 1;
    e->src_dtype = rsh_layout_dtype(pair->from);
    e->dst_dtype = rsh_layout_dtype(pair->to);
    e->wire_size = pair->wire_size;
    e->series = 0;
    if (pair->reduce) {
        e->op = op == RSH_OP_AVG ? RSH_OP_SUM : op;
        e->divisor = op == RSH_OP_AVG ? pair->contributions : 1;
    }
    rshi_edge_aim(e, b);
}

void rshi_edge_aim(rshi_edge *e, const rshi_piece *b) {
    e->dst = b;
    e->owner = b->rank;
    e->turn = rsh_layout_describe(e->dst_layout)->is_boxes ? rshi_layout_position(e->dst_layout, b->rank) : b->position;
    for (int d = 0, ndim = rsh_layout_ndim(e->dst_layout); d < ndim; d++) {
        e->lo[d] = b->set[d].lo;
        e->hi[d] = rshi_stripe_end(&b->set[d]);
    }
}

/* Where ranks hold the same or nothing in common, copies of a piece lie in their parts in the same place. */
void rshi_edge_begin_series(rshi_edge *e, const rshi_series *series, rshi_rank_edges *edges) {
    e->series = series->coordinate && rshi_layout_has_groups(series->l) ? ++edges->nseries : 0;
    e->series_dim = series->dim;
}

/* ---- cutting ---- */

/* The first index x such that a and b have i indices in common before it. */
static int64_t cut_point(const rshi_stripe *a, const rshi_stripe *b, int64_t i) {
    int64_t lo = rshi_max(a->lo, b->lo), hi = rshi_min(rshi_stripe_end(a), rshi_stripe_end(b)), from = lo;
    if (a->count == 1 && b->count == 1) return lo + i;
    while (lo < hi) {
        int64_t mid = lo + (hi - lo) / 2;
        if (rshi_stripe_common(a, b, from, mid) < i)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

bool rshi_region_cut(rshi_region *r, int64_t lo, int64_t hi) {
    const rshi_stripe *a = &r->a->set[r->dim], *b = &r->b->set[r->dim];
    r->whole.lo[r->dim] = cut_point(a, b, lo);
    r->whole.hi[r->dim] = cut_point(a, b, hi);
    return r->whole.lo[r->dim] < r->whole.hi[r->dim];
}

/* ---- edges ---- */

/* The contribution of the rank whose sends these are, if it is the one that serves b. */
static rsh_status from_own_source(const rshi_region *r, int64_t turn) {
    const rsh_layout *from = r->pair->from;
    rshi_edge e = r->whole;
    rshi_piece *src = rshi_pieces_room(r->edges, 1), own = *r->a;
    if (!src) return RSH_ENOMEM;
    own.position = rshi_layout_position(from, r->edges->rank);
    if (own.position < 0) return RSH_OK; /* it has nothing of the source, and passes on at most */
    rshi_piece_at_partial(from, r->a, rshi_piece_partial(from, &own), src);
    rshi_piece_at_holder(from, src, rshi_serving_holder(r->p, r->pair, src, r->b->rank, turn), src);
    if (src->rank != r->edges->rank) return RSH_OK;
    e.turn = turn;
    e.src = e.with = src;
    return rshi_edges_add(r->out, &e);
}

bool rshi_region_is_own_send(const rshi_region *r) {
    return r->out == &r->edges->sends && r->pair->reduce && !r->pair->by_node && !r->pair->irregular &&
           !r->edges->whole_sends;
}

/* Every contribution at the holder that serves b, as pieces of their own. */
static rsh_status list_pieces(const rshi_region *r, rshi_edge *e) {
    const rsh_layout *from = r->pair->from;
    rshi_piece *src = rshi_pieces_room(r->edges, e->nsrc);
    if (!src) return RSH_ENOMEM;
    e->src = e->with = src;
    for (int64_t i = 0; i < e->nsrc; i++) {
        rshi_piece_at_partial(from, r->a, r->pair->keep ? rshi_piece_partial(r->pair->to, r->b) : i, &src[i]);
        int64_t holder = rshi_serving_holder(r->p, r->pair, &src[i], r->b->rank, e->turn);
        if (holder) rshi_piece_at_holder(from, &src[i], holder, &src[i]); /* it is at its first one */
    }
    return RSH_OK;
}

/* The same where they lie in the same place on every rank: only their ranks.  There may be as many as ranks. */
static rsh_status list_ranks(const rshi_region *r, rshi_edge *e) {
    const rsh_layout *from = r->pair->from;
    rshi_piece *src = rshi_pieces_room(r->edges, 1), at = *r->a;
    int64_t *rank = src ? rshi_pieces_numbers(r->edges, e->nsrc) : NULL;
    const rshi_vicinity *near = NULL;
    if (!rank) return RSH_ENOMEM;
    *src = *r->a;
    e->src = e->with = src, e->src_rank = rank;
    bool replicas = rshi_layout_holders(from) > 1;
    if (replicas) RSH_TRY(rshi_vicinity_find(r->p, r->whole.tensor, r->b->rank, r->edges, &near));
    for (int64_t i = 0; i < e->nsrc; i++) {
        at.position = r->a->position + rshi_layout_copy_offset(from, i, 0);
        int64_t holder = replicas ? rshi_serving_far_or_near(r->p, r->pair, near, &at, r->b->rank, e->turn) : 0;
        if (holder) at.position = r->a->position + rshi_layout_copy_offset(from, i, holder);
        rank[i] = rshi_layout_rank_at(from, at.position);
    }
    return RSH_OK;
}

/* Every contribution, or the one of b's own partial position where each moves on its own. */
rsh_status rshi_region_from_sources(const rshi_region *r, int64_t turn) {
    if (r->pair->by_node) return rshi_by_node_edges(r, turn);
    if (rshi_region_is_own_send(r)) return from_own_source(r, turn);
    rshi_edge e = r->whole;
    e.turn = turn;
    e.nsrc = r->pair->contributions;
    RSH_TRY(e.nsrc > 1 && rshi_layout_has_groups(r->pair->from) ? list_ranks(r, &e) : list_pieces(r, &e));
    return rshi_edges_add(r->out, &e);
}

rsh_status rshi_region_from_holder(rshi_region *r, int stage, int64_t holder, int64_t owner, int64_t turn) {
    rshi_edge e = r->whole;
    if (!r->a_kept) r->a_kept = rshi_piece_keep(r->edges, r->a);
    rshi_piece *src = r->a_kept ? rshi_pieces_room(r->edges, 1) : NULL;
    if (!src) return RSH_ENOMEM;
    rshi_piece_at_holder(r->pair->to, r->b, holder, src);
    e.stage = stage;
    e.from_dst = true;
    e.owner = owner;
    e.turn = turn;
    e.src_layout = r->pair->to;
    e.src_dtype = e.dst_dtype;
    e.wire_size = (int64_t)rsh_dtype_size(e.dst_dtype);
    e.op = RSH_OP_NONE;
    e.divisor = 1;
    e.nsrc = 1;
    e.src = src;
    e.with = r->a_kept;
    return rshi_edges_add(r->out, &e);
}
