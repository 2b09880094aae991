/* Process groups: PyTorch's view of a comm.
 *
 * A rank thread has a default group, created from a comm, and subgroups of it.  Ranks, including
 * roots of collectives, are ranks of the group; two functions translate to and from global ranks,
 * which are ranks of the default group's comm.  If a group is NULL, the default group is used.
 *
 * Every rank of the group must make the same collective calls in the same order; on ranks that are
 * not members these are no-ops (RSH_OK).  If one rank fails, every rank gets its status and
 * message.  They return the errors that <reshard/comm.h> lists for collective calls, RSH_ERUNTIME
 * if there is no default group, and RSH_ENOMEM. */
#ifndef RESHARD_TORCH_GROUP_H
#define RESHARD_TORCH_GROUP_H

#include <reshard/comm.h>
#include <reshard/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct rsh_group rsh_group;

/* ---- groups ---- */

/* Sets the default group of the calling thread to `world`, which is borrowed and must outlive the
 * group.
 * RSH_ERUNTIME if the thread already has a default group; RSH_ENOMEM.  Local. */
RSH_API rsh_status rsh_group_init(rsh_comm *world);
/* Frees the default group.
 * RSH_EBUSY while a subgroup or a tensor of the group or a subgroup exists, or a group is entered;
 * RSH_ERUNTIME if there is no default group.  Local. */
RSH_API rsh_status rsh_group_destroy(void);
/* Returns the default group, borrowed; NULL if there is none.  Local. */
RSH_API rsh_group *rsh_group_default(void);

/* Creates a subgroup of these global ranks, in any order; the group sorts them.  Non-members also
 * get a handle.  The caller frees *out.
 * RSH_EVALUE if a rank is given twice or is outside the default group; RSH_EMISMATCH if ranks pass
 * different members.  Collective over the whole default group, including non-members. */
RSH_API rsh_status rsh_group_new(int n, const int *ranks, rsh_group **out);
/* Frees a subgroup, and leaves it if it was entered.  Call it on the thread that created the group.
 * No-op for NULL and for the default group.  Local. */
RSH_API void rsh_group_free(rsh_group *g);

/* Return rank and size; -1 if this rank is not a member or there is no default group.  Local. */
RSH_API int rsh_group_rank(const rsh_group *g);
RSH_API int rsh_group_size(const rsh_group *g);
/* Returns the comm of the group, borrowed; NULL for a non-member.  Local. */
RSH_API rsh_comm *rsh_group_comm(const rsh_group *g);
/* Convert a rank of the group to a global rank, and back.
 * RSH_ERUNTIME if the group has no such rank, or this rank is not a member.  Local. */
RSH_API rsh_status rsh_group_to_global(const rsh_group *g, int rank, int *out);
RSH_API rsh_status rsh_group_from_global(const rsh_group *g, int global, int *out);

/* Sets the group into which this thread loads saved tensors, until rsh_group_leave.  If g is NULL,
 * nothing changes, and another group may be entered; call rsh_group_leave all the same.
 * RSH_ERUNTIME if a group is already entered.  Local. */
RSH_API rsh_status rsh_group_enter(rsh_group *g);
RSH_API void rsh_group_leave(void);
/* Enters a group, calls fn, and leaves the group even if fn fails.  Returns the status of fn.
 * RSH_ERUNTIME if a group is already entered.  Local. */
RSH_API rsh_status rsh_group_within(rsh_group *g, rsh_status (*fn)(void *ctx, rsh_group *g),
                                    void *ctx);
/* Returns the entered group, or the default group; borrowed.  RSH_ERUNTIME if there is neither.
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
/* Gathers the bytes of every rank on every rank.  The caller frees *out; non-members get NULL.
 * Collective. */
RSH_API rsh_status rsh_group_all_gather_object(rsh_group *g, const void *data, size_t bytes,
                                               rsh_objects **out);
/* Frees the list and its bytes.  No-op for NULL.  Local. */
RSH_API void rsh_objects_free(rsh_objects *o);

/* The following applies to all functions below.
 * Outputs may overlap inputs and each other; this costs temporary memory on that rank.  If an
 * element belongs to two outputs, it gets the value of the later one.  scatter and gather take
 * `list` on the root only.
 * RSH_ERUNTIME if dtypes differ, between tensors of a call or between ranks, or a root is outside
 * the group; RSH_EVALUE if shapes that must be equal differ, ranks pass different roots, a list
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
/* Reductions combine in ascending rank order, so every engine gives the same bits.  all_reduce and
 * reduce write to their input, which costs temporary memory of its size; reduce does not change
 * the tensors of other ranks.
 * RSH_ETYPE if the op does not exist for the dtype; RSH_EMISMATCH if ranks pass different ops.
 * Collective. */
RSH_API rsh_status rsh_group_all_reduce(rsh_group *g, rsh_tensor *t, rsh_op op);
RSH_API rsh_status rsh_group_reduce(rsh_group *g, rsh_tensor *t, rsh_op op, int root);
RSH_API rsh_status rsh_group_reduce_scatter(rsh_group *g, rsh_tensor *out, int nlist,
                                            const rsh_tensor *const *list, rsh_op op);
/* Sends in[j] of rank i to out[i] of rank j.  The shapes of such a pair must be equal; those of
 * different pairs may differ.  Collective. */
RSH_API rsh_status rsh_group_all_to_all(rsh_group *g, int nlist, rsh_tensor *const *out,
                                        const rsh_tensor *const *in);
/* Does the same along dim 0 of one tensor; the output is ordered by source rank.  Split lists have
 * one entry per rank; NULL: equal sizes.
 * RSH_ERUNTIME if a list does not add up to the size of dim 0, or dim 0 is not divisible by the
 * number of ranks.  Collective. */
RSH_API rsh_status rsh_group_all_to_all_single(rsh_group *g, rsh_tensor *out, const rsh_tensor *in,
                                               const int64_t *out_splits, const int64_t *in_splits);

#ifdef __cplusplus
}
#endif
#endif
