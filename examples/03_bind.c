/* Bind: plans once, binds once and runs many times, as a training loop does.  A run allocates no memory and does not
 * negotiate with other ranks. */
#include <reshard.h>

#include <inttypes.h>
#include <stdio.h>

enum { RANKS = 4, STEPS = 100, N = 512, BAND = N / RANKS };

/* Step s gives the element at row i, column j the value s + N*i + j. */
static void fill(int32_t *rows, int rank, int step) {
    for (int i = 0; i < BAND; i++)
        for (int j = 0; j < N; j++) rows[i * N + j] = step + N * (rank * BAND + i) + j;
}

static int64_t count_wrong(const int32_t *columns, int rank, int step) {
    int64_t wrong = 0;
    for (int i = 0; i < N; i++)
        for (int j = 0; j < BAND; j++) wrong += columns[i * BAND + j] != step + N * i + rank * BAND + j;
    return wrong;
}

static rsh_status run_steps(rsh_exec *exec, int rank, int32_t *rows, const int32_t *columns) {
    uint64_t allocations = rsh_alloc_get_stats().allocations;
    int64_t wrong = 0;
    rsh_status st = RSH_OK;
    for (int step = 0; step < STEPS && !st; step++) {
        fill(rows, rank, step);
        st = rsh_exec_run(exec); /* on return `columns` is complete and `rows` may be changed */
        if (!st) wrong += count_wrong(columns, rank, step);
    }
    if (st) return st;
    allocations = rsh_alloc_get_stats().allocations - allocations;
    return wrong == 0 && allocations == 0 ? RSH_OK : RSH_ERUNTIME;
}

static rsh_status rank_main(void *ctx, rsh_comm *comm) {
    static int32_t rows[RANKS][BAND * N], columns[RANKS][N * BAND]; /* memory of the caller, with an entry per rank */
    const rsh_plan *plan = ctx;
    int rank = rsh_comm_rank(comm);
    rsh_memory src = {rows[rank], NULL}, dst = {columns[rank], NULL};
    rsh_exec *exec = NULL;
    rsh_exec_stats stats = RSH_EXEC_STATS_INIT;

    rsh_status st = rsh_exec_bind(plan, comm, &src, &dst, &exec);
    if (!st) st = run_steps(exec, rank, rows[rank], columns[rank]);
    if (!st) st = rsh_exec_get_stats(exec, &stats);
    if (!st && rank == 0) {
        printf("%" PRIu64 " runs; in each, rank 0 received %" PRIu64 " bytes from itself and %" PRIu64 " from others\n",
               stats.runs, stats.bytes_local, stats.bytes_shared);
    }
    rsh_exec_free(exec);
    return st;
}

int main(void) {
    rsh_layout *rows = NULL, *columns = NULL;
    rsh_plan *plan = NULL;
    rsh_status st = rsh_layout_parse("i32[512/x, 512] on x=4", &rows);
    if (!st) st = rsh_layout_parse("i32[512, 512/x] on x=4", &columns);
    if (!st) st = rsh_plan_new(rows, columns, NULL, &plan);
    if (!st) st = rsh_run(RANKS, rank_main, plan); /* a plan is immutable: the ranks share it */
    if (st) fprintf(stderr, "03_bind: %s\n", rsh_error_detail());
    rsh_plan_free(plan);
    rsh_layout_free(columns);
    rsh_layout_free(rows);
    return st != RSH_OK;
}
