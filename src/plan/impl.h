/* The plan itself, seen by this room only. */
#ifndef RESHARD_PLAN_IMPL_H
#define RESHARD_PLAN_IMPL_H

#include <stdatomic.h>

#include "plan/plan.h"
#include "plan/passes.h"

#define RSHI_PLAN_VERSION                                                                          \
    8 /* part of every fingerprint: raise it when the same input gives other edges */

typedef struct rshi_pair {
    rsh_layout *from, *to; /* owned */
    bool reduce;           /* all partial positions of `from` are combined */
    bool keep;             /* partial to partial: each position moves on its own */
    bool fill_others; /* positions of `to` other than 0 along its partial axes get the identity */
    int64_t contributions; /* partial positions that are combined; 1 for copies */
    int64_t wire_size;
    int64_t most[RSH_MAX_NDIM]; /* indices of each dim that a part of `from` holds at most */
    bool by_node; /* nodes combine their contributions before they exchange anything */
    bool irregular;        /* see rshi_layout_irregular(from) */
    bool slice;            /* cut what several replicas could send */
    bool spread; /* what more nodes want than ranks hold is scattered over the nodes, which exchange
                    it */
    bool forward; /* and where ranks beside a source want it too, they send it to the other nodes */
} rshi_pair;

struct rsh_plan {
    atomic_long refs; /* holders; only they and `totals` change after the plan was made */
    _Atomic(rsh_plan_totals *) totals; /* owned: once somebody asked for them; NULL until then */
    int64_t n;
    rshi_pair *pair;  /* owned, n of them */
    int64_t *node_of; /* owned, NULL unless given */
    int64_t nnode_of, ranks_per_node;
    int64_t *by_node; /* owned, only beside node_of: ordinals of ranks by node, then ascending */
    rsh_reduce_order reduce;
    bool messages;
    bool has_ceiling; /* is `ceiling` a limit on the scratch of a rank? */
    int64_t ceiling;
    int64_t send_bytes, recv_bytes; /* buffers of message transport */
    int64_t scratch_bytes; /* the most that a rank needs to combine by node */
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
 * the identity of `op`. Stage 0 reads sources, whose sets are those of `with`.  Later stages may
 * (from_dst) read what earlier ones left in the destination of another rank, whose sets are those
 * of `dst`. */
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
    int64_t lo[RSH_MAX_NDIM], hi[RSH_MAX_NDIM];
    rsh_op op;         /* NONE for plain copies; AVG is told as SUM with a divisor */
    int64_t divisor;   /* 1: none */
    rsh_dtype src_dtype, dst_dtype;
    int64_t wire_size; /* bytes of an element on its way to another rank */
    int64_t owner; /* the rank that took the region from its sources in stage 0: that of `dst`, or
                      with from_dst an earlier one */
    int64_t turn;      /* among candidates for serving the owner it took number turn mod k */
    int64_t series; /* not 0: edges of one source with this number that are taken one after the
                       other differ along series_dim at most, and in the rank and the turn */
    int series_dim;
} rshi_edge;

int64_t rshi_edge_count(const rshi_edge *e); /* elements of the region */
static inline int64_t rshi_edge_source(const rshi_edge *e, int64_t i) { /* its rank */
    return e->src_rank ? e->src_rank[i] : e->src[i].rank;
}
static inline const rshi_piece *rshi_edge_source_piece(const rshi_edge *e, int64_t i) {
    return e->src_rank ? e->src : &e->src[i]; /* with src_rank its own rank means nothing */
}

/* Edges in an array. */
typedef struct rshi_edges {
    rshi_edge *edge; /* owned */
    int64_t n, room;
} rshi_edges;

typedef rsh_status (*rshi_edge_fn)(void *ctx, const rshi_edge *e);

/* What the ranks of a node hold of a tensor's source; without nodes, what one rank holds. */
typedef struct rshi_vicinity {
    bool complete; /* false: nothing is known so far */
    int64_t tensor, place; /* place: the node, or the rank */
    bool known; /* false: the ranks hold parts that overlap; pieces are looked at one by one */
    int64_t *first; /* owned: where the first holders of the parts are, ascending */
    int64_t n, room;
} rshi_vicinity;

/* All edges of one rank; an edge is in exactly one of the arrays.  `copies` and `receives` together
 * cover the rank's destination exactly once, tensor after tensor. */
