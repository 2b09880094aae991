/* Reduced: the result of a reduction that several ranks want is computed once: reduce-scatter, then all-gather.
 *
 * Applies where partial positions are combined and the destination piece has several holders.  The piece is cut along
 * its longest dim into one slice for each of them, its owner: in stage 0 a rank combines the contributions to its own
 * slice, in stage 1 it takes the results of the others from their owners.
 *
 * Where nodes combine first (way_by_node.c) each of this is a stage later, and a slice enters a node once: of the
 * slices whose owners are on other nodes, number f is taken by holder f mod c of the node's c, and the others take it
 * from there in stage 3. */
#include "plan/impl.h"

int64_t rshi_reduced_slices(const rshi_region *r) {
    return r->pair->reduce && r->extent ? rshi_piece_holders(r->pair->to, r->b) : 1;
}

/* The holders of b on the node of its rank. */
typedef struct near_holders {
    int64_t *holder; /* owned: their numbers */
    int64_t n;
} near_holders;

static rsh_status list_near(const rshi_region *r, int64_t holders, near_holders *c) {
    int64_t node = rshi_plan_node(r->p, r->b->rank);
    c->holder = rshi_alloc((size_t)holders, sizeof *c->holder);
    if (!c->holder) return rshi_nomem();
    for (int64_t i = 0; i < holders; i++)
        if (rshi_plan_node(r->p, rshi_piece_holder(r->pair->to, r->b, i)) == node) c->holder[c->n++] = i;
    return RSH_OK;
}

/* Restrict the region to slice i of n of the destination piece; false: nothing is left. */
static bool restrict_to(rshi_region *r, int64_t n, int64_t i) {
    int dim = rshi_piece_longest_dim(r->pair->to, r->b);
    const rshi_stripe *a = &r->a->set[dim], *b = &r->b->set[dim];
    int64_t *lo = &r->whole.lo[dim], *hi = &r->whole.hi[dim];
    *lo = rshi_stripe_slice(b, n, i);
    *hi = rshi_stripe_slice(b, n, i + 1);
    return *lo < *hi && rshi_stripe_common(a, b, *lo, *hi);
}

/* The slice of holder i, which is on another node, the f-th of those. */
static rsh_status take_far(rshi_region *r, const near_holders *c, int64_t i, int64_t f) {
    int64_t owner = rshi_piece_holder(r->pair->to, r->b, i), turn = rshi_layout_position(r->pair->to, owner);
    int64_t near = c->holder[f % c->n];
    bool mine = rshi_piece_holder(r->pair->to, r->b, near) == r->b->rank;
    return rshi_region_from_holder(r, mine ? 2 : 3, mine ? i : near, owner, turn);
}

/* What one rank sends of the region is in the slice that b's rank combines, or in its own. */
static rsh_status take_slices_of_sender(rshi_region *r, int64_t n) {
    const rsh_layout *to = r->pair->to;
    int64_t own = rshi_piece_holder_index(to, r->b, r->edges->rank), turn = rshi_layout_position(to, r->edges->rank);
    if (restrict_to(r, n, rshi_piece_holder_index(to, r->b, r->b->rank)))
        RSH_TRY(rshi_region_from_sources(r, r->whole.turn));
    if (own < 0 || r->edges->rank == r->b->rank || !restrict_to(r, n, own)) return RSH_OK;
    return rshi_region_from_holder(r, 1, own, r->edges->rank, turn);
}

static rsh_status take_slices(rshi_region *r, int64_t n, const near_holders *c) {
    int64_t node = rshi_plan_node(r->p, r->b->rank), far = 0;
    if (rshi_region_is_own_send(r)) return take_slices_of_sender(r, n);
    for (int64_t i = 0; i < n; i++) {
        int64_t owner = rshi_piece_holder(r->pair->to, r->b, i);
        bool is_far = r->pair->by_node && rshi_plan_node(r->p, owner) != node;
        int64_t f = is_far ? far++ : 0;
        if (!restrict_to(r, n, i)) continue;
        if (owner == r->b->rank)
            RSH_TRY(rshi_region_from_sources(r, r->whole.turn));
        else if (is_far)
            RSH_TRY(take_far(r, c, i, f));
        else
            RSH_TRY(rshi_region_from_holder(r, r->pair->by_node ? 2 : 1, i, owner,
                                            rshi_layout_position(r->pair->to, owner)));
    }
    return RSH_OK;
}

rsh_status rshi_reduced_edges(rshi_region *r, int64_t n) {
    near_holders c = {0};
    rsh_status st = r->pair->by_node ? list_near(r, n, &c) : RSH_OK;
    if (!st) st = take_slices(r, n, &c);
    rshi_free(c.holder);
    return st;
}
