/* Module: a tree of parameters, buffers and child modules, with a forward function.
 *
 * The kind of a module is a record that contains its forward function.  A module has parameters
 * (leaf values that an optimizer updates), buffers (values that no optimizer updates) and children,
 * each under a name that is unique within the module.  A path joins names with dots:
 * "layers.0.weight".
 *
 * Modules are reference-counted.  A tree of modules belongs to one thread, its rank.  Names and
 * values that a function returns are borrowed and valid until the module changes.  If a function
 * fails, the tree is unchanged.  All calls are local, except forward functions that move elements
 * between ranks, and functions whose comment says otherwise. */
#ifndef RESHARD_NN_MODULE_H
#define RESHARD_NN_MODULE_H

#include <reshard/grad.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct rsh_module rsh_module;

/* A kind of module.  The record is constant and must outlive its modules, so it is usually
 * static. */
typedef struct rsh_module_kind {
    const char *name; /* used in error messages: "Linear" */
    int nin, nout;    /* numbers of inputs and outputs; a caller may omit trailing inputs, which
                         are then NULL */
    const char *const *inputs; /* nin names, for passing inputs by name; NULL: none */
    /* Computes the outputs.  The caller frees each entry of out.  No entry is written if the
     * function fails.  NULL: calling the module returns RSH_EUNSUP. */
    rsh_status (*forward)(rsh_module *m, rsh_value *const *in, rsh_value **out);
    size_t state_bytes;        /* size of the private state, which rsh_module_new copies */
    void (*drop)(void *state); /* called before the state is freed; may be NULL */
} rsh_module_kind;

/* ---- modules ---- */

/* Creates a module without parameters or children, in training mode.  `state` has
 * kind->state_bytes bytes (NULL: zeros).  The caller frees *out.
 * RSH_EVALUE if the kind has no name or a negative count; RSH_ENOMEM.  Local. */
RSH_API rsh_status rsh_module_new(const rsh_module_kind *kind, const void *state, rsh_module **out);
/* Adds a reference and returns the same module, or NULL for NULL.  Never fails.  The caller calls
 * rsh_module_free once for every hold.  Local. */
RSH_API rsh_module *rsh_module_hold(rsh_module *m);
/* Drops one reference; the last one frees the module.  No-op for NULL.  Local. */
RSH_API void rsh_module_free(rsh_module *m);
/* Return the kind and the private state, which the caller may modify.  NULL for NULL.  Local. */
RSH_API const rsh_module_kind *rsh_module_get_kind(const rsh_module *m);
RSH_API void *rsh_module_state(const rsh_module *m);

/* Runs the module: pre-hooks, forward, hooks.  `in` has nin entries, at most kind->nin; omitted
 * inputs are NULL.  The caller frees each of the kind->nout entries of out; none is written if the
 * call fails.
 * RSH_EVALUE if nin is larger than kind->nin; errors of forward and of the hooks.
 * Local, unless the forward function is collective. */
RSH_API rsh_status rsh_module_call(rsh_module *m, int nin, rsh_value *const *in, rsh_value **out);
/* Does the same with `nnamed` further inputs passed by name.
 * RSH_EKEY if the kind has no input with that name; RSH_EVALUE if an input is given twice.  Local,
 * as above. */
typedef struct rsh_named_input {
    const char *name;
    rsh_value *value;
} rsh_named_input;
RSH_API rsh_status rsh_module_call_named(rsh_module *m, int nin, rsh_value *const *in, int nnamed,
                                         const rsh_named_input *named, rsh_value **out);
/* Does the same for a module with one input and one output.  Local, as above. */
RSH_API rsh_status rsh_module_forward(rsh_module *m, rsh_value *in, rsh_value **out);

/* ---- names ---- */

/* Sets the parameter with this name, replacing an existing one.  The module holds a reference to
 * the value; NULL reserves the name without a parameter.
 * RSH_EKEY if the name is empty, contains a dot, or belongs to a buffer or child; RSH_EVALUE if the
 * value is not a leaf; RSH_ENOMEM.  Local. */
RSH_API rsh_status rsh_module_set_parameter(rsh_module *m, const char *name, rsh_value *value);
/* Does the same for a buffer.  Non-persistent buffers are omitted from state dicts.  Local. */
RSH_API rsh_status rsh_module_set_buffer(rsh_module *m, const char *name, rsh_value *value,
                                         bool persistent);
/* Does the same for a child.  A module may be a child of several modules; NULL reserves the name
 * without a child.
 * RSH_EVALUE if the child is the module itself, or contains it.  Local. */
RSH_API rsh_status rsh_module_set_child(rsh_module *m, const char *name, rsh_module *child);

/* Look up a name in this module only, not in its children.  *out is borrowed, and NULL if the name
 * is reserved.
 * RSH_EATTR if the module has no parameter, buffer or child with this name.  Local. */
