/* Route: from whom one holder of a destination piece reads each part of a region, and in which stage.
 *
 * The chain of the tensor lists the layouts that it passes through.  In every stage a holder reads what it has in the
 * next layout and does not have yet, from a rank that has it in the layout before:
 *
 *     direct    all of it from the sources
 *     node      its slice of the node cut from the sources; then the other slices from the relays on its node
 *     all       its slice of the cut among all from the sources; with several nodes then the rest of its slice of the
 *               node cut from the owners; then everything else from its node, or without nodes from the owners
 *     forward   as `all`, but first the relays beside a source read their slices (as in `node`), and the owners read
 *               theirs from these relays
 *
 * A holder that has the source reads nothing from others.  On a node that has it, `all` is `node`.  Sends, transposed
 * plans and totals ask the same functions for the legs of others. */
#include "plan/piece_holders.h"

static rsh_status add_leg(rshi_legs *out, int64_t lo, int64_t hi, int stage, int64_t holder, int64_t turn) {
    if (lo >= hi) return RSH_OK;
    RSH_TRY(RSHI_GROW(out->leg, out->n + 1, &out->room));
    out->leg[out->n++] = (rshi_leg){lo, hi, stage, holder, turn};
    return RSH_OK;
}

static bool is_wanted(int64_t from, int64_t holder) { return from == RSHI_FROM_ANY || from == holder; }

/* ---- regions ---- */

bool rshi_goes_directly(const rshi_pair *pair, int64_t holders) {
    return !pair->split && (pair->chain == RSHI_CHAIN_DIRECT || holders == 1);
}

/* Without a cut: the dim along which the pieces have the most indices in common. */
static int longest_common_dim(const rsh_layout *l, const rshi_piece *a, const rshi_piece *b) {
    int64_t most = -1;
    int dim = 0;
    for (int d = 0; d < rsh_layout_ndim(l); d++) {
        int64_t n = rshi_stripe_common(&a->set[d], &b->set[d], a->set[d].lo, rshi_stripe_end(&a->set[d]));
        if (n > most) most = n, dim = d;
    }
    return dim;
}

static bool is_cut(const rshi_region *r) {
    return r->pair->chain != RSHI_CHAIN_DIRECT && rsh_layout_ndim(r->pair->to) > 0 &&
           rshi_piece_holders(r->pair->to, r->b) > 1;
}

/* Bytes for each index along the region's dim. */
static int64_t bytes_across(const rshi_region *r) {
    int64_t n = r->pair->wire_size;
    for (int d = 0; d < rsh_layout_ndim(r->pair->to); d++) {
        const rshi_stripe *a = &r->a->set[d], *b = &r->b->set[d];
        if (d != r->dim) n = rshi_mul_most(n, rshi_stripe_common(a, b, a->lo, rshi_stripe_end(a)));
    }
    return n;
}

void rshi_region_init(const rsh_plan *p, int64_t tensor, const rshi_piece *a, const rshi_piece *b, rshi_region *r) {
    const rshi_pair *pair = &p->pair[tensor];
    *r = (rshi_region){p, pair, tensor, a, b, 0, 0, 1, 0};
    if (!rsh_layout_ndim(pair->to)) return;
    if (is_cut(r))
        r->dim = rshi_piece_longest_dim(pair->to, b);
    else if (pair->split)
        r->dim = longest_common_dim(pair->to, a, b);
    const rshi_stripe *x = &a->set[r->dim], *y = &b->set[r->dim];
    r->lo = rshi_max(x->lo, y->lo);
    r->hi = rshi_min(rshi_stripe_end(x), rshi_stripe_end(y));
    if (is_cut(r) && x->count == 1 && y->count == 1) r->bytes = rshi_mul_most(r->hi - r->lo, bytes_across(r));
}

static rshi_range inside(const rshi_region *r, rshi_range x) {
    return (rshi_range){rshi_max(x.lo, r->lo), rshi_min(x.hi, r->hi)};
}

