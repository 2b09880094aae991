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
    rshi_rank_edges forward; /* owned: edges of the map that is transposed */
    rshi_rank_edges *edges;
    rshi_edges *out;
} adjoining;

/* ---- who took what ---- */

static rsh_status push(adjoining *j, const rshi_piece *b, const rsh_box *box) {
    RSH_TRY(RSHI_GROW(j->take, j->n + 1, &j->room));
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

/* Does the edge read this rank's piece, itself or through those who pass it on? */
static bool takes_mine(const adjoining *j, const rshi_edge *e) {
    const rshi_pair *pair = &j->p->pair[j->tensor];
    if (!rshi_same_start(pair->from, e->with, j->a)) return false;
    if (e->from_dst) {
        if (pair->irregular && !rshi_piece_first_copy(pair->from, j->a)) return false;
        rshi_piece at;
        rshi_piece_at_partial(pair->from, &j->first, pair->reduce ? rshi_piece_partial(pair->from, j->a) : 0, &at);
        return rshi_edge_origin(j->p, e, &at) == j->a->rank;
    }
    return rshi_edge_reads(e, j->a->rank);
}

/* What the forward edges into b, at its rank, take from this rank's piece. */
static rsh_status collect_at(adjoining *j, const rshi_piece *b) {
    rshi_rank_edges *f = &j->forward;
    bool irregular = j->p->pair[j->tensor].irregular;
    rshi_rank_edges_clear(f);
    RSH_TRY(irregular ? rshi_piece_receives(j->p, j->tensor, b, f, &f->receives)
                      : rshi_region_edges(j->p, j->tensor, &j->first, b, f, &f->receives));
    for (int64_t i = 0; i < f->receives.n; i++) {
        const rshi_edge *e = &f->receives.edge[i];
        if (takes_mine(j, e) && rshi_edge_count(e)) RSH_TRY(push_edge(j, e));
    }
    return RSH_OK;
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
            RSH_TRY(collect_at(j, &held));
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
static rsh_status add_cell(adjoining *j, rshi_edge *e) {
    const rshi_pair *pair = &j->p->pair[j->tensor];
    bool avg = rsh_layout_op(pair->from) == RSH_OP_AVG && pair->reduce;
    int ndim = rsh_layout_ndim(pair->from);
    rshi_kept mark = rshi_pieces_end(j->edges);
    int64_t most = 0;
    for (int64_t i = 0; i < j->n; i++) most += covers(&j->take[i].box, e, ndim);
    rshi_piece *src = rshi_pieces_room(j->edges, most + 1); /* and one whose sets bound the cell */
    if (!src) return RSH_ENOMEM;
    e->nsrc = 0;
    for (int64_t i = 0; i < j->n; i++)
        if (covers(&j->take[i].box, e, ndim))
            src[e->nsrc++] = j->odd ? trimmed(&j->take[i].b, e, ndim) : j->take[i].b;
    src[most] = !j->odd ? j->b : most ? src[0] : *j->a;
    e->with = &src[most];
    e->src = src;
    if (!rshi_edge_count(e)) {
        rshi_pieces_forget_after(j->edges, mark);
        return RSH_OK;
    }
    e->op = e->nsrc == 1 ? RSH_OP_NONE : RSH_OP_SUM;
    e->divisor = avg && e->nsrc ? pair->contributions : 1;
    return rshi_edges_add(j->out, e);
}

static rsh_status walk_cells(adjoining *j, int d, rshi_edge *e) {
    const rshi_pair *pair = &j->p->pair[j->tensor];
    if (d == rsh_layout_ndim(pair->from)) return add_cell(j, e);
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
    rshi_rank_edges_free(&j->forward);
    return st;
}

static rsh_status adjoin_tensor(const rsh_plan *p, int64_t tensor, int64_t rank, rshi_rank_edges *edges,
                                rshi_edges *out) {
    rshi_piece *list = NULL;
    int64_t n = 0;
    rsh_status st = rshi_layout_pieces(p->pair[tensor].from, rank, &list, &n);
    for (int64_t i = 0; i < n && !st; i++) {
        adjoining j = {.p = p, .tensor = tensor, .a = rshi_piece_keep(edges, &list[i]), .edges = edges, .out = out};
        st = j.a ? adjoin_piece(&j) : RSH_ENOMEM;
    }
    rshi_free(list);
    return st;
}

rsh_status rshi_adjoint_receives(const rsh_plan *p, int64_t tensor, rshi_rank_edges *edges, rshi_edges *out) {
    return adjoin_tensor(p, tensor, edges->rank, edges, out);
}

/* ---- out of a rank: the ranks whose source it read forward, asked one by one ---- */

typedef struct origins {
    int64_t *rank; /* owned */
    int64_t n, room;
} origins;

static rsh_status add_origin(origins *o, int64_t rank) {
    RSH_TRY(RSHI_GROW(o->rank, o->n + 1, &o->room));
    o->rank[o->n++] = rank;
    return RSH_OK;
}

/* Ranks that a forward edge reads in the end: its sources, or whoever serves the owner of the slice. */
static rsh_status add_origins(const rsh_plan *p, const rshi_edge *e, origins *o) {
    const rshi_pair *pair = &p->pair[e->tensor];
    for (int64_t i = 0; !e->from_dst && i < e->nsrc; i++) RSH_TRY(add_origin(o, rshi_edge_source(e, i)));
    for (int64_t i = 0; e->from_dst && i < pair->contributions; i++) {
        rshi_piece at;
        rshi_piece_at_partial(pair->from, e->with, i, &at);
        RSH_TRY(add_origin(o, rshi_edge_origin(p, e, &at)));
    }
    return RSH_OK;
}

static rsh_status list_tensor(const rsh_plan *p, int64_t tensor, int64_t rank, rshi_rank_edges *forward, origins *o) {
    rshi_piece *b = NULL;
    int64_t n = 0;
    rsh_status st = rshi_layout_pieces(p->pair[tensor].to, rank, &b, &n);
    rshi_rank_edges_clear(forward);
    for (int64_t i = 0; i < n && !st; i++) st = rshi_piece_receives(p, tensor, &b[i], forward, &forward->receives);
    for (int64_t i = 0; i < forward->receives.n && !st; i++) st = add_origins(p, &forward->receives.edge[i], o);
    rshi_free(b);
    return st;
}

/* All ranks that this rank's destination was made from, forward, ascending. */
static rsh_status list_origins(const rsh_plan *p, int64_t rank, origins *o) {
    rshi_rank_edges forward = {.by_region = true};
    rsh_status st = RSH_OK;
    for (int64_t t = 0; t < p->n && !st; t++) st = list_tensor(p, t, rank, &forward, o);
    rshi_rank_edges_free(&forward);
    if (o->n) qsort(o->rank, (size_t)o->n, sizeof *o->rank, rshi_compare_int64);
    return st;
}

/* Of the edges into another rank, keep those that read this one. */
static rsh_status send_to(const rsh_plan *p, int64_t rank, rshi_rank_edges *s) {
    rshi_edges *list = &s->sends;
    int64_t first = list->n, kept = first;
    rshi_kept mark = rshi_pieces_end(s);
    for (int64_t t = 0; t < p->n; t++) RSH_TRY(adjoin_tensor(p, t, rank, s, list));
    for (int64_t i = first; i < list->n; i++)
        if (rshi_edge_reads(&list->edge[i], s->rank)) list->edge[kept++] = list->edge[i];
    list->n = kept;
    if (kept == first) rshi_pieces_forget_after(s, mark);
    return RSH_OK;
}

rsh_status rshi_adjoint_sends(const rsh_plan *p, rshi_rank_edges *s) {
    origins o = {0};
    rsh_status st = list_origins(p, s->rank, &o);
    for (int64_t i = 0; i < o.n && !st; i++)
        if (o.rank[i] != s->rank && (!i || o.rank[i] != o.rank[i - 1])) st = send_to(p, o.rank[i], s);
    rshi_free(o.rank);
    return st;
}
