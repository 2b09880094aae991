/* Lower bound: the least that any plan must move, computed from what ranks hold and need, never from edges.
 *
 * Without reductions a rank must receive what it needs and does not hold.  With reductions an element with
 * contributors C and destinations D needs at least |C| + |D| - 1 transfers, one less if a contributor is also a
 * destination. */
#include "plan/boxes.h"
#include "plan/impl.h"

#include <stdlib.h>

#define FEW_PAIRS 4096 /* most pairs of pieces that are compared one by one; with more, boxes are searched */

/* A piece that a rank needs, while the boxes are searched that the rank may hold. */
typedef struct lookup {
    const rsh_layout *from;
    const rshi_piece *b;
    int64_t rank, held;
} lookup;

static rsh_status add_held(void *ctx, const rshi_piece *a) {
    lookup *h = ctx;
    if (rshi_piece_holder_index(h->from, a, h->rank) >= 0) h->held += rshi_pieces_common(h->from, a, h->b);
    return RSH_OK;
}

static rsh_status look_up_held(const rshi_pair *pair, int64_t rank, const rshi_piece *b, int64_t n, int64_t *need,
                               int64_t *held) {
    for (int64_t j = 0; j < n; j++) {
        lookup h = {pair->from, &b[j], rank, 0};
        if (pair->fill_others && rshi_piece_partial(pair->to, &b[j])) continue;
        RSH_TRY(rshi_layout_search(pair->from, b[j].set, add_held, &h));
        *need += rshi_piece_count(pair->to, &b[j]);
        *held += h.held;
    }
    return RSH_OK;
}

/* Counts the elements that a rank needs, and those of them that it holds. */
static rsh_status held_by(const rshi_pair *pair, int64_t rank, int64_t *need, int64_t *held) {
    rshi_piece *a = NULL, *b = NULL;
    int64_t na = 0, nb = 0;
    rsh_status st;
    *need = *held = 0;
    RSH_GOTO(rshi_layout_pieces(pair->to, rank, &b, &nb));
    if (nb) RSH_GOTO(rshi_layout_pieces(pair->from, rank, &a, &na));
    if (rsh_layout_describe(pair->from)->is_boxes && na * nb > FEW_PAIRS) {
        st = look_up_held(pair, rank, b, nb, need, held);
        goto out;
    }
    for (int64_t j = 0; j < nb; j++) {
        if (pair->fill_others && rshi_piece_partial(pair->to, &b[j])) continue;
        *need += rshi_piece_count(pair->to, &b[j]);
        for (int64_t i = 0; i < na; i++)
            if (!pair->keep || rshi_piece_partial(pair->from, &a[i]) == rshi_piece_partial(pair->to, &b[j]))
                *held += rshi_pieces_common(pair->to, &a[i], &b[j]);
    }
out:
    rshi_free(a);
    rshi_free(b);
    return st;
}

/* The smallest size of an element that is copied: a sender could convert it, after dividing it. */
static int64_t least_size(const rshi_pair *pair) {
    return rshi_min((int64_t)rsh_dtype_size(rsh_layout_dtype(pair->from)),
                    (int64_t)rsh_dtype_size(rsh_layout_dtype(pair->to)));
}

static rsh_status copy_bound(const rshi_pair *pair, rshi_progress *w, int64_t *bytes) {
    for (int64_t i = 0; i < rsh_layout_nranks(pair->to); i++) {
        int64_t need, held;
        RSH_TRY(rshi_progress_at(w, i, rsh_layout_nranks(pair->to)));
        RSH_TRY(held_by(pair, rsh_layout_rank(pair->to, i), &need, &held));
        *bytes += (need - held) * least_size(pair);
    }
    return RSH_OK;
}

/* ---- reductions ---- */

typedef struct reducing {
    const rshi_pair *pair;
    int64_t wire_size; /* bytes of a contribution that is sent */
    const rshi_piece *b;
    rshi_progress *w;
    int64_t bytes, ranks; /* ranks: progress */
    struct seen {
        int64_t position, number, n; /* a source piece at its first holder, for any contribution; its elements in b */
    } * seen;                        /* owned */
    int64_t nseen, room;
    rshi_boxes rest; /* of b, if pieces of the source overlap */
} reducing;

