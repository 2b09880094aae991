/* Program: converts transfers to moves.
 *
 * A transfer is a strided move.  Large moves are cut into slabs along their slowest dims, and slabs of all moves are
 * run in the order of the destination's memory, so that cache lines written from several sources are completed while
 * they are in the cache. */
#include "shard/weave.h"

#include <stdlib.h>
#include <string.h>

#define SLAB_SPAN ((int64_t)256 << 10)  /* bytes of the destination that a slab covers */
#define SLAB_BYTES ((int64_t)16 << 10)  /* bytes of a slab, at least */
#define LINE 64                         /* bytes of a cache line; as a number of elements, whole lines of any dtype */
#define RECORDS_AHEAD 16                /* number of blocks whose records are prefetched */
#define AHEAD 4096                      /* bytes of small slabs that are prefetched ahead */

void rshi_program_free(rshi_program *g) {
    rshi_free(g->tasks);
    rshi_free(g->sources);
    rshi_free(g->strides);
    rshi_free(g->slabs);
    rshi_free(g->blocks);
    for (int64_t i = 0; i < g->nwoven; i++) rshi_free(g->woven[i]);
    rshi_free(g->woven);
    *g = (rshi_program){0};
}

/* ---- transfers to tasks ---- */

/* Converts one end of a transfer to bytes, in a part with these strides in elements. */
static void place_end(const rsh_transfer *t, const rsh_transfer_end *end, const int64_t *strides, rsh_dtype dtype,
                  int64_t *offset, int64_t *rounds) {
    int64_t size = (int64_t)rsh_dtype_size(dtype);
    rsh_transfer_offsets(t, end, strides, offset, rounds);
    *offset *= size;
    for (int i = 0; i < t->nloops; i++) rounds[i] *= size;
}

static void count_bytes(rshi_program *g, const rsh_transfer *t) {
    uint64_t bytes = (uint64_t)t->count * rsh_dtype_size(t->from);
    g->footprint += (size_t)t->count * rsh_dtype_size(t->to);
    for (int64_t i = 0; i < t->nsrc; i++)
        *(t->src[i].rank == t->dst.rank ? &g->bytes_local : &g->bytes_shared) += bytes;
}

static rsh_status add_sources(rshi_program *g, const rsh_transfer *t, const rshi_location *src) {
    const size_t bytes = RSHI_MOVE_DIMS * sizeof *g->strides;
    for (int64_t i = 0; i < t->nsrc; i++) {
        RSH_TRY(RSHI_GROW(g->sources, g->nsources + 1, &g->sources_room));
        RSH_TRY(rshi_grow((void **)&g->strides, g->nsources + 1, &g->strides_room, bytes));
        rshi_source *s = &g->sources[g->nsources];
        s->part = src[i].part;
        place_end(t, &t->src[i], src[i].strides, t->from, &s->offset, g->strides + g->nsources++ * RSHI_MOVE_DIMS);
    }
    g->most_sources = rshi_max(g->most_sources, t->nsrc);
    return RSH_OK;
}

rsh_status rshi_program_add(rshi_program *g, const rsh_transfer *t, const rshi_location *dst,
                            const rshi_location *src) {
    RSH_REQUIRE(t->nsrc <= INT32_MAX, RSH_EUNSUP, "cannot reduce %lld contributions; at most 2147483647 are supported",
                (long long)t->nsrc);
    RSH_TRY(RSHI_GROW(g->tasks, g->ntasks + 1, &g->tasks_room));
    rshi_task *task = &g->tasks[g->ntasks];
    *task = (rshi_task){.stage = t->stage, .part = dst->part, .first_source = g->nsources};
    rshi_move *m = &task->move;
    *m = (rshi_move){.nd = t->nloops, .nsrc = (int)t->nsrc, .from = t->from, .to = t->to};
    m->op = t->nsrc > 1 ? t->op : RSH_OP_NONE;
    m->divisor = t->divisor;
    for (int i = 0; i < m->nd; i++) m->n[i] = t->n[i];
    place_end(t, &t->dst, dst->strides, t->to, &task->offset, m->ds);
    if (!t->nsrc) rshi_op_identity(t->op, m->to, m->value);
    RSH_TRY(add_sources(g, t, src));
    count_bytes(g, t);
    g->ntasks++;
    return RSH_OK;
}

/* ---- slabs ---- */

/* Returns the first dim whose steps fit into a slab's span, as far as the kernel allows. */
static int slab_dim(const rshi_move *m) {
    int d = 0;
    while (d < m->split && llabs(m->ds[d]) > SLAB_SPAN / 2) d++;
    return d;
}

/* Does the source advance along dim d within cache lines?  Then a slab should cover whole lines of it. */
static bool crosses_lines(const rshi_move *m, int d) { return d < m->nd - 1 && m->nsrc && llabs(m->ss[d]) < LINE; }

static int64_t slab_length(const rshi_move *m, int d) {
    int64_t inner = (int64_t)rsh_dtype_size(m->to), step = rshi_max(1, llabs(m->ds[d]));
    for (int i = d + 1; i < m->nd; i++) inner *= m->n[i];
    int64_t n = rshi_max(SLAB_SPAN / step, rshi_ceil_div(SLAB_BYTES, inner));
    if (crosses_lines(m, d)) return rshi_max(n / m->grain, 1) * m->grain;
    return d == m->nd - 1 && n > LINE ? n / LINE * LINE : rshi_max(n, 1);
}

