/* Moves: gather and reshard.  Each is one move of the core between two layouts. */
#include "torch/impl.h"

/* ---- gather ---- */

static rsh_status check_out(const rsh_torch_tensor *t, int dst, const rsh_tensor *out) {
    const rsh_tensor_meta *m = t->meta;
    RSH_REQUIRE(dst >= 0 && dst < t->comm->size, RSH_EVALUE, "gather to rank %d of a group of %d", dst, t->comm->size);
    RSH_REQUIRE(t->comm->rank == dst || !out, RSH_EVALUE,
                "`out` is given on rank %d; the tensor is gathered on rank %d", t->comm->rank, dst);
    if (t->comm->rank != dst) return RSH_OK;
    RSH_REQUIRE(out, RSH_EVALUE, "`out` is missing on rank %d, where the tensor is gathered", dst);
    RSH_REQUIRE(rsh_tensor_ndim(out) == m->ndim, RSH_EVALUE, "`out` has %d dims, the tensor %d", rsh_tensor_ndim(out),
                m->ndim);
    for (int d = 0; d < m->ndim; d++)
        RSH_REQUIRE(rsh_tensor_shape(out)[d] == m->size[d], RSH_EVALUE,
                    "`out` has size %lld along dim %d, the tensor %lld", (long long)rsh_tensor_shape(out)[d], d,
                    (long long)m->size[d]);
    RSH_REQUIRE(rsh_tensor_dtype(out) == m->props.dtype, RSH_ETYPE, "`out` is of %s, the tensor of %s",
                rsh_dtype_name(rsh_tensor_dtype(out)), rsh_dtype_name(m->props.dtype));
    return RSH_OK;
}

static rsh_status prepare_gather(const rsh_torch_tensor *t, int dst, const rsh_tensor *out, rsh_sharded **src,
                                 rsh_sharded **whole) {
    rsh_layout *l;
    RSH_TRY(check_out(t, dst, out));
    RSH_TRY(rshi_torch_core(t, src));
    RSH_TRY(rsh_layout_whole(rsh_torch_dtype(t), t->meta->ndim, t->meta->size, dst, &l));
    rsh_status st = rshi_sharded_of(t->comm, l, out, whole);
    rsh_layout_free(l);
    return st;
}

rsh_status rsh_torch_gather(const rsh_torch_tensor *t, int dst, rsh_tensor *out) {
    rsh_sharded *src = NULL, *whole = NULL;
    RSH_REQUIRE(t, RSH_EVALUE, "the sharded tensor is NULL");
    rsh_status st = prepare_gather(t, dst, out, &src, &whole);
    st = rshi_reshard_as(t->comm, "torch_gather", st, src, whole, NULL);
    rsh_sharded_free(whole);
    return st;
}

/* ---- reshard ---- */

static rsh_status prepare_reshard(const rsh_torch_tensor *t, const rsh_spec *to, bool result, rsh_torch_tensor **made,
                                  rsh_sharded **src, rsh_sharded **dst) {
    RSH_REQUIRE(to && result, RSH_EVALUE, "reshard needs a spec and a place for the result");
    RSH_TRY(rshi_torch_new(to, t->meta->ndim, t->meta->size, &t->meta->props, t->group, false, made));
    RSH_TRY(rshi_torch_core(t, src));
    return rshi_torch_core(*made, dst);
}

rsh_status rsh_torch_reshard(const rsh_torch_tensor *t, const rsh_spec *to, rsh_torch_tensor **out) {
    rsh_torch_tensor *made = NULL;
    rsh_sharded *src = NULL, *dst = NULL;
    RSH_REQUIRE(t, RSH_EVALUE, "the sharded tensor is NULL");
    rsh_status st = prepare_reshard(t, to, out != NULL, &made, &src, &dst);
    st = rshi_reshard_as(t->comm, "torch_reshard", st, src, dst, NULL);
    if (st)
        rsh_torch_free(made);
    else
        *out = made;
    return st;
}
