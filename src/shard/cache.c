/* Cache: the last few plans of a comm, so that a loop of one-shot moves plans once. */
#include "plan/plan.h"
#include "shard/shard.h"

#define SLOTS 16

typedef struct slot {
    uint64_t key;
    uint64_t used; /* when, in uses of the cache */
    rsh_plan *plan;
} slot;

typedef struct plan_cache {
    uint64_t uses;
    slot slots[SLOTS];
} plan_cache;

static void cache_free(void *ctx) {
    plan_cache *c = ctx;
    for (int i = 0; i < SLOTS; i++) rsh_plan_free(c->slots[i].plan);
    rshi_free(c);
}

static uint64_t mix(uint64_t h, uint64_t x) { return rshi_hash(&x, sizeof x, h); }

static uint64_t key_of(int64_t n, const rsh_layout *const *from, const rsh_layout *const *to, const rsh_plan_opts *o) {
    uint64_t h = mix(1, (uint64_t)n);
    for (int64_t t = 0; t < n; t++) h = mix(mix(h, rsh_layout_hash(from[t])), rsh_layout_hash(to[t]));
    if (o->node_of) h = rshi_hash(o->node_of, (size_t)o->nnode_of * sizeof *o->node_of, h);
    h = mix(mix(h, (uint64_t)o->ranks_per_node), o->has_max_scratch ? o->max_scratch_bytes + 1 : 0);
    return mix(mix(h, (uint64_t)o->reduce), (uint64_t)o->messages + 1);
}

/* Hashes may collide; texts do not.  Options are trusted to their hash. */
static bool is_for(const rsh_plan *p, int64_t n, const rsh_layout *const *from, const rsh_layout *const *to) {
    if (rsh_plan_ntensors(p) != n) return false;
    for (int64_t t = 0; t < n; t++)
        if (!rsh_layout_equal(rsh_plan_from(p, t), from[t]) || !rsh_layout_equal(rsh_plan_to(p, t), to[t]))
            return false;
    return true;
}

static plan_cache *cache_of(rsh_comm *comm) {
    if (!comm->cache) {
        comm->cache = RSHI_NEW(plan_cache);
        comm->cache_free = cache_free;
    }
    return comm->cache;
}

rsh_status rsh_comm_plan_opts(const rsh_comm *comm, rsh_plan_opts *opts) {
    RSH_REQUIRE(comm && opts, RSH_EVALUE, "plan options from a comm need both");
    RSH_REQUIRE(opts->struct_size, RSH_EVALUE, "rsh_plan_opts has struct_size 0; start from RSH_PLAN_OPTS_INIT");
    if (!comm->node) return RSH_OK;
    opts->node_of = comm->node;
    opts->nnode_of = comm->size;
    opts->ranks_per_node = 0;
    return RSH_OK;
}

rsh_status rshi_plan_cached(rsh_comm *comm, int64_t n, const rsh_layout *const *from, const rsh_layout *const *to,
                            const rsh_plan_opts *opts, const rsh_plan **out) {
    rsh_plan_opts o;
    RSH_TRY(rshi_plan_opts_take(opts, &o));
    if (!o.node_of && !o.ranks_per_node) RSH_TRY(rsh_comm_plan_opts(comm, &o));
    plan_cache *c = cache_of(comm);
    if (!c) return rshi_nomem();
    uint64_t key = key_of(n, from, to, &o);
    slot *oldest = &c->slots[0];
    for (slot *s = c->slots; s < c->slots + SLOTS; s++) {
        if (s->plan && s->key == key && is_for(s->plan, n, from, to)) {
            s->used = ++c->uses;
            *out = s->plan;
            return RSH_OK;
        }
        if (s->used < oldest->used) oldest = s;
    }
    rsh_plan *made;
    RSH_TRY(rsh_plan_new_many(n, from, to, &o, &made));
    rsh_plan_free(oldest->plan);
    *oldest = (slot){key, ++c->uses, made};
    *out = made;
    return RSH_OK;
}
