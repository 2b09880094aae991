/* Join: cat and stack, and their inverses split and chunk.
 *
 * Cat copies each input into its window of the result; its gradients are windows of the gradient.  Split returns
 * windows, and its gradient is a cat. */
#include "nn/impl.h"

#include <reshard/math.h>
#include <string.h>

static rsh_status fill_window(const rsh_tensor *to, int dim, int64_t start, int64_t length, const rsh_tensor *from) {
    rsh_tensor *w = NULL;
    NN_TRY(rshn_window(to, dim, start, length, &w));
    rsh_status st = from ? rsh_math_copy(from, w) : rsh_math_fill_number(w, 0);
    rsh_tensor_free(w);
    return st;
}

/* ---- cat ---- */

typedef struct joining {
    int dim;
} joining;

/* Computes the sizes of the result; all inputs must agree except along the dim. */
static rsh_status joined_sizes(const rsh_grad_call *c, int dim, rshn_sizes *out) {
    const rsh_tensor *first = rsh_call_input(c, 0);
    rshn_sizes to = rshn_sizes_of(first);
    for (int i = 1; i < rsh_call_nin(c); i++) {
        const rsh_tensor *t = rsh_call_input(c, i);
        bool alike = rsh_tensor_ndim(t) == to.n;
        for (int d = 0; alike && d < to.n; d++) alike = d == dim || rsh_tensor_shape(t)[d] == to.at[d];
        if (!alike)
            return rshn_fail(RSH_EVALUE, "cat: shapes must be equal except in dim %d, got %s and %s", dim,
                             rshn_shape_text(first), rshn_shape_text(t));
        if (rsh_tensor_dtype(t) != rsh_tensor_dtype(first))
            return rshn_fail(RSH_ETYPE, "cat: dtypes must be equal, got %s and %s",
                             rsh_dtype_name(rsh_tensor_dtype(first)), rsh_dtype_name(rsh_tensor_dtype(t)));
        to.at[dim] += rsh_tensor_shape(t)[dim];
    }
    *out = to;
    return RSH_OK;
}

/* The lengths along the dim are saved in one tensor. */
static rsh_status cat_forward(rsh_grad_call *c) {
    const joining *j = rsh_call_attrs(c);
    rshn_sizes to = {.n = 0};
    rsh_tensor *y = NULL, *lengths = NULL;
    int64_t n = rsh_call_nin(c), start = 0;
    NN_TRY(joined_sizes(c, j->dim, &to));
    NN_TRY(rsh_tensor_empty(RSH_I64, 1, &n, &lengths));
    rsh_status st = rshn_empty(rsh_tensor_dtype(rsh_call_input(c, 0)), &to, &y);
    for (int i = 0; !st && i < n; i++) {
        int64_t length = rsh_tensor_shape(rsh_call_input(c, i))[j->dim];
        ((int64_t *)rsh_tensor_data(lengths))[i] = length;
        st = fill_window(y, j->dim, start, length, rsh_call_input(c, i));
        start += length;
    }
    if (st) {
        rsh_tensor_free(y);
        rsh_tensor_free(lengths);
        return st;
    }
    st = rsh_call_set_output(c, 0, y);
    if (!st) return rsh_call_save(c, lengths);
    rsh_tensor_free(lengths);
    return st;
}

static rsh_status cat_backward(rsh_grad_call *c) {
    const joining *j = rsh_call_attrs(c);
    const rsh_tensor *lengths = NULL;
    int64_t start = 0;
    NN_TRY(rsh_call_saved(c, 0, &lengths));
    for (int i = 0; i < rsh_call_nin(c); i++) {
        int64_t length = ((const int64_t *)rsh_tensor_data(lengths))[i];
        rsh_tensor *part = NULL;
        if (rsh_call_needs_input_grad(c, i)) {
            NN_TRY(rshn_window(rsh_call_output_grad(c, 0), j->dim, start, length, &part));
            NN_TRY(rsh_call_set_input_grad(c, i, part));
        }
        start += length;
    }
    return RSH_OK;
}

