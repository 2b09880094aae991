/* Measures moves of sharded tensors in a loop, from rows to columns: with rsh_torch_reshard_into, with a bound exec,
 * and with a new tensor in every call.
 *
 *     bench_torch_tensor [RANKS [ROWS [COLUMNS [SECONDS]]]]
 *
 * Prints the least time of a call on rank 0 over a few rounds, and the time of memcpy for a rank's part. */
#include <reshard/torch.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef struct job {
    int64_t size[2];
    double seconds; /* seconds of a round */
} job;

/* A function that moves the tensor once. */
typedef struct way {
    const char *name;
    rsh_status (*go)(struct way *w);
    rsh_torch_tensor *from, *to;
    rsh_exec *exec;
    size_t bytes;
} way;

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static rsh_status go_into(way *w) { return rsh_torch_reshard_into(w->from, w->to); }
static rsh_status go_exec(way *w) { return rsh_exec_run(w->exec); }
static rsh_status go_new(way *w) {
    rsh_torch_tensor *t;
    rsh_status st = rsh_torch_reshard(w->from, rsh_torch_spec(w->to), &t);
    if (!st) rsh_torch_free(t);
    return st;
}
static rsh_status go_copy(way *w) {
    memcpy(rsh_tensor_data(rsh_torch_shard(w->to, 0)->tensor), rsh_tensor_data(rsh_torch_shard(w->from, 0)->tensor),
           w->bytes);
    return RSH_OK;
}

static rsh_status time_way(way *w, rsh_comm *comm, const job *j) {
    double least = 1e9;
    int64_t calls = 1;
    rsh_status st = w->go(w);
    for (int round = 0; round < 7 && !st; round++) {
        st = rsh_comm_barrier(comm);
        double began = now();
        for (int64_t i = 0; i < calls && !st; i++) st = w->go(w);
        double each = (now() - began) / (double)calls;
        if (round && each < least) least = each;
        int64_t more = (int64_t)(j->seconds / each) + 1;
        if (!st && !round) st = rsh_comm_allreduce(comm, &more, &calls, 1, RSH_I64, RSH_OP_MAX);
    }
    if (st || rsh_comm_rank(comm)) return st;
    printf("  %-28s %12.3f us\n", w->name, 1e6 * least);
    fflush(stdout); /* a rank that is a process ends without flushing */
    return RSH_OK;
}

static rsh_status bind(const rsh_torch_tensor *from, const rsh_torch_tensor *to, rsh_comm *comm, rsh_plan **plan,
                       rsh_exec **exec) {
    rsh_sharded *a = NULL, *b = NULL;
    rsh_status st = rsh_torch_sharded(from, &a);
    if (!st) st = rsh_torch_sharded(to, &b);
    if (!st) st = rsh_plan_new(rsh_sharded_layout(a), rsh_sharded_layout(b), NULL, plan);
    if (!st) {
        rsh_memory src = {rsh_tensor_data(rsh_sharded_part(a, 0)), NULL},
                   dst = {rsh_tensor_data(rsh_sharded_part(b, 0)), NULL};
        st = rsh_exec_bind(*plan, comm, &src, &dst, exec);
    }
    rsh_sharded_free(a);
    rsh_sharded_free(b);
    return st;
}

static rsh_status rank_main(void *ctx, rsh_comm *comm) {
    const job *j = ctx;
    rsh_spec *rows = NULL, *columns = NULL;
    rsh_torch_tensor *from = NULL, *to = NULL;
    rsh_plan *plan = NULL;
    rsh_exec *exec = NULL;
    rsh_status st = rsh_group_init(comm);
    if (!st) st = rsh_spec_chunk_ranks(0, rsh_comm_size(comm), NULL, &rows);
    if (!st) st = rsh_spec_chunk_ranks(1, rsh_comm_size(comm), NULL, &columns);
    if (!st) st = rsh_torch_rand(rows, 2, j->size, NULL, &from);
    if (!st) st = rsh_torch_zeros(columns, 2, j->size, NULL, &to);
    if (!st) st = bind(from, to, comm, &plan, &exec);
    if (!st) {
        size_t bytes = (size_t)(j->size[0] * j->size[1]) / (size_t)rsh_comm_size(comm) * sizeof(float);
        way ways[] = {{"memcpy of a share", go_copy, from, to, NULL, bytes},
                      {"exec", go_exec, from, to, exec, 0},
                      {"rsh_torch_reshard_into", go_into, from, to, NULL, 0},
                      {"rsh_torch_reshard", go_new, from, to, NULL, 0}};
        for (int i = 0; i < 4 && !st; i++) st = time_way(&ways[i], comm, j);
    }
    rsh_exec_free(exec);
    rsh_plan_free(plan);
    rsh_torch_free(to);
    rsh_torch_free(from);
    rsh_spec_free(columns);
    rsh_spec_free(rows);
    return st ? st : rsh_group_destroy();
}

int main(int argc, char **argv) {
    int ranks = argc > 1 ? atoi(argv[1]) : 2;
    job j = {{argc > 2 ? atoll(argv[2]) : 64, argc > 3 ? atoll(argv[3]) : 64}, argc > 4 ? atof(argv[4]) : 0.05};
    if (ranks < 1 || j.size[0] < 0 || j.size[1] < 0) return 2;
    for (int shm = 0; shm < 2; shm++) {
        printf("%d ranks (%s), f32[%lld, %lld], rows to columns:\n", ranks, shm ? "processes" : "threads",
               (long long)j.size[0], (long long)j.size[1]);
        fflush(stdout);
        rsh_status st = shm ? rsh_run_shm(ranks, rank_main, &j) : rsh_run(ranks, rank_main, &j);
        if (st) fprintf(stderr, "bench_torch_tensor: %s: %s\n", rsh_status_text(st), rsh_error_detail());
        if (st) return 1;
    }
    return 0;
}
