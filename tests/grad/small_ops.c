/* Small ops for tests of the tape. */
#include "grad/small_ops.h"

#include <math.h>

/* ---- values ---- */

static rsh_tensor *tensor_of(int ndim, const int64_t *shape, const double *x) {
    rsh_tensor *t = NULL;
    OK(rsh_tensor_empty(RSH_F64, ndim, shape, &t));
    if (rsh_tensor_count(t)) memcpy(rsh_tensor_data(t), x, (size_t)rsh_tensor_count(t) * sizeof *x);
    return t;
}

rsh_value *small_leaf(int64_t n, const double *x, bool requires_grad) {
    rsh_value *v = NULL;
    OK(rsh_value_adopt_tensor(tensor_of(1, &n, x), requires_grad, &v));
    return v;
}

rsh_value *small_scalar(double x, bool requires_grad) {
    rsh_value *v = NULL;
    OK(rsh_value_adopt_tensor(tensor_of(0, NULL, &x), requires_grad, &v));
    return v;
}

const double *small_data(const rsh_value *v) { return rsh_tensor_data(rsh_value_part(v, 0)); }

double small_grad(const rsh_value *leaf, int64_t i) {
    assert_non_null(rsh_value_grad(leaf));
    return small_data(rsh_value_grad(leaf))[i];
}

/* ---- pointwise ---- */

static rsh_status like(const rsh_tensor *t, rsh_tensor **out) {
    return rsh_tensor_empty(RSH_F64, rsh_tensor_ndim(t), rsh_tensor_shape(t), out);
}

typedef double function(double a, double b);

/* Computes out = f(a, b), element by element; b may be NULL. */
static rsh_status map(function *f, const rsh_tensor *a, const rsh_tensor *b, rsh_tensor **out) {
    rsh_tensor *dense[2] = {NULL, NULL};
    const rsh_tensor *from[2] = {a, b};
    rsh_tensor *t = NULL;
    rsh_status st = like(a, &t);
    for (int i = 0; i < 2 && !st; i++)
        if (from[i]) st = rsh_math_convert(from[i], RSH_F64, &dense[i]);
    for (int64_t i = 0; !st && i < rsh_tensor_count(a); i++) {
        double x = ((double *)rsh_tensor_data(dense[0]))[i];
        double y = b ? ((double *)rsh_tensor_data(dense[1]))[i] : 0;
        ((double *)rsh_tensor_data(t))[i] = f(x, y);
    }
    rsh_tensor_free(dense[0]);
    rsh_tensor_free(dense[1]);
    if (st) rsh_tensor_free(t);
    else *out = t;
    return st;
}

static rsh_status forward_map(rsh_grad_call *c, function *f) {
    rsh_tensor *t;
    const rsh_tensor *a = rsh_call_input(c, 0), *b = rsh_call_input(c, 1);
    if (b && rsh_tensor_count(a) != rsh_tensor_count(b)) return rsh_fail(RSH_EVALUE, "shapes differ");
    rsh_status st = map(f, a, b, &t);
    return st ? st : rsh_call_set_output(c, 0, t);
}

/* Sets the gradient of input i to f(gradient, saved slot). */
static rsh_status give_map(rsh_grad_call *c, int i, function *f, int slot) {
    const rsh_tensor *saved = NULL;
    rsh_tensor *t;
    if (!rsh_call_needs_input_grad(c, i)) return RSH_OK;
    rsh_status st = rsh_call_saved(c, slot, &saved);
    if (!st) st = map(f, rsh_call_output_grad(c, 0), saved, &t);
    return st ? st : rsh_call_set_input_grad(c, i, t);
}

#define POINTWISE .layouts = rsh_grad_same_layout, .parts = RSH_PARTS_EACH

static double plus(double a, double b) { return a + b; }
static double times(double a, double b) { return a * b; }
static double sine(double a, double b) { return (void)b, sin(a); }
static double expo(double a, double b) { return (void)b, exp(a); }
static double times_cos(double g, double a) { return g * cos(a); }

static rsh_status add_forward(rsh_grad_call *c) { return forward_map(c, plus); }
static rsh_status add_backward(rsh_grad_call *c) {
    rsh_status st = rsh_call_pass_grad(c, 0, 0);
    return st ? st : rsh_call_pass_grad(c, 1, 0);
}
const rsh_grad_op small_add_op = {
    .name = "add", .forward = add_forward, .backward = add_backward, POINTWISE};

static rsh_status mul_forward(rsh_grad_call *c) {
    rsh_status st = rsh_call_save_input(c, 0);
    if (!st) st = rsh_call_save_input(c, 1);
    return st ? st : forward_map(c, times);
}
static rsh_status mul_backward(rsh_grad_call *c) {
    rsh_status st = give_map(c, 0, times, 1);
    return st ? st : give_map(c, 1, times, 0);
}
const rsh_grad_op small_mul_op = {
    .name = "mul", .forward = mul_forward, .backward = mul_backward, POINTWISE};

