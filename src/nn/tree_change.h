/* tree_change: values of a tree that become DTensors, and hooks, all of them or none. */
#ifndef RESHARD_NN_TREE_CHANGE_H
#define RESHARD_NN_TREE_CHANGE_H

#include <reshard/dtensor.h>

#include "nn/module.h"

/* A parameter or buffer that becomes a DTensor in all its places. */
typedef struct rshn_new_place {
    rsh_value *old;  /* held */
    rsh_value *made; /* owned */
    bool empty;      /* old has no elements yet: nothing is to be moved */
    rsh_place places[RSH_MAX_AXES];
} rshn_new_place;

/* A hook to be added. */
typedef struct rshn_new_hook {
    rsh_module *m; /* borrowed */
    rshn_hook hook;
    int64_t id;
    bool added;
} rshn_new_hook;

typedef struct rshn_tree_change {
    rsh_mesh *mesh; /* borrowed */
    rshn_new_place *place;
    int64_t nplaces, place_room;
    rshn_new_hook *hook;
    int64_t nhooks, hook_room;
    uint64_t print; /* a hash of what is to be done: the same on all ranks */
} rshn_tree_change;

/* Plans to give a value of the tree these placements.  No-op if it has them or they are planned.
 * RSH_EVALUE, naming it by path, if it is distributed otherwise, or planned otherwise. */
rsh_status rshn_change_value(rshn_tree_change *c, const char *path, rsh_value *v,
                             const rsh_place *places);
/* Adds numbers to the hash: whatever else of a plan must be the same on all ranks. */
void rshn_change_mix(rshn_tree_change *c, const void *data, size_t bytes);
/* Plans a hook.  Its ctx is the change's from now on, also if this fails.  What the ctx says of
 * values is for the caller to mix. */
rsh_status rshn_change_hook(rshn_tree_change *c, rsh_module *m, rshn_hook hook);
/* Carries it out on the tree if all ranks are ready; `mine` is what this rank has found so far.
 * Collective over the mesh. */
rsh_status rshn_change_run(rshn_tree_change *c, rsh_module *root, rsh_status mine);
void rshn_change_end(rshn_tree_change *c);

#endif
