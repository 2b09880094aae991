/* Local: functions on a rank's own shards: to, clone, detach and copy. */
#include "torch/impl.h"

#include <string.h>

#include "math/math.h"

rsh_status rsh_torch_to(const rsh_torch_tensor *t, rsh_dtype dtype, rsh_torch_tensor **out) {
    RSH_REQUIRE(t && out, RSH_EVALUE, "rsh_torch_to: t and out must not be NULL");
    RSH_REQUIRE((unsigned)dtype < RSH_NDTYPES, RSH_EVALUE, "rsh_torch_to: unknown dtype %d", (int)dtype);
    RSH_TRY(rsh_dtype_check_convert(rsh_torch_dtype(t), dtype));
    RSH_REQUIRE(!t->props.requires_grad || rshi_dtype_has_grad(dtype), RSH_ERUNTIME,
                "cannot convert a tensor that requires a gradient from %s to %s, which cannot have one",
                rsh_dtype_name(t->props.dtype), rsh_dtype_name(dtype));
    rsh_tensor_props props = t->props;
    rsh_torch_tensor *made;
    props.dtype = dtype;
    RSH_TRY(rshi_torch_like(t, &props, false, &made));
    for (int64_t i = 0; i < t->sharded->nparts; i++) rshi_math_copy(t->sharded->part[i], made->sharded->part[i]);
    *out = made;
    return RSH_OK;
}

rsh_status rsh_torch_clone(const rsh_torch_tensor *t, rsh_torch_tensor **out) {
    RSH_REQUIRE(t && out, RSH_EVALUE, "rsh_torch_clone: t and out must not be NULL");
    return rsh_torch_to(t, rsh_torch_dtype(t), out);
}

rsh_status rsh_torch_detach(const rsh_torch_tensor *t, rsh_torch_tensor **out) {
    RSH_REQUIRE(t && out, RSH_EVALUE, "rsh_torch_detach: t and out must not be NULL");
    rsh_tensor_props props = t->props;
    props.requires_grad = false;
    return rshi_torch_share(t, &props, out);
}

/* ---- copy ---- */

static bool same_size(const rsh_torch_tensor *a, const rsh_torch_tensor *b) {
    int ndim = rsh_torch_ndim(a);
    return ndim == rsh_torch_ndim(b) &&
           !memcmp(rshi_torch_shape(a), rshi_torch_shape(b), (size_t)ndim * sizeof(int64_t));
}

/* Returns whether two tensors are cut in the same way.  Tensors usually have the same spec; only if they do not, their
 * metadata are created and compared. */
rsh_status rshi_torch_cut_alike(const rsh_torch_tensor *a, const rsh_torch_tensor *b, bool *out) {
    rsh_tensor_meta *x = NULL, *y = NULL;
    *out = same_size(a, b);
    if (!*out || rsh_spec_equal(a->spec, b->spec, rsh_torch_ndim(a))) return RSH_OK;
    rsh_status st = rshi_torch_meta_new(a, &x);
    if (!st) st = rshi_torch_meta_new(b, &y);
    if (!st) {
        x->props = y->props;
        *out = rsh_tensor_meta_same(x, y);
    }
    rsh_tensor_meta_free(x);
    rsh_tensor_meta_free(y);
    return st;
}

const rsh_shard *rshi_torch_find(const rsh_torch_tensor *t, const rsh_shard *s, int64_t at) {
    int64_t n = t->sharded->nparts;
    for (int64_t i = 0; i < n; i++) {
        const rsh_shard *other = &t->shards[(at + i) % n];
        if (rshi_same_box(&other->meta, &s->meta)) return other;
    }
    return NULL;
}

static rsh_status check_copy(const rsh_torch_tensor *dst, const rsh_torch_tensor *src) {
    bool alike;
    RSH_REQUIRE(dst && src, RSH_EVALUE, "copy: both sharded tensors must not be NULL");
    RSH_REQUIRE(dst->sharded->comm == src->sharded->comm, RSH_ERUNTIME,
                "copy: tensors belong to different groups (%d and %d ranks)", dst->sharded->comm->size,
                src->sharded->comm->size);
    RSH_TRY(rshi_torch_cut_alike(dst, src, &alike));
    RSH_REQUIRE(alike, RSH_ERUNTIME, "copy: layouts must be equal, got \"%.300s\" and \"%.300s\"; use reshard_into",
                rsh_layout_text(dst->sharded->layout), rsh_layout_text(src->sharded->layout));
    return rsh_dtype_check_convert(rsh_torch_dtype(src), rsh_torch_dtype(dst));
}

rsh_status rsh_torch_copy(rsh_torch_tensor *dst, const rsh_torch_tensor *src) {
    RSH_TRY(check_copy(dst, src));
    for (int64_t i = 0; i < dst->sharded->nparts; i++) {
        if (!rsh_tensor_count(dst->shards[i].tensor)) continue;
        const rsh_shard *from = rshi_torch_find(src, &dst->shards[i], i);
        RSH_REQUIRE(from, RSH_ERUNTIME, "copy: the source lacks shard %lld", (long long)i);
        RSH_TRY(rsh_math_copy(from->tensor, dst->shards[i].tensor));
    }
    return RSH_OK;
}