static rsh_status join_arguments(const char *name, int n, rsh_value *const *x, int dim, int more, joining *j) {
    if (n < 1 || !x) return rshn_fail(RSH_EVALUE, "%s: at least 1 input is needed, got %d", name, x ? n : 0);
    for (int i = 0; i < n; i++)
        if (!x[i]) return rshn_fail(RSH_EVALUE, "%s: input %d is NULL", name, i);
    if (!rsh_value_ndim(x[0]) && !more) return rshn_fail(RSH_EVALUE, "%s: inputs must have at least 1 dim", name);
    return rshn_dim(name, dim, rsh_value_ndim(x[0]) + more, &j->dim);
}

/* Declares that the result is a sum of terms, one for each input. */
static void join_terms(rsh_rule_dims *io) {
    io->moves_only = true;
    for (int i = 0; i < io->nin; i++) io->in[i].term = (signed char)i;
}

/* Declares that inputs are ranges of the result. */
static rsh_status cat_rule(rsh_rule_dims *io) {
    const joining *j = io->attrs;
    rsh_rule_tensor *y = &io->out[0], *first = &io->in[0];
    join_terms(io);
    for (int d = 0; d < first->ndim; d++) rshn_rule_add_dim(y, first->shape[d], d);
    y->shape[j->dim] = 0;
    for (int i = 0; i < io->nin; i++) {
        rsh_rule_tensor *x = &io->in[i];
        bool alike = x->ndim == first->ndim;
        for (int d = 0; alike && d < x->ndim; d++) alike = d == j->dim || x->shape[d] == first->shape[d];
        if (!alike)
            return rshn_fail(RSH_EVALUE, "cat: shapes must be equal except in dim %d, got %s and %s", j->dim,
                             rshn_sizes_text(first->ndim, first->shape), rshn_sizes_text(x->ndim, x->shape));
        for (int d = 0; d < x->ndim; d++) rshn_rule_letter(x, d, d);
        rshn_rule_range(x, j->dim, y->shape[j->dim], 0);
        y->shape[j->dim] += x->shape[j->dim];
    }
    for (int i = 0; i < io->nin; i++) io->in[i].of[j->dim] = y->shape[j->dim];
    return RSH_OK;
}

static const rsh_placement_rule cat_places = {cat_rule};
static const rsh_grad_op cat_op = {.name = "cat",
                                   .forward = cat_forward,
                                   .backward = cat_backward,
                                   .attr_bytes = sizeof(joining),
                                   .placements = &cat_places};

rsh_status rsh_nn_cat(int n, rsh_value *const *x, int dim, rsh_value **out) {
    joining j = {0};
    NN_TRY(join_arguments("cat", n, x, dim, 0, &j));
    return rshn_apply(&cat_op, &j, n, n, x, out);
}

/* ---- stack: inputs with a new dim of size 1, then cat ---- */

/* Creates a view of t with an additional dim of size 1 at `dim`. */
static rsh_status insert_dim(const rsh_tensor *t, int dim, rsh_tensor **out) {
    int64_t size[RSH_MAX_NDIM], stride[RSH_MAX_NDIM];
    int n = rsh_tensor_ndim(t) + 1;
    if (n > RSH_MAX_NDIM) return rshn_fail(RSH_EVALUE, "stack: inputs must have fewer than %d dims", RSH_MAX_NDIM);
    for (int d = 0; d < n; d++) {
        size[d] = d == dim ? 1 : rsh_tensor_shape(t)[d - (d > dim)];
        stride[d] = d == dim ? 1 : rsh_tensor_strides(t)[d - (d > dim)];
    }
    return rsh_tensor_view(t, 0, n, size, stride, out);
}

static rsh_status put_slice(const rsh_tensor *to, int dim, int64_t i, const rsh_tensor *from) {
    rsh_tensor *slice = NULL;
    NN_TRY(insert_dim(from, dim, &slice));
    rsh_status st = fill_window(to, dim, i, 1, slice);
    rsh_tensor_free(slice);
    return st;
}

