/* Spread: a region that more nodes want than ranks hold, so that no rank sends it to every node.
 *
 * Applies where the plan as a whole sends less from its busiest rank that way (choose.c), the destination does not hold
 * the region itself, and slices stay at 16 KiB at least.
 *
 * The region is cut along one dim in two ways.  Each node's ranks cut it into one share each, and every rank is
 * responsible for its share on its node.  Across nodes it is cut into lanes and each lane into one slice per node.  In
 * stage 0 a rank takes those slices of its share that fall to its own node from the sources (scatter); in stage 1 it
 * takes the rest of its share from the ranks of other nodes that have it (all-gather between nodes); in stage 2 it
 * takes the other shares from the ranks of its node (all-gather inside the node).  So every byte leaves the sources
 * once and enters every node once.  On a node that holds a source, the ranks that want the region, its helpers, share
 * it out the same way, without other nodes.
 *
 * Where the plan forwards (choose.c), other nodes take their slices from the helpers of the source that would have sent
 * them, one stage later: the source itself sends the region once, to its helpers, and not once more to other nodes. */
#include "plan/relay.h"

#include <stdlib.h>

/* A rank that wants the region and does not hold it. */
typedef struct member {
    int64_t node, holder, rank; /* holder: its number among the holders of b */
} member;

/* The members of one node. */
typedef struct crew {
    const member *list;
    int64_t n;
} crew;

/* One slice of the region, and how b's rank comes by it. */
typedef struct slice {
    int64_t lo, hi; /* common indices of the dim that is cut, counted from 0 */
    int stage;
    int64_t holder;      /* of b, whose destination is read; -1: the sources are */
    int64_t owner, turn; /* as in the edge */
} slice;

/* Who has a region and who wants it, whoever of them asks: there may be as many as ranks. */
typedef struct rshi_wanted {
    int64_t tensor;       /* -1: nothing is known so far */
    rshi_piece a, b;      /* at their first holders */
    int64_t bytes;        /* of the region */
    int64_t *source_node; /* owned: of each holder of a, ascending */
    int64_t nsources, sources_room;
    member *member;       /* owned: by node, then in the order of b's holders */
    int64_t nmembers, members_room;
    crew *crew;           /* owned: of the nodes without a source, by node */
    int64_t ncrews, crews_room, lanes;
    crew *near;           /* owned: of the nodes with a source, by node */
    int64_t nnear, near_room;
    crew *helpers;        /* owned: of each holder of a, those on its node who want the region; none unless forwarded */
    int64_t helpers_room;
} wanted;

typedef struct spread {
    const rsh_plan *p;
    const rshi_pair *pair;
    const rshi_piece *b;
    const wanted *w;      /* borrowed from the edges */
    int64_t extent;
    int64_t mine;         /* the crew of b's rank, or -1 if its node has a source: then it is in `near` */
    crew near;
    int64_t me;           /* b's rank within its crew */
    bool all;             /* do all crews matter? */
    int64_t only[2];      /* otherwise those that do, or -1; never the same twice */
    slice *slice;         /* owned: what comes out */
    int64_t nslices, room;
} spread;

/* ---- who wants it ---- */

static int by_node(const void *a, const void *b) {
    const member *x = a, *y = b;
    if (x->node != y->node) return x->node < y->node ? -1 : 1;
    return (x->holder > y->holder) - (x->holder < y->holder);
}

static rsh_status list_sources(const rsh_plan *p, const rsh_layout *from, wanted *w) {
    w->nsources = rshi_piece_holders(from, &w->a);
    RSH_TRY(RSHI_GROW(w->source_node, w->nsources, &w->sources_room));
    for (int64_t i = 0; i < w->nsources; i++) w->source_node[i] = rshi_plan_node(p, rshi_piece_holder(from, &w->a, i));
    qsort(w->source_node, (size_t)w->nsources, sizeof *w->source_node, rshi_compare_int64);
    return RSH_OK;
}

static bool has_source(const wanted *w, int64_t node) {
    return rshi_find(w->source_node, w->nsources, sizeof *w->source_node, node) >= 0;
}

