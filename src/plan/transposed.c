/* Transposed: the edges of the transposed map.
 *
 * Forward, a destination element is made of source elements.  Backward, every source element gets the sum of the
 * destination elements that it went into, or 0 if it went nowhere.  For one source piece and one destination piece,
 * each holder of the destination piece lists which part of their region it read from this source, directly or
 * through others. These readings cut the region into cells.  In each cell the holders that read it are summed. */
#include "plan/impl.h"

#include <stdlib.h>

/* A destination rank read `box` of the region from this source; b is its piece. */
typedef struct reading {
    rsh_box box;
    rshi_piece b;
} reading;

typedef struct transposing {
    rshi_walk *w;
    const rshi_pair *pair;
    int64_t tensor;
    const rshi_piece *own; /* a source piece at its rank, which is now a destination */
    rshi_piece first;      /* the same at its first holder and partial position 0 */
    rshi_piece b;          /* the current destination piece, at its first holder and partial position 0 */
    rshi_region region;    /* of `first` and b */
    rshi_piece reader;     /* b at the current rank */
    rshi_legs legs;        /* owned */
    reading *reading;      /* owned */
    int64_t n, room;
    rshi_piece *src; /* owned */
    int64_t src_room;
    const rshi_piece *mine;  /* sends: a destination piece of the rank */
    rshi_region mine_region; /* of `mine` and a source piece */
    rshi_legs mine_legs;     /* owned */
    rshi_piece *source;      /* owned: the copies of the source piece from which `mine` was made */
    int64_t nsources, source_room;
} transposing;

/* ---- which ranks read what ---- */

static rsh_status add_reading(transposing *j, const rshi_piece *b, const rsh_box *box) {
    RSH_TRY(RSHI_GROW(j->reading, j->n + 1, &j->room));
    j->reading[j->n++] = (reading){*box, *b};
    return RSH_OK;
}

/* Are cells bounded by blocks?  If pieces of either side overlap, all pieces that overlap a source piece are
 * collected first. */
static bool by_blocks(const rshi_pair *pair) { return pair->to_overlaps || (pair->from_overlaps && !pair->reduce); }

/* Adds a reading for each block of the destination piece inside the box and this source. */
static rsh_status add_block_readings(transposing *j, const rshi_piece *b, const rsh_box *within, int d, rsh_box *box) {
    if (d == rsh_layout_ndim(j->pair->to)) return add_reading(j, b, box);
    const rshi_stripe *s = &b->set[d], *own = &j->own->set[d];
    for (int64_t i = 0; i < s->count; i++) {
        int64_t lo = s->lo + i * s->stride, hi = lo + (i == s->count - 1 ? s->last : s->len);
        box->lo[d] = rshi_max(rshi_max(lo, within->lo[d]), own->lo);
        box->hi[d] = rshi_min(rshi_min(hi, within->hi[d]), rshi_stripe_end(own));
        if (box->lo[d] < box->hi[d]) RSH_TRY(add_block_readings(j, b, within, d + 1, box));
    }
    return RSH_OK;
}

static rsh_status add_readings(transposing *j, const rshi_piece *b, const rsh_box *box) {
    rsh_box block = {{0}, {0}};
    return by_blocks(j->pair) ? add_block_readings(j, b, box, 0, &block) : add_reading(j, b, box);
}

/* Called for a holder that read [lo, hi) of `reader` from the sources: adds a reading for each part that came from this
 * source. */
