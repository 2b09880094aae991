/* Choose: picks the chain of each tensor.
 *
 * A few chains are proposed, and the cheapest wins: fewest bytes moved, then fewest between nodes, then fewest that
 * the busiest rank sends or receives, then fewest that the busiest sender sends, then fewest stages.  Costs are counted
 * by walking the edges of all ranks.  If there are too many edges, simple counts of ranks and nodes decide.  Sums by
 * node always have the same chain, because their bits depend on it. */
#include "plan/impl.h"

#include <stdlib.h>
#include <string.h>

#define WALK_LIMIT ((int64_t)1 << 16) /* most edges of a tensor, and pairs of ranks, for which costs are counted */

/* ---- what may be proposed ---- */

typedef struct proposal {
    rshi_chain chain;
    bool split, forward;
} proposal;

typedef struct proposals {
    proposal list[8];
    int n;
} proposals;

static void propose(proposals *out, rshi_chain chain, bool split, bool forward) {
    out->list[out->n++] = (proposal){chain, false, forward};
    if (split) out->list[out->n++] = (proposal){chain, true, forward};
}

/* The first proposal is used if costs cannot be counted.  If a conversion makes elements wider, ranks that pass them
 * on would move more bytes than necessary. */
static proposals propose_chains(const rsh_plan *p, const rshi_pair *pair) {
    proposals out = {.n = 0};
    int64_t bytes = rshi_mul_most(rsh_layout_count(pair->to), pair->wire_size);
    bool wider = (int64_t)rsh_dtype_size(rsh_layout_dtype(pair->to)) > pair->wire_size;
    bool split = !pair->keep && !pair->by_node && bytes >= 8 * RSHI_SLICE_BYTES && rshi_layout_has_replicas(pair->from);
    bool copies = rshi_layout_has_replicas(pair->to) && !pair->keep && (!pair->from_overlaps || pair->reduce);
    if (copies && pair->reduce) propose(&out, RSHI_CHAIN_ALL, split, false);
    if (copies && pair->by_node) return out;
    if (copies && !pair->reduce && p->several_nodes && !wider) {
        propose(&out, RSHI_CHAIN_NODE, split, false);
        for (int forward = 0; forward < 2 && bytes >= 2 * RSHI_SLICE_BYTES; forward++)
            propose(&out, RSHI_CHAIN_ALL, split, forward);
    }
    propose(&out, RSHI_CHAIN_DIRECT, split && !(pair->from_overlaps && !pair->reduce), false);
    return out;
}

/* ---- counting ---- */

/* In the order of comparison. */
typedef struct cost {
    int64_t moved, between;
    int64_t most; /* the most that a rank sends or receives, whichever is more */
    int64_t send; /* the most that a rank sends */
    int64_t stages;
} cost;

typedef struct counting {
    const rsh_plan *p;
    int64_t *sent, *received; /* owned: by ordinal */
    int64_t edges;
    bool fits; /* does the number of bytes of the plan fit in an int64? */
    cost c;
} counting;

static rsh_status count_edge(void *ctx, const rshi_edge *e) {
    counting *w = ctx;
    int64_t bytes = rshi_edge_count(e) * e->wire_size;
    w->edges += e->nsrc;
    if (w->edges > WALK_LIMIT) return RSH_ERUNTIME; /* too many */
    for (int64_t k = 0; k < e->nsrc; k++) {
        int64_t rank = rshi_edge_source(e, k);
        if (rank == e->dst->rank) continue;
        w->c.moved += bytes;
        if (rshi_plan_node(w->p, rank) != rshi_plan_node(w->p, e->dst->rank)) w->c.between += bytes;
        w->sent[rshi_plan_ordinal(w->p, rank)] += bytes;
        w->received[rshi_plan_ordinal(w->p, e->dst->rank)] += bytes;
    }
    return RSH_OK;
}

/* RSH_ERUNTIME: there are too many edges. */
static rsh_status count_cost(counting *w, int64_t tensor) {
    rshi_walk walk = {.p = w->p, .emit = count_edge, .ctx = w};
    rsh_status st = RSH_OK;
    w->c = (cost){.stages = rshi_chain_stages(w->p, &w->p->pair[tensor])};
    w->edges = 0;
    memset(w->sent, 0, (size_t)w->p->nranks * sizeof *w->sent);
    memset(w->received, 0, (size_t)w->p->nranks * sizeof *w->received);
    for (int64_t q = 0; q < w->p->nranks && !st; q++) {
        walk.rank = w->p->rank[q];
        st = rshi_receive_untransposed(&walk, tensor);
    }
    rshi_walk_free(&walk);
    for (int64_t q = 0; q < w->p->nranks; q++) {
        w->c.send = rshi_max(w->c.send, w->sent[q]);
        w->c.most = rshi_max(w->c.most, rshi_max(w->sent[q], w->received[q]));
    }
    return st;
}

static bool is_cheaper(const cost *a, const cost *b) {
    if (a->moved != b->moved) return a->moved < b->moved;
    if (a->between != b->between) return a->between < b->between;
    if (a->most != b->most) return a->most < b->most;
    if (a->send != b->send) return a->send < b->send;
    return a->stages < b->stages;
}

static void set_chain(rshi_pair *pair, const proposal *x) {
    pair->chain = x->chain, pair->split = x->split, pair->forward = x->forward;
}

/* ---- without counting ---- */

