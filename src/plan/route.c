/* Route: from whom one holder of a destination piece takes each part of a region, and in which stage.
 *
 * The chain of the tensor says which layouts it passes through.  In every stage a holder takes what it has in the next
 * layout and does not have yet, from whoever has it in the layout before:
 *
 *     direct    all of it from the sources
 *     node      its slice of the node cut from the sources; then the slices of its crew from them
 *     all       its slice of the cut among all from the sources; with several nodes then the rest of its slice of the
 *               node cut from the owners of slices; then everything else from its crew, or without nodes from owners
 *     forward   as `all`, but first the holders beside a source take theirs (as in `node`), and give it to the owners
 *
 * A holder that has the source takes nothing from others.  On a node that has it, `all` is `node`.  Sends, transposed
 * plans and totals ask the same functions for the legs of others. */
#include "plan/slices.h"

static rsh_status add_leg(rshi_legs *out, int64_t lo, int64_t hi, int stage, int64_t holder, int64_t turn) {
    if (lo >= hi) return RSH_OK;
    RSH_TRY(RSHI_GROW(out->leg, out->n + 1, &out->room));
    out->leg[out->n++] = (rshi_leg){lo, hi, stage, holder, turn};
    return RSH_OK;
}

static bool is_wanted(int64_t from, int64_t holder) { return from == RSHI_FROM_ANY || from == holder; }

/* ---- regions ---- */

bool rshi_goes_directly(const rshi_pair *pair, int64_t holders) {
    return !pair->slice && (pair->chain == RSHI_CHAIN_DIRECT || holders == 1);
}

/* Without a cut, the dim along which most indices are common: it may still be sliced. */
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

/* Bytes for each index of the dim. */
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
    else if (pair->slice)
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

/* The first index x such that a and b have i indices in common in [lo, x). */
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

/* [lo, hi) from the sources; where several could serve, and slices are large enough, a slice from each. */
static rsh_status add_from_sources(const rshi_region *r, int64_t rank, rshi_range x, int64_t turn, rshi_legs *out) {
    int64_t n = 1, extent = 0;
    if (x.lo >= x.hi) return RSH_OK;
    if (r->pair->slice && rsh_layout_ndim(r->pair->to)) {
        extent = rshi_stripe_common(&r->a->set[r->dim], &r->b->set[r->dim], x.lo, x.hi);
        n = rshi_serving_candidates(r->p, r->pair, r->a, rank);
        if (rshi_mul_most(extent, bytes_across(r)) / n < RSHI_SLICE_BYTES) n = 1;
    }
    for (int64_t i = 0; i < n && n > 1; i++)
        RSH_TRY(add_leg(out, cut_point(r, x, rshi_slice_start(extent, n, i)),
                        i + 1 < n ? cut_point(r, x, rshi_slice_start(extent, n, i + 1)) : x.hi, 0, RSHI_FROM_SOURCES,
                        turn + i));
    return n > 1 ? RSH_OK : add_leg(out, x.lo, x.hi, 0, RSHI_FROM_SOURCES, turn);
}

static bool holds_source(const rshi_region *r, int64_t rank) {
    return !r->pair->reduce && rshi_piece_holder_index(r->pair->from, r->a, rank) >= 0;
}

/* What lies in the same slice of many parts is taken by ranks in the same place of their nodes, so turns count parts
 * too.  Otherwise few of the replicas that hold it would give it to all of them. */
static int64_t turn_in_crew(const rshi_pair *pair, int64_t rank) {
    int64_t position = rshi_layout_position(pair->to, rank);
    bool mesh = !rsh_layout_describe(pair->to)->is_boxes;
    return mesh && !pair->reduce ? position + rshi_layout_holding(pair->to, position).part : position;
}

/* How a region that is cut looks to one holder. */
typedef struct view {
    const rshi_crews *crews;
    const rshi_member *me;
    rshi_node_team team;
    bool spread;       /* it is cut among all: `all` is set */
    rshi_all_cut all;
    int64_t own;       /* the holder's slice of that; -1: none */
    rshi_range mine;   /* where that lies, or an empty range */
    rshi_range node;   /* the holder's slice of the node cut, or an empty range */
} view;

static rsh_status view_find(rshi_walk *w, const rshi_region *r, int64_t me, view *v) {
    const rshi_near *near;
    *v = (view){.own = -1};
    RSH_TRY(rshi_crews_find(w, r->tensor, r->b, &v->crews));
    v->me = rshi_crews_member(v->crews, me);
    RSH_TRY(rshi_team_find(w, r, v->crews, me, &v->team));
    if (v->team.me >= 0) v->node = inside(r, rshi_node_slice(r, v->crews, v->team.n, v->team.me));
    if (r->pair->chain != RSHI_CHAIN_ALL) return RSH_OK;
    RSH_TRY(rshi_near_find(w, r, v->crews, &near));
    v->all = rshi_all_cut_of(r, v->crews, near);
    v->spread = v->all.slices && !rshi_near_has(near, me);
    if (v->spread) v->own = rshi_all_slice_of(&v->all, me);
    if (v->own >= 0) v->mine = inside(r, rshi_all_slice(&v->all, v->own));
    return RSH_OK;
}

