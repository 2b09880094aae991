/* Partial: a tensor whose value is the reduction of the local tensors of all ranks. */
#include "torch/impl.h"

#include <string.h>

#include "math/math.h"

struct rsh_partial {
    rsh_group *group, *world; /* borrowed; `world` counts its tensors */
    rsh_sharded *sharded;     /* owned: the tensor with layout "f32[5,4] on x=W sum(x)", one part on every rank */
};

/* ---- creating ---- */

/* Creates the layout "f32[5,4] on x=W sum(x)". */
static rsh_status make_layout(const rsh_tensor *t, rsh_op op, int64_t ranks, rsh_layout **out) {
    rsh_layout_desc d = {
        .dtype = rsh_tensor_dtype(t), .ndim = rsh_tensor_ndim(t), .naxes = 1, .op = op, .npartial = 1};
    d.axis[0] = (rsh_axis){"x", ranks};
    for (int i = 0; i < d.ndim; i++) d.dim[i].size = rsh_tensor_shape(t)[i];
    return rsh_layout_new(&d, out);
}

/* Creates a partial tensor that shares the storage of `tensor`. */
static rsh_status new_partial(const rsh_tensor *tensor, rsh_op op, rsh_group *group, rsh_partial **out) {
    rsh_layout *l;
    rsh_comm *comm = rsh_group_comm(group);
    RSH_TRY(make_layout(tensor, op, comm->size, &l));
    rsh_partial *p = RSHI_NEW(rsh_partial);
    rsh_status st = p ? rsh_sharded_from_tensors(comm, l, 1, &tensor, &p->sharded) : rshi_nomem();
    rsh_layout_free(l);
    if (st) {
        rshi_free(p);
        return st;
    }
    p->group = group;
    p->world = rshi_group_add_tensor(group);
    *out = p;
    return RSH_OK;
}

rsh_status rsh_partial_new(const rsh_tensor *local, rsh_op op, rsh_group *group, rsh_partial **out) {
    rsh_comm *comm;
    RSH_REQUIRE(local && out, RSH_EVALUE, "partial tensor: tensor and out must not be NULL");
    RSH_REQUIRE(op > RSH_OP_NONE && op < RSH_OP_COUNT, RSH_EVALUE, "rsh_partial_new: unknown reduction %d", (int)op);
    RSH_TRY(rsh_op_check(op, rsh_tensor_dtype(local)));
    RSH_TRY(rshi_group_take(group, &group, &comm));
    return new_partial(local, op, group, out);
}

void rsh_partial_free(rsh_partial *p) {
    if (!p) return;
    rsh_sharded_free(p->sharded);
    rshi_group_drop_tensor(p->world);
    rshi_free(p);
}

static const rsh_tensor *tensor_of(const rsh_partial *p) { return p->sharded->part[0]; }
static rsh_op op_of(const rsh_partial *p) { return rsh_layout_op(p->sharded->layout); }

const rsh_tensor *rsh_partial_tensor(const rsh_partial *p) { return p ? tensor_of(p) : NULL; }
rsh_op rsh_partial_op(const rsh_partial *p) { return p ? op_of(p) : RSH_OP_NONE; }
rsh_group *rsh_partial_group(const rsh_partial *p) { return p ? p->group : NULL; }

/* ---- resharding ---- */

static rsh_status prepare_reshard(const rsh_partial *p, const rsh_spec *spec, bool result, rsh_torch_tensor **made) {
    const rsh_tensor *t = tensor_of(p);
    rsh_dtype dtype = rsh_tensor_dtype(t);
    rsh_tensor_props props = rsh_tensor_get_props(t);
    RSH_REQUIRE(spec && result, RSH_EVALUE, "rsh_partial_reshard: spec and out must not be NULL");
    RSH_REQUIRE(dtype != RSH_C64 && dtype != RSH_C128, RSH_EUNSUP,
                "partial tensors of dtype %s cannot be resharded; use a real dtype",
                rsh_dtype_name(dtype));
    return rshi_torch_new(spec, rsh_tensor_ndim(t), rsh_tensor_shape(t), &props, p->group, false, made);
}

rsh_status rsh_partial_reshard(const rsh_partial *p, const rsh_spec *spec, rsh_torch_tensor **out) {
    rsh_torch_tensor *made = NULL;
    RSH_REQUIRE(p, RSH_EVALUE, "partial tensor is NULL");
    rsh_status st = prepare_reshard(p, spec, out != NULL, &made);
    st = rshi_reshard_as(p->sharded->comm, "partial_reshard", st, p->sharded, made ? made->sharded : NULL, NULL);
    if (st)
        rsh_torch_free(made);
    else
        *out = made;
    return st;
}