static rsh_status stacked_sizes(const rsh_grad_call *c, int dim, rshn_sizes *out) {
    const rsh_tensor *first = rsh_call_input(c, 0);
    rshn_sizes to = {.n = rsh_tensor_ndim(first) + 1};
    if (to.n > RSH_MAX_NDIM) return rshn_fail(RSH_EVALUE, "stack: inputs must have fewer than %d dims", RSH_MAX_NDIM);
    for (int d = 0; d < to.n; d++) to.at[d] = d == dim ? rsh_call_nin(c) : rsh_tensor_shape(first)[d - (d > dim)];
    for (int i = 1; i < rsh_call_nin(c); i++) {
        const rsh_tensor *t = rsh_call_input(c, i);
        bool alike = rsh_tensor_ndim(t) == rsh_tensor_ndim(first);
        for (int d = 0; alike && d < to.n - 1; d++) alike = rsh_tensor_shape(t)[d] == rsh_tensor_shape(first)[d];
        if (!alike)
            return rshn_fail(RSH_EVALUE, "stack: shapes must be equal, got %s and %s", rshn_shape_text(first),
                             rshn_shape_text(t));
        if (rsh_tensor_dtype(t) != rsh_tensor_dtype(first))
            return rshn_fail(RSH_ETYPE, "stack: dtypes must be equal, got %s and %s",
                             rsh_dtype_name(rsh_tensor_dtype(first)), rsh_dtype_name(rsh_tensor_dtype(t)));
    }
    *out = to;
    return RSH_OK;
}

static rsh_status stack_forward(rsh_grad_call *c) {
    const joining *j = rsh_call_attrs(c);
    rshn_sizes to = {.n = 0};
    rsh_tensor *y = NULL;
    NN_TRY(stacked_sizes(c, j->dim, &to));
    NN_TRY(rshn_empty(rsh_tensor_dtype(rsh_call_input(c, 0)), &to, &y));
    rsh_status st = RSH_OK;
    for (int i = 0; !st && i < rsh_call_nin(c); i++) st = put_slice(y, j->dim, i, rsh_call_input(c, i));
    if (!st) return rsh_call_set_output(c, 0, y);
    rsh_tensor_free(y);
    return st;
}

/* Creates a view of slice i, without the dim. */
static rsh_status slice_of(const rsh_tensor *t, int dim, int64_t i, rsh_tensor **out) {
    int64_t size[RSH_MAX_NDIM], stride[RSH_MAX_NDIM];
    int n = 0;
    for (int d = 0; d < rsh_tensor_ndim(t); d++) {
        if (d == dim) continue;
        size[n] = rsh_tensor_shape(t)[d];
        stride[n++] = rsh_tensor_strides(t)[d];
    }
    return rsh_tensor_view(t, rsh_tensor_count(t) ? i * rsh_tensor_strides(t)[dim] : 0, n, size, stride, out);
}

static rsh_status stack_backward(rsh_grad_call *c) {
    const joining *j = rsh_call_attrs(c);
    for (int i = 0; i < rsh_call_nin(c); i++) {
        rsh_tensor *part = NULL;
        if (!rsh_call_needs_input_grad(c, i)) continue;
        NN_TRY(slice_of(rsh_call_output_grad(c, 0), j->dim, i, &part));
        NN_TRY(rsh_call_set_input_grad(c, i, part));
    }
    return RSH_OK;
}

static rsh_status stack_rule(rsh_rule_dims *io) {
    const joining *j = io->attrs;
    const rsh_rule_tensor *first = &io->in[0];
    join_terms(io);
    for (int i = 0; i < io->nin; i++) {
        bool alike = io->in[i].ndim == first->ndim;
        for (int d = 0; alike && d < first->ndim; d++) {
            alike = io->in[i].shape[d] == first->shape[d];
            rshn_rule_letter(&io->in[i], d, d);
        }
        if (!alike || first->ndim == RSH_MAX_NDIM)
            return rshn_fail(RSH_EVALUE, "stack: shapes must be equal and have room for one more dim, got %s and %s",
                             rshn_sizes_text(first->ndim, first->shape),
                             rshn_sizes_text(io->in[i].ndim, io->in[i].shape));
    }
    for (int d = 0; d <= first->ndim; d++) {
        int from = d - (d > j->dim);
        rshn_rule_add_dim(&io->out[0], d == j->dim ? io->nin : first->shape[from], d == j->dim ? RSH_DIM_WHOLE : from);
    }
    return RSH_OK;
}

