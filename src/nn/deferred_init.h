/* deferred_init: parameters that get memory and elements after they were made. */
#ifndef RESHARD_NN_DEFERRED_INIT_H
#define RESHARD_NN_DEFERRED_INIT_H

#include <reshard/nn/random.h>

#include "nn/layer.h"

/* How a parameter will be filled. */
typedef struct rshn_init {
    rshn_fill fill;
    double bound;            /* of RSHN_UNIFORM */
    rsh_random_state random; /* of the call that it would have been filled by */
    int64_t zero_row;        /* becomes zeros afterwards; -1: none */
} rshn_init;

/* Are parameters of this thread deferred? */
bool rshn_deferring(void);
/* Gives a module a parameter without memory, to be filled so. */
rsh_status rshn_defer_parameter(rsh_module *m, const char *name, rsh_dtype dtype, int ndim,
                                const int64_t *sizes, rshn_init init);
/* Has the value no memory of its own yet?  Then all its strides are 0. */
bool rshn_is_deferred(const rsh_value *v);
/* Fills a value; each random fill is one random call. */
rsh_status rshn_fill_value(rsh_value *v, rshn_fill fill, double bound);
/* Row `row` of a matrix, counted over all ranks, becomes zeros where this rank has it. */
rsh_status rshn_clear_row(const rsh_value *v, int64_t row);

#endif
