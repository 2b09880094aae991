/* Coverage: checks that boxes that do not overlap cover a whole tensor.  They do if none exceeds the tensor and their
 * volumes add up to that of the tensor. */
#include "spec/spec.h"

static rsh_status check_inside(int64_t i, const rsh_shard_meta *m, int ndim, const int64_t *size) {
    char text[RSHI_SHARD_TEXT];
    RSH_TRY(rshi_shard_meta_check(m, i));
    RSH_REQUIRE(m->ndim == ndim, RSH_EVALUE, "shard %lld has %d dims, expected %d as in the tensor", (long long)i,
                m->ndim, ndim);
    for (int d = 0; d < ndim; d++) {
        if (m->offsets[d] + m->sizes[d] <= size[d]) continue;
        rshi_shard_print(m, text);
        return rshi_fail(RSH_EVALUE, "shard %lld, %s, ends at %lld along dim %d, beyond the tensor's size %lld",
                         (long long)i, text, (long long)(m->offsets[d] + m->sizes[d]), d, (long long)size[d]);
    }
    return RSH_OK;
}

rsh_status rsh_shards_check_tensor(int64_t n, const rsh_shard_meta *shards, int ndim, const int64_t *size) {
    int64_t volume = 0, whole;
    RSH_REQUIRE(n >= 0 && (!n || shards), RSH_EVALUE, "the number of shards must not be negative, nor their list "
                                                      "NULL; got %lld shards%s", (long long)n,
                shards ? "" : " (NULL)");
    RSH_TRY(rshi_size_check(ndim, size));
    RSH_REQUIRE(rshi_product(ndim, size, &whole), RSH_EVALUE, "tensor has more than 2^63 elements");
    for (int64_t i = 0; i < n; i++) {
        RSH_TRY(check_inside(i, &shards[i], ndim, size));
        if (!rshi_add(volume, rsh_shard_meta_count(&shards[i]), &volume)) volume = INT64_MAX;
    }
    RSH_REQUIRE(volume == whole, RSH_EVALUE,
                "shards must cover the tensor: they have %lld elements together, but the tensor has %lld",
                (long long)volume, (long long)whole);
    return RSH_OK;
}
