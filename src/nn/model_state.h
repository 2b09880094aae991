/* model_state: collects all values of a model checkpoint under their names in the files. */
#ifndef RESHARD_NN_MODEL_STATE_H
#define RESHARD_NN_MODEL_STATE_H

#include <reshard/nn/optim.h>

#define RSHN_OPTIMIZER_PREFIX "optimizer."
#define RSHN_EXTRA_PREFIX     "extra."

/* Adds the values of a module to the dict: its state dict, with tied parameters under their first
 * path only.  RSH_EKEY if a name begins with one of the prefixes. */
rsh_status rshn_model_state(rsh_module *m, rsh_state_dict *out);
/* Adds the entries of `from`, which may be NULL, to the dict under prefix + name. */
rsh_status rshn_prefixed_state(const rsh_state_dict *from, const char *prefix, rsh_state_dict *out);

/* A further path of a tied parameter. */
typedef struct rshn_tied_path {
    char *path, *first; /* owned */
} rshn_tied_path;
typedef struct rshn_tied {
    rshn_tied_path *at;
    int64_t n, room;
} rshn_tied;
rsh_status rshn_tied_of(rsh_module *m, rshn_tied *out);
/* Returns the first path of the parameter at a path; the path itself if it is not tied. */
const char *rshn_tied_first(const rshn_tied *a, const char *path);
void rshn_tied_end(rshn_tied *a);

#endif
