/* View: ops whose result is the same elements with other dims.
 *
 * The gradient of a view is a view of the gradient, but for narrow, whose gradient is 0 outside, and expand, whose
 * gradient is a sum. */
#include "nn/impl.h"

#include <reshard/math.h>
#include <string.h>

/* What a view does: new sizes and strides on the input's memory. */
typedef struct viewing {
    rshn_sizes sizes;       /* of the result */
    int dims[RSH_MAX_NDIM]; /* of a permutation */
    int dim;
    int64_t start;
    rshn_sizes before; /* sizes of the input */
} viewing;

static rsh_status give_view(rsh_grad_call *c, rsh_status st, rsh_tensor *t) { return st ? st : rsh_call_out(c, 0, t); }

/* ---- reshape, squeeze, unsqueeze ---- */

static rsh_status reshape_forward(rsh_grad_call *c) {
    viewing *v = rsh_call_attrs(c);
    const rsh_tensor *x = rsh_call_in(c, 0);
    rsh_tensor *y = NULL;
    v->before = rshn_sizes_of(x);
    rsh_status st = rshn_reshape(x, &v->sizes, &y);
    return give_view(c, st, y);
}

static rsh_status reshape_backward(rsh_grad_call *c) {
    const viewing *v = rsh_call_attrs(c);
    rsh_tensor *gx = NULL;
    NN_TRY(rshn_reshape(rsh_call_grad(c, 0), &v->before, &gx));
    return rsh_call_give(c, 0, gx);
}

static rsh_status reshape_apply(const char *name, rsh_value *x, const rshn_sizes *sizes, rsh_value **out) {
    static const rsh_grad_op ops[] = {
        {.name = "reshape", .forward = reshape_forward, .backward = reshape_backward, .attr_bytes = sizeof(viewing)},
        {.name = "squeeze", .forward = reshape_forward, .backward = reshape_backward, .attr_bytes = sizeof(viewing)},
        {.name = "unsqueeze", .forward = reshape_forward, .backward = reshape_backward, .attr_bytes = sizeof(viewing)}};
    const rsh_grad_op *op = ops;
    viewing v = {.sizes = *sizes};
    while (strcmp(op->name, name)) op++;
    return rshn_apply(op, &v, 1, 1, &x, out);
}

/* The sizes asked for, with -1 worked out. */
static rsh_status wanted_sizes(const rsh_value *x, int ndim, const int64_t *sizes, rshn_sizes *out) {
    rshn_sizes s = {.n = ndim};
    int64_t have = 1, count = 1;
    int hole = -1;
    if (ndim < 0 || ndim > RSH_MAX_NDIM || (ndim && !sizes))
        return rshn_fail(RSH_EVALUE, "reshape to %d dims%s", ndim, sizes ? "" : " of NULL");
    for (int d = 0; d < rsh_value_ndim(x); d++) have *= rsh_value_shape(x)[d];
    for (int d = 0; d < ndim; d++) {
        s.at[d] = sizes[d];
        if (sizes[d] == -1 && hole < 0)
            hole = d;
        else if (sizes[d] < 0 || __builtin_mul_overflow(count, sizes[d], &count))
            count = -1, d = ndim;
    }
    if (count > 0 && hole >= 0 && have % count == 0) {
        s.at[hole] = have / count;
        count = have;
    }
    if (count != have || (hole >= 0 && s.at[hole] < 0))
        return rshn_fail(RSH_EVALUE, "reshape of %s to %s: the counts differ",
                         rshn_sizes_text(rsh_value_ndim(x), rsh_value_shape(x)), rshn_sizes_text(ndim, sizes));
    *out = s;
    return RSH_OK;
}

rsh_status rsh_nn_reshape(rsh_value *x, int ndim, const int64_t *sizes, rsh_value **out) {
    rshn_sizes to = {.n = 0};
    if (x) NN_TRY(wanted_sizes(x, ndim, sizes, &to));
    return reshape_apply("reshape", x, &to, out);
}

static rshn_sizes value_sizes(const rsh_value *x) {
    rshn_sizes s = {.n = x ? rsh_value_ndim(x) : 0};
    for (int d = 0; d < s.n; d++) s.at[d] = rsh_value_shape(x)[d];
    return s;
}

rsh_status rsh_nn_squeeze(rsh_value *x, int dim, rsh_value **out) {
    rshn_sizes to = value_sizes(x);
    int d = 0;
    if (x) NN_TRY(rshn_dim("squeeze", dim, to.n, &d));
    if (to.n && to.at[d] == 1) {
        memmove(to.at + d, to.at + d + 1, (size_t)(to.n - d - 1) * sizeof *to.at);
        to.n--;
    }
    return reshape_apply("squeeze", x, &to, out);
}

