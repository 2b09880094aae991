/* Lonely: libreshard-scalapack with a BLACS that this program defines, and without a ScaLAPACK.
 *
 *   lonely 64 | unsupported        both must end with an error message of the library
 *
 * 64: a BLACS with 64-bit integers.  unsupported: an LLD that is too small. */
#include <mpi.h>

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool wide;

static void put(void *at, int value) {
    if (wide) *(int64_t *)at = value;
    else *(int *)at = value;
}

void blacs_pinfo_(void *rank, void *size) { put(rank, 0), put(size, 1); }
void blacs_gridinfo_(const int *context, void *P, void *Q, void *row, void *column) {
    (void)context;
    put(P, 1), put(Q, 1), put(row, 0), put(column, 0);
}
void blacs_get_(const int *context, const int *what, void *value) {
    (void)context, (void)what;
    put(value, (int)MPI_Comm_c2f(MPI_COMM_SELF));
}
void igsum2d_(const int *context, const char *scope, const char *top, const int *m, const int *n, int *a) {
    /* there is one process, so its own numbers are the sum */
    (void)context, (void)scope, (void)top, (void)m, (void)n, (void)a;
}
void blacs_abort_(const int *context, const int *code) {
    (void)context;
    exit(*code);
}

void pdgemr2d_(const int *m, const int *n, const double *a, const int *ia, const int *ja, const int *desca, double *b,
               const int *ib, const int *jb, const int *descb, const int *context);

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    wide = argc > 1 && !strcmp(argv[1], "64");
    const int n = 2, one = 1, context = 0;
    const int good[] = {1, 0, 2, 2, 1, 1, 0, 0, 2}, wrong[] = {1, 0, 2, 2, 1, 1, 0, 0, 1};
    double a[4] = {1, 2, 3, 4}, b[4] = {0};
    if (!wide) pdgemr2d_(&n, &n, a, &one, &one, good, b, &one, &one, good, &context);
    if (!wide && memcmp(a, b, sizeof a)) return puts("the supported call is wrong"), 3;
    pdgemr2d_(&n, &n, a, &one, &one, good, b, &one, &one, wrong, &context);
    puts("the call returned");
    return 3;
}
