/* Product: matmul, bmm and linear.
 *
 * Operands become matrices with leading dims; transposes are views, which BLAS reads in place.  For y = a b:
 * ga = g b', gb = a' g, each summed over the leading dims along which its operand was repeated. */
#include "nn/impl.h"

#include <string.h>

/* A vector is a row on the left and a column on the right. */
typedef struct product_attrs {
    rshn_sizes a, b, out; /* shapes of the operands and of the result, as matrices */
} product_attrs;

/* Slots 0 and 1 hold b and a. */

/* Adds a dim to a vector: before it on the left side, after it on the right. */
static rshn_sizes as_matrix(const rshn_sizes *s, bool left) {
    if (s->n != 1) return *s;
    return (rshn_sizes){.n = 2, .at = {left ? 1 : s->at[0], left ? s->at[0] : 1}};
}

static rsh_status matrix_view(const rsh_tensor *t, bool left, rsh_tensor **out) {
    if (rsh_tensor_ndim(t) != 1) return rshn_alias(t, out);
    rshn_sizes s = rshn_sizes_of(t), m = as_matrix(&s, left);
    int64_t step = rsh_tensor_strides(t)[0], strides[2] = {left ? s.at[0] * step : step, left ? step : 1};
    return rsh_tensor_view(t, 0, 2, m.at, strides, out);
}

/* Computes the shape of the product, as matrices. */
static rsh_status product_sizes(const char *name, const rsh_tensor *x, const rsh_tensor *y, rshn_sizes *out) {
    rshn_sizes sx = rshn_sizes_of(x), sy = rshn_sizes_of(y);
    if (!sx.n || !sy.n) return rshn_fail(RSH_EVALUE, "%s: operands must have at least 1 dim", name);
    rshn_sizes a = as_matrix(&sx, true), b = as_matrix(&sy, false);
    if (a.at[a.n - 1] != b.at[b.n - 2])
        return rshn_fail(RSH_EVALUE,
                         "%s: cannot multiply %s by %s: %lld columns on the left, %lld rows on the "
                         "right",
                         name, rshn_shape_text(x), rshn_shape_text(y), (long long)a.at[a.n - 1],
                         (long long)b.at[b.n - 2]);
    rshn_sizes la = a, lb = b;
    la.n -= 2;
    lb.n -= 2;
    NN_TRY(rshn_broadcast(name, &la, &lb, out));
    out->at[out->n++] = a.at[a.n - 2];
    out->at[out->n++] = b.at[b.n - 1];
    return RSH_OK;
}

/* Returns the shape of the result without the dims that were added to vectors. */
static rshn_sizes result_sizes(const product_attrs *p) {
    rshn_sizes to = p->out;
    if (p->b.n == 1) to.n--;
    if (p->a.n == 1) {
        to.n--;
        if (p->b.n != 1) to.at[to.n - 1] = p->out.at[p->out.n - 1];
    }
    return to;
}

static rsh_status multiply(const rsh_tensor *x, const rsh_tensor *y, const rshn_sizes *sizes, rsh_tensor **out) {
    rsh_tensor *a = NULL, *b = NULL, *c = NULL;
    rsh_status st;
    NN_GOTO(matrix_view(x, true, &a));
    NN_GOTO(matrix_view(y, false, &b));
    NN_GOTO(rshn_empty(rsh_tensor_dtype(x), sizes, &c));
    NN_GOTO(rshn_gemm(1, a, b, 0, c));
    *out = c;
    c = NULL;
out:
    rsh_tensor_free(a);
    rsh_tensor_free(b);
    rsh_tensor_free(c);
    return st;
}

static rsh_status product_forward(rsh_grad_call *c, const char *name) {
    product_attrs *p = rsh_call_attrs(c);
    const rsh_tensor *in[2] = {rsh_call_input(c, 0), rsh_call_input(c, 1)};
    rsh_tensor *full = NULL, *y = NULL;
    p->a = rshn_sizes_of(in[0]);
    p->b = rshn_sizes_of(in[1]);
    NN_TRY(rshn_needs_alike(name, 2, in));
    NN_TRY(product_sizes(name, in[0], in[1], &p->out));
    NN_TRY(multiply(in[0], in[1], &p->out, &full));
    rshn_sizes to = result_sizes(p);
    rsh_status st = rsh_tensor_view(full, 0, to.n, to.at, NULL, &y);
    rsh_tensor_free(full);
    if (!st) st = rsh_call_set_output(c, 0, y);
    if (!st && rsh_call_needs_input_grad(c, 0)) st = rsh_call_save_input(c, 1);
    if (!st && rsh_call_needs_input_grad(c, 1)) st = rsh_call_save_input(c, 0);
    return st;
}

