/* Interrupt: a signal handler that prints what the command leaves behind.  It uses only async-signal-safe functions. */
#include "interrupt.h"

#include "cli.h"

#include <limits.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

typedef struct remains {
    const char *path, *sentence, *otherwise; /* if path is NULL, the sentence is always printed */
} remains;

static remains slots[2]; /* the current one, and one to write to */
static _Atomic(const remains *) current;

/* A file to remove.  Shared with forked ranks: one of them may write the file, and another may get the signal. */
typedef struct litter {
    atomic_bool there;
    char path[PATH_MAX + 32];
} litter;
static litter *unwanted; /* NULL if memory has run out */
static pid_t owner; /* the process that prints; forked ranks get the signal as well */
static atomic_bool silent;

static void write_text(const char *text) {
    ssize_t told = write(STDERR_FILENO, text, strlen(text));
    (void)told;
}

static void handle_signal(int signal) {
    const remains *r = current;
    if (unwanted && unwanted->there) unlink(unwanted->path);
    if (getpid() == owner && !silent && !is_quiet()) {
        if (isatty(STDERR_FILENO)) write_text("\r\033[K"); /* erase the progress line and ^C */
        write_text(signal == SIGINT ? "reshard: interrupted: " : "reshard: terminated by a signal: ");
        write_text(r->path && access(r->path, F_OK) ? r->otherwise : r->sentence);
        write_text("\n");
    }
    raise(signal); /* SA_RESETHAND has restored the default action */
}

/* Installs the handler, unless the signal is ignored, as under `nohup`. */
static void install_handler(int signal) {
    struct sigaction before, act = {.sa_handler = handle_signal, .sa_flags = SA_RESETHAND | SA_NODEFER};
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
    remains *next = current == &slots[0] ? &slots[1] : &slots[0];
    *next = (remains){path, sentence, otherwise};
    current = next;
    if (owner) return;
    owner = getpid();
    unwanted = mmap(NULL, sizeof *unwanted, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (unwanted == MAP_FAILED) unwanted = NULL;
    install_handler(SIGINT);
    install_handler(SIGTERM);
    install_handler(SIGHUP);
}
