/* type_as: converts a value to another dtype. */
#include <reshard/math.h>

#include "nn/impl.h"

typedef struct converting {
    rsh_dtype from, to;
} converting;

static rsh_status type_as_forward(rsh_grad_call *c) {
    const converting *a = rsh_call_attrs(c);
    rsh_tensor *y = NULL;
    NN_TRY(rsh_math_convert(rsh_call_input(c, 0), a->to, &y));
    return rsh_call_set_output(c, 0, y);
}

static rsh_status type_as_backward(rsh_grad_call *c) {
    const converting *a = rsh_call_attrs(c);
    rsh_tensor *gx = NULL;
    NN_TRY(rsh_math_convert(rsh_call_output_grad(c, 0), a->from, &gx));
    return rsh_call_set_input_grad(c, 0, gx);
}

static rsh_status type_as_rule(rsh_rule_dims *io) {
    io->out[0].dtype = ((const converting *)io->attrs)->to;
    io->in[0].term = 0;
    return rsh_rule_pointwise(io);
}

rsh_status rsh_nn_type_as(rsh_value *x, const rsh_value *like, rsh_value **out) {
    static const rsh_placement_rule placements = {type_as_rule};
    static const rsh_grad_op op = {.name = "type_as",
                                   .forward = type_as_forward,
                                   .backward = type_as_backward,
                                   .layouts = rsh_grad_same_layout,
                                   .parts = RSH_PARTS_EACH,
                                   .attr_bytes = sizeof(converting),
                                   .placements = &placements};
    converting a = {rsh_value_dtype(x), rsh_value_dtype(like)};
    if (!x || !like || !out) return rshn_fail(RSH_EVALUE, "type_as: %s is NULL", !x ? "x" : like ? "out" : "like");
    if (a.from == a.to) return *out = rsh_value_hold(x), RSH_OK;
    return rshn_apply(&op, &a, 1, 1, &x, out);
}