static rsh_status add_reading_of(void *ctx, int64_t holder, int64_t lo, int64_t hi) {
    transposing *j = ctx;
    const rsh_layout *to = j->pair->to;
    int64_t rank = rshi_piece_holder(to, j->region.b, holder);
    RSH_TRY(rshi_route(j->w, &j->region, holder, RSHI_FROM_SOURCES, &j->legs));
    for (int64_t i = 0; i < j->legs.n; i++) {
        const rshi_leg *leg = &j->legs.leg[i];
        rsh_box box = {{0}, {0}};
        for (int d = 0; d < rsh_layout_ndim(to); d++)
            box.lo[d] = j->reader.set[d].lo, box.hi[d] = rshi_stripe_end(&j->reader.set[d]);
        if (rsh_layout_ndim(to)) {
            box.lo[j->region.dim] = rshi_max(lo, leg->lo), box.hi[j->region.dim] = rshi_min(hi, leg->hi);
            if (box.lo[j->region.dim] >= box.hi[j->region.dim]) continue;
        }
        if (rshi_region_serves(&j->region, rank, leg->turn, j->own)) RSH_TRY(add_readings(j, &j->reader, &box));
    }
    return RSH_OK;
}

static rsh_status add_edge_reading(void *ctx, const rshi_edge *e) {
    transposing *j = ctx;
    rsh_box box = {{0}, {0}};
    bool mine = e->nsrc == 1 && e->src->rank == j->own->rank && e->src->part == j->own->part;
    if (!mine || !rshi_same_start(j->pair->from, e->src, j->own)) return RSH_OK;
    for (int d = 0; d < rsh_layout_ndim(j->pair->to); d++) box.lo[d] = e->lo[d], box.hi[d] = e->hi[d];
    return add_readings(j, e->dst, &box);
}

/* Adds the readings of one holder of `at`. */
static rsh_status add_readings_of_holder(transposing *j, const rshi_piece *at, int64_t holder) {
    rshi_piece_at_holder(j->pair->to, at, holder, &j->reader);
    if (!j->pair->from_overlaps || j->pair->reduce) {
        rshi_region_init(j->w->p, j->tensor, &j->first, at, &j->region);
        return rshi_route_origins(j->w, &j->region, holder, add_reading_of, j);
    }
    rshi_walk forward = {.p = j->w->p, .rank = j->reader.rank, .emit = add_edge_reading, .ctx = j};
    rsh_status st = rshi_receive_overlapping(&forward, j->tensor, &j->reader);
    rshi_walk_free(&forward);
    return st;
}

/* Adds the readings of all ranks that hold b, in the order of their positions. */
static rsh_status add_readings_of_holders(void *ctx, const rshi_piece *b) {
    transposing *j = ctx;
    const rshi_pair *pair = j->pair;
    int64_t n = pair->fill_others ? 1 : rshi_layout_partials(pair->to), i = 0;
    int64_t holders = rshi_piece_holders(pair->to, b);
    if (pair->from_overlaps && pair->reduce && !rshi_piece_first_copy(pair->from, j->own)) return RSH_OK;
    if (pair->keep) i = rshi_piece_partial(pair->from, j->own), n = i + 1;
    for (; i < n; i++) {
        rshi_piece at;
        rshi_piece_at_partial(pair->to, b, i, &at);
        for (int64_t h = 0; h < holders; h++) RSH_TRY(add_readings_of_holder(j, &at, h));
    }
    return RSH_OK;
}

/* ---- cells ---- */

/* Returns the next border after x along dim d: the nearest lo or hi of a reading, or hi. */
static int64_t next_border(const transposing *j, int d, int64_t x, int64_t hi) {
    for (int64_t i = 0; i < j->n; i++) {
        if (j->reading[i].box.lo[d] > x) hi = rshi_min(hi, j->reading[i].box.lo[d]);
        if (j->reading[i].box.hi[d] > x) hi = rshi_min(hi, j->reading[i].box.hi[d]);
    }
    return hi;
}

static bool covers(const rsh_box *box, const rshi_edge *e, int ndim) {
    for (int d = 0; d < ndim; d++)
        if (box->lo[d] > e->lo[d] || box->hi[d] < e->hi[d]) return false;
    return true;
}

/* Returns the part of a piece inside a cell that lies within one block along every dim. */
static rshi_piece trimmed(const rshi_piece *b, const rshi_edge *e, int ndim) {
    rshi_piece t = *b;
    for (int d = 0; d < ndim; d++) {
        int64_t skip = rshi_stripe_before(&b->set[d], e->lo[d]);
        t.set[d] = rshi_stripe_range(e->lo[d], e->hi[d]);
        t.at[b->flat ? 0 : d] += b->flat ? skip * b->step[d] : skip;
    }
    return t;
}

