/* nan_to_num: numbers in place of NaN and infinities. */
#include "nn/impl.h"

#include <float.h>
#include <math.h>

typedef struct replacing {
    double nan[2]; /* of NaN, the first of them */
    double infinite[2]; /* of infinity and of minus infinity */
} replacing;

static rsh_status forward(rsh_grad_call *c) {
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

static rsh_status backward(rsh_grad_call *c) {
    const rsh_tensor *g = rsh_call_output_grad(c, 0), *x = NULL;
    rsh_tensor *gx = NULL;
    rshn_sizes to = rshn_sizes_of(g);
    NN_TRY(rsh_call_saved(c, 0, &x));
    NN_TRY(rshn_map2_new(RSHN_FINITE_BACK, (const double[2]){0}, x, g, &to, &gx));
    return rsh_call_set_input_grad(c, 0, gx);
}

/* An infinity stands for the largest finite number of the dtype. */
static double largest(double number, rsh_dtype dtype) {
    if (!isinf(number)) return number;
    return copysign(dtype == RSH_F32 ? (double)FLT_MAX : DBL_MAX, number);
}

rsh_status rsh_nn_nan_to_num(rsh_value *x, double nan, double positive, double negative, rsh_value **out) {
    static const rsh_grad_op op = {.name = "nan_to_num",
                                   .forward = forward,
                                   .backward = backward,
                                   .layouts = rsh_grad_same_layout,
                                   .parts = RSH_PARTS_EACH,
                                   .attr_bytes = sizeof(replacing),
                                   .placements = &rshn_curved_rule};
    rsh_dtype dtype = rsh_value_dtype(x);
    replacing r = {{nan}, {largest(positive, dtype), largest(negative, dtype)}};
    return rshn_apply(&op, &r, 1, 1, &x, out);
}
