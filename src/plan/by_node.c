/* By node: contributions that were combined on their nodes first, read node by node.
 *
 * Applies to reductions of plans that ask for it, where results of nodes are fewer bytes than contributions.  In
 * stage 0 every node combines its contributions (node_results.c); in stage 1 the destination combines one result per
 * node, in the order of the groups.  A group of a single contribution is read where it lies.  What the ranks of a group
 * combined lies in slices, so the region is cut where a slice of any group ends. */
#include "plan/impl.h"

typedef struct cutting {
    rshi_walk *w;
    const rshi_region *r;
    rshi_node_groups groups;
    rshi_edge e; /* the part of the region at hand */
    int dim;     /* along which the source piece is cut */
} cutting;

/* All contributions where they lie, in order. */
static rsh_status read_in_order(rshi_walk *w, const rshi_region *r, const rshi_edge *whole, int64_t replica) {
    const rsh_layout *from = r->pair->from;
    rshi_edge e = *whole;
    rshi_piece *src = rshi_walk_room(w, r->pair->contributions);
    if (!src) return RSH_ENOMEM;
    e.nsrc = r->pair->contributions;
    e.src = e.with = src;
    for (int64_t i = 0; i < e.nsrc; i++) {
        rshi_piece_at_partial(from, r->a, i, &src[i]);
        rshi_piece_at_holder(from, &src[i], replica, &src[i]);
    }
    return rshi_walk_give(w, &e);
}

/* The slice of a group that holds index `i` of the source piece, counted along the dim that is cut. */
static rshi_piece_slice slice_at(const cutting *c, const rshi_node_group *group, int64_t i, int64_t *number) {
    rshi_piece_slice s;
    int64_t lo = 0, hi = group->n - 1;
    while (lo < hi) {
        int64_t mid = lo + (hi - lo) / 2;
        s = rshi_piece_slice_of(c->r->pair->from, c->r->a, group->n, mid);
        if (i < s.end)
            hi = mid;
        else
            lo = mid + 1;
    }
    *number = lo;
    return rshi_piece_slice_of(c->r->pair->from, c->r->a, group->n, lo);
}

/* What a group gives at index i: its result, or its only contribution.  *end: how far. */
static rsh_status source_of(const cutting *c, const rshi_node_group *group, int64_t i, int64_t *end, rshi_piece *out) {
    const rsh_layout *from = c->r->pair->from;
    bool result = rshi_node_group_has_result(c->r->pair, &c->groups, group);
    rshi_piece_slice s = {0};
    int64_t number = 0;
    if (result) s = slice_at(c, group, i, &number);
    if (result && s.end < *end) *end = s.end;
    rshi_piece_at_partial(from, c->r->a, group->position[number], out);
    rshi_piece_at_holder(from, out, c->groups.replica, out);
    rshi_piece held = *out;
    return result ? rshi_node_result_piece(c->r->p, c->r->pair, &held, &s, out) : RSH_OK;
}

/* The edge that begins at index i of the source piece; *end: where the next one does. */
static rsh_status add_edge(cutting *c, int64_t i, int64_t *end) {
    const rshi_region *r = c->r;
    const rshi_stripe *set = &r->a->set[c->dim];
    rshi_edge e = c->e;
    rshi_piece *src = rshi_walk_room(c->w, c->groups.n);
    if (!src) return RSH_ENOMEM;
    for (int64_t k = 0; k < c->groups.n; k++) RSH_TRY(source_of(c, &c->groups.group[k], i, end, &src[k]));
    e.nsrc = c->groups.n;
    e.src = e.with = src;
    if (rsh_layout_ndim(r->pair->from)) {
        e.lo[c->dim] = rshi_max(e.lo[c->dim], rshi_stripe_at(set, i));
        e.hi[c->dim] = rshi_min(e.hi[c->dim], rshi_stripe_at(set, *end - 1) + 1);
    }
    return rshi_edge_count(&e) ? rshi_walk_give(c->w, &e) : RSH_OK;
}

static rsh_status read_by_node(cutting *c) {
    const rshi_region *r = c->r;
    const rshi_stripe *set = &r->a->set[0];
    int64_t i = 0, last = 1;
    c->e.stage = 1;
    c->e.src_dtype = rshi_pair_accumulator(r->pair);
    c->e.wire_size = (int64_t)rsh_dtype_size(c->e.src_dtype);
    if (rsh_layout_ndim(r->pair->from)) {
        c->dim = rshi_piece_slice_of(r->pair->from, r->a, 1, 0).dim;
        set = &r->a->set[c->dim];
        i = rshi_stripe_before(set, c->e.lo[c->dim]);
        last = rshi_stripe_before(set, c->e.hi[c->dim]);
    }
    for (int64_t end; i < last; i = end) {
        end = last;
        RSH_TRY(add_edge(c, i, &end));
    }
    return RSH_OK;
}

/* One node's contributions are read in order by the ranks of that node: the bits are the same.  So they are where a
 * single result would merely be converted and that is not what a reduction ends with: too large for f8e4m3. */
static bool reads_in_order(const rshi_region *r, int64_t rank, const rshi_node_groups *g) {
    if (!g->combined) return true;
    return g->n == 1 && (g->group->node == rshi_plan_node(r->p, rank) || rsh_layout_dtype(r->pair->to) == RSH_F8E4M3);
}

rsh_status rshi_by_node_edges(rshi_walk *w, const rshi_region *r, const rshi_edge *whole, int64_t turn) {
    cutting c = {.w = w, .r = r, .e = *whole};
    int64_t rank = whole->dst->rank, replica = rshi_replica(r->p, r->pair, r->a, rank, turn);
    rsh_status st = rshi_node_groups_find(r->p, r->pair, r->a, replica, &c.groups);
    if (!st) st = reads_in_order(r, rank, &c.groups) ? read_in_order(w, r, whole, replica) : read_by_node(&c);
    rshi_node_groups_free(&c.groups);
    return st;
}
