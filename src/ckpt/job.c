/* Job: processes the windows of many tensors with several threads, in file order. */
#include "ckpt/impl.h"
#include "ckpt/view.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "wait/wait.h"

#define TASK_WINDOWS 256 /* number of small windows in a task, so that the journal is written less often */
#define MOST_THREADS 8

/* The state of one thread. */
typedef struct worker {
    rshi_mover mover;
    int64_t tensor; /* the tensor that the mover is set up for; -1: none */
    rshi_grid grid;
    rshi_moved *moved; /* [TASK_WINDOWS]: results of the current task */
} worker;

typedef struct rshi_job_state {
    pthread_mutex_t lock;
    atomic_int failed; /* status of the first failure */
    char sentence[RSHI_DETAIL_BYTES];
    worker *worker;
    int nworkers;
    struct task {
        int64_t first;  /* number of the first window */
        uint64_t bytes; /* bytes to read from the source */
    } * task;           /* [ntasks + 1]; the last one marks the end */
    int64_t ntasks, room;
    atomic_int_fast64_t last_task; /* later tasks are skipped, because an earlier difference was found */
    uint64_t bytes_done;
    double told; /* time of the last progress callback */
} state;

static void describe_sides(const rshi_job *j, int64_t tensor, rshi_file_tensor *from, rshi_file_tensor *to) {
    *to = (rshi_file_tensor){0};
    j->describe(j->ctx, tensor, from, to);
    if (j->mode == RSHI_WINDOW_DIGEST && !to->shape) to->ndim = from->ndim, to->shape = from->shape;
}

static bool is_tiled(const rsh_layout *l) { return l && rsh_layout_describe(l)->has_order; }

static size_t bytes_of(rsh_dtype dtype) { return (size_t)rshi_ceil_div(rsh_dtype_bits(dtype), 8); }

static void make_grid(const rshi_file_tensor *from, const rshi_file_tensor *to, rshi_grid *out) {
    size_t a = bytes_of(from->dtype), b = bytes_of(to->dtype);
    bool tiled = is_tiled(from->layout) || is_tiled(to->layout) || (from->view && rshi_view_is_turned(from->view));
    rshi_grid_make(from, a > b ? a : b, tiled, out);
}

/* ---- planning ---- */

static uint64_t window_bytes(const rshi_grid *g, int64_t window, size_t size) {
    rsh_box box;
    uint64_t n = size;
    rshi_grid_box(g, window, &box);
    for (int d = 0; d < g->ndim; d++) n *= (uint64_t)(box.hi[d] - box.lo[d]);
    return n;
}

static rsh_status add_task(state *s, int64_t window) {
    RSH_TRY(RSHI_GROW(s->task, s->ntasks + 1, &s->room));
    s->task[s->ntasks++] = (struct task){window, 0};
    return RSH_OK;
}

/* Divides the windows of a tensor into tasks: one full window, or many small ones. */
static rsh_status plan_tensor(rshi_job *j, int64_t tensor) {
    state *s = j->state;
    rshi_file_tensor from, to;
    rshi_grid g;
    describe_sides(j, tensor, &from, &to);
    make_grid(&from, &to, &g);
    j->first[tensor] = j->nwindows;
    for (int64_t w = 0; w < g.n; w++, j->nwindows++) {
        uint64_t n = window_bytes(&g, w, bytes_of(from.dtype));
        const struct task *open = s->ntasks ? &s->task[s->ntasks - 1] : NULL;
        if (!open || open->bytes + n > (uint64_t)RSHI_WINDOW_BYTES || j->nwindows - open->first == TASK_WINDOWS)
            RSH_TRY(add_task(s, j->nwindows));
        s->task[s->ntasks - 1].bytes += n;
        j->bytes += n;
    }
    return RSH_OK;
}

