/* Unary: pointwise ops of one value.
 *
 * A table lists for each op the kernel that computes it, the kernel for backward, and whether backward needs the input
 * or the output. */
#include "nn/impl.h"

#include <math.h>

typedef enum kept { KEEP_NOTHING, KEEP_INPUT, KEEP_OUTPUT } kept;

/* One op.  `back` takes the saved value and the gradient; if nothing is saved, `straight` takes the gradient only. */
typedef struct rule {
    rshn_map1_kind kind;
    rshn_map2_kind back;
    rshn_map1_kind straight;
    kept keeps;
} rule;

typedef struct unary {
    rule rule;
    double p[2];
} unary;

static rsh_status unary_forward(rsh_grad_call *c, const char *name) {
    const unary *u = rsh_call_attrs(c);
    const rsh_tensor *x = rsh_call_input(c, 0);
    rsh_tensor *y = NULL;
    NN_TRY(rshn_needs_float(name, x));
    NN_TRY(rshn_map1_new(u->rule.kind, u->p, x, &y));
    NN_TRY(rsh_call_set_output(c, 0, y));
    if (u->rule.keeps == KEEP_INPUT) return rsh_call_save_input(c, 0);
    return u->rule.keeps == KEEP_OUTPUT ? rsh_call_save_output(c, 0) : RSH_OK;
}

static rsh_status unary_backward(rsh_grad_call *c) {
    const unary *u = rsh_call_attrs(c);
    const rsh_tensor *g = rsh_call_output_grad(c, 0), *kept = NULL;
    rsh_tensor *gx = NULL;
    double p[2] = {u->p[0], 0};
    rshn_sizes to = rshn_sizes_of(g);
    if (u->rule.keeps == KEEP_NOTHING) {
        NN_TRY(rshn_map1_new(u->rule.straight, p, g, &gx));
    } else {
        NN_TRY(rsh_call_saved(c, 0, &kept));
        NN_TRY(rshn_map2_new(u->rule.back, u->p, kept, g, &to, &gx));
    }
    return rsh_call_set_input_grad(c, 0, gx);
}

/* X(name, kernel, backward kernel with a saved value, backward kernel without, what is saved, rule for DTensors) */
#define UNARY_OPS(X)                                                                                                   \
    X(neg, NEG, MUL, NEG, KEEP_NOTHING, straight)                                                                      \
    X(exp, EXP, MUL, COPY, KEEP_OUTPUT, curved)                                                                        \
    X(log, LOG, LOG_BACK, COPY, KEEP_INPUT, curved)                                                                    \
    X(sqrt, SQRT, SQRT_BACK, COPY, KEEP_OUTPUT, curved)                                                                \
    X(relu, RELU, RELU_BACK, COPY, KEEP_OUTPUT, curved)                                                                \
    X(tanh, TANH, TANH_BACK, COPY, KEEP_OUTPUT, curved)                                                                \
    X(sigmoid, SIGMOID, SIGMOID_BACK, COPY, KEEP_OUTPUT, curved)                                                       \
    X(silu, SILU, SILU_BACK, COPY, KEEP_INPUT, curved)                                                                 \
    X(gelu, GELU, GELU_BACK, COPY, KEEP_INPUT, curved)                                                                 \
    X(gelu_tanh, GELU_TANH, GELU_TANH_BACK, COPY, KEEP_INPUT, curved)                                                  \
    X(pow_number, POW_NUMBER, POW_NUMBER_BACK, COPY, KEEP_INPUT, curved)                                               \
    X(clamp, CLAMP, CLAMP_BACK, COPY, KEEP_INPUT, curved)                                                              \
    X(add_number, SCALE, MUL, SCALE, KEEP_NOTHING, curved)                                                             \
    X(mul_number, SCALE, MUL, SCALE, KEEP_NOTHING, straight)

#define RECORD(name_, kind, back, straight, keeps, rule_)                                                              \
    static rsh_status name_##_forward(rsh_grad_call *c) { return unary_forward(c, #name_); }                           \
    static const rsh_grad_op name_##_op = {.name = #name_,                                                             \
                                           .forward = name_##_forward,                                                 \
                                           .backward = unary_backward,                                                 \
                                           .layouts = rsh_grad_same_layout,                                            \
                                           .parts = RSH_PARTS_EACH,                                                    \
                                           .attr_bytes = sizeof(unary),                                                \
                                           .placements = &rshn_##rule_##_rule};                                        \
    static rsh_status name_##_apply(rsh_value *x, double p0, double p1, rsh_value **out) {                             \
        unary u = {.rule = {RSHN_##kind, RSHN_##back, RSHN_##straight, keeps}, .p = {p0, p1}};                         \
        return rshn_apply(&name_##_op, &u, 1, 1, &x, out);                                                             \
    }
UNARY_OPS(RECORD)

rsh_status rsh_nn_neg(rsh_value *x, rsh_value **out) { return neg_apply(x, 1, 0, out); }
rsh_status rsh_nn_exp(rsh_value *x, rsh_value **out) { return exp_apply(x, 1, 0, out); }
rsh_status rsh_nn_log(rsh_value *x, rsh_value **out) { return log_apply(x, 1, 0, out); }
rsh_status rsh_nn_sqrt(rsh_value *x, rsh_value **out) { return sqrt_apply(x, 1, 0, out); }
rsh_status rsh_nn_relu(rsh_value *x, rsh_value **out) { return relu_apply(x, 1, 0, out); }
rsh_status rsh_nn_tanh(rsh_value *x, rsh_value **out) { return tanh_apply(x, 1, 0, out); }
rsh_status rsh_nn_sigmoid(rsh_value *x, rsh_value **out) { return sigmoid_apply(x, 1, 0, out); }
rsh_status rsh_nn_silu(rsh_value *x, rsh_value **out) { return silu_apply(x, 1, 0, out); }

rsh_status rsh_nn_gelu(rsh_value *x, rsh_gelu form, rsh_value **out) {
    if (form == RSH_GELU_ERF) return gelu_apply(x, 1, 0, out);
    if (form == RSH_GELU_TANH) return gelu_tanh_apply(x, 1, 0, out);
    return rshn_fail(RSH_EVALUE, "gelu: unknown form %d", (int)form);
}

rsh_status rsh_nn_add_number(rsh_value *x, double number, rsh_value **out) {
    return add_number_apply(x, 1, number, out);
}
rsh_status rsh_nn_mul_number(rsh_value *x, double number, rsh_value **out) {
    return mul_number_apply(x, number, 0, out);
}
rsh_status rsh_nn_pow_number(rsh_value *x, double exponent, rsh_value **out) {
    return pow_number_apply(x, exponent, 0, out);
}

rsh_status rsh_nn_clamp(rsh_value *x, double lo, double hi, rsh_value **out) {
    if (isnan(lo) || isnan(hi)) return rshn_fail(RSH_EVALUE, "clamp: limits must not be NaN, got %g and %g", lo, hi);
    return clamp_apply(x, lo, hi, out);
}
