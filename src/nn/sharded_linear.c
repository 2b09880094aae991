/* Sharded Linear: x W' + b where every rank has a chunk of W.
 *
 * A plain input is this rank's own rows; other ranks have other rows.
 *
 * If W is cut along dim 0, each rank has the weights of some output columns: it gets the rows of all ranks, computes
 * its columns and adds its chunk of the bias.  The result is cut along its last dim.
 *
 * If W is cut along dim 1, each rank gets its columns of all ranks' rows and computes a contribution to the whole
 * result, which is partial with op sum.  An input that is already cut along its last dim is not moved.  The bias is
 * added once, at the first position.
 *
 * Derivatives are adjoints, so if each rank computes a loss from its own rows, gradients are those of the sum of these
 * losses.  Every rank has the whole bias, and its gradient on every rank is that of all ranks' rows. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "nn/impl.h"
#include "nn/layer.h"
#include "nn/spread.h"

/* ---- a bias that is added once ---- */

static rsh_status bias_once_forward(rsh_grad_call *c) {
    const rsh_tensor *y = rsh_call_input(c, 0), *bias = rsh_call_input(c, 1);
    rsh_tensor *out = NULL;
    if (*(const bool *)rsh_call_attrs(c)) {
        rshn_sizes sizes = rshn_sizes_of(y);
        NN_TRY(rshn_map2_new(RSHN_ADD, NULL, y, bias, &sizes, &out));
    } else {
        NN_TRY(rshn_alias(y, &out));
    }
    return rsh_call_set_output(c, 0, out);
}

/* Computes the gradient of the bias.  Every rank has the gradient of the whole result, so every rank can compute the
 * sum. */
static rsh_status bias_once_backward(rsh_grad_call *c) {
    const rsh_tensor *g = rsh_call_output_grad(c, 0);
    if (!g) return RSH_OK;
    NN_TRY(rsh_call_pass_grad(c, 0, 0));
    if (!rsh_call_needs_input_grad(c, 1)) return RSH_OK;
    rsh_tensor *sum = NULL;
    NN_TRY(rshn_sum(g, (1u << (rsh_tensor_ndim(g) - 1)) - 1, false, 1, &sum));
    return rsh_call_set_input_grad(c, 1, sum);
}

static const rsh_grad_op once = {.name = "bias of a sharded Linear",
                                 .forward = bias_once_forward,
                                 .backward = bias_once_backward,
                                 .attr_bytes = sizeof(bool)};

/* ---- checks ---- */

static rsh_status check_operands(const rsh_value *x, const rsh_value *weight, const rsh_value *bias,
                                 rshn_cut_weight *w) {
    NN_TRY(rshn_cut_weight_of("Linear", weight, w));
    const int64_t *size = rsh_value_shape(weight);
    int ndim = rsh_value_ndim(x);
    if (bias && rsh_value_sharded(bias)) return rshn_fail(RSH_ETYPE, "Linear: the bias must not be sharded");
    if (bias && (rsh_value_ndim(bias) != 1 || *rsh_value_shape(bias) != size[0]))
        return rshn_fail(RSH_EVALUE, "Linear: the bias must be 1-D with %" PRId64 " elements, got %s", size[0],
                         rshn_sizes_text(rsh_value_ndim(bias), rsh_value_shape(bias)));
    if (ndim < 1 || rsh_value_shape(x)[ndim - 1] != size[1])
        return rshn_fail(RSH_EVALUE, "Linear: the last size of the input must be %" PRId64 ", got %s", size[1],
                         rshn_sizes_text(ndim, rsh_value_shape(x)));
    if (rsh_value_dtype(x) != rsh_value_dtype(weight))
        return rshn_fail(RSH_ETYPE, "Linear: input and weight must have the same dtype, got %s and %s",
                         rsh_dtype_name(rsh_value_dtype(x)), rsh_dtype_name(rsh_value_dtype(weight)));
    if (!rsh_value_sharded(x)) return RSH_OK;
    if (rsh_value_comm(x) != w->comm) return rshn_fail(RSH_EVALUE, "Linear: input and weight must have the same comm");
    if (w->dim == 0)
        return rshn_fail(RSH_EVALUE, "Linear: the input must be plain if the weight is cut along dim 0, "
                                     "but it is sharded");
    return RSH_OK;
}

/* ---- the input ---- */

/* The rows of all ranks: the sizes of the whole input, and the number of rows on each rank. */
typedef struct rows {
    int ndim;
    int64_t sizes[RSH_MAX_NDIM];
    int64_t *counts; /* owned */
} rows;

/* Treats a vector as one row. */
static rsh_status as_rows(rsh_value *x, rsh_value **out) {
    if (rsh_value_ndim(x) > 1) return *out = rsh_value_hold(x), RSH_OK;
    return rsh_nn_reshape(x, 2, (const int64_t[]){1, *rsh_value_shape(x)}, out);
}

static rsh_status gather_rows(const rshn_cut_weight *w, rsh_value *x, rows *r, rsh_value **out) {
    rsh_dtype dtype = rsh_value_dtype(x);
    rsh_layout *from = NULL, *to = NULL;
    rsh_status st = rshn_rows_layout(w->comm, dtype, r->ndim, r->sizes, r->counts, &from);
    if (!st && w->dim == 0) st = rshn_whole_layout(w, dtype, r->ndim, r->sizes, RSH_OP_NONE, &to);
    if (!st && w->dim == 1) st = rshn_last_cut_layout(w, dtype, r->ndim, r->sizes, &to);
    st = rsh_comm_agree(w->comm, st);
    if (!st) st = rshn_move_plain(x, w->comm, from, to, RSH_DERIVATIVE_ADJOINT, out);
    rsh_layout_free(from);
    rsh_layout_free(to);
    return st;
}

