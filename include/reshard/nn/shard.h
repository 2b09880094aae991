/* Sharded modules: parameters cut over the ranks of a group, by a plan.
 *
 * PyTorch's shard_parameter, shard_module, reshard_output and collect_local_shard.  A sharded
 * parameter is a distributed value.  Linear, Embedding and EmbeddingBag run over the ranks then;
 * docs/modules.md says how.  Gradients are those of all ranks' losses together.
 *
 * A group of NULL is the default group.  Ranks that are not members do nothing (RSH_OK).  If one
 * rank refuses, every rank gets its status and sentence, and modules are as before. */
#ifndef RESHARD_NN_SHARD_H
#define RESHARD_NN_SHARD_H

#include <reshard/nn/module.h>
#include <reshard/torch/group.h>
#include <reshard/torch/spec.h>
#include <reshard/torch/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Cuts a parameter by a spec: the values are those of rank `src_rank`.  It requires a gradient if
 * it did before.  Other modules that share the parameter keep the whole one.
 * RSH_EATTR if the module has nothing of the name; RSH_EKEY if it is a buffer or a child;
 * RSH_EVALUE if it has no value, is distributed already or is not dense; otherwise as
 * rsh_shard_tensor.  Collective over the group. */
RSH_API rsh_status rsh_shard_parameter(rsh_module *m, const char *name, const rsh_spec *spec,
                                       int src_rank, rsh_group *group);

/* ---- plans ---- */

/* Something that makes a module for several ranks from one for a single rank.  `shard` returns a
 * new module in *out, which the caller frees; what it does to its argument is not undone.
 * Collective over the group, if it makes collective calls. */
typedef struct rsh_sharder {
    rsh_status (*shard)(void *ctx, rsh_module *m, rsh_module **out);
    void *ctx;
} rsh_sharder;

typedef struct rsh_sharding_plan rsh_sharding_plan;

/* An empty plan.  The caller frees *out.  RSH_ENOMEM.  Local. */
RSH_API rsh_status rsh_sharding_plan_new(rsh_sharding_plan **out);
/* Frees the plan.  No-op for NULL.  Local. */
RSH_API void rsh_sharding_plan_free(rsh_sharding_plan *p);
/* Adds an entry: a parameter by path and its spec, or a module by path and its sharder, which is
 * copied; the other one is NULL.  Specs are held.  RSH_ENOMEM.  Local. */
RSH_API rsh_status rsh_sharding_plan_add(rsh_sharding_plan *p, const char *path,
                                         const rsh_spec *spec, const rsh_sharder *sharder);
/* The output of a module ("" is the root) is resharded; it is returned as this rank's own part.
 * RSH_ENOMEM.  Local. */
RSH_API rsh_status rsh_sharding_plan_reshard_output(rsh_sharding_plan *p, const char *path,
                                                    const rsh_spec *spec);
RSH_API rsh_status rsh_sharding_plan_return_local(rsh_sharding_plan *p, const char *path);

/* Something that makes a plan for a module.  The caller frees *out. */
typedef struct rsh_sharding_planner {
    rsh_status (*build_plan)(void *ctx, rsh_module *m, rsh_sharding_plan **out);
    void *ctx;
} rsh_sharding_planner;

/* Shards a module by a plan.  All parameters and modules are made first; then they are put in
 * place, a tied parameter in all its places; then hooks are added for outputs.
 * RSH_ETYPE if an entry has neither or both of spec and sharder, or an output has no spec; RSH_EKEY
 * for a sharder at ""; RSH_ERUNTIME for a parameter inside a module that has a sharder; RSH_EATTR
 * if a path leads nowhere; RSH_EVALUE if a parameter is named twice, a sharder returns no new
 * module, or ranks have different plans; otherwise as rsh_shard_parameter.  Collective over the
 * group. */
RSH_API rsh_status rsh_shard_module(rsh_module *m, const rsh_sharding_plan *plan, int src_rank,
                                    rsh_group *group);
/* The same with a plan that a planner makes.  Collective over the group. */
RSH_API rsh_status rsh_shard_module_with_planner(rsh_module *m, const rsh_sharding_planner *planner,
                                                 int src_rank, rsh_group *group);

/* ---- outputs ---- */

/* Adds a hook: a distributed output is resharded to the spec, partial ones are reduced; others pass
 * unchanged.  The spec is held.  Local; the hook is collective over the value's comm. */
RSH_API rsh_status rsh_reshard_output(rsh_module *m, const rsh_spec *spec);
/* Adds a hook: a distributed output that is not partial becomes this rank's only part of it,
 * without the dim that is cut if all ranks have length 1 of it; others pass unchanged.  The hook
 * returns RSH_EUNSUP if this rank has several parts or none.  Local. */
RSH_API rsh_status rsh_collect_local_shard(rsh_module *m);

/* ---- gradients of ranks that share a model ---- */

/* What the gradient of a parameter is after backward on each rank of those that share the model. */
typedef enum rsh_grad_kind {
    RSH_GRAD_AUTO,      /* nothing was said: the library knows it from the tree */
    RSH_GRAD_PARTIAL,   /* of this rank's own loss, from its own rows: the gradients add up */
    RSH_GRAD_COMPLETE,  /* of the sum of the ranks' losses, already: sharded parameters, and the
                           bias of a Linear whose weight is sharded */
    RSH_GRAD_REPLICATED /* of the one loss that the ranks of a mesh compute together: DTensors, and
                           plain parameters beside them, whose inputs are replicated */
} rsh_grad_kind;

/* Makes the gradients of all parameters of a tree those of the whole batch: of the sum of the
 * losses of all ranks of the group (RSH_OP_SUM), or of their mean (RSH_OP_AVG).  Ranks whose loss
 * is a sum over their own rows want SUM; those whose loss is a mean over as many rows as the others
 * have want AVG.  Each parameter gets what its kind needs (rsh_module_grad_kind): partial gradients
 * are added up over the group; complete and replicated ones over those ranks of the group that do
 * not share the parameter with this rank, such as the other replicas of a tensor-parallel model.
 * Call it once after backward and before clipping.  A parameter that has a gradient on some rank
 * has one on all ranks then, if it is added up.
 * RSH_EVALUE for another op, or if ranks have different parameters; RSH_EUNSUP if the kind of a
 * gradient is unknown (rsh_module_set_grad_kind), or the group has some but not all ranks that
 * share a parameter, and others.  Collective over the group. */
RSH_API rsh_status rsh_module_sync_grads(rsh_module *m, rsh_group *group, rsh_op op);
/* What the gradient of the parameter at a path is, between the ranks of the group.
 * RSH_EATTR if there is no such parameter; RSH_EUNSUP if it is unknown: the tree has DTensors
 * beside sharded parameters, and this one is plain.  Local. */
RSH_API rsh_status rsh_module_grad_kind(rsh_module *m, const char *path, const rsh_group *group,
                                        rsh_grad_kind *out);
/* Says what the gradient of a plain parameter of the module itself is between the ranks of a group,
 * where the library cannot know it: for example RSH_GRAD_PARTIAL for a norm that sees this rank's
 * own rows in a tensor-parallel model.  RSH_GRAD_AUTO takes it back.
 * RSH_EATTR if there is no such parameter; RSH_EVALUE for an unknown kind, for a distributed
 * parameter, and on ranks outside the group; RSH_ENOMEM.  Local. */
RSH_API rsh_status rsh_module_set_grad_kind(rsh_module *m, const char *name, rsh_grad_kind kind,
                                            const rsh_group *group);

#ifdef __cplusplus
}
#endif
#endif
