/* Relay: how the ranks of a node that hold a destination piece divide among them what they must fetch.
 *
 * The piece is cut along its longest dim into one range for each of them, so that each fetches equally much of what no
 * rank of the node holds (far_cuts.c).  What is near follows from the source pieces of the node's ranks.  Where these
 * cannot hold much of the piece, it is cut evenly: then a source knows who fetches from it without looking at what
 * every node holds. */
#include "plan/relay.h"

#include <stdlib.h>

int rshi_piece_longest_dim(const rsh_layout *l, const rshi_piece *b) {
    int dim = 0;
    for (int d = 1; d < rsh_layout_ndim(l); d++)
        if (rshi_stripe_size(&b->set[d]) > rshi_stripe_size(&b->set[dim])) dim = d;
    return dim;
}

int64_t rshi_stripe_slice(const rshi_stripe *b, int64_t n, int64_t i) {
    int64_t size = rshi_stripe_size(b), start = rshi_slice_start(size, n, i);
    return start < size ? rshi_stripe_at(b, start) : rshi_stripe_end(b);
}

/* ---- what the node holds ---- */

typedef struct nearby {
    const rsh_layout *from;
    const rshi_piece *b;
    int dim;
    bool groups;      /* ranks hold the same part or nothing in common: parts are told apart by their numbers */
    rshi_relay *relay; /* gets what is near */
    rshi_piece *seen; /* owned: without groups, the pieces that were looked at, at their first holders */
    int64_t nseen, seen_room;
    int64_t *group; /* owned: parts, with their partial positions, that were looked at */
    int64_t ngroups, groups_room;
} nearby;

static bool is_seen(const nearby *w, const rshi_piece *a) {
    for (int64_t i = 0; i < w->nseen; i++)
        if (w->seen[i].position == a->position && rshi_same_start(w->from, &w->seen[i], a)) return true;
    return false;
}

#define FEW_BLOCKS 16 /* a stripe of so many is near block by block */

static rsh_status add_near(rshi_relay *r, const rshi_stripe *along, int64_t across) {
    bool few = along->count <= FEW_BLOCKS;
    RSH_TRY(RSHI_GROW(r->near, r->nnear + (few ? along->count : 1), &r->near_room));
    if (!few) r->near[r->nnear++] = (rshi_near){*along, across};
    for (int64_t j = 0; j < along->count && few; j++) {
        int64_t lo = along->lo + j * along->stride, len = j == along->count - 1 ? along->last : along->len;
        r->near[r->nnear++] = (rshi_near){rshi_stripe_range(lo, lo + len), across};
    }
    return RSH_OK;
}

static rsh_status add_piece(nearby *w, const rshi_piece *piece) {
    rshi_piece a;
    int64_t across = 1;
    for (int d = 0; d < rsh_layout_ndim(w->from); d++) {
        const rshi_stripe *s = &piece->set[d];
        int64_t n = rshi_stripe_common(s, &w->b->set[d], s->lo, rshi_stripe_end(s));
        if (!n) return RSH_OK;
        if (d != w->dim) across *= n;
    }
    if (!w->groups) {
        rshi_piece_at_holder(w->from, piece, 0, &a);
        if (is_seen(w, &a)) return RSH_OK;
        RSH_TRY(RSHI_GROW(w->seen, w->nseen + 1, &w->seen_room));
        w->seen[w->nseen++] = a;
    }
    return add_near(w->relay, &piece->set[w->dim], across);
}

/* Was another holder of the same part looked at? */
static rsh_status is_known(nearby *w, int64_t rank, bool *known) {
    int64_t position = rshi_layout_position(w->from, rank);
    *known = false;
    if (position < 0) return RSH_OK;
    rshi_holding h = rshi_layout_holding(w->from, position);
    int64_t group = h.part * rshi_layout_partials(w->from) + h.partial;
    for (int64_t i = 0; i < w->ngroups && !*known; i++) *known = w->group[i] == group;
    if (*known) return RSH_OK;
    RSH_TRY(RSHI_GROW(w->group, w->ngroups + 1, &w->groups_room));
    w->group[w->ngroups++] = group;
    return RSH_OK;
}

static rsh_status add_rank(nearby *w, int64_t rank) {
    rshi_piece *list = NULL;
    int64_t n = 0;
    bool known = false;
    if (w->groups) RSH_TRY(is_known(w, rank, &known));
    if (known) return RSH_OK;
    rsh_status st = rshi_layout_pieces(w->from, rank, &list, &n);
    for (int64_t i = 0; i < n && !st; i++) st = add_piece(w, &list[i]);
    rshi_free(list);
    return st;
}

