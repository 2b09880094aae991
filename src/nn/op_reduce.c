/* Reduce: sum and mean over dims.  A sum over a cut dim is partial. */
#include "nn/impl.h"

#include <reshard/math.h>

/* A sum over `dims`, a bit mask, of a value with `sizes`. */
typedef struct reduction {
    unsigned dims;
    bool keep;
    double scale; /* factor, for a mean */
    rshn_sizes sizes;
} reduction;

/* Converts a list of dims to a bit mask; an empty list means all dims. */
static rsh_status dims_of(const char *name, const rsh_value *x, int ndims, const int *dims, unsigned *out) {
    int ndim = rsh_value_ndim(x);
    unsigned bits = 0;
    if (ndims < 0) return rshn_fail(RSH_EVALUE, "%s: ndims must be at least 0, got %d", name, ndims);
    if (ndims && !dims) return rshn_fail(RSH_EVALUE, "%s: dims is NULL", name);
    for (int i = 0; i < ndims; i++) {
        int d = 0;
        NN_TRY(rshn_dim(name, dims[i], ndim, &d));
        if (bits >> d & 1) return rshn_fail(RSH_EVALUE, "%s: dim %d is listed twice", name, d);
        bits |= 1u << d;
    }
    *out = (ndims ? bits : ~0u) & ((1u << ndim) - 1);
    return RSH_OK;
}

static rsh_status sum_forward(rsh_grad_call *c, const char *name, bool mean) {
    reduction *r = rsh_call_attrs(c);
    const rsh_tensor *x = rsh_call_input(c, 0);
    rsh_tensor *y = NULL;
    int64_t n = rshn_whole_count(c, 0, r->dims);
    NN_TRY(rshn_needs_float(name, x));
    r->sizes = rshn_sizes_of(x);
    r->scale = mean ? 1 / (double)n : 1;
    NN_TRY(rshn_sum(x, r->dims, r->keep, mean && !n ? 0.0 / 0.0 : r->scale, &y));
    return rsh_call_set_output(c, 0, y);
}

static rsh_status total_forward(rsh_grad_call *c) { return sum_forward(c, "sum", false); }
static rsh_status mean_forward(rsh_grad_call *c) { return sum_forward(c, "mean", true); }

/* Creates a view of t in which the reduced dims have size 1 again and are repeated to `sizes`. */
static rsh_status repeat_dims(const rsh_tensor *t, unsigned dims, bool kept, const rshn_sizes *sizes,
                              rsh_tensor **out) {
    int64_t strides[RSH_MAX_NDIM];
    for (int d = 0, from = 0; d < sizes->n; d++) {
        bool reduced = dims >> d & 1;
        strides[d] = reduced ? 0 : rsh_tensor_strides(t)[from];
        from += kept || !reduced;
    }
    return rsh_tensor_view(t, 0, sizes->n, sizes->at, strides, out);
}

static rsh_status sum_backward(rsh_grad_call *c) {
    const reduction *r = rsh_call_attrs(c);
    const rsh_tensor *g = rsh_call_output_grad(c, 0);
    rsh_tensor *scaled = NULL, *gx = NULL;
    double p[2] = {r->scale, 0};
    if (r->scale != 1) NN_TRY(rshn_map1_new(RSHN_SCALE, p, g, &scaled));
    rsh_status st = repeat_dims(scaled ? scaled : g, r->dims, r->keep, &r->sizes, &gx);
    rsh_tensor_free(scaled);
    return st ? st : rsh_call_set_input_grad(c, 0, gx);
}

/* The rule: the letter of a dim that is summed over does not appear in the result. */
static rsh_status reduce_rule(rsh_rule_dims *io) {
    const reduction *r = io->attrs;
    for (int d = 0; d < io->in[0].ndim; d++) {
        rshn_rule_letter(&io->in[0], d, d);
        if (!(r->dims >> d & 1)) rshn_rule_add_dim(&io->out[0], io->in[0].shape[d], d);
        else if (r->keep) rshn_rule_add_dim(&io->out[0], 1, RSH_DIM_WHOLE);
    }
    io->in[0].term = 0;
    return RSH_OK;
}

static const rsh_placement_rule sum_rule = {reduce_rule};

static rsh_status sum_apply(const rsh_grad_op *op, rsh_value *x, int ndims, const int *dims, bool keep,
                            rsh_value **out) {
    reduction r = {.keep = keep};
    if (x) NN_TRY(dims_of(op->name, x, ndims, dims, &r.dims));
    return rshn_apply(op, &r, 1, 1, &x, out);
}

rsh_status rsh_nn_sum(rsh_value *x, int ndims, const int *dims, bool keepdim, rsh_value **out) {
    static const rsh_grad_op op = {.name = "sum",
                                   .forward = total_forward,
                                   .backward = sum_backward,
                                   .attr_bytes = sizeof(reduction),
                                   .placements = &sum_rule};
    return sum_apply(&op, x, ndims, dims, keepdim, out);
}

rsh_status rsh_nn_mean(rsh_value *x, int ndims, const int *dims, bool keepdim, rsh_value **out) {
    static const rsh_grad_op op = {.name = "mean",
                                   .forward = mean_forward,
                                   .backward = sum_backward,
                                   .attr_bytes = sizeof(reduction),
                                   .placements = &sum_rule};
    return sum_apply(&op, x, ndims, dims, keepdim, out);
}
