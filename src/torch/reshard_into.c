/* Reshard into: the move for loops.  A destination remembers its last sources: the plan and the exec bound to both
 * memories.
 *
 * One small exchange tells whether every rank remembers the same way; then it is run and nothing is allocated.
 * Otherwise, the first time or where a rank uses other memory, all bind anew. */
#include "torch/impl.h"

void rshi_bound_clear(rshi_bound *b) {
    rsh_exec_free(b->exec);
    rsh_plan_free(b->plan);
    rshi_free(b->data);
    *b = (rshi_bound){0};
}

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

/* Shards are dense: equal layouts and equal addresses are the same memory. */
static bool is_for(const rshi_bound *b, const rsh_torch_tensor *t) {
    if (!b->serial || b->ndata != t->nshards || !rsh_layout_equal(rsh_plan_from(b->plan, 0), t->core->layout))
        return false;
    for (int64_t i = 0; i < b->ndata; i++)
        if (b->data[i] != rsh_tensor_data(t->shards[i].tensor)) return false;
    return true;
}

static rshi_bound *find_bound(rsh_torch_tensor *out, const rsh_torch_tensor *t) {
    for (int i = 0; i < RSHI_TORCH_BOUND; i++)
        if (is_for(&out->bound[i], t)) return &out->bound[i];
    return NULL;
}

static rsh_status list_memory(const rsh_torch_tensor *t, rsh_memory **out) {
    rsh_memory *memory = rshi_calloc((size_t)t->core->nparts, sizeof *memory);
    if (memory) rshi_sharded_memory(t->core, memory);
    *out = memory;
    return memory ? RSH_OK : rshi_nomem();
}

static rsh_status prepare(const rsh_torch_tensor *t, const rsh_torch_tensor *out, rshi_bound *b,
                          rsh_memory *memory[2]) {
    rsh_plan_opts opts = RSH_PLAN_OPTS_INIT;
    RSH_TRY(rsh_comm_plan_opts(t->comm, &opts));
    RSH_TRY(rsh_plan_new(t->core->layout, out->core->layout, &opts, &b->plan));
    RSH_TRY(list_memory(t, &memory[0]));
    RSH_TRY(list_memory(out, &memory[1]));
    b->data = rshi_alloc((size_t)t->nshards, sizeof *b->data);
    if (!b->data) return rshi_nomem();
    b->ndata = t->nshards;
    for (int64_t i = 0; i < b->ndata; i++) b->data[i] = rsh_tensor_data(t->shards[i].tensor);
    return RSH_OK;
}

/* Collective.  The number of collective calls so far, which is the same on every rank, tells this way from others. */
static rsh_status bind(const rsh_torch_tensor *t, const rsh_torch_tensor *out, rshi_bound *b) {
    rsh_memory *memory[2] = {NULL, NULL};
    rsh_status st = prepare(t, out, b, memory);
    st = st ? rshi_comm_open(t->comm, "bind", 0, NULL, st)
            : rsh_exec_bind(b->plan, t->comm, memory[0], memory[1], &b->exec);
    b->serial = t->comm->calls;
    rshi_free(memory[0]);
    rshi_free(memory[1]);
    if (st) rshi_bound_clear(b);
    return st;
}

static rsh_status bind_and_run(const rsh_torch_tensor *t, rsh_torch_tensor *out, rshi_bound *old) {
    rshi_bound *b = old ? old : &out->bound[out->next_bound];
    if (!old) out->next_bound = (out->next_bound + 1) % RSHI_TORCH_BOUND;
    rshi_bound_clear(b);
    RSH_TRY(bind(t, out, b));
    return rsh_exec_run(b->exec);
}

rsh_status rsh_torch_reshard_into(const rsh_torch_tensor *t, rsh_torch_tensor *out) {
    RSH_REQUIRE(t, RSH_EVALUE, "reshard_into needs a source");
    rsh_sharded *lent;
    bool same = false;
    rsh_status st = check(t, out);
    if (!st) st = rshi_torch_core(t, &lent);
    if (!st) st = rshi_torch_core(out, &lent);
    rshi_bound *b = st ? NULL : find_bound(out, t);
    RSH_TRY(rshi_comm_open_word(t->comm, "torch_reshard_into", b ? b->serial : 0, st, &same));
    return b && same ? rsh_exec_run(b->exec) : bind_and_run(t, out, b);
}
