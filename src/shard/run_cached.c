/* Cached runs: one-shot moves whose binding is in the cache of the comm, which lends it for one run.
 *
 * A binding is identified by its plan, the strides of the parts and the kind of their memory, never by addresses; those
 * are published again before the opening exchange.  In that exchange each rank states which binding it has cached.  If
 * all have the same one, it is run at once.  If none has one, the records for a bind have already been exchanged, and
 * the bind continues.  If only some have one, all bind again. */
#include <string.h>

#include "shard/binding.h"
#include "shard/lease.h"

/* State of a run that is being started. */
typedef struct running {
    rsh_comm *comm;
    rshi_comm_cache *clients;
    const rsh_plan *plan;
    uint64_t key;
    rshi_cached_binding *found; /* borrowed from the cache; NULL: this rank binds */
    rsh_exec *exec;    /* owned: a new exec; NULL: none, or the cache owns it now */
    rshi_binding binding;
    rshi_bind_card mine;
} running;

static void end_running(running *r) {
    rshi_binding_end(&r->binding);
    rshi_exec_end(r->exec);
    r->exec = NULL;
}

static rsh_status begin_binding(running *r) {
    RSH_TRY(rshi_exec_new(r->plan, r->comm, &r->exec));
    return rshi_binding_begin(&r->binding, r->exec, &r->clients->taken, &r->mine);
}

/* Does everything that needs no other rank: prepares the cached binding for this memory, or begins a new one. */
static rsh_status prepare_run(running *r, const rsh_memory *src, const rsh_memory *dst) {
    r->clients = rshi_comm_cache_of(r->comm);
    if (!r->clients) return RSH_ENOMEM;
    rshi_taken_parts *parts = &r->clients->taken;
    RSH_TRY(rshi_parts_take(parts, r->plan, r->comm, src, dst));
    r->key = rshi_cached_binding_key(r->plan, parts);
    r->found = rshi_cached_binding_find(r->clients, r->plan, parts, r->key);
    if (!r->found) return begin_binding(r);
    rsh_exec *e = r->found->exec;
    r->mine.serial = r->found->serial;
    rshi_exec_set_parts(e, parts);
    rshi_foreign_show(r->comm, parts, &r->mine);
    RSH_TRY(r->comm->ops->publish(r->comm, e->table, e->table_bytes, &r->mine.table));
    return rshi_exec_show_data(e, NULL, NULL);
}

/* Returns whether all ranks have the same binding, or none has one. */
static bool all_agree(const rsh_comm *c) {
    const rshi_bind_card *first = rshi_comm_card(c, 0);
    for (int64_t i = 1; i < c->size; i++)
        if (((const rshi_bind_card *)rshi_comm_card(c, i))->serial != first->serial) return false;
    return true;
}

/* Drops the binding and begins again; called on all ranks if they disagree. */
static rsh_status begin_again(running *r) {
    if (r->found) rshi_lru_drop(&r->clients->bindings, &r->found->entry);
    r->found = NULL;
    end_running(r);
    r->mine = (rshi_bind_card){0};
    rsh_status st = begin_binding(r);
    return rshi_comm_open_with(r->comm, "bind: again", 0, NULL, st, &r->mine, sizeof r->mine);
}

/* Returns whether the binding is cached after the call.  With a limit on scratch it is not, because it has element
 * buffers.  The result is the same on every rank. */
static bool is_kept(const running *r) {
    bool messages = r->comm->node || r->exec->all_by_message;
    return !messages || !rshi_plan_has_ceiling(r->plan);
}

/* Begins a run of a new binding.  Makes its cache entry if it should be cached and there is memory for that. */
static rsh_status begin_new(running *r, rshi_lease *out) {
    RSH_TRY(rshi_binding_complete(&r->binding, &r->mine));
    uint64_t serial = r->comm->calls;
    rshi_binding_end(&r->binding);
    *out = (rshi_lease){.clients = r->clients, .exec = r->exec};
    if (is_kept(r)) out->entry = rshi_cached_binding_new(r->key, r->exec, serial);
    r->exec = NULL;
    rsh_status st = rsh_exec_begin(out->exec);
    if (st) rshi_lease_end(out, st);
    return st;
}

/* Begins a run of a cached binding on new memory.  This takes another exchange if destinations may overlap parts of
 * other ranks. */
static rsh_status begin_found(running *r, rshi_lease *out) {
    rsh_exec *e = r->found->exec;
    if (rshi_foreign_suspected(r->comm))
        RSH_TRY(rshi_comm_open(r->comm, "memory of other ranks", 0, NULL, rshi_foreign_check(e)));
    RSH_TRY(rsh_exec_begin(e));
    *out = (rshi_lease){.clients = r->clients, .exec = e, .entry = r->found, .known = true};
    rshi_cached_binding_lend(r->clients, r->found);
    return RSH_OK;
}

/* Returns a hash of everything that must be equal on all ranks. */
static uint64_t fingerprint_of(const rshi_call *call, const rsh_plan *plan) {
    uint64_t plans = plan ? rsh_plan_fingerprint(plan) : 0;
    return call->what ? rshi_hash(call->what, strlen(call->what), plans) : plans;
}

static const char *text_of(const rshi_call *call, const rsh_plan *plan) {
    if (call->what) return call->what;
    return plan && rsh_plan_ntensors(plan) ? rsh_layout_text(rsh_plan_to(plan, 0)) : "";
}

rsh_status rshi_lease_begin(rsh_comm *comm, const rshi_call *call, rsh_status ready, const rsh_plan *plan,
                            const rsh_memory *src, const rsh_memory *dst, rshi_lease *out) {
    running r = {.comm = comm, .plan = plan};
    rsh_status st = ready ? ready : prepare_run(&r, src, dst);
    RSH_GOTO(rshi_comm_open_with(comm, call->name, fingerprint_of(call, plan), text_of(call, plan), st, &r.mine,
                                 sizeof r.mine));
    if (!all_agree(comm)) RSH_GOTO(begin_again(&r));
    *(r.found ? &r.clients->hits : &r.clients->misses) += 1;
    st = r.found ? begin_found(&r, out) : begin_new(&r, out);
out:
    end_running(&r);
    return st;
}

/* Ends a lease.  A binding that failed in its first run is not cached. */
void rshi_lease_end(rshi_lease *l, rsh_status status) {
    if (!l->exec) return;
    if (l->entry && (!status || l->known)) {
        rshi_cached_binding_return(l->clients, l->entry);
    } else {
        rshi_exec_end(l->exec);
        rshi_free(l->entry);
    }
    *l = (rshi_lease){.clients = NULL};
}

rsh_status rshi_run_cached(rsh_comm *comm, const char *name, rsh_status ready, const rsh_plan *plan,
                          const rsh_memory *src, const rsh_memory *dst) {
    rshi_lease l;
    RSH_TRY(rshi_lease_begin(comm, &(rshi_call){.name = name}, ready, plan, src, dst, &l));
    rsh_status st = rsh_exec_wait(l.exec);
    rshi_lease_end(&l, st);
    return st;
}
