/* grad_kind: how the gradients of each parameter of a tree relate between ranks. */
#ifndef RESHARD_NN_GRAD_KIND_H
#define RESHARD_NN_GRAD_KIND_H

#include <reshard/mesh.h>

#include "nn/module.h"

/* How the ranks of a group relate to the ranks that share a parameter. */
typedef enum rshn_relation {
    RSHN_CROSSES, /* this rank is the only one of the group that shares it */
    RSHN_INSIDE,  /* all ranks of the group share it */
    RSHN_AROUND,  /* the group contains all ranks that share it, and more */
    RSHN_OVERLAPS /* the group contains some of the ranks that share it, and others */
} rshn_relation;

typedef struct rshn_gradient {
    rsh_grad_kind kind; /* never AUTO */
    int n;              /* number of ranks that share the parameter; 0 if the gradient is partial */
    const int64_t *ranks; /* borrowed, ranks of the default group */
    rshn_relation relation;
} rshn_gradient;

/* What is known about the plain parameters of a tree, between the ranks of a group. */
typedef struct rshn_grad_tree {
    const rsh_group *group;
    const rsh_mesh *mesh; /* borrowed; mesh of DTensors with other ranks of the group; or NULL */
    bool meshes_differ, rows; /* rows: there are sharded parameters with other ranks of the group */
} rshn_grad_tree;

/* Examines all parameters.  RSH_EUNSUP for a distributed parameter whose ranks are unknown. */
rsh_status rshn_grad_tree_of(rsh_module *m, const rsh_group *group, rshn_grad_tree *out);
/* Returns the kind for parameter `name` of `owner`.  RSH_EUNSUP if it is unknown. */
rsh_status rshn_gradient_of(const rshn_grad_tree *t, const char *path, const rsh_module *owner,
                            const char *name, rshn_gradient *out);

#endif
