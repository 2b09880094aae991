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
#include "plan/impl.h"

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

typedef struct spread {
    const rsh_plan *p;
    const rshi_pair *pair;
    const rshi_piece *a, *b;
    int64_t extent, bytes;
    int64_t *source_node; /* owned: of each holder of a, ascending */
    int64_t nsources;
    member *member;       /* owned: by node, then in the order of b's holders */
    int64_t nmembers;
    crew *crew;           /* owned: of the nodes without a source, by node */
    int64_t ncrews, lanes;
    int64_t mine;         /* the crew of b's rank, or -1 if its node has a source: then it is in `near` */
    crew near;
    crew *helpers;        /* owned: of each holder of a, those on its node who want the region; none unless forwarded */
    int64_t me;           /* b's rank within its crew */
    slice *slice;         /* owned: what comes out */
    int64_t nslices, room;
} spread;

/* ---- who wants it ---- */

static int by_node(const void *a, const void *b) {
    const member *x = a, *y = b;
    if (x->node != y->node) return x->node < y->node ? -1 : 1;
    return (x->holder > y->holder) - (x->holder < y->holder);
}

static rsh_status list_sources(spread *s) {
    s->nsources = rshi_piece_holders(s->pair->from, s->a);
    s->source_node = rshi_alloc((size_t)s->nsources, sizeof *s->source_node);
    if (!s->source_node) return rshi_nomem();
    for (int64_t i = 0; i < s->nsources; i++)
        s->source_node[i] = rshi_plan_node(s->p, rshi_piece_holder(s->pair->from, s->a, i));
    qsort(s->source_node, (size_t)s->nsources, sizeof *s->source_node, rshi_compare_int64);
    return RSH_OK;
}

static bool has_source(const spread *s, int64_t node) {
    return rshi_find(s->source_node, s->nsources, sizeof *s->source_node, node) >= 0;
}

/* Mostly they come in order: meshes count up node by node. */
static rsh_status list_members(spread *s) {
    int64_t n = rshi_piece_holders(s->pair->to, s->b);
    bool in_order = true;
    s->member = rshi_alloc((size_t)n, sizeof *s->member);
    if (!s->member) return rshi_nomem();
    for (int64_t i = 0; i < n; i++) {
        int64_t rank = rshi_piece_holder(s->pair->to, s->b, i);
        if (rshi_piece_holder_index(s->pair->from, s->a, rank) >= 0) continue;
        s->member[s->nmembers] = (member){rshi_plan_node(s->p, rank), i, rank};
        in_order = in_order && (!s->nmembers || s->member[s->nmembers - 1].node <= s->member[s->nmembers].node);
        s->nmembers++;
    }
    if (!in_order) qsort(s->member, (size_t)s->nmembers, sizeof *s->member, by_node);
    return RSH_OK;
}

static void find_me(spread *s, const crew *c) {
    for (int64_t i = 0; i < c->n; i++)
        if (c->list[i].rank == s->b->rank) s->me = i;
}

/* Lanes: as many as the largest crew has members, as far as slices stay large enough. */
static rsh_status form_crews(spread *s) {
    int64_t node = rshi_plan_node(s->p, s->b->rank);
    s->crew = rshi_alloc((size_t)rshi_max(s->nmembers, 1), sizeof *s->crew);
    if (!s->crew) return rshi_nomem();
    for (int64_t i = 0, n; i < s->nmembers; i += n) {
        for (n = 1; i + n < s->nmembers && s->member[i + n].node == s->member[i].node;) n++;
        crew c = {s->member + i, n};
        if (c.list->node == node) find_me(s, &c);
        if (has_source(s, c.list->node)) {
            if (c.list->node == node) s->near = c;
            continue;
        }
        if (c.list->node == node) s->mine = s->ncrews;
        s->lanes = rshi_max(s->lanes, n);
        s->crew[s->ncrews++] = c;
    }
    if (s->ncrews) s->lanes = rshi_min(s->lanes, s->bytes / RSHI_SLICE_BYTES / s->ncrews);
    return RSH_OK;
}

/* ---- helpers ---- */

/* Does it make each of them take less to share out what the sources on their node have? */
static bool shares_near(const spread *s, const crew *c) {
    int64_t sources = 0;
    for (int64_t i = 0; i < s->nsources; i++) sources += s->source_node[i] == c->list->node;
    return c->n > sources && s->bytes / c->n >= RSHI_SLICE_BYTES;
}

/* Members are sorted by node. */
static crew crew_on(const spread *s, int64_t node) {
    crew c = {s->member, 0};
    for (int64_t i = 0; i < s->nmembers && s->member[i].node <= node; i++) {
        if (s->member[i].node != node) continue;
        if (!c.n) c.list = s->member + i;
        c.n++;
    }
    return c;
}