rsh_status rshi_job_plan(rshi_job *j) {
    j->different = -1;
    j->state = RSHI_NEW(state);
    j->first = rshi_alloc((size_t)j->ntensors + 1, sizeof *j->first);
    j->sum = rshi_calloc((size_t)j->ntensors, sizeof *j->sum);
    j->source_sum = rshi_calloc((size_t)j->ntensors, sizeof *j->source_sum);
    if (!j->state || !j->first || !j->sum || !j->source_sum) return rshi_nomem();
    pthread_mutex_init(&j->state->lock, NULL);
    for (int64_t i = 0; i < j->ntensors; i++) RSH_TRY(plan_tensor(j, i));
    j->first[j->ntensors] = j->nwindows;
    int64_t ntasks = j->state->ntasks;
    RSH_TRY(add_task(j->state, j->nwindows));
    j->state->ntasks = ntasks;
    return RSH_OK;
}

int64_t rshi_job_tensor(const rshi_job *j, int64_t window) {
    int64_t lo = 0, hi = j->ntensors;
    while (hi - lo > 1) {
        int64_t middle = lo + (hi - lo) / 2;
        if (j->first[middle] <= window)
            lo = middle;
        else
            hi = middle;
    }
    return lo;
}

/* ---- running ---- */

static void set_failed(rshi_job *j, rsh_status st) {
    state *s = j->state;
    pthread_mutex_lock(&s->lock);
    if (!s->failed) snprintf(s->sentence, sizeof s->sentence, "%s", rsh_error_detail());
    int none = 0;
    atomic_compare_exchange_strong(&s->failed, &none, (int)st);
    pthread_mutex_unlock(&s->lock);
}

static rsh_status set_up_tensor(rshi_job *j, worker *w, int64_t tensor) {
    rshi_file_tensor from, to;
    if (w->tensor == tensor) return RSH_OK;
    w->tensor = -1;
    describe_sides(j, tensor, &from, &to);
    make_grid(&from, &to, &w->grid);
    RSH_TRY(from.view ? rshi_view_end(j->source, from.view, from.name, &w->mover.src)
                      : rshi_end_make(&from, true, &w->mover.src));
    if (j->mode != RSHI_WINDOW_DIGEST) RSH_TRY(rshi_end_make(&to, false, &w->mover.dst));
    w->mover.to = rshi_moved_as(to.dtype);
    w->mover.converts = rshi_end_converts(&w->mover.src, w->mover.to);
    w->tensor = tensor;
    return RSH_OK;
}

static void note_difference(rshi_job *j, const worker *w, int64_t task) {
    state *s = j->state;
    pthread_mutex_lock(&s->lock);
    if (task < s->last_task) {
        s->last_task = task;
        j->different = w->tensor;
        j->differing = w->mover.differing;
    }
    pthread_mutex_unlock(&s->lock);
}

static rsh_status run_window(rshi_job *j, worker *w, int64_t window, rshi_moved *out) {
    int64_t tensor = w->tensor;
    rsh_box box;
    if (tensor < 0 || window < j->first[tensor] || window >= j->first[tensor + 1]) tensor = rshi_job_tensor(j, window);
    RSH_TRY(set_up_tensor(j, w, tensor));
    rshi_grid_box(&w->grid, window - j->first[tensor], &box);
    w->mover.sum = w->mover.source_sum = (rsh_digest){0, 0};
    w->mover.hash = (uint64_t)window;
    w->mover.differing = (rshi_differing){0};
    RSH_TRY(rshi_mover_window(&w->mover, &box));
    *out = (rshi_moved){window, w->mover.sum, w->mover.source_sum, w->mover.hash};
    return RSH_OK;
}

