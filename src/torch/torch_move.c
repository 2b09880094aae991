/* Moves: gather, all-gather and reshard, each as one move of the core between two layouts. */
#include "torch/impl.h"

#include "math/math.h"

/* ---- gather ---- */

/* Checks that `out` has the whole shape, and that the tensor can be converted to its dtype. */
static rsh_status check_whole(const rsh_torch_tensor *t, const rsh_tensor *out) {
    RSH_REQUIRE(rsh_tensor_ndim(out) == rsh_torch_ndim(t), RSH_EVALUE, "out has %d dims, but the tensor has %d",
                rsh_tensor_ndim(out), rsh_torch_ndim(t));
    for (int d = 0; d < rsh_torch_ndim(t); d++)
        RSH_REQUIRE(rsh_tensor_shape(out)[d] == rshi_torch_shape(t)[d], RSH_EVALUE,
                    "out has size %lld along dim %d, but the tensor has %lld", (long long)rsh_tensor_shape(out)[d], d,
                    (long long)rshi_torch_shape(t)[d]);
    return rsh_dtype_check_convert(rsh_torch_dtype(t), rsh_tensor_dtype(out));
}

static rsh_status check_out(const rsh_torch_tensor *t, int dst, const rsh_tensor *out) {
    const rsh_comm *comm = t->sharded->comm;
    RSH_REQUIRE(dst >= 0 && dst < comm->size, RSH_ERUNTIME,
                "gather: rank %d is out of range; the group has ranks 0 to %d", dst,
                comm->size - 1);
    if (comm->rank != dst) return RSH_OK;
    RSH_REQUIRE(out, RSH_EVALUE, "gather: out is NULL on rank %d, which receives the tensor", dst);
    return check_whole(t, out);
}

/* Ranks other than dst do not know the dtype of `out`, so elements are sent in the tensor's dtype.  If the dtypes
 * differ, they are received in temporary memory, *arrived, and converted afterwards. */
static rsh_status choose_whole(const rsh_torch_tensor *t, const rsh_tensor *out, rsh_tensor **arrived) {
    if (!out) return RSH_OK;
    if (rsh_tensor_dtype(out) != rsh_torch_dtype(t))
        return rsh_tensor_empty(rsh_torch_dtype(t), rsh_torch_ndim(t), rshi_torch_shape(t), arrived);
    return rsh_tensor_view(out, 0, rsh_tensor_ndim(out), rsh_tensor_shape(out), rsh_tensor_strides(out), arrived);
}

/* Creates the layout of the whole tensor on rank dst; -1: on every rank. */
static rsh_status whole_layout(const rsh_torch_tensor *t, int dst, rsh_layout **out) {
    int ndim = rsh_torch_ndim(t);
    if (dst >= 0) return rsh_layout_whole(rsh_torch_dtype(t), ndim, rshi_torch_shape(t), dst, out);
    rsh_layout_desc d = {.dtype = rsh_torch_dtype(t), .ndim = ndim, .naxes = 1};
    d.axis[0] = (rsh_axis){"x", t->sharded->comm->size};
    for (int i = 0; i < ndim; i++) d.dim[i].size = rshi_torch_shape(t)[i];
    return rsh_layout_new(&d, out);
}

/* Prepares to receive the whole tensor; if `out` is NULL, this rank receives nothing. */
static rsh_status prepare_whole(const rsh_torch_tensor *t, int dst, const rsh_tensor *out, rsh_tensor **arrived,
                                rsh_sharded **whole) {
    rsh_layout *l;
    RSH_TRY(choose_whole(t, out, arrived));
    RSH_TRY(whole_layout(t, dst, &l));
    rsh_status st =
        rsh_sharded_from_tensors(t->sharded->comm, l, out != NULL, (const rsh_tensor *const *)arrived, whole);
    rsh_layout_free(l);
    return st;
}

static rsh_status move_whole(const rsh_torch_tensor *t, const char *name, rsh_status st, int dst, rsh_tensor *out) {
    rsh_tensor *arrived = NULL;
    rsh_sharded *whole = NULL;
    if (!st) st = prepare_whole(t, dst, out, &arrived, &whole);
    st = rshi_reshard_as(t->sharded->comm, name, st, t->sharded, whole, NULL);
    if (!st && out && rsh_tensor_dtype(out) != rsh_torch_dtype(t)) st = rsh_math_copy(arrived, out);
    rsh_sharded_free(whole);
    rsh_tensor_free(arrived);
    return st;
}

rsh_status rsh_torch_gather(const rsh_torch_tensor *t, int dst, rsh_tensor *out) {
    RSH_REQUIRE(t, RSH_EVALUE, "rsh_torch_gather: t is NULL");
    rsh_status st = check_out(t, dst, out);
    return move_whole(t, "torch_gather", st, dst, t->sharded->comm->rank == dst ? out : NULL);
}

rsh_status rsh_torch_all_gather(const rsh_torch_tensor *t, rsh_tensor *out) {
    RSH_REQUIRE(t, RSH_EVALUE, "rsh_torch_all_gather: t is NULL");
    rsh_status st = out ? check_whole(t, out)
                        : rshi_fail(RSH_EVALUE, "rsh_torch_all_gather: out is NULL on rank %d", t->sharded->comm->rank);
    return move_whole(t, "torch_all_gather", st, -1, out);
}

/* ---- reshard ---- */

static rsh_status prepare_reshard(const rsh_torch_tensor *t, const rsh_spec *to, bool result,
                                  rsh_torch_tensor **made) {
    RSH_REQUIRE(to && result, RSH_EVALUE, "reshard: spec and out must not be NULL");
    return rshi_torch_new(to, rsh_torch_ndim(t), rshi_torch_shape(t), &t->props, t->group, false, made);
}

rsh_status rsh_torch_reshard(const rsh_torch_tensor *t, const rsh_spec *to, rsh_torch_tensor **out) {
    return rsh_torch_reshard_with(t, to, NULL, out);
}

/* Creates a tensor on the same memory, if the spec is unchanged and the caller allows it. */
static rsh_status alias_tensor(const rsh_torch_tensor *t, bool result, rsh_torch_tensor **out) {
    rsh_torch_tensor *made = NULL;
    rsh_status st = result ? rshi_torch_share(t, &t->props, &made)
                           : rshi_fail(RSH_EVALUE, "reshard: out is NULL");
    st = rshi_comm_open(t->sharded->comm, "torch_reshard", rsh_layout_hash(t->sharded->layout),
                        rsh_layout_text(t->sharded->layout), st);
    if (st)
        rsh_torch_free(made);
    else
        *out = made;
    return st;
}

rsh_status rsh_torch_reshard_with(const rsh_torch_tensor *t, const rsh_spec *to, const rsh_plan_opts *opts,
                                  rsh_torch_tensor **out) {
    rsh_torch_tensor *made = NULL;
    RSH_REQUIRE(t, RSH_EVALUE, "rsh_torch_reshard: t is NULL");
    rsh_plan_opts o = RSH_PLAN_OPTS_INIT;
    bool readable =
        !RSHI_READ_OPTIONS(opts, RSH_PLAN_OPTS_INIT, &o); /* if this fails, the move reports the error on all ranks */
    if (readable && o.may_alias && rsh_spec_equal(t->spec, to, rsh_torch_ndim(t)))
        return alias_tensor(t, out != NULL, out);
    rsh_status st = prepare_reshard(t, to, out != NULL, &made);
    st = rshi_reshard_as(t->sharded->comm, "torch_reshard", st, t->sharded, made ? made->sharded : NULL, opts);
    if (st)
        rsh_torch_free(made);
    else
        *out = made;
    return st;
}
