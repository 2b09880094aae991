/* Piece holders: the ranks that hold a destination piece, by node, and the slice of it that each keeps.
 *
 * A piece with several holders is cut along its longest dim.  In the node cut, the holders on each node have one
 * slice each, and every node has the whole piece.  Holders that have the source have no slice, because they need
 * nothing from others.  In the cut among all, each holder owns at most one slice.  Holders on a node that has the
 * source own none, because their node needs nothing from other nodes. */
#include "plan/piece_holders.h"

#include <stdlib.h>

int rshi_piece_longest_dim(const rsh_layout *l, const rshi_piece *p) {
    int dim = 0;
    for (int d = 1; d < rsh_layout_ndim(l); d++)
        if (rshi_stripe_size(&p->set[d]) > rshi_stripe_size(&p->set[dim])) dim = d;
    return dim;
}

/* Where part i of n of a stripe begins, as an index of the dim; the end of the stripe for i = n. */
static int64_t stripe_even_start(const rshi_stripe *s, int64_t n, int64_t i) {
    int64_t size = rshi_stripe_size(s), start = rshi_even_start(size, n, i);
    return start < size ? rshi_stripe_at(s, start) : rshi_stripe_end(s);
}

/* ---- holders by node ---- */

static int by_node(const void *a, const void *b) {
    const rshi_holder *x = a, *y = b;
    if (x->node != y->node) return x->node < y->node ? -1 : 1;
    return (x->holder > y->holder) - (x->holder < y->holder);
}

/* Meshes mostly count up node by node. */
static void sort_holders(rshi_holder_list *list) {
    bool in_order = true;
    for (int64_t i = 1; i < list->n && in_order; i++) in_order = list->at[i - 1].node <= list->at[i].node;
    if (!in_order) qsort(list->at, (size_t)list->n, sizeof *list->at, by_node);
}

static void group_by_node(rshi_holder_list *list) {
    for (int64_t i = 0, n; i < list->n; i += n) {
        for (n = 1; i + n < list->n && list->at[i + n].node == list->at[i].node;) n++;
        for (int64_t k = 0; k < n; k++) {
            list->at[i + k].first = i, list->at[i + k].on_node = n;
            list->place[list->at[i + k].holder] = i + k;
        }
    }
}

static rsh_status list_holders(const rsh_plan *p, const rsh_layout *to, rshi_holder_list *list) {
    list->n = rshi_piece_holders(to, &list->b);
    RSH_TRY(RSHI_GROW(list->at, list->n, &list->at_room));
    RSH_TRY(RSHI_GROW(list->place, list->n, &list->place_room));
    for (int64_t i = 0; i < list->n; i++) {
        int64_t rank = rshi_piece_holder(to, &list->b, i);
        list->at[i] = (rshi_holder){p->several_nodes ? rshi_plan_node(p, rank) : 0, i, rank, 0, 0};
    }
    sort_holders(list);
    group_by_node(list);
    return RSH_OK;
}

rsh_status rshi_holder_list_find(rshi_walk *w, int64_t tensor, const rshi_piece *b, const rshi_holder_list **out) {
    const rsh_layout *to = w->p->pair[tensor].to;
    rshi_piece first;
    if (!w->holders) {
        if (!(w->holders = RSHI_NEW(rshi_holder_list))) return rshi_nomem();
        w->holders->tensor = -1;
    }
    rshi_holder_list *list = w->holders;
    rshi_piece_at_holder(to, b, 0, &first);
    *out = list;
    if (list->tensor == tensor && rshi_same_piece(to, &list->b, &first)) return RSH_OK;
    list->tensor = -1; /* incomplete until the end */
    list->b = first;
    list->dim = rshi_piece_longest_dim(to, b);
    list->serial++;
    RSH_TRY(list_holders(w->p, to, list));
    list->tensor = tensor;
    return RSH_OK;
}

const rshi_holder *rshi_holder_list_at(const rshi_holder_list *list, int64_t holder) {
    return &list->at[list->place[holder]];
}

