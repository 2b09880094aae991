/* recompute: forward of a module that keeps only its inputs. */
#ifndef RESHARD_NN_RECOMPUTE_INSIDE_H
#define RESHARD_NN_RECOMPUTE_INSIDE_H

#include "nn/module.h"

/* Calls the forward function of the kind in such a way that backward calls it again. */
rsh_status rshn_recompute_forward(rsh_module *m, rsh_value *const *in, rsh_value **out);

#endif