/* Emits one cell: the sum over the ranks that read it, or 0. */
static rsh_status emit_cell(transposing *j, rshi_edge *e) {
    bool blocks = by_blocks(j->pair);
    int ndim = rsh_layout_ndim(j->pair->from);
    RSH_TRY(RSHI_GROW(j->src, j->n + 1, &j->src_room));
    e->nsrc = 0;
    for (int64_t i = 0; i < j->n; i++)
        if (covers(&j->reading[i].box, e, ndim))
            j->src[e->nsrc++] = blocks ? trimmed(&j->reading[i].b, e, ndim) : j->reading[i].b;
    e->src = j->src;
    e->with = !blocks ? &j->b : e->nsrc ? j->src : j->own;
    if (!rshi_edge_count(e)) return RSH_OK;
    e->op = e->nsrc == 1 ? RSH_OP_NONE : RSH_OP_SUM;
    e->divisor = e->nsrc ? j->pair->divisor : 1;
    return rshi_emit_edge(j->w, e);
}

static rsh_status walk_cells(transposing *j, int d, rshi_edge *e) {
    if (d == rsh_layout_ndim(j->pair->from)) return emit_cell(j, e);
    int64_t x = rshi_max(j->own->set[d].lo, j->b.set[d].lo);
    int64_t hi = rshi_min(rshi_stripe_end(&j->own->set[d]), rshi_stripe_end(&j->b.set[d]));
    while (x < hi) {
        e->lo[d] = x;
        e->hi[d] = x = next_border(j, d, x, hi);
        RSH_TRY(walk_cells(j, d + 1, e));
    }
    return RSH_OK;
}

void rshi_transposed_edge(const rshi_pair *pair, int64_t tensor, const rshi_piece *a, const rshi_piece *b,
                          rshi_edge *e) {
    *e = (rshi_edge){.tensor = tensor, .src_layout = pair->to, .dst_layout = pair->from, .dst = a, .with = b};
    e->src_dtype = rsh_layout_dtype(pair->to);
    e->dst_dtype = rsh_layout_dtype(pair->from);
    e->wire_size = (int64_t)rsh_dtype_size(e->src_dtype);
    for (int d = 0; d < rsh_layout_ndim(pair->to); d++) {
        e->lo[d] = rshi_max(a->set[d].lo, b->set[d].lo);
        e->hi[d] = rshi_min(rshi_stripe_end(&a->set[d]), rshi_stripe_end(&b->set[d]));
    }
}

/* Cuts what the pieces have in common into cells.  All readings must be known. */
static rsh_status cut_cells(transposing *j) {
    rshi_edge e;
    rshi_transposed_edge(j->pair, j->tensor, j->own, &j->b, &e);
    return walk_cells(j, 0, &e);
}

static bool slices_apply(const rshi_pair *pair, const rshi_piece *b) {
    return rshi_transposes_slices(pair) && rshi_piece_holders(pair->to, b) > 1;
}

static rsh_status cells_with(void *ctx, const rshi_piece *b) {
    transposing *j = ctx;
    j->b = *b;
    j->n = 0;
    if (slices_apply(j->pair, b)) return rshi_receive_transposed_slices(j->w, j->tensor, &j->first, j->own, &j->b);
    RSH_TRY(add_readings_of_holders(j, b));
    return cut_cells(j);
}

/* ---- pieces of the source ---- */

static void set_own(transposing *j, const rshi_piece *own) {
    j->own = own;
    rshi_piece_at_partial(j->pair->from, own, 0, &j->first);
    rshi_piece_at_holder(j->pair->from, &j->first, 0, &j->first);
}

static rsh_status transpose_piece(transposing *j, const rshi_piece *own) {
    set_own(j, own);
    if (!by_blocks(j->pair)) return rshi_layout_search(j->pair->to, own->set, cells_with, j);
    j->b = *own;
    j->n = 0;
    RSH_TRY(rshi_layout_search(j->pair->to, own->set, add_readings_of_holders, j));
    return cut_cells(j);
}

