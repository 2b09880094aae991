/* nan_to_num: replaces NaN and infinities by numbers. */
#include "nn/impl.h"

#include <float.h>
#include <math.h>

typedef struct replacing {
    double nan[2];      /* replaces NaN; only the first is used */
    double infinite[2]; /* replace infinity and minus infinity */
} replacing;

static rsh_status nan_to_num_forward(rsh_grad_call *c) {
    const replacing *r = rsh_call_attrs(c);
    rsh_tensor *finite = NULL, *y = NULL;
    NN_TRY(rshn_needs_float("nan_to_num", rsh_call_input(c, 0)));
    NN_TRY(rshn_map1_new(RSHN_INFINITY_TO, r->infinite, rsh_call_input(c, 0), &finite));
    rsh_status st = rshn_map1_new(RSHN_NAN_TO, r->nan, finite, &y);
    rsh_tensor_free(finite);
    NN_TRY(st);
    NN_TRY(rsh_call_set_output(c, 0, y));
    return rsh_call_save_input(c, 0);
}

static rsh_status nan_to_num_backward(rsh_grad_call *c) {
    const rsh_tensor *g = rsh_call_output_grad(c, 0), *x = NULL;
    rsh_tensor *gx = NULL;
    rshn_sizes to = rshn_sizes_of(g);
    NN_TRY(rsh_call_saved(c, 0, &x));
    NN_TRY(rshn_map2_new(RSHN_FINITE_BACK, (const double[2]){0}, x, g, &to, &gx));
    return rsh_call_set_input_grad(c, 0, gx);
}

/* Replaces an infinity by the largest finite number of the dtype. */
static double finite_limit(double number, rsh_dtype dtype) {
    if (!isinf(number)) return number;
    return copysign(dtype == RSH_F32 ? (double)FLT_MAX : DBL_MAX, number);
}

rsh_status rsh_nn_nan_to_num(rsh_value *x, double nan, double positive, double negative, rsh_value **out) {
    static const rsh_grad_op op = {.name = "nan_to_num",
                                   .forward = nan_to_num_forward,
                                   .backward = nan_to_num_backward,
                                   .layouts = rsh_grad_same_layout,
                                   .parts = RSH_PARTS_EACH,
                                   .attr_bytes = sizeof(replacing),
                                   .placements = &rshn_curved_rule};
    rsh_dtype dtype = rsh_value_dtype(x);
    replacing r = {{nan}, {finite_limit(positive, dtype), finite_limit(negative, dtype)}};
    return rshn_apply(&op, &r, 1, 1, &x, out);
}
