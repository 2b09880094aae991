/* Reshard: one-shot moves of sharded tensors. */
#include "plan/plan.h"
#include "shard/shard.h"

/* A move of n tensors on one comm. */
typedef struct moving {
    rsh_comm *comm;
    int64_t n;
    const rsh_sharded *const *src;
    rsh_sharded **dst; /* made by the move where NULL */
    const rsh_layout **from, **to;
    const rsh_plan *plan;
    rsh_memory *memory[2]; /* owned: sources, destinations */
} moving;

static int64_t count_parts(int64_t n, const rsh_sharded *const *list) {
    int64_t parts = 0;
    for (int64_t t = 0; t < n; t++) parts += list[t]->nparts;
    return parts;
}

static rsh_memory *list_memory(int64_t n, const rsh_sharded *const *list) {
    rsh_memory *memory = rshi_calloc((size_t)count_parts(n, list), sizeof *memory), *next = memory;
    for (int64_t t = 0; memory && t < n; t++) {
        rshi_sharded_memory(list[t], next);
        next += list[t]->nparts;
    }
    return memory;
}

/* Everything that needs no other rank: the plan, the new tensors, the lists of memory. */
static rsh_status prepare(moving *m, const rsh_plan_opts *opts) {
    for (int64_t t = 0; t < m->n; t++)
        RSH_REQUIRE(m->src[t]->comm == m->comm, RSH_EVALUE, "tensor %lld lives on another comm than tensor 0",
                    (long long)t);
    RSH_TRY(rshi_plan_cached(m->comm, m->n, m->from, m->to, opts, &m->plan));
    for (int64_t t = 0; t < m->n; t++)
        if (!m->dst[t]) RSH_TRY(rsh_sharded_empty(m->comm, m->to[t], &m->dst[t]));
    m->memory[0] = list_memory(m->n, m->src);
    m->memory[1] = list_memory(m->n, (const rsh_sharded *const *)m->dst);
    return m->memory[0] && m->memory[1] ? RSH_OK : rshi_nomem();
}

static rsh_status run_once(moving *m) {
    rsh_exec *e;
    RSH_TRY(rsh_exec_bind(m->plan, m->comm, m->memory[0], m->memory[1], &e));
    rsh_status st = rsh_exec_run(e);
    rsh_exec_free(e);
    return st;
}

/* Destinations that were there before have changed. */
static void bump(const moving *m) {
    for (int64_t t = 0; t < m->n; t++)
        for (int64_t i = 0; i < m->dst[t]->nparts; i++) rsh_tensor_bump(m->dst[t]->part[i]);
}

static rsh_status move(moving *m, const char *name, const rsh_plan_opts *opts) {
    rsh_status st = prepare(m, opts);
    st = rshi_comm_open(m->comm, name, m->plan ? rsh_plan_fingerprint(m->plan) : 0,
                        m->n ? rsh_layout_text(m->to[0]) : "", st);
    if (!st) st = run_once(m);
    if (!st) bump(m);
    rshi_free(m->memory[0]);
    rshi_free(m->memory[1]);
    return st;
}

/* The layouts of both sides in one block. */
static rsh_status list_layouts(moving *m, const rsh_layout *const *to) {
    m->from = rshi_alloc((size_t)(2 * m->n + 1), sizeof *m->from);
    if (!m->from) return rshi_nomem();
    m->to = m->from + m->n;
    for (int64_t t = 0; t < m->n; t++) m->from[t] = m->src[t]->layout, m->to[t] = to ? to[t] : m->dst[t]->layout;
    return RSH_OK;
}

/* A refusal before there is anything to agree on still has to be told to the others. */
static rsh_status refuse(rsh_comm *comm, const char *name, rsh_status st) {
    return rshi_comm_open(comm, name, 0, "", st);
}

/* Where nothing would change and the caller allows it: the same memory under another tensor. */
static rsh_status alias(const rsh_sharded *src, rsh_sharded **out) {
    rsh_memory *memory = list_memory(1, &src);
    rsh_sharded *s = NULL;
    rsh_status st = memory ? rsh_sharded_wrap(src->comm, src->layout, memory, &s) : rshi_nomem();
    for (int64_t i = 0; i < src->nparts && !st; i++) {
        const rsh_tensor *t = src->part[i];
        rsh_tensor_free(s->part[i]);
        s->part[i] = NULL;
        st = rsh_tensor_view(t, 0, rsh_tensor_ndim(t), rsh_tensor_shape(t), rsh_tensor_strides(t), &s->part[i]);
    }
    rshi_free(memory);
    st = rshi_comm_open(src->comm, "reshard", rsh_layout_hash(src->layout), rsh_layout_text(src->layout), st);
    if (st)
        rsh_sharded_free(s);
    else
        *out = s;
    return st;
}

/* Is everything there that the call is about? */
static rsh_status check(int64_t n, const rsh_sharded *const *src, const rsh_layout *const *to,
                        const rsh_plan_opts *opts, rsh_sharded **out, rsh_plan_opts *o) {
    RSH_REQUIRE(to && out, RSH_EVALUE, "reshard needs a layout and a place for the result");
    for (int64_t t = 0; t < n; t++)
        RSH_REQUIRE(src[t] && to[t], RSH_EVALUE, "tensor %lld, or its layout, is NULL", (long long)t);
    return rshi_plan_opts_take(opts, o);
}

