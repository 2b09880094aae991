/* Sharded modules: parameters that a plan cuts over the ranks of a group.
 *
 * These are PyTorch's shard_parameter, shard_module, reshard_output and collect_local_shard.  A
 * sharded parameter is a distributed value.  Linear, Embedding and EmbeddingBag then run on all
 * ranks together; docs/modules.md describes how.  Gradients are those of the sum of all ranks'
 * losses.
 *
 * If a group is NULL, the default group is used.  Ranks that are not members do nothing and return
 * RSH_OK.  If one rank fails, every rank gets its status and message, and modules are
 * unchanged. */
#ifndef RESHARD_NN_SHARD_H
#define RESHARD_NN_SHARD_H

#include <reshard/nn/module.h>
#include <reshard/torch/group.h>
#include <reshard/torch/spec.h>
#include <reshard/torch/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Shards a parameter by a spec, with the elements of rank `src_rank`.  It requires a gradient if it
 * did before.  Other modules that share the parameter keep the whole one.
 * RSH_EATTR if the module has nothing under this name; RSH_EKEY if it is a buffer or a child;
 * RSH_EVALUE if it has no value, is already distributed or is not dense; errors of
 * rsh_shard_tensor.  Collective over the group. */
RSH_API rsh_status rsh_shard_parameter(rsh_module *m, const char *name, const rsh_spec *spec,
                                       int src_rank, rsh_group *group);

/* ---- plans ---- */

/* A function that converts a module for a single rank to one for several ranks.  `shard` returns a
 * new module in *out, which the caller frees; changes to its argument are not undone.  `shard` may
 * make collective calls, if it makes them on every rank of the group. */
typedef struct rsh_sharder {
    rsh_status (*shard)(void *ctx, rsh_module *m, rsh_module **out);
    void *ctx;
} rsh_sharder;

typedef struct rsh_sharding_plan rsh_sharding_plan;

/* Creates an empty plan.  The caller frees *out.  RSH_ENOMEM.  Local. */
RSH_API rsh_status rsh_sharding_plan_new(rsh_sharding_plan **out);
/* Frees the plan.  No-op for NULL.  Local. */
RSH_API void rsh_sharding_plan_free(rsh_sharding_plan *p);
/* Adds an entry: the path of a parameter with a spec, or the path of a module with a sharder.  The
 * other argument is NULL.  The plan holds the spec and copies the sharder.  RSH_ENOMEM.  Local. */
RSH_API rsh_status rsh_sharding_plan_add(rsh_sharding_plan *p, const char *path,
                                         const rsh_spec *spec, const rsh_sharder *sharder);
/* Request that the output of a module ("" is the root) is resharded, or returned as this rank's own
 * part.
 * RSH_ENOMEM.  Local. */
RSH_API rsh_status rsh_sharding_plan_reshard_output(rsh_sharding_plan *p, const char *path,
                                                    const rsh_spec *spec);
RSH_API rsh_status rsh_sharding_plan_return_local(rsh_sharding_plan *p, const char *path);

/* A function that creates a plan for a module.  The caller frees *out. */
typedef struct rsh_sharding_planner {
    rsh_status (*build_plan)(void *ctx, rsh_module *m, rsh_sharding_plan **out);
    void *ctx;
} rsh_sharding_planner;

/* Shards a module by a plan.  All parameters and modules are prepared first.  Then they are
 * installed; a tied parameter is replaced wherever it is used.  Then hooks are added for outputs.
 * RSH_ETYPE if an entry has neither or both of spec and sharder, or an output has no spec; RSH_EKEY
 * for a sharder at ""; RSH_ERUNTIME for a parameter inside a module that has a sharder; RSH_EATTR
 * if a path does not exist; RSH_EVALUE if a parameter is listed twice, a sharder returns no new
 * module, or ranks have different plans; errors of rsh_shard_parameter.  Collective over the
 * group. */