/* The number of a piece in its part, the same on all holders. */
static int64_t piece_number(const rsh_layout *l, const rshi_piece *a, int64_t i) {
    int64_t n = 0;
    if (a->flat) return i;
    for (int d = 0; d < rsh_layout_ndim(l); d++) n = n * rshi_layout_segments(l, d) + a->seg[d];
    return n;
}

/* Lists the contributions to b that a rank holds. */
static rsh_status see_contributions(reducing *r, int64_t rank) {
    const rsh_layout *from = r->pair->from;
    rshi_piece *list = NULL;
    int64_t n = 0;
    rsh_status st = rshi_layout_pieces(from, rank, &list, &n);
    for (int64_t i = 0; i < n && !st; i++) {
        rshi_piece a;
        int64_t both = rshi_pieces_common(from, &list[i], r->b);
        if (!both) continue;
        rshi_piece_at_partial(from, &list[i], 0, &a);
        rshi_piece_at_holder(from, &a, 0, &a);
        st = RSHI_GROW(r->seen, r->nseen + 1, &r->room);
        if (!st) r->seen[r->nseen++] = (struct seen){a.position, piece_number(from, &a, i), both};
    }
    rshi_free(list);
    return st;
}

static int by_piece(const void *a, const void *b) {
    const struct seen *x = a, *y = b;
    if (x->position != y->position) return x->position < y->position ? -1 : 1;
    return (x->number > y->number) - (x->number < y->number);
}

/* Calls fn for each rank that needs b. */
typedef rsh_status (*rank_fn)(reducing *r, int64_t rank);
static rsh_status each_holder(reducing *r, rank_fn fn) {
    const rsh_layout *to = r->pair->to;
    int64_t holders = rshi_piece_holders(to, r->b), partials = r->pair->fill_others ? 1 : rshi_layout_partials(to);
    for (int64_t i = 0; i < partials; i++) {
        rshi_piece b;
        rshi_piece_at_partial(to, r->b, i, &b);
        for (int64_t j = 0; j < holders; j++) RSH_TRY(fn(r, rshi_piece_holder(to, &b, j)));
    }
    r->ranks = rshi_min(r->ranks + partials * holders, rsh_layout_nranks(to));
    return rshi_progress_at(r->w, r->ranks, rsh_layout_nranks(to));
}

/* Removes the pieces of a rank from the rest of b. */
static rsh_status take_out(reducing *r, int64_t rank) {
    rshi_piece *list = NULL;
    int64_t n = 0;
    rsh_status st = rshi_layout_pieces(r->pair->from, rank, &list, &n);
    for (int64_t i = 0; i < n && !st; i++) st = rshi_boxes_remove(rsh_layout_ndim(r->pair->to), &r->rest, &list[i]);
    rshi_free(list);
    return st;
}

static rsh_status count_contributed_overlapping(reducing *r, int64_t *count) {
    int ndim = rsh_layout_ndim(r->pair->to);
    rsh_status st = rshi_boxes_add(ndim, &r->rest, r->b);
    if (!st) st = each_holder(r, take_out);
    *count = rshi_piece_count(r->pair->to, r->b) - rshi_boxes_count(ndim, &r->rest);
    rshi_boxes_free(&r->rest);
    return st;
}

/* Counts the elements of b to which a rank that needs b holds a contribution. */
static rsh_status count_contributed(reducing *r, int64_t *count) {
    r->nseen = *count = 0;
    RSH_TRY(each_holder(r, see_contributions));
    if (r->nseen) qsort(r->seen, (size_t)r->nseen, sizeof *r->seen, by_piece);
    for (int64_t i = 0; i < r->nseen; i++)
        if (!i || by_piece(&r->seen[i - 1], &r->seen[i])) *count += r->seen[i].n;
    return RSH_OK;
}