typedef struct rshi_rank_edges {
    int64_t rank;
    rshi_edges copies;   /* into this rank, from its own parts only, or filled */
    rshi_edges receives; /* into this rank, with a source on another rank */
    rshi_edges sends;    /* into other ranks, with this rank among their sources; some are empty */
    struct rshi_pieces_kept *first, *now; /* owned: the pieces that the edges refer to */
    struct rshi_relay *relay;             /* owned: how the destination piece at hand is relayed */
    struct rshi_wanted *wanted;           /* owned: who wants the region at hand, if it is spread */
    rshi_vicinity near;                   /* of the rank whose edges were looked at last */
    int64_t nseries;                      /* numbers of series that were given out */
    bool by_region; /* what is passed on inside a node is told region by region, each with the
                       source piece that it came from; else in stretches */
    bool whole_sends; /* sends have all their sources; else, where contributions are combined in
                         order, this rank only: then a send costs the same however many there are */
    rshi_edge_fn take; /* NULL, or who gets each edge as soon as its region is done: the arrays stay
                          empty */
    void *ctx;         /* of `take` */
} rshi_rank_edges;

/* Cost grows with the rank's number of neighbours.  `edges` is {0} or was used before; what it
 * held is replaced and its memory used again.  RSH_ENOMEM: free it all the same. */
rsh_status rshi_plan_edges(const rsh_plan *p, int64_t rank, rshi_rank_edges *edges);
/* Only the copies and receives of regions that meet a box; of a plan for one regular tensor. */
rsh_status rshi_plan_receives_in(const rsh_plan *p, int64_t rank, const rshi_stripe *box,
                                 rshi_rank_edges *edges);
/* Only the copies and receives; the sends are left empty. */
rsh_status rshi_plan_receives(const rsh_plan *p, int64_t rank, rshi_rank_edges *edges);
/* Add those of one tensor to what there is, all as receives. */
rsh_status rshi_tensor_receives(const rsh_plan *p, int64_t tensor, rshi_rank_edges *edges);
void rshi_rank_edges_free(rshi_rank_edges *edges);

#define RSHI_SLICE_BYTES                                                                           \
    ((int64_t)16 << 10) /* what ranks send is not cut finer than this, except inside a node */

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
/* a * b >= 0, or the largest number where that does not fit. */
static inline int64_t rshi_mul_most(int64_t a, int64_t b) {
    int64_t c;
    return rshi_mul(a, b, &c) ? c : INT64_MAX;
}

/* RSH_EVALUE naming both shapes if they differ. */
rsh_status rshi_check_shapes(const rsh_layout *from, const rsh_layout *to);

/* From all that the plan is made of; again when that changes. */
void rshi_plan_take_fingerprint(rsh_plan *p);

/* Where a rank stands in p->rank. */
int64_t rshi_plan_ordinal(const rsh_plan *p, int64_t rank);

/* ---- who serves a destination ---- */

/* The holder, by number, of source piece `a` (at any partial position) that serves destination
 * `rank`: its own copy; else one of its node, else any.  Among k candidates in mesh order number
 * turn mod k is taken. */
int64_t rshi_serving_holder(const rsh_plan *p, const rshi_pair *pair, const rshi_piece *a,
                            int64_t rank, int64_t turn);
/* How many candidates there are. */
int64_t rshi_serving_candidates(const rsh_plan *p, const rshi_pair *pair, const rshi_piece *a,
                                int64_t rank);
/* The same as a rank, for the turn that `rank` takes by its position. */
int64_t rshi_serving_rank(const rsh_plan *p, const rshi_pair *pair, const rshi_piece *a,
                          int64_t rank);
/* The vicinity of `rank`; kept in `edges` for the next piece. */
rsh_status rshi_vicinity_find(const rsh_plan *p, int64_t tensor, int64_t rank,
                              rshi_rank_edges *edges, const rshi_vicinity **out);
/* May one of these ranks hold the piece whose first holder is at `position`?  A quick answer: false
 * only where none does. */
bool rshi_vicinity_may_have(const rshi_vicinity *v, int64_t position);
/* As rshi_serving_holder for the rank whose vicinity it is; `a` is at its first holder. */
int64_t rshi_serving_far_or_near(const rsh_plan *p, const rshi_pair *pair, const rshi_vicinity *v,
                                 const rshi_piece *a, int64_t rank, int64_t turn);
/* A rank with a source piece of its own: one of `holders` of them, number `index`. */
typedef struct rshi_server {
    const rshi_piece *a; /* borrowed */
    int64_t holders, index, node;
    int64_t looks;   /* how often it was looked up who is near */
    uint64_t *close; /* owned, NULL until there were many looks: a bit for each position of the
                        destination whose rank is on a node with a holder of the piece */
} rshi_server;
rshi_server rshi_server_of(const rsh_plan *p, const rshi_pair *pair, const rshi_piece *a);
void rshi_server_free(rshi_server *s);
/* Does it give its piece to `rank`, which stands at `position` of the destination, if that takes it
 * directly? */
