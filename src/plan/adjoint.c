/* Adjoint: the edges of the transposed map.
 *
 * Forward, a destination element is made of source elements; backward, every source element gets the sum of the
 * destination elements that it went into, and elements that went nowhere get 0.  For one source piece and one
 * destination piece, each destination rank says which part of their common region it took from this source; those parts
 * cut the region into cells, and in each cell the ranks that took it are summed. */
#include "plan/impl.h"

#include <stdlib.h>

/* One destination rank took `box` of the common region from this source; b is its piece. */
typedef struct taking {
    rsh_box box;
    rshi_piece b;
} taking;

typedef struct adjoining {
    const rsh_plan *p;
    int64_t tensor;
    const rshi_piece *a; /* this rank's source piece: now the destination */
    rshi_piece first;    /* the same where destinations look for it */
    rshi_piece b;        /* the destination piece at hand, at its first holder and partial position 0 */
    bool odd; /* `to` is irregular: its pieces overlap one another, so all that meet `a` are looked at together */
    taking *take;
    int64_t n, room;
    rshi_piece *src; /* room for `n` sources of a cell */
    rshi_edge_fn fn;
    void *ctx;
} adjoining;

/* ---- who took what ---- */

static rsh_status push(adjoining *j, const rshi_piece *b, const rsh_box *box) {
    if (j->n == j->room) {
        int64_t room = j->room ? 2 * j->room : 8;
        taking *grown = rshi_realloc(j->take, (size_t)room, sizeof *grown);
        if (!grown) return rshi_nomem();
        j->take = grown;
        j->room = room;
    }
    j->take[j->n++] = (taking){*box, *b};
    return RSH_OK;
}

/* Block by block of the destination piece, inside the edge's region. */
static rsh_status push_blocks(adjoining *j, const rshi_edge *e, int d, rsh_box *box) {
    if (d == rsh_layout_ndim(e->dst_layout)) return push(j, e->dst, box);
    const rshi_stripe *s = &e->dst->set[d];
    for (int64_t i = 0; i < s->count; i++) {
        int64_t lo = s->lo + i * s->stride, hi = lo + (i == s->count - 1 ? s->last : s->len);
        box->lo[d] = rshi_max(rshi_max(lo, e->lo[d]), e->with->set[d].lo);
        box->hi[d] = rshi_min(rshi_min(hi, e->hi[d]), rshi_stripe_end(&e->with->set[d]));
        if (box->lo[d] < box->hi[d]) RSH_TRY(push_blocks(j, e, d + 1, box));
    }
    return RSH_OK;
}

static rsh_status push_edge(adjoining *j, const rshi_edge *e) {
    rsh_box box = {{0}, {0}};
    if (j->odd) return push_blocks(j, e, 0, &box);
    for (int d = 0; d < rsh_layout_ndim(e->dst_layout); d++) box.lo[d] = e->lo[d], box.hi[d] = e->hi[d];
    return push(j, e->dst, &box);
}

static bool same_start(const rsh_layout *l, const rshi_piece *a, const rshi_piece *b) {
    for (int d = 0; d < rsh_layout_ndim(l); d++)
        if (a->set[d].lo != b->set[d].lo) return false;
    return true;
}

/* Does the edge read this rank's piece, itself or through those who pass it on? */
static bool takes_mine(const adjoining *j, const rshi_edge *e) {
    const rshi_pair *pair = &j->p->pair[j->tensor];
    if (!same_start(pair->from, e->with, j->a)) return false;
    if (e->from_dst) {
        rshi_piece at;
        rshi_piece_at_partial(pair->from, &j->first, pair->reduce ? rshi_piece_partial(pair->from, j->a) : 0, &at);
        return rshi_edge_origin(j->p, e, &at) == j->a->rank;
    }
    for (int64_t i = 0; i < e->nsrc; i++)
        if (e->src[i].rank == j->a->rank) return true;
    return false;
}

static rsh_status keep(void *ctx, const rshi_edge *e) {
    adjoining *j = ctx;
    return takes_mine(j, e) && rshi_edge_count(e) ? push_edge(j, e) : RSH_OK;
}

/* All ranks that hold b, in the order of their positions. */
static rsh_status collect(void *ctx, const rshi_piece *b) {
    adjoining *j = ctx;
    const rshi_pair *pair = &j->p->pair[j->tensor];
    int64_t partials = pair->fill_others ? 1 : rshi_layout_partials(pair->to),
            holders = rshi_piece_holders(pair->to, b);
    for (int64_t i = 0; i < partials; i++) {
        rshi_piece at, held;
        rshi_piece_at_partial(pair->to, b, i, &at);
        for (int64_t h = 0; h < holders; h++) {
            rshi_piece_at_holder(pair->to, &at, h, &held);
            if (pair->irregular)
                RSH_TRY(rshi_piece_receives(j->p, j->tensor, &held, keep, j));
            else
                RSH_TRY(rshi_pair_edges(j->p, j->tensor, &j->first, &held, keep, j));
        }
    }
    return RSH_OK;
}