/* The bytes to collect the contributions to n elements of b and to distribute the results. */
static int64_t reduce_bytes(const reducing *r, const rshi_piece *b, int64_t n, int64_t contributed) {
    const rshi_pair *pair = r->pair;
    int64_t copies = rshi_piece_holders(pair->to, b) * (pair->fill_others ? 1 : rshi_layout_partials(pair->to));
    int64_t size = rshi_min(pair->wire_size, (int64_t)rsh_dtype_size(rsh_layout_dtype(pair->to)));
    return (n * pair->contributions - contributed) * r->wire_size + n * (copies - 1) * size;
}

static rsh_status each_target(void *ctx, const rshi_piece *b) {
    reducing *r = ctx;
    int64_t contributed;
    if (r->pair->to_overlaps && !rshi_piece_first_copy(r->pair->to, b)) return RSH_OK;
    r->b = b;
    RSH_TRY((r->pair->from_overlaps ? count_contributed_overlapping : count_contributed)(r, &contributed));
    r->bytes += reduce_bytes(r, b, rshi_piece_count(r->pair->to, b), contributed);
    return RSH_OK;
}

/* A transposed map distributes what is collected here, in elements of `to`. */
static rsh_status reduce_bound(const rshi_pair *pair, rshi_progress *w, int64_t *bytes) {
    int64_t to_size = (int64_t)rsh_dtype_size(rsh_layout_dtype(pair->to));
    reducing r = {.pair = pair, .w = w};
    r.wire_size = pair->transposed ? rshi_min(pair->wire_size, to_size) : pair->wire_size;
    rshi_stripe all[RSH_MAX_NDIM];
    for (int d = 0; d < rsh_layout_ndim(pair->to); d++) all[d] = rshi_stripe_range(0, rsh_layout_shape(pair->to)[d]);
    rsh_status st = rshi_layout_search(pair->to, all, each_target, &r);
    rshi_free(r.seen);
    *bytes += r.bytes;
    return st;
}

rsh_status rshi_lower_bound(const rsh_plan *p, rshi_progress *w, int64_t *bytes) {
    *bytes = 0;
    for (int64_t t = 0; t < p->n; t++) {
        rshi_progress_pass(w, RSHI_PASS_BOUND);
        if (p->pair[t].reduce)
            RSH_TRY(reduce_bound(&p->pair[t], w, bytes));
        else
            RSH_TRY(copy_bound(&p->pair[t], w, bytes));
    }
    return RSH_OK;
}

/* ---- between nodes ---- */

typedef struct piece_list {
    rshi_piece *piece;
    int64_t n, room;
} piece_list;

/* Ranks hold the same piece if it is equal at its first holder. */
static rshi_piece first_holder(const rsh_layout *l, const rshi_piece *p) {
    rshi_piece f;
    rshi_piece_at_holder(l, p, 0, &f);
    return f;
}

static int by_place(const void *a, const void *b, void *ctx) {
    const rshi_piece *x = a, *y = b;
    if (x->position != y->position) return x->position < y->position ? -1 : 1;
    for (int d = 0; d < rsh_layout_ndim(ctx); d++)
        if (x->set[d].lo != y->set[d].lo) return x->set[d].lo < y->set[d].lo ? -1 : 1;
    return 0;
}

/* any_partial: pieces are the same at every partial position. */
static rsh_status add_pieces(const rsh_layout *l, int64_t rank, bool any_partial, piece_list *out) {
    rshi_piece *list = NULL;
    int64_t n = 0;
    rsh_status st = rshi_layout_pieces(l, rank, &list, &n);
    if (!st) st = RSHI_GROW(out->piece, out->n + n, &out->room);
    for (int64_t i = 0; i < n && !st; i++) {
        if (any_partial) rshi_piece_at_partial(l, &list[i], 0, &list[i]);
        out->piece[out->n++] = first_holder(l, &list[i]);
    }
    rshi_free(list);
    return st;
}

