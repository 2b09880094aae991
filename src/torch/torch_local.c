/* Local: what a rank does to its own shards: to, clone, detach and copy. */
#include "torch/impl.h"

#include <string.h>

#include "math/math.h"

/* The same spec, metadata and group with other properties, and no shards yet. */
static rsh_status form_like(const rsh_torch_tensor *t, const rsh_tensor_props *props, rsh_torch_tensor **out) {
    rsh_torch_tensor *made = RSHI_NEW(rsh_torch_tensor);
    if (!made) return rshi_nomem();
    made->group = t->group;
    made->comm = t->comm;
    rsh_status st = rsh_spec_copy(t->spec, &made->spec);
    if (!st) st = rsh_tensor_meta_copy(t->meta, &made->meta);
    if (!st) made->meta->props = *props;
    if (st)
        rsh_torch_free(made);
    else
        *out = made;
    return st;
}

static rsh_status finish(rsh_status st, rsh_torch_tensor *made, rsh_torch_tensor **out) {
    if (st)
        rsh_torch_free(made);
    else
        *out = made;
    return st;
}

rsh_status rsh_torch_to(const rsh_torch_tensor *t, rsh_dtype dtype, rsh_torch_tensor **out) {
    RSH_REQUIRE(t && out, RSH_EVALUE, "a sharded tensor and a place for the result are needed");
    RSH_REQUIRE((unsigned)dtype < RSH_DTYPE_COUNT, RSH_EVALUE, "%d is not a dtype", (int)dtype);
    RSH_TRY(rsh_dtype_check_convert(rsh_torch_dtype(t), dtype));
    rsh_tensor_props props = t->meta->props;
    rsh_torch_tensor *made;
    props.dtype = dtype;
    props.requires_grad = props.requires_grad && rshi_dtype_has_grad(dtype);
    RSH_TRY(form_like(t, &props, &made));
    rsh_status st = rshi_torch_alloc(made, false);
    for (int64_t i = 0; i < made->nshards && !st; i++) {
        rshi_math_copy(t->shards[i].tensor, made->shards[i].tensor);
    }
    return finish(st, made, out);
}

rsh_status rsh_torch_clone(const rsh_torch_tensor *t, rsh_torch_tensor **out) {
    RSH_REQUIRE(t && out, RSH_EVALUE, "a sharded tensor and a place for the result are needed");
    return rsh_torch_to(t, rsh_torch_dtype(t), out);
}

rsh_status rsh_torch_detach(const rsh_torch_tensor *t, rsh_torch_tensor **out) {
    RSH_REQUIRE(t && out, RSH_EVALUE, "a sharded tensor and a place for the result are needed");
    rsh_tensor_props props = t->meta->props;
    rsh_torch_tensor *made;
    props.requires_grad = false;
    RSH_TRY(form_like(t, &props, &made));
    return finish(rshi_torch_adopt(made, t->nshards, t->shards), made, out);
}

static bool cut_alike(const rsh_torch_tensor *a, const rsh_torch_tensor *b) {
    rsh_tensor_meta x = *a->meta;
    x.props.requires_grad = b->meta->props.requires_grad;
    return a->comm == b->comm && rsh_tensor_meta_same(&x, b->meta);
}

const rsh_shard *rshi_torch_find(const rsh_torch_tensor *t, const rsh_shard *s, int64_t at) {
    for (int64_t i = 0; i < t->nshards; i++) {
        const rsh_shard *other = &t->shards[(at + i) % t->nshards];
        if (rshi_same_box(&other->meta, &s->meta)) return other;
    }
    return NULL;
}

rsh_status rsh_torch_copy(rsh_torch_tensor *dst, const rsh_torch_tensor *src) {
    RSH_REQUIRE(dst && src, RSH_EVALUE, "copy needs two sharded tensors");
    RSH_REQUIRE(cut_alike(dst, src), RSH_ERUNTIME, "copy between tensors that are cut differently: %.300s and %.300s",
                rsh_spec_text(dst->spec), rsh_spec_text(src->spec));
    for (int64_t i = 0; i < dst->nshards; i++) {
        rsh_tensor *to = dst->shards[i].tensor;
        if (!rsh_tensor_count(to)) continue;
        const rsh_shard *from = rshi_torch_find(src, &dst->shards[i], i);
        RSH_REQUIRE(from, RSH_ERUNTIME, "shard %lld is missing in the source", (long long)i);
        memmove(rsh_tensor_data(to), rsh_tensor_data(from->tensor),
                (size_t)rsh_tensor_count(to) * rsh_dtype_size(rsh_torch_dtype(dst)));
    }
    return RSH_OK;
}
