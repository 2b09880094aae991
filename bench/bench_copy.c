/* Compares kernels of the copy room with memcpy, with the same threads in the same run.
 *
 *   bench_copy [threads [filter]]
 *
 * Every case writes DST_BYTES of destination.  "ratio" is the time that memcpy needs for the same bytes read and
 * written, divided by the case's time: 1.00 is memory speed.  Memory is on huge pages if the system has them, and is
 * touched before the clock starts. */
#include "copy/copy.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define DST_BYTES ((int64_t)128 << 20)
#define SRC_BYTES ((int64_t)1 << 30)
#define MOVES     4
#define SOURCES   8
#define ROUNDS    9
#define SLAB      ((int64_t)256 << 10) /* bytes of a slab of one move */

/* A case of `moves` moves that interleave in the destination; each has [n0][n1] elements, at a fixed distance from the
 * previous one. */
typedef struct bench_case {
    const char *name;
    rsh_dtype from, to;
    int64_t n0, n1;             /* elements of one move */
    int64_t ds0, ds1, ss0, ss1; /* strides in bytes */
    int moves;
    int64_t dst_next, src_next; /* bytes from one move to the next */
    int nsrc;
    int64_t source_next; /* bytes from one source of a reduction to the next */
    rsh_op op;
} bench_case;

