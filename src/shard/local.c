/* Local: performs the moves of all ranks for one caller, which has the memory of all parts. */
#include "shard/memory.h"
#include "shard/program.h"

#define AT_ONCE 16 /* most slabs that a worker takes at a time */
#define TASKS_EACH   16 /* tasks per worker, if there are enough slabs */

/* Parts of one side of one tensor: first[i] is the number of the i-th rank's first part. */
typedef struct side {
    const rsh_layout *l;
    int64_t *first; /* owned: [nranks + 1] */
} side;

struct rsh_local_exec {
    rsh_pool *pool;
    rshi_program program;
    side *sides;     /* owned: [2 * tensors], source then destination */
    int64_t nsides;
    rshi_taken_part *part; /* owned: the parts by number, all sources first, then all destinations */
    char **base;     /* owned: the address of each part, by number */
    int64_t nparts;
    char *scratch;   /* owned: memory in which ranks combine for their nodes, by tensor, then by rank */
    int64_t scratch_bytes;
    const int64_t *rank; /* borrowed from the plan during the bind: its ranks, ascending */
    int64_t nranks;
    const char **pointers; /* owned: most_sources pointers for each worker */
};

static rsh_status number_side(side *s, const rsh_layout *l, int64_t *next) {
    int64_t n = rsh_layout_nranks(l);
    s->l = l;
    s->first = rshi_alloc((size_t)n + 1, sizeof *s->first);
    if (!s->first) return rshi_nomem();
    for (int64_t i = 0; i < n; i++) {
        s->first[i] = *next;
        *next += rsh_layout_nparts(l, rsh_layout_rank(l, i));
    }
    s->first[n] = *next;
    return RSH_OK;
}

static int64_t count_scratch(const rsh_plan *plan) {
    return rshi_plan_has_scratch(plan) ? rsh_plan_ntensors(plan) * rsh_plan_nranks(plan) : 0;
}

/* Numbers the sources of all tensors first, then the destinations. */
static rsh_status number_sides(rsh_local_exec *l, const rsh_plan *plan) {
    int64_t n = rsh_plan_ntensors(plan);
    l->nsides = 2 * n;
    l->sides = rshi_calloc((size_t)l->nsides, sizeof *l->sides);
    if (!l->sides) return rshi_nomem();
    for (int64_t t = 0; t < n; t++) RSH_TRY(number_side(&l->sides[2 * t], rshi_plan_src(plan, t), &l->nparts));
    for (int64_t t = 0; t < n; t++) RSH_TRY(number_side(&l->sides[2 * t + 1], rshi_plan_dst(plan, t), &l->nparts));
    l->part = rshi_calloc((size_t)l->nparts, sizeof *l->part);
    l->base = rshi_calloc((size_t)(l->nparts + count_scratch(plan)), sizeof *l->base);
    return l->part && l->base ? RSH_OK : rshi_nomem();
}

/* ---- scratch: numbered after the parts, by tensor, then by the index of the rank in the plan's list ---- */

static int64_t scratch_number(const rsh_local_exec *l, int64_t tensor, int64_t rank) {
    return l->nparts + tensor * l->nranks + rshi_find(l->rank, l->nranks, sizeof *l->rank, rank);
}

/* Computes the offset of each rank's scratch, stored as an address relative to NULL, and the total size. */
static rsh_status place_scratch(rsh_local_exec *l, const rsh_plan *plan) {
    for (int64_t t = 0; t < rsh_plan_ntensors(plan); t++)
        for (int64_t i = 0; i < l->nranks; i++) {
            int64_t count;
            RSH_TRY(rshi_plan_scratch(plan, t, l->rank[i], &count));
            l->base[scratch_number(l, t, l->rank[i])] = (char *)rshi_scratch_start(l->scratch_bytes);
            rsh_dtype dtype = rshi_accumulator(rsh_layout_dtype(rshi_plan_src(plan, t)));
            l->scratch_bytes = rshi_scratch_end(l->scratch_bytes, count, dtype);
        }
    return RSH_OK;
}