RSH_API rsh_status rsh_shard_module(rsh_module *m, const rsh_sharding_plan *plan, int src_rank,
                                    rsh_group *group);
/* Does the same with a plan that a planner creates.  Collective over the group. */
RSH_API rsh_status rsh_shard_module_with_planner(rsh_module *m, const rsh_sharding_planner *planner,
                                                 int src_rank, rsh_group *group);

/* ---- outputs ---- */

/* Adds a hook that reshards a distributed output to the spec and reduces it if it is partial.
 * Other outputs pass unchanged.  The module holds a reference to the spec.  Local; the hook is
 * collective over the value's comm. */
RSH_API rsh_status rsh_reshard_output(rsh_module *m, const rsh_spec *spec);
/* Adds a hook that replaces a distributed output that is not partial by this rank's only part.  The
 * dim that is cut is dropped if its length is 1 on all ranks.  Other outputs pass unchanged.  The
 * hook returns RSH_EUNSUP if this rank has several parts or none.  Local. */
RSH_API rsh_status rsh_collect_local_shard(rsh_module *m);

/* ---- gradients of ranks that share a model ---- */

/* How the gradients of a parameter relate on the ranks that share a model, after backward. */
typedef enum rsh_grad_kind {
    RSH_GRAD_AUTO,      /* the library derives it from the tree */
    RSH_GRAD_PARTIAL,   /* each rank has the gradient of its own loss, on its own rows; they must be
                           summed */
    RSH_GRAD_COMPLETE,  /* already the gradient of the sum of all ranks' losses: sharded parameters,
                           and the bias of a Linear whose weight is sharded */
    RSH_GRAD_REPLICATED /* the gradient of the one loss that the ranks of a mesh compute together:
                           DTensors, and plain parameters next to them with replicated inputs */
} rsh_grad_kind;

/* Turns the gradients of all parameters of a tree into those of the whole batch: of the sum of the
 * losses of all ranks of the group (RSH_OP_SUM), or of their mean (RSH_OP_AVG).  Use SUM if each
 * rank's loss is a sum over its own rows; use AVG if it is a mean and all ranks have the same
 * number of rows.  The kind of a gradient (rsh_module_grad_kind) decides what happens.  Partial
 * gradients are summed over the group.  Complete and replicated ones are summed over the ranks of
 * the group that do not share the parameter with this rank, such as the other replicas of a
 * tensor-parallel model.  Call it once after backward and before clipping.  If gradients are
 * summed and some rank has one, all ranks have one afterwards.
 * RSH_EVALUE for any other op, or if ranks have different parameters; RSH_EUNSUP if the kind of a
 * gradient is unknown (rsh_module_set_grad_kind), or if the group contains some, but not all, of
 * the ranks that share a parameter, and also other ranks.  Collective over the group. */
RSH_API rsh_status rsh_module_sync_grads(rsh_module *m, rsh_group *group, rsh_op op);
/* Returns how the gradients of the parameter with this path relate on the ranks of the group.
 * RSH_EATTR if there is no such parameter; RSH_EUNSUP if it is unknown, because the parameter is
 * plain and the tree has both DTensors and sharded parameters.  Local. */
RSH_API rsh_status rsh_module_grad_kind(rsh_module *m, const char *path, const rsh_group *group,
                                        rsh_grad_kind *out);
/* Declares how the gradients of a plain parameter of this module relate on the ranks of a group, if
 * the library cannot know: for example RSH_GRAD_PARTIAL for a norm that processes this rank's own
 * rows in a tensor-parallel model.  RSH_GRAD_AUTO removes the declaration.
 * RSH_EATTR if there is no such parameter; RSH_EVALUE if the kind is unknown, the parameter is
 * distributed, or this rank is not in the group; RSH_ENOMEM.  Local. */
RSH_API rsh_status rsh_module_set_grad_kind(rsh_module *m, const char *name, rsh_grad_kind kind,
                                            const rsh_group *group);

#ifdef __cplusplus
}
#endif
#endif
