/* Main: moves a tensor between two layouts, checks every element, and compares the speed with memcpy.  `make run`
 * runs it.
 *
 * It also shows the steps of the library: text -> layout -> plan -> exec -> bytes. */
#include <reshard.h>

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

enum { RANKS = 4, ROUNDS = 9 };
static const char FROM[] = "f32[8192/x, 8192] on x=4"; /* bands of rows, 64 MiB on each rank */
static const char TO[] = "f32[8192, 8192/x] on x=4";   /* bands of columns */

/* Data that the ranks share; each rank writes only its own entries. */
typedef struct job {
    const rsh_plan *plan;
    rsh_pool *pool; /* used by rank 0 only */
    void *src[RANKS], *dst[RANKS];
    size_t bytes; /* bytes of a part */
    double reshard_seconds, memcpy_seconds;
    rsh_digest before, after;
} job;

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int to_stream(void *stream, const char *text, size_t length) {
    return fwrite(text, 1, length, stream) != length;
}

/* ---- values computed from global indices, so that every element can be checked after the move ---- */

typedef struct walk {
    float *part;
    int64_t columns; /* number of columns of the global tensor */
    bool fill;
    int64_t wrong;
} walk;

static float value_at(int64_t index) { return (float)((uint32_t)((uint64_t)index * 2654435761u) >> 8); }

static int walk_box(void *ctx, const rsh_box *box, int64_t offset, const int64_t *strides) {
    walk *w = ctx;
    for (int64_t i = box->lo[0]; i < box->hi[0]; i++) {
        for (int64_t j = box->lo[1]; j < box->hi[1]; j++) {
            float *element = w->part + offset + (i - box->lo[0]) * strides[0] + (j - box->lo[1]) * strides[1];
            float value = value_at(i * w->columns + j);
            if (w->fill) *element = value;
            w->wrong += *element != value;
        }
    }
    return 0;
}

static rsh_status walk_part(const rsh_sharded *s, bool fill, int64_t *wrong) {
    const rsh_layout *layout = rsh_sharded_layout(s);
    walk w = {rsh_tensor_data(rsh_sharded_part(s, 0)), rsh_layout_shape(layout)[1], fill, 0};
    rsh_status st = rsh_layout_each_box(layout, rsh_comm_rank(rsh_sharded_comm(s)), 0, walk_box, &w);
    *wrong = w.wrong;
    return st;
}

/* ---- timing: one run of the exec, and memcpy of the same number of bytes by one thread per core ---- */

/* Copies the i-th share of all bytes; there is one share per thread of the pool. */
static void copy_share(void *ctx, int64_t i, int worker) {
    job *j = ctx;
    size_t all = RANKS * j->bytes, shares = (size_t)rsh_pool_size(j->pool);
    size_t at = all / shares * (size_t)i, end = (size_t)i + 1 == shares ? all : all / shares * ((size_t)i + 1);
    (void)worker;
    while (at < end) {
        size_t part = at / j->bytes, offset = at % j->bytes;
        size_t n = end - at < j->bytes - offset ? end - at : j->bytes - offset;
        memcpy((char *)j->dst[part] + offset, (char *)j->src[part] + offset, n);
        at += n;
    }
}

static rsh_status time_reshard(rsh_exec *exec, rsh_comm *comm, double *seconds) {
    rsh_status st = rsh_comm_barrier(comm);
    double began = now();
    if (!st) st = rsh_exec_run(exec);
    if (!st) st = rsh_comm_barrier(comm);
    *seconds = now() - began;
    return st;
}

static rsh_status time_rounds(job *j, rsh_exec *exec, rsh_comm *comm) {
    bool first_rank = rsh_comm_rank(comm) == 0;
    rsh_status st = RSH_OK;
    for (int round = 0; round < ROUNDS && !st; round++) {
        double reshard_seconds;
        st = time_reshard(exec, comm, &reshard_seconds);
        if (st || !first_rank) continue; /* the other ranks are waiting in the next barrier */
        double began = now();
        rsh_pool_run(j->pool, rsh_pool_size(j->pool), copy_share, j);
        double memcpy_seconds = now() - began;
        if (round == 0 || reshard_seconds < j->reshard_seconds) j->reshard_seconds = reshard_seconds;
        if (round == 0 || memcpy_seconds < j->memcpy_seconds) j->memcpy_seconds = memcpy_seconds;
    }
    return st ? st : rsh_comm_barrier(comm);
}

/* ---- the function of every rank ---- */

