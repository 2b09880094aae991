/* Peers: the same move with MPI, with ScaLAPACK and with reshard, in one program and in alternating rounds.
 *
 *   mpirun -n 2 peers [N [ROUNDS]]        N: the matrix has N x N elements of 32 bits (8192); ROUNDS: 15
 *
 * In a round each contestant moves once (short moves many times, back to back).  The time runs from a barrier to the
 * end of the last rank, and the shortest of all rounds is printed.  Before the last round all destinations are
 * overwritten; after it every element is compared with its global index. */
#include "peers.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#define HUGE_PAGE    ((size_t)2 << 20)
#define LEAST_SAMPLE 5e-4 /* seconds of one sample, at least */

void peers_end(const char *sentence) {
    fprintf(stderr, "peers: %s\n", sentence);
    MPI_Abort(MPI_COMM_WORLD, 1);
    abort();
}

/* Rounds up to whole huge pages, so that the mapping probably begins on one. */
static size_t rounded(size_t bytes) { return (bytes + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE; }

void *peers_alloc(size_t bytes) {
    void *p = mmap(NULL, rounded(bytes), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) peers_end("out of memory");
    madvise(p, rounded(bytes), MADV_HUGEPAGE);
    memset(p, 0, bytes);
    return p;
}

void peers_free(void *memory, size_t bytes) { munmap(memory, rounded(bytes)); }

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ---- what is moved ---- */

static size_t part_bytes(const move *m) { return (size_t)(m->n * m->share) * sizeof(uint32_t); }

static void fill(const move *m, uint32_t *src) {
    for (int64_t i = 0; i < m->share; i++)
        for (int64_t j = 0; j < m->n; j++) src[i * m->n + j] = (uint32_t)((m->rank * m->share + i) * m->n + j);
}

static bool is_right(const move *m, const uint32_t *dst) {
    bool good = true;
    for (int64_t i = 0; i < m->n; i++)
        for (int64_t j = 0; j < m->share; j++)
            good &= dst[i * m->share + j] == (uint32_t)(i * m->n + m->rank * m->share + j);
    MPI_Allreduce(MPI_IN_PLACE, &good, 1, MPI_C_BOOL, MPI_LAND, MPI_COMM_WORLD);
    return good;
}

/* ---- rounds ---- */

/* Returns the seconds of one move: the time of `batch` moves, from the start of the first rank to the end of the last,
 * divided by `batch`. */
static double time_moves(contestant *c, int64_t batch) {
    MPI_Barrier(MPI_COMM_WORLD);
    double limits[2] = {-now(), 0};
    for (int64_t i = 0; i < batch; i++) c->run(c);
    limits[1] = now();
    MPI_Allreduce(MPI_IN_PLACE, limits, 2, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return (limits[1] + limits[0]) / (double)batch;
}

static void run_rounds(const move *m, int n, contestant *c, int64_t batch, int rounds) {
    for (int k = 0; k < n; k++) c[k].best = INFINITY;
    for (int round = 0; round < rounds; round++)
        for (int k = 0; k < n; k++) {
            if (round == rounds - 1) memset(c[k].dst, 0xa5, part_bytes(m));
            c[k].best = fmin(c[k].best, time_moves(&c[k], batch));
            if (round == rounds - 1 && !is_right(m, c[k].dst)) peers_end(c[k].name);
        }
}

/* ---- results ---- */

static double best_of(int n, const contestant *c, bool ours) {
    double best = INFINITY;
    for (int k = 0; k < n; k++)
        if (c[k].ours == ours) best = fmin(best, c[k].best);
    return best;
}

static void print_results(const move *m, int n, const contestant *c, int rounds) {
    double bytes = (double)(m->n * m->n) * sizeof(uint32_t), peer = best_of(n, c, false);
    printf("\nf32[%lld/x, %lld] on x=%d to f32[%lld, %lld/x], least of %d alternating rounds, every element checked\n",
           (long long)m->n, (long long)m->n, m->ranks, (long long)m->n, (long long)m->n, rounds);
    printf("%-34s %14s %9s %18s\n", "", "seconds", "GB/s", "speed / best peer");
    for (int k = 0; k < n; k++)
        printf("%-34s %14.9f %9.2f %18.2f\n", c[k].name, c[k].best, bytes / c[k].best / 1e9, peer / c[k].best);
    printf("best of ours / best peer: %.2f times as fast\n", peer / best_of(n, c, true));
    fflush(stdout);
}

static int list_contestants(contestant *c) {
    int n = 0;
    c[n++] = peer_alltoallw;
    c[n++] = peer_alltoallv;
#ifdef PEERS_SCALAPACK
    c[n++] = peer_scalapack;
#endif
    c[n++] = ours_shm;
    c[n++] = ours_shm_caller;
    c[n++] = ours_mpi;
    return n;
}

static int64_t choose_batch(int n, contestant *c) {
    double least = INFINITY;
    for (int i = 0; i < 3; i++)
        for (int k = 0; k < n; k++) least = fmin(least, time_moves(&c[k], 1));
    return (int64_t)fmax(1, ceil(LEAST_SAMPLE / least));
}

static void compare_contestants(const move *m, int rounds) {
    contestant c[8];
    int n = 0;
    for (int k = 0, listed = list_contestants(c); k < listed; k++) {
        contestant one = c[k];
        if (one.open(&one, m)) c[n++] = one;
    }
    for (int k = 0; k < n; k++) fill(m, c[k].src);
    run_rounds(m, n, c, choose_batch(n, c), rounds);
    if (!m->rank) print_results(m, n, c, rounds);
    for (int k = n - 1; k >= 0; k--) c[k].close(&c[k]);
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    move m = {.n = argc > 1 ? atoll(argv[1]) : 8192};
    MPI_Comm_rank(MPI_COMM_WORLD, &m.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &m.ranks);
    if (m.n < m.ranks || m.n > 32768 || m.n % m.ranks)
        peers_end("N must be a multiple of the number of ranks, at most 32768");
    m.share = m.n / m.ranks;
    m.src = peers_alloc(part_bytes(&m));
    m.dst = peers_alloc(part_bytes(&m));
    compare_contestants(&m, argc > 2 ? atoi(argv[2]) : 15);
    peers_free(m.src, part_bytes(&m));
    peers_free(m.dst, part_bytes(&m));
    MPI_Finalize();
    return 0;
}
