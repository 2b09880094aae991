/* Plan: what each rank sends, receives, copies and reduces, to bring tensors from one layout to
 * another.
 *
 * Planning is pure: it needs no comm and no memory of the tensors, and it returns the same plan on
 * every rank.  A plan is immutable: share it between threads, print it, hash it, cache it.  Plans
 * are reference-counted: a new one has one reference, the caller's.  The cost for a rank grows with
 * its number of neighbours, never with ranks squared.  Everything here is pure, except
 * rsh_plan_print, which writes to a sink. */
#ifndef RESHARD_PLAN_H
#define RESHARD_PLAN_H

#include <reshard/layout.h>
#include <reshard/progress.h>
#include <reshard/sink.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct rsh_plan rsh_plan;

typedef enum rsh_reduce_order {
    RSH_REDUCE_IN_ORDER, /* combine contributions in ascending mesh position: every engine gives the
                            same bits */
    RSH_REDUCE_BY_NODE   /* combine the contributions of each node first, then the results of the
                            nodes: every engine gives the same bits for the same node map */
} rsh_reduce_order;

typedef struct rsh_plan_opts {
    size_t struct_size;         /* sizeof(rsh_plan_opts) */
    const int64_t *node_of; /* node of each rank, `nnode_of` entries, read during the call only;
                               NULL: see ranks_per_node */
    int64_t nnode_of;
    int64_t ranks_per_node;     /* 0: all ranks share one node */
    bool has_max_scratch;       /* is max_scratch_bytes a limit? */
    uint64_t max_scratch_bytes; /* for element buffers in addition to source and destination, per
                                   rank */
    rsh_reduce_order reduce;
    bool approximate;           /* relabelling above 4,096 ranks may be approximate */
    bool may_alias; /* of rsh_reshard: it may return the source's memory if the layouts are equal */
    bool messages;  /* move bytes in packed messages even if memory could be read directly */
} rsh_plan_opts;
#define RSH_PLAN_OPTS_INIT {sizeof(rsh_plan_opts), 0, 0, 0, 0, 0, RSH_REDUCE_IN_ORDER, 0, 0, 0}

/* Make a plan for one tensor, or one plan for n tensors, which then share messages.  opts may be
 * NULL for defaults.  The plan keeps references to the layouts; the caller may free its own.  The
 * caller frees *out.
 * RSH_EVALUE if the shapes of a pair differ, the node map does not cover every rank, or the options
 * do not start from RSH_PLAN_OPTS_INIT; RSH_ETYPE for complex to real; RSH_EUNSUP if both layouts
 * are partial with different ops; RSH_ENOMEM, also if the plan needs more than max_scratch_bytes.
 * Pure. */
RSH_API rsh_status rsh_plan_new(const rsh_layout *from, const rsh_layout *to,
                                const rsh_plan_opts *opts, rsh_plan **out);
RSH_API rsh_status rsh_plan_new_many(int64_t n, const rsh_layout *const *from,
                                     const rsh_layout *const *to, const rsh_plan_opts *opts,
                                     rsh_plan **out);
/* Adds a reference and returns the same plan; NULL for NULL.  Never fails.  Any thread may call it.
 * The caller frees the result, once for every hold. */
RSH_API rsh_plan *rsh_plan_hold(const rsh_plan *p);
/* Drops one reference; the last one frees the plan.  No-op for NULL. */
RSH_API void rsh_plan_free(rsh_plan *p);

/* Makes the plan that applies the exact transpose of p, as a linear map on all local buffers.  The
 * adjoint of an adjoint is the first plan again.  The caller frees *out.
 * RSH_EUNSUP, naming the op or the conversion, if p is not linear (only copies, sum, avg and
 * conversions between floats are linear); RSH_ETYPE if p converts real to complex; RSH_ENOMEM.
 * Pure. */
