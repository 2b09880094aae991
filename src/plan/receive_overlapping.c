/* Receive overlapping: sources whose pieces overlap one another.
 *
 * This happens in flat layouts over segments that are replicated along an axis of their dim.  The copies of such a
 * segment lie in flat ranges of different shape, so each copy is a separate piece.  A destination first takes what
 * its own rank holds, then what ranks of its node hold.  The rest, as boxes, comes from the first copy of each
 * piece.  These layouts are rare, so this code minimises bytes, not time. */
#include "plan/boxes.h"
#include "plan/impl.h"

typedef struct receiving {
    rshi_walk *w;
    const rshi_pair *pair;
    int64_t tensor;
    const rshi_piece *b;
    rshi_boxes rest; /* not received yet */
} receiving;

/* The number of the holder of `a` that serves b's rank. */
static int64_t serving(const receiving *r, const rshi_piece *a) {
    int64_t turn = rshi_turn_of_rank(r->pair->to, r->b->rank);
    return rshi_serving_holder(r->w->p, r->pair, a, r->b->rank, turn);
}

/* Emits edges for the rest of b inside piece a, from the holder that serves b's rank. */
static rsh_status emit_rest_in(receiving *r, const rshi_piece *a) {
    rshi_piece src;
    rshi_piece_at_holder(r->pair->from, a, serving(r, a), &src);
    for (int64_t i = 0; i < r->rest.n; i++) {
        rshi_edge e;
        rshi_edge_init(r->w->p, r->tensor, &src, r->b, &e);
        for (int d = 0; d < rsh_layout_ndim(r->pair->to); d++)
            e.lo[d] = r->rest.box[i].lo[d], e.hi[d] = r->rest.box[i].hi[d];
        if (rshi_edge_count(&e)) RSH_TRY(r->w->emit(r->w->ctx, &e));
    }
    return RSH_OK;
}

/* The piece at the partial position that b reads. */
static rshi_piece at_partial_of_b(const receiving *r, const rshi_piece *a) {
    rshi_piece at;
    rshi_piece_at_partial(r->pair->from, a, r->pair->keep ? rshi_piece_partial(r->pair->to, r->b) : 0, &at);
    return at;
}

/* Only the first copy of a piece is used: the one with coordinate 0 along the axes of the dim that its segment does
 * not use.  Exactly one piece per element is a first copy, at the lowest position that holds the element. */
static rsh_status take_first_copy(void *ctx, const rshi_piece *a) {
    receiving *r = ctx;
    if (!rshi_piece_first_copy(r->pair->from, a)) return RSH_OK;
    rshi_piece at = at_partial_of_b(r, a);
    return emit_rest_in(r, &at);
}

/* Takes any copy that a rank of b's node holds, and removes it from the rest. */
static rsh_status take_copy_on_node(void *ctx, const rshi_piece *a) {
    receiving *r = ctx;
    const rsh_plan *p = r->w->p;
    rshi_piece at = at_partial_of_b(r, a);
    int64_t rank = rshi_piece_holder(r->pair->from, &at, serving(r, &at));
    if (rshi_plan_node(p, rank) != rshi_plan_node(p, r->b->rank)) return RSH_OK;
    RSH_TRY(emit_rest_in(r, &at));
    return rshi_boxes_remove(rsh_layout_ndim(r->pair->to), &r->rest, &at);
}

/* Takes what the rank holds itself, and removes it from the rest. */
static rsh_status take_own(receiving *r, const rshi_piece *own) {
    const rshi_pair *pair = r->pair;
    if (!rshi_pieces_common(pair->to, own, r->b)) return RSH_OK;
    if (pair->keep && rshi_piece_partial(pair->from, own) != rshi_piece_partial(pair->to, r->b)) return RSH_OK;
    rshi_edge e;
    rshi_edge_init(r->w->p, r->tensor, own, r->b, &e);
    RSH_TRY(r->w->emit(r->w->ctx, &e));
    return rshi_boxes_remove(rsh_layout_ndim(pair->to), &r->rest, own);
}

rsh_status rshi_receive_overlapping(rshi_walk *w, int64_t tensor, const rshi_piece *b) {
    const rshi_pair *pair = &w->p->pair[tensor];
    receiving r = {.w = w, .pair = pair, .tensor = tensor, .b = b};
    rshi_piece *own = NULL;
    int64_t n = 0;
    rsh_status st;
    RSH_GOTO(rshi_boxes_around(rsh_layout_ndim(pair->to), b, &r.rest));
    RSH_GOTO(rshi_layout_pieces(pair->from, b->rank, &own, &n));
    for (int64_t i = 0; i < n; i++) RSH_GOTO(take_own(&r, &own[i]));
    if (w->p->several_nodes) RSH_GOTO(rshi_layout_search(pair->from, b->set, take_copy_on_node, &r));
    RSH_GOTO(rshi_layout_search(pair->from, b->set, take_first_copy, &r));
out:
    rshi_free(own);
    rshi_boxes_free(&r.rest);
    return st;
}