/* The team beside a source that gives slice i of the cut among all to other nodes; n is 0 if there is none. */
static rsh_status find_helpers(rshi_walk *w, const rshi_region *r, const view *v, int64_t i, rshi_node_team *out) {
    const rshi_near *near = v->all.near;
    *out = (rshi_node_team){.n = 0};
    if (!r->pair->forward || !v->spread || i < 0 || !near->n) return RSH_OK;
    return rshi_team_find(w, r, v->crews, near->holder[i % near->n], out);
}

static rsh_status add_from_helpers(const rshi_region *r, const view *v, const rshi_node_team *team, int64_t from,
                                   rshi_legs *out) {
    if (v->mine.lo >= v->mine.hi) return RSH_OK;
    int64_t n = team->n, last = rshi_node_slice_at(r, v->crews, n, v->mine.hi - 1);
    for (int64_t i = rshi_node_slice_at(r, v->crews, n, v->mine.lo); i <= last; i++) {
        rshi_range x = inside(r, rshi_node_slice(r, v->crews, n, i));
        int64_t helper = rshi_team_member(team, i)->holder;
        if (is_wanted(from, helper))
            RSH_TRY(add_leg(out, rshi_max(x.lo, v->mine.lo), rshi_min(x.hi, v->mine.hi), 1, helper, 0));
    }
    return RSH_OK;
}

static rsh_status add_own(const rshi_region *r, const view *v, rshi_legs *out) {
    if (!v->spread) return add_from_sources(r, v->me->rank, v->node, turn_in_crew(r->pair, v->me->rank), out);
    int64_t turn = r->pair->reduce ? rshi_layout_position(r->pair->to, v->me->rank) : v->own;
    return add_from_sources(r, v->me->rank, v->mine, turn, out);
}

static rsh_status add_whole(const rshi_region *r, int64_t rank, rshi_legs *out) {
    return add_from_sources(r, rank, (rshi_range){r->lo, r->hi}, rshi_layout_position(r->pair->to, rank), out);
}

/* ---- legs that read other holders ---- */

/* [lo, hi) from a holder, without what the rank has in the cut among all. */
static rsh_status add_rest(const view *v, rshi_range x, int stage, int64_t holder, rshi_legs *out) {
    if (v->mine.lo >= v->mine.hi) return add_leg(out, x.lo, x.hi, stage, holder, 0);
    RSH_TRY(add_leg(out, x.lo, rshi_min(x.hi, v->mine.lo), stage, holder, 0));
    return add_leg(out, rshi_max(x.lo, v->mine.hi), x.hi, stage, holder, 0);
}