/* Lists the pieces that ranks of a node hold, each once. */
static rsh_status list_pieces(const rsh_plan *p, const rsh_layout *l, const rshi_node_ranks *ranks, bool any_partial,
                              piece_list *out) {
    int64_t kept = 0;
    for (int64_t i = 0; i < ranks->n; i++)
        RSH_TRY(add_pieces(l, p->rank[rshi_node_ranks_ordinal(ranks, i)], any_partial, out));
    if (out->n) qsort_r(out->piece, (size_t)out->n, sizeof *out->piece, by_place, (void *)l);
    for (int64_t i = 0; i < out->n; i++)
        if (!i || by_place(&out->piece[kept - 1], &out->piece[i], (void *)l)) out->piece[kept++] = out->piece[i];
    out->n = kept;
    return RSH_OK;
}

/* A piece that a node needs, while the boxes are searched that its ranks may hold. */
typedef struct lacking {
    const rshi_pair *pair;
    const rshi_piece *b;
    const piece_list *a; /* what they hold, by box number */
    int64_t n;
} lacking;

static rsh_status take_off_box(void *ctx, int64_t box) {
    lacking *m = ctx;
    int64_t lo = 0, hi = m->a->n;
    while (lo < hi) {
        int64_t mid = lo + (hi - lo) / 2;
        if (m->a->piece[mid].position < box)
            lo = mid + 1;
        else
            hi = mid;
    }
    const rshi_piece *a = lo < m->a->n && m->a->piece[lo].position == box ? &m->a->piece[lo] : NULL;
    if (a) m->n -= rshi_pieces_common(m->pair->to, a, m->b);
    return RSH_OK;
}

/* Counts the elements of b that are in no piece of the list. */
static rsh_status count_missing(const rshi_pair *pair, const piece_list *a, const rshi_piece *b, int64_t *n) {
    lacking m = {pair, b, a, rshi_piece_count(pair->to, b)};
    bool look = rsh_layout_describe(pair->from)->is_boxes && a->n > FEW_PAIRS / 16;
    if (look) RSH_TRY(rshi_boxes_meeting(pair->from, b->set, take_off_box, &m));
    for (int64_t i = 0; i < a->n && !look; i++)
        if (!pair->keep || rshi_piece_partial(pair->from, &a->piece[i]) == rshi_piece_partial(pair->to, b))
            m.n -= rshi_pieces_common(pair->to, &a->piece[i], b);
    *n = rshi_max(m.n, 0);
    return RSH_OK;
}

/* Adds what a node must receive: what its ranks need together, less what they hold together. */
static rsh_status node_need(const rsh_plan *p, const rshi_pair *pair, const rshi_node_ranks *ranks, int64_t *bytes) {
    piece_list a = {0}, b = {0};
    rsh_status st = RSH_OK;
    int64_t need = 0;
    bool any_partial = !pair->keep && !pair->fill_others;
    st = list_pieces(p, pair->from, ranks, false, &a);
    if (!st) st = list_pieces(p, pair->to, ranks, any_partial, &b);
    for (int64_t j = 0; j < b.n && !st; j++) {
        if (pair->fill_others && rshi_piece_partial(pair->to, &b.piece[j])) continue;
        int64_t lacks = 0;
        st = count_missing(pair, &a, &b.piece[j], &lacks);
        need += lacks;
    }
    rshi_free(a.piece);
    rshi_free(b.piece);
    *bytes += need * least_size(pair);
    return st;
}

/* The same for pieces that overlap without being equal, as sets of boxes. */
static rsh_status node_need_overlapping(const rsh_plan *p, const rshi_pair *pair, const rshi_node_ranks *ranks,
                                        int64_t *bytes) {
    piece_list a = {0}, b = {0};
    int ndim = rsh_layout_ndim(pair->to);
    rsh_status st = RSH_OK;
    int64_t partials = pair->keep || !pair->fill_others ? rshi_layout_partials(pair->to) : 1, need = 0;
    bool any_partial = !pair->keep && !pair->fill_others;
    st = list_pieces(p, pair->from, ranks, false, &a);
    if (!st) st = list_pieces(p, pair->to, ranks, any_partial, &b);
    for (int64_t k = 0; k < partials && !st; k++) {
        rshi_boxes set = {0};
        for (int64_t i = 0; i < b.n && !st; i++)
            if (rshi_piece_partial(pair->to, &b.piece[i]) == k) st = rshi_boxes_add(ndim, &set, &b.piece[i]);
        for (int64_t i = 0; i < a.n && !st; i++)
            if (!pair->keep || rshi_piece_partial(pair->from, &a.piece[i]) == k)
                st = rshi_boxes_remove(ndim, &set, &a.piece[i]);
        need += rshi_boxes_count(ndim, &set);
        rshi_boxes_free(&set);
    }
    rshi_free(a.piece);
    rshi_free(b.piece);
    *bytes += need * least_size(pair);
    return st;
}

