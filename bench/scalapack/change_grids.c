/* Change grids: p?gemr2d between two process grids, in a program that uses ScaLAPACK only.
 *
 *   mpirun -n R change_grids N NB P0xQ0 P1xQ1 [ROUNDS]       N x N doubles, blocks of NB x NB; ROUNDS: 10
 *
 * Prints the seconds of the fastest round, from a barrier to the end of the last rank, and the least CPU seconds that
 * all ranks together needed for a round, which depends less on what else the machine does.  Compares every element with
 * its global index at the end.  bench/scalapack.sh runs it with and without libreshard-scalapack preloaded. */
#include <mpi.h>

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

void Cblacs_pinfo(int *rank, int *size);
void Cblacs_get(int context, int what, int *value);
void Cblacs_gridinit(int *context, const char *order, int rows, int columns);
void Cblacs_gridinfo(int context, int *rows, int *columns, int *row, int *column);
void pdgemr2d_(const int *m, const int *n, const double *a, const int *ia, const int *ja, const int *desca, double *b,
               const int *ib, const int *jb, const int *descb, const int *context);
int numroc_(const int *n, const int *nb, const int *iproc, const int *isrcproc, const int *nprocs);

typedef struct matrix {
    int desc[9], P, Q, row, column, rows, columns;
    double *data;
} matrix;

static matrix make_matrix(int n, int nb, int P, int Q) {
    const int zero = 0;
    matrix x = {{1, 0, n, n, nb, nb, 0, 0, 1}, P, Q, -1, -1, 0, 0, NULL};
    Cblacs_get(-1, 0, &x.desc[1]);
    Cblacs_gridinit(&x.desc[1], "Row", P, Q);
    if (x.desc[1] < 0) return x;
    Cblacs_gridinfo(x.desc[1], &x.P, &x.Q, &x.row, &x.column);
    if (x.row < 0) return x.desc[1] = -1, x;
    x.rows = numroc_(&n, &nb, &x.row, &zero, &x.P);
    x.columns = numroc_(&n, &nb, &x.column, &zero, &x.Q);
    x.desc[8] = x.rows > 0 ? x.rows : 1;
    x.data = malloc((size_t)x.desc[8] * (size_t)(x.columns ? x.columns : 1) * sizeof *x.data);
    if (!x.data) fprintf(stderr, "change_grids: out of memory\n"), MPI_Abort(MPI_COMM_WORLD, 1);
    return x;
}

static int global_index(int local, int nb, int process, int processes) {
    return (local / nb * processes + process) * nb + local % nb;
}

/* Writes the global index of every element, or compares each element with its global index. */
static bool each_element(const matrix *x, bool write) {
    int n = x->desc[2], nb = x->desc[4];
    bool good = true;
    for (int j = 0; j < x->columns; j++)
        for (int i = 0; i < x->rows; i++) {
            double *at = &x->data[(size_t)j * (size_t)x->desc[8] + (size_t)i];
            double value = (double)global_index(i, nb, x->row, x->P) + (double)n * global_index(j, nb, x->column, x->Q);
            if (write) *at = value;
            else good &= *at == value;
        }
    return good;
}

static double cpu_seconds(void) {
    struct rusage r;
    getrusage(RUSAGE_SELF, &r);
    return (double)(r.ru_utime.tv_sec + r.ru_stime.tv_sec) + 1e-6 * (double)(r.ru_utime.tv_usec + r.ru_stime.tv_usec);
}

/* Runs one round and updates the shortest times so far. */
static void run_round(const matrix *a, const matrix *b, int context, double *wall, double *cpu) {
    const int one = 1, *n = &a->desc[2];
    MPI_Barrier(MPI_COMM_WORLD);
    double limits[2] = {-MPI_Wtime(), 0}, used = -cpu_seconds();
    pdgemr2d_(n, n, a->data, &one, &one, a->desc, b->data, &one, &one, b->desc, &context);
    limits[1] = MPI_Wtime(), used += cpu_seconds();
    MPI_Allreduce(MPI_IN_PLACE, limits, 2, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    MPI_Allreduce(MPI_IN_PLACE, &used, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    *wall = fmin(*wall, limits[0] + limits[1]);
    *cpu = fmin(*cpu, used);
}

int main(int argc, char **argv) {
    int rank, size, P[2], Q[2], context;
    MPI_Init(&argc, &argv);
    Cblacs_pinfo(&rank, &size);
    if (argc < 5 || sscanf(argv[3], "%dx%d", &P[0], &Q[0]) != 2 || sscanf(argv[4], "%dx%d", &P[1], &Q[1]) != 2) {
        fprintf(stderr, "usage: mpirun -n R change_grids N NB P0xQ0 P1xQ1 [ROUNDS]\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    int n = atoi(argv[1]), nb = atoi(argv[2]), rounds = argc > 5 ? atoi(argv[5]) : 10;
    Cblacs_get(-1, 0, &context);
    Cblacs_gridinit(&context, "Row", 1, size);
    matrix a = make_matrix(n, nb, P[0], Q[0]), b = make_matrix(n, nb, P[1], Q[1]);
    double wall = INFINITY, cpu = INFINITY;
    each_element(&a, true);
    for (int i = 0; i < rounds; i++) {
        if (b.data) memset(b.data, 0, (size_t)b.desc[8] * (size_t)b.columns * sizeof *b.data);
        run_round(&a, &b, context, &wall, &cpu);
    }
    int good = each_element(&b, false);
    MPI_Allreduce(MPI_IN_PLACE, &good, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    if (!rank) printf("%.6f %.6f %s\n", wall, cpu, good ? "right" : "WRONG");
    MPI_Finalize();
    return !good;
}
