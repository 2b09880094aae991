/* Reshard: one-shot moves of sharded tensors. */
#include "plan/plan.h"
#include "shard/comm_cache.h"
#include "shard/shard.h"

/* A move of n tensors on one comm.  Its lists belong to the comm and are reused. */
typedef struct moving {
    rsh_comm *comm;
    int64_t n;
    const rsh_sharded *const *src;
    rsh_sharded **dst; /* destinations; the move creates those that are NULL */
    const rsh_layout *const *to; /* layouts of the destinations; NULL: those of `dst` */
} moving;

static int64_t list_memory(int64_t n, const rsh_sharded *const *list, rsh_memory *out) {
    int64_t parts = 0;
    for (int64_t t = 0; t < n; t++) {
        if (out) rshi_sharded_memory(list[t], out + parts);
        parts += list[t]->nparts;
    }
    return parts;
}

/* Lists the layouts of both sides, first the sources. */
static const rsh_layout **list_layouts(const moving *m) {
    const rsh_layout **list =
        rshi_comm_cache_room(m->comm, RSHI_ROOM_LAYOUTS, (size_t)(2 * m->n) * sizeof(rsh_layout *));
    for (int64_t t = 0; list && t < m->n; t++) {
        list[t] = m->src[t]->layout;
        list[m->n + t] = m->to ? m->to[t] : m->dst[t]->layout;
    }
    return list;
}

/* Lists the memory of both sides, in one list. */
static rsh_status list_both(const moving *m, rsh_memory *memory[2]) {
    const rsh_sharded *const *dst = (const rsh_sharded *const *)m->dst;
    int64_t nsrc = list_memory(m->n, m->src, NULL), n = nsrc + list_memory(m->n, dst, NULL);
    memory[0] = rshi_comm_cache_room(m->comm, RSHI_ROOM_MEMORY, (size_t)n * sizeof(rsh_memory));
    if (!memory[0]) return RSH_ENOMEM;
    memory[1] = memory[0] + nsrc;
    list_memory(m->n, m->src, memory[0]);
    list_memory(m->n, dst, memory[1]);
    return RSH_OK;
}

/* Does everything that needs no other rank: makes the plan, the new tensors and the lists of memory. */
static rsh_status prepare_move(moving *m, const rsh_plan_opts *opts, const rsh_plan **plan, rsh_memory *memory[2]) {
    for (int64_t t = 0; t < m->n; t++)
        RSH_REQUIRE(m->src[t]->comm == m->comm, RSH_EVALUE,
                    "tensors must use one comm: tensor %lld uses another one than tensor 0",
                    (long long)t);
    const rsh_layout **layouts = list_layouts(m);
    if (!layouts) return RSH_ENOMEM;
    RSH_TRY(rshi_plan_cached(m->comm, m->n, layouts, layouts + m->n, opts, plan));
    for (int64_t t = 0; t < m->n; t++)
        if (!m->dst[t]) RSH_TRY(rsh_sharded_empty(m->comm, layouts[m->n + t], &m->dst[t]));
    return list_both(m, memory);
}

/* Bumps the versions of the destinations. */
static void bump_versions(const moving *m) {
    for (int64_t t = 0; t < m->n; t++)
        for (int64_t i = 0; i < m->dst[t]->nparts; i++) rsh_tensor_bump_version(m->dst[t]->part[i]);
}

static rsh_status move_tensors(moving *m, const char *name, const rsh_plan_opts *opts) {
    const rsh_plan *plan = NULL;
    rsh_memory *memory[2] = {NULL, NULL};
    rsh_status st = prepare_move(m, opts, &plan, memory);
    st = rshi_run_cached(m->comm, name, st, plan, memory[0], memory[1]);
    if (!st) bump_versions(m);
    return st;
}

/* Reports an error of this rank to the others, before the opening exchange of the move. */
static rsh_status open_with_error(rsh_comm *comm, const char *name, rsh_status st) {
    return rshi_comm_open(comm, name, 0, "", st);
}

/* Creates a tensor on the same memory, if nothing would change and the caller allows it. */
static rsh_status alias_source(const rsh_sharded *src, rsh_sharded **out) {
    rsh_sharded *s = NULL;
    rsh_status st = rsh_sharded_from_tensors(src->comm, src->layout, src->nparts,
                                             (const rsh_tensor *const *)src->part, &s);
    st = rshi_comm_open(src->comm, "reshard", rsh_layout_hash(src->layout), rsh_layout_text(src->layout), st);
    if (st)
        rsh_sharded_free(s);
    else
        *out = s;
    return st;
}

/* Checks the arguments. */
static rsh_status check_reshard(int64_t n, const rsh_sharded *const *src, const rsh_layout *const *to,
                        const rsh_plan_opts *opts, rsh_sharded **out, rsh_plan_opts *o) {
    RSH_REQUIRE(to && out, RSH_EVALUE, "reshard: layout and out must not be NULL");
    for (int64_t t = 0; t < n; t++)
        RSH_REQUIRE(src[t] && to[t], RSH_EVALUE, "reshard: tensor %lld or its layout is NULL", (long long)t);
    return rshi_plan_opts_take(opts, o);
}