RSH_API rsh_status rsh_module_parameter(const rsh_module *m, const char *name, rsh_value **out);
RSH_API rsh_status rsh_module_buffer(const rsh_module *m, const char *name, rsh_value **out);
RSH_API rsh_status rsh_module_child(const rsh_module *m, const char *name, rsh_module **out);
/* Looks up a descendant by path; "" is the module itself.
 * RSH_EATTR if a component of the path is missing or is not a module; the message names the first
 * one.  Local. */
RSH_API rsh_status rsh_module_submodule(rsh_module *m, const char *path, rsh_module **out);
/* Splits the path of a parameter, buffer or child: returns the module that contains it, and its
 * name, which points into `path`.  RSH_EATTR as above.  Local. */
RSH_API rsh_status rsh_module_owner(rsh_module *m, const char *path, rsh_module **owner,
                                    const char **name);

/* ---- walks ---- */

/* Call fn for every parameter, or buffer, of the tree in the order in which they were set, parents
 * before children.  fn receives the path, the owning module, the name in that module, and the
 * value.  A tied parameter (one that several modules share) is visited once, under its first path,
 * unless `tied` is true.  The walk stops at the first status other than RSH_OK and returns it.  fn
 * must not change the tree.  Local. */
typedef rsh_status (*rsh_value_fn)(void *ctx, const char *path, rsh_module *owner,
                                   const char *name, rsh_value *value);
RSH_API rsh_status rsh_module_each_parameter(rsh_module *m, bool tied, rsh_value_fn fn, void *ctx);
RSH_API rsh_status rsh_module_each_buffer(rsh_module *m, rsh_value_fn fn, void *ctx);
/* Calls fn once for every module of the tree, the root first with path "".  Local. */
typedef rsh_status (*rsh_module_fn)(void *ctx, const char *path, rsh_module *m);
RSH_API rsh_status rsh_module_each_module(rsh_module *m, rsh_module_fn fn, void *ctx);
/* Does the same with children before their parents, like PyTorch's apply.  Local. */
RSH_API rsh_status rsh_module_apply(rsh_module *m, rsh_module_fn fn, void *ctx);

/* Set training or evaluation mode for the whole tree; return the mode of one module.  Local. */
RSH_API void rsh_module_train(rsh_module *m, bool training);
RSH_API bool rsh_module_training(const rsh_module *m);
/* Sets whether the parameters of the tree require gradients.
 * RSH_ETYPE if the dtype of one of them has no gradients; then none has changed.  Local. */
RSH_API rsh_status rsh_module_require_grad(rsh_module *m, bool requires_grad);
/* Drops the gradients of all parameters.  Local. */
RSH_API rsh_status rsh_module_zero_grad(rsh_module *m);

/* ---- hooks ---- */

/* Pre-hooks run before forward, in the order in which they were added.  `in` has kind->nin entries.
 * To replace an input, a hook frees the old value and stores a new reference. */
typedef rsh_status (*rsh_pre_hook_fn)(void *ctx, rsh_module *m, rsh_value **in);
/* Forward hooks run after forward, in the order in which they were added.  Each sees the outputs
 * that the previous hook left.  `out` has kind->nout entries, which a hook may replace in the same
 * way. */
typedef rsh_status (*rsh_forward_hook_fn)(void *ctx, rsh_module *m, rsh_value *const *in,
                                          rsh_value **out);

typedef enum rsh_hook_when {
    RSH_HOOK_ON_SUCCESS, /* not called if forward, a pre-hook or an earlier hook has failed */
    RSH_HOOK_ALWAYS      /* called after a failure too, once, with NULL outputs; then its status is
                            ignored */
} rsh_hook_when;

/* Add a hook.  `drop`, if not NULL, is called on ctx when the hook is removed or the module is
 * freed, but not if adding fails.  *id, unless id is NULL, is the number that
 * rsh_module_remove_hook takes.
 * RSH_ENOMEM.  Local. */
RSH_API rsh_status rsh_module_add_pre_hook(rsh_module *m, rsh_pre_hook_fn fn, void *ctx,
                                           void (*drop)(void *ctx), int64_t *id);
RSH_API rsh_status rsh_module_add_forward_hook(rsh_module *m, rsh_forward_hook_fn fn, void *ctx,
                                               void (*drop)(void *ctx), rsh_hook_when when,
                                               int64_t *id);
/* Removes a hook of any kind.  A hook cannot remove hooks of its own module.
 * RSH_EKEY if the module has no such hook; RSH_EBUSY within a call of the module.  Local. */
RSH_API rsh_status rsh_module_remove_hook(rsh_module *m, int64_t id);

#ifdef __cplusplus
}
#endif
#endif
