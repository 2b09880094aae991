/* Stash: tensors that all ranks have, kept as one chunk on each rank until they are needed again.
 *
 * It is for programs with an autograd of their own: what forward saves for backward, and what is
 * the same on every rank, is packed, and unpacked in backward.  A rank then keeps 1/ranks of it,
 * and one gather brings it back.  libreshard-nn's rsh_input_reshard does this for its own modules.
 *
 * A ticket stands for one packed tensor.  Tickets of a stash are numbered in the order of packing,
 * so every rank packs the same tensors in the same order, and ranks that ask for different tickets
 * find out.  One thread, the rank, uses a stash and its tickets. */
#ifndef RESHARD_STASH_H
#define RESHARD_STASH_H

#include <reshard/shard.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct rsh_stash rsh_stash;
typedef struct rsh_ticket rsh_ticket;

/* An empty stash.  The comm is borrowed; it must outlive stash and tickets.  The caller frees *out.
 * RSH_ENOMEM.  Local. */
RSH_API rsh_status rsh_stash_new(rsh_comm *comm, rsh_stash **out);
/* Frees the stash; its tickets may be used after it.  No-op for NULL.  Local. */
RSH_API void rsh_stash_free(rsh_stash *s);

/* Numbers tickets from 1 again: at the start of every step, so that a rank which failed in the
 * middle of the last one counts as the others do.  Of tickets that are still there, those with the
 * same number are told apart by their forms alone.  No-op for NULL.  Local. */
RSH_API void rsh_stash_restart(rsh_stash *s);

/* Would pack cut this tensor along this dim (negative: from the end)?  Not if it lacks the dim, has
 * fewer elements than there are ranks, or is expanded (a stride of 0), since a chunk would then be
 * no smaller; and not on a comm of one rank.  Local. */
RSH_API bool rsh_stash_would_cut(const rsh_stash *s, const rsh_tensor *t, int dim);
/* Packs a tensor that has the same elements on all ranks: copies this rank's chunk along the dim,
 * as the chunk rule has it, and notes shape, strides and dtype.  A tensor that is not cut is kept
 * as it is, on its storage.  The caller frees *out.
 * RSH_EVALUE for NULL; RSH_ENOMEM.  Local. */
RSH_API rsh_status rsh_stash_pack(rsh_stash *s, const rsh_tensor *t, int dim, rsh_ticket **out);
/* Begins to gather, so that the next unpack finds it under way or done.  Nothing happens if that
 * was begun already, or the tensor was not cut.  Until it is unpacked or forgotten every rank makes
 * the same collective calls on the comm.
 * RSH_EMISMATCH if ranks name different tickets; RSH_ENOMEM; what rsh_reshard_begin returns.
 * Collective; local if the tensor was not cut. */
RSH_API rsh_status rsh_stash_prefetch(rsh_ticket *t);
/* The tensor as it was: elements, shape, dtype, and dims in the same order in memory, without gaps.
 * May be called again: it then gathers again.  The caller frees *out.
 * RSH_EMISMATCH if ranks unpack different tickets; RSH_ERUNTIME if a tensor that was not cut has
 * changed since; RSH_ENOMEM; what rsh_reshard returns.  Collective; local if the tensor was not
 * cut. */
RSH_API rsh_status rsh_stash_unpack(rsh_ticket *t, rsh_tensor **out);
/* Ends what prefetch has begun, and drops it.  No-op for NULL and if nothing was begun.  All ranks
 * do this or unpack.  Local, but waits for neighbours. */
RSH_API void rsh_stash_forget(rsh_ticket *t);
/* Frees a ticket, after rsh_stash_forget.  No-op for NULL.  Local but for that. */
RSH_API void rsh_ticket_free(rsh_ticket *t);

/* ---- questions: local ---- */

/* The number, from 1; 0 for NULL.  Local. */
RSH_API uint64_t rsh_ticket_number(const rsh_ticket *t);
/* Was it cut?  Local. */
RSH_API bool rsh_ticket_is_cut(const rsh_ticket *t);
/* Is a gather under way?  Local. */
RSH_API bool rsh_ticket_is_begun(const rsh_ticket *t);
/* Bytes of the whole tensor, and those that this rank keeps for it.  Local. */
RSH_API uint64_t rsh_ticket_bytes(const rsh_ticket *t);
RSH_API uint64_t rsh_ticket_bytes_kept(const rsh_ticket *t);

#ifdef __cplusplus
}
#endif
#endif
