/* Recompute: modules that keep less between forward and backward.
 *
 * rsh_recompute keeps the inputs of a module and runs its forward again in backward.
 * rsh_input_reshard keeps of every tensor that all ranks have only this rank's chunk, and gathers
 * it in backward.  Outputs and gradients are the same bits as without.  They can be combined:
 * rsh_input_reshard on a module that recomputes, or around one, cuts the inputs that it keeps. */
#ifndef RESHARD_NN_RECOMPUTE_H
#define RESHARD_NN_RECOMPUTE_H

#include <reshard/mesh.h>
#include <reshard/nn/module.h>

#ifdef __cplusplus
extern "C" {
#endif

/* From now on calls of the module keep its inputs for backward, through the hooks for saved tensors
 * that are pushed around the call, and nothing of what is inside.  The first backward that needs
 * something of the inside runs the forward function again, with the inputs, random state and
 * training modes of the first run.  Hooks of the module itself run once, those of its children
 * twice.  The forward function must do the same both times.  Every retained backward runs it again.
 * Nested modules may recompute too.
 *
 * The call itself: RSH_ERUNTIME with the message while hooks for saved tensors are disabled.
 * Backward: what the second run returns; RSH_ERUNTIME if a parameter or an input has changed since
 * the first run, or the second run saves fewer tensors.
 * RSH_EVALUE for NULL.  Local; backward is collective over the comms that forward uses. */
RSH_API rsh_status rsh_recompute(rsh_module *m);

/* What calls of a module with rsh_input_reshard have kept and gathered so far. */
typedef struct rsh_input_reshard_stats {
    int64_t cut;    /* tensors of which a chunk is kept */
    int64_t shared; /* slots that share the chunk of an earlier one */
    int64_t left;   /* slots that keep their tensor as it is */
    int64_t gathers;
    int64_t prefetches; /* of these, begun before the op that reads came to its turn */
    uint64_t bytes_whole, bytes_kept; /* of the tensors that were cut, and of their chunks */
    uint64_t reserved[9];             /* 0; for counts of later versions */
} rsh_input_reshard_stats;

typedef struct rsh_input_reshard_opts {
    size_t struct_size;       /* sizeof(rsh_input_reshard_opts) */
    bool plain_is_replicated; /* tensors that are not distributed are the same on all ranks: cut
                                 them too.  Values that differ are silently wrong, unless the
                                 environment variable RESHARD_CHECK is 1: then ranks compare digests
                                 in forward, and a difference is RSH_EVALUE on all of them. */
    int64_t threshold;        /* tensors with fewer elements are left; 0: the number of ranks */
    rsh_input_reshard_stats *stats; /* added to, borrowed for as long as the module and graphs of
                                       its calls live; NULL: nothing is counted */
    bool no_prefetch; /* gathers begin when an op reads, not one saved tensor ahead.  All ranks say
                         the same.  Faster where ranks read one another's memory and every core has
                         a rank: nothing moves meanwhile, and beginning ahead is one more meeting */
} rsh_input_reshard_opts;
#define RSH_INPUT_RESHARD_OPTS_INIT {sizeof(rsh_input_reshard_opts), 0, 0, 0, 0}

/* From now on what ops inside the module save for backward is kept as this rank's chunk along a dim
 * (negative: from the end) if all ranks of the mesh have it: DTensors that are replicated on the
 * mesh, and with an option plain tensors.  Backward gathers it, once for all slots that saved the
 * same tensor in the same version, and begins to one op ahead.  Left as they are: parameters and
 * buffers of the module and leaves that require a gradient, DTensors that are sharded, partial or
 * on another mesh, tensors without the dim, with few elements, or expanded, and what inner hooks
 * for saved tensors take.  Chunks may be uneven.  opts may be NULL: zeros.  Only the innermost pair
 * of hooks counts, so an inner module's call of this function hides an outer one's.
 *
 * The hooks are pushed before forward and popped after it, also if it fails.  On a mesh
 * of one rank and on ranks outside the mesh nothing changes.  The module holds the mesh.
 * RSH_EVALUE for NULL, a mesh of more than one dim, a negative threshold, or options that do not
 * start from RSH_INPUT_RESHARD_OPTS_INIT; RSH_ENOMEM.  Local; backward is collective over the
 * mesh. */
RSH_API rsh_status rsh_input_reshard(rsh_module *m, rsh_mesh *mesh, int dim,
                                     const rsh_input_reshard_opts *opts);

#ifdef __cplusplus
}
#endif
#endif
