/* Unseen layouts: measures rsh_reshard of 64x64 elements between two layouts that the comm has not cached, from rows to
 * columns on two ranks: plan, bind and run.  Prints the median of 1,000 calls. */
#include <reshard.h>

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { WARM = 1200, ROUNDS = 1000 }; /* WARM exceeds the capacity of the comm's cache */

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Reshards once.  The names of axes are part of a layout, so another name makes another layout. */
static rsh_status reshard_once(rsh_comm *comm, int i, double *took) {
    char text[2][64];
    rsh_layout *from = NULL, *to = NULL;
    rsh_sharded *src = NULL, *dst = NULL;
    snprintf(text[0], sizeof text[0], "f32[64/x%d, 64] on x%d=2", i, i);
    snprintf(text[1], sizeof text[1], "f32[64, 64/x%d] on x%d=2", i, i);
    rsh_status st = rsh_layout_parse(text[0], &from);
    if (!st) st = rsh_layout_parse(text[1], &to);
    if (!st) st = rsh_sharded_zeros(comm, from, &src);
    if (!st) st = rsh_comm_barrier(comm);
    double start = now();
    if (!st) st = rsh_reshard(src, to, NULL, &dst);
    *took = now() - start;
    rsh_sharded_free(src);
    rsh_sharded_free(dst);
    rsh_layout_free(from);
    rsh_layout_free(to);
    return st;
}

static rsh_status measure(void *ctx, rsh_comm *comm) {
    static double took[2][WARM + ROUNDS];
    double *mine = took[rsh_comm_rank(comm)];
    rsh_status st = RSH_OK;
    (void)ctx;
    for (int i = 0; i < WARM + ROUNDS && !st; i++) st = reshard_once(comm, i, &mine[i]);
    if (st || rsh_comm_rank(comm)) return st;
    qsort(mine + WARM, ROUNDS, sizeof *mine, by_value);
    printf("%-8s 64^2  layouts not seen before  median %.2f us  least %.2f us\n", rsh_comm_engine(comm),
           1e6 * mine[WARM + ROUNDS / 2], 1e6 * mine[WARM]);
    return RSH_OK;
}

int main(void) {
    rsh_status st = rsh_run(2, measure, NULL);
    if (st) fprintf(stderr, "bench_unseen: %s: %s\n", rsh_status_text(st), rsh_error_detail());
    return st != RSH_OK;
}
