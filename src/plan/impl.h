/* The plan itself, seen by this room only. */
#ifndef RESHARD_PLAN_IMPL_H
#define RESHARD_PLAN_IMPL_H

#include <stdatomic.h>

#include "plan/plan.h"
#include "plan/passes.h"

#define RSHI_PLAN_VERSION                                                                          \
    11 /* part of every fingerprint: raise it when the same input gives other edges */

/* The layouts that a tensor passes through on its way: `to` with replicas removed.  Where several
 * ranks hold the same piece of `to`, each first gets only a slice of it. */
typedef enum rshi_chain {
    RSHI_CHAIN_DIRECT, /* from -> to */
    RSHI_CHAIN_NODE,   /* from -> slices, the whole piece on each node -> to */
    RSHI_CHAIN_ALL     /* from -> slices, one for each holder -> [slices on each node ->] to */
} rshi_chain;

/* One tensor: its layouts, and how it gets from one to the other. */
typedef struct rshi_pair {
    rsh_layout *src, *dst; /* owned: layouts of the buffers that are read and written */
    rsh_layout *from, *to; /* owned: the move that is planned.  These are src and dst, except in the
                              adjoint of a plan (adjoint.c) */
    bool transposed; /* adjoint: dst is `from`, src is `to`, and edges come from transposed.c */
    bool reduce;           /* all partial positions of `from` are combined */
    bool keep;             /* partial to partial: each position moves on its own */
    bool fill_others; /* positions of `to` other than 0 along its partial axes get the identity */
    int64_t contributions; /* partial positions that are combined; 1 for copies */
    int64_t divisor;       /* of what the sources give, for averages; 1: none */
    int64_t wire_size;     /* bytes of an element on its way from the sources */
    bool by_node;          /* nodes combine their contributions before they exchange anything */
    int64_t scratch_bytes; /* by_node: the most that a rank needs for it */
    bool irregular;        /* see rshi_layout_irregular(from) */
    bool odd;              /* see rshi_layout_irregular(to) */
    rshi_chain chain;
    bool slice; /* what several replicas of the source could send is cut into a slice for each */
    bool forward; /* chain `all`: ranks beside a source send to the other nodes in its place */
} rshi_pair;

/* Bytes of each stage. */
typedef struct rshi_stage_bytes {
    int64_t moved[RSHI_STAGES], between[RSHI_STAGES];
} rshi_stage_bytes;

typedef struct rshi_kept_totals {
    rsh_plan_totals totals;
    rshi_stage_bytes stages;
} rshi_kept_totals;

