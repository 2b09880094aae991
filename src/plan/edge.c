/* Edge: makes the edges of legs. */
#include "plan/piece_holders.h"

/* ---- counting ---- */

int64_t rshi_edge_count(const rshi_edge *e) {
    int64_t n = 1;
    for (int d = 0; d < rsh_layout_ndim(e->dst_layout); d++)
        n *= rshi_stripe_common(&e->with->set[d], &e->dst->set[d], e->lo[d], e->hi[d]);
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

bool rshi_edge_is_copy(const rshi_edge *e) {
    for (int64_t i = 0; i < e->nsrc; i++)
        if (rshi_edge_source(e, i) != e->dst->rank) return false;
    return true;
}

static bool edge_reads(const rshi_edge *e, int64_t rank) {
    for (int64_t i = 0; i < e->nsrc; i++)
        if (rshi_edge_source(e, i) == rank) return true;
    return false;
}

/* ---- plain edges ---- */

void rshi_edge_aim(rshi_edge *e, const rshi_piece *b) {
    e->dst = b;
    for (int d = 0, ndim = rsh_layout_ndim(e->dst_layout); d < ndim; d++) {
        e->lo[d] = b->set[d].lo;
        e->hi[d] = rshi_stripe_end(&b->set[d]);
    }
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
    e->all_contributions = false;
    e->nsrc = 1;
    e->op = RSH_OP_NONE;
    e->divisor = pair->divisor;
    e->src_dtype = rsh_layout_dtype(pair->from);
    e->dst_dtype = rsh_layout_dtype(pair->to);
    e->wire_size = pair->wire_size;
    e->series = 0;
    if (pair->reduce) e->op = op == RSH_OP_AVG ? RSH_OP_SUM : op;
    rshi_edge_aim(e, b);
}

rsh_status rshi_emit_edge(rshi_walk *w, const rshi_edge *e) {
    if (w->sends && (e->dst->rank == w->rank || !edge_reads(e, w->rank))) return RSH_OK;
    return w->emit(w->ctx, e);
}

rshi_piece *rshi_walk_source_room(rshi_walk *w, int64_t n) {
    return RSHI_GROW(w->src, n, &w->src_room) ? NULL : w->src;
}

/* ---- edges that read sources ---- */

/* Emits the edge with only the contribution of w->rank, if it serves the destination. */
static rsh_status emit_own_contribution(rshi_walk *w, const rshi_region *r, rshi_edge *e, int64_t turn) {
    const rsh_layout *from = r->pair->from;
    rshi_piece src = *r->a;
    src.position = rshi_layout_position(from, w->rank);
    if (src.position < 0) return RSH_OK;
    rshi_piece_at_partial(from, r->a, rshi_piece_partial(from, &src), &src);
    rshi_piece_at_holder(from, &src, rshi_serving_holder(r->p, r->pair, &src, e->dst->rank, turn), &src);
    e->src = e->with = &src;
    return src.rank == w->rank ? rshi_emit_edge(w, e) : RSH_OK;
}

/* Lists every contribution, at the holder that serves the destination, as a piece. */
static rsh_status list_pieces(rshi_walk *w, const rshi_region *r, int64_t turn, rshi_edge *e) {
    const rsh_layout *from = r->pair->from;
    rshi_piece *src = rshi_walk_source_room(w, e->nsrc);
    if (!src) return RSH_ENOMEM;
    e->src = e->with = src;
    for (int64_t i = 0; i < e->nsrc; i++) {
        rshi_piece_at_partial(from, r->a, i, &src[i]);
        int64_t holder = rshi_serving_holder(r->p, r->pair, &src[i], e->dst->rank, turn);
        if (holder) rshi_piece_at_holder(from, &src[i], holder, &src[i]); /* it is at its first holder already */
    }
    return RSH_OK;
}

/* The same if all contributions lie at the same place on their ranks: lists only the ranks.  Every rank of the plan
 * may be a source. */
static rsh_status list_ranks(rshi_walk *w, const rshi_region *r, int64_t turn, rshi_edge *e) {
    const rsh_layout *from = r->pair->from;
    rshi_piece at = *r->a;
    RSH_TRY(RSHI_GROW(w->src_rank, e->nsrc, &w->src_rank_room));
    e->src = e->with = r->a, e->src_rank = w->src_rank;
    bool replicas = rshi_layout_holders(from) > 1;
    for (int64_t i = 0; i < e->nsrc; i++) {
        at.position = r->a->position + rshi_layout_copy_offset(from, i, 0);
        int64_t holder = replicas ? rshi_serving_holder(r->p, r->pair, &at, e->dst->rank, turn) : 0;
        if (holder) at.position = r->a->position + rshi_layout_copy_offset(from, i, holder);
        w->src_rank[i] = rshi_layout_rank_at(from, at.position);
    }
    return RSH_OK;
}

bool rshi_pair_reads_whole_parts(const rshi_pair *pair) {
    return pair->reduce && !pair->by_node && !pair->transposed && rshi_layout_has_groups(pair->from) &&
           rshi_layout_holders(pair->from) == 1;
}

/* Emits an edge that reads every contribution. */
static rsh_status emit_from_sources(rshi_walk *w, const rshi_region *r, rshi_edge *e, int64_t turn) {
    if (r->pair->by_node) return rshi_by_node_edges(w, r, e, turn);
    if (w->sends && r->pair->reduce && !w->whole_sends) return emit_own_contribution(w, r, e, turn);
    e->nsrc = r->pair->contributions;
    if (w->counts && rshi_pair_reads_whole_parts(r->pair)) {
        e->all_contributions = true, e->src = e->with = r->a;
        return w->emit(w->ctx, e);
    }
    RSH_TRY(e->nsrc > 1 && rshi_layout_has_groups(r->pair->from) ? list_ranks(w, r, turn, e)
                                                                 : list_pieces(w, r, turn, e));
    return rshi_emit_edge(w, e);
}

bool rshi_region_serves(const rshi_region *r, int64_t rank, int64_t turn, const rshi_piece *own) {
    const rsh_layout *from = r->pair->from;
    rshi_piece at;
    rshi_piece_at_partial(from, r->a, rshi_piece_partial(from, own), &at);
    return rshi_piece_holder(from, &at, rshi_serving_holder(r->p, r->pair, &at, rank, turn)) == own->rank;
}

/* ---- edges that read another holder ---- */

static rsh_status emit_from_holder(rshi_walk *w, const rshi_region *r, rshi_edge *e, int stage, int64_t holder) {
    rshi_piece src;
    rshi_piece_at_holder(r->pair->to, r->b, holder, &src);
    e->stage = stage + (r->pair->by_node ? 1 : 0);
    e->from_dst = true;
    e->src_layout = r->pair->to;
    e->src_dtype = e->dst_dtype;
    e->wire_size = (int64_t)rsh_dtype_size(e->dst_dtype);
    e->op = RSH_OP_NONE;
    e->divisor = 1;
    e->nsrc = 1;
    e->src = &src;
    e->with = r->a;
    return rshi_emit_edge(w, e);
}

rsh_status rshi_emit_leg(rshi_walk *w, const rshi_region *r, const rshi_piece *dst, const rshi_leg *leg) {
    rshi_edge e;
    rshi_edge_init(r->p, r->tensor, r->a, dst, &e);
    if (rsh_layout_ndim(r->pair->to)) {
        e.lo[r->dim] = rshi_max(e.lo[r->dim], leg->lo);
        e.hi[r->dim] = rshi_min(e.hi[r->dim], leg->hi);
    }
    return leg->holder < 0 ? emit_from_sources(w, r, &e, leg->turn)
                           : emit_from_holder(w, r, &e, leg->stage, leg->holder);
}

/* ---- */

void rshi_walk_free(rshi_walk *w) {
    rshi_free(w->src);
    rshi_free(w->src_rank);
    rshi_holder_list_free(w->holders);
    rshi_source_nodes_free(w->source_nodes);
    rshi_free(w->relay_list);
    rshi_free(w->legs.leg);
    rshi_kept_groups_free(w->groups);
    *w = (rshi_walk){0};
}