/* ---- relays ---- */

const rshi_holder *rshi_relays_at(const rshi_relays *relays, int64_t i) {
    return &relays->list->at[relays->chosen ? relays->chosen[i] : relays->first + i];
}

int64_t rshi_relays_index(const rshi_relays *relays, int64_t holder) {
    int64_t member = relays->list->place[holder], i = 0;
    if (!relays->chosen)
        return member >= relays->first && member < relays->first + relays->n ? member - relays->first : -1;
    while (i < relays->n && relays->chosen[i] != member) i++;
    return i < relays->n ? i : -1;
}

bool rshi_holds_source(const rshi_region *r, int64_t rank) {
    return !r->pair->reduce && rshi_piece_holder_index(r->pair->from, r->a, rank) >= 0;
}

rsh_status rshi_relays_find(rshi_walk *w, const rshi_region *r, const rshi_holder_list *list, int64_t me,
                            rshi_relays *out) {
    const rshi_holder *m = rshi_holder_list_at(list, me);
    *out = (rshi_relays){list, m->on_node, m->first, NULL, list->place[me] - m->first};
    if (r->pair->reduce || !w->p->several_nodes || !rshi_holders_on(w->p, r->pair->from, r->a, m->node)) return RSH_OK;
    RSH_TRY(RSHI_GROW(w->relay_list, m->on_node, &w->relay_room));
    out->chosen = w->relay_list;
    out->n = 0, out->me = -1;
    for (int64_t i = m->first; i < m->first + m->on_node; i++) {
        if (rshi_holds_source(r, list->at[i].rank)) continue;
        if (list->at[i].holder == me) out->me = out->n;
        w->relay_list[out->n++] = i;
    }
    return RSH_OK;
}

/* ---- holders beside a source ---- */

static rsh_status list_beside(const rsh_plan *p, const rsh_layout *from, const rshi_holder_list *list,
                              rshi_source_nodes *beside) {
    int64_t n = rshi_piece_holders(from, &beside->a);
    beside->n = 0;
    RSH_TRY(RSHI_GROW(beside->node, n, &beside->node_room));
    RSH_TRY(RSHI_GROW(beside->holder, list->n, &beside->holder_room));
    for (int64_t i = 0; i < n; i++) beside->node[i] = rshi_plan_node(p, rshi_piece_holder(from, &beside->a, i));
    qsort(beside->node, (size_t)n, sizeof *beside->node, rshi_compare_int64);
    for (int64_t h = 0; h < list->n; h++)
        if (rshi_find(beside->node, n, sizeof *beside->node, rshi_holder_list_at(list, h)->node) >= 0)
            beside->holder[beside->n++] = h;
    return RSH_OK;
}

rsh_status rshi_source_nodes_find(rshi_walk *w, const rshi_region *r, const rshi_holder_list *list,
                                  const rshi_source_nodes **out) {
    if (!w->source_nodes) {
        if (!(w->source_nodes = RSHI_NEW(rshi_source_nodes))) return rshi_nomem();
        w->source_nodes->serial = -1;
    }
    rshi_source_nodes *beside = w->source_nodes;
    *out = beside;
    if (beside->serial == list->serial && rshi_same_piece(r->pair->from, &beside->a, r->a)) return RSH_OK;
    beside->serial = -1; /* incomplete until the end */
    beside->a = *r->a;
    beside->n = 0;
    if (!r->pair->reduce && w->p->several_nodes) RSH_TRY(list_beside(w->p, r->pair->from, list, beside));
    beside->serial = list->serial;
    return RSH_OK;
}

