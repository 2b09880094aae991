/* Own box: a view of this rank's box of a plain tensor that is equal on all ranks.
 *
 * The result is a distributed value, so that an op that reduces over a cut dim knows that it is cut. */
#include "rule/rule.h"

#include <reshard/math.h>

typedef struct boxing {
    int ndim;
    int64_t whole[RSH_MAX_NDIM], at[RSH_MAX_NDIM], size[RSH_MAX_NDIM];
} boxing;

static rsh_status view_box(const boxing *b, const rsh_tensor *t, rsh_tensor **out) {
    int64_t offset = 0;
    for (int d = 0; d < b->ndim; d++) offset += b->at[d] * rsh_tensor_strides(t)[d];
    return rsh_tensor_view(t, rsh_tensor_count(t) ? offset : 0, b->ndim, b->size, rsh_tensor_strides(t), out);
}

static rsh_status box_forward(rsh_grad_call *c) {
    rsh_tensor *box = NULL;
    RSH_TRY(view_box(rsh_call_attrs(c), rsh_call_input(c, 0), &box));
    return rsh_call_set_output(c, 0, box);
}

/* The gradient is zero outside the box. */
static rsh_status box_backward(rsh_grad_call *c) {
    const boxing *b = rsh_call_attrs(c);
    const rsh_tensor *g = rsh_call_output_grad(c, 0);
    rsh_tensor *whole = NULL, *box = NULL;
    RSH_TRY(rsh_tensor_zeros(rsh_tensor_dtype(g), b->ndim, b->whole, &whole));
    rsh_status st = view_box(b, whole, &box);
    if (!st) st = rsh_math_copy(g, box);
    rsh_tensor_free(box);
    if (!st) return rsh_call_set_input_grad(c, 0, whole);
    rsh_tensor_free(whole);
    return st;
}

static int note_range(void *ctx, int64_t lo, int64_t hi) {
    rshi_own_range *r = ctx;
    *r = (rshi_own_range){r->n + 1, lo, hi};
    return 0;
}

rsh_status rshi_own_range_of(const rsh_layout *l, int64_t rank, int d, rshi_own_range *out) {
    *out = (rshi_own_range){0};
    return rsh_layout_each_range(l, rank, 0, d, note_range, out);
}

rsh_status rshi_own_box_take(rsh_value *v, rsh_comm *comm, const rsh_layout *to, rsh_value **out) {
    static const rsh_grad_op op = {
        .name = "own box", .forward = box_forward, .backward = box_backward, .attr_bytes = sizeof(boxing)};
    boxing b = {.ndim = rsh_value_ndim(v)};
    rsh_value *box = NULL;
    int rank = rsh_comm_rank(comm);
    for (int d = 0; d < b.ndim; d++) {
        rshi_own_range r;
        RSH_TRY(rshi_own_range_of(to, rank, d, &r));
        RSH_REQUIRE(r.n < 2, RSH_EUNSUP, "a plain input must be cut into one contiguous range per rank");
        b.whole[d] = rsh_value_shape(v)[d];
        b.at[d] = r.lo;
        b.size[d] = r.hi - r.lo;
    }
    RSH_TRY(rsh_grad_apply(&op, &b, 1, &v, 1, &box));
    rsh_status st = rsh_value_from_local(box, comm, to, out);
    rsh_value_free(box);
    return st;
}