static transposing transposing_of(rshi_walk *w, int64_t tensor) {
    return (transposing){.w = w, .pair = &w->p->pair[tensor], .tensor = tensor};
}

static void transposing_free(transposing *j) {
    rshi_free(j->reading);
    rshi_free(j->legs.leg);
    rshi_free(j->src);
    rshi_free(j->mine_legs.leg);
    rshi_free(j->source);
}

static rsh_status transpose_rank(transposing *j, int64_t rank) {
    rshi_piece *list = NULL;
    int64_t n = 0;
    rsh_status st = rshi_layout_pieces(j->pair->from, rank, &list, &n);
    for (int64_t i = 0; i < n && !st; i++) st = transpose_piece(j, &list[i]);
    rshi_free(list);
    return st;
}

rsh_status rshi_receive_transposed(rshi_walk *w, int64_t tensor) {
    transposing j = transposing_of(w, tensor);
    rsh_status st = transpose_rank(&j, w->rank);
    transposing_free(&j);
    return st;
}

/* ---- out of a rank: sums that it computed for others ---- */

static rsh_status send_sums_to(void *ctx, const rshi_piece *b) {
    transposing *j = ctx;
    if (!slices_apply(j->pair, b)) return RSH_OK;
    return rshi_send_transposed_sums(j->w, j->tensor, &j->first, j->own, b);
}

static rsh_status send_sums(transposing *j) {
    rshi_piece *list = NULL;
    int64_t n = 0;
    rsh_status st = rshi_layout_pieces(j->pair->from, j->w->rank, &list, &n);
    for (int64_t i = 0; i < n && !st; i++) {
        set_own(j, &list[i]);
        st = rshi_layout_search(j->pair->to, list[i].set, send_sums_to, j);
    }
    rshi_free(list);
    return st;
}

/* ---- out of a rank: cells of the sources of its pieces that read it ---- */

/* Emits the cells of one source that read the rank. */
static rsh_status emit_cells_of_source(transposing *j, const rshi_piece *own) {
    rshi_piece b = j->b;
    if (own->rank == j->w->rank) return RSH_OK;
    set_own(j, own);
    return cells_with(j, &b);
}

/* Did several ranks read the whole region from `own`? */
static bool is_shared(const transposing *j, const rshi_piece *own) {
    const rshi_pair *pair = j->pair;
    int64_t partials = pair->fill_others || pair->keep ? 1 : rshi_layout_partials(pair->to), readers = 0;
    int64_t holders = rshi_piece_holders(pair->to, &j->b);
    for (int64_t i = 0; i < partials && partials * holders > 1; i++) {
        rshi_piece at = *j->mine;
        if (!pair->keep) rshi_piece_at_partial(pair->to, &j->b, i, &at);
        for (int64_t h = 0; h < holders && readers < 2; h++) {
            int64_t rank = rshi_piece_holder(pair->to, &at, h);
            readers += rshi_region_serves(&j->mine_region, rank, rshi_turn_of_rank(pair->to, rank), own);
        }
    }
    return readers > 1;
}

/* Without a cut the source that served the rank gets the whole region from it. */
static rsh_status send_region(transposing *j, const rshi_piece *own) {
    rshi_edge e;
    rshi_transposed_edge(j->pair, j->tensor, own, j->mine, &e);
    e.nsrc = 1, e.src = j->mine, e.divisor = j->pair->divisor;
    e.op = is_shared(j, own) ? RSH_OP_SUM : RSH_OP_NONE;
    return rshi_emit_edge(j->w, &e);
}