struct rsh_plan {
    atomic_long refs; /* holders; only they and `totals` change after the plan was made */
    _Atomic(rshi_kept_totals *) totals; /* owned: once somebody asked for them; NULL until then */
    int64_t n;
    rshi_pair *pair;  /* owned, n of them */
    int64_t *node_of; /* owned, NULL unless given */
    int64_t nnode_of, ranks_per_node;
    int64_t *by_node; /* owned, only beside node_of: ordinals of ranks by node, then ascending */
    rsh_reduce_order reduce;
    bool messages;
    bool several_nodes; /* are the plan's ranks on more than one node? */
    bool has_ceiling; /* is `ceiling` a limit on the scratch of a rank? */
    int64_t ceiling;
    int64_t send_bytes, recv_bytes; /* buffers of message transport */
    int64_t scratch_bytes; /* the most that a rank needs to combine by node */
    bool adjoint; /* the transpose of the plan from each `dst` to each `src` */
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

/* The dtype in which contributions are combined and nodes exchange results. */
static inline rsh_dtype rshi_pair_accumulator(const rshi_pair *pair) {
    return rshi_accumulator(rsh_layout_dtype(pair->from));
}

/* The ranks of the plan that are on a node. */
typedef struct rshi_crew {
    const int64_t *by_node; /* NULL: ordinal i is `first` + i */
    int64_t first, n;
} rshi_crew;
rshi_crew rshi_plan_crew(const rsh_plan *p, int64_t node);
rsh_status rshi_plan_sort_nodes(rsh_plan *p); /* sets by_node */
/* Its i-th rank, ascending, as an ordinal in p->rank. */
static inline int64_t rshi_crew_ordinal(const rshi_crew *c, int64_t i) {
    return c->by_node ? c->by_node[c->first + i] : c->first + i;
}

/* ---- edges ---- */

#define RSHI_SCRATCH (-1) /* part number of a piece that lies in the scratch of its rank, dense */

/* One edge: a region of a destination piece, and the pieces that it is made of.  The region is what
 * the sets of `with` and `dst` have in common inside [lo, hi).  nsrc 0: the region is filled with
 * the identity of `op`.  The first stage reads sources, whose sets are those of `with`.  Later
 * stages (from_dst) read what earlier ones left in the destination of another rank, whose sets are
 * those of `dst`. */
typedef struct rshi_edge {
    int64_t tensor;
    int stage;
    bool from_dst;
    const rsh_layout *src_layout, *dst_layout; /* whose pieces src and dst are */
    const rshi_piece *dst, *with;
    int64_t nsrc;
    const rshi_piece *src; /* nsrc of them, in the order in which they are combined */
    const int64_t *src_rank; /* NULL, or the rank of each source: then `src` is one piece, which
                                lies in the same place on all of them */
    bool all_contributions;  /* all nsrc contributions to `src` are read, and they are not listed */
    int64_t lo[RSH_MAX_NDIM], hi[RSH_MAX_NDIM];
    rsh_op op;         /* NONE for plain copies; AVG is told as SUM with a divisor */
    int64_t divisor;   /* 1: none */
    rsh_dtype src_dtype, dst_dtype;
    int64_t wire_size; /* bytes of an element on its way to another rank */
    int64_t series; /* not 0: edges of one source with this number that are taken one after the
                       other differ along series_dim at most, and in the rank */
    int series_dim;
} rshi_edge;

int64_t rshi_edge_count(const rshi_edge *e); /* elements of the region */
static inline int64_t rshi_edge_source(const rshi_edge *e, int64_t i) { /* its rank */
    return e->src_rank ? e->src_rank[i] : e->src[i].rank;
}
/* Is the rank among the sources of the edge?  Are all of them on the rank of its destination? */
bool rshi_edge_reads(const rshi_edge *e, int64_t rank);
bool rshi_edge_is_copy(const rshi_edge *e);

/* ---- the edges of a rank ---- */

/* A leg: indices [lo, hi) along the region's dim, and where one holder of b takes them from. */
typedef struct rshi_leg {
    int64_t lo, hi;
    int stage;      /* counted from the one that reads sources */
    int64_t holder; /* of b, whose destination is read; or RSHI_FROM_SOURCES */
    int64_t turn;   /* of the sources */
} rshi_leg;
typedef struct rshi_legs {
    rshi_leg *leg; /* owned */
    int64_t n, room;
} rshi_legs;

typedef rsh_status (*rshi_edge_fn)(void *ctx, const rshi_edge *e);

/* Edges on their way to `take`, one after the other.  What an edge points to lives until `take`
 * returns.  `rank` is the rank whose edges these are. */
typedef struct rshi_walk {
    const rsh_plan *p;
    int64_t rank;
    rshi_edge_fn take;
    void *ctx;
    bool sends;       /* only edges that read `rank` and lead into other ranks are wanted */
    bool whole_sends; /* sends list all their sources; else, where contributions are combined in
                         order, only `rank`: then a send costs the same however many there are */
    bool counts; /* edges are only counted: see all_contributions and rshi_pair_counts_parts */
    const rshi_stripe *box; /* NULL, or one range for each dim: other regions may be left out */
    int64_t nseries;        /* numbers of series that were given out */
    rshi_piece *src;        /* owned: room for sources */
    int64_t src_room;
    int64_t *src_rank; /* owned: room for their ranks */
    int64_t src_rank_room;
    struct rshi_crews *crews; /* owned: holders of the destination piece that was looked at last */
    struct rshi_near *near;   /* owned: those of them that are on a node with a source */
    int64_t *team; /* owned: members of the team that was asked for last */
    int64_t team_room;
    rshi_legs legs; /* owned: of the region at hand */
    struct rshi_kept_groups *groups; /* owned: contributions by node of the piece asked for last */
} rshi_walk;
void rshi_walk_free(rshi_walk *w); /* what it owns */
typedef struct rshi_kept_groups rshi_kept_groups;
void rshi_kept_groups_free(rshi_kept_groups *k);

/* All edges into w->rank of one tensor; and all edges out of it into other ranks. */
rsh_status rshi_receive_tensor(rshi_walk *w, int64_t tensor);
/* The edges into w->rank of the move from `from` to `to`, also if the pair is transposed. */
rsh_status rshi_receive_forward(rshi_walk *w, int64_t tensor);
rsh_status rshi_send_tensor(rshi_walk *w, int64_t tensor);
/* The same for all tensors. */
rsh_status rshi_receive_all(rshi_walk *w);
rsh_status rshi_send_all(rshi_walk *w);

/* ---- slices ---- */

#define RSHI_SLICE_BYTES                                                                           \
    ((int64_t)16 << 10) /* what one rank sends of a region is not cut finer than this */

/* Where slice i of n begins in `extent` indices: the first ones are longer by one where it does not
 * divide. */
static inline int64_t rshi_slice_start(int64_t extent, int64_t n, int64_t i) {
    return i * (extent / n) + rshi_min(i, extent % n);
}
/* The last slice that begins at index i or before it. */
static inline int64_t rshi_slice_at(int64_t extent, int64_t n, int64_t i) {
    int64_t each = extent / n, longer = extent % n, border = longer * (each + 1);
    if (!each) return i < longer ? i : n - 1;
    return i < border ? i / (each + 1) : rshi_min(n - 1, longer + (i - border) / each);
}
/* Where slice i of n of a stripe begins, as an index of the dim; for i = n its end. */
int64_t rshi_stripe_slice(const rshi_stripe *s, int64_t n, int64_t i);
/* The dim along which a piece is cut: the longest, the outermost of equals. */
int rshi_piece_longest_dim(const rsh_layout *l, const rshi_piece *p);
/* a * b >= 0, or the largest number where that does not fit. */
static inline int64_t rshi_mul_most(int64_t a, int64_t b) {
    int64_t c;
    return rshi_mul(a, b, &c) ? c : INT64_MAX;
}

/* ---- who serves a destination ---- */

/* The holder, by number, of source piece `a` (at any partial position) that serves `rank`: its own
 * copy; else one of its node, else any.  Among k candidates in mesh order number turn mod k is
 * taken.  Where nodes combine first it is the replica, the same for all contributions. */
int64_t rshi_serving_holder(const rsh_plan *p, const rshi_pair *pair, const rshi_piece *a,
                            int64_t rank, int64_t turn);
/* How many candidates there are. */
int64_t rshi_serving_candidates(const rsh_plan *p, const rshi_pair *pair, const rshi_piece *a,
                                int64_t rank);
/* Holders of a piece of layout `l` that are on a node. */
int64_t rshi_holders_on(const rsh_plan *p, const rsh_layout *l, const rshi_piece *a, int64_t node);

/* ---- regions and legs ---- */

/* A region: what source piece `a` and destination piece `b` have in common. */
typedef struct rshi_region {
    const rsh_plan *p;
    const rshi_pair *pair;
    int64_t tensor;
    const rshi_piece *a; /* at its first holder; at partial position 0, or b's where that is kept */
    const rshi_piece *b; /* at any holder */
    int dim;             /* along which it is cut */
    int64_t lo, hi;      /* its range along the dim */
    int64_t bytes;       /* on their way; of a region that is cut and one block along the dim */
} rshi_region;
void rshi_region_init(const rsh_plan *p, int64_t tensor, const rshi_piece *a, const rshi_piece *b,
                      rshi_region *r);
/* The legs of holder `me` of b that read `from`: a holder of b, the sources, or any of them. */
#define RSHI_FROM_SOURCES (-1)
#define RSHI_FROM_ANY (-2)
rsh_status rshi_route(rshi_walk *w, const rshi_region *r, int64_t me, int64_t from, rshi_legs *out);
/* Calls fn for each holder of b that may have legs which read `me`; and for each holder that takes
 * [lo, hi) from the sources, which `me` ends up with. */
typedef rsh_status (*rshi_holder_fn)(void *ctx, int64_t holder);
typedef rsh_status (*rshi_origin_fn)(void *ctx, int64_t holder, int64_t lo, int64_t hi);
rsh_status rshi_route_readers(rshi_walk *w, const rshi_region *r, int64_t me, rshi_holder_fn fn,
                              void *ctx);
rsh_status rshi_route_origins(rshi_walk *w, const rshi_region *r, int64_t me, rshi_origin_fn fn,
                              void *ctx);
/* Does every region of a destination piece with so many holders have one leg, from the sources? */
bool rshi_goes_directly(const rshi_pair *pair, int64_t holders);
/* Stages of the move from `from` to `to`; and of the pair, also if it is transposed. */
int rshi_chain_stages(const rsh_plan *p, const rshi_pair *pair);
int rshi_pair_stages(const rsh_plan *p, const rshi_pair *pair);

/* Hands over the edge of a leg into b's holder `dst`, if it is wanted. */
rsh_status rshi_region_give(rshi_walk *w, const rshi_region *r, const rshi_piece *dst,
                            const rshi_leg *leg);
/* Does `own`, a copy of the region's source piece, serve that rank at that turn? */
bool rshi_region_serves(const rshi_region *r, int64_t rank, int64_t turn, const rshi_piece *own);
/* Hands over an edge, if it is wanted. */
rsh_status rshi_walk_give(rshi_walk *w, const rshi_edge *e);
/* Room for n pieces, until it is asked for again; NULL and a message: no memory. */
rshi_piece *rshi_walk_room(rshi_walk *w, int64_t n);

/* A plain edge of the pair from piece a itself into b: the whole of what they have in common. */
void rshi_edge_init(const rsh_plan *p, int64_t tensor, const rshi_piece *a, const rshi_piece *b,
                    rshi_edge *e);
/* The same edge into another piece of the destination. */
void rshi_edge_aim(rshi_edge *e, const rshi_piece *b);
/* The edges that follow are made of pieces of a series, on one side.  If ranks hold the same or
 * nothing in common, copies of a piece lie in their parts in the same place. */
static inline void rshi_edge_begin_series(rshi_edge *e, const rshi_series *series, rshi_walk *w) {
    e->series = series->coordinate && rshi_layout_has_groups(series->l) ? ++w->nseries : 0;
    e->series_dim = series->dim;
}

/* Edges into destination piece b, at its rank. */
rsh_status rshi_receive_piece(rshi_walk *w, int64_t tensor, const rshi_piece *b);
/* The same for copies of an irregular source, whose pieces overlap one another. */
rsh_status rshi_receive_copies(rshi_walk *w, int64_t tensor, const rshi_piece *b);
/* Edges of a pair that is transposed. */
rsh_status rshi_adjoint_receives(rshi_walk *w, int64_t tensor);
rsh_status rshi_adjoint_sends(rshi_walk *w, int64_t tensor);

/* A transposed edge from b into `a`: the whole of what they have in common. */
void rshi_transposed_edge(const rshi_pair *pair, int64_t tensor, const rshi_piece *a,
                          const rshi_piece *b, rshi_edge *e);
/* Transposed reductions whose results were combined slice by slice (transposed_slices.c).  `a` is
 * the source piece at its first holder and contribution 0, b the destination piece. */
bool rshi_transposes_slices(const rshi_pair *pair);
/* Edges into `own`, a copy of a. */
rsh_status rshi_receive_transposed_slices(rshi_walk *w, int64_t tensor, const rshi_piece *a,
                                          const rshi_piece *own, const rshi_piece *b);
/* Edges out of w->rank, which holds b; and, after that, out of `own`, its copy of a. */
rsh_status rshi_send_transposed_terms(rshi_walk *w, int64_t tensor, const rshi_piece *a,
                                      const rshi_piece *b);
rsh_status rshi_send_transposed_sums(rshi_walk *w, int64_t tensor, const rshi_piece *a,
                                     const rshi_piece *own, const rshi_piece *b);

bool rshi_same_start(const rsh_layout *l, const rshi_piece *a, const rshi_piece *b);
/* Are two pieces, each at its first holder, the same? */
static inline bool rshi_same_piece(const rsh_layout *l, const rshi_piece *a, const rshi_piece *b) {
    return a->position == b->position && rshi_same_start(l, a, b);
}
/* Elements that two pieces have in common. */
int64_t rshi_pieces_common(const rsh_layout *l, const rshi_piece *a, const rshi_piece *b);

/* ---- contributions by node ---- */

/* Contributions of one replica that lie on one node. */
typedef struct rshi_node_group {
    int64_t node, n;
    const int64_t *position; /* n of them, ascending */
} rshi_node_group;
typedef struct rshi_node_groups {
    int64_t replica;        /* number of the holder of each contribution */
    rshi_node_group *group; /* owned: by lowest position */
    int64_t n;
    int64_t *position; /* owned: behind the groups */
    int64_t *group_of; /* owned: which group a position is in */
    int64_t *size;     /* owned: how many positions groups have, each number once */
    int64_t nsizes;
    bool combined;     /* nodes combine first; false: destinations read contributions in order */
} rshi_node_groups;
/* The replica of source piece `a` that serves `rank`: the one with most contributions on its node;
 * among k equals number turn mod k. */
int64_t rshi_replica(const rsh_plan *p, const rshi_pair *pair, const rshi_piece *a, int64_t rank,
                     int64_t turn);
/* Does the rank read the contributions in order, rather than results of nodes? */
bool rshi_reads_in_order(const rsh_plan *p, const rshi_pair *pair, const rshi_node_groups *g,
                         int64_t rank);
/* RSH_ENOMEM: free it all the same. */
rsh_status rshi_node_groups_find(const rsh_plan *p, const rshi_pair *pair, const rshi_piece *a,
                                 int64_t replica, rshi_node_groups *g);
void rshi_node_groups_free(rshi_node_groups *g);
/* The same, kept in `w` for the next region of the same source piece. */
rsh_status rshi_walk_groups(rshi_walk *w, int64_t tensor, const rshi_piece *a, int64_t replica,
                            const rshi_node_groups **out);
/* Does the group leave a result in scratch? */
bool rshi_node_group_has_result(const rshi_pair *pair, const rshi_node_groups *g,
                                const rshi_node_group *group);

/* Indices start to end - 1 of a piece along its longest dim. */
typedef struct rshi_piece_slice {
    int dim;
    int64_t start, end;
} rshi_piece_slice;
rshi_piece_slice rshi_piece_slice_of(const rsh_layout *l, const rshi_piece *a, int64_t n,
                                     int64_t i);
/* Which slice has index i, counted along the piece's longest dim. */
int64_t rshi_piece_slice_at(const rsh_layout *l, const rshi_piece *a, int64_t n, int64_t i);
/* Where the result of slice s of source piece `a`, at its rank, lies in that rank's scratch. */
rsh_status rshi_node_result_piece(const rsh_plan *p, const rshi_pair *pair, const rshi_piece *a,
                                  const rshi_piece_slice *s, rshi_piece *out);
/* The edges into the scratch of w->rank, or, of its sends, those into the scratch of others. */
rsh_status rshi_node_result_edges(rshi_walk *w, int64_t tensor);
/* The edges of `whole`, a region with its destination, that read one result for each node. */
rsh_status rshi_by_node_edges(rshi_walk *w, const rshi_region *r, const rshi_edge *whole,
                              int64_t turn);

/* ---- plans ---- */

/* As rsh_plan_new_many; adjoint: its transpose. */
rsh_status rshi_plan_make(int64_t n, const rsh_layout *const *from, const rsh_layout *const *to,
                          const rsh_plan_opts *opts, bool adjoint, rsh_plan **out);
/* Turns a pair into the transposed move. */
rsh_status rshi_pair_transpose(rshi_pair *pair);
/* Sets what follows from the layouts `from` and `to` of the pair. */
rsh_status rshi_pair_settle(rshi_pair *pair);
/* RSH_EVALUE naming both shapes if they differ. */
rsh_status rshi_check_shapes(const rsh_layout *from, const rsh_layout *to);
/* From all that the plan is made of; again when that changes. */
void rshi_plan_take_fingerprint(rsh_plan *p);
/* Where a rank stands in p->rank. */
int64_t rshi_plan_ordinal(const rsh_plan *p, int64_t rank);
/* Chooses the chain of every tensor. */
rsh_status rshi_plan_choose_chains(rsh_plan *p);

/* ---- numbers ---- */

/* Can what all ranks receive and keep be counted in an int64?  Otherwise totals and views are
 * refused. */
rsh_status rshi_plan_fits(const rsh_plan *p, bool *fits);
rsh_status rshi_plan_check_fits(const rsh_plan *p); /* RSH_EVALUE if not */

/* Bytes by ordinal: zeros at first.  Free after failure too. */
typedef struct rshi_rank_bytes {
    int64_t *sent, *received, *kept; /* owned */
} rshi_rank_bytes;
rsh_status rshi_rank_bytes_new(const rsh_plan *p, rshi_rank_bytes *b);
void rshi_rank_bytes_free(rshi_rank_bytes *b);

/* Bytes of both message buffers; none if there is nobody to exchange with. */
int64_t rshi_message_scratch(const rsh_plan *p, bool alone);
/* Totals of the stages, and the bytes of each rank, which are zeros before.  Here and below `w` is
 * told how far it is; NULL: nobody is. */
rsh_status rshi_totals(const rsh_plan *p, rshi_progress *w, rshi_kept_totals *t,
                       rshi_rank_bytes *bytes);
/* The same by walking all edges; moved, local and the largest are left to the caller. */
rsh_status rshi_sum_edges(const rsh_plan *p, rshi_progress *w, rsh_plan_totals *t,
                          rshi_rank_bytes *bytes, rshi_stage_bytes *stages);
/* Do all edges from the sources read every contribution of a part, each from its only holder? */
bool rshi_pair_counts_parts(const rshi_pair *pair);
/* The totals with those of each stage, which the plan keeps. */
rsh_status rshi_plan_all_totals(const rsh_plan *p, rshi_progress *w, rshi_kept_totals *out);
/* Lower bounds; they never look at edges. */
rsh_status rshi_lower_bound(const rsh_plan *p, rshi_progress *w, int64_t *bytes);
rsh_status rshi_lower_bound_between_nodes(const rsh_plan *p, rshi_progress *w, int64_t *bytes);

/* The most scratch that a rank needs to combine a tensor by node, or a bound in large plans. */
rsh_status rshi_pair_most_scratch(const rsh_plan *p, int64_t tensor, int64_t *bytes);
/* Set scratch_bytes, send_bytes and recv_bytes.  RSH_ENOMEM if scratch, or messages that were asked
 * for, do not fit under the ceiling. */
rsh_status rshi_plan_size_buffers(rsh_plan *p);

#endif
