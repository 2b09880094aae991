/* grad_kind: what the gradient of each parameter of a tree is. */
#ifndef RESHARD_NN_GRAD_KIND_H
#define RESHARD_NN_GRAD_KIND_H

#include <reshard/mesh.h>

#include "nn/module.h"

/* How the ranks of a group lie to the ranks that share a parameter. */
typedef enum rshn_relation {
    RSHN_CROSSES, /* this rank is the only one of the group that shares it */
    RSHN_INSIDE,  /* all ranks of the group share it */
    RSHN_AROUND,  /* all ranks that share it are in the group, and others */
    RSHN_OVERLAPS /* some of them are, and others */
} rshn_relation;

typedef struct rshn_gradient {
    rsh_grad_kind kind; /* never AUTO */
    int n;              /* ranks that share the parameter; 0: of a partial gradient */
    const int64_t *ranks; /* borrowed, ranks of the default group */
    rshn_relation relation;
} rshn_gradient;

/* What a tree says about its plain parameters, between the ranks of a group. */
typedef struct rshn_grad_tree {
    const rsh_group *group;
    const rsh_mesh *mesh; /* borrowed: of DTensors, if it has other ranks of the group; or NULL */
    bool meshes_differ, rows; /* rows: sharded parameters, of which the same holds */
} rshn_grad_tree;

/* Walks through the parameters.  RSH_EUNSUP for a distributed parameter whose ranks are unknown. */
rsh_status rshn_grad_tree_of(rsh_module *m, const rsh_group *group, rshn_grad_tree *out);
/* Of parameter `name` of `owner`.  RSH_EUNSUP if it is unknown. */
rsh_status rshn_gradient_of(const rshn_grad_tree *t, const char *path, const rsh_module *owner,
                            const char *name, rshn_gradient *out);

#endif
