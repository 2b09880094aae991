/* The plan itself, for files of this room only. */
#ifndef RESHARD_PLAN_IMPL_H
#define RESHARD_PLAN_IMPL_H

#include <stdatomic.h>

#include "plan/plan.h"
#include "plan/pass_progress.h"

/* Part of every fingerprint: raise it if the same input gives different edges. */
#define RSHI_PLAN_VERSION 11

/* The layouts that a tensor passes through.  Those in the middle are `to` without replicas: each
 * of the ranks that hold the same piece of `to` first gets only a slice of it.  In the
 * chain `all`, holders on a node that has the source own no slice: see rshi_all_cut. */
typedef enum rshi_chain {
    RSHI_CHAIN_DIRECT, /* from -> to */
    RSHI_CHAIN_NODE,   /* from -> slices, together the whole piece on each node -> to */
    RSHI_CHAIN_ALL     /* from -> one slice for each owner -> [slices on each node ->] to */
} rshi_chain;

/* One tensor: its layouts, and its way from one to the other. */
typedef struct rshi_pair {
    rsh_layout *src, *dst; /* owned: layouts of the buffers that are read and written */
    /* owned: the move that is planned.  They equal src and dst, except in an adjoint (adjoint.c) */
    rsh_layout *from, *to;
    bool transposed;  /* adjoint: dst is `from`, src is `to`, and transposed.c makes the edges */
    bool reduce;      /* contributions of all partial positions of `from` are combined */
    bool keep;        /* partial to partial: each position moves separately */
    bool fill_others; /* positions of `to` other than 0 along its partial axes get the identity */
    int64_t contributions; /* number of partial positions that are combined; 1 for copies */
    int64_t divisor;       /* applied to what is read from the sources, for averages; 1: none */
    int64_t wire_size;     /* bytes of an element that is sent from a source */
    bool by_node;          /* nodes combine their contributions before they exchange anything */
    int64_t scratch_bytes; /* by_node: the most that a rank needs */
    bool from_overlaps;    /* pieces of `from` overlap: see rshi_layout_irregular */
    bool to_overlaps;      /* pieces of `to` overlap */
    rshi_chain chain;
    bool split;   /* a region that several replicas of the source could send is split among them */
    bool forward; /* chain `all`: the holders beside a source send to other nodes in its place */
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
    atomic_long refs; /* references; only they and `totals` change after the plan is made */
    _Atomic(rshi_kept_totals *) totals; /* owned: NULL until the first request */
    int64_t n;
    rshi_pair *pair;  /* owned, n of them */
    int64_t *node_of; /* owned; NULL: not given */
    int64_t nnode_of, ranks_per_node;
    /* owned, only with node_of: ordinals of ranks, sorted by node, then ascending */
    int64_t *node_order;
    rsh_reduce_order reduce;
    bool messages;
    bool several_nodes; /* are the ranks of the plan on more than one node? */
    bool has_ceiling;   /* is `ceiling` a limit on the scratch of a rank? */
    int64_t ceiling;
    int64_t send_bytes, recv_bytes; /* of the buffers for messages */
    int64_t scratch_bytes;          /* the most that a rank needs for sums by node */
    bool adjoint;                   /* the transpose of the plan from each `dst` to each `src` */
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

/* The dtype in which contributions are combined and results of nodes are sent. */
static inline rsh_dtype rshi_pair_accumulator(const rshi_pair *pair) {
    return rshi_accumulator(rsh_layout_dtype(pair->from));
}

/* The ranks of the plan on one node. */
typedef struct rshi_node_ranks {
    const int64_t *node_order; /* NULL: ordinal i is `first` + i */
    int64_t first, n;
} rshi_node_ranks;
rshi_node_ranks rshi_plan_node_ranks(const rsh_plan *p, int64_t node);
rsh_status rshi_plan_sort_nodes(rsh_plan *p); /* sets node_order */
/* The i-th of them, in ascending order, as an ordinal in p->rank. */
static inline int64_t rshi_node_ranks_ordinal(const rshi_node_ranks *c, int64_t i) {
    return c->node_order ? c->node_order[c->first + i] : c->first + i;
}

/* ---- edges ---- */

#define RSHI_SCRATCH (-1) /* part number of a piece in the scratch of its rank */

/* One edge: a region of a destination piece, and the pieces that it is made of.  The region
 * consists of the indices inside [lo, hi) that are in the sets of both `with` and `dst`.  If
 * nsrc is 0, it is filled with the identity of `op`.  An edge that reads sources has `with` set
 * to a source.  An edge of a later stage (from_dst) reads a copy of `dst` on another rank, which
 * an earlier stage wrote. */
typedef struct rshi_edge {
    int64_t tensor;
    int stage;
    bool from_dst;
    const rsh_layout *src_layout, *dst_layout; /* the layouts of the pieces src and dst */
    const rshi_piece *dst, *with;
    int64_t nsrc;
    const rshi_piece *src; /* nsrc pieces, in the order in which they are combined */
    /* NULL, or the rank of each source.  Then `src` is one piece, which lies at the same place
     * on all of them */
    const int64_t *src_rank;
    bool all_contributions; /* all nsrc contributions to `src` are read, but they are not listed */
    int64_t lo[RSH_MAX_NDIM], hi[RSH_MAX_NDIM];
    rsh_op op;       /* NONE for copies; AVG becomes SUM with a divisor */
    int64_t divisor; /* 1: none */
    rsh_dtype src_dtype, dst_dtype;
    int64_t wire_size; /* bytes of an element that is sent */
    /* if not 0: consecutive edges with this number and the same source differ only along
     * series_dim and in the rank */
    int64_t series;
    int series_dim;
} rshi_edge;

int64_t rshi_edge_count(const rshi_edge *e);                            /* elements of the region */
static inline int64_t rshi_edge_source(const rshi_edge *e, int64_t i) { /* its rank */
    return e->src_rank ? e->src_rank[i] : e->src[i].rank;
}
/* Are all sources of the edge on the rank of its destination? */
bool rshi_edge_is_copy(const rshi_edge *e);

/* ---- the edges of a rank ---- */

/* A leg: indices [lo, hi) along the region's dim, and what one holder of the destination piece
 * reads them from. */
typedef struct rshi_leg {
    int64_t lo, hi;
    /* 0: the stage that reads sources.  In sums by node it is one less than the stage of the edge,
     * because nodes combine first */
    int stage;
    /* number of the holder whose copy of the destination piece is read, or RSHI_FROM_SOURCES */
    int64_t holder;
    int64_t turn; /* for the serving rule, if sources are read */
} rshi_leg;
typedef struct rshi_legs {
    rshi_leg *leg; /* owned */
    int64_t n, room;
} rshi_legs;

typedef rsh_status (*rshi_edge_fn)(void *ctx, const rshi_edge *e);

/* A walk over edges, which calls `emit` for each.  What an edge points to is valid until `emit`
 * returns. */
typedef struct rshi_walk {
    const rsh_plan *p;
    int64_t rank;
    rshi_edge_fn emit;
    void *ctx;
    bool sends; /* emit only edges that read `rank` and lead to other ranks */
    /* sends list all their sources.  Otherwise sends of sums in order list only `rank`, so that
     * their cost does not depend on the number of contributions */
    bool whole_sends;
    /* edges are only counted: all_contributions may be set, see rshi_pair_reads_whole_parts */
    bool counts;
    const rshi_stripe *box; /* NULL, or one range per dim: edges outside of it may be omitted */
    int64_t nseries;        /* the last series number that was used */
    rshi_piece *src;        /* owned: space for sources */
    int64_t src_room;
    int64_t *src_rank; /* owned: space for their ranks */
    int64_t src_rank_room;
    struct rshi_holder_list *holders;       /* owned: of the last destination piece */
    struct rshi_source_nodes *source_nodes; /* owned: of the last source piece */
    int64_t *relay_list;                    /* owned: of the last rshi_relays_find */
    int64_t relay_room;
    rshi_legs legs;                  /* owned: of the current region */
    struct rshi_kept_groups *groups; /* owned: contributions by node of the last source piece */
} rshi_walk;
void rshi_walk_free(rshi_walk *w); /* frees what it owns */
typedef struct rshi_kept_groups rshi_kept_groups;
void rshi_kept_groups_free(rshi_kept_groups *k);

/* Emits the edges into w->rank of the move from `from` to `to`, even if the pair is transposed. */
rsh_status rshi_receive_untransposed(rshi_walk *w, int64_t tensor);
/* Emit all edges into w->rank, and all edges from it to other ranks. */
rsh_status rshi_receive_all(rshi_walk *w);
rsh_status rshi_send_all(rshi_walk *w);

/* Indices [lo, hi) of a dim. */
typedef struct rshi_range {
    int64_t lo, hi;
} rshi_range;

/* ---- even parts ---- */

/* Slices and split regions are not cut into smaller parts than this. */
#define RSHI_SLICE_BYTES ((int64_t)16 << 10)

/* Where part i begins if `extent` indices are divided evenly among n parts.  The first parts are
 * longer by one if extent is not a multiple of n. */
static inline int64_t rshi_even_start(int64_t extent, int64_t n, int64_t i) {
    return i * (extent / n) + rshi_min(i, extent % n);
}
/* The last part that begins at or before index i. */
static inline int64_t rshi_even_part_at(int64_t extent, int64_t n, int64_t i) {
    int64_t each = extent / n, longer = extent % n, border = longer * (each + 1);
    if (!each) return i < longer ? i : n - 1;
    return i < border ? i / (each + 1) : rshi_min(n - 1, longer + (i - border) / each);
}
/* The dim along which a piece is cut: the longest one, and the outermost of equal ones. */
int rshi_piece_longest_dim(const rsh_layout *l, const rshi_piece *p);
/* a * b for a, b >= 0, or INT64_MAX if that overflows. */
static inline int64_t rshi_mul_most(int64_t a, int64_t b) {
    int64_t c;
    return rshi_mul(a, b, &c) ? c : INT64_MAX;
}

/* ---- which holder serves a destination ---- */

/* The number of the holder of source piece `a` (at any partial position) that serves `rank`: its
 * own copy, otherwise a copy on its node, otherwise any.  Among k candidates in mesh order,
 * candidate turn mod k serves.  For sums by node it is the number of the replica, which is the
 * same for all contributions. */
int64_t rshi_serving_holder(const rsh_plan *p, const rshi_pair *pair, const rshi_piece *a,
                            int64_t rank, int64_t turn);
/* Which of k candidates in mesh order serves at a turn.  direct_totals.c uses it too. */
static inline int64_t rshi_candidate_at_turn(int64_t turn, int64_t k) { return turn % k; }
/* The turn of a rank that reads a whole region from the sources: its position in `to`. */
static inline int64_t rshi_turn_of_rank(const rsh_layout *to, int64_t rank) {
    return rshi_layout_position(to, rank);
}
/* The number of candidates. */
int64_t rshi_serving_candidates(const rsh_plan *p, const rshi_pair *pair, const rshi_piece *a,
                                int64_t rank);
/* The number of holders of a piece of layout `l` on a node. */
int64_t rshi_holders_on(const rsh_plan *p, const rsh_layout *l, const rshi_piece *a, int64_t node);

/* ---- regions and legs ---- */

/* A region: the elements that source piece `a` and destination piece `b` have in common. */
typedef struct rshi_region {
    const rsh_plan *p;
    const rshi_pair *pair;
    int64_t tensor;
    /* at its first holder; at partial position 0, or b's position if the pair keeps positions */
    const rshi_piece *a;
    const rshi_piece *b; /* at any holder */
    int dim;             /* the dim that is cut */
    int64_t lo, hi;      /* the range of the region along it */
    /* bytes to send; 0 unless the region is cut and has one block along the dim */
    int64_t bytes;
} rshi_region;
void rshi_region_init(const rsh_plan *p, int64_t tensor, const rshi_piece *a, const rshi_piece *b,
                      rshi_region *r);
/* Lists the legs of holder `reader` of b that read `from`: a holder of b, the sources, or any of
 * them. */
#define RSHI_FROM_SOURCES (-1)
#define RSHI_FROM_ANY     (-2)
rsh_status rshi_route(rshi_walk *w, const rshi_region *r, int64_t reader, int64_t from,
                      rshi_legs *out);
/* Calls fn for each holder of b that may have legs which read holder `me` of b. */
typedef rsh_status (*rshi_holder_fn)(void *ctx, int64_t holder);
rsh_status rshi_route_readers(rshi_walk *w, const rshi_region *r, int64_t me, rshi_holder_fn fn,
                              void *ctx);
/* Divides the region by origin: the holder that read [lo, hi) from the sources, and from which it
 * came to holder `reader` of b, which may be the same holder.  Calls fn for each. */
typedef rsh_status (*rshi_origin_fn)(void *ctx, int64_t origin, int64_t lo, int64_t hi);
rsh_status rshi_route_origins(rshi_walk *w, const rshi_region *r, int64_t reader,
                              rshi_origin_fn fn, void *ctx);
/* Does a destination piece with so many holders read every region from the sources, in one leg? */
bool rshi_goes_directly(const rshi_pair *pair, int64_t holders);
/* The number of stages of the move from `from` to `to`, and of the pair, which may be
 * transposed. */
int rshi_chain_stages(const rsh_plan *p, const rshi_pair *pair);
int rshi_pair_stages(const rsh_plan *p, const rshi_pair *pair);

/* Emits the edge of a leg into `dst`, a holder of b, if the walk wants it. */
rsh_status rshi_emit_leg(rshi_walk *w, const rshi_region *r, const rshi_piece *dst,
                         const rshi_leg *leg);
/* Does `own`, a copy of the region's source piece, serve that rank at that turn? */
bool rshi_region_serves(const rshi_region *r, int64_t rank, int64_t turn, const rshi_piece *own);
/* Emits an edge, if the walk wants it. */
rsh_status rshi_emit_edge(rshi_walk *w, const rshi_edge *e);
/* Returns space for n pieces, valid until the next call; NULL with a message: no memory. */
rshi_piece *rshi_walk_source_room(rshi_walk *w, int64_t n);

/* Makes an edge from piece a itself into b, which covers everything they have in common. */
void rshi_edge_init(const rsh_plan *p, int64_t tensor, const rshi_piece *a, const rshi_piece *b,
                    rshi_edge *e);
/* Changes the destination piece of such an edge. */
void rshi_edge_aim(rshi_edge *e, const rshi_piece *b);
/* Declares that the next edges differ only in their piece of `series`.  They get a series number
 * only if copies of a piece lie at the same place in the parts of all holders. */
static inline void rshi_edge_begin_series(rshi_edge *e, const rshi_series *series, rshi_walk *w) {
    e->series = series->coordinate && rshi_layout_has_groups(series->l) ? ++w->nseries : 0;
    e->series_dim = series->dim;
}

/* Emits the edges into destination piece b, at its rank, from a source whose pieces overlap. */
rsh_status rshi_receive_overlapping(rshi_walk *w, int64_t tensor, const rshi_piece *b);
/* Emit the edges of a transposed pair into and out of w->rank. */
rsh_status rshi_receive_transposed(rshi_walk *w, int64_t tensor);
rsh_status rshi_send_transposed(rshi_walk *w, int64_t tensor);

/* Makes a transposed edge from b into `a`, which covers everything they have in common. */
void rshi_transposed_edge(const rshi_pair *pair, int64_t tensor, const rshi_piece *a,
                          const rshi_piece *b, rshi_edge *e);
/* Transposed reductions whose results were combined in slices (transposed_slices.c).  `a` is the
 * source piece at its first holder and contribution 0; b is the destination piece. */
bool rshi_transposes_slices(const rshi_pair *pair);
/* Emits the edges into `own`, a copy of a. */
rsh_status rshi_receive_transposed_slices(rshi_walk *w, int64_t tensor, const rshi_piece *a,
                                          const rshi_piece *own, const rshi_piece *b);
/* Emit the edges from w->rank, as a holder of b; and those from `own`, its copy of a. */
rsh_status rshi_send_transposed_terms(rshi_walk *w, int64_t tensor, const rshi_piece *a,
                                      const rshi_piece *b);
rsh_status rshi_send_transposed_sums(rshi_walk *w, int64_t tensor, const rshi_piece *a,
                                     const rshi_piece *own, const rshi_piece *b);

bool rshi_same_start(const rsh_layout *l, const rshi_piece *a, const rshi_piece *b);
/* Are two pieces equal?  Both must be at their first holder. */
static inline bool rshi_same_piece(const rsh_layout *l, const rshi_piece *a, const rshi_piece *b) {
    return a->position == b->position && rshi_same_start(l, a, b);
}
/* The number of elements that two pieces have in common. */
int64_t rshi_pieces_common(const rsh_layout *l, const rshi_piece *a, const rshi_piece *b);

/* ---- contributions by node ---- */

/* The contributions of one replica on one node. */
typedef struct rshi_node_group {
    int64_t node, n;
    const int64_t *position; /* n of them, ascending */
} rshi_node_group;
typedef struct rshi_node_groups {
    int64_t replica;        /* the number of the holder of each contribution */
    rshi_node_group *group; /* owned: sorted by lowest position */
    int64_t n;
    int64_t *position; /* owned: the positions of all groups */
    int64_t *group_of; /* owned: the group of each position */
    int64_t *size;     /* owned: the distinct sizes of groups */
    int64_t nsizes;
    bool combined; /* nodes combine first; false: destinations read contributions in order */
} rshi_node_groups;
/* The replica of source piece `a` that serves `rank`: the one with the most contributions on its
 * node; among k equal ones, number turn mod k. */
int64_t rshi_replica(const rsh_plan *p, const rshi_pair *pair, const rshi_piece *a, int64_t rank,
                     int64_t turn);
/* Does the rank read the contributions in order, instead of results of nodes? */
bool rshi_reads_in_order(const rsh_plan *p, const rshi_pair *pair, const rshi_node_groups *g,
                         int64_t rank);
/* The groups of a replica of source piece `a`, kept in `w` for the next region of the piece. */
rsh_status rshi_walk_groups(rshi_walk *w, int64_t tensor, const rshi_piece *a, int64_t replica,
                            const rshi_node_groups **out);
/* Does the group leave a result in scratch? */
bool rshi_node_group_has_result(const rshi_pair *pair, const rshi_node_groups *g,
                                const rshi_node_group *group);

/* A portion: indices start to end - 1 of a source piece along its longest dim, which one of n
 * ranks of a node combines. */
typedef struct rshi_portion {
    int dim;
    int64_t start, end;
} rshi_portion;
rshi_portion rshi_portion_of(const rsh_layout *l, const rshi_piece *a, int64_t n, int64_t i);
/* The number of the portion that contains index i, counted along the longest dim. */
int64_t rshi_portion_at(const rsh_layout *l, const rshi_piece *a, int64_t n, int64_t i);
/* The place of the result of portion s of source piece `a` in the scratch of a's rank. */
rsh_status rshi_node_result_piece(const rsh_plan *p, const rshi_pair *pair, const rshi_piece *a,
                                  const rshi_portion *s, rshi_piece *out);
/* Emits the edges into the scratch of w->rank or, if w->sends, those into the scratch of others. */
rsh_status rshi_node_result_edges(rshi_walk *w, int64_t tensor);
/* Emits the edges of `whole`, a region with its destination, that read one result per node. */
rsh_status rshi_by_node_edges(rshi_walk *w, const rshi_region *r, const rshi_edge *whole,
                              int64_t turn);

/* ---- plans ---- */

/* As rsh_plan_new_many; adjoint: the transpose of that plan. */
rsh_status rshi_plan_make(int64_t n, const rsh_layout *const *from, const rsh_layout *const *to,
                          const rsh_plan_opts *opts, bool adjoint, rsh_plan **out);
/* Replaces the pair's move by its transpose. */
rsh_status rshi_pair_transpose(rshi_pair *pair);
/* Derives all other fields from `from` and `to`. */
rsh_status rshi_pair_derive(rshi_pair *pair);
/* RSH_EVALUE, naming both shapes, if they differ. */
rsh_status rshi_check_shapes(const rsh_layout *from, const rsh_layout *to);
/* The index of a rank in p->rank; -1: not in it. */
int64_t rshi_plan_ordinal(const rsh_plan *p, int64_t rank);
/* Chooses the chain of every tensor. */
rsh_status rshi_plan_choose_chains(rsh_plan *p);

/* ---- numbers ---- */

/* Does the number of bytes that all ranks receive and keep fit in an int64?  If not, totals and
 * views fail. */
rsh_status rshi_plan_fits(const rsh_plan *p, bool *fits);
rsh_status rshi_plan_check_fits(const rsh_plan *p); /* RSH_EVALUE if not */

/* Bytes by ordinal, initially 0.  Free them even if rshi_rank_bytes_new fails. */
typedef struct rshi_rank_bytes {
    int64_t *sent, *received, *kept; /* owned */
} rshi_rank_bytes;
rsh_status rshi_rank_bytes_new(const rsh_plan *p, rshi_rank_bytes *b);
void rshi_rank_bytes_free(rshi_rank_bytes *b);

/* The bytes of both message buffers; 0 if the rank exchanges no messages. */
int64_t rshi_message_scratch(const rsh_plan *p, bool alone);
/* Adds the totals of each stage and the bytes of each rank, which must be 0 before.  Progress is
 * reported to `w`, which may be NULL, here and below. */
rsh_status rshi_totals(const rsh_plan *p, rshi_progress *w, rshi_kept_totals *t,
                       rshi_rank_bytes *bytes);
/* The same by walking all edges.  The caller computes moved, local and the maxima. */
rsh_status rshi_edge_totals(const rsh_plan *p, rshi_progress *w, rsh_plan_totals *t,
                            rshi_rank_bytes *bytes, rshi_stage_bytes *stages);
/* Does every edge from the sources read all contributions to a part, each from its only holder? */
bool rshi_pair_reads_whole_parts(const rshi_pair *pair);
/* The totals of the plan and of each stage.  The plan keeps them. */
rsh_status rshi_plan_all_totals(const rsh_plan *p, rshi_progress *w, rshi_kept_totals *out);
/* Lower bounds, computed without looking at edges. */
rsh_status rshi_lower_bound(const rsh_plan *p, rshi_progress *w, int64_t *bytes);
rsh_status rshi_lower_bound_between_nodes(const rsh_plan *p, rshi_progress *w, int64_t *bytes);

/* The most scratch that a rank needs for a sum by node; an upper bound in large plans. */
rsh_status rshi_pair_most_scratch(const rsh_plan *p, int64_t tensor, int64_t *bytes);
/* Sets scratch_bytes, send_bytes and recv_bytes.  RSH_ENOMEM if the scratch, or message buffers
 * that were requested, exceed the ceiling. */
rsh_status rshi_plan_size_buffers(rsh_plan *p);

#endif