rsh_status rsh_nn_stack(int n, rsh_value *const *x, int dim, rsh_value **out) {
    static const rsh_placement_rule rule = {stack_rule};
    static const rsh_grad_op op = {.name = "stack",
                                   .forward = stack_forward,
                                   .backward = stack_backward,
                                   .attr_bytes = sizeof(joining),
                                   .placements = &rule};
    joining j = {0};
    NN_TRY(join_arguments("stack", n, x, dim, 1, &j));
    return rshn_apply(&op, &j, n, n, x, out);
}

/* ---- split ---- */

typedef struct splitting {
    int dim, n;
    const int64_t *lengths; /* [n], borrowed, valid in forward */
    int64_t size;           /* size of each piece except the last, if lengths is NULL */
    rshn_sizes before;
} splitting;

static int64_t piece_length(const splitting *s, int64_t whole, int i) {
    if (s->lengths) return s->lengths[i];
    int64_t left = whole - i * s->size;
    return left < s->size ? left : s->size;
}

/* Returns the length of this rank's part of piece i. */
static rsh_status own_length(const rsh_grad_call *c, const splitting *s, int i, int64_t *out) {
    rshn_sizes to = s->before;
    to.at[s->dim] = piece_length(s, s->before.at[s->dim], i);
    NN_TRY(rshn_own_sizes(c, i, &to, &to));
    *out = to.at[s->dim];
    return RSH_OK;
}

static rsh_status split_forward(rsh_grad_call *c) {
    splitting *s = rsh_call_attrs(c);
    const rsh_tensor *x = rsh_call_input(c, 0);
    rsh_tensor *lengths = NULL;
    int64_t start = 0, n = s->n;
    s->before = rshn_sizes_of(x);
    NN_TRY(rsh_tensor_empty(RSH_I64, 1, &n, &lengths));
    rsh_status st = RSH_OK;
    for (int i = 0; !st && i < n; i++) {
        int64_t *length = (int64_t *)rsh_tensor_data(lengths) + i;
        rsh_tensor *part = NULL;
        st = own_length(c, s, i, length);
        if (!st) st = rshn_window(x, s->dim, start, *length, &part);
        if (!st) st = rsh_call_set_output(c, i, part);
        start += *length;
    }
    s->lengths = NULL;
    if (!st) return rsh_call_save(c, lengths);
    rsh_tensor_free(lengths);
    return st;
}

static rsh_status split_backward(rsh_grad_call *c) {
    const splitting *s = rsh_call_attrs(c);
    const rsh_tensor *lengths = NULL, *any = NULL;
    rsh_tensor *gx = NULL;
    int64_t start = 0;
    NN_TRY(rsh_call_saved(c, 0, &lengths));
    for (int i = 0; !any && i < s->n; i++) any = rsh_call_output_grad(c, i);
    if (!any) return RSH_OK;
    NN_TRY(rshn_empty(rsh_tensor_dtype(any), &s->before, &gx));
    for (int i = 0; i < s->n; i++) {
        int64_t length = ((const int64_t *)rsh_tensor_data(lengths))[i];
        rsh_status st = fill_window(gx, s->dim, start, length, rsh_call_output_grad(c, i));
        start += length;
        if (!st) continue;
        rsh_tensor_free(gx);
        return st;
    }
    return rsh_call_set_input_grad(c, 0, gx);
}

