/* Binary: pointwise ops of two values, which broadcast; and where and masked_fill, with a mask. */
#include "nn/impl.h"

typedef struct binary {
    rshn_map2_kind kind;
    rshn_operand a, b;
} binary;

static rsh_status binary_forward(rsh_grad_call *c, const char *name, rshn_map2_kind kind) {
    binary *o = rsh_call_attrs(c);
    const rsh_tensor *in[2] = {rsh_call_input(c, 0), rsh_call_input(c, 1)};
    rsh_tensor *y = NULL;
    rshn_sizes to;
    o->a = rshn_operand_of(c, 0);
    o->b = rshn_operand_of(c, 1);
    NN_TRY(rshn_needs_alike(name, 2, in));
    NN_TRY(rshn_broadcast(name, &o->a.sizes, &o->b.sizes, &to));
    NN_TRY(rshn_map2_new(kind, NULL, in[0], in[1], &to, &y));
    return rsh_call_set_output(c, 0, y);
}

/* ---- add, sub ---- */

static rsh_status add_forward(rsh_grad_call *c) { return binary_forward(c, "add", RSHN_ADD); }
static rsh_status sub_forward(rsh_grad_call *c) { return binary_forward(c, "sub", RSHN_SUB); }

static rsh_status add_backward(rsh_grad_call *c) {
    const binary *o = rsh_call_attrs(c);
    if (rsh_call_needs_input_grad(c, 0)) NN_TRY(rshn_pass_summed(c, 0, &o->a));
    return rsh_call_needs_input_grad(c, 1) ? rshn_pass_summed(c, 1, &o->b) : RSH_OK;
}

static rsh_status sub_backward(rsh_grad_call *c) {
    const binary *o = rsh_call_attrs(c);
    rsh_tensor *minus = NULL;
    if (rsh_call_needs_input_grad(c, 0)) NN_TRY(rshn_pass_summed(c, 0, &o->a));
    if (!rsh_call_needs_input_grad(c, 1)) return RSH_OK;
    NN_TRY(rshn_map1_new(RSHN_NEG, NULL, rsh_call_output_grad(c, 0), &minus));
    return rshn_give_summed(c, 1, &o->b, minus);
}

/* ---- mul, div, pow: slots 0 and 1 are the inputs that the other input's gradient needs ---- */

/* Sets the gradient of input i to a function of two tensors, summed to the input's sizes. */
static rsh_status set_grad_map2(rsh_grad_call *c, int i, const rshn_operand *o, rshn_map2_kind kind,
                                const rsh_tensor *a, const rsh_tensor *b) {
    rsh_tensor *g = NULL;
    rshn_sizes to = rshn_sizes_of(rsh_call_output_grad(c, 0));
    NN_TRY(rshn_map2_new(kind, NULL, a, b, &to, &g));
    return rshn_give_summed(c, i, o, g);
}

static rsh_status set_grad_map3(rsh_grad_call *c, int i, const rshn_operand *o, rshn_map3_kind kind,
                                const rsh_tensor *x, const rsh_tensor *y) {
    rsh_tensor *g = NULL;
    rshn_sizes to = rshn_sizes_of(rsh_call_output_grad(c, 0));
    NN_TRY(rshn_map3_new(kind, NULL, x, y, rsh_call_output_grad(c, 0), &to, &g));
    return rshn_give_summed(c, i, o, g);
}

static rsh_status mul_forward(rsh_grad_call *c) {
    NN_TRY(binary_forward(c, "mul", RSHN_MUL));
    if (rsh_call_needs_input_grad(c, 0)) NN_TRY(rsh_call_save_input(c, 1));
    return rsh_call_needs_input_grad(c, 1) ? rsh_call_save_input(c, 0) : RSH_OK;
}

static rsh_status mul_backward(rsh_grad_call *c) {
    const binary *o = rsh_call_attrs(c);
    const rsh_tensor *other = NULL;
    int slot = 0;
    if (rsh_call_needs_input_grad(c, 0)) {
        NN_TRY(rsh_call_saved(c, slot++, &other));
        NN_TRY(set_grad_map2(c, 0, &o->a, RSHN_MUL, other, rsh_call_output_grad(c, 0)));
    }
    if (!rsh_call_needs_input_grad(c, 1)) return RSH_OK;
    NN_TRY(rsh_call_saved(c, slot, &other));
    return set_grad_map2(c, 1, &o->b, RSHN_MUL, other, rsh_call_output_grad(c, 0));
}

