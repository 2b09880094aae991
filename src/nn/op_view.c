/* View: ops whose result has the same elements with other dims.
 *
 * The gradient of a view is a view of the gradient, except for narrow, whose gradient is 0 outside the range, and
 * expand, whose gradient is a sum. */
#include "nn/impl.h"

#include <reshard/math.h>
#include <string.h>

/* Attributes of a view: new sizes and strides on the input's memory. */
typedef struct viewing {
    rshn_sizes sizes;       /* sizes of the result */
    int dims[RSH_MAX_NDIM]; /* order of the dims, for a permutation */
    int dim;
    int64_t start;
    rshn_sizes before;    /* sizes of the input */
    unsigned gone, fresh; /* bit masks of dims of size 1 that squeeze removes and unsqueeze adds */
} viewing;

static rsh_status set_view(rsh_grad_call *c, rsh_status st, rsh_tensor *t) {
    return st ? st : rsh_call_set_output(c, 0, t);
}

/* ---- reshape, squeeze, unsqueeze ---- */

static rsh_status reshape_forward(rsh_grad_call *c) {
    viewing *v = rsh_call_attrs(c);
    const rsh_tensor *x = rsh_call_input(c, 0);
    rsh_tensor *y = NULL;
    rshn_sizes to;
    v->before = rshn_sizes_of(x);
    rsh_status st = rshn_own_sizes(c, 0, &v->sizes, &to);
    if (!st) st = rshn_reshape(x, &to, &y);
    return set_view(c, st, y);
}

static void mark_moves_only(rsh_rule_dims *io) {
    io->in[0].term = 0;
    io->moves_only = true;
}

/* Extends a group of dims of x from i on and one of y from j on until both have the same size.  Only their first dims
 * can be cut. */
static void regroup(rsh_rule_tensor *x, rsh_rule_tensor *y, int *i, int *j) {
    int a = (*i)++, b = (*j)++;
    int64_t have = x->shape[a], want = y->shape[b];
    while (have != want) {
        if (have < want)
            have *= x->shape[(*i)++];
        else
            want *= y->shape[(*j)++];
    }
    if (x->shape[a]) x->unit[a] = have / x->shape[a];
    if (y->shape[b]) y->unit[b] = want / y->shape[b];
    rshn_rule_letter(x, a, a);
    rshn_rule_letter(y, b, a);
}

static rsh_status reshape_rule(rsh_rule_dims *io) {
    const viewing *v = io->attrs;
    rsh_rule_tensor *x = &io->in[0], *y = &io->out[0];
    int64_t count = 1;
    mark_moves_only(io);
    for (int d = 0; d < v->sizes.n; d++) {
        rshn_rule_add_dim(y, v->sizes.at[d], RSH_DIM_WHOLE);
        count *= v->sizes.at[d];
    }
    for (int i = 0, j = 0; i < x->ndim && j < y->ndim;) {
        bool pair = x->shape[i] == y->shape[j] && !(v->gone >> i & 1) && !(v->fresh >> j & 1);
        if (x->shape[i] == 1 && !pair && !(v->fresh >> j & 1))
            i++;
        else if (y->shape[j] == 1 && !pair)
            j++;
        else if (!count && !pair)
            break; /* without elements it is ambiguous which dims correspond */
        else
            regroup(x, y, &i, &j);
    }
    return RSH_OK;
}

static rsh_status reshape_backward(rsh_grad_call *c) {
    const viewing *v = rsh_call_attrs(c);
    rsh_tensor *gx = NULL;
    NN_TRY(rshn_reshape(rsh_call_output_grad(c, 0), &v->before, &gx));
    return rsh_call_set_input_grad(c, 0, gx);
}

#define RESHAPE(name_)                                                                                                 \
    {.name = name_,                                                                                                    \
     .forward = reshape_forward,                                                                                       \
     .backward = reshape_backward,                                                                                     \
     .attr_bytes = sizeof(viewing),                                                                                    \
     .placements = &regroup_rule}

static rsh_status reshape_apply(const char *name, rsh_value *x, const viewing *v, rsh_value **out) {
    static const rsh_placement_rule regroup_rule = {reshape_rule};
    static const rsh_grad_op ops[] = {RESHAPE("reshape"), RESHAPE("squeeze"), RESHAPE("unsqueeze")};
    const rsh_grad_op *op = ops;
    while (strcmp(op->name, name)) op++;
    return rshn_apply(op, v, 1, 1, &x, out);
}

