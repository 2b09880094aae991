/* sharded_rule: ops on sharded tensors, by the rules that they have for DTensors. */
#ifndef RESHARD_NN_SHARDED_RULE_H
#define RESHARD_NN_SHARDED_RULE_H

#include <reshard/dtensor.h>

/* Is there a sharded tensor among the inputs, none with a reading, and is the op's rule needed? */
bool rshn_rule_applies(const rsh_grad_op *op, int nin, rsh_value *const *in);
/* Applies the op.  RSH_EUNSUP, naming it, if nothing follows from the rule; otherwise as
 * rsh_grad_apply.  Collective over the comm of the inputs if one of them is replicated where others
 * are cut, or the op makes collective calls. */
rsh_status rshn_rule_apply(const rsh_grad_op *op, const void *attrs, int nin, rsh_value *const *in,
                           int nout, rsh_value **out);

#endif
