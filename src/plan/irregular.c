/* Irregular sources: flat ranges over segments that are replicated along an axis of their dim.
 *
 * There the copies of a segment lie in flat ranges of different shape, so they are pieces of their own that overlap one another.  A destination first
 * takes what its own rank holds; what is left, as boxes, comes from the first copy of each piece.  Everything else about these layouts is
 * regular, and they are rare: cost is not a concern here, bytes are. */
#include "plan/impl.h"

typedef struct box_list {
    rsh_box *box;
    int64_t n, room;
} box_list;

static rsh_status push(box_list *l, const rsh_box *b) {
    if (l->n == l->room) {
        int64_t room = l->room ? 2 * l->room : 8;
        rsh_box *grown = rshi_realloc(l->box, (size_t)room, sizeof *grown);
        if (!grown) return rshi_nomem();
        l->box = grown;
        l->room = room;
    }
    l->box[l->n++] = *b;
    return RSH_OK;
}

static rsh_box bounds(int ndim, const rshi_piece *p) {
    rsh_box b = {{0}, {0}};
    for (int d = 0; d < ndim; d++) b.lo[d] = p->set[d].lo, b.hi[d] = rshi_stripe_end(&p->set[d]);
    return b;
}

/* What is left of `b` without `hole`, as disjoint boxes: on each dim the part below and the part above, then on with what is between. */
static rsh_status subtract(int ndim, rsh_box b, const rsh_box *hole, box_list *out) {
    for (int d = 0; d < ndim; d++)
        if (hole->lo[d] >= b.hi[d] || hole->hi[d] <= b.lo[d]) return push(out, &b);
    for (int d = 0; d < ndim; d++) {
        rsh_box below = b, above = b;
        below.hi[d] = hole->lo[d];
        above.lo[d] = hole->hi[d];
        if (below.lo[d] < below.hi[d]) RSH_TRY(push(out, &below));
        if (above.lo[d] < above.hi[d]) RSH_TRY(push(out, &above));
        b.lo[d] = rshi_max(b.lo[d], hole->lo[d]);
        b.hi[d] = rshi_min(b.hi[d], hole->hi[d]);
    }
    return RSH_OK;
}

typedef struct receiving {
    const rsh_plan *p;
    int64_t tensor;
    const rshi_piece *b;
    box_list rest; /* what b's rank does not hold */
    rshi_edge_fn fn;
    void *ctx;
} receiving;

/* Only the first copy counts: along the axes of a dim that its segment does not name, coordinate 0.  Of all copies of an element it is the one
 * with the lowest position, and exactly one piece per element has it. */
static rsh_status from_first_copy(void *ctx, const rshi_piece *a) {
    receiving *r = ctx;
    const rshi_pair *pair = &r->p->pair[r->tensor];
    if (!rshi_piece_first_copy(pair->from, a)) return RSH_OK;
    if (pair->reduce) return rshi_pair_edges(r->p, r->tensor, a, r->b, r->fn, r->ctx);
    rshi_piece src;
    rshi_piece_at_partial(pair->from, a, pair->keep ? rshi_piece_partial(pair->to, r->b) : 0, &src);
    int64_t rank = rshi_serving_rank(r->p, pair, &src, r->b->rank);
    rshi_piece_at_holder(pair->from, &src, rshi_piece_holder_index(pair->from, &src, rank), &src);
    for (int64_t i = 0; i < r->rest.n; i++) {
        rshi_edge e;
        rshi_edge_init(r->p, r->tensor, &src, r->b, &e);
        for (int d = 0; d < rsh_layout_ndim(pair->to); d++) e.lo[d] = r->rest.box[i].lo[d], e.hi[d] = r->rest.box[i].hi[d];
        if (rshi_edge_count(&e)) RSH_TRY(r->fn(r->ctx, &e));
    }
    return RSH_OK;
}

/* Take what the rank holds itself, and cut it out of the rest. */
static rsh_status from_itself(receiving *r, const rshi_piece *own) {
    const rshi_pair *pair = &r->p->pair[r->tensor];
    int ndim = rsh_layout_ndim(pair->to);
    if (!rshi_pieces_common(pair->to, own, r->b)) return RSH_OK;
    if (pair->keep && rshi_piece_partial(pair->from, own) != rshi_piece_partial(pair->to, r->b)) return RSH_OK;
    rshi_edge e;
    rshi_edge_init(r->p, r->tensor, own, r->b, &e);
    RSH_TRY(r->fn(r->ctx, &e));
    box_list rest = {0};
    rsh_box hole = bounds(ndim, own);
    rsh_status st = RSH_OK;
    for (int64_t i = 0; i < r->rest.n && !st; i++) st = subtract(ndim, r->rest.box[i], &hole, &rest);
    rshi_free(r->rest.box);
    r->rest = rest;
    return st;
}

rsh_status rshi_irregular_receives(const rsh_plan *p, int64_t tensor, const rshi_piece *b, rshi_edge_fn fn, void *ctx) {
    receiving r = {.p = p, .tensor = tensor, .b = b, .fn = fn, .ctx = ctx};
    const rshi_pair *pair = &p->pair[tensor];
    rshi_piece *own = NULL;
    int64_t n = 0;
    rsh_box all = bounds(rsh_layout_ndim(pair->to), b);
    rsh_status st;
    RSH_GOTO(push(&r.rest, &all));
    if (!pair->reduce) RSH_GOTO(rshi_layout_pieces(pair->from, b->rank, &own, &n));
    for (int64_t i = 0; i < n; i++) RSH_GOTO(from_itself(&r, &own[i]));
    RSH_GOTO(rshi_layout_search(pair->from, b->set, from_first_copy, &r));
out:
    rshi_free(own);
    rshi_free(r.rest.box);
    return st;
}
