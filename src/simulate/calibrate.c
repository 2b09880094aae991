/* Calibrate: measures the numbers of this machine, each with a move that depends on it.
 *
 * Each move runs on as many ranks as there are cores, on memory that is larger than the caches of most machines.  It
 * runs several times, and the minimum is used.  All moves alternate in several passes, because the speed of memory
 * varies over time. */
#include "simulate/impl.h"

#include <reshard/comm.h>
#include <reshard/pool.h>
#include <reshard/shard.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PASSES 3    /* number of passes over all moves */
#define TIMES 15    /* runs of a move per pass */
#define ROUNDS 2000 /* runs of the small move that measures latency */
#define MOST 64     /* most ranks */
#define RUN 64      /* bytes of a short run */
#define BYTES ((double)(1 << 27)) /* bytes of the destination of every move, except for reductions */
#define SUMMED ((double)(1 << 25))

/* One move that is measured. */
typedef struct measuring {
    char from[64], to[8 * MOST];
    int ranks, times; /* times: number of runs that are timed together */
    double seconds;   /* seconds of one run, measured by rank 0 */
} measuring;

/* A rank's part of the source or the destination. */
typedef struct side_memory {
    rsh_layout *layout;
    char *data; /* owned */
    size_t bytes;
} side_memory;

static rsh_status side_allocate(side_memory *h, const char *text, int rank) {
    rsh_part part;
    RSH_TRY(rsh_layout_parse(text, &h->layout));
    if (!rsh_layout_nparts(h->layout, rank)) return RSH_OK;
    RSH_TRY(rsh_layout_part(h->layout, rank, 0, &part));
    h->bytes = (size_t)part.count * rsh_dtype_size(rsh_layout_dtype(h->layout));
    h->data = rshi_alloc_data(h->bytes, false);
    if (!h->data) return rshi_nomem();
    memset(h->data, 1, h->bytes); /* untouched memory would be a single zero page, which is in the cache */
    return RSH_OK;
}

static void side_free(side_memory *h) {
    rsh_layout_free(h->layout);
    if (h->data) rshi_free_data(h->data, h->bytes);
}

/* Measures the minimum of several runs, since other load only adds time. */
static rsh_status time_runs(rsh_exec *e, int times, double *least) {
    RSH_TRY(rsh_exec_run(e)); /* touches all memory */
    for (int i = 0; i < TIMES; i++) {
        double start = rshi_seconds();
        for (int k = 0; k < times; k++) RSH_TRY(rsh_exec_run(e));
        double taken = (rshi_seconds() - start) / times;
        *least = i ? fmin(*least, taken) : taken;
    }
    return RSH_OK;
}

/* Runs on each rank.  If one rank cannot bind, all ranks return its error. */
static rsh_status measure_on_rank(void *ctx, rsh_comm *comm) {
    measuring *m = ctx;
    side_memory src = {0}, dst = {0};
    rsh_plan *plan = NULL;
    rsh_exec *exec = NULL;
    double least = 0;
    rsh_status st = side_allocate(&src, m->from, rsh_comm_rank(comm));
    if (!st) st = side_allocate(&dst, m->to, rsh_comm_rank(comm));
    if (!st) st = rsh_plan_new(src.layout, dst.layout, NULL, &plan);
    rsh_memory from = {.data = src.data}, to = {.data = dst.data};
    rsh_status bound = rsh_exec_bind(st ? NULL : plan, comm, &from, &to, &exec);
    if (!st) st = bound;
    if (!st) st = time_runs(exec, m->times, &least);
    if (!st && !rsh_comm_rank(comm)) m->seconds = least;
    rsh_exec_free(exec);
    rsh_plan_free(plan);
    side_free(&src);
    side_free(&dst);
    return st;
}

/* ---- moves ---- */

/* A move that sends every part to the next rank. */
static void rotate_move(measuring *m, int64_t bytes, int ranks) {
    *m = (measuring){.ranks = ranks, .times = 1};
    size_t n = (size_t)snprintf(m->to, sizeof m->to, "u8[%lld/x] on x=%d@[", (long long)bytes, ranks);
    snprintf(m->from, sizeof m->from, "u8[%lld/x] on x=%d", (long long)bytes, ranks);
    for (int r = 0; r < ranks; r++)
        n += (size_t)snprintf(m->to + n, sizeof m->to - n, "%d%s", (r + 1) % ranks, r + 1 < ranks ? "," : "]");
}

/* Writes the number into both layout texts. */
static void write_move(measuring *m, const char *from, const char *to, int number, int ranks) {
    *m = (measuring){.ranks = ranks, .times = 1};
    snprintf(m->from, sizeof m->from, from, number);
    snprintf(m->to, sizeof m->to, to, number);
}

enum { TOGETHER, ALONE, RUNS, TRANSPOSED, COMBINED, MOVES };

/* Lists the moves: copies by all ranks and by one rank, then short runs, transposes and reductions. */
static void choose_moves(measuring *m, int cores) {
    int ranks = cores < 2 ? 2 : cores, quarter = (cores + 3) / 4;
    rotate_move(&m[TOGETHER], (int64_t)BYTES, ranks);
    rotate_move(&m[ALONE], (int64_t)BYTES, 1);
    write_move(&m[RUNS], "u8[16384, 8192/x:64] on x=%d", "u8[16384/x, 8192] on x=%d", ranks, ranks);
    write_move(&m[TRANSPOSED], "f32[8192/x, 4096] on x=%d", "f32[8192, 4096/x] on x=%d order(1,0)", ranks, ranks);
    write_move(&m[COMBINED], "f32[8388608/y] on x=4,y=%d sum(x)", "f32[8388608/(x,y)] on x=4,y=%d", quarter,
               4 * quarter);
}

static rsh_status measure_memory(rsh_machine *m, int cores) {
    measuring move[MOVES];
    double least[MOVES];
    choose_moves(move, cores);
    for (int i = 0; i < PASSES * MOVES; i++) {
        measuring *at = &move[i % MOVES];
        RSH_TRY(rsh_run(at->ranks, measure_on_rank, at));
        least[i % MOVES] = i < MOVES ? at->seconds : fmin(least[i % MOVES], at->seconds);
    }
    m->memory = BYTES / least[TOGETHER];
    m->core = fmax(fmin(BYTES / least[ALONE], m->memory), m->memory / cores);
    m->run_bytes = fmax((least[RUNS] - least[TOGETHER]) * m->memory / (BYTES / RUN), 0);
    m->transposed = BYTES / least[TRANSPOSED];
    m->combined = (4 + 1) * SUMMED / 2 / least[COMBINED];
    return RSH_OK;
}

static rsh_status measure_latency(rsh_machine *m) {
    measuring small;
    rotate_move(&small, 2, 2);
    small.times = ROUNDS;
    RSH_TRY(rsh_run(small.ranks, measure_on_rank, &small));
    m->latency = small.seconds;
    return RSH_OK;
}

/* Counts the cores that a pool would use. */
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
    rshi_result_write(&made, sizeof made, m);
    return RSH_OK;
}