/* Returns the requested sizes, with -1 replaced. */
static rsh_status infer_sizes(const rsh_value *x, int ndim, const int64_t *sizes, rshn_sizes *out) {
    rshn_sizes s = {.n = ndim};
    int64_t have = 1, count = 1;
    int hole = -1;
    if (ndim < 0 || ndim > RSH_MAX_NDIM)
        return rshn_fail(RSH_EVALUE, "reshape: ndim must be 0 to %d, got %d", RSH_MAX_NDIM, ndim);
    if (ndim && !sizes) return rshn_fail(RSH_EVALUE, "reshape: sizes is NULL");
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
        return rshn_fail(RSH_EVALUE, "reshape: cannot reshape %s to %s: the numbers of elements differ",
                         rshn_sizes_text(rsh_value_ndim(x), rsh_value_shape(x)), rshn_sizes_text(ndim, sizes));
    *out = s;
    return RSH_OK;
}

rsh_status rsh_nn_reshape(rsh_value *x, int ndim, const int64_t *sizes, rsh_value **out) {
    viewing v = {.dim = 0};
    if (x) NN_TRY(infer_sizes(x, ndim, sizes, &v.sizes));
    return reshape_apply("reshape", x, &v, out);
}

static rshn_sizes value_sizes(const rsh_value *x) {
    rshn_sizes s = {.n = x ? rsh_value_ndim(x) : 0};
    for (int d = 0; d < s.n; d++) s.at[d] = rsh_value_shape(x)[d];
    return s;
}

rsh_status rsh_nn_squeeze(rsh_value *x, int dim, rsh_value **out) {
    viewing v = {.sizes = value_sizes(x)};
    rshn_sizes *to = &v.sizes;
    int d = 0;
    if (x) NN_TRY(rshn_dim("squeeze", dim, to->n, &d));
    if (to->n && to->at[d] == 1) {
        memmove(to->at + d, to->at + d + 1, (size_t)(to->n - d - 1) * sizeof *to->at);
        to->n--;
        v.gone = 1u << d;
    }
    return reshape_apply("squeeze", x, &v, out);
}

rsh_status rsh_nn_squeeze_all(rsh_value *x, rsh_value **out) {
    rshn_sizes from = value_sizes(x);
    viewing v = {.dim = 0};
    for (int d = 0; d < from.n; d++) {
        if (from.at[d] != 1)
            v.sizes.at[v.sizes.n++] = from.at[d];
        else
            v.gone |= 1u << d;
    }
    return reshape_apply("squeeze", x, &v, out);
}

rsh_status rsh_nn_unsqueeze(rsh_value *x, int dim, rsh_value **out) {
    viewing v = {.sizes = value_sizes(x)};
    rshn_sizes *to = &v.sizes;
    int d = 0;
    if (x) NN_TRY(rshn_dim("unsqueeze", dim, to->n + 1, &d));
    if (to->n == RSH_MAX_NDIM) return rshn_fail(RSH_EVALUE, "unsqueeze: x must have fewer than %d dims", to->n);
    memmove(to->at + d + 1, to->at + d, (size_t)(to->n - d) * sizeof *to->at);
    to->at[d] = 1;
    to->n++;
    v.fresh = 1u << d;
    return reshape_apply("unsqueeze", x, &v, out);
}

/* ---- transpose, permute ---- */

/* Creates a view of t whose dim d is dim dims[d] of t. */
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
    rsh_status st = permuted(rsh_call_input(c, 0), v->dims, &y);
    return set_view(c, st, y);
}

static rsh_status permute_backward(rsh_grad_call *c) {
    const viewing *v = rsh_call_attrs(c);
    rsh_tensor *gx = NULL;
    int back[RSH_MAX_NDIM];
    for (int d = 0; d < rsh_tensor_ndim(rsh_call_output_grad(c, 0)); d++) back[v->dims[d]] = d;
    NN_TRY(permuted(rsh_call_output_grad(c, 0), back, &gx));
    return rsh_call_set_input_grad(c, 0, gx);
}

