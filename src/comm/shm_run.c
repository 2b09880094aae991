/* Run of the engine `shm`: a process for each rank of a new comm, and the first failure among them for the caller. */
#include "comm/shm.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

/* How a rank ended, in an arena that the processes inherit. */
typedef struct ending {
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
    _exit(st ? 1 : 0);
}

/* What a process did not live to say. */
static void note_end(run *run, int rank, int how) {
    ending *e = &run->endings[rank];
    if (e->when || (WIFEXITED(how) && !WEXITSTATUS(how))) return;
    e->when = rshi_seconds();
    e->status = RSH_EPEER;
    if (WIFSIGNALED(how))
        snprintf(e->detail, sizeof e->detail, "rank %d was ended by signal %d", rank, WTERMSIG(how));
    else
        snprintf(e->detail, sizeof e->detail, "rank %d ended with exit status %d", rank, WEXITSTATUS(how));
}

static void wait_for_all(run *run) {
    for (int r = 0; r < run->n; r++) {
        int how;
        if (run->children[r] <= 0) continue;
        while (waitpid(run->children[r], &how, 0) < 0 && errno == EINTR) {}
        note_end(run, r, how);
    }
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
            return rshi_fail(RSH_ERUNTIME, "no process for a rank of %d: %s", run->n, strerror(error));
        }
        run->children[r] = pid;
    }
    return RSH_OK;
}

rsh_status rsh_run_shm(int n, rsh_rank_fn fn, void *ctx) {
    RSH_REQUIRE(n >= 1 && fn, RSH_EVALUE, "run of %s on %d ranks", fn ? "a function" : "NULL", n);
    run run = {.n = n, .fn = fn, .ctx = ctx, .parent = getpid()};
    size_t bytes = (size_t)n * sizeof *run.endings;
    snprintf(run.job, sizeof run.job, "run %ld %p", (long)run.parent,
             (void *)&run); /* threads of one process may do this at once */
    rsh_status st;
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
