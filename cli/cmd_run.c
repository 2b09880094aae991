/* Run: N processes of a program, each told which rank it is. */
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

#define GRACE 2.0 /* seconds that the others have to end in when one has failed */
#define MOST_RANKS 65536 /* what the engine shm takes; a slip of the hand must not fill the machine with processes */
#define NOT_RUNNABLE 126 /* as of a shell */
#define NOT_FOUND 127
#define BY_SIGNAL 128

typedef struct launch {
    int64_t n;
    char **program; /* and its arguments, ending with NULL */

    atomic_bool *unfound; /* shared with the processes: one of them has said that there is no such program */
    pid_t self, *child; /* 0: has ended */
    int64_t alive;
    int result;      /* exit status of the first that failed */
    bool asked;      /* SIGTERM was passed on */
    bool ending;     /* the others have been told to end */
    double deadline; /* and until when */
    sigset_t signals, before;
} launch;

static const struct argp_option options[] = {{.name = "ranks", .key = 'n', .arg = "N", .doc = "how many processes"},
                                             {0}};

static error_t parse(int key, char *word, struct argp_state *state) {
    launch *l = state->input;
    switch (key) {
    case 'n':
        if (!parse_count(word, 1, &l->n) || l->n > MOST_RANKS)
            argp_error(state, "'%s' is not a number of processes from 1 to %d", word, MOST_RANKS);
        return 0;
    case ARGP_KEY_ARG: /* the program; what follows is its own */
        l->program = state->argv + state->next - 1;
        state->next = state->argc;
        return 0;
    case ARGP_KEY_END:
        if (!l->n) argp_error(state, "how many processes? Say -n N before the program");
        if (!l->program) argp_error(state, "which program? Name it after the options");
        return 0;
    default: return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp run_argp = {
    options,
    parse,
    "[--] PROGRAM [ARGUMENT...]",
    "Starts N processes of PROGRAM, which find one another with rsh_comm_join.  When one fails, the others are ended.",
    NULL,
    NULL,
    NULL};

/* ---- one process ---- */

static void set_number(const char *name, int64_t value) {
    char text[32];
    snprintf(text, sizeof text, "%lld", (long long)value);
    setenv(name, text, 1);
}

/* Standard input is for rank 0; nobody could say which of several readers gets what. */
static void give_stdin(int64_t rank) {
    int nothing = rank ? open("/dev/null", O_RDONLY) : -1;
    if (nothing < 0) return;
    dup2(nothing, STDIN_FILENO);
    close(nothing);
}

static _Noreturn void become(const launch *l, int64_t rank) {
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* whatever ends the launcher */
    if (getppid() != l->self) _exit(FAILED);
    sigprocmask(SIG_SETMASK, &l->before, NULL);
    signal(SIGPIPE, SIG_DFL);
    set_number("RESHARD_RANK", rank);
    set_number("RESHARD_SIZE", l->n);
    give_stdin(rank);
    execvp(l->program[0], l->program);
    int error = errno;
    if (!atomic_exchange(l->unfound, true))
        fail("%s: %s%s", l->program[0], strerror(error),
             error == EACCES ? "; is it a program, and may you run it?" : "");
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
    signal_all(l, SIGCONT); /* one that was stopped could not end */
}

static void start_all(launch *l) {
    for (int64_t r = 0; r < l->n && !l->ending; r++) {
        pid_t pid = fork();
        if (pid == 0) become(l, r);
        if (pid < 0) {
            end_others(l, fail("no process for rank %lld of %lld: %s", (long long)r, (long long)l->n, strerror(errno)));
            return;
        }
        l->child[r] = pid;
        l->alive++;
    }
}

/* The processes that were found to have ended at one look. */
typedef struct fallen {
    int64_t rank; /* the one to blame, or -1 */
    int how;
} fallen;

/* A rank that was killed makes others fail, which may be seen before it is. */
static void note_end(launch *l, int64_t rank, int how, fallen *f) {
    l->child[rank] = 0;
    l->alive--;
    if (WIFEXITED(how) && !WEXITSTATUS(how)) return;
    if (f->rank < 0 || (WIFSIGNALED(how) && !WIFSIGNALED(f->how))) *f = (fallen){rank, how};
}

static void reap(launch *l) {
    fallen f = {-1, 0};
    int how;
    for (pid_t pid; (pid = waitpid(-1, &how, WNOHANG)) > 0;)
        for (int64_t r = 0; r < l->n; r++)
            if (l->child[r] == pid) note_end(l, r, how, &f);
    if (f.rank < 0 || l->ending) return;
    if (WIFSIGNALED(f.how))
        fail("rank %lld was ended by signal %d (%s)", (long long)f.rank, WTERMSIG(f.how), strsignal(WTERMSIG(f.how)));
    else if (!*l->unfound)
        fail("rank %lld ended with exit status %d", (long long)f.rank, WEXITSTATUS(f.how));
    end_others(l, WIFSIGNALED(f.how) ? BY_SIGNAL + WTERMSIG(f.how) : WEXITSTATUS(f.how));
}

/* What the terminal sends reaches the processes without us.  Who sends SIGTERM for the second time has seen that
 * passing it on was not enough. */
static void forward(launch *l, const siginfo_t *info) {
    if (info->si_code != SI_KERNEL) signal_all(l, info->si_signo);
    if (info->si_signo != SIGTERM) return;
    if (l->asked) end_others(l, BY_SIGNAL + SIGTERM);
    l->asked = true;
    signal_all(l, SIGCONT); /* one that was stopped could not end */
}

static void watch(launch *l) {
    const struct timespec moment = {0, 100000000};
    while (l->alive) {
        siginfo_t info;
        int signal = sigtimedwait(&l->signals, &info, &moment);
        if (signal > 0 && signal != SIGCHLD) forward(l, &info);
        reap(l);
        if (l->ending && clock_seconds() > l->deadline) signal_all(l, SIGKILL);
    }
}

/* Every process whose parent we are by now. */
static void signal_children(int signal) {
    char path[64];
    long pid;
    snprintf(path, sizeof path, "/proc/self/task/%ld/children", (long)getpid());
    FILE *list = fopen(path, "r");
    while (list && fscanf(list, "%ld", &pid) == 1) kill((pid_t)pid, signal);
    if (list) fclose(list);
}

/* What the ranks started and left behind has become ours, and is ended too. */
static void end_strays(const launch *l) {
    const struct timespec moment = {0, 100000000};
    double start = clock_seconds();
    signal_children(SIGTERM);
    for (pid_t pid; (pid = waitpid(-1, NULL, WNOHANG)) >= 0 && clock_seconds() - start < 2 * GRACE;) {
        if (pid == 0) sigtimedwait(&l->signals, NULL, &moment);
        if (clock_seconds() - start > GRACE) signal_children(SIGKILL);
    }
}

/* SIGCHLD that came to us as ignored would keep from us how the processes ended, and from them how theirs did.  What
 * else came as ignored stays so, for `nohup`. */
static void take_signals(launch *l) {
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
    take_signals(&l);
    start_all(&l);
    watch(&l);
    end_strays(&l);
    free(l.child);
    return l.result;
}
