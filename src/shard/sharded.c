/* Sharded: a layout, a comm and this rank's parts. */
#include "math/math.h"
#include "shard/shard.h"
#include "shard/memory.h"

#include <string.h>

static rsh_status check_ranks(const rsh_comm *comm, const rsh_layout *layout) {
    RSH_REQUIRE(comm && layout, RSH_EVALUE, "sharded tensor: comm and layout must not be NULL");
    /* fails for storage-only dtypes */
    RSH_TRY(rsh_dtype_check_convert(rsh_layout_dtype(layout), rsh_layout_dtype(layout)));
    RSH_TRY(rshi_comm_own(comm));
    int64_t bound = rshi_layout_rank_bound(layout);
    RSH_REQUIRE(bound <= comm->size, RSH_EVALUE, "layout \"%.300s\" names rank %lld, but the comm has ranks 0 to %d",
                rsh_layout_text(layout), (long long)bound - 1, comm->size - 1);
    return RSH_OK;
}

static rsh_status sharded_new(rsh_comm *comm, const rsh_layout *layout, rsh_sharded **out) {
    RSH_TRY(check_ranks(comm, layout));
    rsh_sharded *s = RSHI_NEW(rsh_sharded);
    if (!s) return rshi_nomem();
    s->comm = comm;
    s->nparts = rsh_layout_nparts(layout, comm->rank);
    s->part = rshi_calloc((size_t)s->nparts, sizeof(rsh_tensor *));
    s->layout = rsh_layout_hold(layout);
    rsh_status st = s->part ? RSH_OK : rshi_nomem();
    if (st)
        rsh_sharded_free(s);
    else
        *out = s;
    return st;
}

void rsh_sharded_free(rsh_sharded *s) {
    if (!s) return;
    for (int64_t i = 0; s->part && i < s->nparts; i++) rsh_tensor_free(s->part[i]);
    rshi_free(s->part);
    rsh_layout_free(s->layout);
    rshi_free(s);
}

/* Allocates elements where peers can read them.  The tensor may outlive the comm. */
static rsh_status alloc_elements(rsh_comm *comm, rsh_dtype dtype, int64_t count, bool zero, rsh_tensor **out) {
    rshi_data d;
    int64_t bytes;
    if (!comm->ops->data_alloc) return (zero ? rsh_tensor_zeros : rsh_tensor_empty)(dtype, 1, &count, out);
    RSH_REQUIRE(rshi_mul(count, (int64_t)rsh_dtype_size(dtype), &bytes), RSH_ENOMEM,
                "part of %lld elements is larger than 2^63 bytes",
                (long long)count);
    RSH_TRY(comm->ops->data_alloc(comm, (size_t)bytes, zero, &d));
    rsh_status st = rsh_tensor_wrap(d.data, dtype, 1, &count, NULL, d.release, d.owner, out);
    if (st) d.release(d.owner);
    return st;
}

/* Allocates dense memory in the layout's order, as a tensor of the part's shape. */
static rsh_status alloc_part(rsh_comm *comm, const rsh_layout *l, int64_t part, bool zero, rsh_tensor **out) {
    rsh_part shape;
    rsh_tensor *all;
    RSH_TRY(rsh_layout_part(l, comm->rank, part, &shape));
    RSH_TRY(alloc_elements(comm, rsh_layout_dtype(l), shape.count, zero, &all));
    rsh_status st = rsh_tensor_view(all, 0, shape.ndim, shape.shape, shape.strides, out);
    rsh_tensor_free(all);
    return st;
}

static rsh_status sharded_alloc(rsh_comm *comm, const rsh_layout *layout, bool zero, rsh_sharded **out) {
    RSH_NEEDS(out);
    rsh_sharded *s;
    RSH_TRY(sharded_new(comm, layout, &s));
    rsh_status st = RSH_OK;
    for (int64_t i = 0; i < s->nparts && !st; i++) st = alloc_part(comm, s->layout, i, zero, &s->part[i]);
    if (st)
        rsh_sharded_free(s);
    else
        *out = s;
    return st;
}

rsh_status rsh_sharded_empty(rsh_comm *comm, const rsh_layout *layout, rsh_sharded **out) {
    return sharded_alloc(comm, layout, false, out);
}

rsh_status rsh_sharded_zeros(rsh_comm *comm, const rsh_layout *layout, rsh_sharded **out) {
    return sharded_alloc(comm, layout, true, out);
}

rsh_status rsh_sharded_full(rsh_comm *comm, const rsh_layout *layout, const void *value, rsh_sharded **out) {
    RSH_NEEDS(out);
    RSH_REQUIRE(value, RSH_EVALUE, "fill value is NULL");
    rsh_sharded *s;
    RSH_TRY(sharded_alloc(comm, layout, false, &s));
    rsh_status st = RSH_OK;
    for (int64_t i = 0; i < s->nparts && !st; i++) st = rsh_math_fill(s->part[i], value);
    if (st)
        rsh_sharded_free(s);
    else
        *out = s;
    return st;
}

