/* Irregular sources: flat ranges over segments that are replicated along an axis of their dim.
 *
 * There the copies of a segment lie in flat ranges of different shape, so they are pieces of their own that overlap one
 * another.  A destination first takes what its own rank holds, then what ranks of its node hold; what is left, as
 * boxes, comes from the first copy of each piece.  Everything else about these layouts is regular, and they are rare:
 * cost is not a concern here, bytes are. */
#include "plan/boxes.h"
#include "plan/impl.h"

typedef struct receiving {
    rshi_walk *w;
    const rshi_pair *pair;
    int64_t tensor;
    const rshi_piece *b;
    rshi_boxes rest; /* what is still to come */
} receiving;

/* The holder of `a` that serves b's rank. */
static int64_t serving(const receiving *r, const rshi_piece *a) {
    int64_t turn = rshi_layout_position(r->pair->to, r->b->rank);
    return rshi_serving_holder(r->w->p, r->pair, a, r->b->rank, turn);
}

/* What is left of b and lies in piece a, from the holder that serves b's rank. */
static rsh_status from_piece(receiving *r, const rshi_piece *a) {
    rshi_piece src;
    rshi_piece_at_holder(r->pair->from, a, serving(r, a), &src);
    for (int64_t i = 0; i < r->rest.n; i++) {
        rshi_edge e;
        rshi_edge_init(r->w->p, r->tensor, &src, r->b, &e);
        for (int d = 0; d < rsh_layout_ndim(r->pair->to); d++)
            e.lo[d] = r->rest.box[i].lo[d], e.hi[d] = r->rest.box[i].hi[d];
        if (rshi_edge_count(&e)) RSH_TRY(r->w->take(r->w->ctx, &e));
    }
    return RSH_OK;
}

/* The piece where b looks for it: at b's partial position where each moves on its own. */
static rshi_piece for_b(const receiving *r, const rshi_piece *a) {
    rshi_piece at;
    rshi_piece_at_partial(r->pair->from, a, r->pair->keep ? rshi_piece_partial(r->pair->to, r->b) : 0, &at);
    return at;
}

/* Only the first copy counts: along the axes of a dim that its segment does not name, coordinate 0.  Of all copies of
 * an element it is the one with the lowest position, and exactly one piece per element has it. */
static rsh_status from_first_copy(void *ctx, const rshi_piece *a) {
    receiving *r = ctx;
    if (!rshi_piece_first_copy(r->pair->from, a)) return RSH_OK;
    rshi_piece at = for_b(r, a);
    return from_piece(r, &at);
}

/* Takes what ranks of b's node hold, whichever copy it is, and removes it from the rest. */
static rsh_status from_near_copy(void *ctx, const rshi_piece *a) {
    receiving *r = ctx;
    const rsh_plan *p = r->w->p;
    rshi_piece at = for_b(r, a);
    int64_t rank = rshi_piece_holder(r->pair->from, &at, serving(r, &at));
    if (rshi_plan_node(p, rank) != rshi_plan_node(p, r->b->rank)) return RSH_OK;
    RSH_TRY(from_piece(r, &at));
    return rshi_boxes_remove(rsh_layout_ndim(r->pair->to), &r->rest, &at);
}

/* Takes what the rank holds itself, and removes it from the rest. */
static rsh_status from_itself(receiving *r, const rshi_piece *own) {
    const rshi_pair *pair = r->pair;
    if (!rshi_pieces_common(pair->to, own, r->b)) return RSH_OK;
    if (pair->keep && rshi_piece_partial(pair->from, own) != rshi_piece_partial(pair->to, r->b)) return RSH_OK;
    rshi_edge e;
    rshi_edge_init(r->w->p, r->tensor, own, r->b, &e);
    RSH_TRY(r->w->take(r->w->ctx, &e));
    return rshi_boxes_remove(rsh_layout_ndim(pair->to), &r->rest, own);
}

rsh_status rshi_receive_copies(rshi_walk *w, int64_t tensor, const rshi_piece *b) {
    const rshi_pair *pair = &w->p->pair[tensor];
    receiving r = {.w = w, .pair = pair, .tensor = tensor, .b = b};
    rshi_piece *own = NULL;
    int64_t n = 0;
    rsh_status st;
    RSH_GOTO(rshi_boxes_around(rsh_layout_ndim(pair->to), b, &r.rest));
    RSH_GOTO(rshi_layout_pieces(pair->from, b->rank, &own, &n));
    for (int64_t i = 0; i < n; i++) RSH_GOTO(from_itself(&r, &own[i]));
    if (w->p->several_nodes) RSH_GOTO(rshi_layout_search(pair->from, b->set, from_near_copy, &r));
    RSH_GOTO(rshi_layout_search(pair->from, b->set, from_first_copy, &r));
out:
    rshi_free(own);
    rshi_boxes_free(&r.rest);
    return st;
}
