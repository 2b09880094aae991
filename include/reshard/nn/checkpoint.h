/* Model checkpoint: a module with its optimizer in files, saved and loaded in one call.
 *
 * A checkpoint is a directory of rank files, as rsh_ckpt_save writes it, with these tensors:
 * parameters and persistent buffers under their paths ("layers.0.weight"), the state of an
 * optimizer under "optimizer." ("optimizer.layers.0.weight.first", "optimizer.lr"), and what else
 * was given under "extra.".  A tied parameter is stored once, under its first path.
 *
 * Parameters may be plain, sharded and DTensors, in one tree.  What is saved says nothing about
 * ranks: it can be loaded on another number of ranks, and into a model that is cut in another way,
 * or not at all. */
#ifndef RESHARD_NN_CHECKPOINT_H
#define RESHARD_NN_CHECKPOINT_H

#include <reshard/ckpt.h>
#include <reshard/nn/optim.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct rsh_module_save_opts {
    size_t struct_size;             /* sizeof(rsh_module_save_opts) */
    const rsh_optimizer *optimizer; /* its state is saved too; NULL: none */
    const rsh_state_dict *extra;    /* more values, such as rsh_random_state_dict; NULL: none */
    const rsh_save_opts *files;     /* how files are written, also a map to other names, which the
                                       optimizer's tensors go through too; NULL: defaults */
} rsh_module_save_opts;
#define RSH_MODULE_SAVE_OPTS_INIT {sizeof(rsh_module_save_opts), 0, 0, 0}

/* Saves a tree at `path`, which all ranks must see.  The comm has all ranks that share the model:
 * those of its sharded parameters and meshes, and the replicas of a data-parallel model.  Plain
 * values are those of rank 0; of replicas, those of the first are stored.  opts may be NULL.  Every
 * rank gives the same path and options.
 *
 * The checkpoint appears complete or not at all.
 * RSH_EVALUE for NULL, if the options do not start from RSH_MODULE_SAVE_OPTS_INIT, or if something
 * exists at the path and opts->files->force is not set; RSH_EKEY if a path begins with "optimizer."
 * or "extra."; RSH_EUNSUP if a parameter is partial, or ranks of several meshes share it in ways
 * that do not go together; RSH_ERUNTIME if a parameter has no elements yet
 * (rsh_module_materialize); RSH_EMISMATCH if ranks have different names; what rsh_ckpt_save
 * returns.
 * Collective over the comm. */
RSH_API rsh_status rsh_module_save(rsh_module *m, rsh_comm *comm, const char *path,
                                   const rsh_module_save_opts *opts);

typedef struct rsh_module_load_opts {
    size_t struct_size;         /* sizeof(rsh_module_load_opts) */
    rsh_optimizer *optimizer;   /* its state is loaded too; NULL: what the files have is ignored */
    rsh_state_dict *extra;      /* its values are loaded too, by name; NULL: none */
    const rsh_ckpt_rules *from; /* how rank files of other tools are cut, as for rsh_ckpt_open */
    const rsh_ckpt_rules *map;  /* makes the tensors of the model from those of the files, as for
                                   rsh_ckpt_map; NULL: they have the model's names */
    unsigned flags;             /* RSH_LOAD_NONSTRICT: names that only one side has are no error */
} rsh_module_load_opts;
#define RSH_MODULE_LOAD_OPTS_INIT {sizeof(rsh_module_load_opts), 0, 0, 0, 0, 0}

/* Loads a checkpoint at `path`, of any kind that rsh_ckpt_open reads, into a tree.  The comm as
 * above.  Elements are converted to the dtypes of the parameters.  An optimizer may be new: it gets
 * its moments, step counts, learning rate and the settings of its parameters.  opts may be NULL.
 *
 * All names and shapes are compared first: one message lists the tensors that are missing in the
 * files, those that the model does not have, and those of other shapes.  If a call fails, on any
 * rank and for any reason, the tree and the optimizer are as before on all ranks.  During the call
 * a rank needs memory for a second copy of its parameters.
 * RSH_EVALUE if the names or shapes do not fit, for NULL, and if the options do not start from
 * RSH_MODULE_LOAD_OPTS_INIT; RSH_EUNSUP, RSH_ERUNTIME as above; RSH_ETYPE for complex to real; what
 * rsh_ckpt_open, rsh_ckpt_map, rsh_ckpt_load and hooks for loading return; RSH_ENOMEM.
 * Collective over the comm. */
RSH_API rsh_status rsh_module_load(rsh_module *m, rsh_comm *comm, const char *path,
                                   const rsh_module_load_opts *opts);

#ifdef __cplusplus
}
#endif
#endif