static rsh_status add_slab(rshi_program *g, rshi_slab s) {
    RSH_TRY(RSHI_GROW(g->slabs, g->nslabs + 1, &g->slabs_room));
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
        int64_t base = t->offset + rshi_outer_offset(m, m->ds, d, o);
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

static rshi_slab_rows block_of(const rshi_program *g, const rshi_slab *s) {
    const rshi_task *t = &g->tasks[s->task];
    rshi_slab_rows b = {.rows = rshi_move_strip(&t->move, s->first, s->i0, s->i1), .dst = (int32_t)t->part};
    if (!b.rows.rows || t->part > INT32_MAX) return (rshi_slab_rows){0}; /* this includes fills, which have no source */
    const rshi_source *src = &g->sources[t->first_source];
    if (src->part > INT32_MAX) return (rshi_slab_rows){0};
    b.src = (int32_t)src->part;
    b.rows.dst += t->offset + rshi_outer_offset(&t->move, t->move.ds, s->first, s->outer);
    b.rows.src += src->offset + rshi_outer_offset(&t->move, t->move.ss, s->first, s->outer);
    return b;
}

static rsh_status make_blocks(rshi_program *g) {
    g->blocks = rshi_alloc((size_t)g->nslabs, sizeof *g->blocks);
    if (!g->blocks) return rshi_nomem();
    for (int64_t i = 0; i < g->nslabs; i++) g->blocks[i] = block_of(g, &g->slabs[i]);
    return RSH_OK;
}

rsh_status rshi_program_finish(rshi_program *g, int64_t writers) {
    for (int64_t i = 0; i < g->ntasks; i++) {
        rshi_task *t = &g->tasks[i];
        t->move.ss = t->move.nsrc ? g->strides + t->first_source * RSHI_MOVE_DIMS : NULL;
        rshi_move_prepare(&t->move, g->footprint * (size_t)writers);
        g->stream = g->stream || t->move.stream;
        g->kernels[t->move.kernel]++;
    }
    RSH_TRY(rshi_program_weave(g));
    for (int64_t i = 0; i < g->ntasks; i++) RSH_TRY(cut_task(g, i));
    if (g->nslabs) qsort_r(g->slabs, (size_t)g->nslabs, sizeof *g->slabs, by_destination, g->tasks);
    mark_stages(g);
    return make_blocks(g);
}

/* ---- running ---- */

static void run_slab(const rshi_program *g, const rshi_slab *s, char *const *base, const char **pointers) {
    const rshi_task *t = &g->tasks[s->task];
    const rshi_move *m = &t->move;
    for (int i = 0; i < m->nsrc; i++) {
        const rshi_source *src = &g->sources[t->first_source + i];
        pointers[i] = base[src->part] + src->offset;
        if (s->first) pointers[i] += rshi_outer_offset(m, m->ss + (int64_t)i * RSHI_MOVE_DIMS, s->first, s->outer);
    }
    char *dst = base[t->part] + t->offset + (s->first ? rshi_outer_offset(m, m->ds, s->first, s->outer) : 0);
    rshi_move_run(m, s->first, s->i0, s->i1, dst, pointers);
}

/* Returns the bytes that are prefetched for a block.  A block that needs no prefetch counts as AHEAD. */
static int64_t prefetched_bytes(const rshi_program *g, const rshi_slab_rows *b) {
    int64_t bytes = b->rows.rows && g->stream ? rshi_strip_asked(&b->rows) : 0;
    return bytes ? bytes : AHEAD;
}

static void prefetch_block(const rshi_program *g, const rshi_slab_rows *b, char *const *base) {
    if (b->rows.rows && g->stream && rshi_strip_asked(&b->rows)) rshi_strip_ask(&b->rows, base[b->src]);
}

/* A prefetch beyond the last record is harmless, so the address is computed as a number. */
static void prefetch_record(const rshi_program *g, int64_t i) {
    __builtin_prefetch((const void *)((uintptr_t)&g->blocks[i] + RECORDS_AHEAD * sizeof *g->blocks));
}

/* Small blocks mostly read scattered memory, and each takes less time than a memory access, so their sources are
 * prefetched some blocks ahead. */
void rshi_slabs_run(const rshi_program *g, int64_t start, int64_t end, char *const *base, const char **pointers) {
    rshi_gather gather;
    int64_t next = start, ahead = 0;
    gather.dst = NULL;
    gather.from = gather.to = 0;
    for (int64_t i = start; i < end; i++) {
        const rshi_slab_rows *b = &g->blocks[i];
        for (; next < end && (next <= i || ahead < AHEAD); next++) {
            prefetch_record(g, next);
            prefetch_block(g, &g->blocks[next], base);
            ahead += prefetched_bytes(g, &g->blocks[next]);
        }
        ahead -= prefetched_bytes(g, b);
        if (!b->rows.rows)
            run_slab(g, &g->slabs[i], base, pointers);
        else if (g->stream && rshi_gather_takes(&b->rows))
            rshi_gather_add(&gather, &b->rows, base[b->dst], base[b->src]);
        else
            rshi_strip_run(&b->rows, g->stream, base[b->dst], base[b->src]);
    }
    rshi_gather_end(&gather);
}
