/* Collect swap: all_to_all and all_to_all_single as ops.  The derivative of each is the same op in the opposite
 * direction. */
#include "grad/collect.h"

/* Exchanges shapes: each rank learns the shapes of the tensors that it will receive. */
static rsh_status swap_shapes(rshi_collecting *k, int n, const rsh_tensor *const *in, rshi_shape_told *from) {
    rshi_shape_told *to = rshi_alloc((size_t)n, sizeof *to);
    rsh_message *m = rshi_alloc(2 * (size_t)n, sizeof *m);
    rsh_status st = rsh_comm_agree(k->comm, to && m ? RSH_OK : rshi_nomem());
    for (int r = 0; r < n && !st; r++) {
        to[r] = rshi_shape_of(in[r]);
        m[r] = (rsh_message){r, &to[r], sizeof *to};
        m[n + r] = (rsh_message){r, &from[r], sizeof *from};
    }
    if (!st) st = rsh_comm_exchange(k->comm, n, m, n, m + n);
    rshi_free(m);
    rshi_free(to);
    return st;
}

static rsh_status make_list(int n, const rshi_shape_told *o, rsh_tensor ***out) {
    rsh_tensor **list = rshi_calloc((size_t)n, sizeof *list);
    rsh_status st = list ? RSH_OK : rshi_nomem();
    for (int i = 0; i < n && !st; i++) st = rshi_shape_make(&o[i], &list[i]);
    if (st) rshi_collect_free(n, list);
    else *out = list;
    return st;
}

/* Returns what every rank sends to this one; forward and backward are the same. */
static rsh_status swap_all(rsh_grad_call *c, rshi_collecting *k, int n, const rsh_tensor *const *in, rsh_status ready) {
    rsh_tensor **list = NULL;
    rshi_shape_told *from = rshi_alloc((size_t)n, sizeof *from);
    rsh_status st = ready ? ready : from ? RSH_OK : rshi_nomem();
    st = st ? rshi_collect_told(k, st) : swap_shapes(k, n, in, from);
    if (!st) st = rshi_collect_told(k, make_list(n, from, &list));
    rshi_free(from);
    if (!st) st = rsh_group_all_to_all(k->group, n, list, in);
    return list ? rshi_collect_give_list(c, n, list, st) : st;
}

static rsh_status all_to_all_forward(rsh_grad_call *c) {
    rshi_collecting *k = rshi_collect_open(c);
    rsh_status st;
    const rsh_tensor *const *list = rshi_collect_inputs(c, &st);
    st = swap_all(c, k, c->nin, list, st);
    rshi_free((void *)list);
    return st;
}

static rsh_status all_to_all_backward(rsh_grad_call *c) {
    rsh_tensor **list = NULL;
    rsh_status st = rshi_collect_gradients(c, &list);
    st = swap_all(c, rsh_call_attrs(c), c->nout, (const rsh_tensor *const *)list, st);
    rshi_collect_free(c->nout, list);
    return st;
}

static void single_drop(void *attrs) { rshi_free(((rshi_collecting *)attrs)->splits); }

/* The splits are copied in forward, so that backward has them. */
static rsh_status keep_splits(rshi_collecting *k) {
    size_t n = 2 * (size_t)k->comm->size;
    int64_t *copy = k->splits ? rshi_alloc(n, sizeof *copy) : NULL;
    if (k->splits && !copy) {
        k->splits = NULL;
        return rshi_nomem();
    }
    for (size_t i = 0; copy && i < n; i++) copy[i] = k->splits[i];
    k->splits = copy;
    return RSH_OK;
}

static rsh_status empty_rows(const rsh_tensor *like, int64_t rows, rsh_tensor **out) {
    rshi_shape_told o = rshi_shape_of(like);
    RSH_REQUIRE(o.ndim, RSH_EVALUE, "all_to_all_single: the input must have at least 1 dim");
    o.shape[0] = rows;
    return rshi_shape_make(&o, out);
}

/* Moves rows of `in`, split as on one side, to new rows in the order of the other side. */
static rsh_status swap_rows(const rshi_collecting *k, const rsh_tensor *in, bool back, rsh_tensor **out) {
    const int64_t *sent = NULL, *received = NULL;
    int n = k->comm->size;
    int64_t rows = rsh_tensor_ndim(in) ? rsh_tensor_shape(in)[0] : 0, sum = 0;
    if (k->splits) sent = k->splits + (back ? n : 0), received = k->splits + (back ? 0 : n);
    for (int i = 0; received && i < n; i++) sum += rshi_max(received[i], 0);
    RSH_TRY(rshi_collect_told(k, empty_rows(in, received ? sum : rows, out)));
    rsh_status st = rsh_group_all_to_all_single(k->group, *out, in, received, sent);
    if (!st) return RSH_OK;
    rsh_tensor_free(*out);
    *out = NULL;
    return st;
}

static rsh_status single_forward(rsh_grad_call *c) {
    rshi_collecting *k = rshi_collect_open(c);
    rsh_tensor *t = NULL;
    RSH_TRY(rshi_collect_told(k, keep_splits(k)));
    RSH_TRY(swap_rows(k, rsh_call_input(c, 0), false, &t));
    return rsh_call_set_output(c, 0, t);
}

static rsh_status single_backward(rsh_grad_call *c) {
    const rshi_collecting *k = rsh_call_attrs(c);
    rsh_tensor *g = NULL, *t = NULL;
    RSH_TRY(rshi_collect_told(k, rshi_collect_gradient(c, 0, &g)));
    rsh_status st = swap_rows(k, g, true, &t);
    rsh_tensor_free(g);
    return st ? st : rsh_call_set_input_grad(c, 0, t);
}

const rsh_grad_op rshi_all_to_all_op = {.name = "all_to_all",
                                        .forward = all_to_all_forward,
                                        .backward = all_to_all_backward,
                                        .attr_bytes = sizeof(rshi_collecting),
                                        .comm = rshi_collect_comm};

const rsh_grad_op rshi_all_to_all_single_op = {.name = "all_to_all_single",
                                               .forward = single_forward,
                                               .backward = single_backward,
                                               .attr_bytes = sizeof(rshi_collecting),
                                               .drop = single_drop,
                                               .comm = rshi_collect_comm};
