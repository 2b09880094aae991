/* State dict: named values, in order, that a module or an optimizer gives out and takes in.
 *
 * Values may be distributed: a sharded parameter is in a state dict as the sharded tensor that it
 * is.  Loading copies elements into the parameters that are there; if layouts differ, the elements
 * are resharded on the way. */
#ifndef RESHARD_NN_STATE_H
#define RESHARD_NN_STATE_H

#include <reshard/nn/module.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct rsh_state_dict rsh_state_dict;

/* An empty state dict.  The caller frees *out.  RSH_ENOMEM.  Local. */
RSH_API rsh_status rsh_state_dict_new(rsh_state_dict **out);
/* Frees the dict and drops its values.  No-op for NULL.  Local. */
RSH_API void rsh_state_dict_free(rsh_state_dict *d);
/* Number of entries; the name and value of the i-th, borrowed, NULL beyond the last.  Local. */
RSH_API int64_t rsh_state_dict_count(const rsh_state_dict *d);
RSH_API const char *rsh_state_dict_name(const rsh_state_dict *d, int64_t i);
RSH_API rsh_value *rsh_state_dict_value(const rsh_state_dict *d, int64_t i);
/* The value of a name, borrowed; NULL if there is none.  Local. */
RSH_API rsh_value *rsh_state_dict_find(const rsh_state_dict *d, const char *name);
/* Puts a value under a name, in place of the one that is there, or at the end; the dict holds it.
 * RSH_ENOMEM.  Local. */
RSH_API rsh_status rsh_state_dict_set(rsh_state_dict *d, const char *name, rsh_value *value);
/* Takes an entry out.  RSH_EKEY if there is none of the name.  Local. */
RSH_API rsh_status rsh_state_dict_remove(rsh_state_dict *d, const char *name);

/* The parameters and persistent buffers of a tree, by path, tied ones under each of their paths;
 * then hooks may add to it.  Values share the memory of the parameters and have no history.  The
 * caller frees *out.
 * RSH_ENOMEM; what hooks return.  Local. */
RSH_API rsh_status rsh_module_state_dict(rsh_module *m, rsh_state_dict **out);

typedef enum rsh_load_flags {
    RSH_LOAD_NONSTRICT = 1 /* names that only one side has are no error */
} rsh_load_flags;

/* Copies the entries into the parameters and persistent buffers of a tree, after hooks have changed
 * the dict.  Elements are converted to the dtype of the parameter.  A value that is not distributed
 * is taken as the whole tensor, equal on all ranks, for a distributed parameter.  If the call
 * fails before the first copy, nothing has changed.
 * RSH_ERUNTIME, naming them, if shapes differ, names are missing or unexpected, or a distributed
 * value is meant for a parameter that is not, or lives on another comm; RSH_ETYPE for complex to
 * real; what hooks return.
 * Collective over the comms of distributed parameters; otherwise local. */
RSH_API rsh_status rsh_module_load_state_dict(rsh_module *m, rsh_state_dict *d, unsigned flags);

/* After a module's own entries and those of its children have been added to a dict, and before a
 * module's entries are read from one.  `prefix` is the module's path with a dot at the end, or "".
 * Added, named and removed as the hooks of <reshard/nn/module.h>.  Local. */
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
