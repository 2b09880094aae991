/* rank_trials: rank functions that tests run on threads, on wires and on processes. */
#ifndef RESHARD_TESTS_COMM_RANK_TRIALS_H
#define RESHARD_TESTS_COMM_RANK_TRIALS_H

#include "ranks.h"

static inline unsigned char pattern(int rank, size_t i) {
    return (unsigned char)(rank * 31 + (int)(i % 251) + 1);
}

static inline void paint(unsigned char *to, int rank, size_t bytes) {
    for (size_t i = 0; i < bytes; i++) to[i] = pattern(rank, i);
}

static inline bool painted(const unsigned char *p, int rank, size_t bytes) {
    for (size_t i = 0; i < bytes; i++)
        if (p[i] != pattern(rank, i)) return false;
    return true;
}

/* Checks that no rank passes barrier k before all ranks have reached it.  ctx: a counter that all
 * ranks share. */
static inline rsh_status keeps_step(void *ctx, rsh_comm *c) {
    atomic_int *count = ctx;
    for (int k = 1; k <= 20; k++) {
        atomic_fetch_add(count, 1);
        RSH_TRY(rsh_comm_barrier(c));
        CHECK(atomic_load(count) >= k * rsh_comm_size(c));
        RSH_TRY(rsh_comm_barrier(c));
    }
    return RSH_OK;
}

static inline rsh_status gathers_blocks(rsh_comm *c, size_t bytes) {
    size_t n = (size_t)rsh_comm_size(c), right = 0;
    unsigned char *mine = malloc(bytes + 1), *all = malloc(n * bytes + 1);
    paint(mine, rsh_comm_rank(c), bytes);
    rsh_status st = rsh_comm_allgather(c, mine, all, bytes);
    for (size_t r = 0; !st && r < n; r++) right += painted(all + r * bytes, (int)r, bytes);
    free(mine);
    free(all);
    RSH_TRY(st);
    CHECK(right == n);
    return RSH_OK;
}

/* Checks allgather with blocks of up to *ctx bytes, a size_t. */
static inline rsh_status gathers(void *ctx, rsh_comm *c) {
    static const size_t sizes[] = {0, 1, 63, 64, 65, 4096, 4097, 20000, 3000000};
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes && sizes[s] <= *(size_t *)ctx; s++)
        RSH_TRY(gathers_blocks(c, sizes[s]));
    return RSH_OK;
}

/* Checks allreduce with sums of 64-bit integers. */
static inline rsh_status adds(void *ctx, rsh_comm *c) {
    (void)ctx;
    enum { N = 5000 };
    int64_t mine[N], sum[N], n = rsh_comm_size(c), me = rsh_comm_rank(c);
    for (int64_t i = 0; i < N; i++) mine[i] = i * (me + 1);
    RSH_TRY(rsh_comm_allreduce(c, mine, sum, N, RSH_I64, RSH_OP_SUM));
    for (int64_t i = 0; i < N; i++) CHECK(sum[i] == i * n * (n + 1) / 2);
    return RSH_OK;
}

#endif
