/* Record: helpers that the records of ops share. */
#include "nn/impl.h"

rsh_status rshn_apply(const rsh_grad_op *op, const void *attrs, int nin, int needed, rsh_value *const *in,
                      rsh_value **out) {
    if (!out) return rshn_fail(RSH_EVALUE, "%s: out is NULL", op->name);
    for (int i = 0; i < needed; i++)
        if (!in[i]) return rshn_fail(RSH_EVALUE, "%s: input %d is NULL", op->name, i);
    return rsh_rule_apply(op, attrs, nin, in, 1, out);
}

rshn_operand rshn_operand_of(const rsh_grad_call *c, int i) {
    const rsh_value *v = rsh_call_input_value(c, i);
    rshn_operand o = {.in_parts = rsh_value_nparts(v) > 1, .plain = !rsh_value_sharded(v)};
    o.sizes = rshn_sizes_of(rsh_call_input(c, i));
    o.whole.n = rsh_value_ndim(v);
    for (int d = 0; d < o.whole.n; d++) o.whole.at[d] = rsh_value_shape(v)[d];
    return o;
}

static bool same_sizes(const rshn_sizes *s, int ndim, const int64_t *shape) {
    if (s->n != ndim) return false;
    for (int d = 0; d < s->n; d++)
        if (s->at[d] != shape[d]) return false;
    return true;
}

rsh_status rshn_give_summed(rsh_grad_call *c, int i, const rshn_operand *o, rsh_tensor *g) {
    rsh_tensor *sum = NULL;
    if (o->in_parts || same_sizes(&o->sizes, rsh_tensor_ndim(g), rsh_tensor_shape(g)))
        return rsh_call_set_input_grad(c, i, g);
    rsh_status st = rshn_sum_to(g, &o->sizes, &sum);
    rsh_tensor_free(g);
    return st ? st : rsh_call_set_input_grad(c, i, sum);
}

rsh_status rshn_pass_summed(rsh_grad_call *c, int i, const rshn_operand *o) {
    rsh_tensor *sum = NULL;
    const rsh_tensor *g = rsh_call_output_grad(c, 0);
    const rsh_value *whole = rsh_call_output_grad_value(c, 0);
    bool alike = o->plain == !rsh_value_sharded(whole);
    if (o->in_parts || (alike && same_sizes(&o->whole, rsh_value_ndim(whole), rsh_value_shape(whole))))
        return rsh_call_pass_grad(c, i, 0);
    NN_TRY(rshn_sum_to(g, &o->sizes, &sum));
    return rsh_call_set_input_grad(c, i, sum);
}
