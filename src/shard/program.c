/* Program: from edges to moves.
 *
 * An edge is a product over dims of the runs that source and destination have in common; each combination of runs is a
 * strided move with at most two loops a dim.  Large moves are cut into slabs along their slowest dims, and slabs of all
 * moves are done in the order of the destination's memory, so that lines written by several sources are completed while
 * they are near. */
#include "shard/program.h"

#include <stdlib.h>
#include <string.h>

#define SLAB_SPAN ((int64_t)256 << 10)  /* bytes of destination that a slab spreads over */
#define SLAB_BYTES ((int64_t)16 << 10)  /* and the least that makes one worth while */
#define LINE 64                         /* bytes; as a number of elements it makes whole lines of every dtype */
#define CROSSING 256                    /* source elements that a slab of a transposing move takes in one go */

/* ---- growing lists ---- */

static rsh_status grow(void **list, int64_t n, int64_t *room, size_t size) {
    if (n < *room) return RSH_OK;
    int64_t more = *room ? 2 * *room : 16;
    while (more <= n) more *= 2;
    void *grown = rshi_realloc(*list, (size_t)more, size);
    if (!grown) return rshi_nomem();
    *list = grown;
    *room = more;
    return RSH_OK;
}

void rshi_program_free(rshi_program *g) {
    rshi_free(g->tasks);
    rshi_free(g->sources);
    rshi_free(g->strides);
    rshi_free(g->slabs);
    *g = (rshi_program){0};
}

/* ---- edges to tasks ---- */

/* A piece in memory: its part's number, where it starts and how it steps, in bytes. */
typedef struct placed {
    int64_t part, base, strides[RSH_MAX_NDIM];
} placed;

typedef struct adding {
    rshi_program *g;
    const rshi_finder *finder;
    int64_t rank;
    const rshi_edge *e;
    int ndim;
    rshi_runs runs[RSH_MAX_NDIM];
    const rshi_run *at[RSH_MAX_NDIM]; /* the combination at hand */
    placed dst, *src;
} adding;

static rsh_status place(const adding *a, const rsh_layout *l, const rshi_piece *p, bool dst, rsh_dtype dtype,
                        placed *out) {
    const int64_t *S;
    int64_t size = (int64_t)rsh_dtype_size(dtype);
    RSH_TRY(a->finder->find(a->finder->ctx, p->rank, dst, a->e->tensor, p->part, &out->part, &S));
    rshi_piece_place(l, p, S, &out->base, out->strides);
    out->base *= size;
    for (int d = 0; d < a->ndim; d++) out->strides[d] *= size;
    return RSH_OK;
}

/* Loops of one side: for each dim the repeated runs, then the indices of a run. */
static void lay_loops(const adding *a, const placed *p, bool source, int64_t *n, int64_t *strides, int64_t *offset) {
    bool by_dst = !source || a->e->from_dst; /* a slice read from a peer's destination lies as in ours */
    *offset = p->base;
    for (int d = 0; d < a->ndim; d++) {
        const rshi_run *r = a->at[d];
        *offset += (by_dst ? r->ib : r->ia) * p->strides[d];
        strides[2 * d] = (by_dst ? r->db : r->da) * p->strides[d];
        strides[2 * d + 1] = p->strides[d];
        if (n) n[2 * d] = r->count, n[2 * d + 1] = r->len;
    }
}

static void count_bytes(adding *a, const rshi_move *m, int64_t elements) {
    a->g->footprint += (size_t)elements * rsh_dtype_size(m->to);
    for (int64_t i = 0; i < a->e->nsrc; i++) {
        uint64_t bytes = (uint64_t)elements * rsh_dtype_size(m->from);
        if (a->e->src[i].rank == a->rank)
            a->g->bytes_local += bytes;
        else
            a->g->bytes_shared += bytes;
    }
}

static rsh_status add_sources(adding *a) {
    rshi_program *g = a->g;
    for (int64_t i = 0; i < a->e->nsrc; i++) {
        int64_t room = g->sources_room;
        RSH_TRY(grow((void **)&g->sources, g->nsources, &g->sources_room, sizeof *g->sources));
        if (room != g->sources_room || !g->strides) {
            int64_t *grown = rshi_realloc(g->strides, (size_t)g->sources_room, RSHI_MOVE_DIMS * sizeof *grown);
            if (!grown) return rshi_nomem();
            g->strides = grown;
        }
        rshi_source *s = &g->sources[g->nsources];
        s->part = a->src[i].part;
        lay_loops(a, &a->src[i], true, NULL, g->strides + g->nsources++ * RSHI_MOVE_DIMS, &s->offset);
    }
    g->most_sources = rshi_max(g->most_sources, a->e->nsrc);
    return RSH_OK;
}

