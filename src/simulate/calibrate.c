/* Calibrate: the numbers of this machine, by moves whose answer is one of them.
 *
 * Each move is bound once on memory of its own, larger than the caches of most machines, and run a few times; the median
 * counts.  All cores copy, as they do when every core has a rank. */
#include "simulate/impl.h"

#include <reshard/comm.h>
#include <reshard/pool.h>
#include <reshard/shard.h>

#include <math.h>
#include <stdlib.h>

#define TIMES 7       /* that a move is run */
#define ROUNDS 2000   /* of a small move between two ranks */
#define RANKS 4       /* of the moves */
#define RUN 64        /* bytes of a short run */

/* One move with memory for all of its parts. */
typedef struct moving {
    rsh_layout *from, *to;
    rsh_plan *plan;
    char *src_data, *dst_data; /* owned */
    size_t src_bytes, dst_bytes;
    rsh_memory src[RANKS], dst[RANKS];
    rsh_local *local;
} moving;

static void moving_free(moving *m) {
    rsh_local_free(m->local);
    rsh_plan_free(m->plan);
    rsh_layout_free(m->from);
    rsh_layout_free(m->to);
    if (m->src_data) rshi_free_data(m->src_data, m->src_bytes);
    if (m->dst_data) rshi_free_data(m->dst_data, m->dst_bytes);
}

/* One part a rank, one after the other. */
static rsh_status take_side(const rsh_layout *l, char **data, size_t *bytes, rsh_memory *memory) {
    size_t at = 0, size = rsh_dtype_size(rsh_layout_dtype(l));
    rsh_part part;
    for (int64_t i = 0; i < rsh_layout_nranks(l); i++) {
        RSH_TRY(rsh_layout_part(l, rsh_layout_rank(l, i), 0, &part));
        *bytes += (size_t)part.count * size;
    }
    *data = rshi_alloc_data(*bytes, true);
    if (!*data) return rshi_nomem();
    for (int64_t i = 0; i < rsh_layout_nranks(l); i++) {
        RSH_TRY(rsh_layout_part(l, rsh_layout_rank(l, i), 0, &part));
        memory[i] = (rsh_memory){.data = *data + at};
        at += (size_t)part.count * size;
    }
    return RSH_OK;
}

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static rsh_status median_of_runs(rsh_local *l, double *seconds) {
    double taken[TIMES];
    RSH_TRY(rsh_local_run(l)); /* touches all memory */
    for (int i = 0; i < TIMES; i++) {
        double start = rshi_seconds();
        RSH_TRY(rsh_local_run(l));
        taken[i] = rshi_seconds() - start;
    }
    qsort(taken, TIMES, sizeof *taken, by_value);
    *seconds = taken[TIMES / 2];
    return RSH_OK;
}

static rsh_status measure(const char *from, const char *to, rsh_pool *pool, double *seconds) {
    moving m = {0};
    rsh_status st;
    RSH_GOTO(rsh_layout_parse(from, &m.from));
    RSH_GOTO(rsh_layout_parse(to, &m.to));
    RSH_GOTO(rsh_plan_new(m.from, m.to, NULL, &m.plan));
    RSH_GOTO(take_side(m.from, &m.src_data, &m.src_bytes, m.src));
    RSH_GOTO(take_side(m.to, &m.dst_data, &m.dst_bytes, m.dst));
    RSH_GOTO(rsh_local_bind(m.plan, pool, m.src, m.dst, &m.local));
    st = median_of_runs(m.local, seconds);
out:
    moving_free(&m);
    return st;
}

/* ---- memory ---- */

#define BYTES ((double)(1 << 27)) /* of every move's destination but that of sums */
#define SUMMED ((double)(1 << 25))

static rsh_status measure_memory(rsh_machine *m, rsh_pool *pool) {
    double whole, alone, runs, transposed, combined;
    RSH_TRY(measure("u8[134217728/x] on x=4", "u8[134217728/x] on x=4@[1,2,3,0]", pool, &whole));
    RSH_TRY(measure("u8[134217728/x] on x=4", "u8[134217728/x] on x=4@[1,2,3,0]", NULL, &alone));
    RSH_TRY(measure("u8[16384, 8192/x:64] on x=4", "u8[16384/x, 8192] on x=4", pool, &runs));
    RSH_TRY(measure("f32[8192/x, 4096] on x=2", "f32[8192, 4096/x] on x=2 order(1,0)", pool, &transposed));
    RSH_TRY(measure("f32[8388608] on x=4 sum(x)", "f32[8388608/x] on x=4", pool, &combined));
    m->memory = BYTES / whole;
    m->core = fmin(BYTES / alone, m->memory);
    m->run_bytes = fmax((runs - whole) * m->memory / (BYTES / RUN), 0);
    m->transposed = BYTES / transposed;
    m->combined = (4 + 1) * SUMMED / 2 / combined;
    return RSH_OK;
}

/* ---- latency ---- */

/* Two ranks exchange a byte, again and again. */
static rsh_status exchange_often(void *ctx, rsh_comm *comm) {
    double *seconds = ctx;
    rsh_layout *from = NULL, *to = NULL;
    rsh_plan *plan = NULL;
    rsh_exec *exec = NULL;
    char here = 0, there = 0;
    rsh_memory src = {.data = &here}, dst = {.data = &there};
    rsh_status st;
    RSH_GOTO(rsh_layout_parse("u8[2/x] on x=2", &from));
    RSH_GOTO(rsh_layout_parse("u8[2/x] on x=2@[1,0]", &to));
    RSH_GOTO(rsh_plan_new(from, to, NULL, &plan));
    RSH_GOTO(rsh_exec_bind(plan, comm, &src, &dst, &exec));
    double start = rshi_seconds();
    for (int i = 0; i < ROUNDS; i++) RSH_GOTO(rsh_exec_run(exec));
    if (!rsh_comm_rank(comm)) *seconds = (rshi_seconds() - start) / ROUNDS;
out:
    rsh_exec_free(exec);
    rsh_plan_free(plan);
    rsh_layout_free(from);
    rsh_layout_free(to);
    return st;
}

rsh_status rsh_machine_calibrate(rsh_machine *m) {
    rsh_machine made;
    rsh_pool *pool = NULL;
    RSH_TRY(rshi_machine_take(m, &made));
    RSH_TRY(rsh_pool_new(0, &pool));
    rsh_status st = measure_memory(&made, pool);
    rsh_pool_free(pool);
    if (!st) st = rsh_run(2, exchange_often, &made.latency);
    if (!st) *m = made;
    return st;
}
