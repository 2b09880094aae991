/* Run of processes: a process for each rank of a new comm, and the first failure among them for the caller.
 *
 * A rank notes its end on a board that the processes inherit, and what it did not note there did not happen: a rank
 * without a note has died.  What the kernel tells of a process is only an addition to that, since there may be nothing
 * to ask for: where the program ignores SIGCHLD, or waits for all of its children in a handler, nobody else learns how
 * a process ended. */
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
    atomic_bool noted; /* by the rank, after the rest was written */
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
    ending *endings; /* [n] */
    pid_t *children; /* [n], owned; 0 where there is none */
} run;

static rsh_status serve(const run *run, rsh_comm *comm) {
    rsh_status st = run->fn(run->ctx, comm);
    rshi_rank_returned(comm, st);
    comm->ops->leave(comm, st, st ? rsh_error_detail() : "");
    if (!st) st = rsh_comm_free(comm);
    return st;
}

/* The child goes down with its parent, and ends without the parent's exit handlers and half-written buffers. */
static _Noreturn void be_rank(const run *run, int rank) {
    ending *e = &run->endings[rank];
    rsh_comm *comm = NULL;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != run->parent) _exit(1);
    rshi_set_detail("");
    rsh_status st = rsh_comm_shm(run->job, rank, run->n, &comm);
    if (!st) st = serve(run, comm);
    e->when = rshi_seconds();
    snprintf(e->detail, sizeof e->detail, "%s", st ? rsh_error_detail() : "");
    e->status = st;
    atomic_store_explicit(&e->noted, true, memory_order_release);
    _exit(st ? 1 : 0);
}

#define NOT_KNOWN (-1) /* how a process ended that somebody else has waited for */

/* What a process did not live to say. */
static void note_death(run *run, int rank, int how) {
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

/* Returns when the process has ended, also where it is somebody else who learns how: then waitpid fails, but not before
 * that. */
static int wait_for(pid_t child) {
    int how;
    pid_t pid;
    while ((pid = waitpid(child, &how, 0)) < 0 && errno == EINTR) {}
    return pid == child ? how : NOT_KNOWN;
}

static void wait_for_all(run *run) {
    for (int r = 0; r < run->n; r++)
        if (run->children[r] > 0) note_death(run, r, wait_for(run->children[r]));
}

/* RSH_EPEER is what another rank's failure looks like from there: it gives way to the failure itself. */
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

static rsh_status start_all(run *run) {
    for (int r = 0; r < run->n; r++) {
        pid_t pid = fork();
        if (pid == 0) be_rank(run, r);
        if (pid < 0) {
            int error = errno;
            while (r--) kill(run->children[r], SIGKILL);
            return rshi_fail(RSH_ERUNTIME, "cannot start a process for one of %d ranks: %s", run->n, strerror(error));
        }
        run->children[r] = pid;
    }
    return RSH_OK;
}

/* Unlike any other on this machine: threads of one process may run at once, and containers that share a network have
 * their own process numbers. */
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
    st = start_all(&run);
    wait_for_all(&run);
    if (!st) st = first_failure(&run);
out:
    rshi_free(run.children);
    rshi_arena_drop(run.arena);
    return st;
}
