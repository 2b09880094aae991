/* Stash: stores replicated tensors as one chunk per rank until they are needed again.
 *
 * It is for programs with their own autograd.  Forward packs tensors that are equal on every rank,
 * and backward unpacks them.  Each rank then keeps 1/ranks of such a tensor, and one gather brings
 * it back.  rsh_input_reshard of libreshard-nn does this for modules.
 *
 * A ticket identifies one packed tensor.  The tickets of a stash are numbered in the order of
 * packing.  Every rank must pack the same tensors in the same order; calls in which ranks pass
 * different tickets fail.  A stash and its tickets belong to one thread, its rank. */
#ifndef RESHARD_STASH_H
#define RESHARD_STASH_H

#include <reshard/shard.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct rsh_stash rsh_stash;
typedef struct rsh_ticket rsh_ticket;

/* Creates an empty stash.  The comm is borrowed and must outlive the stash and its tickets.  The
 * caller frees *out.
 * RSH_ENOMEM.  Local. */
RSH_API rsh_status rsh_stash_new(rsh_comm *comm, rsh_stash **out);
/* Frees the stash; its tickets remain valid.  No-op for NULL.  Local. */
RSH_API void rsh_stash_free(rsh_stash *s);

/* Restarts the numbering of tickets at 1.  Call it at the start of every step, so that a rank that
 * failed in the middle of the previous step has the same numbers as the others.  Old tickets with
 * the same number are distinguished only by shape and dtype.  No-op for NULL.  Local. */
RSH_API void rsh_stash_restart(rsh_stash *s);

/* Returns whether pack would cut this tensor along this dim (negative: from the end).  It does not
 * if the tensor lacks the dim, has fewer elements than there are ranks, or is expanded (a stride of
 * 0), because a chunk would not be smaller; nor on a comm of one rank.  Local. */
RSH_API bool rsh_stash_would_cut(const rsh_stash *s, const rsh_tensor *t, int dim);
/* Packs a tensor that has the same elements on all ranks: copies this rank's chunk along the dim
 * (ceil(n/ranks) elements) and records shape, strides and dtype.  A tensor that is not cut is kept
 * on its storage.  The caller frees *out.
 * RSH_EVALUE for NULL; RSH_ENOMEM.  Local. */
RSH_API rsh_status rsh_stash_pack(rsh_stash *s, const rsh_tensor *t, int dim, rsh_ticket **out);
/* Starts the gather, so that the next unpack finds it in progress or complete.  No-op if it was
 * already started, or the tensor was not cut.  Until the ticket is unpacked or forgotten, every
 * rank must make the same collective calls on the comm.
 * RSH_EMISMATCH if ranks pass different tickets; RSH_ENOMEM; errors of rsh_reshard_begin.
 * Collective; local if the tensor was not cut. */
RSH_API rsh_status rsh_stash_prefetch(rsh_ticket *t);
/* Returns the tensor with its elements, shape and dtype; dims are in the same order in memory,
 * without gaps.  Each call gathers again.  The caller frees *out.
 * RSH_EMISMATCH if ranks unpack different tickets; RSH_ERUNTIME if a tensor that was not cut has
 * changed since; RSH_ENOMEM; errors of rsh_reshard.  Collective; local if the tensor was not
 * cut. */
RSH_API rsh_status rsh_stash_unpack(rsh_ticket *t, rsh_tensor **out);
/* Completes and discards a prefetch.  No-op for NULL and if none was started.  Every rank must call
 * this or unpack.  Local, but waits for the ranks that it exchanges data with. */
RSH_API void rsh_stash_forget(rsh_ticket *t);
/* Calls rsh_stash_forget and frees the ticket.  No-op for NULL.  Local, but waits as
 * rsh_stash_forget does. */
RSH_API void rsh_ticket_free(rsh_ticket *t);

/* ---- getters: local ---- */

/* Returns the ticket number, counted from 1; 0 for NULL.  Local. */
RSH_API uint64_t rsh_ticket_number(const rsh_ticket *t);
/* Returns whether the tensor was cut.  Local. */
RSH_API bool rsh_ticket_is_cut(const rsh_ticket *t);
/* Returns whether a gather is in progress.  Local. */
RSH_API bool rsh_ticket_is_begun(const rsh_ticket *t);
/* Return the size of the whole tensor, and the size that this rank keeps, in bytes.  Local. */
RSH_API uint64_t rsh_ticket_bytes(const rsh_ticket *t);
RSH_API uint64_t rsh_ticket_bytes_kept(const rsh_ticket *t);

#ifdef __cplusplus
}
#endif
#endif
