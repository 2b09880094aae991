/* Serve: which of the ranks that hold a source piece gives it to a destination.
 *
 * The destination's own copy comes first, then the holders on its node, then all others; among k candidates in mesh
 * order the destination whose turn is d takes number d mod k, so that replicas share the work. */
#include "plan/impl.h"

/* Candidates for one destination: all holders, or those on its node. */
typedef struct candidates {
    int64_t n;
    bool near; /* only holders on the destination's node count */
    bool own;  /* n is 1 and it is the destination itself: `first` */
    int64_t first;
} candidates;

/* Holders are looked for among the ranks of the node, or where these are more the other way round. */
int64_t rshi_holders_on(const rsh_plan *p, const rsh_layout *l, const rshi_piece *a, int64_t node) {
    int64_t k = rshi_piece_holders(l, a), n = 0;
    if (k == 1) return rshi_plan_node(p, rshi_piece_holder(l, a, 0)) == node;
    rshi_crew c = rshi_plan_crew(p, node);
    for (int64_t j = 0; j < k && k <= c.n; j++) n += rshi_plan_node(p, rshi_piece_holder(l, a, j)) == node;
    for (int64_t i = 0; i < c.n && k > c.n; i++)
        n += rshi_piece_holder_index(l, a, p->rank[rshi_crew_ordinal(&c, i)]) >= 0;
    return n;
}

/* The next holder after number j that is on the node; INT64_MAX: none. */
static int64_t next_holder_on(const rsh_plan *p, const rsh_layout *l, const rshi_piece *a, int64_t node, int64_t j) {
    int64_t k = rshi_piece_holders(l, a), next = INT64_MAX;
    rshi_crew c = rshi_plan_crew(p, node);
    for (j++; k <= c.n && j < k; j++)
        if (rshi_plan_node(p, rshi_piece_holder(l, a, j)) == node) return j;
    for (int64_t i = 0; i < c.n && k > c.n; i++) {
        int64_t at = rshi_piece_holder_index(l, a, p->rank[rshi_crew_ordinal(&c, i)]);
        if (at >= j) next = rshi_min(next, at);
    }
    return next;
}

static candidates candidates_for(const rsh_plan *p, const rsh_layout *from, const rshi_piece *a, int64_t rank) {
    int64_t own = rshi_piece_holder_index(from, a, rank);
    if (own >= 0) return (candidates){1, false, true, own};
    candidates c = {rshi_piece_holders(from, a), false, false, 0};
    if (rshi_plan_has_nodes(p) && c.n > 1) {
        int64_t near = rshi_holders_on(p, from, a, rshi_plan_node(p, rank));
        if (near) c.n = near, c.near = true;
    }
    return c;
}

/* Which of n candidates it is at that turn. */
static int64_t number_of(int64_t turn, int64_t n) { return turn % n; }

static int64_t turn_of(const rshi_pair *pair, int64_t rank) { return rshi_layout_position(pair->to, rank); }

/* The candidate at turn i as a holder index. */
static int64_t candidate(const rsh_plan *p, const rsh_layout *from, const rshi_piece *a, const candidates *c,
                         int64_t rank, int64_t i) {
    if (c->own) return c->first;
    i = number_of(i, c->n);
    if (!c->near) return i;
    int64_t node = rshi_plan_node(p, rank), j = -1;
    do j = next_holder_on(p, from, a, node, j);
    while (i-- > 0);
    return j;
}

int64_t rshi_serving_candidates(const rsh_plan *p, const rshi_pair *pair, const rshi_piece *a, int64_t rank) {
    if (pair->by_node) return 1; /* a replica as a whole */
    return candidates_for(p, pair->from, a, rank).n;
}

int64_t rshi_serving_holder(const rsh_plan *p, const rshi_pair *pair, const rshi_piece *a, int64_t rank, int64_t turn) {
    if (pair->by_node) return rshi_replica(p, pair, a, rank, turn);
    if (rshi_piece_holders(pair->from, a) == 1) return 0;
    candidates c = candidates_for(p, pair->from, a, rank);
    return candidate(p, pair->from, a, &c, rank, turn);
}

int64_t rshi_serving_rank(const rsh_plan *p, const rshi_pair *pair, const rshi_piece *a, int64_t rank) {
    return rshi_piece_holder(pair->from, a, rshi_serving_holder(p, pair, a, rank, turn_of(pair, rank)));
}

rshi_server rshi_server_of(const rshi_pair *pair, const rshi_piece *a) {
    return (rshi_server){a, rshi_piece_holders(pair->from, a), rshi_piece_holder_index(pair->from, a, a->rank)};
}

/* The rule of `candidate` with the cheap question first: most ranks are served by others.  With nodes only those of its
 * own are served out of turn. */
bool rshi_may_serve(const rsh_plan *p, const rshi_pair *pair, const rshi_server *s, int64_t rank, bool relayed) {
    if (rank == s->a->rank) return false;
    if (pair->keep || pair->irregular || pair->reduce || pair->slice || pair->spread || s->holders == 1) return true;
    if (rshi_plan_has_nodes(p)) {
        int64_t turn = turn_of(pair, rank);
        return rshi_plan_node(p, rank) == rshi_plan_node(p, s->a->rank) || number_of(turn, s->holders) == s->index ||
               (relayed && number_of(rshi_relay_turn(pair->to, turn), s->holders) == s->index);
    }
    if (number_of(turn_of(pair, rank), s->holders) != s->index) return false;
    return rshi_piece_holder_index(pair->from, s->a, rank) < 0;
}

int64_t rshi_edge_origin(const rsh_plan *p, const rshi_edge *e, const rshi_piece *a) {
    const rshi_pair *pair = &p->pair[e->tensor];
    return rshi_piece_holder(pair->from, a, rshi_serving_holder(p, pair, a, e->owner, e->turn));
}
