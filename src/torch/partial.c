/* Partial: a tensor whose value is the reduction of what all ranks hold. */
#include "torch/impl.h"

#include <string.h>

#include "math/math.h"

struct rsh_partial {
    rsh_tensor *tensor; /* owned: a view */
    rsh_op op;
    rsh_group *group;
    rsh_comm *comm;
};

/* ---- making ---- */

/* Takes over `tensor`, also where it fails. */
static rsh_status settle(rsh_tensor *tensor, rsh_op op, rsh_group *group, rsh_comm *comm, rsh_partial **out) {
    rsh_partial *p = RSHI_NEW(rsh_partial);
    if (!p) {
        rsh_tensor_free(tensor);
        return rshi_nomem();
    }
    *p = (rsh_partial){tensor, op, group, comm};
    *out = p;
    return RSH_OK;
}

rsh_status rsh_partial_new(const rsh_tensor *local, rsh_op op, rsh_group *group, rsh_partial **out) {
    rsh_comm *comm;
    rsh_tensor *view;
    RSH_REQUIRE(local && out, RSH_EVALUE, "a partial tensor needs a tensor and a place for the result");
    RSH_REQUIRE(op > RSH_OP_NONE && op < RSH_OP_COUNT, RSH_EVALUE, "%d is not an op", (int)op);
    RSH_TRY(rsh_op_check(op, rsh_tensor_dtype(local)));
    RSH_TRY(rshi_group_take(group, &group, &comm));
    RSH_TRY(
        rsh_tensor_view(local, 0, rsh_tensor_ndim(local), rsh_tensor_shape(local), rsh_tensor_strides(local), &view));
    return settle(view, op, group, comm, out);
}

void rsh_partial_free(rsh_partial *p) {
    if (!p) return;
    rsh_tensor_free(p->tensor);
    rshi_free(p);
}

const rsh_tensor *rsh_partial_tensor(const rsh_partial *p) { return p ? p->tensor : NULL; }
rsh_op rsh_partial_op(const rsh_partial *p) { return p ? p->op : RSH_OP_NONE; }
rsh_group *rsh_partial_group(const rsh_partial *p) { return p ? p->group : NULL; }

/* ---- reduce and cut ---- */

/* "f32[5,4] on x=W sum(x)" */
static rsh_status make_layout(const rsh_partial *p, rsh_layout **out) {
    rsh_layout_desc d = {.dtype = rsh_tensor_dtype(p->tensor),
                         .ndim = rsh_tensor_ndim(p->tensor),
                         .naxes = 1,
                         .op = p->op,
                         .npartial = 1};
    d.axis[0] = (rsh_axis){"x", p->comm->size};
    for (int i = 0; i < d.ndim; i++) d.dim[i].size = rsh_tensor_shape(p->tensor)[i];
    return rsh_layout_new(&d, out);
}

static rsh_status prepare(const rsh_partial *p, const rsh_spec *spec, bool result, rsh_torch_tensor **made,
                          rsh_sharded **src, rsh_sharded **dst) {
    rsh_dtype dtype = rsh_tensor_dtype(p->tensor);
    rsh_tensor_props props = rsh_tensor_props_of(p->tensor);
    rsh_layout *l;
    RSH_REQUIRE(spec && result, RSH_EVALUE, "a spec and a place for the result are needed");
    RSH_REQUIRE(dtype != RSH_C64 && dtype != RSH_C128, RSH_EUNSUP, "a partial tensor of %s cannot be cut",
                rsh_dtype_name(dtype));
    RSH_TRY(
        rshi_torch_new(spec, rsh_tensor_ndim(p->tensor), rsh_tensor_shape(p->tensor), &props, p->group, false, made));
    RSH_TRY(rshi_torch_core(*made, dst));
    RSH_TRY(make_layout(p, &l));
    rsh_status st = rshi_sharded_of(p->comm, l, p->tensor, src);
    rsh_layout_free(l);
    return st;
}

rsh_status rsh_partial_reshard(const rsh_partial *p, const rsh_spec *spec, rsh_torch_tensor **out) {
    rsh_torch_tensor *made = NULL;
    rsh_sharded *src = NULL, *dst = NULL;
    RSH_REQUIRE(p, RSH_EVALUE, "the partial tensor is NULL");
    rsh_status st = prepare(p, spec, out != NULL, &made, &src, &dst);
    st = rshi_reshard_as(p->comm, "partial_reshard", st, src, dst, NULL);
    rsh_sharded_free(src);
    if (st)
        rsh_torch_free(made);
    else
        *out = made;
    return st;
}