static rsh_status move_and_check(job *j, rsh_comm *comm, rsh_sharded *src, rsh_sharded *dst) {
    int me = rsh_comm_rank(comm);
    int64_t wrong = 0;
    rsh_digest before, after;
    rsh_exec *exec = NULL;
    rsh_memory from = {rsh_tensor_data(rsh_sharded_part(src, 0)), NULL};
    rsh_memory to = {rsh_tensor_data(rsh_sharded_part(dst, 0)), NULL};
    j->src[me] = from.data;
    j->dst[me] = to.data;

    rsh_status st = walk_part(src, true, &wrong);
    if (!st) st = rsh_sharded_digest(src, &before);
    if (!st) st = rsh_exec_bind(j->plan, comm, &from, &to, &exec);
    if (!st) st = time_rounds(j, exec, comm);

    memset(to.data, 0xff, j->bytes); /* so that the values can only come from the last run */
    if (!st) st = rsh_exec_run(exec);
    if (!st) st = walk_part(dst, false, &wrong);
    if (!st) st = rsh_sharded_digest(dst, &after);
    rsh_exec_free(exec);
    if (st) return st;

    if (me == 0) j->before = before, j->after = after;
    if (wrong) printf("rank %d: %" PRId64 " elements are wrong\n", me, wrong);
    return wrong ? RSH_ERUNTIME : RSH_OK;
}

static rsh_status rank_main(void *ctx, rsh_comm *comm) {
    job *j = ctx;
    rsh_sharded *src = NULL, *dst = NULL;
    rsh_status st = rsh_sharded_zeros(comm, rsh_plan_from(j->plan, 0), &src);
    if (!st) st = rsh_sharded_zeros(comm, rsh_plan_to(j->plan, 0), &dst);
    if (!st) st = move_and_check(j, comm, src, dst);
    rsh_sharded_free(dst);
    rsh_sharded_free(src);
    return st;
}

static bool report(const job *j) {
    char before[RSH_DIGEST_TEXT], after[RSH_DIGEST_TEXT];
    double gigabytes = 1e-9 * RANKS * (double)j->bytes;
    rsh_digest_text(j->before, before);
    rsh_digest_text(j->after, after);
    bool same = strcmp(before, after) == 0;
    printf("\nmoved by %d rank threads; minimum of %d alternating rounds:\n", RANKS, ROUNDS);
    printf("  reshard  %8.2f ms  %6.2f GB/s\n", 1e3 * j->reshard_seconds, gigabytes / j->reshard_seconds);
    printf("  memcpy   %8.2f ms  %6.2f GB/s  by %d threads\n", 1e3 * j->memcpy_seconds, gigabytes / j->memcpy_seconds,
           rsh_pool_size(j->pool));
    printf("  reshard runs at %.2f of memcpy's speed\n", j->memcpy_seconds / j->reshard_seconds);
    printf("\nproof:\n  digest before  %s\n  digest after   %s  %s\n", before, after, same ? "the same" : "DIFFERENT");
    printf("  every element equals the value computed from its global index\n");
    return same;
}

int main(void) {
    job j = {0};
    rsh_layout *from = NULL, *to = NULL;
    rsh_plan *plan = NULL;
    rsh_part part;
    rsh_sink out = {to_stream, stdout};
    bool same = false;

    printf("reshard %s\n\n", rsh_version());
    rsh_status st = rsh_layout_parse(FROM, &from);
    if (!st) st = rsh_layout_parse(TO, &to);
    if (!st) st = rsh_plan_new(from, to, NULL, &plan); /* planning needs no tensors and no ranks */
    if (!st) st = rsh_plan_print(plan, -1, RSH_PRINT_TEXT, &out);
    if (!st) putchar('\n');
    if (!st) st = rsh_draw_plan(plan, 0, RSH_PICTURE_TEXT, &out);
    if (!st) st = rsh_layout_part(from, 0, 0, &part);
    if (!st) st = rsh_pool_new(0, &j.pool);
    if (!st) {
        fflush(stdout);
        j.plan = plan;
        j.bytes = (size_t)part.count * rsh_dtype_size(rsh_layout_dtype(from));
        st = rsh_run(RANKS, rank_main, &j); /* four threads, each of them a rank */
    }
    if (!st) same = report(&j);
    if (st) fprintf(stderr, "00_main: %s: %s\n", rsh_status_text(st), rsh_error_detail());

    rsh_pool_free(j.pool);
    rsh_plan_free(plan);
    rsh_layout_free(to);
    rsh_layout_free(from);
    return same ? 0 : 1;
}
