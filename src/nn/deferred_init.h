/* deferred_init: parameters that get memory and elements after they were created. */
#ifndef RESHARD_NN_DEFERRED_INIT_H
#define RESHARD_NN_DEFERRED_INIT_H

#include <reshard/nn/random.h>

#include "nn/layer.h"

/* How to initialize a parameter later. */
typedef struct rshn_init {
    rshn_fill fill;
    double bound;            /* for RSHN_UNIFORM */
    rsh_random_state random; /* random state that was current when it was created */
    int64_t zero_row;        /* row that is set to zeros afterwards; -1: none */
} rshn_init;

/* Returns whether new parameters of this thread are deferred. */
bool rshn_deferring(void);
/* Adds a parameter without memory to a module, to be initialized later. */
rsh_status rshn_defer_parameter(rsh_module *m, const char *name, rsh_dtype dtype, int ndim,
                                const int64_t *sizes, rshn_init init);
/* Returns whether the value has no memory of its own yet.  Then all its strides are 0. */
bool rshn_is_deferred(const rsh_value *v);
/* Fills a value; each random fill is one random call. */
rsh_status rshn_fill_value(rsh_value *v, rshn_fill fill, double bound);
/* Sets row `row` of a matrix, numbered over all ranks, to zeros if this rank has it. */
rsh_status rshn_clear_row(const rsh_value *v, int64_t row);

#endif
