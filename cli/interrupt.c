/* Interrupt: a handler that says what was left, in functions that a handler may call. */
#include "interrupt.h"

#include "cli.h"

#include <limits.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

typedef struct remains {
    const char *path, *sentence, *otherwise; /* path NULL: the sentence */
} remains;

static remains slots[2]; /* the one at hand, and one to write to */
static _Atomic(const remains *) at_hand;

/* Shared with ranks that are forked: one of them may write, and another one of us hears of the signal. */
typedef struct litter {
    atomic_bool there;
    char path[PATH_MAX + 32];
} litter;
static litter *unwanted; /* NULL: there is no memory for it */
static pid_t owner; /* ranks that are forked get the signal too; one of us speaks */
static atomic_bool silent;

static void say(const char *text) {
    ssize_t told = write(STDERR_FILENO, text, strlen(text));
    (void)told;
}

static void end_by(int signal) {
    const remains *r = at_hand;
    if (unwanted && unwanted->there) unlink(unwanted->path);
    if (getpid() == owner && !silent && !is_quiet()) {
        if (isatty(STDERR_FILENO)) say("\r\033[K"); /* the line of progress, and ^C */
        say(signal == SIGINT ? "reshard: interrupted: " : "reshard: ended by a signal: ");
        say(r->path && access(r->path, F_OK) ? r->otherwise : r->sentence);
        say("\n");
    }
    raise(signal); /* the default action is back */
}

/* What came as ignored stays so, for `nohup`. */
static void take(int signal) {
    struct sigaction before, act = {.sa_handler = end_by, .sa_flags = SA_RESETHAND | SA_NODEFER};
    if (!sigaction(signal, NULL, &before) && before.sa_handler != SIG_IGN) sigaction(signal, &act, NULL);
}

void interrupt_leaves(const char *sentence) { interrupt_leaves_at(NULL, sentence, sentence); }

void interrupt_removes(const char *path) {
    if (!unwanted) return;
    unwanted->there = false;
    if (!path) return;
    snprintf(unwanted->path, sizeof unwanted->path, "%s", path);
    unwanted->there = true;
}

void interrupt_speaks(bool yes) { silent = !yes; }

void interrupt_leaves_at(const char *path, const char *sentence, const char *otherwise) {
    remains *next = at_hand == &slots[0] ? &slots[1] : &slots[0];
    *next = (remains){path, sentence, otherwise};
    at_hand = next;
    if (owner) return;
    owner = getpid();
    unwanted = mmap(NULL, sizeof *unwanted, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (unwanted == MAP_FAILED) unwanted = NULL;
    take(SIGINT);
    take(SIGTERM);
    take(SIGHUP);
}
