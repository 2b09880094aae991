/* tree_change: turns values of a tree into DTensors and adds hooks, completely or not at all. */
#ifndef RESHARD_NN_TREE_CHANGE_H
#define RESHARD_NN_TREE_CHANGE_H

#include <reshard/dtensor.h>

#include "nn/module.h"

/* A parameter or buffer that becomes a DTensor everywhere in the tree. */
typedef struct rshn_new_place {
    rsh_value *old;  /* held */
    rsh_value *made; /* owned */
    bool empty;      /* old is deferred, so nothing is moved */
    rsh_place places[RSH_MAX_AXES];
} rshn_new_place;

/* A hook that will be added. */
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
    uint64_t print; /* hash of all changes; must be equal on all ranks */
} rshn_tree_change;

/* Plans to give a value of the tree these placements.  No-op if it has them, or if that is already
 * planned.  RSH_EVALUE, naming the path, if other placements exist or are planned. */
rsh_status rshn_change_value(rshn_tree_change *c, const char *path, rsh_value *v,
                             const rsh_place *places);
/* Adds further data of a plan that must be equal on all ranks to the hash. */
void rshn_change_mix(rshn_tree_change *c, const void *data, size_t bytes);
/* Plans a hook.  Takes ownership of its ctx, even if this fails.  The caller adds the content of
 * the ctx to the hash. */
rsh_status rshn_change_hook(rshn_tree_change *c, rsh_module *m, rshn_hook hook);
/* Applies the changes to the tree if no rank has failed; `mine` is this rank's status so far.
 * Collective over the mesh. */
rsh_status rshn_change_run(rshn_tree_change *c, rsh_module *root, rsh_status mine);
void rshn_change_end(rshn_tree_change *c);

#endif
