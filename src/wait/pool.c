/* Pool: threads that wait for work and take tasks from one counter; the caller takes tasks too.
 *
 * A job is open while the low bit of `entered` is set.  A worker enters an open job by adding itself there.  When the
 * tasks have run out, the caller closes the job and waits only for the workers inside, so a worker that slept through
 * the job delays nobody. */
#include "wait/wait.h"

#include <reshard/pool.h>

#include <pthread.h>
#include <signal.h>
#include <string.h>

#define OPEN ((uint64_t)1)
#define ENTRANT ((uint64_t)2) /* added to `entered` by each worker that enters */

typedef void (*task_fn)(void *ctx, int64_t i, int worker);

typedef struct worker {
    struct rsh_pool *pool;
    int index; /* 1 to size - 1; the caller has index 0 */
    pthread_t thread;
} worker;

struct rsh_pool {
    rshi_flag jobs;   /* number of jobs so far; idle workers wait on it */
    rshi_flag vacant; /* the last job that all workers have left; the caller waits for it */
    _Alignas(64) _Atomic uint64_t entered;
    _Alignas(64) _Atomic int64_t next; /* the next task to take */
    /* Written by the caller while the job is closed and no worker is inside. */
    _Alignas(64) task_fn task;
    void *ctx;
    int64_t ntasks;
    uint64_t job;
    atomic_bool quit;
    int size;
    uint32_t process; /* the process to which the threads belong */
    rshi_patience patience;
    worker workers[]; /* [size]; entry 0 is unused */
};

static void take_tasks(rsh_pool *pool, int worker) {
    for (;;) {
        int64_t i = atomic_fetch_add_explicit(&pool->next, 1, memory_order_relaxed);
        if (i >= pool->ntasks) return;
        pool->task(pool->ctx, i, worker);
    }
}

static bool enter_job(rsh_pool *pool) {
    uint64_t now = atomic_load_explicit(&pool->entered, memory_order_relaxed);
    while (now & OPEN)
        if (atomic_compare_exchange_weak_explicit(&pool->entered, &now, now + ENTRANT, memory_order_acquire,
                                                  memory_order_relaxed))
            return true;
    return false;
}

/* Leaves a job.  The last worker to leave a closed job tells the caller.  The job number is read before, while the
 * caller cannot begin another job. */
static void leave_job(rsh_pool *pool) {
    uint64_t job = pool->job;
    uint64_t before = atomic_fetch_sub_explicit(&pool->entered, ENTRANT, memory_order_acq_rel);
    if (before == ENTRANT) rshi_flag_post(&pool->vacant, job, true);
}

/* Check function of waiting workers, which have no timeout. */
static rsh_status no_check(void *ctx, double waited) {
    (void)ctx, (void)waited;
    return RSH_OK;
}

static void *worker_main(void *arg) {
    worker *w = arg;
    rsh_pool *pool = w->pool;
    for (uint64_t seen = 0;;) {
        rshi_flag_wait(&pool->jobs, seen + 1, &pool->patience, no_check, NULL);
        seen = atomic_load_explicit(&pool->jobs.value, memory_order_acquire);
        if (atomic_load_explicit(&pool->quit, memory_order_relaxed)) return NULL;
        if (!enter_job(pool)) continue;
        take_tasks(pool, w->index);
        leave_job(pool);
    }
}

int rsh_usable_cores(void) { return rshi_cores(); }

int rsh_pool_size(const rsh_pool *pool) { return pool ? pool->size : 0; }

void rsh_pool_run(rsh_pool *pool, int64_t ntasks, task_fn task, void *ctx) {
    if (!task) return;
    if (!pool || pool->size == 1 || ntasks <= 1 || pool->process != rshi_process()) {
        for (int64_t i = 0; i < ntasks; i++) task(ctx, i, 0);
        return;
    }
    pool->task = task;
    pool->ctx = ctx;
    pool->ntasks = ntasks;
    pool->job++;
    atomic_store_explicit(&pool->next, 0, memory_order_relaxed);
    atomic_store_explicit(&pool->entered, OPEN, memory_order_release);
    rshi_flag_post(&pool->jobs, pool->job, true);
    take_tasks(pool, 0);
    if (atomic_fetch_sub_explicit(&pool->entered, OPEN, memory_order_acq_rel) == OPEN) return;
    rshi_flag_wait(&pool->vacant, pool->job, &pool->patience, no_check, NULL);
}

/* Stops and joins workers 1..last. */
static void stop_workers(rsh_pool *pool, int last) {
    atomic_store_explicit(&pool->quit, true, memory_order_relaxed);
    rshi_flag_post(&pool->jobs, pool->job + 1, true);
    for (int i = 1; i <= last; i++) pthread_join(pool->workers[i].thread, NULL);
}

/* Starts a worker with all signals blocked, because workers must not handle the program's signals. */
static int start_worker(worker *w) {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int error = pthread_create(&w->thread, NULL, worker_main, w);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return error;
}

static rsh_status start_workers(rsh_pool *pool) {
    for (int i = 1; i < pool->size; i++) {
        worker *w = &pool->workers[i];
        w->pool = pool;
        w->index = i;
        int error = start_worker(w);
        if (!error) continue;
        stop_workers(pool, i - 1);
        return rshi_fail(RSH_ERUNTIME, "cannot start worker thread %d of %d: %s", i, pool->size, strerror(error));
    }
    return RSH_OK;
}

static size_t pool_bytes(int size) { return sizeof(rsh_pool) + (size_t)size * sizeof(worker); }

rsh_status rsh_pool_new(int n, rsh_pool **out) {
    RSH_REQUIRE(out, RSH_EVALUE, "pool: out is NULL");
    int size = n > 0 ? n : rshi_cores();
    rsh_pool *pool = rshi_alloc_data(pool_bytes(size), true);
    if (!pool) return rshi_nomem();
    pool->size = size;
    pool->process = rshi_process_new();
    pool->patience = rshi_patience_for(size, true, 1);
    pool->patience.nap = 3600; /* no worker leaves a pool, so there is nothing to check between sleeps */
    rsh_status st = start_workers(pool);
    if (st) {
        rshi_free_data(pool, pool_bytes(size));
        return st;
    }
    *out = pool;
    return RSH_OK;
}

void rsh_pool_free(rsh_pool *pool) {
    if (!pool) return;
    if (pool->process == rshi_process()) stop_workers(pool, pool->size - 1);
    rshi_free_data(pool, pool_bytes(pool->size));
}
