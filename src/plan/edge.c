/* Edge: who gives what to whom.
 *
 * A source piece has holders; the one that serves a destination is its own copy, else a holder on its node, else any;
 * among k candidates in mesh order the destination at position d takes number d mod k.  Where several ranks want the
 * same region and only one should fetch it (the result of a reduction, or bytes from another node), the region is cut
 * into one slice each: everybody fetches its own in stage 0 and reads the others from their owners in stage 1.  Regions
 * that more nodes want than ranks hold go another way: see spread.c. */
#include "plan/impl.h"

int64_t rshi_edge_count(const rshi_edge *e) {
    int64_t n = 1;
    for (int d = 0; d < rsh_layout_ndim(e->dst_layout); d++) {
        n *= rshi_stripe_common(&e->with->set[d], &e->dst->set[d], e->lo[d], e->hi[d]);
    }
    return n;
}

int64_t rshi_pieces_common(const rsh_layout *l, const rshi_piece *a, const rshi_piece *b) {
    int64_t n = 1;
    for (int d = 0; d < rsh_layout_ndim(l) && n; d++)
        n *= rshi_stripe_common(&a->set[d], &b->set[d], a->set[d].lo, rshi_stripe_end(&a->set[d]));
    return n;
}

/* ---- which holder serves a destination ---- */

/* Candidates for one destination: all holders, or those on its node. */
typedef struct candidates {
    int64_t n;
    bool near; /* only holders on the destination's node count */
    bool own;  /* n is 1 and it is the destination itself: `first` */
    int64_t first;
} candidates;

static int64_t count_near(const rsh_plan *p, const rsh_layout *from, const rshi_piece *a, int64_t node) {
    int64_t k = rshi_piece_holders(from, a), n = 0;
    for (int64_t j = 0; j < k; j++) n += rshi_plan_node(p, rshi_piece_holder(from, a, j)) == node;
    return n;
}

static candidates candidates_for(const rsh_plan *p, const rsh_layout *from, const rshi_piece *a, int64_t rank) {
    int64_t own = rshi_piece_holder_index(from, a, rank);
    if (own >= 0) return (candidates){1, false, true, own};
    candidates c = {rshi_piece_holders(from, a), false, false, 0};
    if (rshi_plan_has_nodes(p) && c.n > 1) {
        int64_t near = count_near(p, from, a, rshi_plan_node(p, rank));
        if (near) c.n = near, c.near = true;
    }
    return c;
}

/* Candidate number i as a holder index. */
static int64_t candidate(const rsh_plan *p, const rsh_layout *from, const rshi_piece *a, const candidates *c,
                         int64_t rank, int64_t i) {
    if (c->own) return c->first;
    i %= c->n;
    if (!c->near) return i;
    int64_t node = rshi_plan_node(p, rank);
    for (int64_t j = 0;; j++)
        if (rshi_plan_node(p, rshi_piece_holder(from, a, j)) == node && i-- == 0) return j;
}

static int64_t serving_holder(const rsh_plan *p, const rshi_pair *pair, const rshi_piece *a, int64_t rank,
                              int64_t turn) {
    candidates c = candidates_for(p, pair->from, a, rank);
    return candidate(p, pair->from, a, &c, rank, turn);
}

int64_t rshi_serving_rank(const rsh_plan *p, const rshi_pair *pair, const rshi_piece *a, int64_t rank) {
    return rshi_piece_holder(pair->from, a, serving_holder(p, pair, a, rank, rshi_layout_position(pair->to, rank)));
}

int64_t rshi_edge_origin(const rsh_plan *p, const rshi_edge *e, const rshi_piece *a) {
    const rshi_pair *pair = &p->pair[e->tensor];
    return rshi_piece_holder(pair->from, a, serving_holder(p, pair, a, e->owner, e->turn));
}

/* ---- cutting a region into slices ---- */

/* How (a, b) is cut: n slices along dim; slice i belongs to owner i of b's holders (relay), or is sent by candidate d +
 * i (not relay). */
typedef struct slicing {
    int64_t n;
    bool relay;
    bool near; /* relay among the holders on b's node only */
    int dim;
    int64_t extent; /* common indices along dim */
} slicing;

/* Always the same dim for (a, b), however many slices: the longest, the outermost of equals. */
static void longest_dim(const rsh_layout *l, const rshi_piece *a, const rshi_piece *b, slicing *s) {
    s->extent = 0;
    for (int d = 0; d < rsh_layout_ndim(l); d++) {
        int64_t n = rshi_stripe_common(&a->set[d], &b->set[d], a->set[d].lo, rshi_stripe_end(&a->set[d]));
        if (n > s->extent) s->dim = d, s->extent = n;
    }
}