/* Sets the gradient of input i to the product of two views. */
static rsh_status set_product_grad(rsh_grad_call *c, int i, const rshn_sizes *sizes, const rsh_tensor *a,
                                   const rsh_tensor *b) {
    rshn_sizes m = as_matrix(sizes, i == 0);
    rsh_tensor *full = NULL, *gx = NULL;
    NN_TRY(rshn_empty(rsh_tensor_dtype(a), &m, &full));
    rsh_status st = rshn_gemm(1, a, b, 0, full);
    if (!st) st = rsh_tensor_view(full, 0, sizes->n, sizes->at, NULL, &gx);
    rsh_tensor_free(full);
    return st ? st : rsh_call_set_input_grad(c, i, gx);
}

/* Returns the other operand as a transposed matrix. */
static rsh_status transposed_matrix(const rsh_tensor *t, bool left, rsh_tensor **out) {
    rsh_tensor *m = NULL;
    NN_TRY(matrix_view(t, left, &m));
    rsh_status st = rsh_tensor_transpose(m, -1, -2, out);
    rsh_tensor_free(m);
    return st;
}

static rsh_status product_backward(rsh_grad_call *c) {
    const product_attrs *p = rsh_call_attrs(c);
    const rsh_tensor *saved = NULL;
    rsh_tensor *g = NULL, *other = NULL;
    rsh_status st;
    int slot = 0;
    NN_GOTO(rshn_reshape(rsh_call_output_grad(c, 0), &p->out, &g));
    if (rsh_call_needs_input_grad(c, 0)) {
        NN_GOTO(rsh_call_saved(c, slot++, &saved));
        NN_GOTO(transposed_matrix(saved, false, &other));
        NN_GOTO(set_product_grad(c, 0, &p->a, g, other));
        rsh_tensor_free(other);
        other = NULL;
    }
    if (rsh_call_needs_input_grad(c, 1)) {
        NN_GOTO(rsh_call_saved(c, slot, &saved));
        NN_GOTO(transposed_matrix(saved, true, &other));
        NN_GOTO(set_product_grad(c, 1, &p->b, other, g));
    }
out:
    rsh_tensor_free(g);
    rsh_tensor_free(other);
    return st;
}

/* ---- rule: leading dims have letters from 0 on, then rows, columns, and the dim that is summed over ---- */

enum { ROW = 29, COLUMN, SUMMED };

/* Sets the letters of leading dim d of n dims, aligned at the last leading dim. */
static rsh_status lead_rule(rsh_rule_dims *io, int n, int d) {
    int lead[2], at[2];
    int64_t size = 1;
    for (int i = 0; i < 2; i++) {
        lead[i] = io->in[i].ndim < 2 ? 0 : io->in[i].ndim - 2;
        at[i] = d - (n - lead[i]);
        int64_t own = at[i] >= 0 ? io->in[i].shape[at[i]] : 1;
        if (own != 1 && size != 1 && own != size)
            return rshn_fail(RSH_EVALUE, "matmul: leading sizes %lld and %lld do not broadcast", (long long)size,
                             (long long)own);
        if (own != 1) size = own;
    }
    for (int i = 0; i < 2; i++)
        if (at[i] >= 0 && io->in[i].shape[at[i]] == size) rshn_rule_letter(&io->in[i], at[i], d);
    rshn_rule_add_dim(&io->out[0], size, d);
    return RSH_OK;
}

static rsh_status product_rule(rsh_rule_dims *io) {
    rsh_rule_tensor *a = &io->in[0], *b = &io->in[1];
    int lead = (a->ndim > b->ndim ? a->ndim : b->ndim) - 2;
    if (!a->ndim || !b->ndim) return rshn_fail(RSH_EVALUE, "matmul: operands must have at least 1 dim");
    int64_t inner = a->shape[a->ndim - 1], rows = b->shape[b->ndim > 1 ? b->ndim - 2 : 0];
    if (inner != rows)
        return rshn_fail(RSH_EVALUE, "matmul: the left operand has %lld columns, but the right one has %lld rows",
                         (long long)inner, (long long)rows);
    for (int d = 0; d < lead; d++) NN_TRY(lead_rule(io, lead, d));
    a->term = b->term = 0;
    rshn_rule_letter(a, a->ndim - 1, SUMMED);
    rshn_rule_letter(b, b->ndim > 1 ? b->ndim - 2 : 0, SUMMED);
    if (a->ndim > 1) {
        rshn_rule_letter(a, a->ndim - 2, ROW);
        rshn_rule_add_dim(&io->out[0], a->shape[a->ndim - 2], ROW);
    }
    if (b->ndim > 1) {
        rshn_rule_letter(b, b->ndim - 1, COLUMN);
        rshn_rule_add_dim(&io->out[0], b->shape[b->ndim - 1], COLUMN);
    }
    return RSH_OK;
}

