/* Main: the table of verbs. */
#include "cli.h"

#include <ctype.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

typedef struct verb {
    const char *name;
    int (*run)(int argc, char **argv);
    const char *help;
} verb;

static const verb verbs[] = {
    {"explain", cmd_explain, "what a move between two layouts costs, as text, JSON or a picture"},
    {"apply", cmd_apply, "move the parts of a tensor, of streams or of files"},
    {"bench", cmd_bench, "how fast a move is, beside memcpy, with every element checked"},
    {"simulate", cmd_simulate, "how long a move takes on a machine that need not be here"},
    {"convert", cmd_convert, "write a checkpoint anew, cut otherwise"},
    {"inspect", cmd_inspect, "list what is in checkpoints"},
    {"verify", cmd_verify, "compare two checkpoints, however they are cut"},
    {"run", cmd_run, "start N processes of a program, each told which rank it is"},
    {"doctor", cmd_doctor, "what this build and this machine offer, and what to do"},
};
#define VERBS (sizeof verbs / sizeof *verbs)

static void print_help(FILE *to) {
    fputs("Usage: reshard VERB [OPTION...] [ARGUMENT...]\n"
          "Moves N-D tensors between any two sharded layouts.\n\n",
          to);
    for (size_t i = 0; i < VERBS; i++) fprintf(to, "  %-10s %s\n", verbs[i].name, verbs[i].help);
    fputs("  help       this, or 'help VERB': the options of a verb\n"
          "  version    which version this is\n",
          to);
    fputs("\nA layout is one line of text: 'f32[4096/tp, 11008] on dp=2,tp=4'.\n"
          "'reshard help VERB' lists the options of a verb; 'man reshard' says it all.\n",
          to);
}

static size_t least(size_t a, size_t b) { return a < b ? a : b; }

/* How many letters must be added, dropped or changed to make one word of the other. */
static size_t distance(const char *a, const char *b) {
    size_t row[64], m = strlen(b);
    if (m >= 63) return m;
    for (size_t j = 0; j <= m; j++) row[j] = j;
    for (size_t i = 1; a[i - 1]; i++) {
        size_t corner = row[0];
        row[0] = i;
        for (size_t j = 1; j <= m; j++) {
            size_t above = row[j];
            row[j] = least(least(above, row[j - 1]) + 1, corner + (a[i - 1] != b[j - 1]));
            corner = above;
        }
    }
    return row[m];
}

/* One word is the other's beginning: that is no distance. */
static bool begins(const char *a, const char *b) { return !strncmp(a, b, least(strlen(a), strlen(b))) && *a; }

static const char *nearest(const char *word) {
    const char *best = NULL;
    size_t best_distance = least(4, strlen(word) / 2 + 1); /* further away is another word, not a slip */
    for (size_t i = 0; i < VERBS; i++) {
        size_t d = begins(word, verbs[i].name) ? 0 : distance(word, verbs[i].name);
        if (d < best_distance) {
            best = verbs[i].name;
            best_distance = d;
        }
    }
    return best;
}

static int unknown(const char *word) {
    const char *guess = nearest(word);
    if (isalpha((unsigned char)*word) && strchr(word, '['))
        fail("'%s' looks like a layout, and a verb comes first: reshard explain FROM TO", word);
    else if (*word == '-')
        fail("'%s' is not an option here: options follow the verb, and 'reshard --help' lists the verbs", word);
    else if (!*word)
        fail("the verb is empty; 'reshard --help' lists them");
    else if (guess)
        fail("there is no verb '%s'; did you mean '%s'?", word, guess);
    else
        fail("there is no verb '%s'; 'reshard --help' lists them", word);
    return USAGE;
}

static const verb *find(const char *word) {
    for (size_t i = 0; i < VERBS; i++)
        if (!strcmp(word, verbs[i].name)) return &verbs[i];
    return NULL;
}

/* The doctor says itself what is wrong with the environment; nobody else works with settings that are refused.
 * Whoever makes a tensor has the library read them. */
static int check_settings(const verb *v) {
    rsh_tensor *t = NULL;
    rsh_status st = v->run == cmd_doctor ? RSH_OK : rsh_tensor_empty(RSH_U8, 0, NULL, &t);
    rsh_tensor_free(t);
    return st ? fail_library(st) : DONE;
}

static int run(const verb *v, int argc, char **argv) {
    char name[32];
    static char help[] = "--help";
    snprintf(name, sizeof name, "reshard %s", v->name);
    argv[0] = name;
    if (argc > 1 && !strcmp(argv[1], "-h")) argv[1] = help;
    if (check_settings(v)) return FAILED;
    return v->run(argc, argv);
}

static int too_many(const char *verb, const char *word) {
    fail("%s takes no more arguments, '%s' is one", verb, word);
    return USAGE;
}

static int print_version(int argc, char **argv) {
    if (argc > 1) return too_many("version", argv[1]);
    printf("reshard %s\n", rsh_version());
    return DONE;
}

/* help, or help VERB */
static int help(int argc, char **argv) {
    static char option[] = "--help";
    if (argc > 2) return too_many("help", argv[2]);
    if (argc < 2 || !strcmp(argv[1], "help") || !strcmp(argv[1], "version")) {
        print_help(stdout);
        return DONE;
    }
    char *words[] = {argv[1], option, NULL};
    const verb *v = find(argv[1]);
    return v ? run(v, 2, words) : unknown(argv[1]);
}

static bool is_one_of(const char *word, const char *const *list) {
    while (*list && strcmp(word, *list)) list++;
    return *list;
}

int main(int argc, char **argv) {
    static const char *const helps[] = {"help", "--help", "-h", "-?", NULL};
    static const char *const versions[] = {"version", "--version", "-V", NULL};
    signal(SIGPIPE, SIG_IGN); /* a reader that has gone is an error of write, not the end of us */
    argp_err_exit_status = USAGE;
    open_output();
    atexit(close_stdout);
    if (argc < 2) {
        print_help(stderr);
        return USAGE;
    }
    if (is_one_of(argv[1], helps)) return help(argc - 1, argv + 1);
    if (is_one_of(argv[1], versions)) return print_version(argc - 1, argv + 1);
    const verb *v = find(argv[1]);
    return v ? run(v, argc - 1, argv + 1) : unknown(argv[1]);
}