rsh_status rsh_reshard_many(int64_t n, const rsh_sharded *const *src, const rsh_layout *const *to,
                            const rsh_plan_opts *opts, rsh_sharded **out) {
    rsh_plan_opts o;
    RSH_REQUIRE(n > 0 && src && src[0], RSH_EVALUE, "reshard: at least one tensor is required");
    rsh_status bad = check_reshard(n, src, to, opts, out, &o);
    if (bad) return open_with_error(src[0]->comm, "reshard", bad);
    if (n == 1 && o.may_alias && rsh_layout_equal(src[0]->layout, to[0])) return alias_source(src[0], out);
    rsh_sharded *one = NULL;
    moving m = {.comm = src[0]->comm, .n = n, .src = src, .dst = &one, .to = to};
    if (n > 1) m.dst = rshi_calloc((size_t)n, sizeof(rsh_sharded *));
    rsh_status st = m.dst ? move_tensors(&m, "reshard", opts) : open_with_error(m.comm, "reshard", rshi_nomem());
    for (int64_t t = 0; t < n && !st; t++) out[t] = m.dst[t], m.dst[t] = NULL;
    for (int64_t t = 0; m.dst && t < n; t++) rsh_sharded_free(m.dst[t]);
    if (n > 1) rshi_free(m.dst);
    return st;
}

rsh_status rsh_reshard(const rsh_sharded *src, const rsh_layout *to, const rsh_plan_opts *opts, rsh_sharded **out) {
    return rsh_reshard_many(1, &src, &to, opts, out);
}

rsh_status rshi_reshard_as(rsh_comm *comm, const char *name, rsh_status ready, const rsh_sharded *src, rsh_sharded *dst,
                           const rsh_plan_opts *opts) {
    moving m = {.comm = comm, .n = 1, .src = &src, .dst = &dst};
    return ready ? open_with_error(comm, name, ready) : move_tensors(&m, name, opts);
}

/* Makes the plan, the new tensor and the lists of memory of an adjoint. */
static rsh_status prepare_adjoint(moving *m, const rsh_layout *from, const rsh_plan_opts *opts, const rsh_plan **plan,
                                  rsh_memory *memory[2]) {
    RSH_TRY(rshi_adjoint_cached(m->comm, from, m->to[0], opts, plan));
    RSH_TRY(rsh_sharded_empty(m->comm, from, m->dst));
    return list_both(m, memory);
}

rsh_status rshi_reshard_adjoint(rsh_comm *comm, const char *name, const rsh_sharded *src, const rsh_layout *from,
                                const rsh_layout *to, const rsh_plan_opts *opts, rsh_sharded **out) {
    rsh_sharded *made = NULL;
    const rsh_plan *plan = NULL;
    rsh_memory *memory[2] = {NULL, NULL};
    moving m = {.comm = comm, .n = 1, .src = &src, .dst = &made, .to = &to};
    rsh_status st = prepare_adjoint(&m, from, opts, &plan, memory);
    st = rshi_run_cached(comm, name, st, plan, memory[0], memory[1]);
    if (st) rsh_sharded_free(made);
    else *out = made;
    return st;
}

static rsh_status check_into(const rsh_sharded *src, const rsh_sharded *dst) {
    RSH_REQUIRE(dst, RSH_EVALUE, "reshard_into: destination is NULL");
    RSH_REQUIRE(dst->comm == src->comm, RSH_EVALUE, "reshard_into: source and destination use different comms");
    return RSH_OK;
}

rsh_status rsh_reshard_into(const rsh_sharded *src, rsh_sharded *dst, const rsh_plan_opts *opts) {
    RSH_REQUIRE(src, RSH_EVALUE, "reshard_into: source is NULL");
    return rshi_reshard_as(src->comm, "reshard_into", check_into(src, dst), src, dst, opts);
}

/* ---- a whole tensor on one rank ---- */

static rsh_status wrap_whole(rsh_comm *comm, const rsh_layout *like, int root, const rsh_memory *whole,
                             rsh_sharded **out) {
    rsh_layout *l = NULL;
    RSH_REQUIRE(root >= 0 && root < comm->size, RSH_EVALUE, "root %d is out of range; the comm has ranks 0 to %d", root,
                comm->size - 1);
    RSH_TRY(rsh_layout_whole(rsh_layout_dtype(like), rsh_layout_ndim(like), rsh_layout_shape(like), root, &l));
    rsh_status st = rsh_sharded_wrap(comm, l, comm->rank == root ? whole : NULL, out);
    rsh_layout_free(l);
    return st;
}

rsh_status rsh_sharded_gather(const rsh_sharded *src, int root, const rsh_memory *whole) {
    RSH_REQUIRE(src, RSH_EVALUE, "gather: sharded tensor is NULL");
    rsh_sharded *dst = NULL;
    moving m = {.comm = src->comm, .n = 1, .src = &src, .dst = &dst};
    rsh_status st = wrap_whole(src->comm, src->layout, root, whole, &dst);
    st = st ? open_with_error(src->comm, "gather", st) : move_tensors(&m, "gather", NULL);
    rsh_sharded_free(dst);
    return st;
}

rsh_status rsh_sharded_scatter(rsh_comm *comm, const rsh_layout *layout, int root, const rsh_memory *whole,
                               rsh_sharded **out) {
    RSH_REQUIRE(comm, RSH_EVALUE, "scatter: comm is NULL");
    if (!layout || !out)
        return open_with_error(comm, "scatter", rshi_fail(RSH_EVALUE, "scatter: layout and out must not be NULL"));
    rsh_sharded *src = NULL, *dst = NULL;
    rsh_status st = wrap_whole(comm, layout, root, whole, &src);
    if (!st) st = rsh_sharded_empty(comm, layout, &dst);
    moving m = {.comm = comm, .n = 1, .src = (const rsh_sharded *const *)&src, .dst = &dst};
    st = st ? open_with_error(comm, "scatter", st) : move_tensors(&m, "scatter", NULL);
    if (!st) *out = dst, dst = NULL;
    rsh_sharded_free(src);
    rsh_sharded_free(dst);
    return st;
}