/* ---- legs that read the sources ---- */

/* Returns the first index x such that a and b have i indices in common in [lo, x). */
static int64_t cut_point(const rshi_region *r, rshi_range x, int64_t i) {
    const rshi_stripe *a = &r->a->set[r->dim], *b = &r->b->set[r->dim];
    int64_t lo = x.lo, hi = x.hi;
    if (a->count == 1 && b->count == 1) return lo + i;
    while (lo < hi) {
        int64_t mid = lo + (hi - lo) / 2;
        if (rshi_stripe_common(a, b, x.lo, mid) < i)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

/* Adds the legs that read range x from the sources.  If the pair splits regions, and the parts are large enough, each
 * candidate serves a part. */
static rsh_status add_from_sources(const rshi_region *r, int64_t rank, rshi_range x, int64_t turn, rshi_legs *out) {
    int64_t n = 1, extent = 0;
    if (x.lo >= x.hi) return RSH_OK;
    if (r->pair->split && rsh_layout_ndim(r->pair->to)) {
        extent = rshi_stripe_common(&r->a->set[r->dim], &r->b->set[r->dim], x.lo, x.hi);
        n = rshi_serving_candidates(r->p, r->pair, r->a, rank);
        if (rshi_mul_most(extent, bytes_across(r)) / n < RSHI_SLICE_BYTES) n = 1;
    }
    for (int64_t i = 0; i < n && n > 1; i++)
        RSH_TRY(add_leg(out, cut_point(r, x, rshi_even_start(extent, n, i)),
                        i + 1 < n ? cut_point(r, x, rshi_even_start(extent, n, i + 1)) : x.hi, 0, RSHI_FROM_SOURCES,
                        turn + i));
    return n > 1 ? RSH_OK : add_leg(out, x.lo, x.hi, 0, RSHI_FROM_SOURCES, turn);
}

/* Ranks at the same place of their nodes take the same slice of many parts, so the turn includes the part.
 * Otherwise few of the replicas would serve all of them. */
static int64_t turn_for_node(const rshi_pair *pair, int64_t rank) {
    int64_t turn = rshi_turn_of_rank(pair->to, rank);
    bool mesh = !rsh_layout_describe(pair->to)->is_boxes;
    if (!mesh || pair->reduce) return turn;
    return turn + rshi_layout_holding(pair->to, rshi_layout_position(pair->to, rank)).part;
}

/* A region that is cut, from the point of view of one holder. */
typedef struct view {
    const rshi_holder_list *list;
    const rshi_holder *me;
    rshi_relays relays;
    bool in_all_cut; /* it takes part in the cut among all, and `all` is set */
    rshi_all_cut all;
    int64_t own;     /* number of the slice that it owns in the cut among all; -1: none */
    rshi_range mine; /* the range of that slice, or empty */
    rshi_range node; /* its slice in the node cut, or empty */
} view;

static rsh_status view_find(rshi_walk *w, const rshi_region *r, int64_t me, view *v) {
    const rshi_source_nodes *beside;
    *v = (view){.own = -1};
    RSH_TRY(rshi_holder_list_find(w, r->tensor, r->b, &v->list));
    v->me = rshi_holder_list_at(v->list, me);
    RSH_TRY(rshi_relays_find(w, r, v->list, me, &v->relays));
    if (v->relays.me >= 0) v->node = inside(r, rshi_node_slice(r, v->list, v->relays.n, v->relays.me));
    if (r->pair->chain != RSHI_CHAIN_ALL) return RSH_OK;
    RSH_TRY(rshi_source_nodes_find(w, r, v->list, &beside));
    v->all = rshi_all_cut_of(r, v->list, beside);
    v->in_all_cut = v->all.slices && !rshi_is_beside_source(beside, me);
    if (v->in_all_cut) v->own = rshi_all_slice_of(&v->all, me);
    if (v->own >= 0) v->mine = inside(r, rshi_all_slice(&v->all, v->own));
    return RSH_OK;
}

/* Finds the relays beside a source that send slice i of the cut among all to other nodes; n is 0 if there are none.
 * Slice i comes from the node of holder number i mod n among the n holders beside a source. */
static rsh_status find_forwarders(rshi_walk *w, const rshi_region *r, const view *v, int64_t i, rshi_relays *out) {
    const rshi_source_nodes *beside = v->all.beside;
    *out = (rshi_relays){.n = 0};
    if (!r->pair->forward || !v->in_all_cut || i < 0 || !beside->n) return RSH_OK;
    return rshi_relays_find(w, r, v->list, beside->holder[i % beside->n], out);
}

static rsh_status add_from_forwarders(const rshi_region *r, const view *v, const rshi_relays *relays, int64_t from,
                                      rshi_legs *out) {
    if (v->mine.lo >= v->mine.hi) return RSH_OK;
    int64_t n = relays->n, last = rshi_node_slice_at(r, v->list, n, v->mine.hi - 1);
    for (int64_t i = rshi_node_slice_at(r, v->list, n, v->mine.lo); i <= last; i++) {
        rshi_range x = inside(r, rshi_node_slice(r, v->list, n, i));
        int64_t forwarder = rshi_relays_at(relays, i)->holder;
        if (is_wanted(from, forwarder))
            RSH_TRY(add_leg(out, rshi_max(x.lo, v->mine.lo), rshi_min(x.hi, v->mine.hi), 1, forwarder, 0));
    }
    return RSH_OK;
}

static rsh_status add_own(const rshi_region *r, const view *v, rshi_legs *out) {
    if (!v->in_all_cut) return add_from_sources(r, v->me->rank, v->node, turn_for_node(r->pair, v->me->rank), out);
    int64_t turn = r->pair->reduce ? rshi_turn_of_rank(r->pair->to, v->me->rank) : v->own;
    return add_from_sources(r, v->me->rank, v->mine, turn, out);
}

static rsh_status add_whole(const rshi_region *r, int64_t rank, rshi_legs *out) {
    return add_from_sources(r, rank, (rshi_range){r->lo, r->hi}, rshi_turn_of_rank(r->pair->to, rank), out);
}

/* ---- legs that read other holders ---- */

/* Adds the legs that read range x from a holder, except for what the reader owns in the cut among all. */
static rsh_status add_rest(const view *v, rshi_range x, int stage, int64_t holder, rshi_legs *out) {
    if (v->mine.lo >= v->mine.hi) return add_leg(out, x.lo, x.hi, stage, holder, 0);
    RSH_TRY(add_leg(out, x.lo, rshi_min(x.hi, v->mine.lo), stage, holder, 0));
    return add_leg(out, rshi_max(x.lo, v->mine.hi), x.hi, stage, holder, 0);
}

/* Adds the legs that read range x from the holders that own its slices. */
static rsh_status add_from_owners(const rshi_region *r, const view *v, rshi_range x, int stage, int64_t from,
                                  rshi_legs *out) {
    if (x.lo >= x.hi) return RSH_OK;
    int64_t i = rshi_all_slice_at(&v->all, x.lo), last = rshi_all_slice_at(&v->all, x.hi - 1);
    if (from >= 0) { /* a holder owns one slice at most */
        int64_t only = rshi_all_slice_of(&v->all, from);
        if (only < i || only > last) return RSH_OK;
        i = last = only;
    }
    for (; i <= last; i++) {
        rshi_range s = inside(r, rshi_all_slice(&v->all, i));
        if (i != v->own)
            RSH_TRY(add_leg(out, rshi_max(s.lo, x.lo), rshi_min(s.hi, x.hi), stage, rshi_all_owner(&v->all, i), 0));
    }
    return RSH_OK;
}

/* Adds the slices that the other relays have in the node cut. */
static rsh_status add_from_relays(const rshi_region *r, const view *v, int stage, int64_t from, rshi_legs *out) {
    int64_t n = v->relays.n;
    if (r->lo >= r->hi) return RSH_OK;
    int64_t i = rshi_node_slice_at(r, v->list, n, r->lo), last = rshi_node_slice_at(r, v->list, n, r->hi - 1);
    if (from >= 0) {
        int64_t only = rshi_relays_index(&v->relays, from);
        if (only < i || only > last) return RSH_OK;
        i = last = only;
    }
    for (; i <= last; i++) {
        rshi_range x = inside(r, rshi_node_slice(r, v->list, n, i));
        if (i != v->relays.me) RSH_TRY(add_rest(v, x, stage, rshi_relays_at(&v->relays, i)->holder, out));
    }
    return RSH_OK;
}

rsh_status rshi_route(rshi_walk *w, const rshi_region *r, int64_t reader, int64_t from, rshi_legs *out) {
    int64_t rank = rshi_piece_holder(r->pair->to, r->b, reader);
    int later = r->pair->forward ? 1 : 0;
    rshi_relays forwarders;
    view v;
    out->n = 0;
    if (!is_cut(r) || rshi_holds_source(r, rank))
        return is_wanted(from, RSHI_FROM_SOURCES) ? add_whole(r, rank, out) : RSH_OK;
    RSH_TRY(view_find(w, r, reader, &v));
    RSH_TRY(find_forwarders(w, r, &v, v.own, &forwarders));
    if (forwarders.n)
        RSH_TRY(add_from_forwarders(r, &v, &forwarders, from, out));
    else if (is_wanted(from, RSHI_FROM_SOURCES))
        RSH_TRY(add_own(r, &v, out));
    if (from == RSHI_FROM_SOURCES) return RSH_OK;
    if (!v.in_all_cut) return add_from_relays(r, &v, 1, from, out);
    if (!w->p->several_nodes) return add_from_owners(r, &v, (rshi_range){r->lo, r->hi}, 1, from, out);
    RSH_TRY(add_from_owners(r, &v, v.node, 1 + later, from, out));
    return add_from_relays(r, &v, 2 + later, from, out);
}

/* ---- which holders read a holder, and where its elements come from ---- */

/* Calls fn for the holders of another node whose slices of the node cut overlap the slice that this holder owns. */
static rsh_status each_meeting(const rshi_region *r, const view *v, int64_t first, rshi_holder_fn fn, void *ctx) {
    int64_t n = v->list->at[first].on_node, last = rshi_node_slice_at(r, v->list, n, v->mine.hi - 1);
    for (int64_t i = rshi_node_slice_at(r, v->list, n, v->mine.lo); i <= last; i++)
        RSH_TRY(fn(ctx, v->list->at[first + i].holder));
    return RSH_OK;
}

static rsh_status each_member(const view *v, int64_t first, int64_t n, rshi_holder_fn fn, void *ctx) {
    for (int64_t i = first; i < first + n; i++) RSH_TRY(fn(ctx, v->list->at[i].holder));
    return RSH_OK;
}

/* Calls fn for the owners of slices that this holder forwards. */
static rsh_status each_forwarded(const view *v, rshi_holder_fn fn, void *ctx) {
    if (v->node.lo >= v->node.hi || !v->all.slices) return RSH_OK;
    int64_t last = rshi_all_slice_at(&v->all, v->node.hi - 1);
    for (int64_t i = rshi_all_slice_at(&v->all, v->node.lo); i <= last; i++)
        RSH_TRY(fn(ctx, rshi_all_owner(&v->all, i)));
    return RSH_OK;
}

/* Holders on the same node read its slice of the node cut.  On each other node, those read the slice that it owns
 * whose own slices overlap it. */
rsh_status rshi_route_readers(rshi_walk *w, const rshi_region *r, int64_t me, rshi_holder_fn fn, void *ctx) {
    view v;
    if (!is_cut(r)) return RSH_OK;
    RSH_TRY(view_find(w, r, me, &v));
    if (v.in_all_cut && !w->p->several_nodes && v.mine.lo < v.mine.hi) return each_member(&v, 0, v.list->n, fn, ctx);
    if (v.node.lo < v.node.hi || v.mine.lo < v.mine.hi) RSH_TRY(each_member(&v, v.me->first, v.me->on_node, fn, ctx));
    for (int64_t i = 0; i < v.list->n && v.mine.lo < v.mine.hi; i += v.list->at[i].on_node)
        if (i != v.me->first) RSH_TRY(each_meeting(r, &v, i, fn, ctx));
    return r->pair->forward && !v.in_all_cut ? each_forwarded(&v, fn, ctx) : RSH_OK;
}

/* Reports where [lo, hi) of slice i of a cut comes from. */
static rsh_status report_origin(rshi_walk *w, const rshi_region *r, const view *v, int64_t i, rshi_range x,
                                rshi_origin_fn fn, void *ctx) {
    rshi_relays forwarders;
    if (x.lo >= x.hi) return RSH_OK;
    RSH_TRY(find_forwarders(w, r, v, i, &forwarders));
    if (!forwarders.n)
        return fn(ctx, v->in_all_cut ? rshi_all_owner(&v->all, i) : rshi_relays_at(&v->relays, i)->holder, x.lo, x.hi);
    int64_t n = forwarders.n, last = rshi_node_slice_at(r, v->list, n, x.hi - 1);
    for (int64_t k = rshi_node_slice_at(r, v->list, n, x.lo); k <= last; k++) {
        rshi_range y = inside(r, rshi_node_slice(r, v->list, n, k));
        y = (rshi_range){rshi_max(x.lo, y.lo), rshi_min(x.hi, y.hi)};
        if (y.lo < y.hi) RSH_TRY(fn(ctx, rshi_relays_at(&forwarders, k)->holder, y.lo, y.hi));
    }
    return RSH_OK;
}

rsh_status rshi_route_origins(rshi_walk *w, const rshi_region *r, int64_t reader, rshi_origin_fn fn, void *ctx) {
    rshi_range all = {r->lo, r->hi};
    view v;
    if (!is_cut(r) || rshi_holds_source(r, rshi_piece_holder(r->pair->to, r->b, reader)))
        return fn(ctx, reader, all.lo, all.hi);
    if (all.lo >= all.hi) return RSH_OK;
    RSH_TRY(view_find(w, r, reader, &v));
    bool all_cut = v.in_all_cut;
    int64_t n = v.relays.n;
    int64_t first = all_cut ? rshi_all_slice_at(&v.all, all.lo) : rshi_node_slice_at(r, v.list, n, all.lo);
    int64_t last = all_cut ? rshi_all_slice_at(&v.all, all.hi - 1) : rshi_node_slice_at(r, v.list, n, all.hi - 1);
    for (int64_t i = first; i <= last; i++) {
        rshi_range x = inside(r, all_cut ? rshi_all_slice(&v.all, i) : rshi_node_slice(r, v.list, n, i));
        RSH_TRY(report_origin(w, r, &v, i, x, fn, ctx));
    }
    return RSH_OK;
}

int rshi_pair_stages(const rsh_plan *p, const rshi_pair *pair) {
    if (!pair->transposed) return rshi_chain_stages(p, pair);
    return rshi_transposes_slices(pair) ? 2 : 1;
}

int rshi_chain_stages(const rsh_plan *p, const rshi_pair *pair) {
    int n = pair->chain == RSHI_CHAIN_DIRECT ? 1 : pair->chain == RSHI_CHAIN_NODE || !p->several_nodes ? 2 : 3;
    return n + (pair->by_node || pair->forward ? 1 : 0);
}
