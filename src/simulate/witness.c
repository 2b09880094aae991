/* Witnesses: chooses the ranks that a simulation examines.
 *
 * In plans of up to 256 ranks these are all ranks.  In larger plans a few nodes represent the others: the nodes of the
 * first and the last rank of both layouts, where remainders are, and one in the middle.  On a node the first and the
 * last rank represent themselves, and a few ranks between them represent the rest. */
#include "simulate/impl.h"

#include <stdlib.h>

#define WALK_ALL 256 /* number of ranks up to which all are examined */
#define PER_NODE 4   /* ranks that are examined on each node in a larger plan */
#define FEW 3        /* ranks that are examined on each node if the plan has more than VERY_MANY ranks */
#define VERY_MANY 16384

static int by_node(const void *a, const void *b) {
    const rshi_witness *x = a, *y = b;
    if (x->node != y->node) return x->node < y->node ? -1 : 1;
    return (x->rank > y->rank) - (x->rank < y->rank);
}

static int64_t count_nodes(const rshi_witness *list, int64_t n) {
    int64_t nodes = 0;
    for (int64_t i = 0; i < n; i++) nodes += !i || list[i].node != list[i - 1].node;
    return nodes;
}

/* The nodes to examine. */
typedef struct wanted {
    int64_t node[5 * 8];
    int n;
} wanted;

static void add_wanted(wanted *w, int64_t node) {
    for (int i = 0; i < w->n; i++)
        if (w->node[i] == node) return;
    if (w->n < (int)(sizeof w->node / sizeof *w->node)) w->node[w->n++] = node;
}

static void add_wanted_ends(wanted *w, const rsh_plan *p, const rsh_layout *l) {
    int64_t n = rsh_layout_nranks(l);
    if (!n) return;
    add_wanted(w, rshi_plan_node_of(p, rsh_layout_rank(l, 0)));
    add_wanted(w, rshi_plan_node_of(p, rsh_layout_rank(l, n - 1)));
}

static bool is_wanted(const wanted *w, int64_t node) {
    for (int i = 0; i < w->n; i++)
        if (w->node[i] == node) return true;
    return false;
}

/* Keeps a few of n ranks of one node, and moves them to `out`. */
static int64_t thin_out(const rshi_witness *list, int64_t n, int64_t keep, rshi_witness *out) {
    if (n <= keep) {
        for (int64_t i = 0; i < n; i++) out[i] = list[i];
        return n;
    }
    rshi_witness last = list[n - 1];
    int64_t between = keep - 2;
    for (int64_t i = 1; i <= between; i++) {
        out[i] = list[i * (n - 1) / (between + 1)];
        out[i].weight = (double)(n - 2) / (double)between;
    }
    out[0] = list[0];
    out[keep - 1] = last;
    return keep;
}

/* Removes most ranks, in place. */
static void keep_some(const rsh_plan *p, rshi_witnesses *w) {
    wanted some = {.n = 0};
    int64_t kept = 0, all = w->n, keep = all > VERY_MANY ? FEW : PER_NODE;
    add_wanted(&some, w->list[all / 2].node);
    for (int64_t t = 0; t < rsh_plan_ntensors(p); t++)
        add_wanted_ends(&some, p, rshi_plan_src(p, t)), add_wanted_ends(&some, p, rshi_plan_dst(p, t));
    for (int64_t i = 0, n; i < all; i += n) {
        for (n = 1; i + n < all && w->list[i + n].node == w->list[i].node;) n++;
        if (is_wanted(&some, w->list[i].node)) kept += thin_out(w->list + i, n, keep, w->list + kept);
    }
    w->n = kept;
}

rsh_status rshi_witnesses_choose(const rsh_plan *p, rshi_witnesses *w) {
    const int64_t *rank = rshi_plan_ranks(p, &w->n);
    w->list = rshi_alloc((size_t)rshi_max(w->n, 1), sizeof *w->list);
    if (!w->list) return rshi_nomem();
    for (int64_t i = 0; i < w->n; i++) w->list[i] = (rshi_witness){rshi_plan_node_of(p, rank[i]), rank[i], 1};
    qsort(w->list, (size_t)w->n, sizeof *w->list, by_node);
    w->nodes = count_nodes(w->list, w->n);
    if (w->n > WALK_ALL) keep_some(p, w);
    return RSH_OK;
}