bool rshi_serves(const rsh_plan *p, const rshi_pair *pair, rshi_server *s, int64_t rank,
                 int64_t position);
/* The same for a rank on whose node nobody holds the piece: its turn decides. */
bool rshi_serves_far(const rshi_server *s, int64_t turn);
/* Is a holder of the piece on the node of that rank? */
bool rshi_server_is_near(const rsh_plan *p, const rshi_pair *pair, rshi_server *s, int64_t rank,
                         int64_t position);
/* Could it send to `rank`, which may be relayed to?  A quick answer: false only where another rank
 * serves it. */
bool rshi_may_serve(const rsh_plan *p, const rshi_pair *pair, const rshi_server *s, int64_t rank,
                    int64_t position);
/* Whose source piece `a` the region of an edge came from in stage 0. */
int64_t rshi_edge_origin(const rsh_plan *p, const rshi_edge *e, const rshi_piece *a);
/* Holders of a piece of layout `l` that are on a node. */
int64_t rshi_holders_on(const rsh_plan *p, const rsh_layout *l, const rshi_piece *a, int64_t node);

/* ---- contributions by node ---- */

/* Contributions of one replica that lie on one node. */
typedef struct rshi_node_group {
    int64_t node, n;
    const int64_t *position; /* n of them, ascending */
} rshi_node_group;
typedef struct rshi_node_groups {
    int64_t replica;         /* number of the holder of each contribution */
    rshi_node_group *group;  /* owned: by lowest position */
    int64_t n;
    int64_t *position;       /* owned: behind the groups */
    bool combined; /* nodes combine first; false: contributions are read in order */
} rshi_node_groups;
/* The replica of source piece `a` that serves `rank`: the one with most contributions on its node;
 * among k equals number turn mod k. */
int64_t rshi_replica(const rsh_plan *p, const rshi_pair *pair, const rshi_piece *a, int64_t rank,
                     int64_t turn);
/* RSH_ENOMEM: free it all the same. */
rsh_status rshi_node_groups_find(const rsh_plan *p, const rshi_pair *pair, const rshi_piece *a,
                                 int64_t replica, rshi_node_groups *g);
void rshi_node_groups_free(rshi_node_groups *g);
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
/* Where the result of slice s of source piece `a`, at its rank, lies in that rank's scratch. */
rsh_status rshi_node_result_piece(const rsh_plan *p, const rshi_pair *pair, const rshi_piece *a,
                                  const rshi_piece_slice *s, rshi_piece *out);

/* ---- the edges of a rank in the making ---- */

/* Room for n pieces in a row, and a copy of one, that stay where they are as long as the edges.
 * NULL and a sentence: no memory. */
rshi_piece *rshi_pieces_room(rshi_rank_edges *s, int64_t n);
/* The same for n numbers. */
int64_t *rshi_pieces_numbers(rshi_rank_edges *s, int64_t n);
rshi_piece *rshi_piece_keep(rshi_rank_edges *s, const rshi_piece *p);
/* Where the pieces end, and back to there: those kept since are forgotten. */
typedef struct rshi_kept {
    struct rshi_pieces_kept *now;
    int64_t used;
} rshi_kept;
rshi_kept rshi_pieces_end(const rshi_rank_edges *s);
void rshi_pieces_forget_after(rshi_rank_edges *s, rshi_kept mark);
rsh_status rshi_edges_add(rshi_edges *list, const rshi_edge *e);
/* Adds a copy that may be changed until the next one is added; NULL and a sentence: no memory. */
rshi_edge *rshi_edges_new(rshi_edges *list, const rshi_edge *like);
/* Adds an edge of one source, with copies of its pieces; with `take` it is handed over as it is. */
rsh_status rshi_edges_keep(rshi_rank_edges *s, rshi_edges *list, const rshi_edge *e);
static inline rsh_status rshi_edges_give(rshi_rank_edges *s, rshi_edges *list, const rshi_edge *e) {
    return s->take ? s->take(s->ctx, e) : rshi_edges_keep(s, list, e);
}
/* With `take`: hand over the edges of an array, and forget the pieces that were kept since the
 * mark. */