static rsh_status sin_forward(rsh_grad_call *c) {
    rsh_status st = rsh_call_save_input(c, 0);
    return st ? st : forward_map(c, sine);
}
static rsh_status sin_backward(rsh_grad_call *c) { return give_map(c, 0, times_cos, 0); }
static const rsh_grad_op sin_op = {
    .name = "sin", .forward = sin_forward, .backward = sin_backward, POINTWISE};

static rsh_status exp_forward(rsh_grad_call *c) {
    rsh_status st = forward_map(c, expo);
    return st ? st : rsh_call_save_output(c, 0);
}
static rsh_status exp_backward(rsh_grad_call *c) { return give_map(c, 0, times, 0); }
static const rsh_grad_op exp_op = {
    .name = "exp", .forward = exp_forward, .backward = exp_backward, POINTWISE};

/* An op with a number as an attribute, which saves a tensor of its own. */
static rsh_status scale_forward(rsh_grad_call *c) {
    const rsh_tensor *a = rsh_call_input(c, 0);
    rsh_tensor *x = NULL, *t = NULL;
    rsh_status st = like(a, &x);
    if (!st) st = rsh_math_fill_number(x, *(double *)rsh_call_attrs(c));
    if (!st) st = map(times, a, x, &t);
    if (!st) st = rsh_call_set_output(c, 0, t);
    if (st) {
        rsh_tensor_free(x);
        return st;
    }
    return rsh_call_save(c, x);
}
static rsh_status scale_backward(rsh_grad_call *c) { return give_map(c, 0, times, 0); }
static const rsh_grad_op scale_op = {.name = "scale",
                                     .forward = scale_forward,
                                     .backward = scale_backward,
                                     POINTWISE,
                                     .attr_bytes = sizeof(double)};

/* ---- product with a value of one element ---- */

static rsh_status spread(const rsh_tensor *number, const rsh_tensor *like, rsh_tensor **out) {
    const int64_t zeros[RSH_MAX_NDIM] = {0};
    return rsh_tensor_view(number, 0, rsh_tensor_ndim(like), rsh_tensor_shape(like), zeros, out);
}

static rsh_status number_forward(rsh_grad_call *c) {
    const rsh_tensor *a = rsh_call_input(c, 0);
    rsh_tensor *b, *t;
    rsh_status st = spread(rsh_call_input(c, 1), a, &b);
    if (st) return st;
    st = map(times, a, b, &t);
    rsh_tensor_free(b);
    if (!st) st = rsh_call_save_input(c, 0);
    if (!st) st = rsh_call_save_input(c, 1);
    return st ? st : rsh_call_set_output(c, 0, t);
}

static rsh_status number_backward(rsh_grad_call *c) {
    const rsh_tensor *a, *number, *g = rsh_call_output_grad(c, 0);
    rsh_tensor *b, *t, *sum;
    rsh_status st = rsh_call_saved(c, 0, &a);
    if (!st) st = rsh_call_saved(c, 1, &number);
    if (!st) st = spread(number, a, &b);
    if (st) return st;
    st = map(times, g, b, &t);
    rsh_tensor_free(b);
    if (!st) st = rsh_call_set_input_grad(c, 0, t);
    if (!st) st = map(times, g, a, &t);
    if (!st) st = rsh_tensor_zeros(RSH_F64, 0, NULL, &sum);
    if (st) return st;
    for (int64_t i = 0; i < rsh_tensor_count(t); i++)
        *(double *)rsh_tensor_data(sum) += ((double *)rsh_tensor_data(t))[i];
    rsh_tensor_free(t);
    return rsh_call_set_input_grad(c, 1, sum);
}

static const rsh_grad_op number_op = {
    .name = "times a number", .forward = number_forward, .backward = number_backward, POINTWISE};

/* ---- sum: of the elements of one part ---- */

static rsh_status sum_forward(rsh_grad_call *c) {
    rsh_tensor *t, *dense;
    double sum = 0;
    rsh_status st = rsh_math_convert(rsh_call_input(c, 0), RSH_F64, &dense);
    if (st) return st;
    for (int64_t i = 0; i < rsh_tensor_count(dense); i++) sum += ((double *)rsh_tensor_data(dense))[i];
    rsh_tensor_free(dense);
    st = rsh_tensor_empty(RSH_F64, 0, NULL, &t);
    if (st) return st;
    *(double *)rsh_tensor_data(t) = sum;
    if (!st) st = rsh_call_set_output(c, 0, t);
    return st ? st : rsh_call_save_input(c, 0);
}