/* ---- transpose and cat ---- */

rsh_status rsh_partial_transpose(const rsh_partial *p, int a, int b, rsh_partial **out) {
    rsh_tensor *view;
    RSH_REQUIRE(p && out, RSH_EVALUE, "partial tensor and out must not be NULL");
    RSH_TRY(rsh_tensor_transpose(tensor_of(p), a, b, &view));
    rsh_status st = new_partial(view, op_of(p), p->group, out);
    rsh_tensor_free(view);
    return st;
}

static rsh_status check_join(int n, const rsh_partial *const *list) {
    RSH_REQUIRE(n > 0 && list, RSH_ERUNTIME, "cat: expected at least one partial tensor");
    for (int i = 0; i < n; i++) {
        RSH_REQUIRE(list[i], RSH_ERUNTIME, "cat: tensor %d is NULL", i);
        RSH_REQUIRE(op_of(list[i]) == op_of(list[0]), RSH_ERUNTIME,
                    "cat: reductions must be equal: tensors 0 and %d have \"%s\" and \"%s\"", i,
                    rsh_op_name(op_of(list[0])), rsh_op_name(op_of(list[i])));
        RSH_REQUIRE(list[i]->group == list[0]->group, RSH_ERUNTIME, "cat: tensors 0 and %d belong to different groups",
                    i);
        RSH_REQUIRE(rsh_tensor_dtype(tensor_of(list[i])) == rsh_tensor_dtype(tensor_of(list[0])), RSH_ETYPE,
                    "cat: dtypes must be equal: tensors 0 and %d are %s and %s", i,
                    rsh_dtype_name(rsh_tensor_dtype(tensor_of(list[0]))),
                    rsh_dtype_name(rsh_tensor_dtype(tensor_of(list[i]))));
    }
    return RSH_OK;
}

/* Computes the shape of the result; dim is not negative. */
static rsh_status join_shape(int n, const rsh_partial *const *list, int dim, int64_t *shape) {
    int ndim = rsh_tensor_ndim(tensor_of(list[0]));
    memcpy(shape, rsh_tensor_shape(tensor_of(list[0])), (size_t)ndim * sizeof *shape);
    for (int i = 1; i < n; i++) {
        const int64_t *other = rsh_tensor_shape(tensor_of(list[i]));
        RSH_REQUIRE(rsh_tensor_ndim(tensor_of(list[i])) == ndim, RSH_EVALUE,
                    "cat: numbers of dims must be equal: tensors 0 and %d differ", i);
        for (int d = 0; d < ndim; d++)
            RSH_REQUIRE(d == dim || other[d] == shape[d], RSH_EVALUE,
                        "cat: sizes must be equal: tensors 0 and %d differ along dim %d", i, d);
        RSH_REQUIRE(rshi_add(shape[dim], other[dim], &shape[dim]), RSH_EVALUE, "cat: dim %d would be longer than 2^63",
                    dim);
    }
    return RSH_OK;
}

/* Copies `from` into the dense tensor `to`, starting at index `at` of a dim. */
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
    RSH_REQUIRE(out, RSH_EVALUE, "rsh_partial_cat: out is NULL");
    RSH_REQUIRE(n < 1 || list, RSH_EVALUE, "cat: got %d partial tensors but the list is NULL", n);
    RSH_TRY(check_join(n, list));
    int ndim = rsh_tensor_ndim(tensor_of(list[0]));
    RSH_REQUIRE(dim >= -ndim && dim < ndim, RSH_EINDEX, "cat: dim %d is out of range for tensors of %d dims", dim,
                ndim);
    if (dim < 0) dim += ndim;
    RSH_TRY(join_shape(n, list, dim, shape));
    RSH_TRY(rsh_tensor_empty(rsh_tensor_dtype(tensor_of(list[0])), ndim, shape, &all));
    rsh_status st = RSH_OK;
    for (int i = 0; i < n && !st; i++) {
        st = copy_slab(tensor_of(list[i]), all, dim, at);
        at += rsh_tensor_shape(tensor_of(list[i]))[dim];
    }
    if (!st) st = new_partial(all, op_of(list[0]), list[0]->group, out);
    rsh_tensor_free(all);
    return st;
}
