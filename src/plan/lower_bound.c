/* Lower bound: the least that any plan must move, from what ranks hold and need, never from edges.
 *
 * Without reductions a rank must receive what it needs and does not hold.  With them, an element with contributors C
 * and destinations D needs at least |C| + |D| - 1 transfers, one less if a contributor is also a destination. */
#include "plan/boxes.h"
#include "plan/impl.h"

#include <stdlib.h>

/* Elements of the pair that a rank holds on both sides. */
static rsh_status held_by(const rshi_pair *pair, int64_t rank, int64_t *need, int64_t *held) {
    rshi_piece *a = NULL, *b = NULL;
    int64_t na = 0, nb = 0;
    rsh_status st;
    *need = *held = 0;
    RSH_GOTO(rshi_layout_pieces(pair->to, rank, &b, &nb));
    if (nb) RSH_GOTO(rshi_layout_pieces(pair->from, rank, &a, &na));
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

static rsh_status copy_bound(const rshi_pair *pair, int64_t *bytes) {
    for (int64_t i = 0; i < rsh_layout_nranks(pair->to); i++) {
        int64_t need, held;
        RSH_TRY(held_by(pair, rsh_layout_rank(pair->to, i), &need, &held));
        *bytes += (need - held) * pair->wire_size;
    }
    return RSH_OK;
}

/* ---- reductions ---- */

typedef struct reducing {
    const rshi_pair *pair;
    const rshi_piece *b;
    int64_t bytes;
} reducing;

/* Does any rank that needs b hold a contribution to a? */
static bool contributor_needs(const rshi_pair *pair, const rshi_piece *a, const rshi_piece *b) {
    int64_t holders = rshi_piece_holders(pair->to, b);
    for (int64_t j = 0; j < holders; j++)
        for (int64_t i = 0; i < pair->contributions; i++) {
            rshi_piece at;
            rshi_piece_at_partial(pair->from, a, i, &at);
            if (rshi_piece_holder_index(pair->from, &at, rshi_piece_holder(pair->to, b, j)) >= 0) return true;
        }
    return false;
}

static rsh_status add_reduction(void *ctx, const rshi_piece *a) {
    reducing *r = ctx;
    const rshi_pair *pair = r->pair;
    if (pair->irregular && !rshi_piece_first_copy(pair->from, a)) return RSH_OK;
    int64_t copies = rshi_piece_holders(pair->to, r->b) * (pair->fill_others ? 1 : rshi_layout_partials(pair->to));
    int64_t inwards = pair->contributions - (contributor_needs(pair, a, r->b) ? 1 : 0);
    int64_t size = rshi_min(pair->wire_size, (int64_t)rsh_dtype_size(rsh_layout_dtype(pair->to)));
    r->bytes += rshi_pieces_common(pair->to, a, r->b) * (inwards * pair->wire_size + (copies - 1) * size);
    return RSH_OK;
}

static rsh_status each_target(void *ctx, const rshi_piece *b) {
    reducing *r = ctx;
    if (rshi_layout_irregular(r->pair->to) && !rshi_piece_first_copy(r->pair->to, b)) return RSH_OK;
    r->b = b;
    return rshi_layout_search(r->pair->from, b->set, add_reduction, r);
}

static rsh_status reduce_bound(const rshi_pair *pair, int64_t *bytes) {
    reducing r = {.pair = pair};
    rshi_stripe all[RSH_MAX_NDIM];
    for (int d = 0; d < rsh_layout_ndim(pair->to); d++) all[d] = rshi_stripe_range(0, rsh_layout_shape(pair->to)[d]);
    RSH_TRY(rshi_layout_search(pair->to, all, each_target, &r));
    *bytes += r.bytes;
    return RSH_OK;
}

rsh_status rshi_lower_bound(const rsh_plan *p, int64_t *bytes) {
    *bytes = 0;
    for (int64_t t = 0; t < p->n; t++)
        RSH_TRY(p->pair[t].reduce ? reduce_bound(&p->pair[t], bytes) : copy_bound(&p->pair[t], bytes));
    return RSH_OK;
}

/* ---- between nodes ---- */

typedef struct ranked {
    int64_t node, rank;
} ranked;

static int by_node(const void *a, const void *b) {
    const ranked *x = a, *y = b;
    if (x->node != y->node) return x->node < y->node ? -1 : 1;
    return (x->rank > y->rank) - (x->rank < y->rank);
}

typedef struct piece_list {
    rshi_piece *piece;
    int64_t n, room;
} piece_list;

/* A piece at its first holder: two ranks hold the same piece if these are equal. */
static rshi_piece first_holder(const rsh_layout *l, const rshi_piece *p) {
    rshi_piece f;
    rshi_piece_at_holder(l, p, 0, &f);
    return f;
}

static bool same_piece(const rsh_layout *l, const rshi_piece *a, const rshi_piece *b) {
    if (a->position != b->position || a->rank != b->rank) return false;
    for (int d = 0; d < rsh_layout_ndim(l); d++)
        if (a->set[d].lo != b->set[d].lo) return false;
    return true;
}

/* Add the pieces of a rank that the list does not have yet. */
static rsh_status add_pieces(const rsh_layout *l, int64_t rank, piece_list *out) {
    rshi_piece *list = NULL;
    int64_t n = 0;
    rsh_status st = rshi_layout_pieces(l, rank, &list, &n);
    for (int64_t i = 0; i < n && !st; i++) {
        rshi_piece f = first_holder(l, &list[i]);
        bool known = false;
        for (int64_t j = 0; j < out->n && !known; j++) known = same_piece(l, &out->piece[j], &f);
        if (known) continue;
        st = RSHI_GROW(out->piece, out->n + 1, &out->room);
        if (!st) out->piece[out->n++] = f;
    }
    rshi_free(list);
    return st;
}

/* What one node must take in: what its ranks need together less what they hold together. */
static rsh_status node_need(const rshi_pair *pair, const ranked *ranks, int64_t n, int64_t *bytes) {
    piece_list a = {0}, b = {0};
    rsh_status st = RSH_OK;
    int64_t need = 0;
    for (int64_t i = 0; i < n && !st; i++) st = add_pieces(pair->from, ranks[i].rank, &a);
    for (int64_t i = 0; i < n && !st; i++) st = add_pieces(pair->to, ranks[i].rank, &b);
    for (int64_t j = 0; j < b.n && !st; j++) {
        if (pair->fill_others && rshi_piece_partial(pair->to, &b.piece[j])) continue;
        int64_t missing = rshi_piece_count(pair->to, &b.piece[j]);
        for (int64_t i = 0; i < a.n; i++)
            if (!pair->keep || rshi_piece_partial(pair->from, &a.piece[i]) == rshi_piece_partial(pair->to, &b.piece[j]))
                missing -= rshi_pieces_common(pair->to, &a.piece[i], &b.piece[j]);
        need += rshi_max(missing, 0);
    }
    rshi_free(a.piece);
    rshi_free(b.piece);
    *bytes += need * pair->wire_size;
    return st;
}

/* The same where pieces overlap one another without being equal: as sets of boxes. */
static rsh_status node_need_irregular(const rshi_pair *pair, const ranked *ranks, int64_t n, int64_t *bytes) {
    piece_list a = {0}, b = {0};
    int ndim = rsh_layout_ndim(pair->to);
    rsh_status st = RSH_OK;
    int64_t partials = pair->keep || !pair->fill_others ? rshi_layout_partials(pair->to) : 1, need = 0;
    for (int64_t i = 0; i < n && !st; i++) st = add_pieces(pair->from, ranks[i].rank, &a);
    for (int64_t i = 0; i < n && !st; i++) st = add_pieces(pair->to, ranks[i].rank, &b);
    for (int64_t p = 0; p < partials && !st; p++) {
        rshi_boxes set = {0};
        for (int64_t i = 0; i < b.n && !st; i++)
            if (rshi_piece_partial(pair->to, &b.piece[i]) == p) st = rshi_boxes_add(ndim, &set, &b.piece[i]);
        for (int64_t i = 0; i < a.n && !st; i++)
            if (!pair->keep || rshi_piece_partial(pair->from, &a.piece[i]) == p)
                st = rshi_boxes_remove(ndim, &set, &a.piece[i]);
        need += rshi_boxes_count(ndim, &set);
        rshi_boxes_free(&set);
    }
    rshi_free(a.piece);
    rshi_free(b.piece);
    *bytes += need * pair->wire_size;
    return st;
}

/* Reductions are left out: the bound stays true but is not tight for them. */
static rsh_status node_bound(const rsh_plan *p, const ranked *list, int64_t *bytes) {
    for (int64_t i = 0, n; i < p->nranks; i += n) {
        for (n = 1; i + n < p->nranks && list[i + n].node == list[i].node;) n++;
        for (int64_t t = 0; t < p->n; t++)
            if (!p->pair[t].reduce) {
                bool odd = p->pair[t].irregular || rshi_layout_irregular(p->pair[t].to);
                RSH_TRY((odd ? node_need_irregular : node_need)(&p->pair[t], list + i, n, bytes));
            }
    }
    return RSH_OK;
}

rsh_status rshi_lower_bound_between_nodes(const rsh_plan *p, int64_t *bytes) {
    *bytes = 0;
    if (!rshi_plan_has_nodes(p)) return RSH_OK;
    ranked *list = rshi_alloc((size_t)p->nranks, sizeof *list);
    if (!list) return rshi_nomem();
    for (int64_t i = 0; i < p->nranks; i++) list[i] = (ranked){rshi_plan_node(p, p->rank[i]), p->rank[i]};
    qsort(list, (size_t)p->nranks, sizeof *list, by_node);
    rsh_status st = node_bound(p, list, bytes);
    rshi_free(list);
    return st;
}

/* ---- into one node ---- */

/* A result to which some contribution lies elsewhere has to come in, or to be finished here with what does. */
typedef struct missing {
    const rsh_plan *p;
    const rshi_pair *pair;
    const rshi_piece *b;
    int64_t node, elements;
} missing;

static rsh_status add_missing(void *ctx, const rshi_piece *a) {
    missing *m = ctx;
    const rshi_pair *pair = m->pair;
    if (pair->irregular && !rshi_piece_first_copy(pair->from, a)) return RSH_OK;
    for (int64_t i = 0; i < pair->contributions; i++) {
        rshi_piece at;
        rshi_piece_at_partial(pair->from, a, i, &at);
        if (rshi_holders_on(m->p, pair->from, &at, m->node)) continue;
        m->elements += rshi_pieces_common(pair->to, a, m->b);
        return RSH_OK;
    }
    return RSH_OK;
}

static rsh_status reduction_need(const rsh_plan *p, const rshi_pair *pair, const ranked *ranks, int64_t n,
                                 int64_t *bytes) {
    piece_list b = {0};
    missing m = {.p = p, .pair = pair, .node = ranks->node};
    rsh_status st = RSH_OK;
    for (int64_t i = 0; i < n && !st; i++) st = add_pieces(pair->to, ranks[i].rank, &b);
    for (int64_t j = 0; j < b.n && !st; j++) {
        if (rshi_piece_partial(pair->to, &b.piece[j])) continue;
        m.b = &b.piece[j];
        st = rshi_layout_search(pair->from, m.b->set, add_missing, &m);
    }
    rshi_free(b.piece);
    *bytes += m.elements * rshi_min(pair->wire_size, (int64_t)rsh_dtype_size(rsh_layout_dtype(pair->to)));
    return st;
}

static rsh_status pair_need(const rsh_plan *p, const rshi_pair *pair, const ranked *list, int64_t n, int64_t *bytes) {
    bool odd = pair->irregular || rshi_layout_irregular(pair->to);
    if (pair->reduce) return rshi_layout_irregular(pair->to) ? RSH_OK : reduction_need(p, pair, list, n, bytes);
    return odd ? node_need_irregular(pair, list, n, bytes) : node_need(pair, list, n, bytes);
}

rsh_status rshi_lower_bound_into_node(const rsh_plan *p, int64_t node, int64_t *bytes) {
    ranked *list = rshi_alloc((size_t)p->nranks, sizeof *list);
    int64_t n = 0;
    rsh_status st = list ? RSH_OK : rshi_nomem();
    *bytes = 0;
    for (int64_t i = 0; i < p->nranks && !st; i++)
        if (rshi_plan_node(p, p->rank[i]) == node) list[n++] = (ranked){node, p->rank[i]};
    for (int64_t t = 0; t < p->n && n && !p->adjoint && !st; t++) st = pair_need(p, &p->pair[t], list, n, bytes);
    rshi_free(list);
    return st;
}