static rsh_status div_forward(rsh_grad_call *c) {
    NN_TRY(binary_forward(c, "div", RSHN_DIV));
    NN_TRY(rsh_call_save_input(c, 1));
    return rsh_call_needs_input_grad(c, 1) ? rsh_call_save_output(c, 0) : RSH_OK;
}

static rsh_status div_backward(rsh_grad_call *c) {
    const binary *o = rsh_call_attrs(c);
    const rsh_tensor *b = NULL, *y = NULL;
    NN_TRY(rsh_call_saved(c, 0, &b));
    if (rsh_call_needs_input_grad(c, 0)) NN_TRY(set_grad_map2(c, 0, &o->a, RSHN_DIV, rsh_call_output_grad(c, 0), b));
    if (!rsh_call_needs_input_grad(c, 1)) return RSH_OK;
    NN_TRY(rsh_call_saved(c, 1, &y));
    return set_grad_map3(c, 1, &o->b, RSHN_DIV_BACK, y, b);
}

static rsh_status pow_forward(rsh_grad_call *c) {
    NN_TRY(binary_forward(c, "pow", RSHN_POW));
    NN_TRY(rsh_call_save_input(c, 0));
    return rsh_call_save_input(c, 1);
}

static rsh_status pow_backward(rsh_grad_call *c) {
    const binary *o = rsh_call_attrs(c);
    const rsh_tensor *a = NULL, *b = NULL;
    NN_TRY(rsh_call_saved(c, 0, &a));
    NN_TRY(rsh_call_saved(c, 1, &b));
    if (rsh_call_needs_input_grad(c, 0)) NN_TRY(set_grad_map3(c, 0, &o->a, RSHN_POW_BACK_BASE, a, b));
    return rsh_call_needs_input_grad(c, 1) ? set_grad_map3(c, 1, &o->b, RSHN_POW_BACK_EXPONENT, a, b) : RSH_OK;
}

/* Sets how the result is linear in the inputs: a sum has two terms, a product has one. */
static rsh_status sum_rule(rsh_rule_dims *io) {
    io->in[0].term = 0;
    io->in[1].term = 1;
    return rsh_rule_pointwise(io);
}

static rsh_status product_rule(rsh_rule_dims *io) {
    io->in[0].term = io->in[1].term = 0;
    return rsh_rule_pointwise(io);
}

static const rsh_placement_rule add_rule = {sum_rule}, mul_rule = {product_rule};

#define BINARY_OPS(X)                                                                                                  \
    X(add, add_rule) X(sub, add_rule) X(mul, mul_rule) X(div, rshn_straight_rule) X(pow, rshn_curved_rule)
#define RECORD(name_, rule_)                                                                                           \
    rsh_status rsh_nn_##name_(rsh_value *a, rsh_value *b, rsh_value **out) {                                           \
        static const rsh_grad_op op = {.name = #name_,                                                                 \
                                       .forward = name_##_forward,                                                     \
                                       .backward = name_##_backward,                                                   \
                                       .layouts = rsh_grad_same_layout,                                                \
                                       .parts = RSH_PARTS_EACH,                                                        \
                                       .attr_bytes = sizeof(binary),                                                   \
                                       .placements = &(rule_)};                                                        \
        return rshn_apply(&op, NULL, 2, 2, (rsh_value *[]){a, b}, out);                                                \
    }
BINARY_OPS(RECORD)

/* ---- where, masked_fill: inputs mask, a, b; slot 0 is the mask ---- */

typedef struct choice {
    rshn_operand a, b;
    double number; /* value that masked_fill writes */
} choice;

static rsh_status needs_mask(const char *name, const rsh_tensor *mask) {
    rsh_dtype dtype = rsh_tensor_dtype(mask);
    if (dtype == RSH_BOOL || dtype == RSH_U8) return RSH_OK;
    return rshn_fail(RSH_ETYPE, "%s: mask must be bool or u8, got %s", name, rsh_dtype_name(dtype));
}

static rsh_status where_forward(rsh_grad_call *c) {
    choice *o = rsh_call_attrs(c);
    const rsh_tensor *mask = rsh_call_input(c, 0), *in[2] = {rsh_call_input(c, 1), rsh_call_input(c, 2)};
    rsh_tensor *y = NULL;
    rshn_sizes to, sizes = rshn_sizes_of(mask);
    o->a = rshn_operand_of(c, 1);
    o->b = rshn_operand_of(c, 2);
    NN_TRY(needs_mask("where", mask));
    NN_TRY(rshn_needs_alike("where", 2, in));
    NN_TRY(rshn_broadcast("where", &o->a.sizes, &o->b.sizes, &to));
    NN_TRY(rshn_broadcast("where", &sizes, &to, &to));
    NN_TRY(rshn_where_new(mask, in[0], in[1], &to, &y));
    NN_TRY(rsh_call_set_output(c, 0, y));
    return rsh_call_save_input(c, 0);
}

