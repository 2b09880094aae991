/* Gather sums: what the owners of the slices of a result pass on in stage 1, node by node apart.
 *
 * Every owner of a slice that is not empty sends it to all other holders of the destination part.  Some of those pairs
 * of ranks exchange contributions in stage 0 already, and count as one message: the holders whose slices an owner's own
 * contribution meets, which lie in a row if there is one cell on each side. */
#include "plan/node_sums.h"

#include <stdlib.h>

#define MOST_WORK ((int64_t)400 << 20)
#define MOST_PAIRS ((int64_t)8 << 20)

typedef struct placed {
    int64_t node, index;
} placed;

/* Ranks of which the first sends to the second. */
typedef struct pair {
    int64_t from, to;
} pair;
typedef struct pairs {
    pair *at; /* owned */
    int64_t n, room;
} pairs;

/* One destination group. */
typedef struct gathering {
    rshi_sums *s;
    int64_t target, k;          /* its holders */
    int64_t first_cell, ncells; /* of its part */
    placed *by_node;            /* owned: holders, by node */
    int64_t near, nnear;        /* those of the node of the owner at hand */
    pairs *pairs; /* where ranks hold several parts: to be counted once, in the end; else NULL */
} gathering;

static int by_node(const void *a, const void *b) {
    const placed *x = a, *y = b;
    if (x->node != y->node) return x->node < y->node ? -1 : 1;
    return (x->index > y->index) - (x->index < y->index);
}

static int64_t holder(const gathering *g, int64_t i) { return g->s->b.holder[g->s->b.first_holder[g->target] + i]; }

static int64_t node_of(const rshi_sums *s, int64_t q) { return s->nodes ? rshi_plan_node(s->p, s->p->rank[q]) : q; }

static int64_t slice_size(const gathering *g, int64_t i) {
    int64_t n = 0;
    for (int64_t c = 0; c < g->ncells; c++) {
        rshi_clip slice = rshi_cell_slice(g->s->ndim, rshi_grouped_side_cell(&g->s->b, g->first_cell + c), g->k, i);
        n += rshi_clip_size(g->s->ndim, &slice);
    }
    return n;
}

/* ---- pairs that exchange contributions too ---- */

/* Which of n slices index x of `extent` is in. */
static int64_t slice_of(int64_t extent, int64_t n, int64_t x) {
    int64_t small = extent / n, large = extent % n;
    return x < large * (small + 1) ? x / (small + 1) : large + (x - large * (small + 1)) / small;
}

static bool is_near(const gathering *g, int64_t j) {
    return node_of(g->s, holder(g, j)) == g->by_node[g->near].node;
}

/* With one holder and one cell of one block on both sides: slices first to last. */
static int64_t count_row(const gathering *g, const rshi_stripe *a, const rshi_stripe *b) {
    rshi_clip slice = rshi_cell_slice(g->s->ndim, b, g->k, 0), whole = {b, -1, 0, 0};
    const rshi_stripe *x = &a[slice.dim], *y = &b[slice.dim];
    if (!rshi_clip_common(g->s->ndim, a, &whole)) return 0;
    int64_t extent = rshi_stripe_size(y);
    int64_t first = slice_of(extent, g->k, rshi_max(x->lo, y->lo) - y->lo),
            last = slice_of(extent, g->k, rshi_min(rshi_stripe_end(x), rshi_stripe_end(y)) - 1 - y->lo),
            n = last - first + 1;
    for (int64_t i = g->near; i < g->near + g->nnear; i++)
        n -= g->by_node[i].index >= first && g->by_node[i].index <= last;
    return n;
}

/* Does the rank serve another, which is on another node, with source group `source`? */
static bool serves(const rshi_sums *s, int64_t rank, int64_t source, int64_t to) {
    int64_t k = rshi_grouped_side_holders(&s->a, source);
    const int64_t *list = s->a.holder + s->a.first_holder[source];
    for (int64_t i = 0; i < k && k > 1; i++)
        if (node_of(s, list[i]) == node_of(s, to)) return false;
    return list[s->b.turn[to] % k] == rank;
}

/* Does the source group have anything of what holder j of the target takes? */
static bool meets_slice(const rshi_sums *s, int64_t source, int64_t target, int64_t j) {
    int64_t part = source / s->a.partials, wanted = target / s->b.partials,
            k = rshi_grouped_side_holders(&s->b, target);
    for (int64_t c = s->b.first_cell[wanted]; c < s->b.first_cell[wanted + 1]; c++) {
        rshi_clip slice = rshi_cell_slice(s->ndim, rshi_grouped_side_cell(&s->b, c), k, j);
        for (int64_t i = s->a.first_cell[part]; i < s->a.first_cell[part + 1]; i++)
            if (rshi_clip_common(s->ndim, rshi_grouped_side_cell(&s->a, i), &slice)) return true;
    }
    return false;
}

static bool is_one_block(int ndim, const rshi_stripe *cell) {
    for (int d = 0; d < ndim; d++)
        if (cell[d].count != 1) return false;
    return true;
}

