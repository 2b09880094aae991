/* Module: a tree of parameters, buffers and child modules, with a forward function.
 *
 * A module is of a kind, a record with the forward function.  It has parameters (leaf values that
 * an optimizer changes), buffers (values that it does not change) and children, each under a name
 * that is unique in the module.  Paths are names joined by dots: "layers.0.weight".
 *
 * Modules are reference-counted; one thread, a rank, uses a tree of them.  Names and values that a
 * function returns are borrowed and live until the module changes.  If a function fails, the tree
 * is as before.  All calls are local, but for forward functions that move elements between ranks,
 * and where a comment says so. */
#ifndef RESHARD_NN_MODULE_H
#define RESHARD_NN_MODULE_H

#include <reshard/grad.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct rsh_module rsh_module;

/* A kind of module.  A record is constant and lives as long as its modules, so it is usually
 * static. */
typedef struct rsh_module_kind {
    const char *name; /* "Linear", for sentences */
    int nin, nout;    /* inputs and outputs; of nin, those at the end may be left out by a caller
                         and are then NULL */
    const char *const *inputs; /* nin names, for inputs that are given by name; NULL: none */
    /* Computes the outputs.  The caller frees each entry of out, none of which is written if the
     * function fails.  NULL: RSH_EUNSUP. */
    rsh_status (*forward)(rsh_module *m, rsh_value *const *in, rsh_value **out);
    size_t state_bytes;        /* of what the module has beside values: copied when it is made */
    void (*drop)(void *state); /* before the state is freed; NULL: nothing to do */
} rsh_module_kind;

/* ---- modules ---- */

/* A module without parameters or children.  `state` has kind->state_bytes bytes (NULL: zeros).  It
 * is in training.  The caller frees *out.
 * RSH_EVALUE if the kind has no name, or negative numbers; RSH_ENOMEM.  Local. */
RSH_API rsh_status rsh_module_new(const rsh_module_kind *kind, const void *state, rsh_module **out);
/* One more reference to the same module.  Never fails; NULL for NULL.  The caller frees the result,
 * once for every hold.  Local. */
RSH_API rsh_module *rsh_module_hold(rsh_module *m);
/* Drops one reference; the last one frees the module.  No-op for NULL.  Local. */
RSH_API void rsh_module_free(rsh_module *m);
/* The kind, and the state, which may be changed.  NULL for NULL.  Local. */
RSH_API const rsh_module_kind *rsh_module_get_kind(const rsh_module *m);
RSH_API void *rsh_module_state(const rsh_module *m);

/* Runs the module: pre-hooks, forward, hooks.  `in` has nin entries, at most kind->nin; those that
 * are not given are NULL.  The caller frees each of the kind->nout entries of out; none is written
 * if the call fails.
 * RSH_EVALUE if there are more inputs than the kind has; what forward and the hooks return.
 * Local, or as the forward function says. */
RSH_API rsh_status rsh_module_call(rsh_module *m, int nin, rsh_value *const *in, rsh_value **out);
/* The same with `nnamed` further inputs given by name.
 * RSH_EKEY if the kind has no input of a name; RSH_EVALUE if an input is given twice.  Local, as
 * above. */
typedef struct rsh_named_input {
    const char *name;
    rsh_value *value;
} rsh_named_input;
RSH_API rsh_status rsh_module_call_named(rsh_module *m, int nin, rsh_value *const *in, int nnamed,
                                         const rsh_named_input *named, rsh_value **out);
/* The same for a module of one input and one output.  Local, as above. */
RSH_API rsh_status rsh_module_forward(rsh_module *m, rsh_value *in, rsh_value **out);

/* ---- names ---- */

/* Puts a parameter under a name, in place of the one that is there.  The module holds the value;
 * NULL keeps the name without a parameter.
 * RSH_EKEY if the name is empty or has a dot, or something else has it; RSH_EVALUE if the value is
 * not a leaf; RSH_ENOMEM.  Local. */
RSH_API rsh_status rsh_module_set_parameter(rsh_module *m, const char *name, rsh_value *value);
/* The same for a buffer.  One that is not persistent is left out of state dicts.  Local. */
RSH_API rsh_status rsh_module_set_buffer(rsh_module *m, const char *name, rsh_value *value,
                                         bool persistent);
/* The same for a child, which may be in other places too; NULL keeps the name without a child.
 * RSH_EVALUE if the child is the module itself, or contains it.  Local. */
RSH_API rsh_status rsh_module_set_child(rsh_module *m, const char *name, rsh_module *child);