/* Sets the gradient to that of the result where the mask equals `side`, and to 0 elsewhere. */
static rsh_status set_masked_grad(rsh_grad_call *c, int i, const rshn_operand *o, const rsh_tensor *mask, bool side) {
    const rsh_tensor *g = rsh_call_output_grad(c, 0);
    rsh_tensor *zero = NULL, *part = NULL;
    rshn_sizes to = rshn_sizes_of(g);
    NN_TRY(rshn_number(rsh_tensor_dtype(g), 0, &zero));
    rsh_status st = rshn_where_new(mask, side ? g : zero, side ? zero : g, &to, &part);
    rsh_tensor_free(zero);
    return st ? st : rshn_give_summed(c, i, o, part);
}

static rsh_status where_backward(rsh_grad_call *c) {
    const choice *o = rsh_call_attrs(c);
    const rsh_tensor *mask = NULL;
    NN_TRY(rsh_call_saved(c, 0, &mask));
    if (rsh_call_needs_input_grad(c, 1)) NN_TRY(set_masked_grad(c, 1, &o->a, mask, true));
    return rsh_call_needs_input_grad(c, 2) ? set_masked_grad(c, 2, &o->b, mask, false) : RSH_OK;
}

/* Inputs are x and mask. */
static rsh_status masked_fill_forward(rsh_grad_call *c) {
    choice *o = rsh_call_attrs(c);
    const rsh_tensor *x = rsh_call_input(c, 0), *mask = rsh_call_input(c, 1);
    rsh_tensor *y = NULL, *number = NULL;
    rshn_sizes to, sizes = rshn_sizes_of(mask);
    o->a = rshn_operand_of(c, 0);
    NN_TRY(needs_mask("masked_fill", mask));
    NN_TRY(rshn_needs_float("masked_fill", x));
    NN_TRY(rshn_broadcast("masked_fill", &o->a.sizes, &sizes, &to));
    NN_TRY(rshn_number(rsh_tensor_dtype(x), o->number, &number));
    rsh_status st = rshn_where_new(mask, number, x, &to, &y);
    rsh_tensor_free(number);
    if (!st) st = rsh_call_set_output(c, 0, y);
    return st ? st : rsh_call_save_input(c, 1);
}

static rsh_status masked_fill_backward(rsh_grad_call *c) {
    const choice *o = rsh_call_attrs(c);
    const rsh_tensor *mask = NULL;
    NN_TRY(rsh_call_saved(c, 0, &mask));
    return rsh_call_needs_input_grad(c, 0) ? set_masked_grad(c, 0, &o->a, mask, false) : RSH_OK;
}

static rsh_status where_rule(rsh_rule_dims *io) {
    io->in[1].term = 0;
    io->in[2].term = 1;
    io->out[0].dtype = io->in[1].dtype;
    return rsh_rule_pointwise(io);
}

rsh_status rsh_nn_where(rsh_value *mask, rsh_value *a, rsh_value *b, rsh_value **out) {
    static const rsh_placement_rule rule = {where_rule};
    static const rsh_grad_op op = {.name = "where",
                                   .forward = where_forward,
                                   .backward = where_backward,
                                   .layouts = rsh_grad_same_layout,
                                   .parts = RSH_PARTS_EACH,
                                   .attr_bytes = sizeof(choice),
                                   .placements = &rule};
    return rshn_apply(&op, NULL, 3, 3, (rsh_value *[]){mask, a, b}, out);
}

rsh_status rsh_nn_masked_fill(rsh_value *x, rsh_value *mask, double number, rsh_value **out) {
    static const rsh_grad_op op = {.name = "masked_fill",
                                   .forward = masked_fill_forward,
                                   .backward = masked_fill_backward,
                                   .layouts = rsh_grad_same_layout,
                                   .parts = RSH_PARTS_EACH,
                                   .attr_bytes = sizeof(choice),
                                   .placements = &rshn_curved_rule};
    choice o = {.number = number};
    return rshn_apply(&op, &o, 2, 2, (rsh_value *[]){x, mask}, out);
}