rsh_status rsh_nn_squeeze_all(rsh_value *x, rsh_value **out) {
    rshn_sizes from = value_sizes(x), to = {.n = 0};
    for (int d = 0; d < from.n; d++)
        if (from.at[d] != 1) to.at[to.n++] = from.at[d];
    return reshape_apply("squeeze", x, &to, out);
}

rsh_status rsh_nn_unsqueeze(rsh_value *x, int dim, rsh_value **out) {
    rshn_sizes to = value_sizes(x);
    int d = 0;
    if (x) NN_TRY(rshn_dim("unsqueeze", dim, to.n + 1, &d));
    if (to.n == RSH_MAX_NDIM)
        return rshn_fail(RSH_EVALUE, "unsqueeze of a value with %d dims, the most there are", to.n);
    memmove(to.at + d + 1, to.at + d, (size_t)(to.n - d) * sizeof *to.at);
    to.at[d] = 1;
    to.n++;
    return reshape_apply("unsqueeze", x, &to, out);
}

/* ---- transpose, permute ---- */

/* A view whose dim d is dim dims[d] of t. */
static rsh_status permuted(const rsh_tensor *t, const int *dims, rsh_tensor **out) {
    int64_t size[RSH_MAX_NDIM], stride[RSH_MAX_NDIM];
    for (int d = 0; d < rsh_tensor_ndim(t); d++) {
        size[d] = rsh_tensor_shape(t)[dims[d]];
        stride[d] = rsh_tensor_strides(t)[dims[d]];
    }
    return rsh_tensor_view(t, 0, rsh_tensor_ndim(t), size, stride, out);
}

static rsh_status permute_forward(rsh_grad_call *c) {
    const viewing *v = rsh_call_attrs(c);
    rsh_tensor *y = NULL;
    rsh_status st = permuted(rsh_call_in(c, 0), v->dims, &y);
    return give_view(c, st, y);
}

static rsh_status permute_backward(rsh_grad_call *c) {
    const viewing *v = rsh_call_attrs(c);
    rsh_tensor *gx = NULL;
    int back[RSH_MAX_NDIM];
    for (int d = 0; d < rsh_tensor_ndim(rsh_call_grad(c, 0)); d++) back[v->dims[d]] = d;
    NN_TRY(permuted(rsh_call_grad(c, 0), back, &gx));
    return rsh_call_give(c, 0, gx);
}

rsh_status rsh_nn_transpose(rsh_value *x, int a, int b, rsh_value **out) {
    static const rsh_grad_op op = {
        .name = "transpose", .forward = permute_forward, .backward = permute_backward, .attr_bytes = sizeof(viewing)};
    viewing v = {.dim = 0};
    for (int d = 0; d < RSH_MAX_NDIM; d++) v.dims[d] = d;
    if (x) {
        NN_TRY(rshn_dim("transpose", a, rsh_value_ndim(x), &a));
        NN_TRY(rshn_dim("transpose", b, rsh_value_ndim(x), &b));
        v.dims[a] = b;
        v.dims[b] = a;
    }
    return rshn_apply(&op, &v, 1, 1, &x, out);
}

rsh_status rsh_nn_permute(rsh_value *x, const int *dims, rsh_value **out) {
    static const rsh_grad_op op = {
        .name = "permute", .forward = permute_forward, .backward = permute_backward, .attr_bytes = sizeof(viewing)};
    viewing v = {.dim = 0};
    unsigned seen = 0;
    if (!dims) return rshn_fail(RSH_EVALUE, "permute with NULL for the dims");
    for (int d = 0; x && d < rsh_value_ndim(x); d++) {
        NN_TRY(rshn_dim("permute", dims[d], rsh_value_ndim(x), &v.dims[d]));
        if (seen >> v.dims[d] & 1) return rshn_fail(RSH_EVALUE, "permute with dim %d twice", v.dims[d]);
        seen |= 1u << v.dims[d];
    }
    return rshn_apply(&op, &v, 1, 1, &x, out);
}

/* ---- contiguous ---- */

static rsh_status contiguous_forward(rsh_grad_call *c) {
    rsh_tensor *y = NULL;
    rsh_status st = rshn_dense(rsh_call_in(c, 0), &y);
    return give_view(c, st, y);
}

static rsh_status contiguous_backward(rsh_grad_call *c) { return rsh_call_pass(c, 0, 0); }

rsh_status rsh_nn_contiguous(rsh_value *x, rsh_value **out) {
    static const rsh_grad_op op = {.name = "contiguous",
                                   .forward = contiguous_forward,
                                   .backward = contiguous_backward,
                                   .layouts = rsh_grad_same_layout,
                                   .parts = RSH_PARTS_EACH};
    return rshn_apply(&op, NULL, 1, 1, &x, out);
}

