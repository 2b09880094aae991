/* Reshard into: a reshard for loops.  The comm caches plan and binding. */
#include "torch/impl.h"

static rsh_status check_destination(const rsh_torch_tensor *t, const rsh_torch_tensor *out) {
    RSH_REQUIRE(out, RSH_EVALUE, "reshard_into: destination is NULL");
    RSH_REQUIRE(out->sharded->comm == t->sharded->comm, RSH_EVALUE,
                "reshard_into: source and destination belong to different groups");
    RSH_REQUIRE(rsh_torch_ndim(out) == rsh_torch_ndim(t), RSH_EVALUE,
                "reshard_into: shapes must be equal: source has %d dims, destination has %d",
                rsh_torch_ndim(t), rsh_torch_ndim(out));
    for (int d = 0; d < rsh_torch_ndim(t); d++)
        RSH_REQUIRE(rshi_torch_shape(out)[d] == rshi_torch_shape(t)[d], RSH_EVALUE,
                    "reshard_into: shapes must be equal: source has size %lld along dim %d, destination has %lld",
                    (long long)rshi_torch_shape(t)[d], d,
                    (long long)rshi_torch_shape(out)[d]);
    return RSH_OK;
}

rsh_status rsh_torch_reshard_into(const rsh_torch_tensor *t, rsh_torch_tensor *out) {
    RSH_REQUIRE(t, RSH_EVALUE, "reshard_into: source is NULL");
    return rshi_reshard_as(t->sharded->comm, "torch_reshard_into", check_destination(t, out), t->sharded,
                           out ? out->sharded : NULL, NULL);
}