rsh_status rsh_reshard_many(int64_t n, const rsh_sharded *const *src, const rsh_layout *const *to,
                            const rsh_plan_opts *opts, rsh_sharded **out) {
    rsh_plan_opts o;
    RSH_REQUIRE(n > 0 && src && src[0], RSH_EVALUE, "reshard needs at least one tensor");
    rsh_status bad = check(n, src, to, opts, out, &o);
    if (bad) return refuse(src[0]->comm, "reshard", bad);
    if (n == 1 && o.may_alias && rsh_layout_equal(src[0]->layout, to[0])) return alias(src[0], out);
    moving m = {.comm = src[0]->comm, .n = n, .src = src};
    rsh_status st = RSH_OK;
    m.dst = rshi_calloc((size_t)n, sizeof(rsh_sharded *));
    if (!m.dst || list_layouts(&m, to)) {
        st = refuse(m.comm, "reshard", RSH_ENOMEM);
        goto out;
    }
    st = move(&m, "reshard", opts);
    for (int64_t t = 0; t < n && !st; t++) out[t] = m.dst[t], m.dst[t] = NULL;
out:
    for (int64_t t = 0; m.dst && t < n; t++) rsh_sharded_free(m.dst[t]);
    rshi_free(m.dst);
    rshi_free(m.from);
    return st;
}

rsh_status rsh_reshard(const rsh_sharded *src, const rsh_layout *to, const rsh_plan_opts *opts, rsh_sharded **out) {
    return rsh_reshard_many(1, &src, &to, opts, out);
}

rsh_status rshi_reshard_as(rsh_comm *comm, const char *name, rsh_status ready, const rsh_sharded *src, rsh_sharded *dst,
                           const rsh_plan_opts *opts) {
    moving m = {.comm = comm, .n = 1, .src = &src, .dst = &dst};
    if (!ready) ready = list_layouts(&m, NULL);
    rsh_status st = ready ? refuse(comm, name, ready) : move(&m, name, opts);
    rshi_free(m.from);
    return st;
}

static rsh_status check_into(const rsh_sharded *src, const rsh_sharded *dst) {
    RSH_REQUIRE(dst, RSH_EVALUE, "reshard_into needs a destination");
    RSH_REQUIRE(dst->comm == src->comm, RSH_EVALUE, "source and destination live on different comms");
    return RSH_OK;
}

rsh_status rsh_reshard_into(const rsh_sharded *src, rsh_sharded *dst, const rsh_plan_opts *opts) {
    RSH_REQUIRE(src, RSH_EVALUE, "reshard_into needs a source");
    return rshi_reshard_as(src->comm, "reshard_into", check_into(src, dst), src, dst, opts);
}

/* ---- a whole tensor on one rank ---- */

static rsh_status wrap_whole(rsh_comm *comm, const rsh_layout *like, int root, const rsh_memory *whole,
                             rsh_sharded **out) {
    rsh_layout *l = NULL;
    RSH_REQUIRE(root >= 0 && root < comm->size, RSH_EVALUE, "root is rank %d; the comm has ranks 0 to %d", root,
                comm->size - 1);
    RSH_TRY(rsh_layout_whole(rsh_layout_dtype(like), rsh_layout_ndim(like), rsh_layout_shape(like), root, &l));
    rsh_status st = rsh_sharded_wrap(comm, l, comm->rank == root ? whole : NULL, out);
    rsh_layout_free(l);
    return st;
}

rsh_status rsh_gather(const rsh_sharded *src, int root, const rsh_memory *whole) {
    RSH_REQUIRE(src, RSH_EVALUE, "gather needs a sharded tensor");
    rsh_sharded *dst = NULL;
    moving m = {.comm = src->comm, .n = 1, .src = &src, .dst = &dst};
    rsh_status st = wrap_whole(src->comm, src->layout, root, whole, &dst);
    if (!st) st = list_layouts(&m, NULL);
    st = st ? refuse(src->comm, "gather", st) : move(&m, "gather", NULL);
    rshi_free(m.from);
    rsh_sharded_free(dst);
    return st;
}

rsh_status rsh_sharded_scatter(rsh_comm *comm, const rsh_layout *layout, int root, const rsh_memory *whole,
                               rsh_sharded **out) {
    RSH_REQUIRE(comm, RSH_EVALUE, "scatter needs a comm");
    if (!layout || !out)
        return refuse(comm, "scatter", rshi_fail(RSH_EVALUE, "scatter needs a layout and a place for the result"));
    rsh_sharded *src = NULL, *dst = NULL;
    rsh_status st = wrap_whole(comm, layout, root, whole, &src);
    if (!st) st = rsh_sharded_empty(comm, layout, &dst);
    moving m = {.comm = comm, .n = 1, .src = (const rsh_sharded *const *)&src, .dst = &dst};
    if (!st) st = list_layouts(&m, NULL);
    st = st ? refuse(comm, "scatter", st) : move(&m, "scatter", NULL);
    if (!st) *out = dst, dst = NULL;
    rshi_free(m.from);
    rsh_sharded_free(src);
    rsh_sharded_free(dst);
    return st;
}