static rsh_status permute_rule(rsh_rule_dims *io) {
    const viewing *v = io->attrs;
    rsh_rule_tensor *x = &io->in[0];
    mark_moves_only(io);
    for (int d = 0; d < x->ndim; d++) rshn_rule_letter(x, d, d);
    for (int d = 0; d < x->ndim; d++) rshn_rule_add_dim(&io->out[0], x->shape[v->dims[d]], v->dims[d]);
    return RSH_OK;
}

static const rsh_placement_rule turn_rule = {permute_rule};

rsh_status rsh_nn_transpose(rsh_value *x, int a, int b, rsh_value **out) {
    static const rsh_grad_op op = {.name = "transpose",
                                   .forward = permute_forward,
                                   .backward = permute_backward,
                                   .attr_bytes = sizeof(viewing),
                                   .placements = &turn_rule};
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
    static const rsh_grad_op op = {.name = "permute",
                                   .forward = permute_forward,
                                   .backward = permute_backward,
                                   .attr_bytes = sizeof(viewing),
                                   .placements = &turn_rule};
    viewing v = {.dim = 0};
    unsigned seen = 0;
    if (!dims) return rshn_fail(RSH_EVALUE, "permute: dims is NULL");
    for (int d = 0; x && d < rsh_value_ndim(x); d++) {
        NN_TRY(rshn_dim("permute", dims[d], rsh_value_ndim(x), &v.dims[d]));
        if (seen >> v.dims[d] & 1) return rshn_fail(RSH_EVALUE, "permute: dim %d is listed twice", v.dims[d]);
        seen |= 1u << v.dims[d];
    }
    return rshn_apply(&op, &v, 1, 1, &x, out);
}

/* ---- contiguous ---- */

static rsh_status contiguous_forward(rsh_grad_call *c) {
    rsh_tensor *y = NULL;
    rsh_status st = rshn_dense(rsh_call_input(c, 0), &y);
    return set_view(c, st, y);
}

static rsh_status contiguous_backward(rsh_grad_call *c) { return rsh_call_pass_grad(c, 0, 0); }

static rsh_status contiguous_rule(rsh_rule_dims *io) {
    mark_moves_only(io);
    return rsh_rule_pointwise(io);
}

rsh_status rsh_nn_contiguous(rsh_value *x, rsh_value **out) {
    static const rsh_placement_rule rule = {contiguous_rule};
    static const rsh_grad_op op = {.name = "contiguous",
                                   .forward = contiguous_forward,
                                   .backward = contiguous_backward,
                                   .layouts = rsh_grad_same_layout,
                                   .parts = RSH_PARTS_EACH,
                                   .placements = &rule};
    return rshn_apply(&op, NULL, 1, 1, &x, out);
}

/* ---- expand ---- */

static rsh_status expand_forward(rsh_grad_call *c) {
    viewing *v = rsh_call_attrs(c);
    rsh_tensor *y = NULL;
    rshn_sizes to;
    v->before = rshn_sizes_of(rsh_call_input(c, 0));
    rsh_status st = rshn_own_sizes(c, 0, &v->sizes, &to);
    if (!st) st = rshn_expand(rsh_call_input(c, 0), &to, &y);
    return set_view(c, st, y);
}

static rsh_status expand_backward(rsh_grad_call *c) {
    const viewing *v = rsh_call_attrs(c);
    rsh_tensor *gx = NULL;
    NN_TRY(rshn_sum_to(rsh_call_output_grad(c, 0), &v->before, &gx));
    return rsh_call_set_input_grad(c, 0, gx);
}

/* The rule: a dim that is repeated cannot be cut. */
static rsh_status expand_rule(rsh_rule_dims *io) {
    const viewing *v = io->attrs;
    rsh_rule_tensor *x = &io->in[0];
    mark_moves_only(io);
    for (int d = 0, more = v->sizes.n - x->ndim; d < v->sizes.n; d++) {
        bool same = d >= more && x->shape[d - more] == v->sizes.at[d];
        if (same) rshn_rule_letter(x, d - more, d);
        rshn_rule_add_dim(&io->out[0], v->sizes.at[d], same ? d : RSH_DIM_WHOLE);
    }
    return RSH_OK;
}

