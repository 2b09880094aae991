/* Join: the ranks are processes that a launcher started: `reshard run -n 4 -- 08_join`, mpirun, torchrun or srun on one
 * machine.  Without a launcher, the program is one rank.  Each process has a band of rows in memory that it allocated
 * itself, and receives a band of columns. */
#include <reshard.h>

#include <stdio.h>
#include <stdlib.h>

enum { N = 1000 };

static rsh_status parse(const char *form, int ranks, rsh_layout **out) {
    char text[80];
    snprintf(text, sizeof text, form, N, N, ranks);
    return rsh_layout_parse(text, out);
}

/* Returns this rank's rows, filled with global indices; a rank has ceil(N / ranks) rows.  The caller frees them. */
static double *own_rows(const rsh_layout *rows, int rank) {
    rsh_part part;
    if (rsh_layout_part(rows, rank, 0, &part)) return NULL;
    int64_t first = rank * ((N + rsh_layout_nranks(rows) - 1) / rsh_layout_nranks(rows));
    double *memory = malloc(sizeof *memory * (size_t)(part.shape[0] * N + 1));
    for (int64_t i = 0; memory && i < part.shape[0] * N; i++) memory[i] = (double)(first * N + i);
    return memory;
}

static rsh_status move(rsh_comm *comm, const rsh_layout *rows, const rsh_layout *columns, double *memory) {
    rsh_memory mine = {memory, NULL}; /* contiguous and row-major */
    rsh_sharded *a = NULL, *b = NULL;
    rsh_digest before, after;
    rsh_status st = rsh_sharded_wrap(comm, rows, &mine, &a);
    if (!st) st = rsh_reshard(a, columns, NULL, &b);
    if (!st) st = rsh_sharded_digest(a, &before);
    if (!st) st = rsh_sharded_digest(b, &after);
    if (!st && (before.hi != after.hi || before.lo != after.lo)) st = RSH_ERUNTIME;
    rsh_sharded_free(b);
    rsh_sharded_free(a);
    return st;
}

int main(void) {
    rsh_comm *comm = NULL;
    rsh_layout *rows = NULL, *columns = NULL;
    double *memory = NULL;
    rsh_status st = rsh_comm_join(&comm);
    int rank = rsh_comm_rank(comm), ranks = rsh_comm_size(comm);
    if (!st) st = parse("f64[%d/x, %d] on x=%d", ranks, &rows);
    if (!st) st = parse("f64[%d, %d/x] on x=%d", ranks, &columns);
    if (!st) memory = own_rows(rows, rank);
    if (!st) st = memory ? move(comm, rows, columns, memory) : RSH_ENOMEM;
    if (st) fprintf(stderr, "rank %d: %s: %s\n", rank, rsh_status_text(st), rsh_error_detail());
    else if (rank == 0) printf("rows became columns on %d ranks, engine %s\n", ranks, rsh_comm_engine(comm));
    free(memory);
    rsh_layout_free(columns);
    rsh_layout_free(rows);
    rsh_comm_free(comm);
    return st != RSH_OK;
}
