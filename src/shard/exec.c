/* Exec: makes an exec for a plan and a comm, binds it for the user, and frees it. */
#include "shard/binding.h"
#include "shard/comm_cache.h"
#include "shard/team.h"

rsh_status rshi_exec_new(const rsh_plan *plan, rsh_comm *comm, rsh_exec **out) {
    rshi_comm_cache *clients = rshi_comm_cache_of(comm);
    rsh_exec *e = clients ? RSHI_NEW(rsh_exec) : NULL;
    if (!e) return rshi_nomem();
    e->plan = rsh_plan_hold(plan);
    e->comm = comm;
    e->clients = clients;
    e->stages = rshi_plan_stages(plan);
    e->all_by_message = rshi_plan_messages(plan);
    *out = e;
    return RSH_OK;
}

void rshi_exec_end(rsh_exec *e) {
    if (!e) return;
    rsh_comm *comm = e->comm;
    if (e->state != RSHI_IDLE) rsh_exec_wait(e); /* peers depend on a run that has begun */
    if (e->refusal) comm->ops->shared_free(comm, e->refusal, e->table_bytes);
    if (e->flag) comm->ops->flag_give(comm, e->flag);
    rshi_team_drop(e);
    rshi_messages_free(e->messages);
    rshi_program_free(&e->program);
    rshi_free(e->own_first);
    rshi_free(e->peers_first);
    rshi_free(e->peers);
    rshi_free(e->base);
    rshi_free(e->pointers);
    rshi_free(e->data);
    rshi_free(e->extents);
    rshi_free(e->shadow);
    rshi_shadows_free(&e->shadows);
    rshi_exec_free_scratch(e);
    rsh_plan_free(e->plan);
    rshi_free(e);
}

int64_t rshi_exec_scratch(const rsh_exec *e) {
    int64_t bytes = e->messages ? rshi_plan_send_bytes(e->plan) + rshi_plan_recv_bytes(e->plan) : 0;
    for (int64_t i = 0; i < e->shadows.n; i++) bytes += e->shadows.list[i].room;
    return bytes + e->scratch_bytes;
}

static rsh_status begin_binding(rshi_binding *b, rsh_exec *e, const rsh_memory *src, const rsh_memory *dst,
                        rshi_bind_card *mine) {
    rshi_taken_parts parts = {0};
    rsh_status st = rshi_parts_take(&parts, e->plan, e->comm, src, dst);
    if (!st) st = rshi_binding_begin(b, e, &parts, mine);
    rshi_taken_parts_free(&parts);
    return st;
}

static rsh_status bind_all(rsh_exec *e, const rsh_memory *src, const rsh_memory *dst) {
    rshi_binding b = {0};
    rshi_bind_card mine = {.serial = 0};
    const char *what = rsh_plan_ntensors(e->plan) ? rsh_layout_text(rsh_plan_to(e->plan, 0)) : "";
    rsh_status st = begin_binding(&b, e, src, dst, &mine);
    st = rshi_comm_open_with(e->comm, "bind", rsh_plan_fingerprint(e->plan), what, st, &mine, sizeof mine);
    if (!st) st = rshi_binding_complete(&b, &mine);
    rshi_binding_end(&b);
    return st;
}

rsh_status rsh_exec_bind(const rsh_plan *plan, rsh_comm *comm, const rsh_memory *src, const rsh_memory *dst,
                         rsh_exec **out) {
    RSH_REQUIRE(comm, RSH_EVALUE, "bind: comm is NULL");
    if (!plan || !out)
        return rshi_comm_open(comm, "bind", 0, NULL,
                              rshi_fail(RSH_EVALUE, "bind: plan and out must not be NULL"));
    rsh_exec *e;
    rsh_status st = rshi_exec_new(plan, comm, &e);
    if (st) return rshi_comm_open(comm, "bind", rsh_plan_fingerprint(plan), NULL, st);
    st = bind_all(e, src, dst);
    if (st) {
        rshi_exec_end(e);
        return st;
    }
    e->clients->execs++;
    *out = e;
    return RSH_OK;
}

void rsh_exec_free(rsh_exec *e) {
    if (!e || rshi_comm_own(e->comm)) return; /* a forked child does not own the exec */
    rsh_comm *comm = e->comm;
    rshi_comm_cache *clients = e->clients;
    rshi_exec_end(e);
    clients->execs--;
    rshi_comm_client_gone(comm);
}

rsh_status rsh_exec_get_stats(const rsh_exec *e, rsh_exec_stats *out) {
    RSH_NEEDS(e);
    RSH_NEEDS(out);
    RSHI_CHECK_RESULT(out, RSH_EXEC_STATS_INIT);
    const rshi_program *g = &e->program;
    rsh_exec_stats made = {
        .runs = e->runs - e->refusals,
        .bytes_local = g->bytes_local,
        .bytes_shared = g->bytes_shared,
        .seconds = e->seconds,
    };
    if (e->messages) {
        made.bytes_wire = rshi_messages_bytes_far(e->messages);
        made.bytes_shared += rshi_messages_bytes_near(e->messages);
        made.bytes_local += rshi_messages_bytes_local(e->messages);
    }
    made.bytes_shadow = rshi_shadows_bytes(&e->shadows, e->comm);
    made.contiguous = g->kernels[RSHI_KERNEL_CONTIGUOUS];
    made.rows = g->kernels[RSHI_KERNEL_ROWS];
    made.strided = g->kernels[RSHI_KERNEL_STRIDED];
    made.transposed = g->kernels[RSHI_KERNEL_TRANSPOSE];
    made.converted = g->kernels[RSHI_KERNEL_CONVERT];
    made.reduced = g->kernels[RSHI_KERNEL_REDUCE];
    made.filled = g->kernels[RSHI_KERNEL_FILL];
    rshi_result_write(&made, sizeof made, out);
    return RSH_OK;
}