rsh_status rsh_nn_expand(rsh_value *x, int ndim, const int64_t *sizes, rsh_value **out) {
    static const rsh_placement_rule rule = {expand_rule};
    static const rsh_grad_op op = {.name = "expand",
                                   .forward = expand_forward,
                                   .backward = expand_backward,
                                   .attr_bytes = sizeof(viewing),
                                   .placements = &rule};
    rshn_sizes from = value_sizes(x);
    viewing v = {.sizes = {.n = ndim}};
    if (x && ndim && !sizes) return rshn_fail(RSH_EVALUE, "expand: sizes is NULL");
    if (x && (ndim < from.n || ndim > RSH_MAX_NDIM))
        return rshn_fail(RSH_EVALUE, "expand: ndim must be %d to %d for x %s, got %d", from.n, RSH_MAX_NDIM,
                         rshn_sizes_text(from.n, from.at), ndim);
    for (int d = 0, more = ndim - from.n; x && d < ndim; d++) {
        int64_t old = d < more ? 1 : from.at[d - more], size = sizes[d] == -1 && d >= more ? old : sizes[d];
        if (size < 0 || (size != old && old != 1))
            return rshn_fail(RSH_EVALUE, "expand: cannot expand %s to %s: sizes differ in dim %d",
                             rshn_sizes_text(from.n, from.at), rshn_sizes_text(ndim, sizes), d);
        v.sizes.at[d] = size;
    }
    return rshn_apply(&op, &v, 1, 1, &x, out);
}

/* ---- narrow ---- */

/* Creates a view of the elements of the range that are in this rank's part of x. */
static rsh_status narrow_forward(rsh_grad_call *c) {
    viewing *v = rsh_call_attrs(c);
    const rsh_tensor *x = rsh_call_input(c, 0);
    rsh_tensor *y = NULL;
    int64_t first = 0;
    v->before = rshn_sizes_of(x);
    rshn_sizes to = v->before;
    to.at[v->dim] = v->sizes.at[0];
    NN_TRY(rshn_own_sizes(c, 0, &to, &to));
    NN_TRY(rshn_own_start(c, 0, v->dim, &first));
    v->start = v->start > first ? v->start - first : 0;
    rsh_status st = rshn_window(x, v->dim, v->start, to.at[v->dim], &y);
    return set_view(c, st, y);
}

static rsh_status narrow_backward(rsh_grad_call *c) {
    const viewing *v = rsh_call_attrs(c);
    const rsh_tensor *g = rsh_call_output_grad(c, 0);
    rsh_tensor *gx = NULL, *window = NULL;
    NN_TRY(rsh_tensor_zeros(rsh_tensor_dtype(g), v->before.n, v->before.at, &gx));
    rsh_status st = rshn_window(gx, v->dim, v->start, rsh_tensor_shape(g)[v->dim], &window);
    if (!st) st = rsh_math_copy(g, window);
    rsh_tensor_free(window);
    if (!st) return rsh_call_set_input_grad(c, 0, gx);
    rsh_tensor_free(gx);
    return st;
}

static rsh_status narrow_rule(rsh_rule_dims *io) {
    const viewing *v = io->attrs;
    mark_moves_only(io);
    rshn_rule_same(&io->in[0], &io->out[0]);
    rshn_rule_range(&io->out[0], v->dim, v->start, io->in[0].shape[v->dim]);
    io->out[0].shape[v->dim] = v->sizes.at[0];
    return RSH_OK;
}

rsh_status rsh_nn_narrow(rsh_value *x, int dim, int64_t start, int64_t length, rsh_value **out) {
    static const rsh_placement_rule rule = {narrow_rule};
    static const rsh_grad_op op = {.name = "narrow",
                                   .forward = narrow_forward,
                                   .backward = narrow_backward,
                                   .attr_bytes = sizeof(viewing),
                                   .placements = &rule};
    viewing v = {.start = start, .sizes = {.n = 1, .at = {length}}};
    if (x && !rsh_value_ndim(x)) return rshn_fail(RSH_EINDEX, "narrow: x must have at least 1 dim");
    if (x) {
        NN_TRY(rshn_dim("narrow", dim, rsh_value_ndim(x), &v.dim));
        int64_t size = rsh_value_shape(x)[v.dim];
        if (start < 0 || length < 0 || start > size || length > size - start)
            return rshn_fail(RSH_EINDEX, "narrow: range exceeds dim %d: start %lld, length %lld, size %lld", v.dim,
                             (long long)start, (long long)length, (long long)size);
    }
    return rshn_apply(&op, &v, 1, 1, &x, out);
}
