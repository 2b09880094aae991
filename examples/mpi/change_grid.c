/* Change grid: moves a block-cyclic matrix from one process grid to another under MPI, like ScaLAPACK's p?gemr2d.
 *
 *   mpirun -n 4 change_grid
 *
 * The local arrays are those of ScaLAPACK: column-major with a leading dimension (LLD) that the caller chooses. */
#include <mpi.h>
#include <reshard.h>
#include <reshard/mpi.h>

#include <stdio.h>
#include <stdlib.h>

enum { M = 1000, N = 600, SPARE = 8 }; /* SPARE: additional rows of LLD beyond the local ones */

/* Creates this rank's local array for a layout with order(1,0); LLD is at least the number of local rows. */
static rsh_status local_array(rsh_comm *comm, const rsh_layout *layout, double **array, rsh_sharded **out) {
    rsh_part part;
    rsh_status st = rsh_layout_part(layout, rsh_comm_rank(comm), 0, &part);
    if (st) return st;
    int64_t lld = part.shape[0] + SPARE, strides[] = {1, lld};
    *array = calloc((size_t)(lld * part.shape[1]) + 1, sizeof **array);
    rsh_memory memory = {*array, strides};
    return *array ? rsh_sharded_wrap(comm, layout, &memory, out) : RSH_ENOMEM;
}

static rsh_status change_grid(rsh_comm *comm, const rsh_layout *from, const rsh_layout *to) {
    double *a = NULL, *b = NULL;
    rsh_sharded *source = NULL, *target = NULL;
    rsh_digest before, after;
    rsh_status st = local_array(comm, from, &a, &source);
    if (!st) st = rsh_sharded_normal(source, 1); /* fills the matrix with the same values for every grid */
    if (!st) st = local_array(comm, to, &b, &target);
    if (!st) st = rsh_reshard_into(source, target, NULL);
    if (!st) st = rsh_sharded_digest(source, &before);
    if (!st) st = rsh_sharded_digest(target, &after);
    if (!st && (before.hi != after.hi || before.lo != after.lo)) st = RSH_ERUNTIME;
    rsh_sharded_free(target);
    rsh_sharded_free(source);
    free(b);
    free(a);
    return st;
}

/* Creates the layout of P x Q processes with blocks of `block` x `block`. */
static rsh_status grid(int p, int q, int block, rsh_layout **out) {
    char text[120];
    snprintf(text, sizeof text, "f64[%d/p:%d, %d/q:%d] on p=%d,q=%d order(1,0)", M, block, N, block, p, q);
    return rsh_layout_parse(text, out);
}

int main(int argc, char **argv) {
    rsh_comm *comm = NULL;
    rsh_layout *square = NULL, *column = NULL;
    MPI_Init(&argc, &argv);
    rsh_status st = rsh_comm_mpi(MPI_COMM_WORLD, &comm);
    int ranks = rsh_comm_size(comm), rank = rsh_comm_rank(comm), p = ranks % 2 ? 1 : 2;
    if (!st) st = grid(p, ranks / p, 64, &square);
    if (!st) st = grid(ranks, 1, 48, &column);
    if (!st) st = change_grid(comm, square, column);
    if (st) fprintf(stderr, "rank %d: %s: %s\n", rank, rsh_status_text(st), rsh_error_detail());
    else if (rank == 0) printf("%s\nbecame\n%s\n", rsh_layout_text(square), rsh_layout_text(column));
    rsh_layout_free(column);
    rsh_layout_free(square);
    rsh_comm_free(comm);
    MPI_Finalize();
    return st != RSH_OK;
}