static int64_t near_owners(const rsh_plan *p, const rshi_pair *pair, const rshi_piece *b) {
    int64_t k = rshi_piece_holders(pair->to, b), n = 0, node = rshi_plan_node(p, b->rank);
    for (int64_t j = 0; j < k; j++) n += rshi_plan_node(p, rshi_piece_holder(pair->to, b, j)) == node;
    return n;
}

/* Should b's holders on one node fetch a region once and pass it on?  Not where the source is near, nor where what is
 * passed on has grown wider on the way: ranks would then receive more bytes than they must. */
static bool relays_near(const rsh_plan *p, const rshi_pair *pair, const rshi_piece *a, const rshi_piece *b) {
    if (pair->keep || !rshi_plan_has_nodes(p) || rshi_piece_holders(pair->to, b) == 1) return false;
    if ((int64_t)rsh_dtype_size(rsh_layout_dtype(pair->to)) > pair->wire_size) return false;
    return !count_near(p, pair->from, a, rshi_plan_node(p, b->rank));
}

static slicing slicing_of(const rsh_plan *p, const rshi_pair *pair, const rshi_piece *a, const rshi_piece *b) {
    slicing s = {.n = 1};
    if (pair->reduce) {
        s.n = rshi_piece_holders(pair->to, b);
        s.relay = s.n > 1;
    } else if (relays_near(p, pair, a, b)) {
        s.n = near_owners(p, pair, b);
        s.relay = s.near = s.n > 1;
    }
    if (!s.relay && pair->slice && !pair->keep) {
        candidates c = candidates_for(p, pair->from, a, b->rank);
        if (c.n > 1 && rshi_mul_most(rshi_pieces_common(pair->to, a, b), pair->wire_size) / c.n >= RSHI_SLICE_BYTES)
            s.n = c.n;
    }
    if (s.n > 1) longest_dim(pair->to, a, b, &s);
    if (s.n > 1 && !s.extent) s = (slicing){.n = 1}; /* 0-d: nothing to cut along */
    return s;
}