/* Mostly they come in order: meshes count up node by node. */
static rsh_status list_members(const rsh_plan *p, const rshi_pair *pair, wanted *w) {
    int64_t n = rshi_piece_holders(pair->to, &w->b);
    bool in_order = true;
    RSH_TRY(RSHI_GROW(w->member, n, &w->members_room));
    w->nmembers = 0;
    for (int64_t i = 0; i < n; i++) {
        int64_t rank = rshi_piece_holder(pair->to, &w->b, i);
        if (rshi_piece_holder_index(pair->from, &w->a, rank) >= 0) continue;
        w->member[w->nmembers] = (member){rshi_plan_node(p, rank), i, rank};
        in_order = in_order && (!w->nmembers || w->member[w->nmembers - 1].node <= w->member[w->nmembers].node);
        w->nmembers++;
    }
    if (!in_order) qsort(w->member, (size_t)w->nmembers, sizeof *w->member, by_node);
    return RSH_OK;
}

/* Lanes: as many as the largest crew has members, as far as slices stay large enough. */
static rsh_status form_crews(wanted *w) {
    w->ncrews = w->nnear = w->lanes = 0;
    for (int64_t i = 0, n; i < w->nmembers; i += n) {
        for (n = 1; i + n < w->nmembers && w->member[i + n].node == w->member[i].node;) n++;
        crew c = {w->member + i, n};
        if (has_source(w, c.list->node)) {
            RSH_TRY(RSHI_GROW(w->near, w->nnear + 1, &w->near_room));
            w->near[w->nnear++] = c;
            continue;
        }
        RSH_TRY(RSHI_GROW(w->crew, w->ncrews + 1, &w->crews_room));
        w->lanes = rshi_max(w->lanes, n);
        w->crew[w->ncrews++] = c;
    }
    if (w->ncrews) w->lanes = rshi_min(w->lanes, w->bytes / RSHI_SLICE_BYTES / w->ncrews);
    return RSH_OK;
}

