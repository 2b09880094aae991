/* Arguments: parses layouts, engines and numbers of the command line. */
#include "cli.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define CONTEXT 70 /* columns of a layout shown before and after the error */

static error_t parse_pair(int key, char *word, struct argp_state *state) {
    layout_pair *pair = state->input;
    switch (key) {
    case ARGP_KEY_ARG:
        if (state->arg_num == 0) pair->from_text = word;
        else if (state->arg_num == 1) pair->to_text = word;
        else
            argp_error(state, "expected two layouts, FROM and TO; unexpected argument '%s' (quote layouts that "
                              "contain blanks)", word);
        return 0;
    case ARGP_KEY_END:
        if (!pair->to_text) argp_error(state, "the layouts FROM and TO are required");
        return 0;
    default: return ARGP_ERR_UNKNOWN;
    }
}

const struct argp layout_pair_argp = {.parser = parse_pair};

/* Prints the line with the error and a caret under the column; shortens long lines. */
static void point_at(const char *text, int line, int column) {
    while (line-- > 1 && strchr(text, '\n')) text = strchr(text, '\n') + 1;
    int length = (int)strcspn(text, "\n"), at = column - 1 < length ? column - 1 : length;
    int skip = at > CONTEXT ? at - CONTEXT : 0, show = length - skip > 2 * CONTEXT ? 2 * CONTEXT : length - skip;
    char before[4 * CONTEXT + 8], after[8 * CONTEXT + 8];
    spell(text + skip, (size_t)(at - skip), before, sizeof before);
    spell(text + at, (size_t)(show - (at - skip)), after, sizeof after);
    fprintf(stderr, "  %s%s\n  %*s^\n", before, after, (int)strlen(before), "");
}

/* Reads a text file; the caller frees it.  NULL after printing an error. */
static char *read_text(const char *name, const char *path) {
    FILE *f = fopen(path, "r");
    char *text = NULL;
    size_t room = 0;
    ssize_t n = f ? getdelim(&text, &room, '\0', f) : -1;
    bool ok = f && !ferror(f) && n >= 0;
    if (ok && (fgetc(f) != EOF || (n && !text[n - 1]))) {
        fail("%s: %s: expected the text of a layout, but byte %zd is NUL", name, path, n);
        ok = false;
        errno = -1; /* the error has been printed */
    }
    if (f) fclose(f);
    if (ok) return text;
    if (errno >= 0) fail("%s: %s: %s", name, path, errno ? strerror(errno) : "the file is empty");
    free(text);
    return NULL;
}

static bool parse_layout(const char *name, const char *text, rsh_layout **out) {
    rsh_text_error error;
    if (!rsh_layout_parse_at(text, &error, out)) return true;
    fail("%s: %s", name, rsh_error_detail());
    if (!is_quiet() && error.line) point_at(text, error.line, error.column);
    return false;
}

/* Parses a layout, or reads it from a file if the argument is @FILE; no layout starts with an @. */
static bool parse_argument(const char *name, const char *argument, rsh_layout **out) {
    if (!*argument) return !fail("%s is empty; give a layout such as 'f32[4096/tp, 11008] on dp=2,tp=4'", name);
    if (*argument != '@') return parse_layout(name, argument, out);
    errno = 0;
    char *text = read_text(name, argument + 1);
    bool ok = text && parse_layout(name, text, out);
    free(text);
    return ok;
}

bool layout_pair_parse(layout_pair *pair) {
    return parse_argument("FROM", pair->from_text, &pair->from) && parse_argument("TO", pair->to_text, &pair->to);
}

void layout_pair_free(layout_pair *pair) {
    rsh_layout_free(pair->from);
    rsh_layout_free(pair->to);
}

static int64_t highest(const rsh_layout *l) {
    int64_t n = rsh_layout_nranks(l);
    return n ? rsh_layout_rank(l, n - 1) : -1;
}

int64_t layout_pair_group(const layout_pair *pair) {
    int64_t a = highest(pair->from), b = highest(pair->to);
    return 1 + (a > b ? a : b);
}

static const char *const engines[] = {"threads", "shm", "mpi"};

bool engine_known(const char *name) {
    for (size_t i = 0; i < sizeof engines / sizeof *engines; i++)
        if (!strcmp(name, engines[i])) return true;
    return false;
}

void check_path(const char *word, struct argp_state *state) {
    if (!*word) argp_error(state, "the path of a checkpoint must not be empty");
    if (!strcmp(word, "-"))
        argp_error(state, "a checkpoint cannot be read from or written to a stream; for a file named '-', write './-'");
}

bool parse_count(const char *text, int64_t least, int64_t *out) {
    char *end;
    errno = 0;
    intmax_t n = strtoimax(text, &end, 10);
    if (end == text || *end || errno || n < least || n > INT64_MAX) return false;
    *out = n;
    return true;
}

bool parse_bytes(const char *text, uint64_t *out) {
    static const char *const suffixes[] = {"", "K", "M", "G", "B", "KiB", "MiB", "GiB"};
    char *end;
    errno = 0;
    uintmax_t n = strtoumax(text, &end, 10);
    if (end == text || *text == '-' || errno) return false;
    for (size_t i = 0; i < sizeof suffixes / sizeof *suffixes; i++) {
        unsigned shift = 10 * (i % 4);
        if (strcmp(end, suffixes[i])) continue;
        *out = (uint64_t)n << shift;
        return *out >> shift == n;
    }
    return false;
}