/* The number of holders beside a source with a number less than h. */
static int64_t beside_before(const rshi_source_nodes *beside, int64_t h) {
    int64_t lo = 0, hi = beside->n;
    while (lo < hi) {
        int64_t mid = lo + (hi - lo) / 2;
        if (beside->holder[mid] < h)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

bool rshi_is_beside_source(const rshi_source_nodes *beside, int64_t h) {
    int64_t i = beside_before(beside, h);
    return i < beside->n && beside->holder[i] == h;
}

/* The q-th of the holders that are not beside a source. */
static int64_t holder_not_beside(const rshi_source_nodes *beside, int64_t q) {
    int64_t lo = 0, hi = beside->n;
    while (lo < hi) {
        int64_t mid = lo + (hi - lo) / 2;
        if (beside->holder[mid] - mid <= q)
            lo = mid + 1;
        else
            hi = mid;
    }
    return q + lo;
}

/* ---- the two cuts ---- */

/* Cuts a large region separately, so that each relay takes an equal part of it.  Of small regions each relay takes
 * those that lie in its slice of the whole piece. */
static bool is_cut_alone(const rshi_region *r, int64_t n) {
    return r->bytes / n >= RSHI_SLICE_BYTES && r->hi - r->lo >= 8 * n;
}

static int64_t even_part_at(const rshi_stripe *s, int64_t n, int64_t x) {
    return rshi_even_part_at(rshi_stripe_size(s), n, rshi_stripe_before(s, x));
}

rshi_range rshi_node_slice(const rshi_region *r, const rshi_holder_list *list, int64_t n, int64_t i) {
    const rshi_stripe whole = rshi_stripe_range(r->lo, r->hi),
                      *s = is_cut_alone(r, n) ? &whole : &list->b.set[list->dim];
    return (rshi_range){stripe_even_start(s, n, i), stripe_even_start(s, n, i + 1)};
}

int64_t rshi_node_slice_at(const rshi_region *r, const rshi_holder_list *list, int64_t n, int64_t x) {
    const rshi_stripe whole = rshi_stripe_range(r->lo, r->hi);
    return even_part_at(is_cut_alone(r, n) ? &whole : &list->b.set[list->dim], n, x);
}

/* Reductions have one slice per holder.  Copies have slices of a minimum size, and at least two. */
rshi_all_cut rshi_all_cut_of(const rshi_region *r, const rshi_holder_list *list, const rshi_source_nodes *beside) {
    rshi_all_cut cut = {list, beside, list->n - beside->n, 0};
    int64_t bytes = rshi_mul_most(rshi_piece_count(r->pair->to, &list->b), r->pair->wire_size);
    cut.slices = r->pair->reduce ? cut.owners : rshi_min(cut.owners, bytes / RSHI_SLICE_BYTES);
    if (!r->pair->reduce && cut.slices < 2) cut.slices = 0;
    return cut;
}

rshi_range rshi_all_slice(const rshi_all_cut *cut, int64_t i) {
    const rshi_stripe *s = &cut->list->b.set[cut->list->dim];
    return (rshi_range){stripe_even_start(s, cut->slices, i), stripe_even_start(s, cut->slices, i + 1)};
}

int64_t rshi_all_slice_at(const rshi_all_cut *cut, int64_t x) {
    return even_part_at(&cut->list->b.set[cut->list->dim], cut->slices, x);
}

int64_t rshi_all_owner(const rshi_all_cut *cut, int64_t i) {
    return holder_not_beside(cut->beside, i * cut->owners / cut->slices);
}

int64_t rshi_all_slice_of(const rshi_all_cut *cut, int64_t holder) {
    if (rshi_is_beside_source(cut->beside, holder) || !cut->owners) return -1;
    int64_t q = holder - beside_before(cut->beside, holder), i = rshi_ceil_div(q * cut->slices, cut->owners);
    return i < cut->slices && i * cut->owners / cut->slices == q ? i : -1;
}

void rshi_holder_list_free(rshi_holder_list *list) {
    if (list) rshi_free(list->at), rshi_free(list->place);
    rshi_free(list);
}

void rshi_source_nodes_free(rshi_source_nodes *beside) {
    if (beside) rshi_free(beside->node), rshi_free(beside->holder);
    rshi_free(beside);
}
