/* Node groups: the contributions to a reduction, by node.
 *
 * A contribution has one holder for each replica of the source.  Replica j consists of holder number j of every
 * contribution, and a destination reads all contributions from one replica.  Those on one node are a group; groups
 * are sorted by their lowest position.  Each node combines its group before nodes exchange anything.  It does not if
 * that saves no bytes, since results travel in the accumulator type, or if no destination would read the results. */
#include "plan/impl.h"

#include <stdlib.h>

static int64_t node_at(const rsh_plan *p, const rsh_layout *from, const rshi_piece *a, int64_t position,
                       int64_t replica) {
    rshi_piece at;
    rshi_piece_at_partial(from, a, position, &at);
    return rshi_plan_node(p, rshi_piece_holder(from, &at, replica));
}

/* ---- which replica serves a destination ---- */

static int64_t contributions_on(const rsh_plan *p, const rshi_pair *pair, const rshi_piece *a, int64_t replica,
                                int64_t node) {
    int64_t n = 0;
    for (int64_t i = 0; i < pair->contributions; i++) n += node_at(p, pair->from, a, i, replica) == node;
    return n;
}

int64_t rshi_replica(const rsh_plan *p, const rshi_pair *pair, const rshi_piece *a, int64_t rank, int64_t turn) {
    int64_t replicas = rshi_piece_holders(pair->from, a), node = rshi_plan_node(p, rank), most = -1, equals = 0;
    if (replicas == 1) return 0;
    for (int64_t j = 0; j < replicas; j++) {
        int64_t n = contributions_on(p, pair, a, j, node);
        if (n > most) most = n, equals = 0;
        equals += n == most;
    }
    int64_t number = rshi_candidate_at_turn(turn, equals);
    for (int64_t j = 0;; j++)
        if (contributions_on(p, pair, a, j, node) == most && number-- == 0) return j;
}

/* ---- groups ---- */

typedef struct placed {
    int64_t node, position;
} placed;

static int by_node(const void *a, const void *b) {
    const placed *x = a, *y = b;
    if (x->node != y->node) return x->node < y->node ? -1 : 1;
    return (x->position > y->position) - (x->position < y->position);
}

static int by_first_position(const void *a, const void *b) {
    const rshi_node_group *x = a, *y = b;
    return (*x->position > *y->position) - (*x->position < *y->position);
}

static void list_groups(const placed *list, int64_t n, rshi_node_groups *g) {
    for (int64_t i = 0; i < n; i++) {
        g->position[i] = list[i].position;
        if (!i || list[i].node != list[i - 1].node)
            g->group[g->n++] = (rshi_node_group){list[i].node, 0, g->position + i};
        g->group[g->n - 1].n++;
    }
    qsort(g->group, (size_t)g->n, sizeof *g->group, by_first_position);
    for (int64_t i = 0; i < g->n; i++) {
        g->size[i] = g->group[i].n;
        for (int64_t k = 0; k < g->group[i].n; k++) g->group_of[g->group[i].position[k]] = i;
    }
    qsort(g->size, (size_t)g->n, sizeof *g->size, rshi_compare_int64);
    for (int64_t i = 0; i < g->n; i++)
        if (!i || g->size[i] != g->size[g->nsizes - 1]) g->size[g->nsizes++] = g->size[i];
}

/* ---- does any destination read the results of nodes? ---- */

/* If the only group is on the rank's own node, the bits are the same in order.  A single result would only be
 * converted; for f8e4m3 a conversion handles values that are too large differently than a reduction. */
bool rshi_reads_in_order(const rsh_plan *p, const rshi_pair *pair, const rshi_node_groups *g, int64_t rank) {
    if (!g->combined) return true;
    return g->n == 1 && (g->group->node == rshi_plan_node(p, rank) || rsh_layout_dtype(pair->to) == RSH_F8E4M3);
}

/* A search for a destination that reads results. */
typedef struct reader_search {
    const rsh_plan *p;
    const rshi_pair *pair;
    const rshi_piece *a; /* at partial position 0 */
    bool any;            /* was a node checked? */
    int64_t node;        /* the last one; it has a whole replica */
    bool found;
} reader_search;

/* Does the node have all contributions of some replica?  A rank on it must then hold contribution 0. */
static bool has_whole_replica(const reader_search *r, int64_t node) {
    rshi_node_ranks ranks = rshi_plan_node_ranks(r->p, node);
    for (int64_t i = 0; i < ranks.n; i++) {
        int64_t rank = r->p->rank[rshi_node_ranks_ordinal(&ranks, i)], k = 1;
        int64_t j = rshi_piece_holder_index(r->pair->from, r->a, rank);
        while (j >= 0 && k < r->pair->contributions && node_at(r->p, r->pair->from, r->a, k, j) == node) k++;
        if (j >= 0 && k == r->pair->contributions) return true;
    }
    return false;
}