#define MiB *((int64_t)1 << 20)
static const bench_case cases[] = {
    {"contiguous", RSH_F32, RSH_F32, 1, 32 MiB, 128 MiB, 4, 128 MiB, 4, 1, 0, 0, 1, 0, RSH_OP_NONE},
    {"rows of 16 KiB", RSH_F32, RSH_F32, 8192, 4096, 16384, 4, 32768, 4, 1, 0, 0, 1, 0, RSH_OP_NONE},
    {"rows of 4 KiB", RSH_F32, RSH_F32, 32768, 1024, 4096, 4, 16384, 4, 1, 0, 0, 1, 0, RSH_OP_NONE},
    {"rows of 8196 B, unaligned", RSH_F32, RSH_F32, 16376, 2049, 8196, 4, 16392, 4, 1, 0, 0, 1, 0, RSH_OP_NONE},
    {"rows of 512 B", RSH_F32, RSH_F32, 262144, 128, 512, 4, 2048, 4, 1, 0, 0, 1, 0, RSH_OP_NONE},
    {"rows of 128 B", RSH_F32, RSH_F32, 1048576, 32, 128, 4, 256, 4, 1, 0, 0, 1, 0, RSH_OP_NONE},
    {"4 moves, runs of 4 KiB", RSH_F32, RSH_F32, 8192, 1024, 16384, 4, 4096, 4, 4, 4096, 32 MiB, 1, 0, RSH_OP_NONE},
    {"4 moves, runs of 512 B", RSH_F32, RSH_F32, 65536, 128, 2048, 4, 512, 4, 4, 512, 32 MiB, 1, 0, RSH_OP_NONE},
    {"4 moves, runs of 256 B", RSH_F32, RSH_F32, 131072, 64, 1024, 4, 256, 4, 4, 256, 32 MiB, 1, 0, RSH_OP_NONE},
    {"4 moves, runs of 64 B", RSH_F32, RSH_F32, 524288, 16, 256, 4, 64, 4, 4, 64, 32 MiB, 1, 0, RSH_OP_NONE},
    {"4 moves, runs of 36 B", RSH_F32, RSH_F32, 932064, 9, 144, 4, 36, 4, 4, 36, 32 MiB, 1, 0, RSH_OP_NONE},
    {"dense rows of 36 B", RSH_F32, RSH_F32, 3728256, 9, 36, 4, 72, 4, 1, 0, 0, 1, 0, RSH_OP_NONE},
    {"every second f32", RSH_F32, RSH_F32, 1, 32 MiB, 128 MiB, 4, 0, 8, 1, 0, 0, 1, 0, RSH_OP_NONE},
    {"transpose f32 8192x4096", RSH_F32, RSH_F32, 8192, 4096, 16384, 4, 4, 32768, 1, 0, 0, 1, 0, RSH_OP_NONE},
    {"transpose f32 8191x4097", RSH_F32, RSH_F32, 8188, 4097, 16388, 4, 4, 32764, 1, 0, 0, 1, 0, RSH_OP_NONE},
    {"transpose f64 4096x4096", RSH_F64, RSH_F64, 4096, 4096, 32768, 8, 8, 32768, 1, 0, 0, 1, 0, RSH_OP_NONE},
    {"transpose bf16 8192x8192", RSH_BF16, RSH_BF16, 8192, 8192, 16384, 2, 2, 16384, 1, 0, 0, 1, 0, RSH_OP_NONE},
    {"transpose u8 8192x16384", RSH_U8, RSH_U8, 8192, 16384, 16384, 1, 1, 8192, 1, 0, 0, 1, 0, RSH_OP_NONE},
    {"transpose c128 2048x4096", RSH_C128, RSH_C128, 2048, 4096, 65536, 16, 16, 32768, 1, 0, 0, 1, 0, RSH_OP_NONE},
    {"f32 to bf16", RSH_F32, RSH_BF16, 1, 64 MiB, 128 MiB, 2, 256 MiB, 4, 1, 0, 0, 1, 0, RSH_OP_NONE},
    {"f32 to f16", RSH_F32, RSH_F16, 1, 64 MiB, 128 MiB, 2, 256 MiB, 4, 1, 0, 0, 1, 0, RSH_OP_NONE},
    {"bf16 to f32", RSH_BF16, RSH_F32, 1, 32 MiB, 128 MiB, 4, 64 MiB, 2, 1, 0, 0, 1, 0, RSH_OP_NONE},
    {"f16 to f32", RSH_F16, RSH_F32, 1, 32 MiB, 128 MiB, 4, 64 MiB, 2, 1, 0, 0, 1, 0, RSH_OP_NONE},
    {"f64 to f32", RSH_F64, RSH_F32, 1, 32 MiB, 128 MiB, 4, 256 MiB, 8, 1, 0, 0, 1, 0, RSH_OP_NONE},
    {"f32 to f8e4m3", RSH_F32, RSH_F8E4M3, 1, 128 MiB, 128 MiB, 1, 512 MiB, 4, 1, 0, 0, 1, 0, RSH_OP_NONE},
    {"f32 to bf16, transposed", RSH_F32, RSH_BF16, 8192, 8192, 16384, 2, 4, 32768, 1, 0, 0, 1, 0, RSH_OP_NONE},
    {"sum of 2 f32", RSH_F32, RSH_F32, 1, 32 MiB, 128 MiB, 4, 0, 4, 1, 0, 0, 2, 128 MiB, RSH_OP_SUM},
    {"sum of 4 f32", RSH_F32, RSH_F32, 1, 32 MiB, 128 MiB, 4, 0, 4, 1, 0, 0, 4, 128 MiB, RSH_OP_SUM},
    {"sum of 8 f32", RSH_F32, RSH_F32, 1, 32 MiB, 128 MiB, 4, 0, 4, 1, 0, 0, 8, 128 MiB, RSH_OP_SUM},
    {"max of 4 f32", RSH_F32, RSH_F32, 1, 32 MiB, 128 MiB, 4, 0, 4, 1, 0, 0, 4, 128 MiB, RSH_OP_MAX},
    {"sum of 4 bf16", RSH_BF16, RSH_BF16, 1, 64 MiB, 128 MiB, 2, 0, 2, 1, 0, 0, 4, 128 MiB, RSH_OP_SUM},
    {"sum of 4 i32", RSH_I32, RSH_I32, 1, 32 MiB, 128 MiB, 4, 0, 4, 1, 0, 0, 4, 128 MiB, RSH_OP_SUM},
};

typedef struct job {
    const bench_case *c; /* NULL: measure memcpy */
    int thread, threads;
} job;

static char *dst_memory, *src_memory;
static pthread_barrier_t start, stop;
static job current;

static char *reserve(int64_t bytes) {
    char *p = mmap(NULL, (size_t)bytes + 2 MiB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) exit(1);
    p += -(uintptr_t)p % (2 MiB);
    madvise(p, (size_t)bytes, MADV_HUGEPAGE);
    memset(p, 1, (size_t)bytes);
    return p;
}

static void run_memcpy(int thread, int threads) {
    int64_t share = DST_BYTES / threads;
    memcpy(dst_memory + thread * share, src_memory + thread * share, (size_t)share);
}

static void prepare_move(const bench_case *c, rshi_move *m, int64_t *ss) {
    *m = (rshi_move){.nd = 2, .n = {c->n0, c->n1}, .ds = {c->ds0, c->ds1}, .nsrc = c->nsrc, .ss = ss, .from = c->from};
    m->to = c->to;
    m->op = c->op;
    for (int k = 0; k < c->nsrc; k++) {
        ss[k * RSHI_MOVE_DIMS] = c->ss0;
        ss[k * RSHI_MOVE_DIMS + 1] = c->ss1;
    }
    rshi_move_prepare(m, (size_t)DST_BYTES);
}

