/* Optimizers: update parameters from their gradients.
 *
 * An optimizer holds the parameters that a module had when the optimizer was created, tied ones
 * once.  Parameters may be distributed: every rank then updates its own parts, and state such as
 * momentum is cut like the parameter.  Parameters without a gradient are not changed. */
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

/* Adam or, if `decoupled` is set, AdamW.  The weight decay of AdamW changes the parameter directly,
 * not through the gradient. */
typedef struct rsh_adam_opts {
    size_t struct_size; /* sizeof(rsh_adam_opts) */
    double lr, beta1, beta2, eps, weight_decay;
    bool decoupled;
} rsh_adam_opts;
#define RSH_ADAM_OPTS_INIT {sizeof(rsh_adam_opts), 1e-3, 0.9, 0.999, 1e-8, 0, 0}
#define RSH_ADAMW_OPTS_INIT {sizeof(rsh_adam_opts), 1e-3, 0.9, 0.999, 1e-8, 1e-2, 1}

/* Create an optimizer that holds the parameters of a tree.  The caller frees *out.
 * RSH_EVALUE if the options do not start from their _INIT macro, the tree has no parameters, a
 * number is negative or not finite, a beta is not below 1, or nesterov is set without momentum or
 * with dampening; RSH_ETYPE if a parameter is neither f32 nor f64; RSH_ENOMEM.  Local. */
RSH_API rsh_status rsh_sgd_new(rsh_module *m, const rsh_sgd_opts *opts, rsh_optimizer **out);
RSH_API rsh_status rsh_adam_new(rsh_module *m, const rsh_adam_opts *opts, rsh_optimizer **out);
/* Frees the optimizer.  No-op for NULL.  Local. */
RSH_API void rsh_optimizer_free(rsh_optimizer *o);

/* Updates every parameter that has a gradient.
 * RSH_EVALUE if a gradient is cut differently from its parameter; RSH_ENOMEM.  Local. */
RSH_API rsh_status rsh_optimizer_step(rsh_optimizer *o);
/* Drops the gradients of all parameters of the optimizer.  Local. */
RSH_API rsh_status rsh_optimizer_zero_grad(rsh_optimizer *o);
/* Settings for a subset of the parameters. */
typedef struct rsh_param_group {
    size_t struct_size;       /* sizeof(rsh_param_group) */
    int npaths;               /* number of patterns; 0: every path matches */
    const char *const *paths; /* shell patterns for paths: "*.bias", "layers.0.*" */
    int ndim_below;           /* select parameters with fewer dims only; 2: biases and norms;
                                 0: any number of dims */
    double lr_scale;          /* factor on the learning rate of the optimizer */
    double weight_decay;      /* replaces the weight decay of the options */
} rsh_param_group;
#define RSH_PARAM_GROUP_INIT {sizeof(rsh_param_group), 0, 0, 0, 1, 0}

/* Applies the settings of a group to the parameters that it selects.  They become part of the
 * state.  If several groups select a parameter, the last one takes precedence.  *count, unless
 * count is NULL, is the number of parameters selected.
 * RSH_EVALUE if the group does not start from RSH_PARAM_GROUP_INIT, a pattern is NULL, or a number
 * is negative or not finite; RSH_EATTR if it selects no parameter, and then nothing has changed.
 * Local. */
RSH_API rsh_status rsh_optimizer_add_group(rsh_optimizer *o, const rsh_param_group *group,
                                           int64_t *count);
/* Returns the learning rate and weight decay of the parameter with this path; lr and weight_decay
 * may be NULL.
 * RSH_EATTR if the optimizer has no such parameter.  Local. */
RSH_API rsh_status rsh_optimizer_get_settings(const rsh_optimizer *o, const char *path, double *lr,
                                              double *weight_decay);

/* Return and set the learning rate; -1 for NULL.  RSH_EVALUE if it is negative or not finite.
 * Local. */
RSH_API double rsh_optimizer_lr(const rsh_optimizer *o);
RSH_API rsh_status rsh_optimizer_set_lr(rsh_optimizer *o, double lr);

/* Returns the state, with names that start with the path of the parameter: "fc1.weight.momentum"
 * for SGD; "fc1.weight.first", "fc1.weight.second" and "fc1.weight.step" for Adam;
 * "fc1.weight.lr_scale" and "fc1.weight.weight_decay" if a group has set them.  The learning rate
 * is "lr".  Tensors share memory with the optimizer; numbers are copies, f64 without dims.  The
 * caller frees *out.  Local. */
RSH_API rsh_status rsh_optimizer_state_dict(const rsh_optimizer *o, rsh_state_dict **out);
/* Loads such a state.  State that the dict lacks is reset to that of a new optimizer; settings of
 * groups that it lacks are kept.
 * RSH_ERUNTIME, RSH_ETYPE as for rsh_module_load_state_dict, and RSH_ERUNTIME for names that the
 * optimizer does not know.  After an error nothing has changed.
 * Collective over the comms of distributed parameters; otherwise local. */
RSH_API rsh_status rsh_optimizer_load_state_dict(rsh_optimizer *o, const rsh_state_dict *d);

/* Scales all gradients of a tree by max_norm / norm if that is less than 1.  norm is the square
 * root of the sum of squares of all gradients.  Gradients of distributed parameters are summed over
 * all ranks, each element once; gradients of plain parameters are this rank's.  *norm, unless NULL,
 * is the norm before scaling.  All ranks get identical bits if their plain gradients are equal.
 * RSH_EVALUE if max_norm is negative or NaN; RSH_EUNSUP if a gradient is partial, or if its
 * elements do not all have the same number of replicas.
 * Collective over the comms of distributed parameters; otherwise local. */
RSH_API rsh_status rsh_clip_grad_norm(rsh_module *m, double max_norm, double *norm);

/* A learning rate that rises linearly over the first `warmup` steps and then stays constant, or
 * falls along half a cosine or a line to `least` * lr at step `steps`. */
typedef enum rsh_decay { RSH_DECAY_NONE, RSH_DECAY_COSINE, RSH_DECAY_LINEAR } rsh_decay;
typedef struct rsh_schedule {
    double lr;
    int64_t warmup, steps;
    double least;
    rsh_decay decay;
} rsh_schedule;
/* Returns the learning rate of a step, counted from 0; -1 for NULL.  Pure. */
RSH_API double rsh_schedule_lr(const rsh_schedule *s, int64_t step);

#ifdef __cplusplus
}
#endif
#endif
