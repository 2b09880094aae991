/* plan: the edges of a plan, for the rooms that run or draw it. */
#ifndef RESHARD_PLAN_PLAN_H
#define RESHARD_PLAN_PLAN_H

#include <reshard/plan.h>

#include "layout/layout.h"

/* The options that a caller gave, checked, with defaults for those that it does not know; node_of
 * stays borrowed. */
rsh_status rshi_plan_opts_take(const rsh_plan_opts *opts, rsh_plan_opts *out);

#define RSHI_STAGES 3 /* at most: see rshi_plan_stages */

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
    int64_t lo[RSH_MAX_NDIM], hi[RSH_MAX_NDIM];
    rsh_op op;         /* NONE for plain copies; AVG is told as SUM with a divisor */
    int64_t divisor;   /* 1: none */
    rsh_dtype src_dtype, dst_dtype;
    int64_t wire_size; /* bytes of an element on its way to another rank */
    int64_t owner; /* the rank that took the region from its sources in stage 0: that of `dst`, or
                      with from_dst an earlier one */
    int64_t turn;      /* among candidates for serving the owner it took number turn mod k */
} rshi_edge;

int64_t rshi_edge_count(const rshi_edge *e); /* elements of the region */

typedef rsh_status (*rshi_edge_fn)(void *ctx, const rshi_edge *e);
/* All edges into a rank's destination, tensor after tensor; together they cover it exactly once. */
rsh_status rshi_plan_receives(const rsh_plan *p, int64_t rank, rshi_edge_fn fn, void *ctx);
/* All edges into other ranks that have this rank among their sources. */
rsh_status rshi_plan_sends(const rsh_plan *p, int64_t rank, rshi_edge_fn fn, void *ctx);

/* The distinct ranks of all layouts, ascending; borrowed. */
const int64_t *rshi_plan_ranks(const rsh_plan *p, int64_t *n);
int rshi_plan_stages(const rsh_plan *p); /* 1 to RSHI_STAGES */
/* Of the plan's source and destination buffers: an adjoint plan has them the other way round. */
const rsh_layout *rshi_plan_src(const rsh_plan *p, int64_t tensor);
const rsh_layout *rshi_plan_dst(const rsh_plan *p, int64_t tensor);

/* Message transport: a rank with neighbours holds a chunk to send and one to receive. */
int64_t rshi_plan_send_bytes(const rsh_plan *p);
int64_t rshi_plan_recv_bytes(const rsh_plan *p);
bool rshi_plan_messages(const rsh_plan *p); /* was message transport asked for? */
/* RSH_ENOMEM if both chunks together are above the ceiling: a plan for direct transport may be,
 * until messages turn out to be needed. */
rsh_status rshi_plan_messages_fit(const rsh_plan *p);

#endif
