/* Stopped: a rank is stopped in the middle of a transfer, and the other rank reuses its memory after its timeout.
 *
 *   mpirun -n 2 big_stopped run|exchange sender|receiver
 *
 * RESHARD_TIMEOUT must be a few seconds, and RESHARD_NODE must differ from rank to rank.
 *
 * The rank that is not stopped frees exec and comm and then reuses its memory: a receiver writes a pattern, which must
 * not change, and a sender unmaps its source, which must not be read.  Then the stopped rank continues, and both must
 * end normally. */
#include <reshard.h>
#include <reshard/mpi.h>

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { BYTES = 128 << 20, STEP = 1000 }; /* STEP: microseconds between two checks */
static int rank;

static void must(rsh_status st, const char *what) {
    if (!st) return;
    fprintf(stderr, "big_stopped: rank %d: %s: %s: %s\n", rank, what, rsh_status_name(st), rsh_error_detail());
    MPI_Abort(MPI_COMM_WORLD, 1);
}
#define MUST(call) must(call, #call)

/* ---- stopping the other rank ---- */

typedef struct stopping {
    pid_t pid;
    useconds_t after;
    _Atomic bool stopped, go_on;
} stopping;

static void *stop_and_continue(void *ctx) {
    stopping *s = ctx;
    usleep(s->after);
    kill(s->pid, SIGSTOP);
    s->stopped = true;
    while (!s->go_on) usleep(STEP);
    kill(s->pid, SIGCONT);
    return NULL;
}

/* ---- a transfer from rank 0 to rank 1 ---- */

typedef struct transfer {
    bool by_exec;
    rsh_comm *comm;
    char *memory; /* BYTES: the source of rank 0, the destination of rank 1 */
    rsh_layout *from, *to;
    rsh_plan *plan;
    rsh_exec *exec;
} transfer;

static transfer prepare(bool by_exec) {
    transfer t = {.by_exec = by_exec};
    char text[64];
    MUST(rsh_comm_mpi(MPI_COMM_WORLD, &t.comm));
    t.memory = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memset(t.memory, 1 + rank, BYTES);
    if (!by_exec) return t;
    snprintf(text, sizeof text, "u8[%d] on x=1@[0]", BYTES);
    MUST(rsh_layout_parse(text, &t.from));
    snprintf(text, sizeof text, "u8[%d] on x=1@[1]", BYTES);
    MUST(rsh_layout_parse(text, &t.to));
    MUST(rsh_plan_new(t.from, t.to, NULL, &t.plan));
    rsh_memory m = {t.memory, NULL};
    MUST(rsh_exec_bind(t.plan, t.comm, rank ? NULL : &m, rank ? &m : NULL, &t.exec));
    return t;
}

static rsh_status run(const transfer *t) {
    if (t->by_exec) return rsh_exec_run(t->exec);
    rsh_message m = {1 - rank, t->memory, BYTES};
    return rsh_comm_exchange(t->comm, !rank, rank ? NULL : &m, rank, rank ? &m : NULL);
}

static void discard(transfer *t) {
    rsh_exec_free(t->exec);
    MUST(rsh_comm_free(t->comm));
    rsh_plan_free(t->plan);
    rsh_layout_free(t->from);
    rsh_layout_free(t->to);
}

/* ---- the rank that continues ---- */

/* Lets MPI complete whatever it still has to do. */
static void drive(double seconds) {
    double end = MPI_Wtime() + seconds;
    for (int flag; MPI_Wtime() < end; usleep(STEP)) MPI_Iprobe(1 - rank, 1, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
}

static long count_changed(const char *memory) {
    long changed = 0;
    for (long i = 0; i < BYTES; i++) changed += memory[i] != 77;
    return changed;
}

static bool outlive(transfer *t, pid_t other) {
    stopping s = {.pid = other, .after = 100000 + (useconds_t)getpid() * 7919 % 200000};
    pthread_t thread;
    long changed = 0;
    pthread_create(&thread, NULL, stop_and_continue, &s);
    rsh_status st = RSH_OK;
    double began = 0;
    while (!st) {
        began = MPI_Wtime();
        st = run(t);
    }
    printf("stopped: rank %d: %s after %.1f s: %s\n", rank, rsh_status_name(st), MPI_Wtime() - began,
           rsh_error_detail());
    began = MPI_Wtime();
    discard(t);
    if (rank) memset(t->memory, 77, BYTES);
    else munmap(t->memory, BYTES);
    printf("stopped: rank %d: its memory is its own again after %.1f s\n", rank, MPI_Wtime() - began);
    s.go_on = true;
    pthread_join(thread, NULL);
    drive(2);
    if (rank) changed = count_changed(t->memory);
    if (changed) printf("stopped: rank %d: %ld bytes of its memory were overwritten\n", rank, changed);
    return st == RSH_ETIMEOUT && !changed;
}

/* ---- the rank that is stopped ---- */

static bool be_stopped(transfer *t) {
    rsh_status st = RSH_OK;
    while (!st) st = run(t);
    printf("stopped: rank %d: %s: %s\n", rank, rsh_status_name(st), rsh_error_detail());
    discard(t);
    munmap(t->memory, BYTES);
    return true;
}

int main(int argc, char **argv) {
    if (argc < 3) return 2;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    setvbuf(stdout, NULL, _IOLBF, 0);
    int pid = (int)getpid(), pids[2];
    MPI_Allgather(&pid, 1, MPI_INT, pids, 1, MPI_INT, MPI_COMM_WORLD);
    transfer t = prepare(!strcmp(argv[1], "run"));
    bool sender_stops = !strcmp(argv[2], "sender"), good = false;
    if (rsh_comm_nnodes(t.comm) != 2) fprintf(stderr, "big_stopped: two ranks on nodes of their own are meant\n");
    else good = rank == (sender_stops ? 1 : 0) ? outlive(&t, pids[1 - rank]) : be_stopped(&t);
    MPI_Finalize();
    printf("stopped: rank %d has finalised MPI\n", rank);
    return !good;
}
