/* layer: helpers that constructors of layers share. */
#ifndef RESHARD_NN_LAYER_H
#define RESHARD_NN_LAYER_H

#include <reshard/nn/layers.h>

#include "nn/module.h"

/* How a parameter is initialized. */
typedef enum rshn_fill { RSHN_ZEROS, RSHN_ONES, RSHN_UNIFORM, RSHN_NORMAL } rshn_fill;

/* Adds a new parameter that requires a gradient to a module.  `bound` is for RSHN_UNIFORM.
 * RSH_ETYPE unless the dtype is f32 or f64. */
rsh_status rshn_new_parameter(rsh_module *m, const char *name, rsh_dtype dtype, int ndim,
                              const int64_t *sizes, rshn_fill fill, double bound);
/* Returns RSH_EVALUE, naming the layer, unless the size is at least 1. */
rsh_status rshn_check_size(const char *layer, const char *what, int64_t size);
/* Adds a child to a module and takes ownership of the caller's reference, even if it fails; sets
 * *child to NULL. */
rsh_status rshn_give_child(rsh_module *m, const char *name, rsh_module **child);
/* Return the value or child of a slot that the constructor has made; NULL: none. */
rsh_value *rshn_slot_value(const rsh_module *m, const char *name);
rsh_module *rshn_slot_child(const rsh_module *m, const char *name);

/* Returns whether this Embedding limits the norms of rows that it looks up (max_norm). */
bool rshn_embedding_shortens(const rsh_module *m);

/* Computes x W' + b with a distributed weight; see sharded_linear.c. */
rsh_status rshn_sharded_linear(rsh_value *x, rsh_value *weight, rsh_value *bias, rsh_value **out);

#endif
