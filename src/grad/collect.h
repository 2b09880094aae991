/* collect: the collectives of a group as ops: their attributes, records and shared helpers. */
#ifndef RESHARD_GRAD_COLLECT_H
#define RESHARD_GRAD_COLLECT_H

#include "grad/impl.h"
#include "group/group.h"

/* Attributes of a collective op. */
typedef struct rshi_collecting {
    rsh_group *group; /* borrowed */
    rsh_comm *comm;   /* borrowed; comm of the group */
    int root;         /* -1: none */
    rsh_op op;
    rsh_derivative how;
    int64_t *splits; /* for all_to_all_single: split sizes of the input, then of the output; NULL:
                        equal sizes.  The copy in the entry owns them once forward has begun */
    bool *opened;    /* set to true when forward begins; from then on, errors of this rank reach the
                        other ranks */
} rshi_collecting;

extern const rsh_grad_op rshi_broadcast_op, rshi_reduce_op, rshi_all_reduce_op, rshi_all_gather_op,
    rshi_reduce_scatter_op, rshi_gather_op, rshi_scatter_op, rshi_all_to_all_op,
    rshi_all_to_all_single_op;

rsh_comm *rshi_collect_comm(const void *attrs);
static inline bool rshi_collect_is_root(const rshi_collecting *k) {
    return k->comm->rank == k->root;
}

/* Called first in forward: from here on the other ranks learn of an error on this rank. */
rshi_collecting *rshi_collect_open(rsh_grad_call *c);
/* Returns `st`, the status of this rank alone.  If it is not RSH_OK, the other ranks get it in
 * their next collective call. */
rsh_status rshi_collect_told(const rshi_collecting *k, rsh_status st);
/* Returns RSH_EUNSUP with the op's name if the reduction has no derivative. */
rsh_status rshi_collect_check_op(const rsh_grad_call *c, const rshi_collecting *k);
/* Divides a gradient by the number of ranks if the op is avg. */
void rshi_collect_weigh(const rshi_collecting *k, const rsh_tensor *g);

rsh_status rshi_collect_empty(const rsh_tensor *like, rsh_tensor **out);
rsh_status rshi_collect_copy(const rsh_tensor *t, rsh_tensor **out);
/* Create a list of n tensors like t, and free such a list. */
rsh_status rshi_collect_list(int n, const rsh_tensor *t, bool zero, rsh_tensor ***out);
void rshi_collect_free(int n, rsh_tensor **list);
/* Returns the inputs in a list, which the caller frees with rshi_free. */
const rsh_tensor *const *rshi_collect_inputs(const rsh_grad_call *c, rsh_status *st);
/* Copy the gradient of output i, or of all outputs; an output without a gradient gives zeros. */
rsh_status rshi_collect_gradient(const rsh_grad_call *c, int i, rsh_tensor **out);
rsh_status rshi_collect_gradients(const rsh_grad_call *c, rsh_tensor ***out);
/* Set outputs in forward, or gradients in backward, from a tensor or a list of n; free them if `st`
 * is an error. */
rsh_status rshi_collect_out(rsh_grad_call *c, int i, rsh_tensor *t, rsh_status st);
rsh_status rshi_collect_give(rsh_grad_call *c, int i, rsh_tensor *t, rsh_status st);
rsh_status rshi_collect_give_list(rsh_grad_call *c, int n, rsh_tensor **list, rsh_status st);

/* The description of a tensor that a sender passes to a receiver. */
typedef struct rshi_shape_told {
    int64_t dtype, ndim, shape[RSH_MAX_NDIM];
} rshi_shape_told;
rshi_shape_told rshi_shape_of(const rsh_tensor *t);
rsh_status rshi_shape_make(const rshi_shape_told *o, rsh_tensor **out);

#endif