static rsh_status copies_need(const rsh_plan *p, const rshi_pair *pair, const rshi_node_ranks *ranks, int64_t *bytes) {
    bool overlaps = pair->from_overlaps || pair->to_overlaps;
    return (overlaps ? node_need_overlapping : node_need)(p, pair, ranks, bytes);
}

/* Omits reductions: the bound stays valid, but it is not tight for them. */
rsh_status rshi_lower_bound_between_nodes(const rsh_plan *p, rshi_progress *w, int64_t *bytes) {
    *bytes = 0;
    if (!rshi_plan_has_nodes(p)) return RSH_OK;
    rshi_progress_pass(w, (uint64_t)p->n * RSHI_PASS_NODE_BOUND);
    for (int64_t i = 0, n; i < p->nranks; i += n) {
        rshi_node_ranks ranks =
            rshi_plan_node_ranks(p, rshi_plan_node(p, p->rank[p->node_order ? p->node_order[i] : i]));
        n = ranks.n;
        RSH_TRY(rshi_progress_at(w, i, p->nranks));
        for (int64_t t = 0; t < p->n; t++)
            if (!p->pair[t].reduce) RSH_TRY(copies_need(p, &p->pair[t], &ranks, bytes));
    }
    return RSH_OK;
}

/* ---- into one node ---- */

/* If a contribution lies on another node, either it or the result must enter this node. */
typedef struct missing {
    const rsh_plan *p;
    const rshi_pair *pair;
    const rshi_piece *b;
    int64_t node, elements;
} missing;

static rsh_status add_missing(void *ctx, const rshi_piece *a) {
    missing *m = ctx;
    const rshi_pair *pair = m->pair;
    if (pair->from_overlaps && !rshi_piece_first_copy(pair->from, a)) return RSH_OK;
    for (int64_t i = 0; i < pair->contributions; i++) {
        rshi_piece at;
        rshi_piece_at_partial(pair->from, a, i, &at);
        if (rshi_holders_on(m->p, pair->from, &at, m->node)) continue;
        m->elements += rshi_pieces_common(pair->to, a, m->b);
        return RSH_OK;
    }
    return RSH_OK;
}

static rsh_status reduction_need(const rsh_plan *p, const rshi_pair *pair, int64_t node, const rshi_node_ranks *ranks,
                                 int64_t *bytes) {
    piece_list b = {0};
    missing m = {.p = p, .pair = pair, .node = node};
    rsh_status st = list_pieces(p, pair->to, ranks, !pair->fill_others, &b);
    for (int64_t j = 0; j < b.n && !st; j++) {
        if (pair->fill_others && rshi_piece_partial(pair->to, &b.piece[j])) continue;
        m.b = &b.piece[j];
        st = rshi_layout_search(pair->from, m.b->set, add_missing, &m);
    }
    rshi_free(b.piece);
    *bytes += m.elements * rshi_min(pair->wire_size, (int64_t)rsh_dtype_size(rsh_layout_dtype(pair->to)));
    return st;
}

rsh_status rshi_lower_bound_into_node(const rsh_plan *p, int64_t node, int64_t *bytes) {
    rshi_node_ranks ranks = rshi_plan_node_ranks(p, node);
    *bytes = 0;
    for (int64_t t = 0; t < p->n; t++) {
        const rshi_pair *pair = &p->pair[t];
        if (pair->transposed) continue;
        if (!pair->reduce)
            RSH_TRY(copies_need(p, pair, &ranks, bytes));
        else if (!pair->to_overlaps)
            RSH_TRY(reduction_need(p, pair, node, &ranks, bytes));
    }
    return RSH_OK;
}
