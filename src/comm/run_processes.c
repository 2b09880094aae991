/* Run of processes: forks a process for each rank of a new comm, and returns the first failure among them.
 *
 * A rank records its end in memory that the processes inherit; a rank without a record has died.  The exit status from
 * the kernel is only additional information, because it may be missing: if the program ignores SIGCHLD, or waits for
 * all of its children in a handler, this code cannot read it. */
#include "arena/arena.h"
#include "comm/comm.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/wait.h>
#include <unistd.h>

/* How a rank ended, in an arena that the processes inherit. */
typedef struct ending {
    atomic_bool noted; /* set by the rank after it has written the other members */
    double when;
    rsh_status status;
    char detail[RSHI_DETAIL_BYTES];
} ending;

typedef struct run {
    int n;
    rsh_rank_fn fn;
    void *ctx;
    char job[64];
    pid_t parent;
    rshi_arena *arena;
    ending *endings; /* [n], in the arena */
    pid_t *children; /* [n], owned; 0: not started */
} run;

static rsh_status run_rank(const run *run, rsh_comm *comm) {
    rsh_status st = run->fn(run->ctx, comm);
    rshi_rank_returned(comm, st);
    comm->ops->leave(comm, st, st ? rsh_error_detail() : "");
    if (!st) st = rsh_comm_free(comm);
    return st;
}

/* The child is killed with its parent, and ends without the parent's exit handlers and unwritten buffers. */
static _Noreturn void rank_process_main(const run *run, int rank) {
    ending *e = &run->endings[rank];
    rsh_comm *comm = NULL;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != run->parent) _exit(1);
    rshi_set_detail("");
    rsh_status st = rsh_comm_shm(run->job, rank, run->n, &comm);
    if (!st) st = run_rank(run, comm);
    e->when = rshi_seconds();
    snprintf(e->detail, sizeof e->detail, "%s", st ? rsh_error_detail() : "");
    e->status = st;
    atomic_store_explicit(&e->noted, true, memory_order_release);
    _exit(st ? 1 : 0);
}

#define NOT_KNOWN (-1) /* another part of the program has reaped the process */

/* Records the end of a process that did not do so itself. */
static void record_death(run *run, int rank, int how) {
    ending *e = &run->endings[rank];
    if (atomic_load_explicit(&e->noted, memory_order_acquire)) return;
    e->when = rshi_seconds();
    e->status = RSH_EPEER;
    if (how == NOT_KNOWN)
        snprintf(e->detail, sizeof e->detail,
                 "rank %d has died; the program ignores SIGCHLD or waits for all children, so it is not known how",
                 rank);
    else if (WIFSIGNALED(how))
        snprintf(e->detail, sizeof e->detail, "rank %d was ended by signal %d", rank, WTERMSIG(how));
    else
        snprintf(e->detail, sizeof e->detail, "rank %d ended with exit status %d", rank, WEXITSTATUS(how));
}

/* Returns when the process has ended, even if another part of the program reaps it: waitpid then fails, but not
 * earlier. */
static int wait_for(pid_t child) {
    int how;
    pid_t pid;
    while ((pid = waitpid(child, &how, 0)) < 0 && errno == EINTR) {}
    return pid == child ? how : NOT_KNOWN;
}

static void wait_for_all(run *run) {
    for (int r = 0; r < run->n; r++)
        if (run->children[r] > 0) record_death(run, r, wait_for(run->children[r]));
}

/* RSH_EPEER is the consequence of another rank's failure, so any other failure takes precedence. */
static rsh_status first_failure(const run *run) {
    const ending *first = NULL;
    for (int r = 0; r < run->n; r++) {
        const ending *e = &run->endings[r];
        if (!e->status) continue;
        bool echo = e->status == RSH_EPEER, first_echo = first && first->status == RSH_EPEER;
        if (!first || (first_echo && !echo) || (first_echo == echo && e->when < first->when)) first = e;
    }
    return first ? rshi_fail(first->status, "%s", first->detail) : RSH_OK;
}

static rsh_status fork_ranks(run *run) {
    for (int r = 0; r < run->n; r++) {
        pid_t pid = fork();
        if (pid == 0) rank_process_main(run, r);
        if (pid < 0) {
            int error = errno;
            while (r--) kill(run->children[r], SIGKILL);
            return rshi_fail(RSH_ERUNTIME, "cannot start a process for one of %d ranks: %s", run->n, strerror(error));
        }
        run->children[r] = pid;
    }
    return RSH_OK;
}

/* The name must be unique on this machine: threads of one process may run at the same time, and containers that share a
 * network have their own process ids. */
static void name_job(run *run) {
    uint64_t nonce = 0;
    if (getrandom(&nonce, sizeof nonce, 0) < 0) nonce = (uint64_t)(rshi_seconds() * 1e9);
    snprintf(run->job, sizeof run->job, "run %ld %p %016llx", (long)run->parent, (void *)run,
             (unsigned long long)nonce);
}

rsh_status rsh_run_shm(int n, rsh_rank_fn fn, void *ctx) {
    RSH_REQUIRE(n >= 1 && fn, RSH_EVALUE, "run: expected a function and at least one rank, got %s and %d ranks",
                fn ? "a function" : "NULL", n);
    RSH_TRY(rshi_processes_check(n));
    run run = {.n = n, .fn = fn, .ctx = ctx, .parent = getpid()};
    size_t bytes = (size_t)n * sizeof *run.endings;
    rsh_status st;
    name_job(&run);
    RSH_GOTO(rshi_arena_new(1, &run.arena));
    run.endings = rshi_arena_alloc(run.arena, bytes, true);
    run.children = rshi_calloc((size_t)n, sizeof *run.children);
    RSH_GOTO(run.endings && run.children ? RSH_OK : rshi_nomem());
    st = fork_ranks(&run);
    wait_for_all(&run);
    if (!st) st = first_failure(&run);
out:
    rshi_free(run.children);
    rshi_arena_drop(run.arena);
    return st;
}
