/* Serve: which holder of a source piece serves a destination?
 *
 * The destination's own copy comes first, then copies on its node, then all others.  Among k candidates in mesh
 * order, candidate `turn` mod k serves (rshi_candidate_at_turn), so that replicas share the work.  Code that receives,
 * sends or transposes asks here.  Two files repeat the order own, node, others: direct_totals.c applies it to whole
 * parts, and receive_overlapping.c to copies in pieces of different shape.  The caller passes the turn: it is
 * rshi_turn_of_rank, except for slices, whose turns are in route.c. */
#include "plan/impl.h"

/* The candidates for one destination: all holders, or those on its node. */
typedef struct candidates {
    int64_t n;
    bool on_node; /* only holders on the destination's node are candidates */
    int64_t own;  /* holder number of the destination itself, which is then the only candidate; -1: it is no holder */
} candidates;

/* Searches the holders or the ranks of the node, whichever are fewer. */
int64_t rshi_holders_on(const rsh_plan *p, const rsh_layout *l, const rshi_piece *a, int64_t node) {
    int64_t k = rshi_piece_holders(l, a), n = 0;
    if (k == 1) return rshi_plan_node(p, rshi_piece_holder(l, a, 0)) == node;
    rshi_node_ranks c = rshi_plan_node_ranks(p, node);
    for (int64_t j = 0; j < k && k <= c.n; j++) n += rshi_plan_node(p, rshi_piece_holder(l, a, j)) == node;
    for (int64_t i = 0; i < c.n && k > c.n; i++)
        n += rshi_piece_holder_index(l, a, p->rank[rshi_node_ranks_ordinal(&c, i)]) >= 0;
    return n;
}

/* Returns the next holder after number j on the node; INT64_MAX: none. */
static int64_t next_holder_on(const rsh_plan *p, const rsh_layout *l, const rshi_piece *a, int64_t node, int64_t j) {
    int64_t k = rshi_piece_holders(l, a), next = INT64_MAX;
    rshi_node_ranks c = rshi_plan_node_ranks(p, node);
    for (j++; k <= c.n && j < k; j++)
        if (rshi_plan_node(p, rshi_piece_holder(l, a, j)) == node) return j;
    for (int64_t i = 0; i < c.n && k > c.n; i++) {
        int64_t at = rshi_piece_holder_index(l, a, p->rank[rshi_node_ranks_ordinal(&c, i)]);
        if (at >= j) next = rshi_min(next, at);
    }
    return next;
}

static candidates candidates_for(const rsh_plan *p, const rsh_layout *from, const rshi_piece *a, int64_t rank) {
    int64_t own = rshi_piece_holder_index(from, a, rank);
    if (own >= 0) return (candidates){1, false, own};
    candidates c = {rshi_piece_holders(from, a), false, -1};
    if (p->several_nodes && c.n > 1) {
        int64_t on_node = rshi_holders_on(p, from, a, rshi_plan_node(p, rank));
        if (on_node) c.n = on_node, c.on_node = true;
    }
    return c;
}

/* Returns the holder number of the candidate at that turn. */
static int64_t candidate_at(const rsh_plan *p, const rsh_layout *from, const rshi_piece *a, const candidates *c,
                            int64_t rank, int64_t turn) {
    int64_t i = rshi_candidate_at_turn(turn, c->n);
    if (c->own >= 0) return c->own;
    if (!c->on_node) return i;
    int64_t node = rshi_plan_node(p, rank), j = -1;
    do j = next_holder_on(p, from, a, node, j);
    while (i-- > 0);
    return j;
}

int64_t rshi_serving_candidates(const rsh_plan *p, const rshi_pair *pair, const rshi_piece *a, int64_t rank) {
    if (pair->by_node) return 1; /* a replica serves as a whole */
    return candidates_for(p, pair->from, a, rank).n;
}

int64_t rshi_serving_holder(const rsh_plan *p, const rshi_pair *pair, const rshi_piece *a, int64_t rank, int64_t turn) {
    if (pair->by_node) return rshi_replica(p, pair, a, rank, turn);
    if (rshi_piece_holders(pair->from, a) == 1) return 0;
    candidates c = candidates_for(p, pair->from, a, rank);
    return candidate_at(p, pair->from, a, &c, rank, turn);
}
