/* Collect: helpers of the collective ops: lists of tensors, gradients or zeros, and errors that all ranks learn. */
#include "grad/collect.h"

#include "math/math.h"

rsh_comm *rshi_collect_comm(const void *attrs) { return ((const rshi_collecting *)attrs)->comm; }

rsh_status rshi_collect_empty(const rsh_tensor *t, rsh_tensor **out) {
    return rsh_tensor_empty(rsh_tensor_dtype(t), rsh_tensor_ndim(t), rsh_tensor_shape(t), out);
}

rsh_status rshi_collect_copy(const rsh_tensor *t, rsh_tensor **out) {
    return rsh_math_convert(t, rsh_tensor_dtype(t), out);
}

void rshi_collect_free(int n, rsh_tensor **list) {
    for (int i = 0; list && i < n; i++) rsh_tensor_free(list[i]);
    rshi_free(list);
}

rsh_status rshi_collect_gradient(const rsh_grad_call *c, int i, rsh_tensor **out) {
    const rshi_profile *f = &c->out[i].form;
    const rsh_tensor *g = rsh_call_output_grad(c, i);
    return g ? rshi_collect_copy(g, out) : rsh_tensor_zeros(f->dtype, f->ndim, f->shape, out);
}

rsh_status rshi_collect_gradients(const rsh_grad_call *c, rsh_tensor ***out) {
    rsh_tensor **list = rshi_calloc((size_t)c->nout, sizeof *list);
    rsh_status st = list ? RSH_OK : rshi_nomem();
    for (int i = 0; i < c->nout && !st; i++) st = rshi_collect_gradient(c, i, &list[i]);
    if (st) rshi_collect_free(c->nout, list);
    else *out = list;
    return st;
}

rshi_collecting *rshi_collect_open(rsh_grad_call *c) {
    rshi_collecting *k = rsh_call_attrs(c);
    *k->opened = true;
    k->opened = NULL;
    return k;
}

rsh_status rshi_collect_told(const rshi_collecting *k, rsh_status st) {
    return st ? rsh_comm_agree(k->comm, st) : RSH_OK;
}

rsh_status rshi_collect_check_op(const rsh_grad_call *c, const rshi_collecting *k) {
    RSH_REQUIRE(k->op == RSH_OP_SUM || k->op == RSH_OP_AVG, RSH_EUNSUP,
                "%s: reduction %s has no derivative; use sum or avg", c->op->name, rsh_op_name(k->op));
    return RSH_OK;
}

void rshi_collect_weigh(const rshi_collecting *k, const rsh_tensor *g) {
    if (k->op == RSH_OP_AVG) rshi_scale_elements(g, 1.0 / k->comm->size);
}

rsh_status rshi_collect_give(rsh_grad_call *c, int i, rsh_tensor *t, rsh_status st) {
    if (!st) return rsh_call_set_input_grad(c, i, t);
    rsh_tensor_free(t);
    return st;
}

rsh_status rshi_collect_out(rsh_grad_call *c, int i, rsh_tensor *t, rsh_status st) {
    if (!st) return rsh_call_set_output(c, i, t);
    rsh_tensor_free(t);
    return st;
}

rsh_status rshi_collect_give_list(rsh_grad_call *c, int n, rsh_tensor **list, rsh_status st) {
    for (int i = 0; i < n && !st; i++) {
        st = (c->phase == RSHI_FORWARD ? rsh_call_set_output : rsh_call_set_input_grad)(c, i, list[i]);
        list[i] = NULL;
    }
    rshi_collect_free(n, list);
    return st;
}

rsh_status rshi_collect_list(int n, const rsh_tensor *t, bool zero, rsh_tensor ***out) {
    rsh_tensor **list = rshi_calloc((size_t)n, sizeof *list);
    rsh_status st = list ? RSH_OK : rshi_nomem();
    for (int i = 0; i < n && !st; i++)
        st = (zero ? rsh_tensor_zeros : rsh_tensor_empty)(rsh_tensor_dtype(t), rsh_tensor_ndim(t), rsh_tensor_shape(t),
                                                          &list[i]);
    if (st) rshi_collect_free(n, list);
    else *out = list;
    return st;
}

const rsh_tensor *const *rshi_collect_inputs(const rsh_grad_call *c, rsh_status *st) {
    const rsh_tensor **list = rshi_alloc((size_t)c->nin, sizeof *list);
    *st = list ? RSH_OK : rshi_nomem();
    for (int i = 0; list && i < c->nin; i++) list[i] = rsh_call_input(c, i);
    return list;
}

rshi_shape_told rshi_shape_of(const rsh_tensor *t) {
    rshi_shape_told o = {.dtype = rsh_tensor_dtype(t), .ndim = rsh_tensor_ndim(t)};
    for (int d = 0; d < o.ndim; d++) o.shape[d] = rsh_tensor_shape(t)[d];
    return o;
}

rsh_status rshi_shape_make(const rshi_shape_told *o, rsh_tensor **out) {
    return rsh_tensor_empty((rsh_dtype)o->dtype, (int)o->ndim, o->shape, out);
}
