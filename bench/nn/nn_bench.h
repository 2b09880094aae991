/* nn_bench: shared by benchmarks of nn: a clock, and a check for calls that must succeed. */
#ifndef RESHARD_BENCH_NN_NN_BENCH_H
#define RESHARD_BENCH_NN_NN_BENCH_H

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <reshard/nn.h>

static inline double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static inline void must(rsh_status st) {
    if (!st) return;
    fprintf(stderr, "bench: %s: %s\n", rsh_status_name(st), rsh_error_detail());
    exit(1);
}

#endif
