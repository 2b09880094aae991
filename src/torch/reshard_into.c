/* Reshard into: the move for loops.  The comm remembers plan and binding. */
#include "torch/impl.h"

static rsh_status check(const rsh_torch_tensor *t, const rsh_torch_tensor *out) {
    RSH_REQUIRE(out, RSH_EVALUE, "reshard_into needs a destination");
    RSH_REQUIRE(out->comm == t->comm, RSH_EVALUE, "source and destination live in different groups");
    RSH_REQUIRE(out->meta->ndim == t->meta->ndim, RSH_EVALUE, "the source has %d dims, the destination %d",
                t->meta->ndim, out->meta->ndim);
    for (int d = 0; d < t->meta->ndim; d++)
        RSH_REQUIRE(out->meta->size[d] == t->meta->size[d], RSH_EVALUE,
                    "the source has size %lld along dim %d, the destination %lld", (long long)t->meta->size[d], d,
                    (long long)out->meta->size[d]);
    return RSH_OK;
}

rsh_status rsh_torch_reshard_into(const rsh_torch_tensor *t, rsh_torch_tensor *out) {
    RSH_REQUIRE(t, RSH_EVALUE, "reshard_into needs a source");
    rsh_sharded *from = NULL, *to = NULL;
    rsh_status st = check(t, out);
    if (!st) st = rshi_torch_core(t, &from);
    if (!st) st = rshi_torch_core(out, &to);
    return rshi_reshard_as(t->comm, "torch_reshard_into", st, from, to, NULL);
}