/* Returns a view in which every element is the same gradient. */
static rsh_status sum_backward(rsh_grad_call *c) {
    const int64_t zeros[RSH_MAX_NDIM] = {0};
    const rsh_tensor *in;
    rsh_tensor *t;
    rsh_status st = rsh_call_saved(c, 0, &in);
    if (!st) st = rsh_tensor_view(rsh_call_output_grad(c, 0), 0, rsh_tensor_ndim(in), rsh_tensor_shape(in), zeros, &t);
    return st ? st : rsh_call_set_input_grad(c, 0, t);
}

static rsh_status plain_layout(rsh_grad_layouts *io) { return (void)io, RSH_OK; }

static const rsh_grad_op sum_op = {
    .name = "sum", .forward = sum_forward, .backward = sum_backward, .layouts = plain_layout};

/* ---- several outputs ---- */

static rsh_status halves_forward(rsh_grad_call *c) {
    const rsh_tensor *a = rsh_call_input(c, 0);
    int64_t half = rsh_tensor_shape(a)[0] / 2;
    rsh_status st = RSH_OK;
    for (int i = 0; i < 2 && !st; i++) {
        rsh_tensor *t;
        st = rsh_tensor_narrow(a, &(int64_t){i * half}, &half, &t);
        if (!st) st = rsh_call_set_output(c, i, t);
    }
    return st;
}

static rsh_status halves_backward(rsh_grad_call *c) {
    const rsh_tensor *g[2] = {rsh_call_output_grad(c, 0), rsh_call_output_grad(c, 1)};
    int64_t half = rsh_tensor_shape(g[0] ? g[0] : g[1])[0];
    rsh_tensor *t, *view;
    rsh_status st = rsh_tensor_zeros(RSH_F64, 1, &(int64_t){2 * half}, &t);
    for (int i = 0; i < 2 && !st; i++) {
        if (!g[i]) continue;
        st = rsh_tensor_narrow(t, &(int64_t){i * half}, &half, &view);
        if (!st) st = rsh_math_copy(g[i], view);
        rsh_tensor_free(view);
    }
    return st ? st : rsh_call_set_input_grad(c, 0, t);
}

static const rsh_grad_op halves_op = {.name = "halves", .forward = halves_forward, .backward = halves_backward};

static rsh_status argmax_forward(rsh_grad_call *c) {
    const rsh_tensor *a = rsh_call_input(c, 0);
    const double *x = rsh_tensor_data(a);
    int64_t best = 0;
    rsh_tensor *t;
    for (int64_t i = 0; i < rsh_tensor_count(a); i++)
        if (x[i] > x[best]) best = i;
    rsh_status st = rsh_tensor_empty(RSH_I64, 0, NULL, &t);
    if (st) return st;
    *(int64_t *)rsh_tensor_data(t) = best;
    return rsh_call_set_output(c, 0, t);
}
static const rsh_grad_op argmax_op = {.name = "argmax", .forward = argmax_forward};

/* ---- as functions ---- */

rsh_status small_add(rsh_value *a, rsh_value *b, rsh_value **out) {
    return rsh_grad_apply(&small_add_op, NULL, 2, (rsh_value *[]){a, b}, 1, out);
}
rsh_status small_mul(rsh_value *a, rsh_value *b, rsh_value **out) {
    return rsh_grad_apply(&small_mul_op, NULL, 2, (rsh_value *[]){a, b}, 1, out);
}
rsh_status small_sin(rsh_value *a, rsh_value **out) { return rsh_grad_apply(&sin_op, NULL, 1, &a, 1, out); }
rsh_status small_exp(rsh_value *a, rsh_value **out) { return rsh_grad_apply(&exp_op, NULL, 1, &a, 1, out); }
rsh_status small_sum(rsh_value *a, rsh_value **out) { return rsh_grad_apply(&sum_op, NULL, 1, &a, 1, out); }
rsh_status small_scale(rsh_value *a, double x, rsh_value **out) {
    return rsh_grad_apply(&scale_op, &x, 1, &a, 1, out);
}
rsh_status small_times_number(rsh_value *a, rsh_value *b, rsh_value **out) {
    return rsh_grad_apply(&number_op, NULL, 2, (rsh_value *[]){a, b}, 1, out);
}
rsh_status small_argmax(rsh_value *a, rsh_value **out) { return rsh_grad_apply(&argmax_op, NULL, 1, &a, 1, out); }
rsh_status small_halves(rsh_value *a, rsh_value **low, rsh_value **high) {
    rsh_value *out[2];
    rsh_status st = rsh_grad_apply(&halves_op, NULL, 1, &a, 2, out);
    if (!st) *low = out[0], *high = out[1];
    return st;
}
