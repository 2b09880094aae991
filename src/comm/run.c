/* Run: starts a thread for each rank of a new comm, and returns the first failure among them. */
#include "comm/comm.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#define STACK_BYTES ((size_t)4 << 20)

typedef struct run {
    rsh_rank_fn fn;
    void *ctx;
    pthread_mutex_t lock; /* guards the two below */
    rsh_status first;     /* the earliest failure */
    char sentence[RSHI_DETAIL_BYTES];
} run;

typedef struct rank_thread {
    run *run;
    rsh_comm *comm;
    pthread_t thread;
} rank_thread;

/* RSH_EPEER is the consequence of another rank's failure and may be recorded before that failure: a later failure
 * replaces it. */
static void record_failure(run *run, rsh_status status, const char *sentence) {
    pthread_mutex_lock(&run->lock);
    if (run->first == RSH_OK || (run->first == RSH_EPEER && status != RSH_EPEER)) {
        run->first = status;
        snprintf(run->sentence, sizeof run->sentence, "%s", sentence);
    }
    pthread_mutex_unlock(&run->lock);
}

void rshi_rank_returned(const rsh_comm *comm, rsh_status status) {
    if (status && !*rsh_error_detail()) rshi_fail(status, "rank %d returned %s", comm->rank, rsh_status_name(status));
}

/* Records the failure before the peers learn of it.  A comm that is still in use is not freed, but its rank has
 * left. */
static void end_rank(run *run, rsh_comm *comm, rsh_status status) {
    char sentence[RSHI_DETAIL_BYTES];
    rshi_rank_returned(comm, status);
    snprintf(sentence, sizeof sentence, "%s", status ? rsh_error_detail() : "");
    if (status) record_failure(run, status, sentence);
    comm->ops->leave(comm, status, sentence);
    rsh_status freed = rsh_comm_free(comm);
    if (freed) record_failure(run, freed, rsh_error_detail());
}

static void *rank_thread_main(void *arg) {
    rank_thread *t = arg;
    rshi_set_detail("");
    end_rank(t->run, t->comm, t->run->fn(t->run->ctx, t->comm));
    return NULL;
}

static int start_thread(rank_thread *t) {
    pthread_attr_t attr;
    int error = pthread_attr_init(&attr);
    if (error) return error;
    error = pthread_attr_setstacksize(&attr, STACK_BYTES);
    if (!error) error = pthread_create(&t->thread, &attr, rank_thread_main, t);
    pthread_attr_destroy(&attr);
    return error;
}

/* Returns the number of ranks started.  The others leave the comm, so that no rank waits for them. */
static int start_ranks(run *run, int n, rsh_comm **comms, rank_thread *threads) {
    int started = 0, error = 0;
    while (started < n && !error) {
        threads[started] = (rank_thread){.run = run, .comm = comms[started]};
        error = start_thread(&threads[started]);
        started += !error;
    }
    for (int r = started; r < n; r++)
        end_rank(run, comms[r],
                 rshi_fail(RSH_ERUNTIME, "cannot start a thread for rank %d of %d: %s", started, n, strerror(error)));
    return started;
}

static rsh_status run_all(run *run, int n, rsh_comm **comms, rank_thread *threads) {
    pthread_mutex_init(&run->lock, NULL);
    int started = start_ranks(run, n, comms, threads);
    for (int r = 0; r < started; r++) pthread_join(threads[r].thread, NULL);
    pthread_mutex_destroy(&run->lock);
    if (run->first) rshi_set_detail(run->sentence);
    return run->first;
}

rsh_status rshi_run_comms(int n, rsh_comm **comms, rsh_rank_fn fn, void *ctx) {
    run run = {.fn = fn, .ctx = ctx};
    rank_thread *threads = rshi_calloc((size_t)n, sizeof *threads);
    if (!threads) {
        for (int r = 0; r < n; r++) comms[r]->ops->leave(comms[r], RSH_ENOMEM, "");
        for (int r = 0; r < n; r++) rsh_comm_free(comms[r]);
        return rshi_nomem();
    }
    rsh_status st = run_all(&run, n, comms, threads);
    rshi_free(threads);
    return st;
}

rsh_status rsh_run(int n, rsh_rank_fn fn, void *ctx) {
    RSH_REQUIRE(n >= 1 && fn, RSH_EVALUE, "run: expected a function and at least one rank, got %s and %d ranks",
                fn ? "a function" : "NULL", n);
    rsh_comm **comms = rshi_calloc((size_t)n, sizeof *comms);
    if (!comms) return rshi_nomem();
    rsh_status st = rsh_comm_threads(n, comms);
    if (!st) st = rshi_run_comms(n, comms, fn, ctx);
    rshi_free(comms);
    return st;
}