/* ---- cells ---- */

/* The next border along dim d after x: the nearest lo or hi of a taking, or hi. */
static int64_t next_border(const adjoining *j, int d, int64_t x, int64_t hi) {
    for (int64_t i = 0; i < j->n; i++) {
        if (j->take[i].box.lo[d] > x) hi = rshi_min(hi, j->take[i].box.lo[d]);
        if (j->take[i].box.hi[d] > x) hi = rshi_min(hi, j->take[i].box.hi[d]);
    }
    return hi;
}

static bool covers(const rsh_box *box, const rshi_edge *e, int ndim) {
    for (int d = 0; d < ndim; d++)
        if (box->lo[d] > e->lo[d] || box->hi[d] < e->hi[d]) return false;
    return true;
}

/* The part of a piece inside a cell that lies within one block of it along every dim. */
static rshi_piece trimmed(const rshi_piece *b, const rshi_edge *e, int ndim) {
    rshi_piece t = *b;
    for (int d = 0; d < ndim; d++) {
        int64_t skip = rshi_stripe_before(&b->set[d], e->lo[d]);
        t.set[d] = rshi_stripe_range(e->lo[d], e->hi[d]);
        t.at[b->flat ? 0 : d] += b->flat ? skip * b->step[d] : skip;
    }
    return t;
}

/* One cell: sum over the ranks that took it; 0 if there are none. */
static rsh_status hand_out(adjoining *j, rshi_edge *e) {
    const rshi_pair *pair = &j->p->pair[j->tensor];
    bool avg = rsh_layout_op(pair->from) == RSH_OP_AVG && pair->reduce;
    int ndim = rsh_layout_ndim(pair->from);
    e->nsrc = 0;
    for (int64_t i = 0; i < j->n; i++)
        if (covers(&j->take[i].box, e, ndim))
            j->src[e->nsrc++] = j->odd ? trimmed(&j->take[i].b, e, ndim) : j->take[i].b;
    e->with = !j->odd ? &j->b : e->nsrc ? &j->src[0] : j->a;
    if (!rshi_edge_count(e)) return RSH_OK;
    e->src = j->src;
    e->op = e->nsrc == 1 ? RSH_OP_NONE : RSH_OP_SUM;
    e->divisor = avg && e->nsrc ? pair->contributions : 1;
    return j->fn(j->ctx, e);
}

static rsh_status walk_cells(adjoining *j, int d, rshi_edge *e) {
    const rshi_pair *pair = &j->p->pair[j->tensor];
    if (d == rsh_layout_ndim(pair->from)) return hand_out(j, e);
    int64_t x = rshi_max(j->a->set[d].lo, j->b.set[d].lo);
    int64_t hi = rshi_min(rshi_stripe_end(&j->a->set[d]), rshi_stripe_end(&j->b.set[d]));
    while (x < hi) {
        e->lo[d] = x;
        e->hi[d] = x = next_border(j, d, x, hi);
        RSH_TRY(walk_cells(j, d + 1, e));
    }
    return RSH_OK;
}

/* All takings are known: cut what a and b have in common into cells. */
static rsh_status cut_cells(adjoining *j) {
    const rshi_pair *pair = &j->p->pair[j->tensor];
    rshi_piece *grown = rshi_realloc(j->src, (size_t)rshi_max(j->n, 1), sizeof *grown);
    if (!grown) return rshi_nomem();
    j->src = grown;
    rshi_edge e = {.tensor = j->tensor, .src_layout = pair->to, .dst_layout = pair->from, .dst = j->a};
    e.src_dtype = rsh_layout_dtype(pair->to);
    e.dst_dtype = rsh_layout_dtype(pair->from);
    e.wire_size = (int64_t)rsh_dtype_size(e.src_dtype);
    return walk_cells(j, 0, &e);
}

static rsh_status cells_with(void *ctx, const rshi_piece *b) {
    adjoining *j = ctx;
    j->b = *b;
    j->n = 0;
    RSH_TRY(collect(j, b));
    return cut_cells(j);
}