static int64_t count_both(const gathering *g, int64_t rank) {
    rshi_sums *s = g->s;
    int64_t held = s->a.first_held[rank], n = 0;
    if (held == s->a.first_held[rank + 1]) return 0;
    int64_t source = s->a.held[held].group, part = source / s->a.partials, k = rshi_grouped_side_holders(&s->a, source),
            cells = s->a.first_cell[part + 1] - s->a.first_cell[part];
    const rshi_stripe *a = rshi_grouped_side_cell(&s->a, s->a.first_cell[part]),
                      *b = rshi_grouped_side_cell(&s->b, g->first_cell);
    if (!cells) return 0;
    if (k == 1 && cells == 1 && g->ncells == 1 && is_one_block(s->ndim, a) && is_one_block(s->ndim, b))
        return count_row(g, a, b);
    s->work += g->k * cells * g->ncells;
    s->given_up = s->given_up || s->work > MOST_WORK;
    for (int64_t j = 0; j < g->k && !s->given_up; j++)
        n += !is_near(g, j) && meets_slice(s, source, g->target, j) && serves(s, rank, source, holder(g, j));
    return n;
}

/* ---- ranks that hold several parts ---- */

static rsh_status add_pairs(gathering *g, int64_t i) {
    rshi_sums *s = g->s;
    s->work += g->k;
    s->given_up = s->given_up || s->work > MOST_PAIRS;
    for (int64_t j = 0; j < g->k && !s->given_up; j++) {
        if (is_near(g, j)) continue;
        RSH_TRY(RSHI_GROW(g->pairs->at, g->pairs->n + 1, &g->pairs->room));
        g->pairs->at[g->pairs->n++] = (pair){holder(g, i), holder(g, j)};
    }
    return RSH_OK;
}

static int by_ranks(const void *a, const void *b) {
    const pair *x = a, *y = b;
    if (x->from != y->from) return x->from < y->from ? -1 : 1;
    return (x->to > y->to) - (x->to < y->to);
}

static bool contributes(const rshi_sums *s, const pair *p) {
    int64_t held = s->a.first_held[p->from];
    if (held == s->a.first_held[p->from + 1]) return false;
    int64_t source = s->a.held[held].group;
    if (!serves(s, p->from, source, p->to)) return false;
    for (int64_t h = s->b.first_held[p->to]; h < s->b.first_held[p->to + 1]; h++)
        if (meets_slice(s, source, s->b.held[h].group, s->b.held[h].index)) return true;
    return false;
}

static void count_pairs(rshi_sums *s, pairs *list) {
    if (list->n) qsort(list->at, (size_t)list->n, sizeof *list->at, by_ranks);
    for (int64_t i = 0; i < list->n; i++)
        s->t->messages += (!i || by_ranks(&list->at[i - 1], &list->at[i])) && !contributes(s, &list->at[i]);
}

/* ---- */

static rsh_status add_owner(gathering *g, int64_t i, int64_t size) {
    rshi_sums *s = g->s;
    int64_t rank = holder(g, i), n = slice_size(g, i), far = g->k - g->nnear;
    s->received[rank] += (size - n) * s->out_size;
    s->sent[rank] += (g->k - 1) * n * s->out_size;
    s->t->bytes_between_nodes += far * n * s->out_size;
    if (n && g->pairs) return add_pairs(g, i);
    if (n) s->t->messages += far - count_both(g, rank);
    return RSH_OK;
}

static rsh_status add_gather(rshi_sums *s, int64_t target, pairs *list) {
    int64_t part = target / s->b.partials;
    rsh_status st = RSH_OK;
    gathering g = {s, target, rshi_grouped_side_holders(&s->b, target), s->b.first_cell[part], 0, NULL, 0, 0, list};
    g.ncells = s->b.first_cell[part + 1] - g.first_cell;
    if (!g.ncells || g.k < 2) return RSH_OK;
    g.by_node = rshi_alloc((size_t)g.k, sizeof *g.by_node);
    if (!g.by_node) return rshi_nomem();
    for (int64_t i = 0; i < g.k; i++) g.by_node[i] = (placed){node_of(s, holder(&g, i)), i};
    qsort(g.by_node, (size_t)g.k, sizeof *g.by_node, by_node);
    for (int64_t i = 0; i < g.k; i += g.nnear) {
        g.near = i;
        for (g.nnear = 1; i + g.nnear < g.k && g.by_node[i + g.nnear].node == g.by_node[i].node;) g.nnear++;
        for (int64_t j = i; j < i + g.nnear && !st; j++) st = add_owner(&g, g.by_node[j].index, s->b.size[part]);
    }
    rshi_free(g.by_node);
    return st;
}

rsh_status rshi_sums_add_gathers(rshi_sums *s) {
    pairs list = {0};
    rsh_status st = RSH_OK;
    if (!s->pair->reduce || !s->ndim) return RSH_OK;
    for (int64_t g = 0; g < s->b.groups && !s->given_up && !st; g++) {
        st = rshi_progress_at(s->w, g, s->b.groups);
        if (!st && (!s->pair->fill_others || g % s->b.partials == 0))
            st = add_gather(s, g, s->b.single ? NULL : &list);
    }
    if (!st && !s->given_up) count_pairs(s, &list);
    rshi_free(list.at);
    return st;
}