/* ---- views and joins ---- */

rsh_status rsh_partial_transpose(const rsh_partial *p, int a, int b, rsh_partial **out) {
    rsh_tensor *view;
    RSH_REQUIRE(p && out, RSH_EVALUE, "a partial tensor and a place for the result are needed");
    RSH_TRY(rsh_tensor_transpose(p->tensor, a, b, &view));
    return settle(view, p->op, p->group, p->comm, out);
}

static rsh_status check_join(int n, const rsh_partial *const *list) {
    RSH_REQUIRE(n > 0 && list, RSH_ERUNTIME, "nothing to join");
    for (int i = 0; i < n; i++) {
        RSH_REQUIRE(list[i], RSH_ERUNTIME, "tensor %d is not a partial tensor", i);
        RSH_REQUIRE(list[i]->op == list[0]->op, RSH_ERUNTIME, "tensors 0 and %d are reduced differently: %s and %s", i,
                    rsh_op_name(list[0]->op), rsh_op_name(list[i]->op));
        RSH_REQUIRE(list[i]->group == list[0]->group, RSH_ERUNTIME, "tensors 0 and %d are of different groups", i);
        RSH_REQUIRE(rsh_tensor_dtype(list[i]->tensor) == rsh_tensor_dtype(list[0]->tensor), RSH_ETYPE,
                    "tensors 0 and %d are of %s and %s", i, rsh_dtype_name(rsh_tensor_dtype(list[0]->tensor)),
                    rsh_dtype_name(rsh_tensor_dtype(list[i]->tensor)));
    }
    return RSH_OK;
}

/* The shape of the whole; dim is normalised. */
static rsh_status join_shape(int n, const rsh_partial *const *list, int dim, int64_t *shape) {
    int ndim = rsh_tensor_ndim(list[0]->tensor);
    memcpy(shape, rsh_tensor_shape(list[0]->tensor), (size_t)ndim * sizeof *shape);
    for (int i = 1; i < n; i++) {
        const int64_t *other = rsh_tensor_shape(list[i]->tensor);
        RSH_REQUIRE(rsh_tensor_ndim(list[i]->tensor) == ndim, RSH_EVALUE,
                    "tensors 0 and %d have different numbers of dims", i);
        for (int d = 0; d < ndim; d++)
            RSH_REQUIRE(d == dim || other[d] == shape[d], RSH_EVALUE,
                        "tensors 0 and %d have different sizes along dim %d", i, d);
        RSH_REQUIRE(rshi_add(shape[dim], other[dim], &shape[dim]), RSH_EVALUE, "dim %d is longer than 2^63", dim);
    }
    return RSH_OK;
}

/* `from` into the dense tensor `to`, from index `at` of a dim on. */
static rsh_status copy_slab(const rsh_tensor *from, const rsh_tensor *to, int dim, int64_t at) {
    int64_t offsets[RSH_MAX_NDIM] = {0};
    rsh_tensor *slab;
    offsets[dim] = at;
    RSH_TRY(rsh_tensor_narrow(to, offsets, rsh_tensor_shape(from), &slab));
    rshi_math_copy(from, slab);
    rsh_tensor_free(slab);
    return RSH_OK;
}

rsh_status rsh_partial_cat(int n, const rsh_partial *const *list, int dim, rsh_partial **out) {
    int64_t shape[RSH_MAX_NDIM], at = 0;
    rsh_tensor *all;
    RSH_REQUIRE(out, RSH_EVALUE, "no place for the result");
    RSH_REQUIRE(n < 1 || list, RSH_EVALUE, "%d partial tensors at NULL", n);
    RSH_TRY(check_join(n, list));
    int ndim = rsh_tensor_ndim(list[0]->tensor);
    RSH_REQUIRE(dim >= -ndim && dim < ndim, RSH_EINDEX, "dim %d of tensors of %d dims", dim, ndim);
    if (dim < 0) dim += ndim;
    RSH_TRY(join_shape(n, list, dim, shape));
    RSH_TRY(rsh_tensor_empty(rsh_tensor_dtype(list[0]->tensor), ndim, shape, &all));
    rsh_status st = RSH_OK;
    for (int i = 0; i < n && !st; i++) {
        st = copy_slab(list[i]->tensor, all, dim, at);
        at += rsh_tensor_shape(list[i]->tensor)[dim];
    }
    if (st) {
        rsh_tensor_free(all);
        return st;
    }
    return settle(all, list[0]->op, list[0]->group, list[0]->comm, out);
}
