/* plan: what other rooms need beyond the public header. */
#ifndef RESHARD_PLAN_PLAN_H
#define RESHARD_PLAN_PLAN_H

#include <reshard/plan.h>

#include "layout/layout.h"

/* Copies and checks the caller's options; missing ones get their defaults.  node_of stays
 * borrowed. */
rsh_status rshi_plan_opts_take(const rsh_plan_opts *opts, rsh_plan_opts *out);

#define RSHI_STAGES 4 /* at most: see rshi_plan_stages */

/* Which sends a share lists. */
typedef enum rshi_share_sends {
    RSHI_SENDS_NONE,
    RSHI_SENDS_OWN,  /* as rsh_plan_share */
    RSHI_SENDS_WHOLE /* with all their sources: the cost grows with the number of contributions */
} rshi_share_sends;
rsh_status rshi_plan_share(const rsh_plan *p, int64_t rank, rshi_share_sends sends,
                           rsh_share **out);

/* As rsh_plan_each_source, but only for the elements in a box (one range per dim), if that is
 * fast to compute; otherwise for all elements. */
rsh_status rshi_plan_sources_in(const rsh_plan *p, int64_t rank, const rshi_stripe *box,
                                rsh_neighbour_fn fn, void *ctx);

/* The distinct ranks of all layouts, ascending; borrowed. */
const int64_t *rshi_plan_ranks(const rsh_plan *p, int64_t *n);
int rshi_plan_stages(const rsh_plan *p);                    /* 1 to RSHI_STAGES */
int64_t rshi_plan_node_of(const rsh_plan *p, int64_t rank); /* 0 if there is no node map */
/* The least number of bytes that any plan must bring into a node.  Transposed pairs are not
 * counted. */
rsh_status rshi_lower_bound_into_node(const rsh_plan *p, int64_t node, int64_t *bytes);
/* The layouts of the source and destination buffers.  An adjoint plan swaps them. */
const rsh_layout *rshi_plan_src(const rsh_plan *p, int64_t tensor);
const rsh_layout *rshi_plan_dst(const rsh_plan *p, int64_t tensor);

/* Scratch for sums by node: does any rank need it, how many elements (of the accumulator dtype)
 * does a rank need for a tensor, and how many bytes for all tensors? */
bool rshi_plan_has_scratch(const rsh_plan *p);
rsh_status rshi_plan_scratch(const rsh_plan *p, int64_t tensor, int64_t rank, int64_t *count);
rsh_status rshi_plan_scratch_bytes(const rsh_plan *p, int64_t rank, int64_t *bytes);
/* The scratch of one tensor follows that of another, aligned: where it starts and ends if the
 * one before it ends at `bytes`. */
#define RSHI_SCRATCH_ALIGN 64
static inline int64_t rshi_scratch_start(int64_t bytes) {
    return rshi_ceil_div(bytes, RSHI_SCRATCH_ALIGN) * RSHI_SCRATCH_ALIGN;
}
static inline int64_t rshi_scratch_end(int64_t bytes, int64_t count, rsh_dtype dtype) {
    return count ? rshi_scratch_start(bytes) + count * (int64_t)rsh_dtype_size(dtype) : bytes;
}

/* The sizes of the two buffers that a rank with neighbours needs for messages. */
int64_t rshi_plan_send_bytes(const rsh_plan *p);
int64_t rshi_plan_recv_bytes(const rsh_plan *p);
bool rshi_plan_messages(const rsh_plan *p);    /* were messages requested? */
bool rshi_plan_has_ceiling(const rsh_plan *p); /* is the scratch of a rank limited? */
/* RSH_ENOMEM if both buffers together exceed the ceiling.  A plan for direct transport may
 * exceed it until messages turn out to be needed. */
rsh_status rshi_plan_messages_fit(const rsh_plan *p);

#endif