static rsh_status take_scratch(rsh_local_exec *l, const rsh_plan *plan) {
    if (!rshi_plan_has_scratch(plan)) return RSH_OK;
    RSH_TRY(place_scratch(l, plan));
    if (!l->scratch_bytes) return RSH_OK;
    l->scratch = rshi_alloc_scratch((size_t)l->scratch_bytes);
    if (!l->scratch) return rshi_nomem();
    for (int64_t k = l->nparts, end = k + count_scratch(plan); k < end; k++)
        l->base[k] = l->scratch + (intptr_t)l->base[k];
    return RSH_OK;
}

/* Lists the parts of a side; `memory` begins with part number `skip`. */
static rsh_status take_side(rsh_local_exec *l, const side *s, const rsh_memory *memory, int64_t skip, bool dst,
                            rshi_extent *extent) {
    for (int64_t i = 0; i < rsh_layout_nranks(s->l); i++) {
        int64_t rank = rsh_layout_rank(s->l, i);
        for (int64_t k = s->first[i]; k < s->first[i + 1]; k++) {
            l->part[k] = (rshi_taken_part){.layout = s->l, .rank = rank, .number = k - s->first[i]};
            RSH_TRY(rshi_taken_part_fill(l->part, k, memory ? &memory[k - skip] : NULL, dst, extent));
            l->base[k] = l->part[k].memory.data;
        }
    }
    return RSH_OK;
}

static rsh_status take_all_memory(rsh_local_exec *l, const rsh_memory *src, const rsh_memory *dst) {
    int64_t nsrc = l->nsides ? l->sides[1].first[0] : 0;
    rshi_extent *extent = rshi_calloc((size_t)l->nparts, sizeof *extent);
    rsh_status st = extent ? RSH_OK : rshi_nomem();
    for (int64_t i = 0; i < l->nsides && !st; i++)
        st = take_side(l, &l->sides[i], i % 2 ? dst : src, i % 2 ? nsrc : 0, i % 2, extent);
    if (!st) st = rshi_extents_check(extent, l->nparts, &(rshi_extent_owner){rshi_taken_part_lattice, l->part});
    rshi_free(extent);
    return st;
}

static rshi_location find_location(const rsh_local_exec *l, int64_t tensor, const rsh_transfer_end *end) {
    static const int64_t dense[1] = {1};
    if (end->in_scratch) return (rshi_location){scratch_number(l, tensor, end->rank), dense};
    const side *s = &l->sides[2 * tensor + end->in_dst];
    int64_t number = s->first[rshi_layout_ordinal(s->l, end->rank)] + end->part;
    return (rshi_location){number, l->part[number].memory.strides};
}

/* The locations of the sources of the current transfer. */
typedef struct sources {
    rshi_location *at; /* owned */
    int64_t room;
} sources;

static rsh_status add_transfers(rsh_local_exec *l, const rsh_transfer *list, int64_t n, sources *src) {
    for (int64_t i = 0; i < n; i++) {
        const rsh_transfer *t = &list[i];
        RSH_TRY(RSHI_GROW(src->at, t->nsrc, &src->room));
        for (int64_t k = 0; k < t->nsrc; k++) src->at[k] = find_location(l, t->tensor, &t->src[k]);
        rshi_location dst = find_location(l, t->tensor, &t->dst);
        RSH_TRY(rshi_program_add(&l->program, t, &dst, src->at));
    }
    return RSH_OK;
}

/* Adds the share of every rank, one after the other. */
static rsh_status add_shares(rsh_local_exec *l, const rsh_plan *plan) {
    sources src = {0};
    int64_t n;
    const int64_t *ranks = rshi_plan_ranks(plan, &n);
    rsh_status st = RSH_OK;
    for (int64_t i = 0; i < n && !st; i++) {
        rsh_share *share = NULL;
        st = rshi_plan_share(plan, ranks[i], RSHI_SENDS_NONE, &share);
        if (!st) st = add_transfers(l, share->copies, share->ncopies, &src);
        if (!st) st = add_transfers(l, share->receives, share->nreceives, &src);
        rsh_share_free(share);
    }
    rshi_free(src.at);
    return st;
}

