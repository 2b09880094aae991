/* Cache: the plans and bindings that a comm keeps for later calls. */
#include "shard/cache.h"

#include "plan/plan.h"
#include "shard/binding.h"
#include "shard/shard.h"

/* A cached plan. */
typedef struct cached_plan {
    rshi_lru_entry entry;
    rsh_plan *plan; /* held */
} cached_plan;

static void forget_plan(rshi_lru_entry *e) {
    cached_plan *p = (cached_plan *)e;
    rsh_plan_free(p->plan);
    rshi_free(p);
}

static void forget_binding(rshi_lru_entry *e) {
    rshi_cached_binding *b = (rshi_cached_binding *)e;
    b->exec->clients->scratch -= rshi_exec_scratch(b->exec);
    rshi_exec_end(b->exec);
    rshi_free(b);
}

void rshi_cache_begin(rshi_comm_cache *k) {
    k->plans = (rshi_lru){.limit = RSHI_CACHE_ENTRIES, .forget = forget_plan};
    k->bindings = (rshi_lru){.limit = RSHI_CACHE_ENTRIES, .forget = forget_binding};
}

void rshi_cache_end(rshi_comm_cache *k) {
    rshi_lru_free(&k->bindings);
    rshi_lru_free(&k->plans);
    rshi_taken_parts_free(&k->taken);
}

rsh_status rsh_comm_get_cache_stats(const rsh_comm *comm, rsh_cache_stats *out) {
    RSH_REQUIRE(comm && out, RSH_EVALUE, "cache statistics: comm and out must not be NULL");
    RSHI_CHECK_RESULT(out, RSH_CACHE_STATS_INIT);
    const rshi_comm_cache *k = comm->attached;
    rsh_cache_stats made = RSH_CACHE_STATS_INIT;
    if (k) made.hits = k->hits, made.misses = k->misses, made.bindings = k->bindings.n;
    rshi_result_write(&made, sizeof made, out);
    return RSH_OK;
}

/* ---- plans ---- */

static uint64_t mix_key(uint64_t h, uint64_t x) { return rshi_hash(&x, sizeof x, h); }

static uint64_t plan_key(int64_t n, const rsh_layout *const *from, const rsh_layout *const *to,
                         const rsh_plan_opts *o) {
    uint64_t h = mix_key(1, (uint64_t)n);
    for (int64_t t = 0; t < n; t++) h = mix_key(mix_key(h, rsh_layout_hash(from[t])), rsh_layout_hash(to[t]));
    if (o->node_of) h = rshi_hash(o->node_of, (size_t)o->nnode_of * sizeof *o->node_of, h);
    h = mix_key(mix_key(h, (uint64_t)o->ranks_per_node), o->has_max_scratch ? o->max_scratch_bytes + 1 : 0);
    return mix_key(mix_key(h, (uint64_t)o->reduce), (uint64_t)o->messages + 1);
}

/* Hashes may collide, so the texts of layouts are compared; options are compared by hash only. */
static bool plan_is_for(const rsh_plan *p, int64_t n, const rsh_layout *const *from, const rsh_layout *const *to) {
    if (rsh_plan_ntensors(p) != n) return false;
    for (int64_t t = 0; t < n; t++)
        if (!rsh_layout_equal(rsh_plan_from(p, t), from[t]) || !rsh_layout_equal(rsh_plan_to(p, t), to[t]))
            return false;
    return true;
}

/* Adds a plan to the cache; takes ownership of it, unless it fails. */
static rsh_status remember_plan(rshi_comm_cache *k, uint64_t key, rsh_plan *plan) {
    cached_plan *p = RSHI_NEW(cached_plan);
    if (!p) return rshi_nomem();
    *p = (cached_plan){.entry = {.key = key}, .plan = plan};
    rsh_status st = rshi_lru_add(&k->plans, &p->entry);
    if (st) rshi_free(p);
    return st;
}

static rsh_status make_plan(rshi_comm_cache *k, uint64_t key, int64_t n, const rsh_layout *const *from,
                            const rsh_layout *const *to, const rsh_plan_opts *o, const rsh_plan **out) {
    rsh_plan *made = NULL;
    RSH_TRY(rsh_plan_new_many(n, from, to, o, &made));
    rsh_status st = remember_plan(k, key, made);
    if (st) rsh_plan_free(made);
    else *out = made;
    return st;
}

static rsh_status make_adjoint(rshi_comm_cache *k, uint64_t key, const rsh_layout *from, const rsh_layout *to,
                               const rsh_plan_opts *o, const rsh_plan **out) {
    rsh_plan *forth = NULL, *made = NULL;
    RSH_TRY(rsh_plan_new(from, to, o, &forth));
    rsh_status st = rsh_plan_adjoint(forth, &made);
    rsh_plan_free(forth);
    if (!st) st = remember_plan(k, key, made);
    if (st) rsh_plan_free(made);
    else *out = made;
    return st;
}