/* The crew of a node among n, by node; -1: it has none. */
static int64_t crew_of(const crew *list, int64_t n, int64_t node) {
    int64_t lo = 0, hi = n;
    while (lo < hi) {
        int64_t mid = lo + (hi - lo) / 2;
        if (list[mid].list->node < node)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo < n && list[lo].list->node == node ? lo : -1;
}

static int64_t place_in(const crew *c, int64_t rank) {
    int64_t i = 0;
    while (c->list[i].rank != rank) i++;
    return i;
}

/* Is it ever spread? */
static bool is_wide(const wanted *w) { return w->ncrews > w->nsources && w->lanes; }

/* ---- helpers ---- */

/* Does it make each of them take less to share out what the sources on their node have? */
static bool shares_near(const wanted *w, const crew *c) {
    int64_t sources = 0;
    for (int64_t i = 0; i < w->nsources; i++) sources += w->source_node[i] == c->list->node;
    return c->n > sources && w->bytes / c->n >= RSHI_SLICE_BYTES;
}

static rsh_status find_helpers(const rsh_plan *p, const rshi_pair *pair, wanted *w) {
    RSH_TRY(RSHI_GROW(w->helpers, w->nsources, &w->helpers_room));
    for (int64_t i = 0; i < w->nsources; i++) {
        int64_t node = rshi_plan_node(p, rshi_piece_holder(pair->from, &w->a, i));
        int64_t c = pair->forward ? crew_of(w->near, w->nnear, node) : -1;
        w->helpers[i] = c >= 0 ? w->near[c] : (crew){w->member, 0};
    }
    return RSH_OK;
}

static int scatter_stage(const spread *s, int64_t turn) { return s->w->helpers[turn % s->w->nsources].n ? 1 : 0; }
static int exchange_stage(const spread *s) { return s->pair->forward ? 2 : 1; }

/* ---- slices ---- */

static rsh_status add(spread *s, int stage, const member *from, const member *owner, int64_t lo, int64_t hi,
                      int64_t turn) {
    if (lo >= hi) return RSH_OK;
    RSH_TRY(RSHI_GROW(s->slice, s->nslices + 1, &s->room));
    s->slice[s->nslices++] = (slice){lo, hi, stage, from ? from->holder : -1, owner->rank, turn};
    return RSH_OK;
}

/* [lo, hi), which comes from a source at `turn`, or from those who have it from there.  `from`: who has it by now,
 * NULL: whoever gives it to member `to` first.  Who the owner is matters to the transposed map only, and there slice by
 * slice. */
static rsh_status add_from(spread *s, int stage, const member *from, const member *to, int64_t lo, int64_t hi,
                           int64_t turn) {
    const crew *h = &s->w->helpers[turn % s->w->nsources];
    int64_t one = h->n ? turn / s->w->nsources % h->n : 0;
    if (!h->n || (from && !s->p->adjoint)) return add(s, stage, from, from ? from : to, lo, hi, turn);
    if (!shares_near(s->w, h)) return add(s, stage, from ? from : &h->list[one], &h->list[one], lo, hi, one);
    for (int64_t k = 0; k < h->n; k++) {
        int64_t x = rshi_max(lo, rshi_slice_start(s->extent, h->n, k)),
                y = rshi_min(hi, rshi_slice_start(s->extent, h->n, k + 1));
        RSH_TRY(add(s, stage, from ? from : &h->list[k], &h->list[k], x, y, k));
    }
    return RSH_OK;
}

/* Of [lo, hi), which falls to crew i: what member `to` has of it, from the sources or from those of crew i who have it.
 */
static rsh_status add_slice(spread *s, int64_t i, const member *to, int64_t lo, int64_t hi, int64_t turn) {
    const crew *c = &s->w->crew[i];
    if (c->list->node == to->node) return add_from(s, scatter_stage(s, turn), NULL, to, lo, hi, turn);
    for (int64_t k = 0; k < c->n; k++) {
        int64_t x = rshi_max(lo, rshi_slice_start(s->extent, c->n, k)),
                y = rshi_min(hi, rshi_slice_start(s->extent, c->n, k + 1));
        if (x < y) RSH_TRY(add_from(s, exchange_stage(s), &c->list[k], to, x, y, turn));
    }
    return RSH_OK;
}

/* What of a lane falls to crew i and member k of crew c is responsible for, as that member comes by it. */
static rsh_status add_crossing(spread *s, const crew *c, int64_t k, int64_t l, int64_t i) {
    int64_t crews = s->w->ncrews, lane = rshi_slice_start(s->extent, s->w->lanes, l),
            length = rshi_slice_start(s->extent, s->w->lanes, l + 1) - lane;
    int64_t lo = rshi_max(rshi_slice_start(s->extent, c->n, k), lane + rshi_slice_start(length, crews, i));
    int64_t hi = rshi_min(rshi_slice_start(s->extent, c->n, k + 1), lane + rshi_slice_start(length, crews, i + 1));
    return lo < hi ? add_slice(s, i, &c->list[k], lo, hi, l * crews + i) : RSH_OK;
}

/* What member k of a crew is responsible for, lane by lane. */
static rsh_status add_share(spread *s, const crew *c, int64_t k) {
    int64_t first = rshi_slice_start(s->extent, c->n, k), end = rshi_slice_start(s->extent, c->n, k + 1);
    for (int64_t l = 0; l < s->w->lanes; l++) {
        if (rshi_slice_start(s->extent, s->w->lanes, l) >= end) break;
        if (rshi_slice_start(s->extent, s->w->lanes, l + 1) <= first) continue;
        for (int64_t i = 0; i < s->w->ncrews && s->all; i++) RSH_TRY(add_crossing(s, c, k, l, i));
        for (int i = 0; i < 2 && !s->all; i++)
            if (s->only[i] >= 0) RSH_TRY(add_crossing(s, c, k, l, s->only[i]));
    }
    return RSH_OK;
}

/* The share of member k, read from that member in the last stage.  The transposed map asks slice by slice whose source
 * it was; otherwise it is one slice, and its owner is whoever passes it on. */
static rsh_status add_passed(spread *s, const crew *c, int64_t k) {
    int64_t first = s->nslices;
    int stage = exchange_stage(s) + 1;
    if (!s->p->adjoint)
        return add(s, stage, &c->list[k], &c->list[k], rshi_slice_start(s->extent, c->n, k),
                   rshi_slice_start(s->extent, c->n, k + 1), 0);
    RSH_TRY(add_share(s, c, k));
    for (int64_t i = first; i < s->nslices; i++) s->slice[i].stage = stage, s->slice[i].holder = c->list[k].holder;
    return RSH_OK;
}

static rsh_status add_far(spread *s) {
    const crew *c = &s->w->crew[s->mine];
    RSH_TRY(add_share(s, c, s->me));
    for (int64_t k = 0; k < c->n; k++)
        if (k != s->me) RSH_TRY(add_passed(s, c, k));
    return RSH_OK;
}

/* On a node with sources: each takes its share from them, and the others from one another; or all of it from them. */
static rsh_status add_near(spread *s) {
    const crew *c = &s->near;
    if (!shares_near(s->w, c)) return add(s, 0, NULL, &c->list[s->me], 0, s->extent, s->me);
    for (int64_t k = 0; k < c->n; k++)
        RSH_TRY(add(s, k != s->me, k != s->me ? &c->list[k] : NULL, &c->list[k], rshi_slice_start(s->extent, c->n, k),
                    rshi_slice_start(s->extent, c->n, k + 1), k));
    return RSH_OK;
}

/* ---- */

void rshi_wanted_free(wanted *w) {
    if (!w) return;
    rshi_free(w->source_node);
    rshi_free(w->member);
    rshi_free(w->crew);
    rshi_free(w->near);
    rshi_free(w->helpers);
    rshi_free(w);
}

static bool is_for(const wanted *w, const rshi_region *r, const rshi_piece *b) {
    return w->tensor == r->whole.tensor && w->a.position == r->a->position && w->b.position == b->position &&
           rshi_same_start(r->pair->from, &w->a, r->a) && rshi_same_start(r->pair->to, &w->b, b);
}

/* Kept with the edges for the next rank that asks. */
static rsh_status find_wanted(const rshi_region *r, const wanted **out) {
    rshi_piece first;
    if (!r->edges->wanted) {
        if (!(r->edges->wanted = RSHI_NEW(wanted))) return rshi_nomem();
        r->edges->wanted->tensor = -1;
    }
    wanted *w = r->edges->wanted;
    rshi_piece_at_holder(r->pair->to, r->b, 0, &first);
    *out = w;
    if (is_for(w, r, &first)) return RSH_OK;
    w->tensor = -1; /* not complete */
    w->a = *r->a, w->b = first;
    w->bytes = rshi_region_bytes(r);
    RSH_TRY(list_sources(r->p, r->pair->from, w));
    RSH_TRY(list_members(r->p, r->pair, w));
    RSH_TRY(form_crews(w));
    RSH_TRY(find_helpers(r->p, r->pair, w));
    w->tensor = r->whole.tensor;
    return RSH_OK;
}

static bool may_spread(const rshi_region *r) {
    return rshi_piece_holders(r->pair->to, r->b) > rshi_piece_holders(r->pair->from, r->a) &&
           rshi_region_bytes(r) >= 2 * RSHI_SLICE_BYTES &&
           rshi_piece_holder_index(r->pair->from, r->a, r->b->rank) < 0;
}

/* Of what b's rank takes, its sources or the crew of the rank whose sends these are give something; the rest is not
 * asked for. */
static void find_only(const rshi_region *r, spread *s) {
    s->all = r->out != &r->edges->sends || r->p->adjoint;
    if (s->all) return;
    s->only[0] = s->mine;
    s->only[1] = crew_of(s->w->crew, s->w->ncrews, rshi_plan_node(r->p, r->edges->rank));
    if (s->only[1] == s->only[0]) s->only[1] = -1;
}

static rsh_status find(const rshi_region *r, spread *s, bool *spreads) {
    int64_t node = rshi_plan_node(r->p, r->b->rank), near;
    *spreads = false;
    if (!may_spread(r)) return RSH_OK;
    RSH_TRY(find_wanted(r, &s->w));
    if (!is_wide(s->w)) return RSH_OK;
    s->mine = crew_of(s->w->crew, s->w->ncrews, node);
    near = crew_of(s->w->near, s->w->nnear, node);
    if (near >= 0) s->near = s->w->near[near];
    s->me = place_in(s->mine >= 0 ? &s->w->crew[s->mine] : &s->near, r->b->rank);
    find_only(r, s);
    *spreads = s->mine >= 0 || s->pair->forward || shares_near(s->w, &s->near);
    return RSH_OK;
}

static rsh_status add_edges(rshi_region *r, const spread *s) {
    for (int64_t i = 0; i < s->nslices; i++) {
        const slice *q = &s->slice[i];
        rshi_region_cut(r, q->lo, q->hi);
        RSH_TRY(q->holder < 0 ? rshi_region_from_sources(r, q->turn)
                              : rshi_region_from_holder(r, q->stage, q->holder, q->owner, q->turn));
    }
    return RSH_OK;
}

rsh_status rshi_spread_edges(rshi_region *r, bool *applies) {
    spread s = {.p = r->p, .pair = r->pair, .b = r->b, .extent = r->extent, .mine = -1};
    rsh_status st;
    RSH_GOTO(find(r, &s, applies));
    if (!*applies) goto out;
    RSH_GOTO(s.mine >= 0 ? add_far(&s) : add_near(&s));
    st = add_edges(r, &s);
out:
    rshi_free(s.slice);
    return st;
}

/* ---- who reads a rank ---- */

static rsh_status each_member(const crew *c, int64_t first, int64_t last, rshi_holder_fn fn, void *ctx) {
    for (int64_t k = first; k <= last; k++) RSH_TRY(fn(ctx, c->list[k].holder));
    return RSH_OK;
}

/* The crews of other nodes read what member k of crew i is responsible for: those of their members who are for some of
 * it too.  Helpers are read by all. */
static rsh_status each_far(const wanted *w, int64_t extent, int64_t i, int64_t k, rshi_holder_fn fn, void *ctx) {
    int64_t first = i < 0 ? 0 : rshi_slice_start(extent, w->crew[i].n, k),
            end = i < 0 ? extent : rshi_slice_start(extent, w->crew[i].n, k + 1);
    for (int64_t c = 0; c < w->ncrews && first < end; c++)
        if (c != i)
            RSH_TRY(each_member(&w->crew[c], rshi_slice_at(extent, w->crew[c].n, first),
                                rshi_slice_at(extent, w->crew[c].n, end - 1), fn, ctx));
    return RSH_OK;
}

/* Where it is not spread, a region is at most relayed. */
static rsh_status each_on_node(const rshi_region *r, rshi_holder_fn fn, void *ctx) {
    const rshi_relay *relay;
    if (!rshi_pair_relays(r->p, r->pair)) return RSH_OK;
    RSH_TRY(rshi_relay_find(r->p, r->whole.tensor, r->b, r->edges, &relay));
    for (int64_t i = 0; i < relay->n; i++) {
        RSH_TRY(fn(ctx, relay->holder[i]));
        RSH_TRY(rshi_relay_find(r->p, r->whole.tensor, r->b, r->edges, &relay)); /* others may have been asked for */
    }
    return RSH_OK;
}

rsh_status rshi_spread_readers(const rsh_plan *p, int64_t tensor, const rshi_piece *a, const rshi_piece *b,
                               rshi_rank_edges *edges, rshi_holder_fn fn, void *ctx) {
    rshi_region r;
    const wanted *w;
    int64_t node = rshi_plan_node(p, b->rank);
    rshi_region_init(p, tensor, a, b, edges, &edges->sends, &r);
    rshi_region_find_dim(&r);
    if (!may_spread(&r)) return each_on_node(&r, fn, ctx);
    RSH_TRY(find_wanted(&r, &w));
    if (!is_wide(w)) return each_on_node(&r, fn, ctx);
    int64_t i = crew_of(w->crew, w->ncrews, node), near = crew_of(w->near, w->nnear, node);
    const crew *mine = i >= 0 ? &w->crew[i] : &w->near[near];
    RSH_TRY(each_member(mine, 0, mine->n - 1, fn, ctx));
    if (i < 0 && !r.pair->forward) return RSH_OK;
    return each_far(w, r.extent, i, place_in(mine, b->rank), fn, ctx);
}