/* Moves a distributed input to the columns of the weight, unless it is already cut like that. */
static rsh_status move_sharded_input(const rshn_cut_weight *w, rsh_value *x, rows *r, rsh_value **out) {
    rsh_layout *to = NULL;
    rsh_value *moved = NULL;
    r->ndim = rsh_value_ndim(x);
    memcpy(r->sizes, rsh_value_shape(x), (size_t)r->ndim * sizeof *r->sizes);
    rsh_status st = rshn_last_cut_layout(w, rsh_value_dtype(x), r->ndim, r->sizes, &to);
    if (!st && rsh_layout_same_parts(rsh_value_layout(x), to) && !rsh_layout_op(rsh_value_layout(x)))
        moved = rsh_value_hold(x);
    st = rsh_comm_agree(w->comm, st);
    if (!st && !moved) st = rsh_value_reshard(x, to, RSH_DERIVATIVE_ADJOINT, NULL, &moved);
    if (!st) st = rsh_value_to_local(moved, out);
    rsh_value_free(moved);
    rsh_layout_free(to);
    return st;
}

static rsh_status move_plain_input(const rshn_cut_weight *w, rsh_value *x, rows *r, rsh_value **out) {
    rsh_value *mine = NULL;
    rsh_status st = as_rows(x, &mine);
    int64_t total = 0, n = st ? 0 : *rsh_value_shape(mine);
    st = rshn_agree_on_rows(w->comm, st, n, &r->counts, &total);
    if (!st) {
        r->ndim = rsh_value_ndim(mine);
        memcpy(r->sizes, rsh_value_shape(mine), (size_t)r->ndim * sizeof *r->sizes);
        r->sizes[0] = total;
        st = gather_rows(w, mine, r, out);
    }
    rsh_value_free(mine);
    return st;
}

/* ---- the two cuts ---- */

static rsh_status bias_chunk(const rshn_cut_weight *w, rsh_value *bias, rsh_value **out) {
    rsh_layout *whole = NULL, *cut = NULL;
    rsh_dtype dtype = rsh_value_dtype(bias);
    rsh_status st = rshn_whole_layout(w, dtype, 1, rsh_value_shape(bias), RSH_OP_NONE, &whole);
    if (!st) st = rshn_last_cut_layout(w, dtype, 1, rsh_value_shape(bias), &cut);
    st = rsh_comm_agree(w->comm, st);
    if (!st) st = rshn_move_plain(bias, w->comm, whole, cut, RSH_DERIVATIVE_BACKWARD, out);
    rsh_layout_free(whole);
    rsh_layout_free(cut);
    return st;
}

static rsh_status compute_columns(const rshn_cut_weight *w, rsh_value *x, rsh_value *weight, rsh_value *bias,
                                  const rows *r, rsh_value **out) {
    rsh_value *chunk = NULL, *y = NULL;
    rsh_layout *layout = NULL;
    int64_t sizes[RSH_MAX_NDIM];
    memcpy(sizes, r->sizes, sizeof sizes);
    sizes[r->ndim - 1] = w->desc->dim[0].size;
    rsh_status st = bias ? bias_chunk(w, bias, &chunk) : RSH_OK;
    if (!st) st = rsh_nn_linear(x, weight, chunk, &y);
    if (!st) st = rshn_last_cut_layout(w, rsh_value_dtype(x), r->ndim, sizes, &layout);
    if (!st) st = rsh_value_from_local(y, w->comm, layout, out);
    rsh_layout_free(layout);
    rsh_value_free(chunk);
    rsh_value_free(y);
    return st;
}

static rsh_status compute_contribution(const rshn_cut_weight *w, rsh_value *x, rsh_value *weight, rsh_value *bias,
                                       const rows *r, rsh_value **out) {
    rsh_value *y = NULL, *biased = NULL;
    rsh_layout *layout = NULL;
    int64_t sizes[RSH_MAX_NDIM];
    bool first = w->position == 0;
    memcpy(sizes, r->sizes, sizeof sizes);
    sizes[r->ndim - 1] = w->desc->dim[0].size;
    rsh_status st = rsh_nn_linear(x, weight, NULL, &y);
    if (!st && bias) st = rsh_grad_apply(&once, &first, 2, (rsh_value *[]){y, bias}, 1, &biased);
    if (!st) st = rshn_whole_layout(w, rsh_value_dtype(x), r->ndim, sizes, RSH_OP_SUM, &layout);
    if (!st) st = rsh_value_from_local(biased ? biased : y, w->comm, layout, out);
    rsh_layout_free(layout);
    rsh_value_free(biased);
    rsh_value_free(y);
    return st;
}

rsh_status rshn_sharded_linear(rsh_value *x, rsh_value *weight, rsh_value *bias, rsh_value **out) {
    rshn_cut_weight w;
    rows r = {0};
    rsh_value *mine = NULL, *chunk = NULL, *y = NULL;
    rsh_status st = rsh_comm_agree(rsh_value_comm(weight), check_operands(x, weight, bias, &w));
    if (st) return st;
    st = rsh_value_sharded(x) ? move_sharded_input(&w, x, &r, &mine) : move_plain_input(&w, x, &r, &mine);
    if (!st) st = rsh_value_to_local(weight, &chunk);
    if (!st) st = (w.dim == 0 ? compute_columns : compute_contribution)(&w, mine, chunk, bias, &r, &y);
    st = rsh_comm_agree(w.comm, st);
    if (!st) *out = y;
    else rsh_value_free(y);
    rsh_value_free(chunk);
    rsh_value_free(mine);
    rshn_free(r.counts);
    return st;
}
