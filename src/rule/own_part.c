/* Own part: cuts a replicated value, or makes it count once in a sum, without a move, because every rank already has
 * the elements.
 *
 * Backward passes the gradient on in its current layout; it is moved to the source's layout when that is needed. */
#include "rule/rule.h"

#include <reshard/math.h>

/* ---- is communication needed? ---- */

static bool cuts_dim(const rsh_place *p, int dim) { return p->kind == RSH_PLACE_SHARD && p->dim == dim; }

/* Returns whether axis a can cut dim d of the current part: only if no later axis cuts that dim. */
static bool can_nest(int n, const rsh_place *from, int a, int dim) {
    for (int b = a + 1; b < n; b++)
        if (cuts_dim(&from[b], dim)) return false;
    return true;
}

bool rshi_own_part_fits(int n, const rsh_place *from, const rsh_place *to) {
    for (int a = 0; a < n; a++) {
        bool same = from[a].kind == to[a].kind && from[a].dim == to[a].dim && from[a].op == to[a].op;
        bool cut = to[a].kind == RSH_PLACE_SHARD && can_nest(n, from, a, to[a].dim);
        bool once = to[a].kind == RSH_PLACE_PARTIAL && to[a].op == RSH_OP_SUM;
        if (!same && (from[a].kind != RSH_PLACE_REPLICATE || !(cut || once))) return false;
    }
    return true;
}

/* ---- the op ---- */

/* Computes the offset of this rank's part; `of` is not empty. */
static rsh_status part_offset(const rsh_layout *l, const rsh_part *of, int rank, const int64_t *strides, int64_t sign,
                              int64_t *offset) {
    int64_t index[RSH_MAX_NDIM];
    RSH_TRY(rsh_layout_global_index(l, rank, 0, 0, index));
    for (int d = 0; d < of->ndim; d++) *offset += sign * index[d] * strides[d];
    return RSH_OK;
}

/* Replaces a tensor by a dense copy if needed, because ops need dense indices and targets. */
static rsh_status make_dense(rsh_tensor **t) {
    rsh_tensor *dense = NULL;
    rsh_dtype dtype = rsh_tensor_dtype(*t);
    if (dtype == RSH_F32 || dtype == RSH_F64 || rsh_tensor_dense(*t)) return RSH_OK;
    rsh_status st = rsh_math_convert(*t, dtype, &dense);
    if (st) return st;
    rsh_tensor_free(*t);
    *t = dense;
    return RSH_OK;
}

static rsh_status own_forward(rsh_grad_call *c) {
    const bool *counts = rsh_call_attrs(c);
    const rsh_value *v = rsh_call_input_value(c, 0);
    const rsh_tensor *t = rsh_call_input(c, 0);
    const rsh_layout *to = rsh_call_output_layout(c, 0);
    rsh_tensor *out = NULL;
    rsh_part part;
    int64_t offset = 0;
    int rank = rsh_comm_rank(rsh_value_comm(v));
    RSH_TRY(rsh_layout_part(to, rank, 0, &part));
    if (part.count) RSH_TRY(part_offset(to, &part, rank, rsh_tensor_strides(t), 1, &offset));
    if (part.count) RSH_TRY(part_offset(rsh_value_layout(v), &part, rank, rsh_tensor_strides(t), -1, &offset));
    RSH_TRY(*counts ? rsh_tensor_view(t, offset, part.ndim, part.shape, rsh_tensor_strides(t), &out)
                    : rsh_tensor_zeros(rsh_tensor_dtype(t), part.ndim, part.shape, &out));
    rsh_status st = make_dense(&out);
    if (!st) return rsh_call_set_output(c, 0, out);
    rsh_tensor_free(out);
    return st;
}

static rsh_status own_backward(rsh_grad_call *c) { return rsh_call_pass_grad(c, 0, 0); }

rsh_status rshi_own_part_take(rsh_value *v, bool counts, const rsh_grad_apply_opts *as, rsh_value **out) {
    static const rsh_grad_op op = {
        .name = "own part", .forward = own_forward, .backward = own_backward, .attr_bytes = sizeof counts};
    return rsh_grad_apply_with(&op, &counts, 1, &v, 1, as, out);
}
