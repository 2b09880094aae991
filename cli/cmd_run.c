/* Run: starts N processes of a program and tells each its rank. */
#include "cli.h"
#include "room.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define GRACE 2.0 /* seconds that the other processes have to end after one has failed */
#define MOST_RANKS 65536 /* limit of the engine shm, which also catches a mistyped number */
#define NOT_RUNNABLE 126 /* exit statuses with the same meaning as in a shell */
#define NOT_FOUND 127
#define BY_SIGNAL 128

typedef struct launch {
    int64_t n;
    char **program; /* the program and its arguments, ending with NULL */

    atomic_bool *unfound; /* set by a process whose exec failed; shared with the processes */
    pid_t self, *child; /* child[r] is 0 after rank r has ended */
    int64_t alive;
    int result;      /* exit status of the first process that failed */
    bool asked;      /* SIGTERM has been passed on */
    bool ending;     /* the other processes have been told to end */
    double deadline; /* time after which the other processes are killed */
    sigset_t signals, before;
} launch;

static const struct argp_option options[] = {{.name = "ranks", .key = 'n', .arg = "N", .doc = "number of processes"},
                                             {0}};

static error_t parse(int key, char *word, struct argp_state *state) {
    launch *l = state->input;
    switch (key) {
    case 'n':
        if (!strcmp(word, "p")) argp_error(state, "unknown option '-np'; use -n N");
        if (!parse_count(word, 1, &l->n) || l->n > MOST_RANKS)
            argp_error(state, "-n must be from 1 to %d, got '%s'", MOST_RANKS, word);
        return 0;
    case ARGP_KEY_ARG: /* this is the program; all further arguments belong to it */
        l->program = state->argv + state->next - 1;
        state->next = state->argc;
        return 0;
    case ARGP_KEY_END:
        if (!l->n) argp_error(state, "-n N is required before the program");
        if (!l->program) argp_error(state, "PROGRAM is required after the options");
        return 0;
    default: return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp run_argp = {
    options,
    parse,
    "[--] PROGRAM [ARGUMENT...]",
    "Starts N processes of PROGRAM, which connect to each other with rsh_comm_join.  If one fails, the others are "
    "terminated.",
    NULL,
    NULL,
    NULL};

/* ---- one process ---- */

static void set_number(const char *name, int64_t value) {
    char text[32];
    snprintf(text, sizeof text, "%lld", (long long)value);
    setenv(name, text, 1);
}

/* Connects standard input for rank 0 only; if several ranks read it, nobody could tell which of them gets the data. */
static void give_stdin(int64_t rank) {
    int nothing = rank ? open("/dev/null", O_RDONLY) : -1;
    if (nothing < 0) return;
    dup2(nothing, STDIN_FILENO);
    close(nothing);
}

static const char *exec_advice(const char *program, int error) {
    if (error == EACCES) return "; check that it is a program and that you may execute it";
    if (error == ENOENT && !strchr(program, '/') && !access(program, F_OK))
        return " in PATH; write ./ before the name of a program of this folder";
    return "";
}

static _Noreturn void exec_rank(const launch *l, int64_t rank) {
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* if the launcher dies, this process is killed */
    if (getppid() != l->self) _exit(FAILED);
    sigprocmask(SIG_SETMASK, &l->before, NULL);
    signal(SIGPIPE, SIG_DFL);
    signal(SIGXFSZ, SIG_DFL);
    set_number("RESHARD_RANK", rank);
    set_number("RESHARD_SIZE", l->n);
    give_stdin(rank);
    execvp(l->program[0], l->program);
    int error = errno;
    if (!atomic_exchange(l->unfound, true))
        fail("%s: %s%s", l->program[0], strerror(error), exec_advice(l->program[0], error));
    _exit(error == ENOENT ? NOT_FOUND : NOT_RUNNABLE);
}

/* ---- all of them ---- */

static void signal_all(const launch *l, int signal) {
    for (int64_t r = 0; r < l->n; r++)
        if (l->child[r] > 0) kill(l->child[r], signal);
}

static void end_others(launch *l, int result) {
    if (l->ending) return;
    l->ending = true;
    l->result = result;
    l->deadline = clock_seconds() + GRACE;
    signal_all(l, SIGTERM);
    signal_all(l, SIGCONT); /* a stopped process cannot end */
}

static void start_all(launch *l) {
    for (int64_t r = 0; r < l->n && !l->ending; r++) {
        pid_t pid = fork();
        if (pid == 0) exec_rank(l, r);
        if (pid < 0) {
            end_others(l, fail("cannot start rank %lld of %lld: %s", (long long)r, (long long)l->n, strerror(errno)));
            return;
        }
        l->child[r] = pid;
        l->alive++;
    }
}

/* The failed process among those that have just ended. */
typedef struct fallen {
    int64_t rank; /* -1: none has failed */
    int how;
} fallen;

/* Notes how a process ended.  A rank that was killed makes others fail, and their end may be noticed first, so signals
 * have priority. */
static void note_end(launch *l, int64_t rank, int how, fallen *f) {
    l->child[rank] = 0;
    l->alive--;
    if (WIFEXITED(how) && !WEXITSTATUS(how)) return;
    if (f->rank < 0 || (WIFSIGNALED(how) && !WIFSIGNALED(f->how))) *f = (fallen){rank, how};
}

static void reap_children(launch *l) {
    fallen f = {-1, 0};
    int how;
    for (pid_t pid; (pid = waitpid(-1, &how, WNOHANG)) > 0;)
        for (int64_t r = 0; r < l->n; r++)
            if (l->child[r] == pid) note_end(l, r, how, &f);
    if (f.rank < 0 || l->ending) return;
    if (WIFSIGNALED(f.how))
        fail("rank %lld was killed by signal %d (%s)", (long long)f.rank, WTERMSIG(f.how), strsignal(WTERMSIG(f.how)));
    else if (!*l->unfound)
        fail("rank %lld exited with status %d", (long long)f.rank, WEXITSTATUS(f.how));
    end_others(l, WIFSIGNALED(f.how) ? BY_SIGNAL + WTERMSIG(f.how) : WEXITSTATUS(f.how));
}

/* Passes a signal on to the processes.  Signals of the terminal already reach them.  A second SIGTERM means that the
 * first one did not end all of them. */
static void forward_signal(launch *l, const siginfo_t *info) {
    if (info->si_code != SI_KERNEL) signal_all(l, info->si_signo);
    if (info->si_signo != SIGTERM) return;
    if (l->asked) end_others(l, BY_SIGNAL + SIGTERM);
    l->asked = true;
    signal_all(l, SIGCONT); /* a stopped process cannot end */
}

static void watch_children(launch *l) {
    const struct timespec moment = {0, 100000000};
    while (l->alive) {
        siginfo_t info;
        int signal = sigtimedwait(&l->signals, &info, &moment);
        if (signal > 0 && signal != SIGCHLD) forward_signal(l, &info);
        reap_children(l);
        if (l->ending && clock_seconds() > l->deadline) signal_all(l, SIGKILL);
    }
}

/* Sends a signal to all child processes, including adopted ones. */
static void signal_children(int signal) {
    char path[64];
    long pid;
    snprintf(path, sizeof path, "/proc/self/task/%ld/children", (long)getpid());
    FILE *list = fopen(path, "r");
    while (list && fscanf(list, "%ld", &pid) == 1) kill((pid_t)pid, signal);
    if (list) fclose(list);
}

/* Ends processes that the ranks started and left behind, which this process has adopted. */
static void end_strays(const launch *l) {
    const struct timespec moment = {0, 100000000};
    double start = clock_seconds();
    signal_children(SIGTERM);
    for (pid_t pid; (pid = waitpid(-1, NULL, WNOHANG)) >= 0 && clock_seconds() - start < 2 * GRACE;) {
        if (pid == 0) sigtimedwait(&l->signals, NULL, &moment);
        if (clock_seconds() - start > GRACE) signal_children(SIGKILL);
    }
}

/* Blocks the signals that watch_children waits for.  If SIGCHLD were inherited as ignored, neither this process nor the
 * ranks would learn how their children ended.  Other ignored signals stay ignored, for `nohup`. */
static void block_signals(launch *l) {
    static const int taken[] = {SIGCHLD, SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2};
    sigemptyset(&l->signals);
    for (size_t i = 0; i < sizeof taken / sizeof *taken; i++) sigaddset(&l->signals, taken[i]);
    sigprocmask(SIG_BLOCK, &l->signals, &l->before);
    signal(SIGCHLD, SIG_DFL);
}

int cmd_run(int argc, char **argv) {
    launch l = {.self = getpid()};
    char job[64];
    argp_parse(&run_argp, argc, argv, ARGP_IN_ORDER, NULL, &l);
    rsh_status st = room_check(l.n, false);
    if (st) return fail_library(st);
    l.child = calloc((size_t)l.n, sizeof *l.child);
    l.unfound = mmap(NULL, sizeof *l.unfound, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (!l.child || l.unfound == MAP_FAILED) return fail("out of memory for %lld processes", (long long)l.n);
    snprintf(job, sizeof job, "%ld-%.9f", (long)l.self, clock_seconds());
    setenv("RESHARD_JOB", job, 1);
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    block_signals(&l);
    start_all(&l);
    watch_children(&l);
    end_strays(&l);
    free(l.child);
    return l.result;
}
