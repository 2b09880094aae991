/* The plan itself, seen by this room only. */
#ifndef RESHARD_PLAN_IMPL_H
#define RESHARD_PLAN_IMPL_H

#include "plan/plan.h"

#define RSHI_PLAN_VERSION                                                                          \
    3 /* part of every fingerprint: raise it when the same input gives other edges */

typedef struct rshi_pair {
    rsh_layout *from, *to; /* owned */
    bool reduce;           /* all partial positions of `from` are combined */
    bool keep;             /* partial to partial: each position moves on its own */
    bool fill_others; /* positions of `to` other than 0 along its partial axes get the identity */
    int64_t contributions; /* partial positions that are combined; 1 for copies */
    int64_t wire_size;
    bool irregular;        /* see rshi_layout_irregular(from) */
    bool slice;            /* cut what several replicas could send */
    bool spread; /* what more nodes want than ranks hold is scattered over the nodes, which exchange
                    it */
} rshi_pair;

struct rsh_plan {
    int64_t n;
    rshi_pair *pair;  /* owned, n of them */
    int64_t *node_of; /* owned, NULL unless given */
    int64_t nnode_of, ranks_per_node;
    rsh_reduce reduce;
    bool messages;
    bool has_ceiling; /* is `ceiling` a limit on the scratch of a rank? */
    int64_t ceiling;
    int64_t send_bytes, recv_bytes; /* chunks of message transport */
    bool adjoint; /* the transpose of what the pairs say */
    int stages;
    int64_t *rank; /* owned: the distinct ranks of all layouts, ascending */
    int64_t nranks;
    uint64_t fingerprint;
};

static inline int64_t rshi_plan_node(const rsh_plan *p, int64_t rank) {
    if (p->node_of) return p->node_of[rank];
    return p->ranks_per_node ? rank / p->ranks_per_node : 0;
}
static inline bool rshi_plan_has_nodes(const rsh_plan *p) {
    return p->node_of || p->ranks_per_node;
}

#define RSHI_SLICE_BYTES                                                                           \
    ((int64_t)16 << 10) /* what ranks send is not cut finer than this, except inside a node */

/* Where part i of n begins in `extent` indices: the first ones are longer by one where it does not
 * divide. */
static inline int64_t rshi_part_start(int64_t extent, int64_t n, int64_t i) {
    return i * (extent / n) + rshi_min(i, extent % n);
}
/* a * b >= 0, or the largest number where that does not fit. */
static inline int64_t rshi_mul_most(int64_t a, int64_t b) {
    int64_t c;
    return rshi_mul(a, b, &c) ? c : INT64_MAX;
}

/* RSH_EVALUE naming both shapes if they differ. */
rsh_status rshi_check_shapes(const rsh_layout *from, const rsh_layout *to);

/* Where a rank stands in p->rank. */
int64_t rshi_plan_ordinal(const rsh_plan *p, int64_t rank);

/* Edges between one source piece (at its first holder, partial position 0) and one destination
 * piece at its rank. */
rsh_status rshi_pair_edges(const rsh_plan *p, int64_t tensor, const rshi_piece *a,
                           const rshi_piece *b, rshi_edge_fn fn, void *ctx);
/* The rank that holds source piece `a` (at any partial position) for destination `rank`. */
int64_t rshi_serving_rank(const rsh_plan *p, const rshi_pair *pair, const rshi_piece *a,
                          int64_t rank);
/* The same for the owner of an edge: whose source piece `a` the edge's region came from in stage 0.
 */
int64_t rshi_edge_origin(const rsh_plan *p, const rshi_edge *e, const rshi_piece *a);

/* One slice of what source piece a and destination piece b have in common, cut along one dim, and
 * how b's rank comes by it. */
typedef struct rshi_slice {
    int64_t lo, hi; /* common indices of that dim, counted from 0 */
    int stage;
    int64_t holder; /* of b, whose destination is read; -1: the sources are */
    int64_t owner, turn; /* as in the edge */
} rshi_slice;
typedef rsh_status (*rshi_slice_fn)(void *ctx, const rshi_slice *s);
/* The slices of a region that is spread over nodes; `extent` common indices are cut.  *spread
 * false: it is not, and there are none. */
rsh_status rshi_spread_slices(const rsh_plan *p, const rshi_pair *pair, const rshi_piece *a,
                              const rshi_piece *b, int64_t extent, rshi_slice_fn fn, void *ctx,
                              bool *spread);

/* A plain edge of the pair from piece a itself into b: the whole of what they have in common. */
void rshi_edge_init(const rsh_plan *p, int64_t tensor, const rshi_piece *a, const rshi_piece *b,
                    rshi_edge *e);
/* Edges into destination piece b at its rank. */
rsh_status rshi_piece_receives(const rsh_plan *p, int64_t tensor, const rshi_piece *b,
                               rshi_edge_fn fn, void *ctx);
/* The same for irregular sources: the rank's own copies first, then those of its node, the rest
 * from first copies. */
rsh_status rshi_irregular_receives(const rsh_plan *p, int64_t tensor, const rshi_piece *b,
                                   rshi_edge_fn fn, void *ctx);
/* Destination pieces that meet source piece a, at every rank and partial position that holds them.
 */
rsh_status rshi_piece_targets(const rsh_plan *p, int64_t tensor, const rshi_piece *a,
                              rshi_piece_fn fn, void *ctx);

rsh_status rshi_adjoint_receives(const rsh_plan *p, int64_t rank, rshi_edge_fn fn, void *ctx);
rsh_status rshi_adjoint_sends(const rsh_plan *p, int64_t rank, rshi_edge_fn fn, void *ctx);

/* Can what all ranks receive and keep be counted in an int64?  Otherwise totals and views are
 * refused. */
rsh_status rshi_plan_fits(const rsh_plan *p, bool *fits);
/* Totals by walking every edge, and, for plain layouts, by sums over dims.  `walked` says that the
 * plan has no shorter way. */
bool rshi_plan_factorises(const rsh_plan *p);
rsh_status rshi_totals_by_walk(const rsh_plan *p, rsh_plan_totals *t);
rsh_status rshi_totals_by_factors(const rsh_plan *p, rsh_plan_totals *t);
rsh_status rshi_view_by_factors(const rsh_plan *p, int64_t rank, rsh_plan_view *v);
/* Lower bounds; they never look at edges. */
rsh_status rshi_lower_bound(const rsh_plan *p, int64_t *bytes);
rsh_status rshi_lower_bound_between_nodes(const rsh_plan *p, int64_t *bytes);

/* Set send_bytes and recv_bytes.  RSH_ENOMEM if messages were asked for and do not fit under the
 * ceiling. */
rsh_status rshi_plan_size_chunks(rsh_plan *p);

/* Elements that two pieces have in common. */
int64_t rshi_pieces_common(const rsh_layout *l, const rshi_piece *a, const rshi_piece *b);

/* Should regions be spread over nodes, and should what replicas send be cut into slices?  Set on
 * every pair by looking at the largest send. */
rsh_status rshi_plan_choose_slices(rsh_plan *p);

#endif