static rsh_status compile_local(rsh_local_exec *l, const rsh_plan *plan) {
    RSH_TRY(add_shares(l, plan));
    RSH_TRY(rshi_program_finish(&l->program, 1));
    size_t workers = l->pool ? (size_t)rsh_pool_size(l->pool) : 1;
    l->pointers = rshi_alloc(workers, (size_t)rshi_max(l->program.most_sources, 1) * sizeof *l->pointers);
    return l->pointers ? RSH_OK : rshi_nomem();
}

rsh_status rsh_local_exec_bind(const rsh_plan *plan, rsh_pool *pool, const rsh_memory *src, const rsh_memory *dst,
                               rsh_local_exec **out) {
    RSH_NEEDS(plan);
    RSH_NEEDS(out);
    RSH_TRY(rshi_settings_check());
    rsh_local_exec *l = RSHI_NEW(rsh_local_exec);
    if (!l) return rshi_nomem();
    rsh_status st;
    l->pool = pool;
    l->rank = rshi_plan_ranks(plan, &l->nranks);
    RSH_GOTO(number_sides(l, plan));
    RSH_GOTO(take_all_memory(l, src, dst));
    RSH_GOTO(take_scratch(l, plan));
    RSH_GOTO(compile_local(l, plan));
    *out = l;
    l = NULL;
out:
    rsh_local_exec_free(l);
    return st;
}

typedef struct stage {
    const rsh_local_exec *l;
    int64_t start, end, at_once; /* range of slabs, and the number of slabs to take at a time */
} stage;

static void run_slabs(void *ctx, int64_t i, int worker) {
    const stage *s = ctx;
    const rshi_program *g = &s->l->program;
    int64_t start = s->start + i * s->at_once, end = rshi_min(start + s->at_once, s->end);
    rshi_slabs_run(g, start, end, s->l->base, s->l->pointers + worker * rshi_max(g->most_sources, 1));
    rshi_copy_fence();
}

rsh_status rsh_local_exec_run(rsh_local_exec *l) {
    RSH_NEEDS(l);
    int64_t tasks = TASKS_EACH * (l->pool ? rsh_pool_size(l->pool) : 1);
    for (int s = 0; s < RSHI_STAGES; s++) {
        stage now = {l, l->program.stage_start[s], l->program.stage_start[s + 1], 1};
        now.at_once = rshi_max(1, rshi_min((now.end - now.start) / tasks, AT_ONCE));
        int64_t n = rshi_ceil_div(now.end - now.start, now.at_once);
        if (l->pool)
            rsh_pool_run(l->pool, n, run_slabs, &now);
        else
            for (int64_t i = 0; i < n; i++) run_slabs(&now, i, 0);
    }
    return RSH_OK;
}

void rsh_local_exec_free(rsh_local_exec *l) {
    if (!l) return;
    rshi_program_free(&l->program);
    if (l->scratch) rshi_free_scratch(l->scratch, (size_t)l->scratch_bytes);
    for (int64_t i = 0; l->sides && i < l->nsides; i++) rshi_free(l->sides[i].first);
    rshi_free(l->sides);
    rshi_free(l->part);
    rshi_free(l->base);
    rshi_free(l->pointers);
    rshi_free(l);
}

rsh_status rsh_plan_run_local(const rsh_plan *plan, rsh_pool *pool, const rsh_memory *src, const rsh_memory *dst) {
    rsh_local_exec *l;
    RSH_TRY(rsh_local_exec_bind(plan, pool, src, dst, &l));
    rsh_status st = rsh_local_exec_run(l);
    rsh_local_exec_free(l);
    return st;
}