rsh_status rshi_edges_hand_over(rshi_rank_edges *s, rshi_edges *list, rshi_kept mark);
/* Are all its sources on the rank of its destination? */
bool rshi_edge_is_copy(const rshi_edge *e);
void rshi_rank_edges_clear(rshi_rank_edges *s); /* no edges, no pieces; its memory stays */

/* ---- regions ---- */

/* A region: what source piece `a` and destination piece `b`, at its rank, have in common. */
typedef struct rshi_region {
    const rsh_plan *p;
    const rshi_pair *pair;
    const rshi_piece *a; /* at its first holder, partial position 0 */
    const rshi_piece *b; /* kept with the edges */
    const rshi_piece *a_kept; /* a copy of `a` with the edges; NULL: not needed so far */
    rshi_edge whole;     /* the region as one edge from `a` itself */
    int dim;             /* along which it is cut: the longest, the outermost of equals */
    int64_t extent;      /* common indices along it; 0: there is nothing to cut */
    rshi_rank_edges *edges;
    rshi_edges *out;
} rshi_region;

/* A plain edge of the pair from piece a itself into b: the whole of what they have in common. */
void rshi_edge_init(const rsh_plan *p, int64_t tensor, const rshi_piece *a, const rshi_piece *b,
                    rshi_edge *e);
/* The same edge into another piece of the destination. */
void rshi_edge_aim(rshi_edge *e, const rshi_piece *b);
/* The same for the next piece of a series, on a mesh. */
static inline void rshi_edge_aim_along(rshi_edge *e, const rshi_piece *b) {
    int d = e->series_dim;
    e->dst = b;
    e->owner = b->rank;
    e->turn = b->position;
    e->lo[d] = b->set[d].lo;
    e->hi[d] = rshi_stripe_end(&b->set[d]);
}
/* The edges that follow are made of pieces of a series, on one side. */
void rshi_edge_begin_series(rshi_edge *e, const rshi_series *series, rshi_rank_edges *edges);
/* Restrict the whole to indices lo to hi - 1 of the common ones along `dim`; false: there are none.
 */
bool rshi_region_cut(rshi_region *r, int64_t lo, int64_t hi);
/* Add the edge that reads the sources which serve b's rank at `turn`. */
rsh_status rshi_region_from_sources(const rshi_region *r, int64_t turn);
/* Add the edge that reads, in `stage`, the destination of holder number `holder` of b, which came
 * from the sources by way of `owner` at `turn`. */
rsh_status rshi_region_from_holder(rshi_region *r, int stage, int64_t holder, int64_t owner,
                                   int64_t turn);
/* Is it asked for its sends only, with this rank as the one source? */
bool rshi_region_is_own_send(const rshi_region *r);
int64_t rshi_region_bytes(const rshi_region *r); /* on its way, at most INT64_MAX */

/* The dim along which a piece is cut: the longest, the outermost of equals. */
int rshi_piece_longest_dim(const rsh_layout *l, const rshi_piece *b);
/* Where slice i of n of a stripe begins, as an index of the dim; for i = n its end. */
int64_t rshi_stripe_slice(const rshi_stripe *b, int64_t n, int64_t i);

/* The ways to move a region; each file says when its way applies and what it does.  *_slices: into
 * how many slices the way would cut the region; 1: it does not apply. */
rsh_status rshi_direct_edge(const rshi_region *r);
/* Does every region of a destination piece with so many holders go directly, from one source?  Then
 * no region has to be looked at. */
bool rshi_goes_directly(const rsh_plan *p, const rshi_pair *pair, int64_t holders);
int64_t rshi_sliced_slices(const rshi_region *r);
rsh_status rshi_sliced_edges(rshi_region *r, int64_t n);
rsh_status rshi_relayed_edges(rshi_region *r, bool *applies);
int64_t rshi_reduced_slices(const rshi_region *r);
rsh_status rshi_reduced_edges(rshi_region *r, int64_t n);
rsh_status rshi_spread_edges(rshi_region *r, bool *applies);
void rshi_wanted_free(struct rshi_wanted *w);
/* Calls fn for the holders of destination piece b, by number, that may read the region of a and b
 * from the destination of b's rank, if regions of the pair are spread. */
typedef rsh_status (*rshi_holder_fn)(void *ctx, int64_t holder);
rsh_status rshi_spread_readers(const rsh_plan *p, int64_t tensor, const rshi_piece *a,
                               const rshi_piece *b, rshi_rank_edges *edges, rshi_holder_fn fn,
                               void *ctx);
rsh_status rshi_by_node_edges(const rshi_region *r, int64_t turn);