/* ---- expand ---- */

static rsh_status expand_forward(rsh_grad_call *c) {
    viewing *v = rsh_call_attrs(c);
    rsh_tensor *y = NULL;
    v->before = rshn_sizes_of(rsh_call_in(c, 0));
    rsh_status st = rshn_expand(rsh_call_in(c, 0), &v->sizes, &y);
    return give_view(c, st, y);
}

static rsh_status expand_backward(rsh_grad_call *c) {
    const viewing *v = rsh_call_attrs(c);
    rsh_tensor *gx = NULL;
    NN_TRY(rshn_sum_to(rsh_call_grad(c, 0), &v->before, &gx));
    return rsh_call_give(c, 0, gx);
}

rsh_status rsh_nn_expand(rsh_value *x, int ndim, const int64_t *sizes, rsh_value **out) {
    static const rsh_grad_op op = {
        .name = "expand", .forward = expand_forward, .backward = expand_backward, .attr_bytes = sizeof(viewing)};
    rshn_sizes from = value_sizes(x);
    viewing v = {.sizes = {.n = ndim}};
    if (x && (ndim < from.n || ndim > RSH_MAX_NDIM || (ndim && !sizes)))
        return rshn_fail(RSH_EVALUE, "expand of %s to %d dims%s", rshn_sizes_text(from.n, from.at), ndim,
                         sizes ? "" : " of NULL");
    for (int d = 0, more = ndim - from.n; x && d < ndim; d++) {
        int64_t old = d < more ? 1 : from.at[d - more], size = sizes[d] == -1 && d >= more ? old : sizes[d];
        if (size < 0 || (size != old && old != 1))
            return rshn_fail(RSH_EVALUE, "expand of %s to %s: sizes differ in dim %d", rshn_sizes_text(from.n, from.at),
                             rshn_sizes_text(ndim, sizes), d);
        v.sizes.at[d] = size;
    }
    return rshn_apply(&op, &v, 1, 1, &x, out);
}

/* ---- narrow ---- */

static rsh_status narrowed(const rsh_tensor *t, int dim, int64_t start, int64_t length, rsh_tensor **out) {
    int64_t size[RSH_MAX_NDIM];
    memcpy(size, rsh_tensor_shape(t), (size_t)rsh_tensor_ndim(t) * sizeof *size);
    size[dim] = length;
    int64_t offset = length ? start * rsh_tensor_strides(t)[dim] : 0;
    return rsh_tensor_view(t, offset, rsh_tensor_ndim(t), size, rsh_tensor_strides(t), out);
}

static rsh_status narrow_forward(rsh_grad_call *c) {
    viewing *v = rsh_call_attrs(c);
    const rsh_tensor *x = rsh_call_in(c, 0);
    rsh_tensor *y = NULL;
    v->before = rshn_sizes_of(x);
    rsh_status st = narrowed(x, v->dim, v->start, v->sizes.at[0], &y);
    return give_view(c, st, y);
}

static rsh_status narrow_backward(rsh_grad_call *c) {
    const viewing *v = rsh_call_attrs(c);
    const rsh_tensor *g = rsh_call_grad(c, 0);
    rsh_tensor *gx = NULL, *window = NULL;
    NN_TRY(rsh_tensor_zeros(rsh_tensor_dtype(g), v->before.n, v->before.at, &gx));
    rsh_status st = narrowed(gx, v->dim, v->start, v->sizes.at[0], &window);
    if (!st) st = rsh_math_copy(g, window);
    rsh_tensor_free(window);
    if (!st) return rsh_call_give(c, 0, gx);
    rsh_tensor_free(gx);
    return st;
}

rsh_status rsh_nn_narrow(rsh_value *x, int dim, int64_t start, int64_t length, rsh_value **out) {
    static const rsh_grad_op op = {
        .name = "narrow", .forward = narrow_forward, .backward = narrow_backward, .attr_bytes = sizeof(viewing)};
    viewing v = {.start = start, .sizes = {.n = 1, .at = {length}}};
    if (x && !rsh_value_ndim(x)) return rshn_fail(RSH_EINDEX, "narrow of a value without dims");
    if (x) {
        NN_TRY(rshn_dim("narrow", dim, rsh_value_ndim(x), &v.dim));
        int64_t size = rsh_value_shape(x)[v.dim];
        if (start < 0 || length < 0 || start > size || length > size - start)
            return rshn_fail(RSH_EINDEX, "narrow of dim %d from %lld on for %lld: its size is %lld", v.dim,
                             (long long)start, (long long)length, (long long)size);
    }
    return rshn_apply(&op, &v, 1, 1, &x, out);
}
