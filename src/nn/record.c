/* Record: what the records of ops have in common. */
#include "nn/impl.h"

rsh_status rshn_apply(const rsh_grad_op *op, const void *attrs, int nin, int needed, rsh_value *const *in,
                      rsh_value **out) {
    if (!out) return rshn_fail(RSH_EVALUE, "%s with NULL for the result", op->name);
    for (int i = 0; i < needed; i++)
        if (!in[i]) return rshn_fail(RSH_EVALUE, "%s with NULL for input %d", op->name, i);
    return rsh_grad_apply(op, attrs, nin, in, 1, out);
}

rshn_operand rshn_operand_of(const rsh_grad_call *c, int i) {
    return (rshn_operand){.distributed = rsh_value_sharded(rsh_call_in_value(c, i)) != NULL,
                          .sizes = rshn_sizes_of(rsh_call_in(c, i))};
}

static bool same_sizes(const rshn_sizes *s, const rsh_tensor *t) {
    if (s->n != rsh_tensor_ndim(t)) return false;
    for (int d = 0; d < s->n; d++)
        if (s->at[d] != rsh_tensor_shape(t)[d]) return false;
    return true;
}

rsh_status rshn_give_summed(rsh_grad_call *c, int i, const rshn_operand *o, rsh_tensor *g) {
    rsh_tensor *sum = NULL;
    if (o->distributed || same_sizes(&o->sizes, g)) return rsh_call_give(c, i, g);
    rsh_status st = rshn_sum_to(g, &o->sizes, &sum);
    rsh_tensor_free(g);
    return st ? st : rsh_call_give(c, i, sum);
}

rsh_status rshn_pass_summed(rsh_grad_call *c, int i, const rshn_operand *o) {
    rsh_tensor *sum = NULL;
    const rsh_tensor *g = rsh_call_grad(c, 0);
    if (o->distributed || same_sizes(&o->sizes, g)) return rsh_call_pass(c, i, 0);
    NN_TRY(rshn_sum_to(g, &o->sizes, &sum));
    return rsh_call_give(c, i, sum);
}
