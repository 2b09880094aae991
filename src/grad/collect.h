/* collect: a collective of a group as an op: its attributes, its records and what they share. */
#ifndef RESHARD_GRAD_COLLECT_H
#define RESHARD_GRAD_COLLECT_H

#include "grad/impl.h"
#include "group/group.h"

/* The attributes of such an op. */
typedef struct rshi_collecting {
    rsh_group *group; /* borrowed */
    rsh_comm *comm;   /* borrowed: the group's */
    int root;         /* -1: none */
    rsh_op op;
    rsh_derivative how;
    int64_t *splits; /* of all_to_all_single: of the input, then of the output; NULL: equal.  The
                        copy in the entry owns them, once forward has begun */
    bool *opened;    /* until forward: where it says that the other ranks hear of refusals */
} rshi_collecting;

extern const rsh_grad_op rshi_broadcast_op, rshi_reduce_op, rshi_all_reduce_op, rshi_all_gather_op,
    rshi_reduce_scatter_op, rshi_gather_op, rshi_scatter_op, rshi_all_to_all_op,
    rshi_all_to_all_single_op;

rsh_comm *rshi_collect_comm(const void *attrs);
static inline bool rshi_collect_is_root(const rshi_collecting *k) {
    return k->comm->rank == k->root;
}

/* In forward, first: from here on the other ranks hear of this one's refusals. */
rshi_collecting *rshi_collect_open(rsh_grad_call *c);
/* `st` is what this rank has found alone.  If it is not RSH_OK, the others are in their next call,
 * or will be, and get it there. */
rsh_status rshi_collect_told(const rshi_collecting *k, rsh_status st);
/* RSH_EUNSUP with the op's name if the reduction has no derivative. */
rsh_status rshi_collect_check_op(const rsh_grad_call *c, const rshi_collecting *k);
/* Each contribution to an average counts for one part in so many. */
void rshi_collect_weigh(const rshi_collecting *k, const rsh_tensor *g);

rsh_status rshi_collect_empty(const rsh_tensor *like, rsh_tensor **out);
rsh_status rshi_collect_copy(const rsh_tensor *t, rsh_tensor **out);
/* n tensors like t; and the end of such a list. */
rsh_status rshi_collect_list(int n, const rsh_tensor *t, bool zero, rsh_tensor ***out);
void rshi_collect_free(int n, rsh_tensor **list);
/* The inputs, in a list to be freed with rshi_free. */
const rsh_tensor *const *rshi_collect_inputs(const rsh_grad_call *c, rsh_status *st);
/* The gradient of output i, of all outputs: a copy, or zeros where none came. */
rsh_status rshi_collect_gradient(const rsh_grad_call *c, int i, rsh_tensor **out);
rsh_status rshi_collect_gradients(const rsh_grad_call *c, rsh_tensor ***out);
/* Give a tensor, or a list of n, as outputs in forward and as gradients in backward; or free it, if
 * `st` says that there was a failure. */
rsh_status rshi_collect_out(rsh_grad_call *c, int i, rsh_tensor *t, rsh_status st);
rsh_status rshi_collect_give(rsh_grad_call *c, int i, rsh_tensor *t, rsh_status st);
rsh_status rshi_collect_give_list(rsh_grad_call *c, int n, rsh_tensor **list, rsh_status st);

/* What a receiver must know of a tensor. */
typedef struct rshi_shape_told {
    int64_t dtype, ndim, shape[RSH_MAX_NDIM];
} rshi_shape_told;
rshi_shape_told rshi_shape_of(const rsh_tensor *t);
rsh_status rshi_shape_make(const rshi_shape_told *o, rsh_tensor **out);

#endif