/* Pieces of an irregular destination together: their blocks bound the cells. */
static rsh_status cells_with_all(adjoining *j) {
    j->b = *j->a;
    j->n = 0;
    RSH_TRY(rshi_layout_search(j->p->pair[j->tensor].to, j->a->set, collect, j));
    return cut_cells(j);
}

static rsh_status adjoin_piece(adjoining *j) {
    const rshi_pair *pair = &j->p->pair[j->tensor];
    j->first = *j->a;
    if (!pair->irregular) {
        rshi_piece_at_partial(pair->from, j->a, 0, &j->first);
        rshi_piece_at_holder(pair->from, &j->first, 0, &j->first);
    }
    j->odd = rshi_layout_irregular(pair->to);
    rsh_status st = j->odd ? cells_with_all(j) : rshi_layout_search(pair->to, j->a->set, cells_with, j);
    rshi_free(j->take);
    rshi_free(j->src);
    j->take = NULL;
    j->src = NULL;
    j->n = j->room = 0;
    return st;
}

rsh_status rshi_adjoint_receives(const rsh_plan *p, int64_t rank, rshi_edge_fn fn, void *ctx) {
    rsh_status st = RSH_OK;
    for (int64_t t = 0; t < p->n && !st; t++) {
        rshi_piece *list = NULL;
        int64_t n = 0;
        st = rshi_layout_pieces(p->pair[t].from, rank, &list, &n);
        for (int64_t i = 0; i < n && !st; i++) {
            adjoining j = {.p = p, .tensor = t, .a = &list[i], .fn = fn, .ctx = ctx};
            st = adjoin_piece(&j);
        }
        rshi_free(list);
    }
    return st;
}

/* ---- out of a rank: the ranks whose source it read forward, asked one by one ---- */

typedef struct sending {
    int64_t rank;
    rshi_edge_fn fn;
    void *ctx;
} sending;

static rsh_status keep_mine(void *ctx, const rshi_edge *e) {
    sending *s = ctx;
    for (int64_t i = 0; i < e->nsrc; i++)
        if (e->src[i].rank == s->rank) return s->fn(s->ctx, e);
    return RSH_OK;
}

typedef struct origins {
    const rsh_plan *p;
    int64_t tensor;
    int64_t *rank;
    int64_t n, room;
} origins;

static rsh_status add_origin(origins *o, int64_t rank) {
    if (o->n == o->room) {
        int64_t room = o->room ? 2 * o->room : 8;
        int64_t *grown = rshi_realloc(o->rank, (size_t)room, sizeof *grown);
        if (!grown) return rshi_nomem();
        o->rank = grown;
        o->room = room;
    }
    o->rank[o->n++] = rank;
    return RSH_OK;
}

/* Ranks that an edge reads in the end: its sources, or whoever serves the owner of the slice. */
static rsh_status note_origins(void *ctx, const rshi_edge *e) {
    origins *o = ctx;
    const rshi_pair *pair = &o->p->pair[o->tensor];
    if (!e->from_dst) {
        for (int64_t i = 0; i < e->nsrc; i++) RSH_TRY(add_origin(o, e->src[i].rank));
        return RSH_OK;
    }
    for (int64_t i = 0; i < pair->contributions; i++) {
        rshi_piece at;
        rshi_piece_at_partial(pair->from, e->with, i, &at);
        RSH_TRY(add_origin(o, rshi_edge_origin(o->p, e, &at)));
    }
    return RSH_OK;
}

/* All ranks that this rank's destination was made from, forward. */
static rsh_status list_origins(const rsh_plan *p, int64_t rank, origins *o) {
    rsh_status st = RSH_OK;
    for (int64_t t = 0; t < p->n && !st; t++) {
        rshi_piece *b = NULL;
        int64_t n = 0;
        o->tensor = t;
        st = rshi_layout_pieces(p->pair[t].to, rank, &b, &n);
        for (int64_t i = 0; i < n && !st; i++) st = rshi_piece_receives(p, t, &b[i], note_origins, o);
        rshi_free(b);
    }
    return st;
}

rsh_status rshi_adjoint_sends(const rsh_plan *p, int64_t rank, rshi_edge_fn fn, void *ctx) {
    origins o = {.p = p};
    sending s = {rank, fn, ctx};
    rsh_status st = list_origins(p, rank, &o);
    if (!st && o.n) qsort(o.rank, (size_t)o.n, sizeof *o.rank, rshi_compare_int64);
    for (int64_t i = 0; i < o.n && !st; i++)
        if (o.rank[i] != rank && (!i || o.rank[i] != o.rank[i - 1]))
            st = rshi_adjoint_receives(p, o.rank[i], keep_mine, &s);
    rshi_free(o.rank);
    return st;
}
