/* plan: what the rooms that run plans know about them besides the public header. */
#ifndef RESHARD_PLAN_PLAN_H
#define RESHARD_PLAN_PLAN_H

#include <reshard/plan.h>

#include "layout/layout.h"

/* The options that a caller gave, checked, with defaults for those that it does not know; node_of
 * stays borrowed. */
rsh_status rshi_plan_opts_take(const rsh_plan_opts *opts, rsh_plan_opts *out);

#define RSHI_STAGES 4 /* at most: see rshi_plan_stages */

/* As rsh_plan_share; what is said of the sends. */
typedef enum rshi_share_sends {
    RSHI_SENDS_NONE,
    RSHI_SENDS_OWN,  /* as rsh_plan_share */
    RSHI_SENDS_WHOLE /* all sources of each: the cost grows with the contributions to it */
} rshi_share_sends;
rsh_status rshi_plan_share(const rsh_plan *p, int64_t rank, rshi_share_sends sends,
                           rsh_share **out);

/* As rsh_plan_each_source, but of the regions only that a box (one range for each dim) meets, where
 * that is quick: all sources otherwise.  The bytes are those of the regions. */
rsh_status rshi_plan_sources_in(const rsh_plan *p, int64_t rank, const rshi_stripe *box,
                                rsh_neighbour_fn fn, void *ctx);

/* The distinct ranks of all layouts, ascending; borrowed. */
const int64_t *rshi_plan_ranks(const rsh_plan *p, int64_t *n);
int rshi_plan_stages(const rsh_plan *p); /* 1 to RSHI_STAGES */
int64_t rshi_plan_node_of(const rsh_plan *p, int64_t rank); /* 0 without nodes */
/* Bytes that any plan must bring into a node; pairs that are transposed are not counted. */
rsh_status rshi_lower_bound_into_node(const rsh_plan *p, int64_t node, int64_t *bytes);
/* Of the plan's source and destination buffers: an adjoint plan has them the other way round. */
const rsh_layout *rshi_plan_src(const rsh_plan *p, int64_t tensor);
const rsh_layout *rshi_plan_dst(const rsh_plan *p, int64_t tensor);

/* Scratch in which nodes combine contributions: has any rank some, how many elements of a tensor's
 * accumulator dtype a rank has, and how many bytes of all tensors. */
bool rshi_plan_has_scratch(const rsh_plan *p);
rsh_status rshi_plan_scratch(const rsh_plan *p, int64_t tensor, int64_t rank, int64_t *count);
rsh_status rshi_plan_scratch_bytes(const rsh_plan *p, int64_t rank, int64_t *bytes);
/* Scratch of one tensor after the other: where it ends if the one before ended at `bytes`.  Each
 * begins on a line. */
#define RSHI_SCRATCH_ALIGN 64
static inline int64_t rshi_scratch_start(int64_t bytes) {
    return rshi_ceil_div(bytes, RSHI_SCRATCH_ALIGN) * RSHI_SCRATCH_ALIGN;
}
static inline int64_t rshi_scratch_end(int64_t bytes, int64_t count, rsh_dtype dtype) {
    return count ? rshi_scratch_start(bytes) + count * (int64_t)rsh_dtype_size(dtype) : bytes;
}

/* Message transport: a rank with neighbours holds a buffer to send and one to receive. */
int64_t rshi_plan_send_bytes(const rsh_plan *p);
int64_t rshi_plan_recv_bytes(const rsh_plan *p);
bool rshi_plan_messages(const rsh_plan *p); /* was message transport asked for? */
bool rshi_plan_has_ceiling(const rsh_plan *p); /* is the scratch of a rank limited? */
/* RSH_ENOMEM if both buffers together are above the ceiling: a plan for direct transport may be,
 * until messages turn out to be needed. */
rsh_status rshi_plan_messages_fit(const rsh_plan *p);

#endif
