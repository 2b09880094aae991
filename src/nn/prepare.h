/* prepare: hooks that redistribute inputs and outputs of a module. */
#ifndef RESHARD_NN_PREPARE_H
#define RESHARD_NN_PREPARE_H

#include <reshard/nn/parallel.h>

#include "nn/tree_change.h"

/* How one input or output is redistributed. */
typedef struct rshn_bringing {
    bool listed;
    bool leave;
    rsh_place is, becomes;
} rshn_bringing;

/* Inputs, or outputs, of a module on a 1-D mesh: the context of a hook. */
typedef struct rshn_prepared {
    rsh_mesh *mesh; /* held */
    bool local;     /* pass them on as plain parts */
    int n;
    rshn_bringing at[RSHN_MOST_VALUES];
} rshn_prepared;

/* Plan the hooks. */
rsh_status rshn_prepare_inputs(rshn_tree_change *c, rsh_module *m, const rshn_prepared *how);
rsh_status rshn_prepare_outputs(rshn_tree_change *c, rsh_module *m, const rshn_prepared *how);

#endif
