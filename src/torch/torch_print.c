/* Print: prints a sharded tensor with this rank's shards. */
#include "torch/impl.h"

#include "math/math.h"
#include "spec/spec.h"

static rsh_status print_size(const rsh_torch_tensor *t, const rsh_sink *sink) {
    RSH_TRY(rshi_sink_text(sink, "size=["));
    for (int d = 0; d < rsh_torch_ndim(t); d++)
        RSH_TRY(rshi_sink_format(sink, "%s%lld", d ? ", " : "", (long long)rshi_torch_shape(t)[d]));
    return rshi_sink_text(sink, "]");
}

static rsh_status print_shard(const rsh_shard *s, const rsh_sink *sink) {
    char text[RSHI_SHARD_TEXT];
    rshi_shard_print(&s->meta, text);
    RSH_TRY(rshi_sink_format(sink, "\n%s:\n", text));
    return rsh_tensor_print(s->tensor, sink);
}

/* Prints the tensor.  The text of a spec is written separately, because it may be longer than the buffer of
 * rshi_sink_format. */
rsh_status rsh_torch_print(const rsh_torch_tensor *t, const rsh_sink *sink) {
    RSH_REQUIRE(t && sink && sink->write, RSH_EVALUE, t ? "print: sink is NULL" : "print: sharded tensor is NULL");
    RSH_TRY(rshi_sink_text(sink, "ShardedTensor("));
    RSH_TRY(print_size(t, sink));
    RSH_TRY(rshi_sink_format(sink, ", dtype=%s, requires_grad=%s, spec=", rsh_dtype_name(t->props.dtype),
                             t->props.requires_grad ? "true" : "false"));
    RSH_TRY(rshi_sink_text(sink, rsh_spec_text(t->spec)));
    const rsh_comm *comm = t->sharded->comm;
    RSH_TRY(rshi_sink_format(sink, ") on rank %d of %d, %lld shard%s", comm->rank, comm->size,
                             (long long)t->sharded->nparts, t->sharded->nparts == 1 ? "" : "s"));
    for (int64_t i = 0; i < t->sharded->nparts; i++) RSH_TRY(print_shard(&t->shards[i], sink));
    return rshi_sink_text(sink, "\n");
}