/* ---- */

void rshi_relay_free(rshi_relay *r) {
    if (!r) return;
    rshi_free(r->nodes);
    rshi_free(r->holder);
    rshi_free(r->at);
    rshi_free(r->near);
    rshi_free(r);
}

#define FEW 64 /* holders whose nodes are noted once for all nodes */

static rsh_status note_nodes(const rsh_plan *p, int64_t k, rshi_relay *r) {
    if (k > FEW) return RSH_OK;
    RSH_TRY(RSHI_GROW(r->nodes, k, &r->nodes_room));
    for (int64_t j = 0; j < k; j++)
        r->nodes[j] = rshi_plan_node(p, rshi_piece_holder(p->pair[r->tensor].to, &r->b, j));
    return RSH_OK;
}

/* Those of `node`: where many hold the piece, by looking at the ranks of the node. */
static rsh_status list_holders(const rsh_plan *p, int64_t k, int64_t node, rshi_relay *r) {
    const rsh_layout *to = p->pair[r->tensor].to;
    r->n = 0;
    rshi_crew c = k > FEW ? rshi_plan_crew(p, node) : (rshi_crew){0};
    RSH_TRY(RSHI_GROW(r->holder, k > FEW ? rshi_max(1, rshi_min(k, c.n)) : k, &r->holder_room));
    for (int64_t j = 0; j < k && k <= FEW; j++)
        if (r->nodes[j] == node) r->holder[r->n++] = j;
    for (int64_t i = 0; i < c.n; i++) {
        int64_t at = rshi_piece_holder_index(to, &r->b, p->rank[rshi_crew_ordinal(&c, i)]);
        if (at >= 0) r->holder[r->n++] = at;
    }
    if (k > FEW) qsort(r->holder, (size_t)r->n, sizeof *r->holder, rshi_compare_int64);
    return RSH_OK;
}

static int by_start(const void *a, const void *b) {
    const rshi_near *x = a, *y = b;
    return (x->along.lo > y->along.lo) - (x->along.lo < y->along.lo);
}

/* Sorts what is near. */
static bool is_banded(rshi_relay *r, int64_t across) {
    if (r->b.set[r->dim].count != 1) return false;
    for (int64_t i = 0; i < r->nnear; i++)
        if (r->near[i].along.count != 1 || r->near[i].across != across) return false;
    if (r->nnear) qsort(r->near, (size_t)r->nnear, sizeof *r->near, by_start);
    return true;
}

static rsh_status cut(const rsh_plan *p, int64_t node, rshi_relay *r) {
    rshi_crew c = rshi_plan_crew(p, node);
    nearby w = {.from = p->pair[r->tensor].from, .b = &r->b, .relay = r};
    const rsh_layout *to = p->pair[r->tensor].to;
    int64_t across = 1;
    w.groups = rshi_layout_has_groups(w.from);
    w.dim = r->dim = rshi_piece_longest_dim(to, &r->b);
    for (int d = 0; d < rsh_layout_ndim(to); d++)
        if (d != r->dim) across *= rshi_stripe_size(&r->b.set[d]);
    r->nnear = 0;
    rsh_status st = RSHI_GROW(r->at, r->n + 1, &r->at_room);
    for (int64_t i = 0; i < c.n && !st; i++) st = add_rank(&w, p->rank[rshi_crew_ordinal(&c, i)]);
    if (!st) r->banded = is_banded(r, across);
    bool even = rshi_relay_is_even(&p->pair[r->tensor], r->b.set, c.n);
    if (!st) st = rshi_far_cuts(&r->b.set[r->dim], across, r->near, even ? 0 : r->nnear, r->n, r->at);
    rshi_free(w.seen);
    rshi_free(w.group);
    return st;
}

bool rshi_relay_next_far(const rshi_relay *r, int64_t end, int64_t *lo, int64_t *hi) {
    int64_t first = 0, last = r->nnear; /* the first that ends behind *lo */
    while (first < last) {
        int64_t mid = first + (last - first) / 2;
        if (rshi_stripe_end(&r->near[mid].along) <= *lo)
            first = mid + 1;
        else
            last = mid;
    }
    for (; first < r->nnear && r->near[first].along.lo <= *lo; first++) *lo = rshi_stripe_end(&r->near[first].along);
    *hi = first < r->nnear ? rshi_min(end, r->near[first].along.lo) : end;
    return *lo < end;
}

/* ---- even cuts ---- */