/* Runs a thread's share of dim 0, slab by slab, with the moves interleaved. */
static void run_case(const bench_case *c, int thread, int threads) {
    int64_t ss[SOURCES * RSHI_MOVE_DIMS];
    const char *src[MOVES][SOURCES];
    rshi_move m;
    prepare_move(c, &m, ss);
    for (int i = 0; i < c->moves; i++)
        for (int k = 0; k < c->nsrc; k++) src[i][k] = src_memory + i * c->src_next + k * c->source_next;
    int64_t i0 = m.n[0] * thread / threads, i1 = m.n[0] * (thread + 1) / threads;
    int64_t slab = rshi_max(1, SLAB * m.n[0] / (DST_BYTES / c->moves));
    if (m.split == 0) slab = rshi_ceil_div(slab, m.grain) * m.grain;
    for (int64_t i = i0; i < i1; i += slab)
        for (int j = 0; j < c->moves; j++)
            rshi_move_run(&m, 0, i, rshi_min(i + slab, i1), dst_memory + j * c->dst_next, src[j]);
    rshi_copy_fence();
}

static void run_share(int thread) {
    if (current.c)
        run_case(current.c, thread, current.threads);
    else
        run_memcpy(thread, current.threads);
}

static void *worker(void *arg) {
    int thread = *(int *)arg;
    for (;;) {
        pthread_barrier_wait(&start);
        if (current.threads == 0) return NULL;
        run_share(thread);
        pthread_barrier_wait(&stop);
    }
}

static double time_of(const bench_case *c, int threads) {
    current = (job){.c = c, .threads = threads};
    double t = rshi_seconds();
    pthread_barrier_wait(&start);
    run_share(0);
    pthread_barrier_wait(&stop);
    return rshi_seconds() - t;
}

/* Returns the bytes read and written, relative to a memcpy of the destination. */
static double work_of(const bench_case *c) {
    double from = (double)rsh_dtype_size(c->from), to = (double)rsh_dtype_size(c->to);
    return (c->nsrc * from + to) / (2 * to);
}

static void report(const bench_case *c, int threads) {
    double best = 1e9, reference = 1e9;
    for (int i = 0; i < ROUNDS; i++) {
        double a = time_of(NULL, threads), b = time_of(c, threads);
        if (a < reference) reference = a;
        if (b < best) best = b;
    }
    printf("%-28s %7.2f ms   memcpy %7.2f ms   ratio %.2f\n", c->name, best * 1e3, reference * 1e3,
           reference * work_of(c) / best);
    fflush(stdout);
}

/* Measures many small moves on one thread: a block of 64 x 32 f32 from rows of 64. */
static void report_small(void) {
    enum { TIMES = 100000 };
    int64_t ss[RSHI_MOVE_DIMS] = {256, 4};
    const char *src = src_memory;
    rshi_move m = {.nd = 2, .n = {64, 32}, .ds = {128, 4}, .nsrc = 1, .ss = ss, .from = RSH_F32, .to = RSH_F32};
    rshi_move_prepare(&m, 8192);
    double t = rshi_seconds();
    for (int i = 0; i < TIMES; i++) rshi_move_run(&m, 0, 0, 64, dst_memory, &src);
    printf("%-28s %7.0f ns\n", "64 runs of 128 B, cached", (rshi_seconds() - t) / TIMES * 1e9);
}

int main(int argc, char **argv) {
    int threads = argc > 1 ? atoi(argv[1]) : 2, ids[64];
    pthread_t others[64];
    if (threads < 1 || threads > 64) return 2;
    dst_memory = reserve(DST_BYTES), src_memory = reserve(SRC_BYTES);
    pthread_barrier_init(&start, NULL, (unsigned)threads);
    pthread_barrier_init(&stop, NULL, (unsigned)threads);
    for (int i = 1; i < threads; i++) {
        ids[i] = i;
        pthread_create(&others[i], NULL, worker, &ids[i]);
    }
    printf("%d threads, %s\n", threads, rshi_copy_simd());
    report_small();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (argc < 3 || strstr(cases[i].name, argv[2])) report(&cases[i], threads);
    current = (job){.threads = 0};
    pthread_barrier_wait(&start);
    for (int i = 1; i < threads; i++) pthread_join(others[i], NULL);
    return 0;
}
