/* Functional: the collectives of a group as differentiable ops, torch.distributed.nn.functional.
 *
 * They take and return plain values.  Every rank of the group calls them, and their backward is
 * collective too: every rank must use an output, and all ranks must agree on which inputs require
 * gradients.  A rank whose outputs got no gradient contributes zeros.  Copies, sum and avg have
 * derivatives; for other ops backward returns RSH_EUNSUP with the name of the call.
 * <reshard/grad.h> explains `how`; PyTorch's derivatives are adjoints.
 *
 * Errors are those of <reshard/torch/group.h>, RSH_EVALUE if an input is distributed or `how` is
 * not a valid derivative, RSH_ERUNTIME if this rank is not a member, and RSH_ENOMEM.  The caller
 * frees the results. */
#ifndef RESHARD_TORCH_FUNCTIONAL_H
#define RESHARD_TORCH_FUNCTIONAL_H

#include <reshard/grad.h>
#include <reshard/torch/group.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Returns the root's value on every rank.  `v` must have the same shape and dtype on all ranks; its
 * elements are used on the root only.  Gradients of other ranks are zero.  Collective. */
RSH_API rsh_status rsh_functional_broadcast(rsh_group *g, rsh_value *v, int root,
                                            rsh_derivative how, rsh_value **out);
/* Returns entry r of the root's list on rank r.  Other ranks may pass a list too, as in PyTorch; it
 * is only used to determine which entries require a gradient.  Collective. */
RSH_API rsh_status rsh_functional_scatter(rsh_group *g, int nlist, rsh_value *const *list, int root,
                                          rsh_derivative how, rsh_value **out);
/* Returns every rank's value on the root, in rank order, and zeros on the other ranks.  On every
 * rank `out` has nlist entries, one for each rank of the group.  Collective. */
RSH_API rsh_status rsh_functional_gather(rsh_group *g, rsh_value *v, int root, rsh_derivative how,
                                         int nlist, rsh_value **out);
/* Returns the reduction on the root, and zeros on the other ranks.  Collective. */
RSH_API rsh_status rsh_functional_reduce(rsh_group *g, rsh_value *v, rsh_op op, int root,
                                         rsh_derivative how, rsh_value **out);
/* Returns the reduction on every rank.  Collective. */
RSH_API rsh_status rsh_functional_all_reduce(rsh_group *g, rsh_value *v, rsh_op op,
                                             rsh_derivative how, rsh_value **out);
/* Returns every rank's value on every rank, in rank order; `out` has nlist entries.  Collective. */
RSH_API rsh_status rsh_functional_all_gather(rsh_group *g, rsh_value *v, rsh_derivative how,
                                             int nlist, rsh_value **out);
/* Returns the reduction of entry r over all ranks on rank r.  Collective. */
RSH_API rsh_status rsh_functional_reduce_scatter(rsh_group *g, int nlist, rsh_value *const *list,
                                                 rsh_op op, rsh_derivative how, rsh_value **out);
/* Sends in[j] of rank i to out[i] of rank j.  Both lists have nlist entries; shapes may differ from
 * pair to pair.  Nothing is replicated, so both derivatives are the same.  Collective. */
RSH_API rsh_status rsh_functional_all_to_all(rsh_group *g, int nlist, rsh_value *const *in,
                                             rsh_value **out);
/* Does the same along dim 0 of one value; the output is ordered by source rank.  `out_splits` and
 * `in_splits` have one entry for each rank; NULL: equal sizes.  Collective. */
RSH_API rsh_status rsh_functional_all_to_all_single(rsh_group *g, rsh_value *v,
                                                    const int64_t *out_splits,
                                                    const int64_t *in_splits, rsh_value **out);

#ifdef __cplusplus
}
#endif
#endif
