/* Collect lists: all_gather, reduce_scatter, gather and scatter as ops, with a tensor for each rank on one side. */
#include "grad/collect.h"

static rsh_status all_gather_forward(rsh_grad_call *c) {
    rshi_collecting *k = rshi_collect_open(c);
    rsh_tensor **list = NULL;
    RSH_TRY(rshi_collect_told(k, rshi_collect_list(c->nout, rsh_call_input(c, 0), false, &list)));
    return rshi_collect_give_list(c, c->nout, list,
                                  rsh_group_all_gather(k->group, c->nout, list, rsh_call_input(c, 0)));
}

static rsh_status all_gather_backward(rsh_grad_call *c) {
    const rshi_collecting *k = rsh_call_attrs(c);
    rsh_tensor **list = NULL, *t = NULL;
    if (k->how == RSH_DERIVATIVE_BACKWARD) {
        RSH_TRY(rshi_collect_told(k, rshi_collect_gradient(c, k->comm->rank, &t)));
        return rsh_call_set_input_grad(c, 0, t);
    }
    rsh_status st = rshi_collect_gradients(c, &list);
    if (!st) st = rshi_collect_empty(list[0], &t);
    if (st) {
        rshi_collect_free(c->nout, list);
        return rshi_collect_told(k, st);
    }
    st = rsh_group_reduce_scatter(k->group, t, c->nout, (const rsh_tensor *const *)list, RSH_OP_SUM);
    rshi_collect_free(c->nout, list);
    return rshi_collect_give(c, 0, t, st);
}

static rsh_status reduce_scatter_forward(rsh_grad_call *c) {
    rshi_collecting *k = rshi_collect_open(c);
    rsh_tensor *t = NULL;
    rsh_status st;
    const rsh_tensor *const *list = rshi_collect_inputs(c, &st);
    if (!st) st = rshi_collect_empty(rsh_call_input(c, 0), &t);
    st = st ? rshi_collect_told(k, st) : rsh_group_reduce_scatter(k->group, t, c->nin, list, k->op);
    rshi_free((void *)list);
    return rshi_collect_out(c, 0, t, st);
}

/* Output r went to rank r, so its gradient comes back from rank r, for both derivatives. */
static rsh_status reduce_scatter_backward(rsh_grad_call *c) {
    const rshi_collecting *k = rsh_call_attrs(c);
    rsh_tensor **list = NULL, *t = NULL;
    RSH_TRY(rshi_collect_check_op(c, k));
    rsh_status st = rshi_collect_gradient(c, 0, &t);
    if (!st) st = rshi_collect_list(c->nin, t, false, &list);
    st = st ? rshi_collect_told(k, st) : rsh_group_all_gather(k->group, c->nin, list, t);
    rsh_tensor_free(t);
    for (int i = 0; i < c->nin && !st; i++) rshi_collect_weigh(k, list[i]);
    return list ? rshi_collect_give_list(c, c->nin, list, st) : st;
}

/* ---- gather and scatter ---- */

static rsh_status gather_forward(rsh_grad_call *c) {
    rshi_collecting *k = rshi_collect_open(c);
    const rsh_tensor *in = rsh_call_input(c, 0);
    rsh_tensor **list = NULL;
    RSH_TRY(rshi_collect_told(k, rshi_collect_list(c->nout, in, !rshi_collect_is_root(k), &list)));
    bool root = rshi_collect_is_root(k);
    rsh_status st = rsh_group_gather(k->group, in, root ? c->nout : 0, root ? list : NULL, k->root);
    return rshi_collect_give_list(c, c->nout, list, st);
}

static rsh_status gather_backward(rsh_grad_call *c) {
    const rshi_collecting *k = rsh_call_attrs(c);
    rsh_tensor **list = NULL, *t = NULL;
    rsh_status st = rshi_collect_gradients(c, &list);
    if (!st) st = rshi_collect_empty(list[0], &t);
    const rsh_tensor *const *mine = rshi_collect_is_root(k) ? (const rsh_tensor *const *)list : NULL;
    st = st ? rshi_collect_told(k, st) : rsh_group_scatter(k->group, t, mine ? c->nout : 0, mine, k->root);
    rshi_collect_free(c->nout, list);
    return rshi_collect_give(c, 0, t, st);
}

/* Tells all ranks the shape of the tensors that the root scatters. */
static rsh_status learn_shape(rshi_collecting *k, const rsh_tensor *first, rshi_shape_told *out) {
    rshi_shape_told mine = rshi_shape_of(first), *all = rshi_alloc((size_t)k->comm->size, sizeof *all);
    rsh_status st = rsh_comm_agree(k->comm, all ? RSH_OK : rshi_nomem());
    if (!st) st = rsh_comm_allgather(k->comm, &mine, all, sizeof mine);
    if (!st) *out = all[k->root];
    rshi_free(all);
    return st;
}

static rsh_status scatter_forward(rsh_grad_call *c) {
    rshi_collecting *k = rshi_collect_open(c);
    bool root = rshi_collect_is_root(k);
    rsh_tensor *t = NULL;
    rshi_shape_told o;
    RSH_TRY(learn_shape(k, rsh_call_input(c, 0), &o));
    rsh_status st;
    const rsh_tensor *const *list = rshi_collect_inputs(c, &st);
    if (!st) st = rshi_shape_make(&o, &t);
    if (st) st = rshi_collect_told(k, st);
    else st = rsh_group_scatter(k->group, t, root ? c->nin : 0, root ? list : NULL, k->root);
    rshi_free((void *)list);
    return rshi_collect_out(c, 0, t, st);
}

static rsh_status scatter_backward(rsh_grad_call *c) {
    const rshi_collecting *k = rsh_call_attrs(c);
    rsh_tensor **list = NULL, *t = NULL;
    rsh_status st = rshi_collect_gradient(c, 0, &t);
    bool root = rshi_collect_is_root(k);
    if (!st) st = rshi_collect_list(c->nin, t, !root, &list);
    st = st ? rshi_collect_told(k, st)
            : rsh_group_gather(k->group, t, root ? c->nin : 0, root ? list : NULL, k->root);
    rsh_tensor_free(t);
    return list ? rshi_collect_give_list(c, c->nin, list, st) : st;
}

const rsh_grad_op rshi_all_gather_op = {.name = "all_gather",
                                        .forward = all_gather_forward,
                                        .backward = all_gather_backward,
                                        .attr_bytes = sizeof(rshi_collecting),
                                        .comm = rshi_collect_comm};

const rsh_grad_op rshi_reduce_scatter_op = {.name = "reduce_scatter",
                                            .forward = reduce_scatter_forward,
                                            .backward = reduce_scatter_backward,
                                            .attr_bytes = sizeof(rshi_collecting),
                                            .comm = rshi_collect_comm};

const rsh_grad_op rshi_gather_op = {.name = "gather",
                                    .forward = gather_forward,
                                    .backward = gather_backward,
                                    .attr_bytes = sizeof(rshi_collecting),
                                    .comm = rshi_collect_comm};

const rsh_grad_op rshi_scatter_op = {.name = "scatter",
                                     .forward = scatter_forward,
                                     .backward = scatter_backward,
                                     .attr_bytes = sizeof(rshi_collecting),
                                     .comm = rshi_collect_comm};