/* One combination of runs becomes one task. */
static rsh_status add_task(adding *a) {
    rshi_program *g = a->g;
    RSH_TRY(grow((void **)&g->tasks, g->ntasks, &g->tasks_room, sizeof *g->tasks));
    rshi_task *t = &g->tasks[g->ntasks];
    *t = (rshi_task){.stage = a->e->stage, .part = a->dst.part, .first_source = g->nsources};
    rshi_move *m = &t->move;
    *m = (rshi_move){.nd = 2 * a->ndim, .nsrc = (int)a->e->nsrc, .from = a->e->src_dtype, .to = a->e->dst_dtype};
    m->op = a->e->nsrc > 1 ? a->e->op : RSH_OP_NONE;
    m->divisor = a->e->divisor;
    lay_loops(a, &a->dst, false, m->n, m->ds, &t->offset);
    if (!a->e->nsrc) rshi_op_identity(a->e->op, m->to, m->value);
    RSH_TRY(add_sources(a));
    int64_t elements = 1;
    for (int i = 0; i < m->nd; i++) elements *= m->n[i];
    count_bytes(a, m, elements);
    g->ntasks++;
    return RSH_OK;
}

static rsh_status combine_runs(adding *a, int d) {
    if (d == a->ndim) return add_task(a);
    for (int64_t i = 0; i < a->runs[d].n; i++) {
        a->at[d] = &a->runs[d].run[i];
        RSH_TRY(combine_runs(a, d + 1));
    }
    return RSH_OK;
}

static rsh_status list_runs(adding *a) {
    for (int d = 0; d < a->ndim; d++) {
        a->runs[d].n = 0;
        RSH_TRY(rshi_stripe_overlap(&a->e->with->set[d], &a->e->dst->set[d], a->e->lo[d], a->e->hi[d], &a->runs[d]));
        if (!a->runs[d].n) break; /* nothing in common: no task */
    }
    return RSH_OK;
}

static rsh_status place_sources(adding *a) {
    placed *grown = rshi_realloc(a->src, (size_t)rshi_max(a->e->nsrc, 1), sizeof *grown);
    if (!grown) return rshi_nomem();
    a->src = grown;
    for (int64_t i = 0; i < a->e->nsrc; i++)
        RSH_TRY(place(a, a->e->src_layout, &a->e->src[i], a->e->from_dst, a->e->src_dtype, &a->src[i]));
    return RSH_OK;
}

static rsh_status add_edge(void *ctx, const rshi_edge *e) {
    adding *a = ctx;
    a->e = e;
    a->ndim = rsh_layout_ndim(e->dst_layout);
    RSH_REQUIRE(e->nsrc <= INT32_MAX, RSH_EUNSUP, "a reduction over %lld contributions", (long long)e->nsrc);
    if (!rshi_edge_count(e) || (a->finder->wants && !a->finder->wants(a->finder->ctx, e))) return RSH_OK;
    RSH_TRY(list_runs(a));
    RSH_TRY(place(a, e->dst_layout, e->dst, true, e->dst_dtype, &a->dst));
    RSH_TRY(place_sources(a));
    return combine_runs(a, 0);
}

static void adding_end(adding *a) {
    for (int d = 0; d < RSH_MAX_NDIM; d++) rshi_free(a->runs[d].run);
    rshi_free(a->src);
}

rsh_status rshi_program_add_edge(rshi_program *g, int64_t rank, const rshi_finder *finder, const rshi_edge *e) {
    adding a = {.g = g, .finder = finder, .rank = rank};
    rsh_status st = add_edge(&a, e);
    adding_end(&a);
    return st;
}

rsh_status rshi_program_add(rshi_program *g, const rsh_plan *plan, int64_t rank, const rshi_finder *finder) {
    adding a = {.g = g, .finder = finder, .rank = rank};
    rsh_status st = rshi_plan_receives(plan, rank, add_edge, &a);
    adding_end(&a);
    return st;
}

/* ---- slabs ---- */

/* The first dim whose steps fit into a slab's span, as far as the kernel allows. */
static int slab_dim(const rshi_move *m) {
    int d = 0;
    while (d < m->split && llabs(m->ds[d]) > SLAB_SPAN / 2) d++;
    return d;
}

/* Does the source walk along dim d within cache lines?  Then a slab takes whole lines of it. */
static bool crosses(const rshi_move *m, int d) { return d < m->nd - 1 && m->nsrc && llabs(m->ss[d]) < LINE; }

