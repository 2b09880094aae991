/* Functional: the public functions that apply a group's collectives to values. */
#include <reshard/torch/functional.h>

#include "grad/collect.h"

/* ---- checks of this rank alone ---- */

static rsh_status check_inputs(const rsh_grad_op *op, int nin, rsh_value *const *in) {
    RSH_REQUIRE(in, RSH_EVALUE, "%s: the list of inputs is NULL", op->name);
    for (int i = 0; i < nin; i++) {
        RSH_REQUIRE(in[i], RSH_EVALUE, "%s: input %d is NULL", op->name, i);
        RSH_REQUIRE(!rsh_value_sharded(in[i]), RSH_EVALUE,
                    "%s: input %d must be plain, but it is distributed with layout \"%.300s\"", op->name, i,
                    rsh_layout_text(rsh_value_layout(in[i])));
    }
    return RSH_OK;
}

static rsh_status check_arguments(const rsh_grad_op *op, const rshi_collecting *k, int nin, rsh_value *const *in,
                                  int nout, rsh_value **out) {
    RSH_REQUIRE(out, RSH_EVALUE, "%s: out is NULL", op->name);
    RSH_REQUIRE(k->how == RSH_DERIVATIVE_ADJOINT || k->how == RSH_DERIVATIVE_BACKWARD, RSH_EVALUE,
                "%s: unknown derivative %d", op->name, (int)k->how);
    RSH_REQUIRE(k->root >= -1 && k->root < k->comm->size, RSH_ERUNTIME,
                "%s: root %d is out of range; the group has ranks 0 to %d", op->name, k->root, k->comm->size - 1);
    RSH_REQUIRE((nin == 1 || nin == k->comm->size) && (nout == 1 || nout == k->comm->size), RSH_EVALUE,
                "%s: expected a list of %d values (one per rank), got %d", op->name, k->comm->size,
                nin == 1 ? nout : nin);
    return check_inputs(op, nin, in);
}

/* Applies the op.  If a check of this rank fails, the other ranks learn of it in the op's first collective call. */
static rsh_status apply_collective(const rsh_grad_op *op, rshi_collecting *k, int nin, rsh_value *const *in, int nout,
                                   rsh_value **out) {
    bool opened = false;
    RSH_TRY(rshi_group_comm(k->group, &k->comm));
    RSH_REQUIRE(k->comm, RSH_ERUNTIME, "%s: this rank is not a member of the group", op->name);
    k->opened = &opened;
    rsh_status st = check_arguments(op, k, nin, in, nout, out);
    if (!st) st = rsh_grad_apply(op, k, nin, in, nout, out);
    return st && !opened ? rsh_comm_agree(k->comm, st) : st;
}

/* ---- the calls ---- */

rsh_status rsh_functional_broadcast(rsh_group *g, rsh_value *v, int root, rsh_derivative how, rsh_value **out) {
    rshi_collecting k = {.group = g, .root = root < 0 ? -2 : root, .how = how};
    return apply_collective(&rshi_broadcast_op, &k, 1, &v, 1, out);
}

rsh_status rsh_functional_scatter(rsh_group *g, int nlist, rsh_value *const *list, int root, rsh_derivative how,
                                  rsh_value **out) {
    rshi_collecting k = {.group = g, .root = root < 0 ? -2 : root, .how = how};
    return apply_collective(&rshi_scatter_op, &k, nlist, list, 1, out);
}

rsh_status rsh_functional_gather(rsh_group *g, rsh_value *v, int root, rsh_derivative how, int nlist,
                                 rsh_value **out) {
    rshi_collecting k = {.group = g, .root = root < 0 ? -2 : root, .how = how};
    return apply_collective(&rshi_gather_op, &k, 1, &v, nlist, out);
}

rsh_status rsh_functional_reduce(rsh_group *g, rsh_value *v, rsh_op op, int root, rsh_derivative how,
                                 rsh_value **out) {
    rshi_collecting k = {.group = g, .root = root < 0 ? -2 : root, .op = op, .how = how};
    return apply_collective(&rshi_reduce_op, &k, 1, &v, 1, out);
}

rsh_status rsh_functional_all_reduce(rsh_group *g, rsh_value *v, rsh_op op, rsh_derivative how, rsh_value **out) {
    rshi_collecting k = {.group = g, .root = -1, .op = op, .how = how};
    return apply_collective(&rshi_all_reduce_op, &k, 1, &v, 1, out);
}

rsh_status rsh_functional_all_gather(rsh_group *g, rsh_value *v, rsh_derivative how, int nlist, rsh_value **out) {
    rshi_collecting k = {.group = g, .root = -1, .how = how};
    return apply_collective(&rshi_all_gather_op, &k, 1, &v, nlist, out);
}

rsh_status rsh_functional_reduce_scatter(rsh_group *g, int nlist, rsh_value *const *list, rsh_op op,
                                         rsh_derivative how, rsh_value **out) {
    rshi_collecting k = {.group = g, .root = -1, .op = op, .how = how};
    return apply_collective(&rshi_reduce_scatter_op, &k, nlist, list, 1, out);
}

rsh_status rsh_functional_all_to_all(rsh_group *g, int nlist, rsh_value *const *in, rsh_value **out) {
    rshi_collecting k = {.group = g, .root = -1, .how = RSH_DERIVATIVE_ADJOINT};
    return apply_collective(&rshi_all_to_all_op, &k, nlist, in, nlist, out);
}

rsh_status rsh_functional_all_to_all_single(rsh_group *g, rsh_value *v, const int64_t *out_splits,
                                            const int64_t *in_splits, rsh_value **out) {
    rshi_collecting k = {.group = g, .root = -1, .how = RSH_DERIVATIVE_ADJOINT};
    RSH_TRY(rshi_group_comm(g, &k.comm));
    size_t n = k.comm && in_splits && out_splits ? (size_t)k.comm->size : 0;
    rsh_status st = RSH_OK;
    if (!in_splits != !out_splits)
        st = rshi_fail(RSH_EVALUE, "all_to_all_single: in_splits and out_splits must both be given, or neither");
    if (n && !(k.splits = rshi_alloc(2 * n, sizeof *k.splits))) st = rshi_nomem();
    if (st) return k.comm ? rsh_comm_agree(k.comm, st) : st;
    for (size_t i = 0; i < n; i++) k.splits[i] = in_splits[i], k.splits[n + i] = out_splits[i];
    st = apply_collective(&rshi_all_to_all_single_op, &k, 1, &v, 1, out);
    rshi_free(n ? k.splits : NULL);
    return st;
}
