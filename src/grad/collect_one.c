/* Collect one: broadcast, reduce and all_reduce as ops with one input and one output. */
#include <reshard/math.h>

#include "grad/collect.h"

static rsh_status broadcast_forward(rsh_grad_call *c) {
    rshi_collecting *k = rshi_collect_open(c);
    rsh_tensor *t = NULL;
    RSH_TRY(rshi_collect_told(k, rshi_collect_copy(rsh_call_input(c, 0), &t)));
    return rshi_collect_out(c, 0, t, rsh_group_broadcast(k->group, t, k->root));
}

/* Every output depends on the root's input and on no other input. */
static rsh_status broadcast_backward(rsh_grad_call *c) {
    const rshi_collecting *k = rsh_call_attrs(c);
    rsh_tensor *t = NULL;
    RSH_TRY(rshi_collect_told(k, rshi_collect_gradient(c, 0, &t)));
    rsh_status st = k->how == RSH_DERIVATIVE_ADJOINT ? rsh_group_reduce(k->group, t, RSH_OP_SUM, k->root) : RSH_OK;
    if (!st && !rshi_collect_is_root(k)) rsh_math_fill_number(t, 0);
    return rshi_collect_give(c, 0, t, st);
}

static rsh_status reduce_forward(rsh_grad_call *c) {
    rshi_collecting *k = rshi_collect_open(c);
    rsh_tensor *t = NULL;
    RSH_TRY(rshi_collect_told(k, rshi_collect_copy(rsh_call_input(c, 0), &t)));
    rsh_status st = rsh_group_reduce(k->group, t, k->op, k->root);
    if (!st && !rshi_collect_is_root(k)) rsh_math_fill_number(t, 0);
    return rshi_collect_out(c, 0, t, st);
}

static rsh_status reduce_backward(rsh_grad_call *c) {
    const rshi_collecting *k = rsh_call_attrs(c);
    rsh_tensor *t = NULL;
    RSH_TRY(rshi_collect_check_op(c, k));
    RSH_TRY(rshi_collect_told(k, rshi_collect_gradient(c, 0, &t)));
    rsh_status st = rsh_group_broadcast(k->group, t, k->root);
    if (!st) rshi_collect_weigh(k, t);
    return rshi_collect_give(c, 0, t, st);
}

static rsh_status all_reduce_forward(rsh_grad_call *c) {
    rshi_collecting *k = rshi_collect_open(c);
    rsh_tensor *t = NULL;
    RSH_TRY(rshi_collect_told(k, rshi_collect_copy(rsh_call_input(c, 0), &t)));
    return rshi_collect_out(c, 0, t, rsh_group_all_reduce(k->group, t, k->op));
}

static rsh_status all_reduce_backward(rsh_grad_call *c) {
    const rshi_collecting *k = rsh_call_attrs(c);
    rsh_tensor *t = NULL;
    RSH_TRY(rshi_collect_check_op(c, k));
    RSH_TRY(rshi_collect_told(k, rshi_collect_gradient(c, 0, &t)));
    rsh_status st = RSH_OK;
    if (k->how == RSH_DERIVATIVE_ADJOINT) st = rsh_group_all_reduce(k->group, t, k->op);
    else rshi_collect_weigh(k, t);
    return rshi_collect_give(c, 0, t, st);
}

const rsh_grad_op rshi_broadcast_op = {.name = "broadcast",
                                       .forward = broadcast_forward,
                                       .backward = broadcast_backward,
                                       .attr_bytes = sizeof(rshi_collecting),
                                       .comm = rshi_collect_comm};

const rsh_grad_op rshi_reduce_op = {.name = "reduce",
                                    .forward = reduce_forward,
                                    .backward = reduce_backward,
                                    .attr_bytes = sizeof(rshi_collecting),
                                    .comm = rshi_collect_comm};

const rsh_grad_op rshi_all_reduce_op = {.name = "all_reduce",
                                        .forward = all_reduce_forward,
                                        .backward = all_reduce_backward,
                                        .attr_bytes = sizeof(rshi_collecting),
                                        .comm = rshi_collect_comm};
