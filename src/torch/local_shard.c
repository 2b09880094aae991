/* Local shard: a tensor and its position in the whole tensor. */
#include "torch/impl.h"

#include <string.h>

static rsh_status check_shape(const rsh_tensor *t, const rsh_shard_meta *m) {
    int ndim = rsh_tensor_ndim(t);
    RSH_REQUIRE(ndim == m->ndim, RSH_EVALUE, "shard metadata have %d dims, but the tensor has %d", m->ndim, ndim);
    for (int d = 0; d < ndim; d++)
        RSH_REQUIRE(rsh_tensor_shape(t)[d] == m->sizes[d], RSH_EVALUE,
                    "shard metadata have size %lld along dim %d, but the tensor has %lld", (long long)m->sizes[d], d,
                    (long long)rsh_tensor_shape(t)[d]);
    return RSH_OK;
}

rsh_status rsh_shard_make(const rsh_tensor *tensor, const rsh_shard_meta *meta, const rsh_tensor_props *props,
                          rsh_shard *out) {
    RSH_REQUIRE(tensor && meta && out, RSH_EVALUE, "shard: tensor, metadata and out must not be NULL");
    RSH_TRY(check_shape(tensor, meta));
    if (meta->has_placement) {
        char text[RSH_REMOTE_DEVICE_TEXT];
        rsh_remote_device_print(&meta->placement, text);
        RSH_REQUIRE(meta->placement.device.type == RSH_DEVICE_CPU, RSH_EVALUE,
                    "placement is \"%s\", but the tensor is in CPU memory", text);
    }
    rsh_shard s = {.meta = *meta, .props = props ? *props : rsh_tensor_get_props(tensor)};
    RSH_REQUIRE(s.props.dtype == rsh_tensor_dtype(tensor), RSH_EVALUE,
            "properties have dtype %s, but the tensor has %s",
                rsh_dtype_name(s.props.dtype), rsh_dtype_name(rsh_tensor_dtype(tensor)));
    RSH_TRY(rsh_tensor_view(tensor, 0, rsh_tensor_ndim(tensor), rsh_tensor_shape(tensor), rsh_tensor_strides(tensor),
                            &s.tensor));
    *out = s;
    return RSH_OK;
}

rsh_status rsh_shard_from_tensor(const rsh_tensor *tensor, int noffsets, const int64_t *offsets, int rank,
                                 rsh_shard *out) {
    rsh_shard_meta m;
    RSH_REQUIRE(tensor && out, RSH_EVALUE, "shard: tensor and out must not be NULL");
    RSH_REQUIRE(rank >= 0, RSH_EVALUE, "shard: rank must not be negative, got %d", rank);
    RSH_TRY(rsh_shard_meta_make(noffsets, offsets, rsh_tensor_ndim(tensor), rsh_tensor_shape(tensor), NULL, &m));
    m.has_placement = true;
    m.placement = (rsh_remote_device){.rank = rank, .device = {RSH_DEVICE_CPU, -1}};
    return rsh_shard_make(tensor, &m, NULL, out);
}

void rsh_shard_clear(rsh_shard *s) {
    if (!s) return;
    rsh_tensor_free(s->tensor);
    s->tensor = NULL;
}

/* Validates a shard, whose metadata come from the user. */
rsh_status rshi_shard_check(const rsh_shard *s, int64_t i) {
    RSH_REQUIRE(s->tensor, RSH_EVALUE, "shard %lld has no tensor", (long long)i);
    RSH_REQUIRE(s->props.layout == RSH_STRIDED, RSH_EVALUE, "shard %lld must be strided", (long long)i);
    RSH_REQUIRE(rsh_tensor_dense(s->tensor), RSH_EVALUE, "shard %lld must be contiguous", (long long)i);
    RSH_REQUIRE(s->props.dtype == rsh_tensor_dtype(s->tensor), RSH_EVALUE,
                "shard %lld: properties have dtype %s, but the tensor has %s",
                (long long)i, rsh_dtype_name(s->props.dtype),
                rsh_dtype_name(rsh_tensor_dtype(s->tensor)));
    return RSH_OK;
}

bool rshi_same_box(const rsh_shard_meta *a, const rsh_shard_meta *b) {
    size_t bytes = (size_t)a->ndim * sizeof *a->sizes;
    return a->ndim == b->ndim && !memcmp(a->offsets, b->offsets, bytes) && !memcmp(a->sizes, b->sizes, bytes);
}

rsh_status rshi_shards_check(int64_t n, const rsh_shard_meta *shards, int ndim, const int64_t *size) {
    RSH_TRY(rsh_shards_check_overlap(n, shards));
    return rsh_shards_check_tensor(n, shards, ndim, size);
}
