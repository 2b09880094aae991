/* Fresh memory: compares rsh_reshard into a new tensor with a bound exec, for a move from rows to columns.
 *
 *     bench_fresh [RANKS [SECONDS [SIDE...]]]
 *
 * For every size, on threads and on processes, prints the least time of a call on rank 0 over a few rounds: of
 * rsh_exec_run, and of rsh_reshard with 1 and with 8 results kept alive in rotation.  It also prints their ratio, and
 * the page faults of rank 0 per call of rsh_reshard.  These distinguish reused memory from new memory even on a busy
 * machine. */
#include <reshard.h>

#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>

enum { MOST_ALIVE = 8, ROUNDS = 7 };

typedef struct job {
    int64_t side;
    double seconds; /* seconds of a round */
    const char *engine;
} job;

/* The operation that is repeated. */
typedef struct loop {
    rsh_exec *exec; /* NULL: call rsh_reshard */
    const rsh_sharded *from;
    const rsh_layout *to;
    rsh_sharded *kept[MOST_ALIVE]; /* the results that are kept alive; the oldest is at `next` */
    int alive, next;
} loop;

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Frees the oldest result and makes a new one in its place, so that addresses change from call to call. */
static rsh_status call_once(loop *l) {
    if (l->exec) return rsh_exec_run(l->exec);
    rsh_sharded **slot = &l->kept[l->next];
    rsh_sharded_free(*slot);
    *slot = NULL;
    l->next = (l->next + 1) % l->alive;
    return rsh_reshard(l->from, l->to, NULL, slot);
}

static double faults(void) {
    struct rusage usage;
    getrusage(RUSAGE_THREAD, &usage);
    return (double)(usage.ru_minflt + usage.ru_majflt);
}

/* Seconds and page faults per call, the least of all rounds.  Every rank makes the same number of calls. */
typedef struct cost {
    double seconds, faults;
} cost;

static rsh_status time_loop(loop *l, rsh_comm *comm, double seconds, cost *least) {
    rsh_status st = RSH_OK;
    int64_t calls = 1;
    for (int i = 0; i < 2 * MOST_ALIVE && !st; i++) st = call_once(l);
    *least = (cost){1e9, 1e9};
    for (int round = 0; round < ROUNDS && !st; round++) {
        st = rsh_comm_barrier(comm);
        double began = now(), before = faults();
        for (int64_t i = 0; i < calls && !st; i++) st = call_once(l);
        double each = (now() - began) / (double)calls;
        double touched = (faults() - before) / (double)calls;
        if (each < least->seconds) least->seconds = each;
        if (touched < least->faults) least->faults = touched;
        int64_t more = (int64_t)(seconds / each) + 1;
        if (!st && !round) st = rsh_comm_allreduce(comm, &more, &calls, 1, RSH_I64, RSH_OP_MAX);
    }
    for (int i = 0; i < MOST_ALIVE; i++) rsh_sharded_free(l->kept[i]);
    return st;
}

static rsh_status bind(rsh_comm *comm, const rsh_plan *plan, const rsh_sharded *from, const rsh_sharded *to,
                       rsh_exec **exec) {
    rsh_memory src = {rsh_tensor_data(rsh_sharded_part(from, 0)), NULL},
               dst = {rsh_tensor_data(rsh_sharded_part(to, 0)), NULL};
    return rsh_exec_bind(plan, comm, &src, &dst, exec);
}

static rsh_status compare(rsh_comm *comm, const job *j, const rsh_sharded *from, const rsh_layout *to, rsh_exec *exec) {
    cost bound, fresh[2];
    rsh_status st = time_loop(&(loop){.exec = exec}, comm, j->seconds, &bound);
    for (int i = 0; i < 2 && !st; i++)
        st = time_loop(&(loop){.from = from, .to = to, .alive = i ? MOST_ALIVE : 1}, comm, j->seconds, &fresh[i]);
    if (st || rsh_comm_rank(comm)) return st;
    for (int i = 0; i < 2; i++)
        printf("%-8s %5lld^2  %d alive  exec %10.2f us  reshard %10.2f us  ratio %6.2f  faults %8.1f\n",
               j->engine, (long long)j->side, i ? MOST_ALIVE : 1, 1e6 * bound.seconds, 1e6 * fresh[i].seconds,
               fresh[i].seconds / bound.seconds, fresh[i].faults);
    fflush(stdout); /* a rank that is a process ends without flushing */
    return RSH_OK;
}

static rsh_status rank_main(void *ctx, rsh_comm *comm) {
    const job *j = ctx;
    char text[2][96];
    rsh_layout *rows = NULL, *columns = NULL;
    rsh_plan *plan = NULL;
    rsh_sharded *from = NULL, *to = NULL;
    rsh_exec *exec = NULL;
    int n = rsh_comm_size(comm);
    snprintf(text[0], sizeof text[0], "f32[%lld/x, %lld] on x=%d", (long long)j->side, (long long)j->side, n);
    snprintf(text[1], sizeof text[1], "f32[%lld, %lld/x] on x=%d", (long long)j->side, (long long)j->side, n);
    rsh_status st = rsh_layout_parse(text[0], &rows);
    if (!st) st = rsh_layout_parse(text[1], &columns);
    if (!st) st = rsh_plan_new(rows, columns, NULL, &plan);
    if (!st) st = rsh_sharded_full(comm, rows, &(float){1}, &from);
    if (!st) st = rsh_sharded_zeros(comm, columns, &to);
    if (!st) st = bind(comm, plan, from, to, &exec);
    if (!st) st = compare(comm, j, from, columns, exec);
    rsh_exec_free(exec);
    rsh_sharded_free(to);
    rsh_sharded_free(from);
    rsh_plan_free(plan);
    rsh_layout_free(columns);
    rsh_layout_free(rows);
    return st;
}

static int run(int ranks, int64_t side, double seconds) {
    int failed = 0;
    for (int shm = 0; shm < 2; shm++) {
        job j = {side, seconds, shm ? "shm" : "threads"};
        rsh_status st = shm ? rsh_run_shm(ranks, rank_main, &j) : rsh_run(ranks, rank_main, &j);
        if (st) fprintf(stderr, "bench_fresh: %s: %s\n", rsh_status_text(st), rsh_error_detail());
        failed |= st != RSH_OK;
    }
    return failed;
}

int main(int argc, char **argv) {
    static const int64_t usual[] = {64, 1024, 8192};
    int ranks = argc > 1 ? atoi(argv[1]) : 2, failed = 0;
    double seconds = argc > 2 ? atof(argv[2]) : 0.1;
    if (ranks < 1) return 2;
    for (int i = 0; argc <= 3 && i < 3; i++) failed |= run(ranks, usual[i], seconds);
    for (int i = 3; i < argc; i++) failed |= run(ranks, atoll(argv[i]), seconds);
    return failed;
}