/* Returns the cached plan of this key for these layouts; NULL: none. */
static const rsh_plan *find_plan(rshi_comm_cache *k, uint64_t key, int64_t n, const rsh_layout *const *from,
                                 const rsh_layout *const *to) {
    for (rshi_lru_entry *e = rshi_lru_first(&k->plans, key); e; e = rshi_lru_next(e)) {
        cached_plan *p = (cached_plan *)e;
        if (!plan_is_for(p->plan, n, from, to)) continue;
        rshi_lru_use(&k->plans, e);
        return p->plan;
    }
    return NULL;
}

/* Reads the options and adds the comm's nodes. */
static rsh_status take_opts(rsh_comm *comm, const rsh_plan_opts *opts, rsh_plan_opts *o) {
    RSH_TRY(rshi_plan_opts_take(opts, o));
    return o->node_of || o->ranks_per_node ? RSH_OK : rsh_plan_opts_from_comm(comm, o);
}

rsh_status rshi_plan_cached(rsh_comm *comm, int64_t n, const rsh_layout *const *from, const rsh_layout *const *to,
                            const rsh_plan_opts *opts, const rsh_plan **out) {
    rsh_plan_opts o;
    RSH_TRY(take_opts(comm, opts, &o));
    rshi_comm_cache *k = rshi_comm_cache_of(comm);
    if (!k) return RSH_ENOMEM;
    uint64_t key = plan_key(n, from, to, &o);
    const rsh_plan *found = find_plan(k, key, n, from, to);
    if (!found) return make_plan(k, key, n, from, to, &o, out);
    *out = found;
    return RSH_OK;
}

#define ADJOINT 0x61646a6f696e74u /* distinguishes an adjoint's key from that of a plan with the same layouts */

rsh_status rshi_adjoint_cached(rsh_comm *comm, const rsh_layout *from, const rsh_layout *to, const rsh_plan_opts *opts,
                               const rsh_plan **out) {
    rsh_plan_opts o;
    RSH_TRY(take_opts(comm, opts, &o));
    rshi_comm_cache *k = rshi_comm_cache_of(comm);
    if (!k) return RSH_ENOMEM;
    uint64_t key = mix_key(plan_key(1, &from, &to, &o), ADJOINT);
    const rsh_plan *found = find_plan(k, key, 1, &to, &from); /* an adjoint has source and destination swapped */
    if (!found) return make_adjoint(k, key, from, to, &o, out);
    *out = found;
    return RSH_OK;
}

/* ---- bindings ---- */

uint64_t rshi_cached_binding_key(const rsh_plan *plan, const rshi_taken_parts *t) {
    uint64_t h = mix_key(rsh_plan_fingerprint(plan), (uint64_t)(t->nsrc + t->ndst));
    for (int64_t k = 0; k < t->nsrc + t->ndst; k++) {
        h = rshi_hash(t->part[k].memory.strides, sizeof t->part[k].memory.strides, h);
        h ^= (uint64_t)t->part[k].out_of_reach << (k % 64);
    }
    return h;
}

rshi_cached_binding *rshi_cached_binding_find(rshi_comm_cache *k, const rsh_plan *plan, const rshi_taken_parts *parts,
                                              uint64_t key) {
    for (rshi_lru_entry *e = rshi_lru_first(&k->bindings, key); e; e = rshi_lru_next(e)) {
        rshi_cached_binding *b = (rshi_cached_binding *)e;
        if (b->exec->plan != plan || !rshi_exec_fits(b->exec, parts)) continue;
        rshi_lru_use(&k->bindings, e);
        return b;
    }
    return NULL;
}

/* Frees cached bindings, least recently used first, until the new element buffers fit into the limit for all bindings
 * together. */
static void free_scratch_for(rshi_comm_cache *k, int64_t scratch) {
    while (k->bindings.n && k->scratch + scratch > RSHI_CACHE_SCRATCH) rshi_lru_drop(&k->bindings, k->bindings.oldest);
    k->scratch += scratch;
}

rshi_cached_binding *rshi_cached_binding_new(uint64_t key, rsh_exec *exec, uint64_t serial) {
    rshi_cached_binding *b = RSHI_NEW(rshi_cached_binding);
    if (b) *b = (rshi_cached_binding){.entry = {.key = key}, .exec = exec, .serial = serial};
    return b;
}

void rshi_cached_binding_lend(rshi_comm_cache *k, rshi_cached_binding *b) {
    rshi_lru_take(&k->bindings, &b->entry);
    k->scratch -= rshi_exec_scratch(b->exec);
}

void rshi_cached_binding_return(rshi_comm_cache *k, rshi_cached_binding *b) {
    free_scratch_for(k, rshi_exec_scratch(b->exec));
    /* without memory for the table entry, the binding is not cached */
    if (rshi_lru_add(&k->bindings, &b->entry)) forget_binding(&b->entry);
}
