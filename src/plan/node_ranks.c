/* Node ranks: the ranks of a plan on one node. */
#include "plan/impl.h"

#include <stdlib.h>

static int by_node(const void *a, const void *b, void *ctx) {
    const rsh_plan *p = ctx;
    int64_t i = *(const int64_t *)a, j = *(const int64_t *)b;
    int64_t x = rshi_plan_node(p, p->rank[i]), y = rshi_plan_node(p, p->rank[j]);
    return x != y ? (x > y) - (x < y) : (i > j) - (i < j);
}

rsh_status rshi_plan_sort_nodes(rsh_plan *p) {
    p->node_order = rshi_alloc((size_t)p->nranks, sizeof *p->node_order);
    if (!p->node_order) return rshi_nomem();
    for (int64_t i = 0; i < p->nranks; i++) p->node_order[i] = i;
    if (p->nranks) qsort_r(p->node_order, (size_t)p->nranks, sizeof *p->node_order, by_node, p);
    return RSH_OK;
}

/* The index of the first rank of a node if ranks have no gaps, as in most plans; -1: it is not there. */
static int64_t likely_first(const rsh_plan *p, int64_t node) {
    int64_t i = p->nranks && !p->node_order ? rshi_mul_most(node, p->ranks_per_node) - p->rank[0] : -1;
    if (i < 0 || i >= p->nranks || rshi_plan_node(p, p->rank[i]) < node) return -1;
    return i && rshi_plan_node(p, p->rank[i - 1]) >= node ? -1 : i;
}

/* The number of ranks on nodes with a lower number. */
static int64_t ranks_before(const rsh_plan *p, int64_t node) {
    int64_t lo = 0, hi = p->nranks, likely = likely_first(p, node);
    if (likely >= 0) return likely;
    while (lo < hi) {
        int64_t mid = lo + (hi - lo) / 2;
        if (rshi_plan_node(p, p->rank[p->node_order ? p->node_order[mid] : mid]) < node)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

rshi_node_ranks rshi_plan_node_ranks(const rsh_plan *p, int64_t node) {
    rshi_node_ranks c = {p->node_order, ranks_before(p, node), 0};
    c.n = (node == INT64_MAX ? p->nranks : ranks_before(p, node + 1)) - c.first;
    return c;
}
