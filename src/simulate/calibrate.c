/* Calibrate: the numbers of this machine, by moves whose answer is one of them.
 *
 * Each move is bound once, by as many ranks as there are cores, on memory that is larger than the caches of most
 * machines; it is run a few times, and the least counts. */
#include "simulate/impl.h"

#include <reshard/comm.h>
#include <reshard/pool.h>
#include <reshard/shard.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TIMES 7     /* that a move is run */
#define ROUNDS 2000 /* of a small one */
#define MOST 64     /* ranks */
#define RUN 64      /* bytes of a short run */
#define BYTES ((double)(1 << 27)) /* of every move's destination but that of sums */
#define SUMMED ((double)(1 << 25))

/* One move, as every rank sees it. */
typedef struct measuring {
    char from[64], to[8 * MOST];
    int times;
    double seconds; /* a run, told by rank 0 */
} measuring;

/* A rank's own half of it. */
typedef struct half {
    rsh_layout *layout;
    char *data; /* owned */
    size_t bytes;
} half;

static rsh_status half_take(half *h, const char *text, int rank) {
    rsh_part part;
    RSH_TRY(rsh_layout_parse(text, &h->layout));
    if (!rsh_layout_nparts(h->layout, rank)) return RSH_OK;
    RSH_TRY(rsh_layout_part(h->layout, rank, 0, &part));
    h->bytes = (size_t)part.count * rsh_dtype_size(rsh_layout_dtype(h->layout));
    h->data = rshi_alloc_data(h->bytes, false);
    if (!h->data) return rshi_nomem();
    memset(h->data, 1, h->bytes); /* memory that nobody has written to is one page of zeros, which lies in the cache */
    return RSH_OK;
}

static void half_free(half *h) {
    rsh_layout_free(h->layout);
    if (h->data) rshi_free_data(h->data, h->bytes);
}

/* The least of several, as `bench` tells it: what others do on the machine only adds. */
static rsh_status run_often(rsh_exec *e, int times, double *least) {
    RSH_TRY(rsh_exec_run(e)); /* touches all memory */
    for (int i = 0; i < TIMES; i++) {
        double start = rshi_seconds();
        for (int k = 0; k < times; k++) RSH_TRY(rsh_exec_run(e));
        double taken = (rshi_seconds() - start) / times;
        *least = i ? fmin(*least, taken) : taken;
    }
    return RSH_OK;
}

/* A rank that cannot bind takes no part, and all ranks are told so. */
static rsh_status on_rank(void *ctx, rsh_comm *comm) {
    measuring *m = ctx;
    half src = {0}, dst = {0};
    rsh_plan *plan = NULL;
    rsh_exec *exec = NULL;
    double least = 0;
    rsh_status st = half_take(&src, m->from, rsh_comm_rank(comm));
    if (!st) st = half_take(&dst, m->to, rsh_comm_rank(comm));
    if (!st) st = rsh_plan_new(src.layout, dst.layout, NULL, &plan);
    rsh_memory from = {.data = src.data}, to = {.data = dst.data};
    rsh_status bound = rsh_exec_bind(st ? NULL : plan, comm, &from, &to, &exec);
    if (!st) st = bound;
    if (!st) st = run_often(exec, m->times, &least);
    if (!st && !rsh_comm_rank(comm)) m->seconds = least;
    rsh_exec_free(exec);
    rsh_plan_free(plan);
    half_free(&src);
    half_free(&dst);
    return st;
}

/* ---- moves ---- */

/* Every part to the next rank. */
static void rotate(measuring *m, int64_t bytes, int ranks) {
    size_t n = (size_t)snprintf(m->to, sizeof m->to, "u8[%lld/x] on x=%d@[", (long long)bytes, ranks);
    snprintf(m->from, sizeof m->from, "u8[%lld/x] on x=%d", (long long)bytes, ranks);
    for (int r = 0; r < ranks; r++)
        n += (size_t)snprintf(m->to + n, sizeof m->to - n, "%d%s", (r + 1) % ranks, r + 1 < ranks ? "," : "]");
}

static rsh_status measure_copy(int ranks, double *seconds) {
    measuring m = {.times = 1};
    rotate(&m, (int64_t)BYTES, ranks);
    RSH_TRY(rsh_run(ranks, on_rank, &m));
    *seconds = m.seconds;
    return RSH_OK;
}

/* Both texts have the number of ranks, or a quarter of it, once. */
static rsh_status measure(const char *from, const char *to, int number, int ranks, double *seconds) {
    measuring m = {.times = 1};
    snprintf(m.from, sizeof m.from, from, number);
    snprintf(m.to, sizeof m.to, to, number);
    RSH_TRY(rsh_run(ranks, on_rank, &m));
    *seconds = m.seconds;
    return RSH_OK;
}

static rsh_status measure_memory(rsh_machine *m, int cores) {
    int ranks = cores < 2 ? 2 : cores, quarter = (cores + 3) / 4;
    double whole, alone, runs, transposed, combined;
    RSH_TRY(measure_copy(ranks, &whole));
    RSH_TRY(measure_copy(1, &alone));
    RSH_TRY(measure("u8[16384, 8192/x:64] on x=%d", "u8[16384/x, 8192] on x=%d", ranks, ranks, &runs));
    RSH_TRY(measure("f32[8192/x, 4096] on x=%d", "f32[8192, 4096/x] on x=%d order(1,0)", ranks, ranks, &transposed));
    RSH_TRY(measure("f32[8388608/y] on x=4,y=%d sum(x)", "f32[8388608/(x,y)] on x=4,y=%d", quarter, 4 * quarter,
                    &combined));
    m->memory = BYTES / whole;
    m->core = fmax(fmin(BYTES / alone, m->memory), m->memory / cores);
    m->run_bytes = fmax((runs - whole) * m->memory / (BYTES / RUN), 0);
    m->transposed = BYTES / transposed;
    m->combined = (4 + 1) * SUMMED / 2 / combined;
    return RSH_OK;
}

static rsh_status measure_latency(rsh_machine *m) {
    measuring small = {.times = ROUNDS};
    rotate(&small, 2, 2);
    RSH_TRY(rsh_run(2, on_rank, &small));
    m->latency = small.seconds;
    return RSH_OK;
}

/* As many as a pool would use. */
static rsh_status count_cores(int *cores) {
    rsh_pool *pool;
    RSH_TRY(rsh_pool_new(0, &pool));
    *cores = (int)rshi_min(rsh_pool_size(pool), MOST);
    rsh_pool_free(pool);
    return RSH_OK;
}

rsh_status rsh_machine_calibrate(rsh_machine *m) {
    rsh_machine made;
    int cores;
    RSH_TRY(rshi_machine_take(m, &made));
    RSH_TRY(count_cores(&cores));
    RSH_TRY(measure_memory(&made, cores));
    RSH_TRY(measure_latency(&made));
    *m = made;
    return RSH_OK;
}
