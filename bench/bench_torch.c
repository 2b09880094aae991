/* Rows to columns: measures PyTorch 1.13 over gloo and reshard, on threads and on processes, in alternation.
 *
 *   bench_torch [RANKS [SCRIPT]]     defaults: 2, bench/gloo_reshard.py
 *
 * RESHARD_PYTHON names another Python than /usr/bin/python3.  Both are timed in the same way: a run starts after a
 * barrier, its time is that of the slowest rank, and the best run counts.  "ratio" is PyTorch's time divided by
 * reshard's.  If PyTorch is not installed, its row says so, and only reshard is measured. */
#include <reshard/dtensor.h>
#include <reshard/torch.h>

#include <jansson.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MOST_RANKS 8
#define MOST_RUNS 300
#define TRY(call)                                                                                  \
    do {                                                                                           \
        rsh_status st_ = (call);                                                                   \
        if (st_) return st_;                                                                       \
    } while (0)

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* ---- PyTorch: a child process that measures on request ---- */

typedef struct peer {
    pid_t pid; /* 0: there is no process */
    FILE *to, *from;
} peer;

static json_t *peer_hears(peer *p) {
    char line[512];
    return fgets(line, sizeof line, p->from) ? json_loads(line, 0, NULL) : NULL;
}

static void peer_leaves(peer *p) {
    if (p->pid <= 0) return;
    fclose(p->to), fclose(p->from);
    waitpid(p->pid, NULL, 0);
    p->pid = 0;
}

static void become_script(const char *script, const int *in, const int *out) {
    const char *named = getenv("RESHARD_PYTHON"), *python = named ? named : "/usr/bin/python3";
    dup2(in[0], STDIN_FILENO), dup2(out[1], STDOUT_FILENO);
    close(in[0]), close(in[1]), close(out[0]), close(out[1]);
    if (!freopen("/dev/null", "w", stderr)) _exit(127);
    execl(python, python, script, (char *)NULL); /* start Python by its path, from which it finds its modules */
    _exit(127);
}

/* Starts PyTorch.  Leaves p->pid 0 if it is not available. */
static void peer_starts(peer *p, const char *script) {
    int in[2], out[2];
    if (pipe(in) || pipe(out)) return;
    pid_t pid = fork(); /* *p is shared with the child */
    if (pid == 0) become_script(script, in, out);
    p->pid = pid;
    close(in[0]), close(out[1]);
    p->to = fdopen(in[1], "w"), p->from = fdopen(out[0], "r");
    json_t *ready = peer_hears(p);
    if (ready) printf("PyTorch %s over gloo is there\n", json_string_value(json_object_get(ready, "torch")));
    if (!ready)
        printf("PyTorch is left out: %s needs python3 with torch 1.13, numpy and gloo\n", script), peer_leaves(p);
    json_decref(ready);
}

/* Returns the best seconds of `count` runs; 0 if PyTorch is no longer running. */
static double peer_measures(peer *p, int64_t n, int count) {
    if (p->pid <= 0) return 0;
    fprintf(p->to, "%lld %lld %d\n", (long long)n, (long long)n, count);
    fflush(p->to);
    json_t *said = peer_hears(p);
    double seconds = json_real_value(json_object_get(said, "best_seconds"));
    if (!said) printf("PyTorch is left out from here: it has gone\n"), peer_leaves(p);
    json_decref(said);
    return seconds;
}

/* ---- reshard ---- */

typedef enum way { BOUND, INTO, NEW, DROP_IN, DTENSOR, FIRST, WAYS } way;
static const char *const way_names[WAYS] = {"rsh_exec_run: plan bound", "rsh_torch_reshard_into: plan cached",
                                            "rsh_torch_reshard: plan cached, new memory",
                                            "rsh_reshard_local_shard: the same",
                                            "rsh_dtensor_redistribute: the same",
                                            "rsh_torch_reshard: first call, plans, new memory"};

