/* Model checkpoint: saves and loads a module and its optimizer in one call.
 *
 * A checkpoint is a directory of rank files, as rsh_ckpt_save writes it.  It contains parameters
 * and persistent buffers under their paths ("layers.0.weight"), the state of the optimizer under
 * "optimizer." ("optimizer.layers.0.weight.first", "optimizer.lr"), and further values under
 * "extra.".  A tied parameter is stored once, under its first path.
 *
 * Plain parameters, sharded ones and DTensors can be mixed in one tree.  A checkpoint does not
 * depend on ranks: it can be loaded on a different number of ranks, and into a model that is cut
 * differently or not at all. */
#ifndef RESHARD_NN_CHECKPOINT_H
#define RESHARD_NN_CHECKPOINT_H

#include <reshard/ckpt.h>
#include <reshard/nn/optim.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct rsh_module_save_opts {
    size_t struct_size;             /* sizeof(rsh_module_save_opts) */
    const rsh_optimizer *optimizer; /* also save its state; NULL: none */
    const rsh_state_dict *extra;    /* further values, such as rsh_random_state_dict; NULL: none */
    const rsh_save_opts *files;     /* how to write files, and a map to other names, which also
                                       applies to the optimizer's tensors; NULL: defaults */
} rsh_module_save_opts;
#define RSH_MODULE_SAVE_OPTS_INIT {sizeof(rsh_module_save_opts), 0, 0, 0}

/* Saves a tree at `path`, which all ranks must be able to access.  The comm must contain all ranks
 * that share the model: those of its sharded parameters and meshes, and the replicas of a
 * data-parallel model.  Plain values are taken from rank 0, replicated ones from the first replica.
 * opts may be NULL.  All ranks must pass the same path and options.
 *
 * The checkpoint appears complete or not at all.
 * RSH_EVALUE for NULL, if the options do not start from RSH_MODULE_SAVE_OPTS_INIT, or if the path
 * exists and opts->files->force is not set; RSH_EKEY if a parameter's path begins with "optimizer."
 * or "extra."; RSH_EUNSUP if a parameter is partial, or several meshes share it in ways that cannot
 * be combined; RSH_ERUNTIME if a parameter is still deferred (call rsh_module_materialize);
 * RSH_EMISMATCH if ranks have different names; errors of rsh_ckpt_save.
 * Collective over the comm. */
RSH_API rsh_status rsh_module_save(rsh_module *m, rsh_comm *comm, const char *path,
                                   const rsh_module_save_opts *opts);

typedef struct rsh_module_load_opts {
    size_t struct_size;         /* sizeof(rsh_module_load_opts) */
    rsh_optimizer *optimizer;   /* also load its state; NULL: ignore state in the files */
    rsh_state_dict *extra;      /* also load its values, by name; NULL: none */
    const rsh_ckpt_rules *from; /* how rank files of other tools are cut, as for rsh_ckpt_open */
    const rsh_ckpt_rules *map;  /* rules that produce the tensors of the model from those of the
                                   files, as for rsh_ckpt_map; NULL: the names are the same */
    unsigned flags;             /* RSH_LOAD_NONSTRICT: ignore missing and unexpected names */
} rsh_module_load_opts;
#define RSH_MODULE_LOAD_OPTS_INIT {sizeof(rsh_module_load_opts), 0, 0, 0, 0, 0}

/* Loads a checkpoint at `path`, in any format that rsh_ckpt_open reads, into a tree.  The comm is
 * the same as above.  Elements are converted to the dtypes of the parameters.  The optimizer may be
 * new: its moments, step counts, learning rate and parameter settings are loaded.  opts may be
 * NULL.
 *
 * All names and shapes are compared first.  One message lists the tensors that are missing in the
 * files, those that the model does not have, and those with different shapes.  If the call fails,
 * on any rank and for any reason, the tree and the optimizer are unchanged on all ranks.  During
 * the call a rank needs memory for a second copy of its parameters.
 * RSH_EVALUE if names or shapes do not match, for NULL, and if the options do not start from
 * RSH_MODULE_LOAD_OPTS_INIT; RSH_EUNSUP, RSH_ERUNTIME as above; RSH_ETYPE for complex to real;
 * errors of rsh_ckpt_open, rsh_ckpt_map, rsh_ckpt_load and load hooks; RSH_ENOMEM.
 * Collective over the comm. */
RSH_API rsh_status rsh_module_load(rsh_module *m, rsh_comm *comm, const char *path,
                                   const rsh_module_load_opts *opts);

#ifdef __cplusplus
}
#endif
#endif
