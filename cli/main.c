/* Main: finds the verb and runs it. */
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
    {"explain", cmd_explain, "show what a move between two layouts costs, as text, JSON or a picture"},
    {"apply", cmd_apply, "reshard raw data in streams or files"},
    {"bench", cmd_bench, "measure a move, compare it with memcpy and check every element"},
    {"simulate", cmd_simulate, "estimate the time of a move on another machine"},
    {"convert", cmd_convert, "rewrite a checkpoint with different layouts"},
    {"inspect", cmd_inspect, "list the contents of checkpoints"},
    {"verify", cmd_verify, "compare two checkpoints, whatever their layouts"},
    {"run", cmd_run, "start N processes of a program and tell each its rank"},
    {"doctor", cmd_doctor, "check this build and this machine, and say what to improve"},
};
#define VERBS (sizeof verbs / sizeof *verbs)

static void print_help(FILE *to) {
    fputs("Usage: reshard VERB [OPTION...] [ARGUMENT...]\n"
          "Moves N-D tensors between any two sharded layouts.\n\n",
          to);
    for (size_t i = 0; i < VERBS; i++) fprintf(to, "  %-10s %s\n", verbs[i].name, verbs[i].help);
    fputs("  help       print this, or with 'help VERB' the options of a verb\n"
          "  version    print the version\n",
          to);
    fputs("\nA layout is one line of text: 'f32[4096/tp, 11008] on dp=2,tp=4'.\n"
          "'reshard help VERB' lists the options of a verb; 'man reshard' is the manual.\n",
          to);
}

static size_t least(size_t a, size_t b) { return a < b ? a : b; }

/* Returns the edit distance of two words. */
static size_t edit_distance(const char *a, const char *b) {
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

/* Is one word a prefix of the other? */
static bool is_prefix(const char *a, const char *b) { return !strncmp(a, b, least(strlen(a), strlen(b))) && *a; }

static const char *nearest_verb(const char *word) {
    const char *best = NULL;
    size_t best_distance = least(4, strlen(word) / 2 + 1); /* a word with more changes is another word, not a typo */
    for (size_t i = 0; i < VERBS; i++) {
        size_t d = is_prefix(word, verbs[i].name) ? 0 : edit_distance(word, verbs[i].name);
        if (d < best_distance) {
            best = verbs[i].name;
            best_distance = d;
        }
    }
    return best;
}

/* The verb for a word that other tools use; NULL if there is none. */
static const char *verb_of_other_tools(const char *word) {
    static const char *const words[][2] = {{"draw", "explain --svg=FILE"}, {"plot", "explain --svg=FILE"},
                                           {"plan", "explain"},            {"ls", "inspect"},
                                           {"list", "inspect"},            {"diff", "verify"},
                                           {"compare", "verify"}};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (!strcmp(word, words[i][0])) return words[i][1];
    return NULL;
}

static int report_unknown(const char *word) {
    const char *other = verb_of_other_tools(word), *guess = other ? other : nearest_verb(word);
    if (isalpha((unsigned char)*word) && strchr(word, '['))
        fail("expected a verb, got a layout '%s'; try 'reshard explain FROM TO'", word);
    else if (*word == '-')
        fail("unknown option '%s': options follow the verb; 'reshard --help' lists the verbs", word);
    else if (!*word)
        fail("the verb is empty; 'reshard --help' lists the verbs");
    else if (guess)
        fail("unknown verb '%s'; did you mean '%s'?", word, guess);
    else
        fail("unknown verb '%s'; 'reshard --help' lists the verbs", word);
    return USAGE;
}

static const verb *find_verb(const char *word) {
    for (size_t i = 0; i < VERBS; i++)
        if (!strcmp(word, verbs[i].name)) return &verbs[i];
    return NULL;
}

/* Fails if an environment variable is invalid: creating a tensor makes the library check them.  The doctor reports them
 * itself. */
static int check_settings(const verb *v) {
    rsh_tensor *t = NULL;
    rsh_status st = v->run == cmd_doctor ? RSH_OK : rsh_tensor_empty(RSH_U8, 0, NULL, &t);
    rsh_tensor_free(t);
    return st ? fail_library(st) : DONE;
}

static int run_verb(const verb *v, int argc, char **argv) {
    char name[32];
    static char help[] = "--help";
    snprintf(name, sizeof name, "reshard %s", v->name);
    argv[0] = name;
    if (argc > 1 && !strcmp(argv[1], "-h")) argv[1] = help;
    if (check_settings(v)) return FAILED;
    return v->run(argc, argv);
}

static int too_many(const char *verb, const char *word) {
    fail("%s: unexpected argument '%s'", verb, word);
    return USAGE;
}

static int print_version(int argc, char **argv) {
    if (argc > 1) return too_many("version", argv[1]);
    printf("reshard %s\n", rsh_version());
    return DONE;
}

/* Runs help, or help VERB. */
static int run_help(int argc, char **argv) {
    static char option[] = "--help";
    if (argc > 2) return too_many("help", argv[2]);
    if (argc < 2 || !strcmp(argv[1], "help") || !strcmp(argv[1], "version")) {
        print_help(stdout);
        return DONE;
    }
    char *words[] = {argv[1], option, NULL};
    const verb *v = find_verb(argv[1]);
    return v ? run_verb(v, 2, words) : report_unknown(argv[1]);
}

static bool is_one_of(const char *word, const char *const *list) {
    while (*list && strcmp(word, *list)) list++;
    return *list;
}

int main(int argc, char **argv) {
    static const char *const helps[] = {"help", "--help", "-h", "-?", NULL};
    static const char *const versions[] = {"version", "--version", "-V", NULL};
    signal(SIGPIPE, SIG_IGN); /* a closed pipe is then an error of write, which is reported */
    signal(SIGXFSZ, SIG_IGN); /* so is a file that reaches the limit of its size */
    argp_err_exit_status = USAGE;
    open_output();
    atexit(close_stdout);
    if (argc < 2) {
        print_help(stderr);
        return USAGE;
    }
    if (is_one_of(argv[1], helps)) return run_help(argc - 1, argv + 1);
    if (is_one_of(argv[1], versions)) return print_version(argc - 1, argv + 1);
    const verb *v = find_verb(argv[1]);
    return v ? run_verb(v, argc - 1, argv + 1) : report_unknown(argv[1]);
}