/* A destination reads a replica that is whole on its node, if there is one, in order. */
static rsh_status find_reader(void *ctx, const rshi_piece *b) {
    reader_search *r = ctx;
    const rsh_layout *to = r->pair->to;
    int64_t partials = r->pair->fill_others ? 1 : rshi_layout_partials(to), holders = rshi_piece_holders(to, b);
    for (int64_t i = 0; i < partials; i++) {
        rshi_piece at;
        rshi_piece_at_partial(to, b, i, &at);
        for (int64_t j = 0; j < holders && !r->found; j++) {
            int64_t node = rshi_plan_node(r->p, rshi_piece_holder(to, &at, j));
            if (r->any && node == r->node) continue;
            r->found = !has_whole_replica(r, node);
            r->node = node, r->any = true;
        }
    }
    return r->found ? RSH_ERUNTIME : RSH_OK; /* ends the search */
}

/* If there is only one replica, and it is on several nodes, every destination reads results. */
static rsh_status are_results_read(const rsh_plan *p, const rshi_pair *pair, const rshi_piece *a,
                                   const rshi_node_groups *g, bool *is_read) {
    rshi_piece first;
    reader_search r = {.p = p, .pair = pair, .a = &first};
    bool only = rshi_piece_holders(pair->from, a) == 1;
    *is_read = only && g->n > 1;
    if (only && (g->n > 1 || rsh_layout_dtype(pair->to) == RSH_F8E4M3)) return RSH_OK;
    rshi_piece_at_partial(pair->from, a, 0, &first);
    rsh_status st = rshi_layout_search(pair->to, first.set, find_reader, &r);
    *is_read = r.found;
    return r.found ? RSH_OK : st;
}

/* ---- */

static rsh_status find_groups(const rsh_plan *p, const rshi_pair *pair, const rshi_piece *a, int64_t replica,
                              rshi_node_groups *g) {
    int64_t n = pair->contributions;
    placed *list = rshi_alloc((size_t)n, sizeof *list);
    *g = (rshi_node_groups){.replica = replica};
    g->position = rshi_alloc((size_t)n, sizeof *g->position);
    g->group = rshi_alloc((size_t)n, sizeof *g->group);
    g->group_of = rshi_alloc((size_t)n, sizeof *g->group_of);
    g->size = rshi_alloc((size_t)n, sizeof *g->size);
    bool there = list && g->position && g->group && g->group_of && g->size;
    for (int64_t i = 0; i < n && there; i++) list[i] = (placed){node_at(p, pair->from, a, i, replica), i};
    if (there) {
        qsort(list, (size_t)n, sizeof *list, by_node);
        list_groups(list, n, g);
        g->combined = rshi_mul_most(g->n, (int64_t)rsh_dtype_size(rshi_pair_accumulator(pair))) <
                      rshi_mul_most(n, (int64_t)rsh_dtype_size(rsh_layout_dtype(pair->from)));
    }
    rshi_free(list);
    return there ? RSH_OK : rshi_nomem();
}

static void free_groups(rshi_node_groups *g) {
    rshi_free(g->position);
    rshi_free(g->group);
    rshi_free(g->group_of);
    rshi_free(g->size);
    *g = (rshi_node_groups){0};
}

/* ---- kept from one region to the next ---- */

struct rshi_kept_groups {
    int64_t tensor;        /* -1: nothing is kept */
    rshi_piece first;      /* at its first holder and partial position 0 */
    bool read_known, read; /* does any destination read results of nodes? */
    rshi_node_groups groups;
};

void rshi_kept_groups_free(rshi_kept_groups *k) {
    if (k) free_groups(&k->groups);
    rshi_free(k);
}

rsh_status rshi_walk_groups(rshi_walk *w, int64_t tensor, const rshi_piece *a, int64_t replica,
                            const rshi_node_groups **out) {
    const rshi_pair *pair = &w->p->pair[tensor];
    rshi_piece first;
    if (!w->groups) {
        if (!(w->groups = RSHI_NEW(rshi_kept_groups))) return rshi_nomem();
        w->groups->tensor = -1;
    }
    rshi_kept_groups *k = w->groups;
    *out = &k->groups;
    rshi_piece_at_partial(pair->from, a, 0, &first);
    rshi_piece_at_holder(pair->from, &first, 0, &first);
    bool same_piece = k->tensor == tensor && rshi_same_piece(pair->from, &k->first, &first);
    if (same_piece && k->groups.replica == replica) return RSH_OK;
    free_groups(&k->groups);
    k->tensor = -1; /* incomplete until the end */
    k->first = first;
    k->read_known = k->read_known && same_piece;
    RSH_TRY(find_groups(w->p, pair, a, replica, &k->groups));
    if (k->groups.combined && !k->read_known) RSH_TRY(are_results_read(w->p, pair, a, &k->groups, &k->read));
    k->read_known = k->read_known || k->groups.combined;
    k->groups.combined = k->groups.combined && k->read;
    k->tensor = tensor;
    return RSH_OK;
}