/* Set up the region of a and b, without the dim along which it is cut; and find that. */
void rshi_region_init(const rsh_plan *p, int64_t tensor, const rshi_piece *a, const rshi_piece *b,
                      rshi_rank_edges *edges, rshi_edges *out, rshi_region *r);
void rshi_region_find_dim(rshi_region *r);
/* Add the edges of the region of source piece `a` (at its first holder, partial position 0) and
 * destination piece `b` (at its rank, kept with the edges), by the way that costs least. */
rsh_status rshi_region_edges(const rsh_plan *p, int64_t tensor, const rshi_piece *a,
                             const rshi_piece *b, rshi_rank_edges *edges, rshi_edges *out);

/* ---- walks ---- */

/* Add the edges into destination piece b at its rank; b is kept with the edges. */
rsh_status rshi_piece_receives(const rsh_plan *p, int64_t tensor, const rshi_piece *b,
                               rshi_rank_edges *edges, rshi_edges *out);
/* The same for irregular sources: the rank's own copies first, then those of its node, the rest
 * from first copies. */
rsh_status rshi_irregular_receives(const rsh_plan *p, int64_t tensor, const rshi_piece *b,
                                   rshi_rank_edges *edges, rshi_edges *out);
/* Add the edges of a tensor into this rank's scratch, or, with `sends`, those into the scratch of
 * others that read this rank. */
rsh_status rshi_node_result_edges(const rsh_plan *p, int64_t tensor, bool sends,
                                  rshi_rank_edges *edges, rshi_edges *out);
/* Add a rank's sends to what it has already. */
rsh_status rshi_rank_edges_add_sends(const rsh_plan *p, rshi_rank_edges *edges);
rsh_status rshi_adjoint_receives(const rsh_plan *p, int64_t tensor, rshi_rank_edges *edges,
                                 rshi_edges *out);
rsh_status rshi_adjoint_sends(const rsh_plan *p, rshi_rank_edges *edges);
/* Is the rank among the sources of the edge? */
bool rshi_edge_reads(const rshi_edge *e, int64_t rank);
bool rshi_same_start(const rsh_layout *l, const rshi_piece *a, const rshi_piece *b);

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

/* Totals from every rank's share, and, for plain layouts, by sums over dims.  Here and below `w` is
 * told how far it is; NULL: nobody is. */
bool rshi_plan_factorises(const rsh_plan *p);
rsh_status rshi_totals_by_shares(const rsh_plan *p, rshi_progress *w, rsh_plan_totals *t);
rsh_status rshi_totals_by_factors(const rsh_plan *p, rsh_plan_totals *t);
/* From what ranks and nodes hold, and the bytes of each rank, which are zeros before; *done is
 * false where that does not do: then the shares have to be walked. */
rsh_status rshi_totals_by_sums(const rsh_plan *p, rshi_progress *w, rsh_plan_totals *t,
                               rshi_rank_bytes *bytes, bool *done);
/* Pairs of different ranks that exchange anything, over the tensors whose number in `same` is not
 * 0: from neighbours, one rank after the other. */
rsh_status rshi_plan_count_pairs(const rsh_plan *p, const int64_t *same, rshi_progress *w,
                                 int64_t *pairs);
/* By whichever of these is cheapest. */
rsh_status rshi_totals(const rsh_plan *p, rshi_progress *w, rsh_plan_totals *t);
rsh_status rshi_view_by_factors(const rsh_plan *p, int64_t rank, rsh_rank_totals *v);
/* Lower bounds; they never look at edges. */
rsh_status rshi_lower_bound(const rsh_plan *p, rshi_progress *w, int64_t *bytes);
rsh_status rshi_lower_bound_between_nodes(const rsh_plan *p, rshi_progress *w, int64_t *bytes);

/* The most scratch that a rank needs to combine by node, or a bound in large plans. */
rsh_status rshi_plan_most_scratch(const rsh_plan *p, int64_t *bytes);
/* Set scratch_bytes, send_bytes and recv_bytes.  RSH_ENOMEM if scratch, or messages that were asked
 * for, do not fit under the ceiling. */
rsh_status rshi_plan_size_buffers(rsh_plan *p);

/* Elements that two pieces have in common. */
int64_t rshi_pieces_common(const rsh_layout *l, const rshi_piece *a, const rshi_piece *b);

/* Should regions be spread over nodes, and should what replicas send be cut into slices?  Set on
 * every pair by looking at the largest send. */
rsh_status rshi_plan_choose_ways(rsh_plan *p);

#endif
