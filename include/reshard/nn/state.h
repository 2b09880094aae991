/* State dict: an ordered list of named values, to save and load modules and optimizers.
 *
 * Values may be distributed: the state dict contains a sharded parameter as a sharded tensor.
 * Loading copies elements into the existing parameters; if layouts differ, the elements are
 * resharded. */
#ifndef RESHARD_NN_STATE_H
#define RESHARD_NN_STATE_H

#include <reshard/nn/module.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct rsh_state_dict rsh_state_dict;

/* Creates an empty state dict.  The caller frees *out.  RSH_ENOMEM.  Local. */
RSH_API rsh_status rsh_state_dict_new(rsh_state_dict **out);
/* Frees the dict and drops its values.  No-op for NULL.  Local. */
RSH_API void rsh_state_dict_free(rsh_state_dict *d);
/* Return the number of entries, and the name and value of entry i, borrowed; NULL if i is out of
 * range.  Local. */
RSH_API int64_t rsh_state_dict_count(const rsh_state_dict *d);
RSH_API const char *rsh_state_dict_name(const rsh_state_dict *d, int64_t i);
RSH_API rsh_value *rsh_state_dict_value(const rsh_state_dict *d, int64_t i);
/* Returns the value with this name, borrowed; NULL if there is none.  Local. */
RSH_API rsh_value *rsh_state_dict_find(const rsh_state_dict *d, const char *name);
/* Sets the value with this name: replaces an existing one, or appends it.  The dict holds it.
 * RSH_ENOMEM.  Local. */
RSH_API rsh_status rsh_state_dict_set(rsh_state_dict *d, const char *name, rsh_value *value);
/* Removes an entry.  RSH_EKEY if there is no entry with this name.  Local. */
RSH_API rsh_status rsh_state_dict_remove(rsh_state_dict *d, const char *name);

/* Returns the parameters and persistent buffers of a tree by path, a tied parameter under each of
 * its paths.  Hooks may add entries.  Values share memory with the parameters and have no history.
 * The caller frees *out.
 * RSH_ENOMEM; errors of hooks.  Local. */
RSH_API rsh_status rsh_module_state_dict(rsh_module *m, rsh_state_dict **out);

typedef enum rsh_load_flags {
    RSH_LOAD_NONSTRICT = 1 /* ignore missing and unexpected names */
} rsh_load_flags;

/* Copies the entries into the parameters and persistent buffers of a tree.  Load hooks run first
 * and may change the dict.  Elements are converted to the dtype of the parameter.  A plain value
 * for a distributed parameter is the whole tensor and must be equal on all ranks.  If the call
 * fails before the first copy, nothing has changed.
 * RSH_ERUNTIME if shapes differ, names are missing or unexpected, a distributed value is given for
 * a plain parameter, or its comm differs from the parameter's; the message lists the names.
 * RSH_ETYPE for complex to real; errors of hooks.
 * Collective over the comms of distributed parameters; otherwise local. */
RSH_API rsh_status rsh_module_load_state_dict(rsh_module *m, rsh_state_dict *d, unsigned flags);

/* A state hook runs after the entries of a module and its children have been added to a dict.  A
 * load hook runs before the entries of a module are read from a dict.  `prefix` is the module's
 * path followed by a dot, or "".  Added, numbered and removed like the hooks of
 * <reshard/nn/module.h>.  Local. */
typedef rsh_status (*rsh_state_hook_fn)(void *ctx, rsh_module *m, rsh_state_dict *d,
                                        const char *prefix);
RSH_API rsh_status rsh_module_add_state_hook(rsh_module *m, rsh_state_hook_fn fn, void *ctx,
                                             void (*drop)(void *ctx), int64_t *id);
RSH_API rsh_status rsh_module_add_load_hook(rsh_module *m, rsh_state_hook_fn fn, void *ctx,
                                            void (*drop)(void *ctx), int64_t *id);

#ifdef __cplusplus
}
#endif
#endif
