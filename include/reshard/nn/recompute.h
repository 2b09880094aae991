/* Recompute: modules that keep less memory between forward and backward.
 *
 * rsh_recompute keeps the inputs of a module and runs its forward again during backward.
 * rsh_input_reshard keeps only this rank's chunk of each replicated tensor, and gathers the tensor
 * during backward.  Outputs and gradients are bit for bit the same, except that a tensor with gaps
 * or negative strides is gathered without them, which can change the last bit of a product.  The
 * two can be combined: rsh_input_reshard on a module that recomputes, or on a parent of it, cuts
 * the inputs that are kept. */
#ifndef RESHARD_NN_RECOMPUTE_H
#define RESHARD_NN_RECOMPUTE_H

#include <reshard/mesh.h>
#include <reshard/nn/module.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Makes a module recompute.  From now on a call keeps only its inputs for backward, through the
 * hooks for saved tensors that are active around the call.  The first backward that needs a value
 * from inside the module runs the forward function again, with the inputs, random state and
 * training modes of the first run.  Hooks of the module itself run once, those of its children
 * twice.  Both runs must compute the same.  Every backward with RSH_RETAIN_GRAPH runs it again.
 * Recomputing modules may be nested.
 *
 * Calling the module returns RSH_ERUNTIME while hooks for saved tensors are disabled.  Backward
 * returns errors of the second run, and RSH_ERUNTIME if a parameter or an input has changed since
 * the first run, or if the second run saves fewer tensors.
 * RSH_EVALUE for NULL.  Local; backward is collective over the comms that forward uses. */
RSH_API rsh_status rsh_recompute(rsh_module *m);

/* What calls of a module with rsh_input_reshard have kept and gathered.  A slot is one tensor that
 * an op saves for backward. */
typedef struct rsh_input_reshard_stats {
    int64_t cut;    /* tensors of which only a chunk is kept */
    int64_t shared; /* slots that share the chunk of an earlier slot */
    int64_t left;   /* slots that keep their whole tensor */
    int64_t gathers;
    int64_t prefetches; /* gathers that were started before the op that needs them */
    uint64_t bytes_whole, bytes_kept; /* sizes of the tensors that were cut, and of their chunks */
    uint64_t reserved[9];             /* 0; reserved for later versions */
} rsh_input_reshard_stats;

typedef struct rsh_input_reshard_opts {
    size_t struct_size;       /* sizeof(rsh_input_reshard_opts) */
    bool plain_is_replicated; /* also cut plain tensors, which must then be equal on all ranks.  If
                                 they differ, results are silently wrong, unless the environment
                                 variable RESHARD_CHECK is 1: then forward compares digests, and a
                                 difference returns RSH_EVALUE on all ranks */
    int64_t threshold;        /* do not cut tensors with fewer elements; 0: the number of ranks */
    rsh_input_reshard_stats *stats; /* counters to add to; borrowed while the module and graphs of
                                       its calls exist; NULL: do not count */
    bool no_prefetch; /* start a gather when an op needs the tensor, not one op ahead.  Must be the
                         same on all ranks.  Faster if ranks read each other's memory directly and
                         every core runs a rank: a prefetch then saves no time and costs an
                         additional synchronization */
} rsh_input_reshard_opts;
#define RSH_INPUT_RESHARD_OPTS_INIT {sizeof(rsh_input_reshard_opts), 0, 0, 0, 0}

/* From now on, tensors that ops inside the module save for backward are kept as this rank's chunk
 * along a dim (negative: from the end) if all ranks of the mesh have the same tensor: DTensors that
 * are replicated on the mesh and, if plain_is_replicated is set, plain tensors.  Backward gathers
 * such a tensor one op ahead, once for all slots that saved the same version of it.  The following
 * are never cut: parameters and buffers of the module, leaves that require a gradient, DTensors
 * that are sharded, partial or on another mesh, tensors that lack the dim, are small or expanded,
 * and tensors that inner hooks for saved tensors handle.  Chunks may be uneven.  opts may be NULL.
 * Only
 * the innermost pair of hooks is used, so a call for an inner module overrides a call for an outer
 * one.
 *
 * The hooks are pushed before forward and popped after it, even if it fails.  On a mesh of one rank
 * and on ranks outside the mesh nothing changes.  The module holds a reference to the mesh.
 * RSH_EVALUE for NULL, a mesh with more than one dim, a negative threshold, or options that do not
 * start from RSH_INPUT_RESHARD_OPTS_INIT; RSH_ENOMEM.  Local; backward is collective over the
 * mesh. */
RSH_API rsh_status rsh_input_reshard(rsh_module *m, rsh_mesh *mesh, int dim,
                                     const rsh_input_reshard_opts *opts);

#ifdef __cplusplus
}
#endif
#endif
