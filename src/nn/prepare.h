/* prepare: hooks that bring inputs and outputs of a module to placements. */
#ifndef RESHARD_NN_PREPARE_H
#define RESHARD_NN_PREPARE_H

#include <reshard/nn/parallel.h>

#include "nn/tree_change.h"

/* What becomes of one input or output. */
typedef struct rshn_bringing {
    bool listed;
    bool leave;
    rsh_place is, becomes;
} rshn_bringing;

/* Inputs, or outputs, of a module on a mesh of one dim: context of a hook. */
typedef struct rshn_prepared {
    rsh_mesh *mesh; /* held */
    bool local;     /* they end as plain parts */
    int n;
    rshn_bringing at[RSHN_MOST_VALUES];
} rshn_prepared;

/* Plans the hook. */
rsh_status rshn_prepare_inputs(rshn_tree_change *c, rsh_module *m, const rshn_prepared *how);
rsh_status rshn_prepare_outputs(rshn_tree_change *c, rsh_module *m, const rshn_prepared *how);

#endif
