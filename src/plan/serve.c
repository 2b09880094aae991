/* Serve: which of the ranks that hold a source piece gives it to a destination.
 *
 * The destination's own copy comes first, then the holders on its node, then all others; among k candidates in mesh
 * order the destination whose turn is d takes number d mod k, so that replicas share the work. */
#include "plan/relay.h"

#include <stdlib.h>

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
static int64_t number_of(int64_t turn, int64_t n) { return n & (n - 1) ? turn % n : turn & (n - 1); }

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

/* ---- what is near ---- */

static rsh_status list_first(const rsh_plan *p, const rsh_layout *l, const rshi_crew *c, rshi_vicinity *v) {
    RSH_TRY(RSHI_GROW(v->first, rshi_max(1, c->n), &v->room));
    for (int64_t i = 0; i < c->n; i++) {
        int64_t position = rshi_layout_position(l, p->rank[rshi_crew_ordinal(c, i)]);
        if (position >= 0) v->first[v->n++] = rshi_layout_first_position(l, position);
    }
    qsort(v->first, (size_t)v->n, sizeof *v->first, rshi_compare_int64);
    return RSH_OK;
}

rsh_status rshi_vicinity_find(const rsh_plan *p, int64_t tensor, int64_t rank, rshi_rank_edges *edges,
                              const rshi_vicinity **out) {
    const rsh_layout *l = p->pair[tensor].from;
    rshi_vicinity *v = &edges->near;
    int64_t place = rshi_plan_has_nodes(p) ? rshi_plan_node(p, rank) : rank;
    *out = v;
    if (v->complete && v->tensor == tensor && v->place == place) return RSH_OK;
    v->tensor = tensor, v->place = place;
    v->complete = false;
    v->known = rshi_layout_has_groups(l);
    v->n = 0;
    rshi_crew alone = {NULL, rshi_plan_ordinal(p, rank), 1};
    rshi_crew node = rshi_plan_has_nodes(p) ? rshi_plan_crew(p, place) : alone;
    if (v->known) RSH_TRY(list_first(p, l, &node, v));
    v->complete = true;
    return RSH_OK;
}

bool rshi_vicinity_may_have(const rshi_vicinity *v, int64_t position) {
    if (!v->known) return true;
    if (!v->n || position < v->first[0] || position > v->first[v->n - 1]) return false;
    return rshi_find(v->first, v->n, sizeof *v->first, position) >= 0;
}

int64_t rshi_serving_far_or_near(const rsh_plan *p, const rshi_pair *pair, const rshi_vicinity *v, const rshi_piece *a,
                                 int64_t rank, int64_t turn) {
    if (pair->by_node || rshi_vicinity_may_have(v, a->position)) return rshi_serving_holder(p, pair, a, rank, turn);
    return number_of(turn, rshi_piece_holders(pair->from, a));
}

/* ---- whom a rank serves ---- */

rshi_server rshi_server_of(const rsh_plan *p, const rshi_pair *pair, const rshi_piece *a) {
    int64_t holders = rshi_piece_holders(pair->from, a), index = rshi_piece_holder_index(pair->from, a, a->rank);
    return (rshi_server){.a = a, .holders = holders, .index = index, .node = rshi_plan_node(p, a->rank)};
}

void rshi_server_free(rshi_server *s) { rshi_free(s->close); }

/* The ranks of a node that have something of the destination. */
static void note_close(const rsh_plan *p, const rsh_layout *to, int64_t node, uint64_t *close) {
    rshi_crew c = rshi_plan_crew(p, node);
    for (int64_t i = 0; i < c.n; i++) {
        int64_t at = rshi_layout_position(to, p->rank[rshi_crew_ordinal(&c, i)]);
        if (at >= 0) close[at / 64] |= UINT64_C(1) << at % 64;
    }
}

/* Each node once.  Without memory for it ranks are looked at one by one. */
static void note_all_close(const rsh_plan *p, const rshi_pair *pair, rshi_server *s) {
    int64_t *node = rshi_alloc((size_t)s->holders, sizeof *node);
    if (node) s->close = rshi_calloc((size_t)rshi_layout_positions(pair->to) / 64 + 1, sizeof *s->close);
    for (int64_t j = 0; s->close && j < s->holders; j++)
        node[j] = rshi_plan_node(p, rshi_piece_holder(pair->from, s->a, j));
    if (s->close) qsort(node, (size_t)s->holders, sizeof *node, rshi_compare_int64);
    for (int64_t j = 0; s->close && j < s->holders; j++)
        if (!j || node[j] != node[j - 1]) note_close(p, pair->to, node[j], s->close);
    rshi_free(node);
}

static bool is_close(const rshi_server *s, int64_t position) { return s->close[position / 64] >> position % 64 & 1; }

#define FEW_LOOKS 64 /* beyond that it pays to note who is close to any holder */

bool rshi_server_is_near(const rsh_plan *p, const rshi_pair *pair, rshi_server *s, int64_t rank, int64_t position) {
    if (s->holders == 1) return rshi_plan_node(p, rank) == s->node;
    if (!s->close && s->looks++ == FEW_LOOKS) note_all_close(p, pair, s);
    return s->close ? is_close(s, position) : rshi_holders_on(p, pair->from, s->a, rshi_plan_node(p, rank)) > 0;
}

/* Do the holders of a piece take turns, all by the same rule? */
static bool serve_in_turn(const rshi_pair *pair) {
    return !(pair->keep || pair->irregular || pair->reduce || pair->slice || pair->spread);
}

/* The rule of `candidate` with the cheap questions first: most ranks are served by others.  With nodes only those of
 * its own are served out of turn. */
bool rshi_serves(const rsh_plan *p, const rshi_pair *pair, rshi_server *s, int64_t rank, int64_t position) {
    if (rank == s->a->rank) return false;
    if (s->holders == 1) return true;
    if (!serve_in_turn(pair)) return rshi_serving_holder(p, pair, s->a, rank, position) == s->index;
    bool in_turn = number_of(position, s->holders) == s->index;
    if (!in_turn && (!rshi_plan_has_nodes(p) || (s->close && !is_close(s, position)))) return false;
    if (!in_turn && rshi_plan_node(p, rank) != s->node) return false;
    if (rshi_piece_holder_index(pair->from, s->a, rank) >= 0) return false; /* it has its own */
    if (!rshi_plan_has_nodes(p)) return true;
    if (!rshi_server_is_near(p, pair, s, rank, position)) return in_turn;
    return rshi_serving_holder(p, pair, s->a, rank, position) == s->index;
}

bool rshi_may_serve(const rsh_plan *p, const rshi_pair *pair, const rshi_server *s, int64_t rank, int64_t position) {
    if (rank == s->a->rank) return false;
    if (s->holders == 1 || !serve_in_turn(pair) || number_of(position, s->holders) == s->index) return true;
    if (!rshi_plan_has_nodes(p)) return false;
    return rshi_plan_node(p, rank) == s->node ||
           number_of(rshi_relay_turn(pair->to, position), s->holders) == s->index;
}

bool rshi_serves_far(const rshi_server *s, int64_t turn) { return number_of(turn, s->holders) == s->index; }

int64_t rshi_edge_origin(const rsh_plan *p, const rshi_edge *e, const rshi_piece *a) {
    const rshi_pair *pair = &p->pair[e->tensor];
    return rshi_piece_holder(pair->from, a, rshi_serving_holder(p, pair, a, e->owner, e->turn));
}