static rsh_status wrap_part(const rsh_layout *l, int64_t rank, int64_t part, const rsh_memory *memory,
                            rsh_tensor **out) {
    static char nothing[16]; /* address of parts without elements */
    rsh_part shape;
    rshi_part_memory taken;
    RSH_TRY(rsh_layout_part(l, rank, part, &shape));
    RSH_TRY(rshi_part_take(l, rank, part, memory, &taken));
    return rsh_tensor_wrap(taken.data ? (void *)taken.data : nothing, rsh_layout_dtype(l), shape.ndim, shape.shape,
                           taken.strides, NULL, NULL, out);
}

rsh_status rsh_sharded_wrap(rsh_comm *comm, const rsh_layout *layout, const rsh_memory *parts, rsh_sharded **out) {
    RSH_NEEDS(out);
    rsh_sharded *s;
    RSH_TRY(sharded_new(comm, layout, &s));
    rsh_status st = RSH_OK;
    for (int64_t i = 0; i < s->nparts && !st; i++)
        st = wrap_part(s->layout, comm->rank, i, parts ? &parts[i] : NULL, &s->part[i]);
    if (st)
        rsh_sharded_free(s);
    else
        *out = s;
    return st;
}

/* ---- existing tensors ---- */

static rsh_status check_tensor(const rsh_layout *l, int rank, int64_t part, const rsh_tensor *t) {
    rsh_part shape;
    RSH_REQUIRE(t, RSH_EVALUE, "tensor of part %lld is NULL", (long long)part);
    RSH_REQUIRE(rsh_tensor_dtype(t) == rsh_layout_dtype(l), RSH_EVALUE, "tensor of part %lld has dtype %s, expected %s",
                (long long)part, rsh_dtype_name(rsh_tensor_dtype(t)), rsh_dtype_name(rsh_layout_dtype(l)));
    RSH_TRY(rsh_layout_part(l, rank, part, &shape));
    RSH_REQUIRE(rsh_tensor_ndim(t) == shape.ndim, RSH_EVALUE, "tensor of part %lld has %d dims, expected %d",
                (long long)part, rsh_tensor_ndim(t), shape.ndim);
    for (int d = 0; d < shape.ndim; d++)
        RSH_REQUIRE(rsh_tensor_shape(t)[d] == shape.shape[d], RSH_EVALUE,
                    "tensor of part %lld has size %lld along dim %d, expected %lld", (long long)part,
                    (long long)rsh_tensor_shape(t)[d], d, (long long)shape.shape[d]);
    return RSH_OK;
}

static rsh_status share_part(const rsh_layout *l, int rank, int64_t part, const rsh_tensor *t, rsh_tensor **out) {
    RSH_TRY(check_tensor(l, rank, part, t));
    return rsh_tensor_view(t, 0, rsh_tensor_ndim(t), rsh_tensor_shape(t), rsh_tensor_strides(t), out);
}

rsh_status rsh_sharded_from_tensors(rsh_comm *comm, const rsh_layout *layout, int64_t n, const rsh_tensor *const *parts,
                                    rsh_sharded **out) {
    RSH_NEEDS(out);
    rsh_sharded *s;
    RSH_TRY(sharded_new(comm, layout, &s));
    rsh_status st = RSH_OK;
    if (n != s->nparts || (n && !parts))
        st = rshi_fail(RSH_EVALUE, "got %lld tensors%s; rank %d has %lld parts in \"%.300s\"", (long long)n,
                       n && !parts ? " at NULL" : "", comm->rank, (long long)s->nparts, rsh_layout_text(layout));
    for (int64_t i = 0; i < s->nparts && !st; i++)
        st = share_part(s->layout, comm->rank, i, parts[i], &s->part[i]);
    if (st)
        rsh_sharded_free(s);
    else
        *out = s;
    return st;
}

const rsh_layout *rsh_sharded_layout(const rsh_sharded *s) { return s ? s->layout : NULL; }
rsh_comm *rsh_sharded_comm(const rsh_sharded *s) { return s ? s->comm : NULL; }
int64_t rsh_sharded_nparts(const rsh_sharded *s) { return s ? s->nparts : 0; }
const rsh_tensor *rsh_sharded_part(const rsh_sharded *s, int64_t part) {
    return s && part >= 0 && part < s->nparts ? s->part[part] : NULL;
}

void rshi_sharded_memory(const rsh_sharded *s, rsh_memory *out) {
    for (int64_t i = 0; i < s->nparts; i++)
        out[i] = (rsh_memory){rsh_tensor_data(s->part[i]), rsh_tensor_strides(s->part[i])};
}