/* Data that the ranks share, even if they are processes. */
typedef struct bench {
    int ranks;
    peer peer;              /* only rank 0 talks to PyTorch */
    pthread_barrier_t barrier; /* a waiting rank sleeps, so that it takes no core from PyTorch */
    double times[MOST_RANKS][MOST_RUNS];
    double best[WAYS], peer_best;
} bench;

/* One rank's side of a move of n by n elements. */
typedef struct side {
    bench *b;
    rsh_comm *comm;
    int rank;
    int64_t n, size[2];
    rsh_spec *from, *to;
    rsh_layout *rows, *columns;
    rsh_plan *plan;
    rsh_exec *exec;
    rsh_torch_tensor *src, *dst;
    rsh_memory in, out;
    rsh_mesh *mesh;
    rsh_value *value; /* src as a DTensor */
} side;

/* Returns the element at i, j, with the same formula as the script; exact in f32. */
static float value(int64_t i, int64_t j) { return (float)((31 * i + 7 * j) % 65536); }

static rsh_status is_right(const side *s, const rsh_shard *shard) {
    const float *p = rsh_tensor_data(shard->tensor);
    int64_t columns = shard->meta.sizes[1];
    for (int64_t i = 0; i < s->n; i++)
        for (int64_t j = 0; j < columns; j++)
            if (p[i * columns + j] != value(i, shard->meta.offsets[1] + j)) {
                fprintf(stderr, "bench_torch: our result is wrong at row %lld\n", (long long)i);
                return RSH_ERUNTIME;
            }
    return RSH_OK;
}

/* Makes the source a DTensor, on the same elements. */
static rsh_status prepare_dtensor(side *s) {
    const rsh_place rows = rsh_place_shard(0);
    rsh_value *local = NULL;
    rsh_from_local_opts opts = {sizeof opts, .shape = s->size};
    TRY(rsh_mesh_new(s->comm, 1, (const int64_t[]){s->b->ranks}, NULL, NULL, &s->mesh));
    TRY(rsh_value_share_tensor(rsh_torch_shard(s->src, 0)->tensor, false, &local));
    rsh_status st = rsh_dtensor_from_local(local, s->mesh, 1, &rows, &opts, &s->value);
    rsh_value_free(local);
    return st;
}

static rsh_status prepare_side(side *s) {
    s->size[0] = s->size[1] = s->n;
    TRY(rsh_spec_chunk_ranks(0, s->b->ranks, NULL, &s->from));
    TRY(rsh_spec_chunk_ranks(1, s->b->ranks, NULL, &s->to));
    TRY(rsh_torch_zeros(s->from, 2, s->size, NULL, &s->src));
    TRY(rsh_torch_zeros(s->to, 2, s->size, NULL, &s->dst));
    const rsh_shard *shard = rsh_torch_shard(s->src, 0);
    float *p = rsh_tensor_data(shard->tensor);
    for (int64_t i = 0; i < shard->meta.sizes[0]; i++)
        for (int64_t j = 0; j < s->n; j++) p[i * s->n + j] = value(shard->meta.offsets[0] + i, j);
    s->in.data = p, s->out.data = rsh_tensor_data(rsh_torch_shard(s->dst, 0)->tensor);
    TRY(rsh_spec_layout(s->from, RSH_F32, 2, s->size, &s->rows));
    TRY(rsh_spec_layout(s->to, RSH_F32, 2, s->size, &s->columns));
    TRY(rsh_plan_new(s->rows, s->columns, NULL, &s->plan));
    TRY(rsh_exec_bind(s->plan, s->comm, &s->in, &s->out, &s->exec));
    return prepare_dtensor(s);
}

static void release_side(side *s) {
    rsh_value_free(s->value);
    rsh_mesh_free(s->mesh);
    rsh_exec_free(s->exec);
    rsh_plan_free(s->plan);
    rsh_layout_free(s->rows), rsh_layout_free(s->columns);
    rsh_torch_free(s->src), rsh_torch_free(s->dst);
    rsh_spec_free(s->from), rsh_spec_free(s->to);
}