RSH_API rsh_status rsh_plan_adjoint(const rsh_plan *p, rsh_plan **out);
/* Makes the plan that automatic differentiation needs: it moves from `to` back to `from`, and axes
 * that are partial in `from` are replicated instead.  The caller frees *out.
 * Errors as for rsh_plan_adjoint, and RSH_EUNSUP if p is itself an adjoint.  Pure. */
RSH_API rsh_status rsh_plan_backward(const rsh_plan *p, rsh_plan **out);

/* Getters.  The layouts are borrowed and live as long as the plan; NULL if there is no such tensor.
 * Plans of equal layouts and options have equal fingerprints.  Pure. */
RSH_API int64_t rsh_plan_ntensors(const rsh_plan *p);
RSH_API const rsh_layout *rsh_plan_from(const rsh_plan *p, int64_t tensor);
RSH_API const rsh_layout *rsh_plan_to(const rsh_plan *p, int64_t tensor);
RSH_API uint64_t rsh_plan_fingerprint(const rsh_plan *p);
RSH_API int64_t rsh_plan_nranks(const rsh_plan *p); /* distinct ranks of all layouts */
RSH_API int rsh_plan_nstages(const rsh_plan *p);    /* of its transfers, at least 1; 0 for NULL */

/* The cost of the whole plan.  Each element counts with the size of the smaller of the two dtypes;
 * a contribution to a reduction counts with the size of the source dtype. */
typedef struct rsh_plan_totals {
    size_t struct_size;      /* sizeof(rsh_plan_totals); set by the caller */
    int64_t tensor_bytes;    /* of the destination tensors, once */
    int64_t bytes_moved;     /* between different ranks */
    int64_t lower_bound;     /* the minimum that any plan must move, computed independently of this
                                plan */
    int64_t bytes_local;     /* copied inside a rank */
    int64_t bytes_between_nodes;
    int64_t lower_bound_between_nodes;
    int64_t max_send, max_recv; /* of one rank */
    int64_t messages;           /* pairs of different ranks that exchange anything */
    int64_t scratch_bytes;      /* the most that a rank needs with direct transport */
    int64_t scratch_messages;   /* the same with messages */
} rsh_plan_totals;
#define RSH_PLAN_TOTALS_INIT {sizeof(rsh_plan_totals), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}

/* Computes the cost of the whole plan.  For a single tensor that moves in one stage, the totals are
 * computed from the parts of ranks and nodes, in some microseconds per rank.  Otherwise the
 * function visits the transfers of all ranks, one rank after the other.  The plan caches the
 * result.
 * RSH_EVALUE if all ranks together receive and keep more bytes than 63 bits can count, or *out does
 * not start from RSH_PLAN_TOTALS_INIT; RSH_ENOMEM.  Pure. */
RSH_API rsh_status rsh_plan_get_totals(const rsh_plan *p, rsh_plan_totals *out);
/* The same, with reports to `progress` (may be NULL): 0 at the beginning, the total at the end, and
 * at most a thousand reports in between, in units of about equal time.  If a faster method turns
 * out not to apply, the reports start again from 0 with another total.  Totals that the plan has
 * kept are not reported.
 * RSH_ERUNTIME if `progress` stops the computation, which leaves the plan as before; otherwise
 * errors as for rsh_plan_get_totals.  Pure. */
RSH_API rsh_status rsh_plan_get_totals_with(const rsh_plan *p, rsh_progress_fn progress,
                                            void *ctx, rsh_plan_totals *out);

/* The totals of what one rank moves. */
typedef struct rsh_rank_totals {
    size_t struct_size; /* sizeof(rsh_rank_totals); set by the caller */
    int64_t rank;
    int64_t bytes_sent, bytes_received, bytes_local;
    int64_t nsend, nrecv; /* neighbours */
    int64_t scratch_bytes, scratch_messages;
} rsh_rank_totals;
#define RSH_RANK_TOTALS_INIT {sizeof(rsh_rank_totals), 0, 0, 0, 0, 0, 0, 0, 0}