/* Called for a holder through which the rank got [lo, hi) of its piece: lists the sources that served the holder. */
static rsh_status list_sources_of_origin(void *ctx, int64_t holder, int64_t lo, int64_t hi) {
    transposing *j = ctx;
    const rshi_pair *pair = j->pair;
    const rsh_layout *from = pair->from;
    int64_t rank = rshi_piece_holder(pair->to, j->mine_region.b, holder);
    int64_t i = pair->keep ? rshi_piece_partial(pair->to, j->mine) : 0;
    int64_t n = pair->keep ? i + 1 : pair->contributions;
    rshi_piece own;
    (void)lo, (void)hi;
    RSH_TRY(rshi_route(j->w, &j->mine_region, holder, RSHI_FROM_SOURCES, &j->mine_legs));
    for (int64_t k = 0; k < j->mine_legs.n; k++)
        for (int64_t p = i; p < n; p++) {
            rshi_piece_at_partial(from, j->mine_region.a, p, &own);
            int64_t serving = rshi_serving_holder(j->w->p, pair, &own, rank, j->mine_legs.leg[k].turn);
            rshi_piece_at_holder(from, &own, serving, &own);
            RSH_TRY(RSHI_GROW(j->source, j->nsources + 1, &j->source_room));
            j->source[j->nsources++] = own;
        }
    return RSH_OK;
}

static int by_rank(const void *a, const void *b) {
    const rshi_piece *x = a, *y = b;
    return (x->rank > y->rank) - (x->rank < y->rank);
}

/* Emits the edges into the copies of source piece `a` from which the rank's piece was made. */
static rsh_status emit_to_sources(void *ctx, const rshi_piece *a) {
    transposing *j = ctx;
    const rshi_pair *pair = j->pair;
    rshi_piece at, first = *a;
    bool directly = rshi_goes_directly(pair, rshi_piece_holders(pair->to, j->mine)) && !j->w->whole_sends;
    if (slices_apply(pair, &j->b)) return rshi_send_transposed_terms(j->w, j->tensor, a, &j->b);
    if (pair->from_overlaps && !rshi_piece_first_copy(pair->from, a)) return RSH_OK;
    rshi_piece_at_partial(pair->to, &j->b, rshi_piece_partial(pair->to, j->mine), &at);
    rshi_region_init(j->w->p, j->tensor, &first, &at, &j->mine_region);
    j->nsources = 0;
    RSH_TRY(rshi_route_origins(j->w, &j->mine_region, rshi_piece_holder_index(pair->to, &at, j->w->rank),
                               list_sources_of_origin, j));
    if (j->nsources) qsort(j->source, (size_t)j->nsources, sizeof *j->source, by_rank);
    for (int64_t i = 0; i < j->nsources; i++)
        if (!i || j->source[i].rank != j->source[i - 1].rank)
            RSH_TRY(directly ? send_region(j, &j->source[i]) : emit_cells_of_source(j, &j->source[i]));
    return RSH_OK;
}

static rsh_status send_pieces(transposing *j) {
    rshi_piece *list = NULL;
    int64_t n = 0;
    rsh_status st = rshi_layout_pieces(j->pair->to, j->w->rank, &list, &n);
    for (int64_t i = 0; i < n && !st; i++) {
        if (j->pair->fill_others && rshi_piece_partial(j->pair->to, &list[i])) continue;
        j->mine = &list[i];
        rshi_piece_at_partial(j->pair->to, &list[i], 0, &j->b);
        rshi_piece_at_holder(j->pair->to, &j->b, 0, &j->b);
        st = rshi_layout_search(j->pair->from, list[i].set, emit_to_sources, j);
    }
    rshi_free(list);
    return st;
}

rsh_status rshi_send_transposed(rshi_walk *w, int64_t tensor) {
    transposing j = transposing_of(w, tensor);
    rsh_status st = RSH_OK;
    if (by_blocks(j.pair)) /* rare: asks every rank of the source for all its cells */
        for (int64_t i = 0; i < rsh_layout_nranks(j.pair->from) && !st; i++) {
            int64_t rank = rsh_layout_rank(j.pair->from, i);
            if (rank != w->rank) st = transpose_rank(&j, rank);
        }
    else
        st = send_pieces(&j);
    if (!st && rshi_transposes_slices(j.pair)) st = send_sums(&j);
    transposing_free(&j);
    return st;
}