static const rsh_placement_rule matrix_rule = {product_rule};

static rsh_status matmul_forward(rsh_grad_call *c) { return product_forward(c, "matmul"); }
static rsh_status bmm_forward(rsh_grad_call *c) { return product_forward(c, "bmm"); }

rsh_status rsh_nn_matmul(rsh_value *a, rsh_value *b, rsh_value **out) {
    static const rsh_grad_op op = {.name = "matmul",
                                   .forward = matmul_forward,
                                   .backward = product_backward,
                                   .attr_bytes = sizeof(product_attrs),
                                   .placements = &matrix_rule};
    return rshn_apply(&op, NULL, 2, 2, (rsh_value *[]){a, b}, out);
}

rsh_status rsh_nn_bmm(rsh_value *a, rsh_value *b, rsh_value **out) {
    static const rsh_grad_op op = {.name = "bmm",
                                   .forward = bmm_forward,
                                   .backward = product_backward,
                                   .attr_bytes = sizeof(product_attrs),
                                   .placements = &matrix_rule};
    if (a && b && (rsh_value_ndim(a) != 3 || rsh_value_ndim(b) != 3 || rsh_value_shape(a)[0] != rsh_value_shape(b)[0]))
        return rshn_fail(RSH_EVALUE, "bmm: operands must be 3-D with equal first sizes, got %s and %s",
                         rshn_sizes_text(rsh_value_ndim(a), rsh_value_shape(a)),
                         rshn_sizes_text(rsh_value_ndim(b), rsh_value_shape(b)));
    return rshn_apply(&op, NULL, 2, 2, (rsh_value *[]){a, b}, out);
}

/* ---- linear: inputs x, weight, bias; slots weight, x ---- */

static rsh_status linear_sizes(const rsh_tensor *const *in, rshn_sizes *to) {
    const int64_t *w = rsh_tensor_shape(in[1]);
    *to = rshn_sizes_of(in[0]);
    if (!to->n || rsh_tensor_ndim(in[1]) != 2 || to->at[to->n - 1] != w[1])
        return rshn_fail(RSH_EVALUE, "linear: weight must be 2-D with the last size of x, got x %s and weight %s",
                         rshn_shape_text(in[0]), rshn_shape_text(in[1]));
    if (in[2] && (rsh_tensor_ndim(in[2]) != 1 || rsh_tensor_shape(in[2])[0] != w[0]))
        return rshn_fail(RSH_EVALUE,
                         "linear: bias must be 1-D with the first size of weight, got weight %s and bias "
                         "%s",
                         rshn_shape_text(in[1]), rshn_shape_text(in[2]));
    to->at[to->n - 1] = w[0];
    return RSH_OK;
}

/* Multiplies with the rows of x as one matrix.  A bias is copied to the result first: BLAS adds the product to it in
 * the same pass in which it would otherwise clear the result. */
static rsh_status linear_product(const rsh_tensor *const *in, const rsh_tensor *y) {
    rsh_tensor *x = NULL, *out = NULL, *w = NULL;
    rsh_status st;
    NN_GOTO(matrix_view(in[0], true, &x));
    NN_GOTO(matrix_view(y, true, &out));
    NN_GOTO(rsh_tensor_transpose(in[1], 0, 1, &w));
    if (in[2]) rshn_map1_into(RSHN_COPY, NULL, in[2], y);
    NN_GOTO(rshn_gemm(1, x, w, in[2] ? 1 : 0, out));
out:
    rsh_tensor_free(x);
    rsh_tensor_free(out);
    rsh_tensor_free(w);
    return st;
}

static rsh_status linear_forward(rsh_grad_call *c) {
    const rsh_tensor *in[3] = {rsh_call_input(c, 0), rsh_call_input(c, 1), rsh_call_input(c, 2)};
    rsh_tensor *y = NULL;
    rshn_sizes to;
    NN_TRY(rshn_needs_alike("linear", 3, in));
    NN_TRY(linear_sizes(in, &to));
    NN_TRY(rshn_empty(rsh_tensor_dtype(in[0]), &to, &y));
    rsh_status st = linear_product(in, y);
    if (st) {
        rsh_tensor_free(y);
        return st;
    }
    NN_TRY(rsh_call_set_output(c, 0, y));
    if (rsh_call_needs_input_grad(c, 0)) NN_TRY(rsh_call_save_input(c, 1));
    return rsh_call_needs_input_grad(c, 1) ? rsh_call_save_input(c, 0) : RSH_OK;
}