/* Adds up digests, writes the journal and reports progress, under the lock. */
static rsh_status finish_task(rshi_job *j, worker *w, int64_t n, uint64_t bytes) {
    state *s = j->state;
    rsh_status st = RSH_OK;
    pthread_mutex_lock(&s->lock);
    for (int64_t i = 0; i < n; i++) {
        int64_t tensor = rshi_job_tensor(j, w->moved[i].window);
        rsh_digest_merge(&j->sum[tensor], w->moved[i].sum);
        rsh_digest_merge(&j->source_sum[tensor], w->moved[i].source_sum);
    }
    if (j->done && n) st = j->done(j->ctx, w->moved, n);
    s->bytes_done += bytes;
    double now = rshi_seconds();
    if (!st && j->progress && (now - s->told > 0.1 || s->bytes_done == j->bytes)) {
        s->told = now;
        if (j->progress(j->progress_ctx, s->bytes_done, j->bytes))
            st = rshi_fail(RSH_ERUNTIME, "stopped by the progress callback");
    }
    pthread_mutex_unlock(&s->lock);
    return st;
}

static void run_task(void *ctx, int64_t task, int number) {
    rshi_job *j = ctx;
    state *s = j->state;
    worker *w = &s->worker[number];
    int64_t n = 0;
    rsh_status st = RSH_OK;
    for (int64_t i = s->task[task].first; i < s->task[task + 1].first && !st; i++) {
        if (atomic_load(&s->failed) || task > s->last_task) return;
        if (!j->skip || !j->skip[i]) st = run_window(j, w, i, &w->moved[n++]);
        if (!st && w->mover.differing.found) {
            note_difference(j, w, task);
            return;
        }
    }
    if (!st) st = finish_task(j, w, n, s->task[task].bytes);
    if (st) set_failed(j, st);
}

static int choose_threads(const rshi_job *j) {
    if (j->threads > 0) return j->threads;
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    return (int)rshi_min(MOST_THREADS, rshi_max(2, cores));
}

static rsh_status make_workers(rshi_job *j, int n) {
    state *s = j->state;
    s->worker = rshi_calloc((size_t)n, sizeof *s->worker);
    if (!s->worker) return rshi_nomem();
    for (s->nworkers = 0; s->nworkers < n; s->nworkers++) {
        worker *w = &s->worker[s->nworkers];
        w->tensor = -1;
        w->moved = rshi_alloc(TASK_WINDOWS, sizeof *w->moved);
        if (!w->moved) return rshi_nomem();
        w->mover = (rshi_mover){.source = j->source, .files = j->files, .mode = j->mode, .digest = j->digest};
        w->mover.budget = (size_t)(j->mem / (uint64_t)n);
    }
    return RSH_OK;
}

static void free_workers(rshi_job *j) {
    state *s = j->state;
    for (int i = 0; i < s->nworkers; i++) {
        j->bytes_read += s->worker[i].mover.bytes_read;
        j->bytes_written += s->worker[i].mover.bytes_written;
        rshi_mover_free(&s->worker[i].mover);
        rshi_free(s->worker[i].moved);
    }
    rshi_free(s->worker);
    s->worker = NULL;
    s->nworkers = 0;
}

rsh_status rshi_job_run(rshi_job *j) {
    state *s = j->state;
    rsh_pool *pool = NULL;
    int n = choose_threads(j);
    s->last_task = INT64_MAX;
    rsh_status st = make_workers(j, n);
    if (!st && n > 1 && s->ntasks > 1) st = rsh_pool_new(n, &pool);
    if (!st) rsh_pool_run(pool, s->ntasks, run_task, j);
    rsh_pool_free(pool);
    free_workers(j);
    if (!st && s->failed) {
        st = (rsh_status)s->failed;
        rshi_set_detail(s->sentence);
    }
    return st;
}

void rshi_job_free(rshi_job *j) {
    if (j->state) {
        pthread_mutex_destroy(&j->state->lock);
        rshi_free(j->state->task);
        rshi_free(j->state);
    }
    rshi_free(j->first);
    rshi_free(j->sum);
    rshi_free(j->source_sum);
    j->source_sum = NULL;
    j->state = NULL;
    j->first = NULL;
    j->sum = NULL;
}
