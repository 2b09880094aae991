/* Process groups: PyTorch's view of a comm.
 *
 * A rank thread has a default group, made from a comm, and subgroups of it.  Ranks are ranks of the
 * group in every call, roots of collectives too; two functions translate to and from global ranks,
 * which are ranks of the default group's comm.  A group of NULL means the default group.
 *
 * Every rank of the group makes the same collective calls in the same order; for a rank that is not
 * a member they are no-ops (RSH_OK).  If one rank refuses, every rank gets its status and sentence.
 * They return what <reshard/comm.h> says of collective calls, RSH_ERUNTIME if there is no default
 * group, and RSH_ENOMEM. */
#ifndef RESHARD_TORCH_GROUP_H
#define RESHARD_TORCH_GROUP_H

#include <reshard/comm.h>
#include <reshard/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct rsh_group rsh_group;

/* ---- groups ---- */

/* Makes the calling thread a rank whose default group is `world`, which is borrowed and must
 * outlive the group.
 * RSH_ERUNTIME if the thread has a default group; RSH_ENOMEM.  Local. */
RSH_API rsh_status rsh_group_init(rsh_comm *world);
/* Frees the default group.
 * RSH_EBUSY while a subgroup or a tensor of the group or a subgroup exists, or a group is entered;
 * RSH_ERUNTIME if there is no default group.  Local. */
RSH_API rsh_status rsh_group_destroy(void);
/* The default group, borrowed; NULL if there is none.  Local. */
RSH_API rsh_group *rsh_group_default(void);

/* A subgroup of these global ranks, given in any order; in the group they are sorted.  Non-members
 * also get a handle.  The caller frees *out.
 * RSH_EVALUE if a rank is given twice or is outside the default group; RSH_EMISMATCH if ranks name
 * different members.  Collective over the default group, members or not. */
RSH_API rsh_status rsh_group_new(int n, const int *ranks, rsh_group **out);
/* Frees a subgroup, and leaves it if it was entered.  Call it on the thread that made the group.
 * No-op for NULL and for the default group.  Local. */
RSH_API void rsh_group_free(rsh_group *g);

/* Rank and size: -1 for a rank that is not a member, or if there is no default group.  Local. */
RSH_API int rsh_group_rank(const rsh_group *g);
RSH_API int rsh_group_size(const rsh_group *g);
/* The comm of the group, borrowed; NULL for a non-member.  Local. */
RSH_API rsh_comm *rsh_group_comm(const rsh_group *g);
/* The global rank of a rank of the group, and back.
 * RSH_ERUNTIME if the group has no such rank, or this rank is not a member.  Local. */
RSH_API rsh_status rsh_group_to_global(const rsh_group *g, int rank, int *out);
RSH_API rsh_status rsh_group_from_global(const rsh_group *g, int global, int *out);

/* Sets the group under which this thread loads saved tensors, until it leaves the group.  Entering
 * NULL changes nothing and must still be left; another group may be entered inside it.
 * RSH_ERUNTIME if a group is entered already.  Local. */
RSH_API rsh_status rsh_group_enter(rsh_group *g);
RSH_API void rsh_group_leave(void);
/* Enters a group, calls fn, and leaves the group whatever fn returns.  Returns the status of fn.
 * RSH_ERUNTIME if a group is entered already.  Local. */
RSH_API rsh_status rsh_group_within(rsh_group *g, rsh_status (*fn)(void *ctx, rsh_group *g),
                                    void *ctx);
/* The group that is entered, or the default group; borrowed.  RSH_ERUNTIME if there is neither.
 * Local. */
RSH_API rsh_status rsh_group_current(rsh_group **out);

/* ---- collectives: tensors of any strides ---- */

/* Returns when every rank has called it.  Collective. */
RSH_API rsh_status rsh_group_barrier(rsh_group *g);

/* Bytes of every rank, in rank order. */
typedef struct rsh_objects {
    int n;
    void **data;   /* owned */
    size_t *bytes; /* owned */
} rsh_objects;
/* Sends any bytes of every rank to every rank.  The caller frees *out; non-members get NULL.
 * Collective. */
RSH_API rsh_status rsh_group_all_gather_object(rsh_group *g, const void *data, size_t bytes,
                                               rsh_objects **out);
/* Frees the list and its bytes.  No-op for NULL.  Local. */
RSH_API void rsh_objects_free(rsh_objects *o);

/* For all that follow:
 * Outputs may share elements with inputs and with one another; this costs temporaries on that rank.
 * If an element belongs to two outputs, it gets the value of the later one.  scatter and gather
 * take `list` on the root only.
 * RSH_ERUNTIME if dtypes differ, between tensors of a call or between ranks, or a root is outside
 * the group; RSH_EVALUE if shapes that must be equal differ, ranks name different roots, a list
 * does not have one entry per rank, the list of scatter or gather is missing on the root or given
 * elsewhere, or the strides of an output put two of its elements at the same address.
 * Collective. */
RSH_API rsh_status rsh_group_broadcast(rsh_group *g, rsh_tensor *t, int root);
RSH_API rsh_status rsh_group_scatter(rsh_group *g, rsh_tensor *out, int nlist,
                                     const rsh_tensor *const *list, int root);
RSH_API rsh_status rsh_group_gather(rsh_group *g, const rsh_tensor *in, int nlist,
                                    rsh_tensor *const *list, int root);
RSH_API rsh_status rsh_group_all_gather(rsh_group *g, int nlist, rsh_tensor *const *list,
                                        const rsh_tensor *in);
/* Reductions combine in ascending rank: every engine gives the same bits.  all_reduce and reduce
 * write to their input, which costs a temporary of its size; reduce does not change the tensors of
 * other ranks.
 * RSH_ETYPE if the op does not exist for the dtype; RSH_EMISMATCH if ranks ask for different ops.
 * Collective. */
RSH_API rsh_status rsh_group_all_reduce(rsh_group *g, rsh_tensor *t, rsh_op op);
RSH_API rsh_status rsh_group_reduce(rsh_group *g, rsh_tensor *t, rsh_op op, int root);
RSH_API rsh_status rsh_group_reduce_scatter(rsh_group *g, rsh_tensor *out, int nlist,
                                            const rsh_tensor *const *list, rsh_op op);
/* Rank i's in[j] arrives as rank j's out[i].  The shapes of such a pair must be equal; those of
 * different pairs may differ.  Collective. */
RSH_API rsh_status rsh_group_all_to_all(rsh_group *g, int nlist, rsh_tensor *const *out,
                                        const rsh_tensor *const *in);
/* The same along dim 0 of one tensor; the output is ordered by source rank.  Split lists have one
 * entry per rank; NULL: equal sizes.
 * RSH_ERUNTIME if a list does not sum to dim 0, or dim 0 cannot be divided equally.  Collective. */
RSH_API rsh_status rsh_group_all_to_all_single(rsh_group *g, rsh_tensor *out, const rsh_tensor *in,
                                               const int64_t *out_splits, const int64_t *in_splits);

#ifdef __cplusplus
}
#endif
#endif