/* Measures a move into a new tensor.  The first run of a round is checked, as PyTorch's is. */
static rsh_status time_new(const side *s, rsh_comm *comm, const rsh_torch_tensor *src, bool first, double *seconds) {
    rsh_torch_tensor *fresh = NULL;
    TRY(rsh_comm_barrier(comm));
    double start = now();
    TRY(rsh_torch_reshard(src, s->to, &fresh));
    *seconds = now() - start;
    rsh_status st = first ? is_right(s, rsh_torch_shard(fresh, 0)) : RSH_OK;
    rsh_torch_free(fresh);
    return st;
}

static rsh_status time_drop_in(const side *s, bool first, double *seconds) {
    rsh_shard fresh = {0};
    rsh_shard_meta by_rank[MOST_RANKS];
    const rsh_tensor *local = rsh_torch_shard(s->src, 0)->tensor;
    TRY(rsh_comm_barrier(s->comm));
    double start = now();
    TRY(rsh_reshard_local_shard(local, 2, s->size, s->from, s->to, NULL, &fresh, by_rank));
    *seconds = now() - start;
    rsh_status st = first ? is_right(s, &fresh) : RSH_OK;
    rsh_tensor_free(fresh.tensor);
    return st;
}

/* Measures a first call, on a separate group whose comm has no cached plan. */
static rsh_status time_first(const side *s, bool first, double *seconds) {
    static const int ranks[MOST_RANKS] = {0, 1, 2, 3, 4, 5, 6, 7};
    rsh_group *group = NULL;
    rsh_torch_tensor *src = NULL;
    TRY(rsh_group_new(s->b->ranks, ranks, &group));
    rsh_status st = rsh_torch_from_tensor(rsh_torch_shard(s->src, 0)->tensor, NULL, s->from, 2, s->size, group, &src);
    if (!st) st = time_new(s, rsh_group_comm(group), src, first, seconds);
    rsh_torch_free(src);
    rsh_group_free(group);
    return st;
}

static rsh_status time_dtensor(const side *s, bool first, double *seconds) {
    const rsh_place columns = rsh_place_shard(1);
    rsh_value *moved = NULL;
    TRY(rsh_comm_barrier(s->comm));
    double start = now();
    TRY(rsh_dtensor_redistribute(s->value, 1, &columns, RSH_DTYPE_NONE, &moved));
    *seconds = now() - start;
    rsh_shard shard = *rsh_torch_shard(s->dst, 0);
    shard.tensor = (rsh_tensor *)rsh_value_tensor(moved);
    rsh_status st = first ? is_right(s, &shard) : RSH_OK;
    rsh_value_free(moved);
    return st;
}

static rsh_status time_kept(const side *s, way w, double *seconds) {
    TRY(rsh_comm_barrier(s->comm));
    double start = now();
    TRY(w == BOUND ? rsh_exec_run(s->exec) : rsh_torch_reshard_into(s->src, s->dst));
    *seconds = now() - start;
    return RSH_OK;
}

static rsh_status time_way(const side *s, way w, bool first, double *seconds) {
    return w == FIRST     ? time_first(s, first, seconds)
           : w == DROP_IN ? time_drop_in(s, first, seconds)
           : w == DTENSOR ? time_dtensor(s, first, seconds)
           : w == NEW     ? time_new(s, s->comm, s->src, first, seconds)
                          : time_kept(s, w, seconds);
}

static void keep_best(bench *b, way w, int count) {
    for (int i = 0; i < count; i++) {
        double slowest = 0;
        for (int r = 0; r < b->ranks; r++)
            if (b->times[r][i] > slowest) slowest = b->times[r][i];
        if (b->best[w] == 0 || slowest < b->best[w]) b->best[w] = slowest;
    }
}

