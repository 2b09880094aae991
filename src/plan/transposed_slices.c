/* Transposed slices: the edges of a transposed reduction whose results were combined in slices.
 *
 * Forward, one holder of a destination piece combines each slice of it, and the other holders copy the slice.  So
 * all holders depend on the same replica of every contribution, and all contributions get the same sum over the
 * holders. One contribution, a different one for each slice, computes that sum in its own destination.  In the next
 * stage the others copy it.  Replicas that were not read get 0. */
#include "plan/piece_holders.h"

/* One source piece and one destination piece, and their current slice. */
typedef struct slice_pair {
    rshi_walk *w;
    const rshi_pair *pair;
    rshi_region region;
    rshi_edge e;        /* the fields that all edges share */
    int64_t rank, turn; /* of the holder that combines the slice forward */
    int64_t first;      /* the contribution that computes the sum */
    rshi_legs legs;     /* owned */
} slice_pair;

bool rshi_transposes_slices(const rshi_pair *pair) {
    return pair->transposed && pair->reduce && pair->chain == RSHI_CHAIN_ALL && !pair->from_overlaps &&
           !pair->to_overlaps && rsh_layout_ndim(pair->to) > 0 &&
           (pair->fill_others || rshi_layout_partials(pair->to) == 1);
}

/* Makes the piece of contribution `partial` that served the slice. */
static void serving_piece(const slice_pair *s, int64_t partial, rshi_piece *out) {
    const rsh_layout *from = s->pair->from;
    rshi_piece_at_partial(from, s->region.a, partial, out);
    rshi_piece_at_holder(from, out, rshi_serving_holder(s->w->p, s->pair, out, s->rank, s->turn), out);
}

/* ---- edges into one source piece ---- */

static rsh_status emit_zero(slice_pair *s, const rshi_piece *dst) {
    s->e.dst = dst, s->e.nsrc = 0, s->e.op = RSH_OP_SUM, s->e.divisor = 1;
    return rshi_emit_edge(s->w, &s->e);
}

/* Emits the sum over the holders of the destination piece or, for sends of a rank, only its own term. */
static rsh_status emit_sum(slice_pair *s, const rshi_piece *dst) {
    const rsh_layout *to = s->pair->to;
    bool own_only = s->w->sends && !s->w->whole_sends;
    int64_t n = rshi_piece_holders(to, s->region.b), first = 0;
    if (own_only) first = rshi_piece_holder_index(to, s->region.b, s->w->rank), n = 1;
    if (first < 0) return RSH_OK;
    rshi_piece *src = rshi_walk_source_room(s->w, n);
    if (!src) return RSH_ENOMEM;
    for (int64_t i = 0; i < n; i++) rshi_piece_at_holder(to, s->region.b, first + i, &src[i]);
    s->e.dst = dst, s->e.nsrc = n, s->e.src = src;
    s->e.op = RSH_OP_SUM, s->e.divisor = s->pair->divisor;
    return rshi_emit_edge(s->w, &s->e);
}

static rsh_status emit_copy(slice_pair *s, const rshi_piece *dst) {
    rshi_edge e = s->e;
    rshi_piece src;
    serving_piece(s, s->first, &src);
    e.stage = 1, e.from_dst = true;
    e.src_layout = e.dst_layout, e.src_dtype = e.dst_dtype;
    e.wire_size = (int64_t)rsh_dtype_size(e.dst_dtype);
    e.dst = dst, e.nsrc = 1, e.src = &src, e.op = RSH_OP_NONE, e.divisor = 1;
    return rshi_emit_edge(s->w, &e);
}

/* Emits the edge into a piece of contribution `partial` that served the slice. */
static rsh_status emit_served(slice_pair *s, const rshi_piece *dst, int64_t partial) {
    return partial == s->first ? emit_sum(s, dst) : emit_copy(s, dst);
}

/* ---- slices ---- */

typedef rsh_status (*slice_fn)(slice_pair *s, const rshi_piece *own);

static rsh_status each_leg(slice_pair *s, int64_t holder, slice_fn fn, const rshi_piece *own) {
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
    slice_pair s = {.w = w, .pair = pair};
    const rshi_holder_list *list;
    const rshi_source_nodes *beside;
    rsh_status st = RSH_OK;
    rshi_region_init(w->p, tensor, a, b, &s.region);
    if (s.region.lo >= s.region.hi) return RSH_OK;
    rshi_transposed_edge(pair, tensor, a, b, &s.e);
    RSH_TRY(rshi_holder_list_find(w, tensor, b, &list));
    RSH_TRY(rshi_source_nodes_find(w, &s.region, list, &beside));
    rshi_all_cut cut = rshi_all_cut_of(&s.region, list, beside);
    int64_t last = rshi_all_slice_at(&cut, s.region.hi - 1);
    for (int64_t i = rshi_all_slice_at(&cut, s.region.lo); i <= last && !st; i++) {
        s.first = i % pair->contributions;
        st = each_leg(&s, rshi_all_owner(&cut, i), fn, own);
    }
    rshi_free(s.legs.leg);
    return st;
}

/* ---- into a rank ---- */

static rsh_status receive_slice(slice_pair *s, const rshi_piece *own) {
    int64_t partial = rshi_piece_partial(s->pair->from, own);
    rshi_piece served;
    serving_piece(s, partial, &served);
    return served.rank == own->rank ? emit_served(s, own, partial) : emit_zero(s, own);
}

rsh_status rshi_receive_transposed_slices(rshi_walk *w, int64_t tensor, const rshi_piece *a, const rshi_piece *own,
                                          const rshi_piece *b) {
    return each_slice(w, tensor, a, b, receive_slice, own);
}

/* ---- out of a rank ---- */

/* Emits the term of each sum that comes from the rank's destination piece. */
static rsh_status send_term(slice_pair *s, const rshi_piece *own) {
    rshi_piece dst;
    (void)own;
    serving_piece(s, s->first, &dst);
    return emit_sum(s, &dst);
}

rsh_status rshi_send_transposed_terms(rshi_walk *w, int64_t tensor, const rshi_piece *a, const rshi_piece *b) {
    return each_slice(w, tensor, a, b, send_term, NULL);
}

/* Emits the sums that the rank's source piece computed. */
static rsh_status send_sum(slice_pair *s, const rshi_piece *own) {
    rshi_piece dst;
    if (rshi_piece_partial(s->pair->from, own) != s->first) return RSH_OK;
    serving_piece(s, s->first, &dst);
    if (dst.rank != own->rank) return RSH_OK;
    for (int64_t p = 0; p < s->pair->contributions; p++) {
        if (p == s->first) continue;
        serving_piece(s, p, &dst);
        RSH_TRY(emit_copy(s, &dst));
    }
    return RSH_OK;
}

rsh_status rshi_send_transposed_sums(rshi_walk *w, int64_t tensor, const rshi_piece *a, const rshi_piece *own,
                                     const rshi_piece *b) {
    return each_slice(w, tensor, a, b, send_sum, own);
}
