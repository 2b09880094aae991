/* Optimizers: what changes parameters by their gradients.
 *
 * An optimizer has the parameters of a module at the time it was made, tied ones once.  Parameters
 * may be distributed: every rank then changes its own parts, and state such as momentum is cut as
 * the parameter is.  A parameter without a gradient is left as it is. */
#ifndef RESHARD_NN_OPTIM_H
#define RESHARD_NN_OPTIM_H

#include <reshard/nn/state.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct rsh_optimizer rsh_optimizer;

/* p -= lr * v, with v = momentum * v + (1 - dampening) * (g + weight_decay * p). */
typedef struct rsh_sgd_opts {
    size_t struct_size; /* sizeof(rsh_sgd_opts) */
    double lr;
    double momentum, dampening, weight_decay;
    bool nesterov; /* p -= lr * (g + momentum * v) */
} rsh_sgd_opts;
#define RSH_SGD_OPTS_INIT {sizeof(rsh_sgd_opts), 1e-3, 0, 0, 0, 0}

/* Adam; with `decoupled` AdamW, whose weight decay acts on the parameter, not on its gradient. */
typedef struct rsh_adam_opts {
    size_t struct_size; /* sizeof(rsh_adam_opts) */
    double lr, beta1, beta2, eps, weight_decay;
    bool decoupled;
} rsh_adam_opts;
#define RSH_ADAM_OPTS_INIT {sizeof(rsh_adam_opts), 1e-3, 0.9, 0.999, 1e-8, 0, 0}
#define RSH_ADAMW_OPTS_INIT {sizeof(rsh_adam_opts), 1e-3, 0.9, 0.999, 1e-8, 1e-2, 1}

/* An optimizer for the parameters of a tree; it holds them.  The caller frees *out.
 * RSH_EVALUE if the options do not start from their _INIT, the tree has no parameters, a number is
 * negative or not finite, a beta is not below 1, or nesterov is asked for without momentum or with
 * dampening; RSH_ETYPE if a parameter is neither f32 nor f64; RSH_ENOMEM.  Local. */
RSH_API rsh_status rsh_sgd_new(rsh_module *m, const rsh_sgd_opts *opts, rsh_optimizer **out);
RSH_API rsh_status rsh_adam_new(rsh_module *m, const rsh_adam_opts *opts, rsh_optimizer **out);
/* No-op for NULL.  Local. */
RSH_API void rsh_optimizer_free(rsh_optimizer *o);

/* Changes every parameter that has a gradient.
 * RSH_EVALUE if a gradient is cut otherwise than its parameter; RSH_ENOMEM.  Local. */
RSH_API rsh_status rsh_optimizer_step(rsh_optimizer *o);
/* Drops the gradients of all its parameters.  Local. */
RSH_API rsh_status rsh_optimizer_zero_grad(rsh_optimizer *o);
/* Settings of some parameters that differ from those of the others. */
typedef struct rsh_param_group {
    size_t struct_size;       /* sizeof(rsh_param_group) */
    int npaths;               /* 0: parameters of any path */
    const char *const *paths; /* patterns of paths as a shell has them: "*.bias", "layers.0.*" */
    int ndim_below;           /* only parameters of fewer dims; 2: biases and norms; 0: of any */
    double lr_scale;          /* their learning rate is this times that of the optimizer */
    double weight_decay;      /* in place of that of the options */
} rsh_param_group;
#define RSH_PARAM_GROUP_INIT {sizeof(rsh_param_group), 0, 0, 0, 1, 0}

/* Gives the parameters that a group selects its settings, which are part of the state from then on.
 * Of groups that select the same parameter the last one counts.  *count, if asked for, is how many
 * were selected.
 * RSH_EVALUE if the group does not start from RSH_PARAM_GROUP_INIT, a pattern is NULL, or a number
 * is negative or not finite; RSH_EATTR if it selects no parameter: nothing has changed then.
 * Local. */
RSH_API rsh_status rsh_optimizer_add_group(rsh_optimizer *o, const rsh_param_group *group,
                                           int64_t *count);
/* The learning rate and the weight decay of the parameter of that path; either may be NULL.
 * RSH_EATTR if the optimizer has no such parameter.  Local. */
RSH_API rsh_status rsh_optimizer_get_settings(const rsh_optimizer *o, const char *path, double *lr,
                                              double *weight_decay);

/* The learning rate; -1 for NULL.  RSH_EVALUE if it is negative or not finite.  Local. */
RSH_API double rsh_optimizer_lr(const rsh_optimizer *o);
RSH_API rsh_status rsh_optimizer_set_lr(rsh_optimizer *o, double lr);

/* The state, by path of the parameter: "fc1.weight.momentum"; "fc1.weight.first",
 * "fc1.weight.second" and "fc1.weight.step" for Adam; "fc1.weight.lr_scale" and
 * "fc1.weight.weight_decay" if a group has set them; and "lr".  Values share memory with the
 * optimizer, except for numbers, which are f64 without dims.  The caller frees *out.  Local. */
RSH_API rsh_status rsh_optimizer_state_dict(const rsh_optimizer *o, rsh_state_dict **out);
/* Takes such a state in.  State that the dict does not have becomes as in a new optimizer; settings
 * of groups that it does not have stay.
 * RSH_ERUNTIME, RSH_ETYPE as for rsh_module_load_state_dict, and for names that the optimizer does
 * not know; nothing has changed then.
 * Collective over the comms of distributed parameters; otherwise local. */
RSH_API rsh_status rsh_optimizer_load_state_dict(rsh_optimizer *o, const rsh_state_dict *d);

/* Scales all gradients of a tree by max_norm / norm if that is less than 1, where norm is the root
 * of the sum of squares of all of them: those of a distributed parameter over all ranks, each
 * element once, those of a plain one as this rank has them.  *norm, if asked for, is the norm
 * before.  All ranks get the same bits if their plain gradients are equal.
 * RSH_EVALUE if max_norm is negative or NaN; RSH_EUNSUP if a gradient is partial, or parts of its
 * layout have different numbers of copies.
 * Collective over the comms of distributed parameters; otherwise local. */
RSH_API rsh_status rsh_clip_grad_norm(rsh_module *m, double max_norm, double *norm);

/* A learning rate that rises linearly over the first `warmup` steps and falls to `least` * lr at
 * step `steps`, along half a cosine or a line, or stays. */
typedef enum rsh_decay { RSH_DECAY_NONE, RSH_DECAY_COSINE, RSH_DECAY_LINEAR } rsh_decay;
typedef struct rsh_schedule {
    double lr;
    int64_t warmup, steps;
    double least;
    rsh_decay decay;
} rsh_schedule;
/* The learning rate of a step, from 0.  -1 for NULL.  Pure. */
RSH_API double rsh_schedule_lr(const rsh_schedule *s, int64_t step);

#ifdef __cplusplus
}
#endif
#endif
