/* parallel_style: applies a style to one module. */
#ifndef RESHARD_NN_PARALLEL_STYLE_H
#define RESHARD_NN_PARALLEL_STYLE_H

#include <reshard/nn/parallel.h>

#include "nn/tree_change.h"

/* Plans the style for the module at `path`. */
rsh_status rshn_style_plan(const rsh_style *s, const char *path, rsh_module *m,
                           rshn_tree_change *c);

#endif
