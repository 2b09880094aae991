/* Process groups: PyTorch's view of a comm.
 *
 * A rank thread has a default group, made from a comm, and subgroups of it.  Ranks are ranks of the
 * group in every call, roots of collectives too; two functions translate to and from global ranks,
 * which are ranks of the default group's comm.  A group of NULL means the default group.
 * Collectives are called by every rank of the group in the same order; for a rank that is not a
 * member they are no-ops (RSH_OK).  A refusal on one rank gives every rank that rank's kind and
 * sentence. */
#ifndef RESHARD_TORCH_GROUP_H
#define RESHARD_TORCH_GROUP_H

#include <reshard/comm.h>
#include <reshard/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct rsh_group rsh_group;

/* ---- groups ---- */

/* Make the calling thread a rank whose default group is `world`, which must outlive it.
 * RSH_ERUNTIME if it has one.  Local. */
RSH_API rsh_status rsh_group_init(rsh_comm *world);
/* Frees the default group; subgroups are freed and entered groups left before (RSH_EBUSY).
 * RSH_ERUNTIME: there is none.  Local. */
RSH_API rsh_status rsh_group_destroy(void);
RSH_API rsh_group *rsh_group_default(void); /* borrowed; NULL if there is none */

/* A subgroup of these global ranks, in any order: the group's are ascending.  Collective over the
 * default group, members or not.  RSH_EVALUE: a rank twice or outside.  RSH_EMISMATCH: ranks name
 * different members. */
RSH_API rsh_status rsh_group_new(int n, const int *ranks, rsh_group **out);
/* No-op for NULL and for the default group.  An entered group is left.  Called by the thread that
 * made the group. */
RSH_API void rsh_group_free(rsh_group *g);

/* -1 for a rank that is not a member, and if there is no default group.  Local. */
RSH_API int rsh_group_rank(const rsh_group *g);
RSH_API int rsh_group_size(const rsh_group *g);
RSH_API rsh_comm *rsh_group_comm(const rsh_group *g); /* NULL for a non-member */
/* RSH_ERUNTIME: not a rank of the group, or not a member. */
RSH_API rsh_status rsh_group_to_global(const rsh_group *g, int rank, int *out);
RSH_API rsh_status rsh_group_from_global(const rsh_group *g, int global, int *out);

/* The group under which saved tensors are loaded, set for a while, per rank thread.  Entering
 * anything while one is set: RSH_ERUNTIME.  A group of NULL sets nothing, so that groups may be
 * entered inside it, and is left like any other.  Local. */
RSH_API rsh_status rsh_group_enter(rsh_group *g);
RSH_API void rsh_group_leave(void);
/* Enter, call, leave, whatever the call returns. */
RSH_API rsh_status rsh_group_within(rsh_group *g, rsh_status (*fn)(void *ctx, rsh_group *g),
                                    void *ctx);
/* The one entered, or the default group.  RSH_ERUNTIME: neither. */
RSH_API rsh_status rsh_group_current(rsh_group **out);

/* ---- collectives: tensors of any strides ---- */

RSH_API rsh_status rsh_group_barrier(rsh_group *g);

/* After steps that each rank takes alone, as rsh_shard_make is one: `mine` is how they ended here.
 * RSH_OK if they did everywhere; otherwise every rank gets the status of a rank on which they
 * failed, and the sentence of that rank's last failure.  Collective. */
RSH_API rsh_status rsh_group_agree(rsh_group *g, rsh_status mine);

/* Any bytes from every rank to every rank, in rank order.  Non-members get NULL. */
typedef struct rsh_objects {
    int n;
    void **data;   /* owned */
    size_t *bytes; /* owned */
} rsh_objects;
RSH_API rsh_status rsh_group_all_gather_object(rsh_group *g, const void *data, size_t bytes,
                                               rsh_objects **out);
RSH_API void rsh_objects_free(rsh_objects *o);

/* Everywhere: RSH_ERUNTIME where dtypes differ, between tensors of a call or between ranks, and for
 * a root outside the group;
 * RSH_EVALUE where shapes that must be equal are not, where ranks name different roots, or a list
 * has not as many entries as the group ranks.  `list` of scatter and gather belongs to the root:
 * without it, or with one elsewhere, RSH_EVALUE.  Outputs may share elements with inputs and with
 * one another, at the price of temporaries on that rank; where an element belongs to two outputs,
 * the later one's value stays.  RSH_EVALUE: an output holds two of its own elements in one place.
 */
RSH_API rsh_status rsh_group_broadcast(rsh_group *g, rsh_tensor *t, int root);
RSH_API rsh_status rsh_group_scatter(rsh_group *g, rsh_tensor *out, int nlist,
                                     const rsh_tensor *const *list, int root);
RSH_API rsh_status rsh_group_gather(rsh_group *g, const rsh_tensor *in, int nlist,
                                    rsh_tensor *const *list, int root);
RSH_API rsh_status rsh_group_all_gather(rsh_group *g, int nlist, rsh_tensor *const *list,
                                        const rsh_tensor *in);
/* Reductions combine in ascending rank: the same bits on every engine.  RSH_ETYPE: the dtype has no
 * such op.  RSH_EMISMATCH: ranks ask for different ops. all_reduce and reduce write onto their
 * input, which takes a temporary of its size; reduce leaves the tensors of other ranks as they are.
 */
RSH_API rsh_status rsh_group_all_reduce(rsh_group *g, rsh_tensor *t, rsh_op op);
RSH_API rsh_status rsh_group_reduce(rsh_group *g, rsh_tensor *t, rsh_op op, int root);
RSH_API rsh_status rsh_group_reduce_scatter(rsh_group *g, rsh_tensor *out, int nlist,
                                            const rsh_tensor *const *list, rsh_op op);
/* Rank i's in[j] arrives as rank j's out[i]; the shapes of a pair must agree, those of different
 * pairs need not. */
RSH_API rsh_status rsh_group_all_to_all(rsh_group *g, int nlist, rsh_tensor *const *out,
                                        const rsh_tensor *const *in);
/* The same along dim 0 of one tensor, pieces in the order of the ranks they come from.  Split
 * lists: one entry a rank, summing to dim 0 (RSH_ERUNTIME); NULL: equal pieces, dim 0 must be
 * divisible. */
RSH_API rsh_status rsh_group_all_to_all_single(rsh_group *g, rsh_tensor *out, const rsh_tensor *in,
                                               const int64_t *out_splits, const int64_t *in_splits);

#ifdef __cplusplus
}
#endif
#endif
