/* By node: edges that read one combined result per node.
 *
 * In stage 0 every node combines its contributions in scratch (node_results.c).  In stage 1 the destination combines
 * one result per node, in the order of the groups.  A group with a single contribution is read directly.  The ranks
 * of a group each combined one portion, so the region is cut where a portion of any group ends. */
#include "plan/impl.h"

typedef struct cutting {
    rshi_walk *w;
    const rshi_region *r;
    const rshi_node_groups *groups;
    rshi_edge e; /* the current part of the region */
    int dim;     /* the dim along which the source piece is divided */
} cutting;

/* Do sends list only the source on w->rank? */
static bool lists_own_only(const rshi_walk *w) { return w->sends && !w->whole_sends; }

/* Returns the partial position of w->rank if it holds a contribution to this replica of the source piece, otherwise
 * -1. */
static int64_t own_position(const rshi_walk *w, const rshi_region *r, int64_t replica) {
    const rsh_layout *from = r->pair->from;
    rshi_piece at = *r->a;
    at.position = rshi_layout_position(from, w->rank);
    if (at.position < 0) return -1;
    int64_t own = rshi_piece_partial(from, &at);
    rshi_piece_at_partial(from, r->a, own, &at);
    return rshi_piece_holder(from, &at, replica) == w->rank ? own : -1;
}

/* Emits one edge that reads all contributions in order or, for sends, only the contribution `own`. */
static rsh_status read_in_order(rshi_walk *w, const rshi_region *r, const rshi_edge *whole, int64_t replica,
                                int64_t own) {
    const rsh_layout *from = r->pair->from;
    rshi_edge e = *whole;
    e.nsrc = own < 0 ? r->pair->contributions : 1;
    rshi_piece *src = rshi_walk_source_room(w, e.nsrc);
    if (!src) return RSH_ENOMEM;
    e.src = e.with = src;
    for (int64_t i = 0; i < e.nsrc; i++) {
        rshi_piece_at_partial(from, r->a, own < 0 ? i : own, &src[i]);
        rshi_piece_at_holder(from, &src[i], replica, &src[i]);
    }
    return rshi_emit_edge(w, &e);
}

/* Makes the piece that a group provides at index i of the source piece: its result, or its only contribution. */
static rsh_status source_of(const cutting *c, const rshi_node_group *group, int64_t i, rshi_piece *out) {
    const rsh_layout *from = c->r->pair->from;
    bool result = rshi_node_group_has_result(c->r->pair, c->groups, group);
    int64_t number = result ? rshi_portion_at(from, c->r->a, group->n, i) : 0;
    rshi_piece_at_partial(from, c->r->a, group->position[number], out);
    rshi_piece_at_holder(from, out, c->groups->replica, out);
    if (!result) return RSH_OK;
    rshi_piece held = *out;
    rshi_portion s = rshi_portion_of(from, c->r->a, group->n, number);
    return rshi_node_result_piece(c->r->p, c->r->pair, &held, &s, out);
}

static rsh_status list_sources(const cutting *c, int64_t i, int64_t own, rshi_edge *e) {
    const rshi_node_groups *g = c->groups;
    const rshi_node_group *mine = own < 0 ? NULL : &g->group[g->group_of[own]];
    e->nsrc = mine ? 1 : g->n;
    rshi_piece *src = rshi_walk_source_room(c->w, e->nsrc);
    if (!src) return RSH_ENOMEM;
    for (int64_t k = 0; k < e->nsrc; k++) RSH_TRY(source_of(c, mine ? mine : &g->group[k], i, &src[k]));
    e->src = e->with = src;
    return RSH_OK;
}

/* Emits the edge for indices i to end - 1 of the source piece. */
static rsh_status add_edge(cutting *c, int64_t i, int64_t end, int64_t own) {
    const rshi_region *r = c->r;
    const rshi_stripe *set = &r->a->set[c->dim];
    rshi_edge e = c->e;
    RSH_TRY(list_sources(c, i, own, &e));
    if (rsh_layout_ndim(r->pair->from)) {
        e.lo[c->dim] = rshi_max(e.lo[c->dim], rshi_stripe_at(set, i));
        e.hi[c->dim] = rshi_min(e.hi[c->dim], rshi_stripe_at(set, end - 1) + 1);
    }
    return rshi_edge_count(&e) ? rshi_emit_edge(c->w, &e) : RSH_OK;
}

/* Returns where the first portion that contains index i ends, over all groups, or `last`. */
static int64_t next_cut(const cutting *c, int64_t i, int64_t last) {
    const rsh_layout *from = c->r->pair->from;
    for (int64_t k = 0; k < c->groups->nsizes; k++) {
        int64_t n = c->groups->size[k];
        if (n > 1) last = rshi_min(last, rshi_portion_of(from, c->r->a, n, rshi_portion_at(from, c->r->a, n, i)).end);
    }
    return last;
}

static rsh_status read_by_node(cutting *c, int64_t own) {
    const rshi_region *r = c->r;
    const rshi_node_group *mine = own < 0 ? NULL : &c->groups->group[c->groups->group_of[own]];
    int64_t i = 0, last = 1;
    c->e.stage = 1;
    c->e.src_dtype = rshi_pair_accumulator(r->pair);
    c->e.wire_size = (int64_t)rsh_dtype_size(c->e.src_dtype);
    if (rsh_layout_ndim(r->pair->from)) {
        c->dim = rshi_portion_of(r->pair->from, r->a, 1, 0).dim;
        i = rshi_stripe_before(&r->a->set[c->dim], c->e.lo[c->dim]);
        last = rshi_stripe_before(&r->a->set[c->dim], c->e.hi[c->dim]);
    }
    if (mine && rshi_node_group_has_result(r->pair, c->groups, mine)) {
        int64_t number = rshi_find(mine->position, mine->n, sizeof own, own);
        rshi_portion s = rshi_portion_of(r->pair->from, r->a, mine->n, number);
        i = rshi_max(i, s.start), last = rshi_min(last, s.end);
    }
    for (int64_t end; i < last; i = end) {
        end = next_cut(c, i, last);
        RSH_TRY(add_edge(c, i, end, own));
    }
    return RSH_OK;
}

rsh_status rshi_by_node_edges(rshi_walk *w, const rshi_region *r, const rshi_edge *whole, int64_t turn) {
    cutting c = {.w = w, .r = r, .e = *whole};
    int64_t rank = whole->dst->rank, replica = rshi_replica(r->p, r->pair, r->a, rank, turn), own = -1;
    if (lists_own_only(w) && (own = own_position(w, r, replica)) < 0) return RSH_OK;
    RSH_TRY(rshi_walk_groups(w, r->tensor, r->a, replica, &c.groups));
    if (rshi_reads_in_order(r->p, r->pair, c.groups, rank)) return read_in_order(w, r, whole, replica, own);
    return read_by_node(&c, own);
}
