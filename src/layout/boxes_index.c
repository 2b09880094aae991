/* Index of boxes: a tree of bounding boxes, so that a search visits few boxes.
 *
 * The non-empty boxes are halved repeatedly along the dim in which their centres are furthest apart, until few are left
 * in a leaf.  Node i has the children 2i + 1 and 2i + 2.  The range of boxes that a node covers, in tree order, follows
 * from the number of halvings.  Building takes n log n; a search visits the nodes whose bounds overlap the query. */
#include "layout/impl.h"

#define LEAF 4 /* at most this many boxes in a leaf */

typedef struct building {
    rsh_layout *l;
    int64_t *key; /* indexed by box: its centre along the current dim */
} building;

static int64_t *node_bounds(const rsh_layout *l, int64_t node) { return l->bounds + node * 2 * l->desc.ndim; }

static void set_node_bounds(const rsh_layout *l, int64_t node, int64_t from, int64_t to) {
    int64_t *lo = node_bounds(l, node), *hi = lo + l->desc.ndim;
    for (int d = 0; d < l->desc.ndim; d++) {
        lo[d] = INT64_MAX, hi[d] = INT64_MIN;
        for (int64_t i = from; i < to; i++) {
            const rsh_box *b = &l->desc.boxes[l->by_place[i]].box;
            lo[d] = rshi_min(lo[d], b->lo[d]);
            hi[d] = rshi_max(hi[d], b->hi[d]);
        }
    }
}

/* Finds the dim in which the centres are furthest apart, and sets the keys along it. */
static void choose_dim(building *w, int64_t from, int64_t to) {
    const rsh_layout *l = w->l;
    int dim = 0;
    int64_t widest = -1;
    for (int d = 0; d < l->desc.ndim; d++) {
        int64_t least = INT64_MAX, most = INT64_MIN;
        for (int64_t i = from; i < to; i++) {
            const rsh_box *b = &l->desc.boxes[l->by_place[i]].box;
            int64_t middle = b->lo[d] + (b->hi[d] - b->lo[d]) / 2;
            least = rshi_min(least, middle), most = rshi_max(most, middle);
        }
        if (most - least > widest) widest = most - least, dim = d;
    }
    for (int64_t i = from; i < to; i++) {
        const rsh_box *b = &l->desc.boxes[l->by_place[i]].box;
        w->key[l->by_place[i]] = b->lo[dim] + (b->hi[dim] - b->lo[dim]) / 2;
    }
}

static void swap_entries(int64_t *a, int64_t *b) {
    int64_t c = *a;
    *a = *b;
    *b = c;
}

/* Quickselect: moves boxes so that those before `mid` have no larger key than the others.  The range that contains
 * `mid` is divided into less, equal and greater until `mid` is among the equal ones. */
static void partition_at(building *w, int64_t from, int64_t mid, int64_t to) {
    int64_t *list = w->l->by_place;
    while (to - from > 1) {
        int64_t pivot = w->key[list[from + (to - from) / 2]], less = from, more = to;
        for (int64_t i = from; i < more;) {
            int64_t key = w->key[list[i]];
            if (key < pivot)
                swap_entries(&list[less++], &list[i++]);
            else if (key > pivot)
                swap_entries(&list[--more], &list[i]);
            else
                i++;
        }
        if (mid < less)
            to = less;
        else if (mid >= more)
            from = more;
        else
            return;
    }
}

static void build_node(building *w, int64_t node, int64_t from, int64_t to) {
    set_node_bounds(w->l, node, from, to);
    if (to - from <= LEAF) return;
    int64_t mid = from + (to - from) / 2;
    choose_dim(w, from, to);
    partition_at(w, from, mid, to);
    build_node(w, 2 * node + 1, from, mid);
    build_node(w, 2 * node + 2, mid, to);
}

static bool holds_something(const rsh_layout *l, const rsh_ranked_box *b) {
    for (int d = 0; d < l->desc.ndim; d++)
        if (b->box.lo[d] >= b->box.hi[d]) return false;
    return b->nranks > 0;
}

/* The number of nodes of the tree if its last level were full. */
static int64_t count_nodes(int64_t n) {
    int64_t nodes = 1;
    for (; n > LEAF; n = (n + 1) / 2) nodes = 2 * nodes + 1;
    return nodes;
}

rsh_status rshi_boxes_index(rsh_layout *l) {
    building w = {l, rshi_alloc((size_t)l->desc.nboxes, sizeof *w.key)};
    l->by_place = rshi_alloc((size_t)l->desc.nboxes, sizeof *l->by_place);
    for (int64_t b = 0; l->by_place && b < l->desc.nboxes; b++)
        if (holds_something(l, &l->desc.boxes[b])) l->by_place[l->nplaced++] = b;
    l->bounds = rshi_alloc((size_t)count_nodes(l->nplaced), 2 * sizeof *l->bounds * (size_t)rshi_max(1, l->desc.ndim));
    bool room = w.key && l->by_place && l->bounds;
    if (room) build_node(&w, 0, 0, l->nplaced);
    rshi_free(w.key);
    return room ? RSH_OK : rshi_nomem();
}

/* ---- search ---- */

typedef struct looking {
    const rsh_layout *l;
    const rshi_stripe *query;
    rshi_box_fn fn;
    void *ctx;
} looking;

/* Returns whether bounds and query have no common element.  A stripe may have gaps between its blocks. */
static bool is_disjoint(const looking *w, const int64_t *lo, const int64_t *hi) {
    for (int d = 0; d < w->l->desc.ndim; d++) {
        const rshi_stripe *q = &w->query[d];
        if (lo[d] >= rshi_stripe_end(q) || hi[d] <= q->lo) return true;
        if (q->count > 1 && rshi_stripe_before(q, hi[d]) == rshi_stripe_before(q, lo[d])) return true;
    }
    return false;
}

/* Boxes are prefetched, because neighbours in the tree are far apart in the list. */
#define AHEAD 16
static void prefetch_box(const rsh_ranked_box *b) {
    for (size_t i = 0; i < sizeof *b; i += 64) __builtin_prefetch((const char *)b + i);
}

static rsh_status search_node(const looking *w, int64_t node, int64_t from, int64_t to) {
    const int64_t *lo = node_bounds(w->l, node);
    if (is_disjoint(w, lo, lo + w->l->desc.ndim)) return RSH_OK;
    if (to - from > LEAF) {
        int64_t mid = from + (to - from) / 2;
        RSH_TRY(search_node(w, 2 * node + 1, from, mid));
        return search_node(w, 2 * node + 2, mid, to);
    }
    for (int64_t i = from; i < to; i++) {
        const rsh_box *b = &w->l->desc.boxes[w->l->by_place[i]].box;
        if (i + AHEAD < w->l->nplaced) prefetch_box(&w->l->desc.boxes[w->l->by_place[i + AHEAD]]);
        if (!is_disjoint(w, b->lo, b->hi)) RSH_TRY(w->fn(w->ctx, w->l->by_place[i]));
    }
    return RSH_OK;
}

rsh_status rshi_boxes_meeting(const rsh_layout *l, const rshi_stripe *query, rshi_box_fn fn, void *ctx) {
    looking w = {l, query, fn, ctx};
    for (int d = 0; d < l->desc.ndim; d++)
        if (!query[d].count) return RSH_OK;
    return l->nplaced ? search_node(&w, 0, 0, l->nplaced) : RSH_OK;
}