/* Computes the totals of one rank; a rank that is in no layout moves nothing.
 * RSH_EINDEX if rank < 0; RSH_EVALUE as for rsh_plan_get_totals, or if *out does not start from
 * RSH_RANK_TOTALS_INIT; RSH_ENOMEM.  Pure. */
RSH_API rsh_status rsh_plan_get_rank_totals(const rsh_plan *p, int64_t rank, rsh_rank_totals *out);

/* Calls fn for every rank of the plan, in ascending order, with the bytes that it sends to others,
 * receives from others and keeps.  For all ranks together this costs as much as
 * rsh_plan_get_totals.  If fn returns non-zero, the walk stops and the function returns RSH_OK.
 * RSH_EVALUE as for rsh_plan_get_totals; RSH_ENOMEM.  Pure. */
typedef int (*rsh_rank_bytes_fn)(void *ctx, int64_t rank, int64_t sent, int64_t received,
                                 int64_t kept);
RSH_API rsh_status rsh_plan_each_rank(const rsh_plan *p, rsh_rank_bytes_fn fn, void *ctx);

/* Calls fn for every stage of the plan, in order, with a description of what ranks do in it, and
 * the bytes that move between different ranks and between nodes.  Stages are numbered from 0.  If
 * fn returns non-zero, the walk stops and the function returns RSH_OK.
 * RSH_EVALUE as for rsh_plan_get_totals; RSH_ENOMEM.  Pure. */
typedef int (*rsh_stage_fn)(void *ctx, int stage, const char *what, int64_t bytes_moved,
                            int64_t bytes_between_nodes);
RSH_API rsh_status rsh_plan_each_stage(const rsh_plan *p, rsh_stage_fn fn, void *ctx);

/* Call fn for each neighbour of a rank, in ascending order, with the bytes that the rank receives
 * from this neighbour, or sends to it.  The rank itself is listed with its local bytes.  If fn
 * returns non-zero, the walk stops and the function returns RSH_OK.
 * RSH_EINDEX if rank < 0; RSH_ENOMEM.  Pure. */
typedef int (*rsh_neighbour_fn)(void *ctx, int64_t peer, int64_t bytes);
RSH_API rsh_status rsh_plan_each_source(const rsh_plan *p, int64_t rank, rsh_neighbour_fn fn,
                                        void *ctx);
RSH_API rsh_status rsh_plan_each_destination(const rsh_plan *p, int64_t rank, rsh_neighbour_fn fn,
                                             void *ctx);

/* Calls fn for every pair of ranks that exchanges bytes and for every rank that keeps some, ordered
 * by destination, then by source.  If fn returns non-zero, the walk stops and the function returns
 * RSH_OK.  RSH_ENOMEM.  Pure. */
typedef int (*rsh_pair_fn)(void *ctx, int64_t source, int64_t destination, int64_t bytes);
RSH_API rsh_status rsh_plan_each_pair(const rsh_plan *p, rsh_pair_fn fn, void *ctx);

typedef enum rsh_print_format { RSH_PRINT_TEXT, RSH_PRINT_JSON } rsh_print_format;
/* Writes a summary of the whole plan with its overlaps per dim if rank < 0, otherwise the bytes
 * that this rank exchanges with each neighbour.
 * RSH_EIO if the sink stops; RSH_EVALUE as for rsh_plan_get_totals; RSH_ENOMEM.  Local. */
RSH_API rsh_status rsh_plan_print(const rsh_plan *p, int64_t rank, rsh_print_format form,
                                  const rsh_sink *sink);

/* Permutes the ranks of the destination layouts, in the same way for all n tensors, so that as many
 * bytes as possible stay where they are.  Among such permutations it chooses one that renames the
 * fewest ranks.  relabelled[i] is to[i] with its ranks permuted; `relabelled` has n entries, and
 * the caller frees each.  Exact up to 4,096 ranks; *exact (may be NULL) says whether it was.
 * RSH_EVALUE if n < 1 or the shapes of a pair differ; RSH_EUNSUP above 4,096 ranks, unless
 * opts->approximate; RSH_ENOMEM.  Pure. */
