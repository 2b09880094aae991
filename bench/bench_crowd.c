/* Crowd: compares an exec on more ranks than cores with rsh_local_exec_run of the same plan on as many threads as
 * cores.
 *
 *     bench_crowd [SECONDS [RANKS...]]
 *
 * Moves rows to columns of f32 8192 x 8192, on threads.  Both work on the same memory.  For every number of ranks it
 * prints the least time of a run over a few alternating rounds, and the exec's speed relative to the local run. */
#include <reshard.h>

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { ROUNDS = 7, SIDE = 8192 };

typedef struct crowd {
    int ranks;
    double seconds; /* seconds of a round */
    rsh_layout *rows, *columns;
    rsh_plan *plan;
    rsh_memory *src, *dst; /* memory of every rank */
    rsh_pool *pool;
    double exec, local; /* least seconds of a run */
} crowd;

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Returns the memory of a part; parts without elements have none. */
static rsh_memory memory_of(const rsh_sharded *s) {
    return rsh_sharded_nparts(s) ? (rsh_memory){rsh_tensor_data(rsh_sharded_part(s, 0)), NULL} : (rsh_memory){0};
}

static double time_local(rsh_local_exec *l, int64_t runs) {
    double began = now();
    for (int64_t i = 0; i < runs; i++) rsh_local_exec_run(l);
    return (now() - began) / (double)runs;
}

/* Measures the seconds of a run by all ranks: from one barrier to the next, divided by `runs`. */
static rsh_status time_exec(rsh_comm *comm, rsh_exec *exec, int64_t runs, double *each) {
    rsh_status st = rsh_comm_barrier(comm);
    double began = now();
    for (int64_t i = 0; i < runs && !st; i++) st = rsh_exec_run(exec);
    if (!st) st = rsh_comm_barrier(comm);
    *each = (now() - began) / (double)runs;
    return st;
}

/* Rank 0 runs the local plan while the others wait at the next barrier. */
static rsh_status compare(crowd *c, rsh_comm *comm, rsh_exec *exec) {
    int rank = rsh_comm_rank(comm);
    rsh_local_exec *local = NULL;
    int64_t runs = 1;
    double each = 0;
    rsh_status st = rank ? RSH_OK : rsh_local_exec_bind(c->plan, c->pool, c->src, c->dst, &local);
    st = rsh_comm_agree(comm, st);
    if (!st) st = time_exec(comm, exec, 1, &each);
    for (int round = 0; round < ROUNDS && !st; round++) {
        double there = rank ? 0 : time_local(local, runs);
        st = time_exec(comm, exec, runs, &each);
        if (!rank && round && there < c->local) c->local = there;
        if (!rank && round && each < c->exec) c->exec = each;
        int64_t more = round ? runs : (int64_t)(c->seconds / each) + 1;
        if (!st) st = rsh_comm_allreduce(comm, &more, &runs, 1, RSH_I64, RSH_OP_MAX);
    }
    rsh_local_exec_free(local);
    return st;
}

static rsh_status rank_main(void *ctx, rsh_comm *comm) {
    crowd *c = ctx;
    int rank = rsh_comm_rank(comm);
    rsh_sharded *from = NULL, *to = NULL;
    rsh_exec *exec = NULL;
    rsh_status st = rsh_sharded_full(comm, c->rows, &(float){1}, &from);
    if (!st) st = rsh_sharded_zeros(comm, c->columns, &to);
    if (!st) c->src[rank] = memory_of(from), c->dst[rank] = memory_of(to);
    if (!st) st = rsh_exec_bind(c->plan, comm, &c->src[rank], &c->dst[rank], &exec);
    if (!st) st = compare(c, comm, exec);
    rsh_exec_free(exec);
    rsh_sharded_free(to);
    rsh_sharded_free(from);
    return st;
}

static rsh_status open_crowd(crowd *c) {
    char text[2][96];
    snprintf(text[0], sizeof text[0], "f32[%d/x, %d] on x=%d", SIDE, SIDE, c->ranks);
    snprintf(text[1], sizeof text[1], "f32[%d, %d/x] on x=%d", SIDE, SIDE, c->ranks);
    rsh_status st = rsh_layout_parse(text[0], &c->rows);
    if (!st) st = rsh_layout_parse(text[1], &c->columns);
    if (!st) st = rsh_plan_new(c->rows, c->columns, NULL, &c->plan);
    if (!st) st = rsh_pool_new(0, &c->pool);
    c->src = calloc((size_t)c->ranks, sizeof *c->src);
    c->dst = calloc((size_t)c->ranks, sizeof *c->dst);
    return st ? st : c->src && c->dst ? RSH_OK : RSH_ENOMEM;
}

static void close_crowd(crowd *c) {
    rsh_pool_free(c->pool);
    rsh_plan_free(c->plan);
    rsh_layout_free(c->columns);
    rsh_layout_free(c->rows);
    free(c->src);
    free(c->dst);
}

static int run(int ranks, double seconds) {
    crowd c = {.ranks = ranks, .seconds = seconds, .exec = 1e9, .local = 1e9};
    rsh_status st = open_crowd(&c);
    if (!st) st = rsh_run(ranks, rank_main, &c);
    if (st) fprintf(stderr, "bench_crowd: %s: %s\n", rsh_status_text(st), rsh_error_detail());
    else
        printf("rows to columns, %5d ranks: exec %8.2f ms, local %8.2f ms, %.2f of it\n", ranks, 1e3 * c.exec,
               1e3 * c.local, c.local / c.exec);
    fflush(stdout);
    close_crowd(&c);
    return st != RSH_OK;
}

int main(int argc, char **argv) {
    static const int usual[] = {2, 4, 8, 16, 32, 64, 256, 1000};
    double seconds = argc > 1 ? atof(argv[1]) : 0.2;
    int failed = 0;
    for (int i = 0; argc <= 2 && i < 8; i++) failed |= run(usual[i], seconds);
    for (int i = 2; i < argc; i++) failed |= run(atoi(argv[i]), seconds);
    return failed;
}