/* The first index x such that a and b have i indices in common before it. */
static int64_t cut_point(const rshi_stripe *a, const rshi_stripe *b, int64_t i) {
    int64_t lo = rshi_max(a->lo, b->lo), hi = rshi_min(rshi_stripe_end(a), rshi_stripe_end(b)), from = lo;
    if (a->count == 1 && b->count == 1) return lo + i;
    while (lo < hi) {
        int64_t mid = lo + (hi - lo) / 2;
        if (rshi_stripe_common(a, b, from, mid) < i)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

/* Slice i of n: [*lo, *hi) along s->dim. */
static void slice_bounds(const slicing *s, const rshi_piece *a, const rshi_piece *b, int64_t i, int64_t *lo,
                         int64_t *hi) {
    *lo = cut_point(&a->set[s->dim], &b->set[s->dim], rshi_part_start(s->extent, s->n, i));
    *hi = cut_point(&a->set[s->dim], &b->set[s->dim], rshi_part_start(s->extent, s->n, i + 1));
}

/* Owner i of a relay, as a holder index of b. */
static int64_t owner_holder(const rsh_plan *p, const rshi_pair *pair, const rshi_piece *b, const slicing *s,
                            int64_t i) {
    if (!s->near) return i;
    int64_t node = rshi_plan_node(p, b->rank);
    for (int64_t j = 0;; j++)
        if (rshi_plan_node(p, rshi_piece_holder(pair->to, b, j)) == node && i-- == 0) return j;
}

/* ---- edges between one source piece and one destination piece ---- */

typedef struct maker {
    const rsh_plan *p;
    const rshi_pair *pair;
    const rshi_piece *a, *b;
    slicing s;
    rshi_edge e;
    rshi_piece *src; /* as many as there are contributions */
    rshi_edge_fn fn;
    void *ctx;
} maker;

void rshi_edge_init(const rsh_plan *p, int64_t tensor, const rshi_piece *a, const rshi_piece *b, rshi_edge *e) {
    const rshi_pair *pair = &p->pair[tensor];
    rsh_op op = rsh_layout_op(pair->from);
    *e = (rshi_edge){
        .tensor = tensor, .src_layout = pair->from, .dst_layout = pair->to, .dst = b, .with = a, .nsrc = 1, .src = a};
    e->divisor = 1;
    e->src_dtype = rsh_layout_dtype(pair->from);
    e->dst_dtype = rsh_layout_dtype(pair->to);
    e->wire_size = pair->wire_size;
    e->owner = b->rank;
    e->turn = rshi_layout_position(pair->to, b->rank);
    if (pair->reduce) {
        e->op = op == RSH_OP_AVG ? RSH_OP_SUM : op;
        e->divisor = op == RSH_OP_AVG ? pair->contributions : 1;
    }
    for (int d = 0; d < rsh_layout_ndim(pair->to); d++) {
        e->lo[d] = b->set[d].lo;
        e->hi[d] = rshi_stripe_end(&b->set[d]);
    }
}

/* Hand out the edge with the sources that serve b's rank: candidate number `turn`. */
static rsh_status from_sources(maker *m, int64_t turn) {
    rshi_edge e = m->e;
    e.turn = turn;
    e.nsrc = m->pair->contributions;
    e.src = m->src;
    for (int64_t i = 0; i < e.nsrc; i++) {
        rshi_piece *s = &m->src[i];
        rshi_piece_at_partial(m->pair->from, m->a, m->pair->keep ? rshi_piece_partial(m->pair->to, m->b) : i, s);
        rshi_piece_at_holder(m->pair->from, s, serving_holder(m->p, m->pair, s, m->b->rank, turn), s);
    }
    return m->fn(m->ctx, &e);
}

/* Hand out the edge that reads a slice where a holder of b has put it. */
static rsh_status from_holder(maker *m, const rshi_slice *q) {
    rshi_edge e = m->e;
    rshi_piece at;
    rshi_piece_at_holder(m->pair->to, m->b, q->holder, &at);
    e.stage = q->stage;
    e.from_dst = true;
    e.owner = q->owner;
    e.turn = q->turn;
    e.src_layout = m->pair->to;
    e.src_dtype = e.dst_dtype;
    e.wire_size = (int64_t)rsh_dtype_size(e.dst_dtype);
    e.op = RSH_OP_NONE;
    e.divisor = 1;
    e.nsrc = 1;
    e.src = &at;
    return m->fn(m->ctx, &e);
}

/* Hand out one slice of a region that is spread over nodes. */
static rsh_status hand_out(void *ctx, const rshi_slice *q) {
    maker *m = ctx;
    int d = m->s.dim;
    m->e.lo[d] = cut_point(&m->a->set[d], &m->b->set[d], q->lo);
    m->e.hi[d] = cut_point(&m->a->set[d], &m->b->set[d], q->hi);
    return q->holder < 0 ? from_sources(m, q->turn) : from_holder(m, q);
}

static rsh_status make_slices(maker *m, const slicing *s) {
    int64_t turn = m->e.turn;
    for (int64_t i = 0; i < s->n; i++) {
        slice_bounds(s, m->a, m->b, i, &m->e.lo[s->dim], &m->e.hi[s->dim]);
        if (m->e.lo[s->dim] >= m->e.hi[s->dim]) continue;
        if (!s->relay) {
            RSH_TRY(from_sources(m, turn + i));
            continue;
        }
        rshi_slice q = {.stage = 1, .holder = owner_holder(m->p, m->pair, m->b, s, i)};
        q.owner = rshi_piece_holder(m->pair->to, m->b, q.holder);
        q.turn = rshi_layout_position(m->pair->to, q.owner);
        RSH_TRY(q.owner == m->b->rank ? from_sources(m, turn) : from_holder(m, &q));
    }
    return RSH_OK;
}

rsh_status rshi_pair_edges(const rsh_plan *p, int64_t tensor, const rshi_piece *a, const rshi_piece *b, rshi_edge_fn fn,
                           void *ctx) {
    rshi_piece one;
    maker m = {.p = p, .pair = &p->pair[tensor], .a = a, .b = b, .src = &one, .fn = fn, .ctx = ctx};
    bool spread = false;
    rshi_edge_init(p, tensor, a, b, &m.e);
    if (m.pair->spread) {
        longest_dim(m.pair->to, a, b, &m.s);
        RSH_TRY(rshi_spread_slices(p, m.pair, a, b, m.s.extent, hand_out, &m, &spread));
        if (spread) return RSH_OK;
    }
    m.s = slicing_of(p, m.pair, a, b);
    if (m.pair->contributions > 1) {
        m.src = rshi_alloc((size_t)m.pair->contributions, sizeof *m.src);
        if (!m.src) return rshi_nomem();
    }
    rsh_status st = m.s.n > 1 ? make_slices(&m, &m.s) : from_sources(&m, m.e.turn);
    if (m.src != &one) rshi_free(m.src);
    return st;
}