/* Runs PyTorch `count` times, then each of our functions. */
static rsh_status take_turn(side *s, int count) {
    bench *b = s->b;
    if (s->rank == 0) {
        double seconds = peer_measures(&b->peer, s->n, count);
        if (seconds > 0 && (b->peer_best == 0 || seconds < b->peer_best)) b->peer_best = seconds;
    }
    pthread_barrier_wait(&b->barrier);
    for (int w = 0; w < WAYS; w++) {
        if (w < NEW)
            memset(s->out.data, 0, (size_t)rsh_tensor_count(rsh_torch_shard(s->dst, 0)->tensor) * sizeof(float));
        for (int i = 0; i < count; i++) TRY(time_way(s, (way)w, i == 0, &b->times[s->rank][i]));
        if (w < NEW) TRY(is_right(s, rsh_torch_shard(s->dst, 0)));
        TRY(rsh_comm_barrier(s->comm));
        if (s->rank == 0) keep_best(b, (way)w, count);
        TRY(rsh_comm_barrier(s->comm));
    }
    return RSH_OK;
}

static void report(const side *s, int runs) {
    const bench *b = s->b;
    printf("f32 %lldx%lld, dim 0 to dim 1, %d ranks on %s, best of %d\n", (long long)s->n, (long long)s->n, b->ranks,
           rsh_comm_engine(s->comm), runs);
    if (b->peer_best > 0) printf("  %-46s %12.3f us\n", "PyTorch: reshard_local_shard", b->peer_best * 1e6);
    for (int w = 0; w < WAYS; w++) {
        printf("  %-46s %12.3f us", way_names[w], b->best[w] * 1e6);
        if (b->peer_best > 0) printf("   ratio %.1f", b->peer_best / b->best[w]);
        printf("\n");
    }
    fflush(stdout);
}

static rsh_status compare(bench *b, rsh_comm *comm, int64_t n, int turns, int count) {
    side s = {.b = b, .comm = comm, .rank = rsh_comm_rank(comm), .n = n};
    if (s.rank == 0) memset(b->best, 0, sizeof b->best), b->peer_best = 0;
    rsh_status st = prepare_side(&s);
    for (int i = 0; i < turns && !st; i++) st = take_turn(&s, count);
    if (!st && s.rank == 0) report(&s, turns * count);
    release_side(&s);
    return st;
}

static rsh_status be_rank(void *ctx, rsh_comm *comm) {
    bench *b = ctx;
    TRY(rsh_group_init(comm));
    TRY(compare(b, comm, 64, 3, 100));
    TRY(compare(b, comm, 1024, 3, 20));
    TRY(compare(b, comm, 8192, 5, 1));
    return rsh_group_destroy();
}

int main(int argc, char **argv) {
    bench *b = mmap(NULL, sizeof *b, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (b == MAP_FAILED) return 1;
    b->ranks = argc > 1 ? atoi(argv[1]) : 2;
    if (b->ranks < 2 || b->ranks > MOST_RANKS) {
        fprintf(stderr, "bench_torch: 2 to %d ranks, not %s\n", MOST_RANKS, argv[1]);
        return 2;
    }
    signal(SIGPIPE, SIG_IGN);
    char text[16];
    snprintf(text, sizeof text, "%d", b->ranks);
    setenv("RANKS", text, 1); /* read by the script */
    peer_starts(&b->peer, argc > 2 ? argv[2] : "bench/gloo_reshard.py");
    pthread_barrierattr_t shared;
    pthread_barrierattr_init(&shared);
    pthread_barrierattr_setpshared(&shared, PTHREAD_PROCESS_SHARED);
    pthread_barrier_init(&b->barrier, &shared, (unsigned)b->ranks);
    rsh_status st = rsh_run(b->ranks, be_rank, b);
    if (!st) st = rsh_run_shm(b->ranks, be_rank, b);
    if (st) fprintf(stderr, "bench_torch: %s\n", rsh_error_detail());
    peer_leaves(&b->peer);
    return st != RSH_OK;
}
