/* Irregular sources: flat ranges over segments that are replicated along an axis of their dim.
 *
 * There the copies of a segment lie in flat ranges of different shape, so they are pieces of their own that overlap one
 * another.  A destination first takes what its own rank holds, then what ranks of its node hold; what is left, as
 * boxes, comes from the first copy of each piece.  Everything else about these layouts is regular, and they are rare:
 * cost is not a concern here, bytes are. */
#include "plan/boxes.h"
#include "plan/impl.h"

typedef struct receiving {
    const rsh_plan *p;
    int64_t tensor;
    const rshi_piece *b;
    rshi_boxes rest; /* what is still to come */
    rshi_rank_edges *edges;
    rshi_edges *out;
} receiving;

/* What is left of b and lies in piece a, from the holder that serves b's rank. */
static rsh_status from_piece(receiving *r, const rshi_piece *a) {
    const rshi_pair *pair = &r->p->pair[r->tensor];
    rshi_piece *src = rshi_pieces_room(r->edges, 1);
    int64_t rank = rshi_serving_rank(r->p, pair, a, r->b->rank);
    if (!src) return RSH_ENOMEM;
    rshi_piece_at_holder(pair->from, a, rshi_piece_holder_index(pair->from, a, rank), src);
    for (int64_t i = 0; i < r->rest.n; i++) {
        rshi_edge e;
        rshi_edge_init(r->p, r->tensor, src, r->b, &e);
        for (int d = 0; d < rsh_layout_ndim(pair->to); d++)
            e.lo[d] = r->rest.box[i].lo[d], e.hi[d] = r->rest.box[i].hi[d];
        if (rshi_edge_count(&e)) RSH_TRY(rshi_edges_add(r->out, &e));
    }
    return RSH_OK;
}

/* The piece where b looks for it: at b's partial position where each moves on its own. */
static rshi_piece for_b(const receiving *r, const rshi_piece *a) {
    const rshi_pair *pair = &r->p->pair[r->tensor];
    rshi_piece at;
    rshi_piece_at_partial(pair->from, a, pair->keep ? rshi_piece_partial(pair->to, r->b) : 0, &at);
    return at;
}

/* Only the first copy counts: along the axes of a dim that its segment does not name, coordinate 0.  Of all copies of
 * an element it is the one with the lowest position, and exactly one piece per element has it. */
static rsh_status from_first_copy(void *ctx, const rshi_piece *a) {
    receiving *r = ctx;
    const rshi_pair *pair = &r->p->pair[r->tensor];
    if (!rshi_piece_first_copy(pair->from, a)) return RSH_OK;
    if (pair->reduce) return rshi_region_edges(r->p, r->tensor, a, r->b, r->edges, r->out);
    rshi_piece at = for_b(r, a);
    return from_piece(r, &at);
}

/* Take what ranks of b's node hold, whichever copy it is, and cut it out of the rest. */
static rsh_status from_near_copy(void *ctx, const rshi_piece *a) {
    receiving *r = ctx;
    const rshi_pair *pair = &r->p->pair[r->tensor];
    rshi_piece at = for_b(r, a);
    int64_t rank = rshi_serving_rank(r->p, pair, &at, r->b->rank);
    if (rshi_plan_node(r->p, rank) != rshi_plan_node(r->p, r->b->rank)) return RSH_OK;
    RSH_TRY(from_piece(r, &at));
    return rshi_boxes_remove(rsh_layout_ndim(pair->to), &r->rest, &at);
}

/* Take what the rank holds itself, and cut it out of the rest. */
static rsh_status from_itself(receiving *r, const rshi_piece *own) {
    const rshi_pair *pair = &r->p->pair[r->tensor];
    if (!rshi_pieces_common(pair->to, own, r->b)) return RSH_OK;
    if (pair->keep && rshi_piece_partial(pair->from, own) != rshi_piece_partial(pair->to, r->b)) return RSH_OK;
    rshi_edge e;
    const rshi_piece *kept = rshi_piece_keep(r->edges, own);
    if (!kept) return RSH_ENOMEM;
    rshi_edge_init(r->p, r->tensor, kept, r->b, &e);
    RSH_TRY(rshi_edges_add(r->out, &e));
    return rshi_boxes_remove(rsh_layout_ndim(pair->to), &r->rest, own);
}

rsh_status rshi_irregular_receives(const rsh_plan *p, int64_t tensor, const rshi_piece *b, rshi_rank_edges *edges,
                                   rshi_edges *out) {
    receiving r = {.p = p, .tensor = tensor, .b = b, .edges = edges, .out = out};
    const rshi_pair *pair = &p->pair[tensor];
    rshi_piece *own = NULL;
    int64_t n = 0;
    rsh_status st;
    RSH_GOTO(rshi_boxes_around(rsh_layout_ndim(pair->to), b, &r.rest));
    if (!pair->reduce) RSH_GOTO(rshi_layout_pieces(pair->from, b->rank, &own, &n));
    for (int64_t i = 0; i < n; i++) RSH_GOTO(from_itself(&r, &own[i]));
    if (!pair->reduce && rshi_plan_has_nodes(p)) RSH_GOTO(rshi_layout_search(pair->from, b->set, from_near_copy, &r));
    RSH_GOTO(rshi_layout_search(pair->from, b->set, from_first_copy, &r));
out:
    rshi_free(own);
    rshi_boxes_free(&r.rest);
    return st;
}