/* Of so many elements one: then a rank fetches at most 1/31 more than it would by cuts of what is far. */
#define LITTLE 32

bool rshi_relay_is_even(const rshi_pair *pair, const rshi_stripe *b, int64_t ranks) {
    int64_t total = 1, near = ranks;
    for (int d = 0; d < rsh_layout_ndim(pair->to); d++) {
        int64_t size = rshi_stripe_size(&b[d]);
        total *= size;
        near = rshi_mul_most(near, rshi_min(size, pair->most[d]));
    }
    return near <= total / LITTLE;
}

/* A piece as elements along its longest dim. */
typedef struct sliced {
    int dim;
    int64_t across, total;
} sliced;

static sliced slices_of(const rsh_layout *to, const rshi_piece *b) {
    sliced s = {rshi_piece_longest_dim(to, b), 1, 1};
    for (int d = 0; d < rsh_layout_ndim(to); d++) s.total *= rshi_stripe_size(&b->set[d]);
    s.across = s.total / rshi_max(1, rshi_stripe_size(&b->set[s.dim]));
    return s;
}

rshi_owners rshi_relay_even_owners(const rsh_layout *to, const rshi_piece *a, const rshi_piece *b, int64_t n) {
    sliced s = slices_of(to, b);
    const rshi_stripe *x = &a->set[s.dim], *y = &b->set[s.dim];
    int64_t lo = rshi_max(x->lo, y->lo), last = rshi_min(rshi_stripe_end(x), rshi_stripe_end(y)) - 1;
    return (rshi_owners){s.dim, rshi_slice_at(s.total, n, s.across * rshi_stripe_before(y, lo)),
                         rshi_slice_at(s.total, n, s.across * rshi_stripe_before(y, last))};
}

int64_t rshi_relay_next_owner(const rsh_layout *to, const rshi_piece *a, const rshi_piece *b, int64_t n,
                              int64_t owner) {
    sliced s = slices_of(to, b);
    const rshi_stripe *x = &a->set[s.dim], *y = &b->set[s.dim];
    int64_t i = rshi_stripe_before(x, rshi_relay_even_cut(to, b, n, owner + 1));
    if (i >= rshi_stripe_size(x)) return n;
    int64_t next = rshi_slice_at(s.total, n, s.across * rshi_stripe_before(y, rshi_stripe_at(x, i)));
    return rshi_max(owner + 1, next);
}

/* As rshi_far_cuts has it where nothing is near: the first index before which there are as many elements. */
int64_t rshi_relay_even_cut(const rsh_layout *to, const rshi_piece *b, int64_t n, int64_t i) {
    sliced s = slices_of(to, b);
    int64_t before = rshi_ceil_div(rshi_slice_start(s.total, n, i), s.across);
    if (i == n) return rshi_stripe_end(&b->set[s.dim]);
    return before ? rshi_stripe_at(&b->set[s.dim], before - 1) + 1 : b->set[s.dim].lo;
}

/* ---- */

static bool is_for(const rshi_relay *r, int64_t tensor, const rsh_layout *to, const rshi_piece *first) {
    return r->tensor == tensor && r->b.position == first->position && rshi_same_start(to, &r->b, first);
}

static rsh_status find(const rsh_plan *p, int64_t tensor, int64_t node, const rshi_piece *first, rshi_relay *r) {
    int64_t k = rshi_piece_holders(p->pair[tensor].to, first);
    if (!is_for(r, tensor, p->pair[tensor].to, first)) {
        r->tensor = tensor, r->b = *first;
        RSH_TRY(note_nodes(p, k, r));
    }
    RSH_TRY(list_holders(p, k, node, r));
    if (r->n > 1) RSH_TRY(cut(p, node, r));
    r->node = node;
    return RSH_OK;
}

rsh_status rshi_relay_find(const rsh_plan *p, int64_t tensor, const rshi_piece *b, rshi_rank_edges *edges,
                           const rshi_relay **out) {
    const rsh_layout *to = p->pair[tensor].to;
    int64_t node = rshi_plan_node(p, b->rank);
    rshi_piece first;
    if (!edges->relay) {
        if (!(edges->relay = RSHI_NEW(rshi_relay))) return rshi_nomem();
        edges->relay->tensor = edges->relay->node = -1;
    }
    rshi_piece_at_holder(to, b, 0, &first);
    if (edges->relay->node != node || !is_for(edges->relay, tensor, to, &first)) {
        edges->relay->node = -1; /* not complete */
        RSH_TRY(find(p, tensor, node, &first, edges->relay));
    }
    *out = edges->relay;
    return RSH_OK;
}