/* What is under a name of the module itself; *out may become NULL.
 * RSH_EATTR if there is no such parameter, buffer or child.  Local. */
RSH_API rsh_status rsh_module_parameter(const rsh_module *m, const char *name, rsh_value **out);
RSH_API rsh_status rsh_module_buffer(const rsh_module *m, const char *name, rsh_value **out);
RSH_API rsh_status rsh_module_child(const rsh_module *m, const char *name, rsh_module **out);
/* What a path leads to; "" is the module itself.
 * RSH_EATTR, naming the first step that is missing or is not a module.  Local. */
RSH_API rsh_status rsh_module_submodule(rsh_module *m, const char *path, rsh_module **out);
/* The module that a path to a parameter, buffer or child ends in, and the last name, which points
 * into `path`.  RSH_EATTR as above.  Local. */
RSH_API rsh_status rsh_module_owner(rsh_module *m, const char *path, rsh_module **owner,
                                    const char **name);

/* ---- walks ---- */

/* Calls fn for every parameter of the tree, in the order in which they were given, parents before
 * children: its path, the module that has it, its name there, its value.  Parameters that several
 * modules share (tied) are visited once, under their first path, unless `tied` asks for all.  The
 * first status that is not RSH_OK ends the walk and is returned.  fn must not change the tree.
 * Local. */
typedef rsh_status (*rsh_value_fn)(void *ctx, const char *path, rsh_module *owner,
                                   const char *name, rsh_value *value);
RSH_API rsh_status rsh_module_each_parameter(rsh_module *m, bool tied, rsh_value_fn fn, void *ctx);
RSH_API rsh_status rsh_module_each_buffer(rsh_module *m, rsh_value_fn fn, void *ctx);
/* The same for modules, the root first with path "", each once.  Local. */
typedef rsh_status (*rsh_module_fn)(void *ctx, const char *path, rsh_module *m);
RSH_API rsh_status rsh_module_each_module(rsh_module *m, rsh_module_fn fn, void *ctx);
/* The same with children before their parents, as PyTorch's apply.  Local. */
RSH_API rsh_status rsh_module_apply(rsh_module *m, rsh_module_fn fn, void *ctx);

/* Sets training or evaluation for the whole tree; and says which of them a module is in.  Local. */
RSH_API void rsh_module_train(rsh_module *m, bool training);
RSH_API bool rsh_module_training(const rsh_module *m);
/* Says whether every parameter of the tree requires a gradient.
 * RSH_ETYPE if one cannot: then none has changed.  Local. */
RSH_API rsh_status rsh_module_require_grad(rsh_module *m, bool requires_grad);
/* Drops the gradients of all parameters.  Local. */
RSH_API rsh_status rsh_module_zero_grad(rsh_module *m);

/* ---- hooks ---- */

/* Before forward, in the order in which they were added.  `in` has the kind's nin entries; a hook
 * may put another value in place of one: it frees what it replaces and gives a reference. */
typedef rsh_status (*rsh_pre_hook_fn)(void *ctx, rsh_module *m, rsh_value **in);
/* After forward, in the order in which they were added; each sees what the one before it left.
 * `out` has the kind's nout entries, which a hook may replace in the same way. */
typedef rsh_status (*rsh_forward_hook_fn)(void *ctx, rsh_module *m, rsh_value *const *in,
                                          rsh_value **out);

typedef enum rsh_hook_when {
    RSH_HOOK_ON_SUCCESS, /* not called if forward, a pre-hook or an earlier hook has failed */
    RSH_HOOK_ALWAYS      /* called also then, once, with outputs of NULL; its status is ignored */
} rsh_hook_when;

/* Adds a hook.  `drop`, if not NULL, is called on ctx when the hook is removed or the module freed;
 * not if the call fails.  *id, if asked for, names the hook for rsh_module_remove_hook.
 * RSH_ENOMEM.  Local. */
RSH_API rsh_status rsh_module_add_pre_hook(rsh_module *m, rsh_pre_hook_fn fn, void *ctx,
                                           void (*drop)(void *ctx), int64_t *id);
RSH_API rsh_status rsh_module_add_forward_hook(rsh_module *m, rsh_forward_hook_fn fn, void *ctx,
                                               void (*drop)(void *ctx), rsh_hook_when when,
                                               int64_t *id);
/* Removes a hook of any kind; not from within a hook of the same module.
 * RSH_EKEY if the module has no such hook; RSH_EBUSY within a call of the module.  Local. */
RSH_API rsh_status rsh_module_remove_hook(rsh_module *m, int64_t id);

#ifdef __cplusplus
}
#endif
#endif