static int64_t slab_length(const rshi_move *m, int d) {
    int64_t inner = (int64_t)rsh_dtype_size(m->to), step = rshi_max(1, llabs(m->ds[d]));
    for (int i = d + 1; i < m->nd; i++) inner *= m->n[i];
    int64_t n = rshi_max(SLAB_SPAN / step, rshi_ceil_div(SLAB_BYTES, inner));
    int64_t crossing = rshi_max(CROSSING, m->grain);
    if (crosses(m, d)) return rshi_max(n / crossing, 1) * crossing;
    return d == m->nd - 1 && n > LINE ? n / LINE * LINE : rshi_max(n, 1);
}

/* Byte offset, along strides, of combined index `outer` over dims 0..first-1. */
static int64_t outer_offset(const rshi_move *m, const int64_t *strides, int first, int64_t outer) {
    int64_t offset = 0;
    for (int d = first - 1; d >= 0; d--) {
        offset += outer % m->n[d] * strides[d];
        outer /= m->n[d];
    }
    return offset;
}

static rsh_status add_slab(rshi_program *g, rshi_slab s) {
    RSH_TRY(grow((void **)&g->slabs, g->nslabs, &g->slabs_room, sizeof *g->slabs));
    g->slabs[g->nslabs++] = s;
    return RSH_OK;
}

static rsh_status cut_task(rshi_program *g, int64_t task) {
    const rshi_task *t = &g->tasks[task];
    const rshi_move *m = &t->move;
    if (m->kernel == RSHI_KERNEL_NONE) return RSH_OK;
    if (!m->nd) return add_slab(g, (rshi_slab){task, t->offset, 0, 0, 1, 0});
    int d = slab_dim(m);
    int64_t outer = 1, length = slab_length(m, d);
    for (int i = 0; i < d; i++) outer *= m->n[i];
    for (int64_t o = 0; o < outer; o++) {
        int64_t base = t->offset + outer_offset(m, m->ds, d, o);
        for (int64_t i = 0; i < m->n[d]; i += length)
            RSH_TRY(add_slab(g, (rshi_slab){task, base + i * m->ds[d], o, i, rshi_min(i + length, m->n[d]), d}));
    }
    return RSH_OK;
}

static int by_destination(const void *a, const void *b, void *ctx) {
    const rshi_slab *x = a, *y = b;
    const rshi_task *s = &((const rshi_task *)ctx)[x->task], *t = &((const rshi_task *)ctx)[y->task];
    if (s->stage != t->stage) return s->stage - t->stage;
    if (s->part != t->part) return s->part < t->part ? -1 : 1;
    if (x->dst != y->dst) return x->dst < y->dst ? -1 : 1;
    return (x->task > y->task) - (x->task < y->task);
}

static void mark_stages(rshi_program *g) {
    int64_t i = 0;
    for (int s = 0; s <= RSHI_STAGES; s++) {
        while (i < g->nslabs && g->tasks[g->slabs[i].task].stage < s) i++;
        g->stage_start[s] = i;
    }
}

rsh_status rshi_program_finish(rshi_program *g) {
    for (int64_t i = 0; i < g->ntasks; i++) {
        rshi_task *t = &g->tasks[i];
        t->move.ss = t->move.nsrc ? g->strides + t->first_source * RSHI_MOVE_DIMS : NULL;
        rshi_move_prepare(&t->move, g->footprint);
        g->kernels[t->move.kernel]++;
        RSH_TRY(cut_task(g, i));
    }
    if (g->nslabs) qsort_r(g->slabs, (size_t)g->nslabs, sizeof *g->slabs, by_destination, g->tasks);
    mark_stages(g);
    return RSH_OK;
}

/* ---- running ---- */

void rshi_slab_run(const rshi_program *g, const rshi_slab *s, char *const *base, const char **pointers) {
    const rshi_task *t = &g->tasks[s->task];
    const rshi_move *m = &t->move;
    const rshi_source *src = g->sources + t->first_source;
    for (int i = 0; i < m->nsrc; i++) {
        pointers[i] = base[src[i].part] + src[i].offset;
        if (s->first) pointers[i] += outer_offset(m, m->ss + (int64_t)i * RSHI_MOVE_DIMS, s->first, s->outer);
    }
    char *dst = base[t->part] + t->offset + (s->first ? outer_offset(m, m->ds, s->first, s->outer) : 0);
    rshi_move_run(m, s->first, s->i0, s->i1, dst, pointers);
}