static rsh_status find_helpers(spread *s) {
    s->helpers = rshi_calloc((size_t)s->nsources, sizeof *s->helpers);
    if (!s->helpers) return rshi_nomem();
    for (int64_t i = 0; i < s->nsources && s->pair->forward; i++)
        s->helpers[i] = crew_on(s, rshi_plan_node(s->p, rshi_piece_holder(s->pair->from, s->a, i)));
    return RSH_OK;
}

static int scatter_stage(const spread *s, int64_t turn) { return s->helpers[turn % s->nsources].n ? 1 : 0; }
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
    const crew *h = &s->helpers[turn % s->nsources];
    int64_t one = h->n ? turn / s->nsources % h->n : 0;
    if (!h->n || (from && !s->p->adjoint)) return add(s, stage, from, from ? from : to, lo, hi, turn);
    if (!shares_near(s, h)) return add(s, stage, from ? from : &h->list[one], &h->list[one], lo, hi, one);
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
    const crew *c = &s->crew[i];
    if (c->list->node == to->node) return add_from(s, scatter_stage(s, turn), NULL, to, lo, hi, turn);
    for (int64_t k = 0; k < c->n; k++) {
        int64_t x = rshi_max(lo, rshi_slice_start(s->extent, c->n, k)),
                y = rshi_min(hi, rshi_slice_start(s->extent, c->n, k + 1));
        if (x < y) RSH_TRY(add_from(s, exchange_stage(s), &c->list[k], to, x, y, turn));
    }
    return RSH_OK;
}

/* What member k of a crew is responsible for, slice by slice, as that member comes by it. */
static rsh_status add_share(spread *s, const crew *c, int64_t k) {
    int64_t first = rshi_slice_start(s->extent, c->n, k), end = rshi_slice_start(s->extent, c->n, k + 1);
    for (int64_t l = 0; l < s->lanes; l++) {
        int64_t lane = rshi_slice_start(s->extent, s->lanes, l),
                length = rshi_slice_start(s->extent, s->lanes, l + 1) - lane;
        if (lane >= end || lane + length <= first) continue;
        for (int64_t i = 0; i < s->ncrews; i++) {
            int64_t lo = rshi_max(first, lane + rshi_slice_start(length, s->ncrews, i));
            int64_t hi = rshi_min(end, lane + rshi_slice_start(length, s->ncrews, i + 1));
            if (lo < hi) RSH_TRY(add_slice(s, i, &c->list[k], lo, hi, l * s->ncrews + i));
        }
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
    const crew *c = &s->crew[s->mine];
    RSH_TRY(add_share(s, c, s->me));
    for (int64_t k = 0; k < c->n; k++)
        if (k != s->me) RSH_TRY(add_passed(s, c, k));
    return RSH_OK;
}

/* On a node with sources: each takes its share from them, and the others from one another; or all of it from them. */
static rsh_status add_near(spread *s) {
    const crew *c = &s->near;
    if (!shares_near(s, c)) return add(s, 0, NULL, &c->list[s->me], 0, s->extent, s->me);
    for (int64_t k = 0; k < c->n; k++)
        RSH_TRY(add(s, k != s->me, k != s->me ? &c->list[k] : NULL, &c->list[k], rshi_slice_start(s->extent, c->n, k),
                    rshi_slice_start(s->extent, c->n, k + 1), k));
    return RSH_OK;
}

/* ---- */

static rsh_status find(spread *s, bool *spreads) {
    *spreads = false;
    if (rshi_piece_holders(s->pair->to, s->b) <= rshi_piece_holders(s->pair->from, s->a)) return RSH_OK;
    if (s->bytes < 2 * RSHI_SLICE_BYTES || rshi_piece_holder_index(s->pair->from, s->a, s->b->rank) >= 0) return RSH_OK;
    RSH_TRY(list_sources(s));
    RSH_TRY(list_members(s));
    RSH_TRY(form_crews(s));
    if (s->ncrews <= s->nsources || !s->lanes) return RSH_OK;
    RSH_TRY(find_helpers(s));
    *spreads = s->mine >= 0 || s->pair->forward || shares_near(s, &s->near);
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
    spread s = {.p = r->p, .pair = r->pair, .a = r->a, .b = r->b, .extent = r->extent, .mine = -1};
    rsh_status st;
    s.bytes = rshi_region_bytes(r);
    RSH_GOTO(find(&s, applies));
    if (!*applies) goto out;
    RSH_GOTO(s.mine >= 0 ? add_far(&s) : add_near(&s));
    st = add_edges(r, &s);
out:
    rshi_free(s.source_node);
    rshi_free(s.member);
    rshi_free(s.crew);
    rshi_free(s.helpers);
    rshi_free(s.slice);
    return st;
}