RSH_API rsh_status rsh_plan_relabel(int64_t n, const rsh_layout *const *from,
                                      const rsh_layout *const *to, const rsh_plan_opts *opts,
                                      rsh_layout **relabelled, bool *exact);

/* ---- a rank's share: everything that it does in a plan, as arrays to loop over ---- */

#define RSH_MAX_LOOPS 16 /* a dim may take two: blocks, and the elements of a block */

/* One side of a transfer: the position of its elements in a part.  The first element has index
 * `first`, one number for each dim of the part; each iteration of loop i adds step[i] to the index
 * along the dim that the loop runs over.  Transfers may share these numbers; the share owns
 * them. */
typedef struct rsh_transfer_end {
    int64_t rank, part;
    bool in_dst; /* a part of the destination; sources of later stages may be such parts too */
    bool in_scratch; /* the scratch of the rank for this tensor: flat, dense, part 0 */
    bool flat;   /* the part has one dim, and all loops run over it */
    const int64_t *first; /* borrowed: one for each dim of the part, or a single one if it is
                             flat */
    const int64_t *step;  /* borrowed: nloops */
} rsh_transfer_end;

/* Elements of one destination part that come from the same sources, as nested loops. */
typedef struct rsh_transfer {
    int64_t tensor;
    int ndim;   /* of the tensor */
    int stage;  /* may read what earlier stages, on any rank, wrote into destinations */
    int nloops; /* 0: a single element */
    const int64_t *n;         /* borrowed, nloops: iterations of each loop, outermost first */
    const int *dim;           /* borrowed, nloops: the dim of the tensor that it runs over */
    int64_t count;            /* elements: the product of n */
    int64_t element_bytes;    /* of an element while it is sent to another rank */
    rsh_dtype from, to;       /* of the sources, and of the destination */
    rsh_op op;       /* combines several sources; if there is no source, its identity is written */
    int64_t divisor; /* of the combined value; 1: none */
    rsh_transfer_end dst;
    int64_t nsrc;
    const rsh_transfer_end *src; /* borrowed: in the order in which they are combined */
} rsh_transfer;

/* A transfer is in exactly one of a rank's arrays.  Copies and receives together write each element
 * of the rank's destination, and of its scratch, exactly once. */
typedef struct rsh_share {
    int64_t rank;
    const rsh_transfer *copies;   /* into this rank, from its own parts only, or without a source */
    const rsh_transfer *receives; /* into this rank, with a source on another rank */
    const rsh_transfer *sends;    /* into other ranks, with this rank among the sources; if
                                     contributions are combined in order, no other source is
                                     listed */
    int64_t ncopies, nreceives, nsends;
    const int64_t *scratch; /* for each tensor: elements of scratch that the rank needs, in the
                               dtype of the transfers into it; NULL: no rank needs any */
} rsh_share;

/* Returns the share of one rank, which is empty for a rank that is in no layout.  The cost grows
 * with the rank's number of neighbours.  The caller frees *out; the plan may be freed first.
 * RSH_EINDEX if rank < 0; RSH_ENOMEM.  Pure. */
RSH_API rsh_status rsh_plan_share(const rsh_plan *p, int64_t rank, rsh_share **out);
/* Frees the share.  No-op for NULL. */
RSH_API void rsh_share_free(rsh_share *s);
/* Computes the offset of the first element, and the step of one iteration of each loop (`rounds`
 * has nloops entries), in a part with these strides, in the unit of the strides.  `end` is one of
 * the ends of t.  Pure. */
RSH_API rsh_status rsh_transfer_offsets(const rsh_transfer *t, const rsh_transfer_end *end,
                                        const int64_t *strides, int64_t *offset, int64_t *rounds);

#ifdef __cplusplus
}
#endif
#endif
