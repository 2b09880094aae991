/* Transposed slices: the edges of a transposed reduction whose results were combined slice by slice.
 *
 * Forward, one holder of a destination piece combines each slice of it, and the others copy the slice.  So all holders
 * have read the same replica of every contribution, and all contributions get the same sum over the holders.  One of
 * the contributions of each slice, in turn, forms that sum in its own destination; in the next stage the others copy
 * it.  Replicas that nobody has read get 0. */
#include "plan/slices.h"

/* One source piece and one destination piece, and their slice at hand. */
typedef struct slicing {
    rshi_walk *w;
    const rshi_pair *pair;
    rshi_region region;
    rshi_edge e; /* what all edges have in common */
    int64_t rank, turn; /* of the holder that combines the slice forward */
    int64_t first;      /* the contribution that forms the sum */
    rshi_legs legs;     /* owned */
} slicing;

bool rshi_transposes_slices(const rshi_pair *pair) {
    return pair->transposed && pair->reduce && pair->chain == RSHI_CHAIN_ALL && !pair->irregular && !pair->odd &&
           rsh_layout_ndim(pair->to) > 0 && (pair->fill_others || rshi_layout_partials(pair->to) == 1);
}

/* The piece of contribution `partial` that served the slice. */
static void serving_piece(const slicing *s, int64_t partial, rshi_piece *out) {
    const rsh_layout *from = s->pair->from;
    rshi_piece_at_partial(from, s->region.a, partial, out);
    rshi_piece_at_holder(from, out, rshi_serving_holder(s->w->p, s->pair, out, s->rank, s->turn), out);
}

/* ---- edges into one source piece ---- */

static rsh_status give_zero(slicing *s, const rshi_piece *dst) {
    s->e.dst = dst, s->e.nsrc = 0, s->e.op = RSH_OP_SUM, s->e.divisor = 1;
    return rshi_walk_give(s->w, &s->e);
}

/* The sum over the holders of the destination piece, or of the sends of a rank its own term. */
static rsh_status give_sum(slicing *s, const rshi_piece *dst) {
    const rsh_layout *to = s->pair->to;
    bool own_only = s->w->sends && !s->w->whole_sends;
    int64_t n = rshi_piece_holders(to, s->region.b), first = 0;
    if (own_only) first = rshi_piece_holder_index(to, s->region.b, s->w->rank), n = 1;
    if (first < 0) return RSH_OK;
    rshi_piece *src = rshi_walk_room(s->w, n);
    if (!src) return RSH_ENOMEM;
    for (int64_t i = 0; i < n; i++) rshi_piece_at_holder(to, s->region.b, first + i, &src[i]);
    s->e.dst = dst, s->e.nsrc = n, s->e.src = src;
    s->e.op = RSH_OP_SUM, s->e.divisor = s->pair->divisor;
    return rshi_walk_give(s->w, &s->e);
}

static rsh_status give_copy(slicing *s, const rshi_piece *dst) {
    rshi_edge e = s->e;
    rshi_piece src;
    serving_piece(s, s->first, &src);
    e.stage = 1, e.from_dst = true;
    e.src_layout = e.dst_layout, e.src_dtype = e.dst_dtype;
    e.wire_size = (int64_t)rsh_dtype_size(e.dst_dtype);
    e.dst = dst, e.nsrc = 1, e.src = &src, e.op = RSH_OP_NONE, e.divisor = 1;
    return rshi_walk_give(s->w, &e);
}

/* Into a piece of contribution `partial` that served the slice. */
static rsh_status give_served(slicing *s, const rshi_piece *dst, int64_t partial) {
    return partial == s->first ? give_sum(s, dst) : give_copy(s, dst);
}

/* ---- slices ---- */

typedef rsh_status (*slice_fn)(slicing *s, const rshi_piece *own);

static rsh_status each_leg(slicing *s, int64_t holder, slice_fn fn, const rshi_piece *own) {
    int d = s->region.dim;
    s->rank = rshi_piece_holder(s->pair->to, s->region.b, holder);
    RSH_TRY(rshi_route(s->w, &s->region, holder, RSHI_FROM_SOURCES, &s->legs));
    for (int64_t i = 0; i < s->legs.n; i++) {
        s->e.lo[d] = s->legs.leg[i].lo, s->e.hi[d] = s->legs.leg[i].hi;
        s->turn = s->legs.leg[i].turn;
        RSH_TRY(fn(s, own));
    }
    return RSH_OK;
}

/* Calls fn for each slice of what `a`, at its first holder and contribution 0, and b have in common. */
static rsh_status each_slice(rshi_walk *w, int64_t tensor, const rshi_piece *a, const rshi_piece *b, slice_fn fn,
                             const rshi_piece *own) {
    const rshi_pair *pair = &w->p->pair[tensor];
    slicing s = {.w = w, .pair = pair};
    const rshi_crews *crews;
    const rshi_near *near;
    rsh_status st = RSH_OK;
    rshi_region_init(w->p, tensor, a, b, &s.region);
    if (s.region.lo >= s.region.hi) return RSH_OK;
    rshi_transposed_edge(pair, tensor, a, b, &s.e);
    RSH_TRY(rshi_crews_find(w, tensor, b, &crews));
    RSH_TRY(rshi_near_find(w, &s.region, crews, &near));
    rshi_all_cut cut = rshi_all_cut_of(&s.region, crews, near);
    int64_t last = rshi_all_slice_at(&cut, s.region.hi - 1);
    for (int64_t i = rshi_all_slice_at(&cut, s.region.lo); i <= last && !st; i++) {
        s.first = i % pair->contributions;
        st = each_leg(&s, rshi_all_owner(&cut, i), fn, own);
    }
    rshi_free(s.legs.leg);
    return st;
}

/* ---- into a rank ---- */

static rsh_status receive_slice(slicing *s, const rshi_piece *own) {
    int64_t partial = rshi_piece_partial(s->pair->from, own);
    rshi_piece served;
    serving_piece(s, partial, &served);
    return served.rank == own->rank ? give_served(s, own, partial) : give_zero(s, own);
}

rsh_status rshi_receive_transposed_slices(rshi_walk *w, int64_t tensor, const rshi_piece *a, const rshi_piece *own,
                                          const rshi_piece *b) {
    return each_slice(w, tensor, a, b, receive_slice, own);
}

/* ---- out of a rank ---- */

/* From a destination piece: its term of each sum. */
static rsh_status send_term(slicing *s, const rshi_piece *own) {
    rshi_piece dst;
    (void)own;
    serving_piece(s, s->first, &dst);
    return give_sum(s, &dst);
}

rsh_status rshi_send_transposed_terms(rshi_walk *w, int64_t tensor, const rshi_piece *a, const rshi_piece *b) {
    return each_slice(w, tensor, a, b, send_term, NULL);
}

/* From a source piece: the sums that it formed. */
static rsh_status send_sum(slicing *s, const rshi_piece *own) {
    rshi_piece dst;
    if (rshi_piece_partial(s->pair->from, own) != s->first) return RSH_OK;
    serving_piece(s, s->first, &dst);
    if (dst.rank != own->rank) return RSH_OK;
    for (int64_t p = 0; p < s->pair->contributions; p++) {
        if (p == s->first) continue;
        serving_piece(s, p, &dst);
        RSH_TRY(give_copy(s, &dst));
    }
    return RSH_OK;
}

rsh_status rshi_send_transposed_sums(rshi_walk *w, int64_t tensor, const rshi_piece *a, const rshi_piece *own,
                                     const rshi_piece *b) {
    return each_slice(w, tensor, a, b, send_sum, own);
}
