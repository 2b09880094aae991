/* Functional: the collectives of a group as ops with derivatives, torch.distributed.nn.functional.
 *
 * They take and give plain values.  Every rank of the group calls them, and their backward is
 * collective too: every rank must use an output, and all ranks must agree on which inputs require
 * gradients.  A rank whose outputs got no gradient takes part with zeros.  Copies, sum and avg have
 * derivatives; for other ops backward is RSH_EUNSUP with the name of the call.  `how` is explained
 * in <reshard/grad.h>: PyTorch's derivatives are adjoints.
 *
 * Errors are those of <reshard/torch/group.h>, RSH_EVALUE if an input is distributed or `how` is no
 * derivative, RSH_ERUNTIME if this rank is not a member, and RSH_ENOMEM.  The caller frees what it
 * gets. */
#ifndef RESHARD_TORCH_FUNCTIONAL_H
#define RESHARD_TORCH_FUNCTIONAL_H

#include <reshard/grad.h>
#include <reshard/torch/group.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The root's value on every rank.  `v` has the same shape and dtype on all; its elements count on
 * the root only.  Gradients of other ranks are zero.  Collective. */
RSH_API rsh_status rsh_functional_broadcast(rsh_group *g, rsh_value *v, int root,
                                            rsh_derivative how, rsh_value **out);
/* Entry r of the root's list on rank r.  PyTorch's receivers pass a list too; of theirs it counts
 * only whether an entry requires a gradient.  Collective. */
RSH_API rsh_status rsh_functional_scatter(rsh_group *g, int nlist, rsh_value *const *list, int root,
                                          rsh_derivative how, rsh_value **out);
/* Every rank's value on the root, in rank order; zeros on the other ranks.  On every rank `out` has
 * nlist entries, one for each rank of the group.  Collective. */
RSH_API rsh_status rsh_functional_gather(rsh_group *g, rsh_value *v, int root, rsh_derivative how,
                                         int nlist, rsh_value **out);
/* The reduction on the root; zeros on the other ranks.  Collective. */
RSH_API rsh_status rsh_functional_reduce(rsh_group *g, rsh_value *v, rsh_op op, int root,
                                         rsh_derivative how, rsh_value **out);
/* The reduction on every rank.  Collective. */
RSH_API rsh_status rsh_functional_all_reduce(rsh_group *g, rsh_value *v, rsh_op op,
                                             rsh_derivative how, rsh_value **out);
/* Every rank's value on every rank, in rank order; `out` has nlist entries.  Collective. */
RSH_API rsh_status rsh_functional_all_gather(rsh_group *g, rsh_value *v, rsh_derivative how,
                                             int nlist, rsh_value **out);
/* The reduction of entry r over all ranks, on rank r.  Collective. */
RSH_API rsh_status rsh_functional_reduce_scatter(rsh_group *g, int nlist, rsh_value *const *list,
                                                 rsh_op op, rsh_derivative how, rsh_value **out);
/* Rank i's in[j] becomes rank j's out[i]; both lists have nlist entries, and shapes may differ from
 * pair to pair.  Nothing is replicated, so there is one derivative.  Collective. */
RSH_API rsh_status rsh_functional_all_to_all(rsh_group *g, int nlist, rsh_value *const *in,
                                             rsh_value **out);
/* The same along dim 0 of one value; the output is ordered by source rank.  `out_splits` and
 * `in_splits` have one entry for each rank; NULL: equal sizes.  Collective. */
RSH_API rsh_status rsh_functional_all_to_all_single(rsh_group *g, rsh_value *v,
                                                    const int64_t *out_splits,
                                                    const int64_t *in_splits, rsh_value **out);

#ifdef __cplusplus
}
#endif
#endif