/* What of [lo, hi) other holders have in the cut among all. */
static rsh_status add_from_owners(const rshi_region *r, const view *v, rshi_range x, int stage, int64_t from,
                                  rshi_legs *out) {
    if (x.lo >= x.hi) return RSH_OK;
    int64_t i = rshi_all_slice_at(&v->all, x.lo), last = rshi_all_slice_at(&v->all, x.hi - 1);
    if (from >= 0) { /* it has one slice at most */
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

/* What the others of the team have in the node cut. */
static rsh_status add_from_team(const rshi_region *r, const view *v, int stage, int64_t from, rshi_legs *out) {
    int64_t n = v->team.n;
    if (r->lo >= r->hi) return RSH_OK;
    int64_t i = rshi_node_slice_at(r, v->crews, n, r->lo), last = rshi_node_slice_at(r, v->crews, n, r->hi - 1);
    if (from >= 0) {
        int64_t only = rshi_team_index(&v->team, from);
        if (only < i || only > last) return RSH_OK;
        i = last = only;
    }
    for (; i <= last; i++) {
        rshi_range x = inside(r, rshi_node_slice(r, v->crews, n, i));
        if (i != v->team.me) RSH_TRY(add_rest(v, x, stage, rshi_team_member(&v->team, i)->holder, out));
    }
    return RSH_OK;
}

rsh_status rshi_route(rshi_walk *w, const rshi_region *r, int64_t me, int64_t from, rshi_legs *out) {
    int64_t rank = rshi_piece_holder(r->pair->to, r->b, me);
    int later = r->pair->forward ? 1 : 0;
    rshi_node_team helpers;
    view v;
    out->n = 0;
    if (!is_cut(r) || holds_source(r, rank))
        return is_wanted(from, RSHI_FROM_SOURCES) ? add_whole(r, rank, out) : RSH_OK;
    RSH_TRY(view_find(w, r, me, &v));
    RSH_TRY(find_helpers(w, r, &v, v.own, &helpers));
    if (helpers.n)
        RSH_TRY(add_from_helpers(r, &v, &helpers, from, out));
    else if (is_wanted(from, RSHI_FROM_SOURCES))
        RSH_TRY(add_own(r, &v, out));
    if (from == RSHI_FROM_SOURCES) return RSH_OK;
    if (!v.spread) return add_from_team(r, &v, 1, from, out);
    if (!w->p->several_nodes) return add_from_owners(r, &v, (rshi_range){r->lo, r->hi}, 1, from, out);
    RSH_TRY(add_from_owners(r, &v, v.node, 1 + later, from, out));
    return add_from_team(r, &v, 2 + later, from, out);
}

/* ---- who reads a holder, and where a holder's elements come from ---- */

/* Those of a team on another node whose slices of the node cut meet that of the holder in the cut among all. */
static rsh_status each_meeting(const rshi_region *r, const view *v, int64_t first, rshi_holder_fn fn, void *ctx) {
    int64_t n = v->crews->member[first].crew, last = rshi_node_slice_at(r, v->crews, n, v->mine.hi - 1);
    for (int64_t i = rshi_node_slice_at(r, v->crews, n, v->mine.lo); i <= last; i++)
        RSH_TRY(fn(ctx, v->crews->member[first + i].holder));
    return RSH_OK;
}

static rsh_status each_member(const view *v, int64_t first, int64_t n, rshi_holder_fn fn, void *ctx) {
    for (int64_t i = first; i < first + n; i++) RSH_TRY(fn(ctx, v->crews->member[i].holder));
    return RSH_OK;
}

/* The owners of slices that a helper may give to other nodes. */
static rsh_status each_helped(const view *v, rshi_holder_fn fn, void *ctx) {
    if (v->node.lo >= v->node.hi || !v->all.slices) return RSH_OK;
    int64_t last = rshi_all_slice_at(&v->all, v->node.hi - 1);
    for (int64_t i = rshi_all_slice_at(&v->all, v->node.lo); i <= last; i++)
        RSH_TRY(fn(ctx, rshi_all_owner(&v->all, i)));
    return RSH_OK;
}

/* The crew of `me` reads its slice of the node cut; on each other node those read its slice of the cut among all whose
 * own slices have something of it. */
rsh_status rshi_route_readers(rshi_walk *w, const rshi_region *r, int64_t me, rshi_holder_fn fn, void *ctx) {
    view v;
    if (!is_cut(r)) return RSH_OK;
    RSH_TRY(view_find(w, r, me, &v));
    if (v.spread && !w->p->several_nodes && v.mine.lo < v.mine.hi) return each_member(&v, 0, v.crews->n, fn, ctx);
    if (v.node.lo < v.node.hi || v.mine.lo < v.mine.hi)
        RSH_TRY(each_member(&v, v.me->first, v.me->crew, fn, ctx));
    for (int64_t i = 0; i < v.crews->n && v.mine.lo < v.mine.hi; i += v.crews->member[i].crew)
        if (i != v.me->first) RSH_TRY(each_meeting(r, &v, i, fn, ctx));
    return r->pair->forward && !v.spread ? each_helped(&v, fn, ctx) : RSH_OK;
}

/* [lo, hi) of slice i of a cut: from whom it comes. */
static rsh_status tell_origin(rshi_walk *w, const rshi_region *r, const view *v, int64_t i, rshi_range x,
                              rshi_origin_fn fn, void *ctx) {
    rshi_node_team helpers;
    if (x.lo >= x.hi) return RSH_OK;
    RSH_TRY(find_helpers(w, r, v, i, &helpers));
    if (!helpers.n)
        return fn(ctx, v->spread ? rshi_all_owner(&v->all, i) : rshi_team_member(&v->team, i)->holder, x.lo, x.hi);
    int64_t n = helpers.n, last = rshi_node_slice_at(r, v->crews, n, x.hi - 1);
    for (int64_t k = rshi_node_slice_at(r, v->crews, n, x.lo); k <= last; k++) {
        rshi_range y = inside(r, rshi_node_slice(r, v->crews, n, k));
        y = (rshi_range){rshi_max(x.lo, y.lo), rshi_min(x.hi, y.hi)};
        if (y.lo < y.hi) RSH_TRY(fn(ctx, rshi_team_member(&helpers, k)->holder, y.lo, y.hi));
    }
    return RSH_OK;
}

rsh_status rshi_route_origins(rshi_walk *w, const rshi_region *r, int64_t me, rshi_origin_fn fn, void *ctx) {
    rshi_range all = {r->lo, r->hi};
    view v;
    if (!is_cut(r) || holds_source(r, rshi_piece_holder(r->pair->to, r->b, me))) return fn(ctx, me, all.lo, all.hi);
    if (all.lo >= all.hi) return RSH_OK;
    RSH_TRY(view_find(w, r, me, &v));
    bool all_cut = v.spread;
    int64_t n = v.team.n;
    int64_t first = all_cut ? rshi_all_slice_at(&v.all, all.lo) : rshi_node_slice_at(r, v.crews, n, all.lo);
    int64_t last = all_cut ? rshi_all_slice_at(&v.all, all.hi - 1) : rshi_node_slice_at(r, v.crews, n, all.hi - 1);
    for (int64_t i = first; i <= last; i++) {
        rshi_range x = inside(r, all_cut ? rshi_all_slice(&v.all, i) : rshi_node_slice(r, v.crews, n, i));
        RSH_TRY(tell_origin(w, r, &v, i, x, fn, ctx));
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