/* Declares that pieces are ranges of the input. */
static rsh_status split_rule(rsh_rule_dims *io) {
    const splitting *s = io->attrs;
    int64_t whole = io->in[0].shape[s->dim], start = 0;
    io->in[0].term = 0;
    io->moves_only = true;
    for (int i = 0; i < io->nout; i++) {
        rshn_rule_same(&io->in[0], &io->out[i]);
        rshn_rule_range(&io->out[i], s->dim, start, whole);
        io->out[i].shape[s->dim] = piece_length(s, whole, i);
        start += io->out[i].shape[s->dim];
    }
    return RSH_OK;
}

#define SPLIT(name_)                                                                                                   \
    {.name = name_,                                                                                                    \
     .forward = split_forward,                                                                                         \
     .backward = split_backward,                                                                                       \
     .attr_bytes = sizeof(splitting),                                                                                  \
     .placements = &rule}

static rsh_status split_apply(const char *name, rsh_value *x, splitting *s, rsh_value **out) {
    static const rsh_placement_rule rule = {split_rule};
    static const rsh_grad_op ops[] = {SPLIT("split"), SPLIT("chunk")};
    return rsh_rule_apply(&ops[*name == 'c'], s, 1, &x, s->n, out);
}

static rsh_status split_dim(const char *name, const rsh_value *x, int dim, const void *out, int *found) {
    if (!x || !out) return rshn_fail(RSH_EVALUE, "%s: %s is NULL", name, x ? "out" : "x");
    if (!rsh_value_ndim(x)) return rshn_fail(RSH_EINDEX, "%s: x must have at least 1 dim", name);
    return rshn_dim(name, dim, rsh_value_ndim(x), found);
}

rsh_status rsh_nn_split(rsh_value *x, int64_t size, int dim, int n, rsh_value **out) {
    splitting s = {.n = n, .size = size};
    NN_TRY(split_dim("split", x, dim, out, &s.dim));
    int64_t length = rsh_value_shape(x)[s.dim];
    if (size < 1) return rshn_fail(RSH_EVALUE, "split: size must be at least 1, got %lld", (long long)size);
    int64_t pieces = length ? (length - 1) / size + 1 : 1;
    if (pieces != n)
        return rshn_fail(RSH_EVALUE, "split: expected %d pieces, but a dim of %lld elements has %lld of size %lld",
                         n, (long long)length, (long long)pieces, (long long)size);
    return split_apply("split", x, &s, out);
}

rsh_status rsh_nn_split_sizes(rsh_value *x, int dim, int n, const int64_t *sizes, rsh_value **out) {
    splitting s = {.n = n, .lengths = sizes};
    int64_t sum = 0;
    NN_TRY(split_dim("split", x, dim, out, &s.dim));
    if (n < 1 || !sizes) return rshn_fail(RSH_EVALUE, "split: at least 1 piece is needed, got %d", sizes ? n : 0);
    for (int i = 0; i < n; i++) {
        if (sizes[i] < 0)
            return rshn_fail(RSH_EVALUE, "split: sizes must be at least 0, got %lld", (long long)sizes[i]);
        sum = sizes[i] > INT64_MAX - sum ? INT64_MAX : sum + sizes[i];
    }
    if (sum != rsh_value_shape(x)[s.dim])
        return rshn_fail(RSH_EVALUE, "split: sizes must add up to the size of the dim, %lld, got %lld",
                         (long long)rsh_value_shape(x)[s.dim], (long long)sum);
    return split_apply("split", x, &s, out);
}

rsh_status rsh_nn_chunk(rsh_value *x, int n, int dim, int *count, rsh_value **out) {
    splitting s = {.n = n};
    NN_TRY(split_dim("chunk", x, dim, out, &s.dim));
    if (n < 1) return rshn_fail(RSH_EVALUE, "chunk: at least 1 piece is needed, got %d", n);
    if (!count) return rshn_fail(RSH_EVALUE, "chunk: count is NULL");
    int64_t length = rsh_value_shape(x)[s.dim];
    s.size = length / n + (length % n != 0);
    s.n = length ? (int)((length - 1) / s.size + 1) : n;
    NN_TRY(split_apply("chunk", x, &s, out));
    *count = s.n;
    return RSH_OK;
}
