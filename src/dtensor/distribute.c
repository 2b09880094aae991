/* Distribute: creates DTensors from whole tensors and from numbers. */
#include "dtensor/dtensor.h"

#include "math/math.h"

static rsh_status adopt_as_dtensor(rsh_sharded *s, bool requires_grad, rsh_mesh *mesh, rsh_value **out) {
    rsh_value *v = NULL;
    rsh_status st = rsh_value_adopt_sharded(s, requires_grad, &v);
    if (st) {
        rsh_sharded_free(s);
        return st;
    }
    st = rsh_value_set_kind(v, &rshi_dtensor_kind, mesh);
    if (st) rsh_value_free(v);
    else *out = v;
    return st;
}

/* Wraps the tensor where it is: on the source only, or on every rank. */
static rsh_status wrap_source(const rsh_tensor *t, rsh_mesh *mesh, int64_t source, rsh_sharded **out) {
    rsh_comm *comm = rsh_mesh_comm(mesh);
    rsh_layout *l = NULL;
    int ndim = rsh_tensor_ndim(t), n = rsh_mesh_ndim(mesh);
    rsh_place places[RSH_MAX_AXES];
    for (int i = 0; i < n; i++) places[i] = rsh_place_replicate();
    bool own = source == RSH_SOURCE_OWN;
    RSH_TRY(own ? rshi_dtensor_layout(mesh, n, places, rsh_tensor_dtype(t), ndim, rsh_tensor_shape(t), &l)
                : rsh_layout_whole(rsh_tensor_dtype(t), ndim, rsh_tensor_shape(t), source, &l));
    rsh_status st = rsh_sharded_from_tensors(comm, l, own || rsh_comm_rank(comm) == source, &t, out);
    rsh_layout_free(l);
    return st;
}

static rsh_status prepare_distribute(const rsh_tensor *t, bool requires_grad, rsh_mesh *mesh, int n,
                                     const rsh_place *places, int64_t source, rsh_sharded **from, rsh_layout **to) {
    RSH_REQUIRE(t && places, RSH_EVALUE, "rsh_dtensor_distribute: %s is NULL", t ? "places" : "t");
    RSH_REQUIRE(source >= RSH_SOURCE_OWN && source < rsh_mesh_size(mesh), RSH_EVALUE,
                "rsh_dtensor_distribute: source position %lld is out of range for a mesh of %lld ranks",
                (long long)source, (long long)rsh_mesh_size(mesh));
    rsh_dtype dtype = rsh_tensor_dtype(t);
    RSH_REQUIRE(!requires_grad || dtype == RSH_F32 || dtype == RSH_F64, RSH_ETYPE,
                "rsh_dtensor_distribute: dtype %s cannot require a gradient; use f32 or f64", rsh_dtype_name(dtype));
    RSH_TRY(rshi_dtensor_layout(mesh, n, places, dtype, rsh_tensor_ndim(t), rsh_tensor_shape(t), to));
    return wrap_source(t, mesh, source, from);
}

rsh_status rsh_dtensor_distribute(const rsh_tensor *t, bool requires_grad, rsh_mesh *mesh, int n,
                                  const rsh_place *places, int64_t source, rsh_value **out) {
    RSH_NEEDS(mesh);
    RSH_NEEDS(out);
    *out = NULL;
    rsh_comm *comm = rsh_mesh_comm(mesh);
    if (!comm) return RSH_OK;
    rsh_sharded *from = NULL, *made = NULL;
    rsh_layout *to = NULL;
    rsh_status st = rsh_comm_agree(comm, prepare_distribute(t, requires_grad, mesh, n, places, source, &from, &to));
    if (!st) st = rsh_reshard(from, to, NULL, &made);
    if (!st) st = adopt_as_dtensor(made, requires_grad, mesh, out);
    rsh_sharded_free(from);
    rsh_layout_free(to);
    return st;
}

/* ---- filled with one number ---- */

rsh_status rsh_dtensor_full(rsh_mesh *mesh, int n, const rsh_place *places, rsh_dtype dtype, int ndim,
                            const int64_t *shape, double number, rsh_value **out) {
    RSH_NEEDS(mesh);
    RSH_NEEDS(out);
    rsh_layout *l = NULL;
    rsh_sharded *s = NULL;
    *out = NULL;
    RSH_TRY(rshi_dtensor_layout(mesh, n, places, dtype, ndim, shape, &l));
    rsh_status st = RSH_OK;
    if (rsh_mesh_comm(mesh)) st = rsh_sharded_empty(rsh_mesh_comm(mesh), l, &s);
    for (int64_t i = 0; !st && s && i < rsh_sharded_nparts(s); i++)
        st = rsh_math_fill_number(rsh_sharded_part(s, i), number);
    rsh_layout_free(l);
    if (!st && s) return adopt_as_dtensor(s, false, mesh, out);
    rsh_sharded_free(s);
    return st;
}