static rsh_status count_nodes(const rsh_plan *p, const rsh_layout *l, int64_t *count) {
    int64_t n = rsh_layout_nranks(l), *node = rshi_alloc((size_t)rshi_max(n, 1), sizeof *node);
    if (!node) return rshi_nomem();
    for (int64_t i = 0; i < n; i++) node[i] = rshi_plan_node(p, rsh_layout_rank(l, i));
    qsort(node, (size_t)n, sizeof *node, rshi_compare_int64);
    *count = 0;
    for (int64_t i = 0; i < n; i++) *count += !i || node[i] != node[i - 1];
    rshi_free(node);
    return RSH_OK;
}

/* A part, and a node on which a rank holds it. */
typedef struct part_on_node {
    int64_t part, node;
} part_on_node;

static int by_part(const void *a, const void *b) {
    const part_on_node *x = a, *y = b;
    if (x->part != y->part) return x->part < y->part ? -1 : 1;
    return (x->node > y->node) - (x->node < y->node);
}

/* Do so few ranks of a node hold the same part that a chain by node would save less than a sixteenth of the bytes
 * between nodes?  False for layouts whose parts may overlap without being equal. */
static rsh_status is_scattered(const rsh_plan *p, const rsh_layout *to, bool *scattered) {
    int64_t n = rsh_layout_nranks(to), different = 0;
    *scattered = false;
    if (!rshi_layout_has_groups(to)) return RSH_OK;
    part_on_node *list = rshi_alloc((size_t)rshi_max(n, 1), sizeof *list);
    if (!list) return rshi_nomem();
    for (int64_t i = 0; i < n; i++) {
        rshi_holding h = rshi_layout_holding(to, i);
        list[i] = (part_on_node){h.part, rshi_plan_node(p, rshi_layout_rank_at(to, i))};
    }
    qsort(list, (size_t)n, sizeof *list, by_part);
    for (int64_t i = 0; i < n; i++) different += !i || by_part(&list[i - 1], &list[i]);
    rshi_free(list);
    *scattered = 16 * (n - different) < n;
    return RSH_OK;
}

/* If there are fewer sources than nodes, each source would have to send to several nodes. */
static rsh_status choose_by_ranks(const rsh_plan *p, rshi_pair *pair, const proposals *x) {
    int64_t nodes = 0;
    bool scattered;
    set_chain(pair, &x->list[0]);
    if (pair->chain != RSHI_CHAIN_NODE) return RSH_OK;
    RSH_TRY(is_scattered(p, pair->to, &scattered));
    if (scattered) pair->chain = RSHI_CHAIN_DIRECT;
    RSH_TRY(count_nodes(p, pair->to, &nodes));
    for (int i = 0; i < x->n; i++)
        if (x->list[i].chain == RSHI_CHAIN_ALL && !x->list[i].split && !x->list[i].forward &&
            rsh_layout_nranks(pair->from) < nodes)
            set_chain(pair, &x->list[i]);
    return RSH_OK;
}

/* ---- */

static rsh_status choose_by_cost(counting *w, rshi_pair *pair, int64_t tensor, const proposals *x) {
    cost least = {0};
    int best = 0;
    for (int i = 0; i < x->n; i++) {
        set_chain(pair, &x->list[i]);
        rsh_status st = count_cost(w, tensor);
        if (st == RSH_ERUNTIME) return choose_by_ranks(w->p, pair, x);
        RSH_TRY(st);
        if (!i || is_cheaper(&w->c, &least)) least = w->c, best = i;
    }
    set_chain(pair, &x->list[best]);
    return RSH_OK;
}

/* Copies the chain of an equal pair before it, if there is one. */
static bool choose_as_before(const rsh_plan *p, int64_t t) {
    rshi_pair *pair = &p->pair[t];
    for (int64_t i = t - 1; i >= 0 && i >= t - 1024; i--) {
        const rshi_pair *other = &p->pair[i];
        if (!rsh_layout_equal(pair->src, other->src) || !rsh_layout_equal(pair->dst, other->dst)) continue;
        pair->chain = other->chain, pair->split = other->split, pair->forward = other->forward;
        pair->by_node = other->by_node, pair->scratch_bytes = other->scratch_bytes;
        return true;
    }
    return false;
}

/* Plans a sum in order if no destination would read a result of a node.  Sums by node have only one proposal. */
static rsh_status drop_unused_node_results(rsh_plan *p, int64_t t) {
    rshi_pair *pair = &p->pair[t];
    proposals x = propose_chains(p, pair);
    set_chain(pair, &x.list[0]);
    RSH_TRY(rshi_pair_most_scratch(p, t, &pair->scratch_bytes));
    pair->by_node = pair->scratch_bytes > 0;
    return RSH_OK;
}

static rsh_status choose_chain(counting *w, rsh_plan *p, int64_t t) {
    rshi_pair *pair = &p->pair[t];
    if (choose_as_before(p, t)) return RSH_OK;
    if (pair->by_node) RSH_TRY(drop_unused_node_results(p, t));
    proposals x = propose_chains(p, pair);
    set_chain(pair, &x.list[0]);
    if (x.n == 1) return RSH_OK;
    bool few = w->fits && rshi_mul_most(p->nranks, p->nranks) <= WALK_LIMIT;
    return few ? choose_by_cost(w, pair, t, &x) : choose_by_ranks(p, pair, &x);
}

rsh_status rshi_plan_choose_chains(rsh_plan *p) {
    counting w = {.p = p};
    size_t n = (size_t)p->nranks + 1;
    w.sent = rshi_alloc(n, sizeof *w.sent);
    w.received = rshi_alloc(n, sizeof *w.received);
    rsh_status st = w.sent && w.received ? RSH_OK : rshi_nomem();
    if (!st) st = rshi_plan_fits(p, &w.fits);
    for (int64_t t = 0; t < p->n && !st; t++) st = choose_chain(&w, p, t);
    rshi_free(w.sent);
    rshi_free(w.received);
    return st;
}