static rsh_status set_input_grad(rsh_grad_call *c, const rsh_tensor *g, const rsh_tensor *weight) {
    rsh_tensor *gx = NULL, *full = NULL;
    rshn_sizes to = rshn_sizes_of(rsh_call_output_grad(c, 0));
    to.at[to.n - 1] = rsh_tensor_shape(weight)[1];
    NN_TRY(rshn_empty(rsh_tensor_dtype(g), &to, &gx));
    rsh_status st = matrix_view(gx, true, &full);
    if (!st) st = rshn_gemm(1, g, weight, 0, full);
    rsh_tensor_free(full);
    if (!st) return rsh_call_set_input_grad(c, 0, gx);
    rsh_tensor_free(gx);
    return st;
}

static rsh_status set_weight_grad(rsh_grad_call *c, const rsh_tensor *g, const rsh_tensor *input) {
    rsh_tensor *x = NULL, *gt = NULL, *gw = NULL;
    rsh_status st;
    int64_t size[2] = {rsh_tensor_shape(g)[rsh_tensor_ndim(g) - 1],
                       rsh_tensor_shape(input)[rsh_tensor_ndim(input) - 1]};
    NN_GOTO(matrix_view(input, true, &x));
    NN_GOTO(rsh_tensor_transpose(g, -1, -2, &gt));
    NN_GOTO(rsh_tensor_empty(rsh_tensor_dtype(g), 2, size, &gw));
    NN_GOTO(rshn_gemm(1, gt, x, 0, gw));
    st = rsh_call_set_input_grad(c, 1, gw);
    gw = NULL;
out:
    rsh_tensor_free(x);
    rsh_tensor_free(gt);
    rsh_tensor_free(gw);
    return st;
}

static rsh_status linear_backward(rsh_grad_call *c) {
    const rsh_tensor *saved = NULL;
    rsh_tensor *g = NULL, *gb = NULL;
    rsh_status st;
    int slot = 0;
    NN_GOTO(matrix_view(rsh_call_output_grad(c, 0), true, &g));
    if (rsh_call_needs_input_grad(c, 0)) {
        NN_GOTO(rsh_call_saved(c, slot++, &saved));
        NN_GOTO(set_input_grad(c, g, saved));
    }
    if (rsh_call_needs_input_grad(c, 1)) {
        NN_GOTO(rsh_call_saved(c, slot, &saved));
        NN_GOTO(set_weight_grad(c, g, saved));
    }
    if (rsh_call_needs_input_grad(c, 2)) {
        NN_GOTO(rshn_sum(g, (1u << (rsh_tensor_ndim(g) - 1)) - 1, false, 1, &gb));
        st = rsh_call_set_input_grad(c, 2, gb);
    }
out:
    rsh_tensor_free(g);
    return st;
}

static rsh_status linear_rule(rsh_rule_dims *io) {
    rsh_rule_tensor *x = &io->in[0], *w = &io->in[1], *bias = &io->in[2], *y = &io->out[0];
    bool alike = x->ndim > 0 && w->ndim == 2 && x->shape[x->ndim - 1] == w->shape[1];
    alike = alike && (bias->ndim < 0 || (bias->ndim == 1 && bias->shape[0] == w->shape[0]));
    if (!alike)
        return rshn_fail(RSH_EVALUE, "linear: shapes do not match, got x %s, weight %s and bias %s",
                         rshn_sizes_text(x->ndim, x->shape), rshn_sizes_text(w->ndim, w->shape),
                         bias->ndim < 0 ? "none" : rshn_sizes_text(bias->ndim, bias->shape));
    for (int d = 0; d < x->ndim - 1; d++) {
        rshn_rule_letter(x, d, d);
        rshn_rule_add_dim(y, x->shape[d], d);
    }
    rshn_rule_letter(x, x->ndim - 1, SUMMED);
    rshn_rule_letter(w, 1, SUMMED);
    rshn_rule_letter(w, 0, COLUMN);
    if (bias->ndim > 0) rshn_rule_letter(bias, 0, COLUMN);
    rshn_rule_add_dim(y, w->shape[0], COLUMN);
    x->term = w->term = 0;
    bias->term = 1;
    return RSH_OK;
}

rsh_status rsh_nn_linear(rsh_value *x, rsh_value *weight, rsh_value *bias, rsh_value **out) {
    static const rsh_placement_rule rule = {linear_rule};
    static const rsh_grad_op op = {
        .name = "linear", .forward = linear_forward, .backward = linear_backward, .placements = &rule};
    return rshn_apply(&op, NULL, 3, 2, (rsh_value *[]){x, weight, bias}, out);
}
