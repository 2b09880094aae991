/* Status: names and descriptions of statuses, and the error message of the calling thread. */
#include "base/base.h"

#include <stdio.h>
#include <string.h>

#define STRING_(x) #x
#define STRING(x) STRING_(x)

static _Thread_local char detail[RSHI_DETAIL_BYTES];
static _Thread_local uint64_t sentences; /* the number of messages set so far */

const char *rsh_version(void) {
    return STRING(RSH_VERSION_MAJOR) "." STRING(RSH_VERSION_MINOR) "." STRING(RSH_VERSION_PATCH);
}

const char *rsh_status_name(rsh_status status) {
    switch (status) {
#define NAME(name, number, text)                                                                   \
    case RSH_##name:                                                                               \
        return "RSH_" #name;
        RSH_STATUS_MAP(NAME)
#undef NAME
    }
    return "RSH_?";
}

const char *rsh_status_text(rsh_status status) {
    switch (status) {
#define TEXT(name, number, text)                                                                   \
    case RSH_##name:                                                                               \
        return text;
        RSH_STATUS_MAP(TEXT)
#undef TEXT
    }
    return "unknown status";
}

const char *rsh_error_detail(void) { return detail; }

/* ---- singular: messages are written with plurals; "1 dims" becomes "1 dim", except in quotes ---- */

/* The nouns that messages count. */
static const struct noun {
    const char *many, *one;
} nouns[] = {
    {"axes", "axis"}, {"bags", "bag"}, {"boxes", "box"}, {"bytes", "byte"}, {"characters", "character"},
    {"chunks", "chunk"}, {"cores", "core"}, {"dimensions", "dimension"}, {"dims", "dim"}, {"elements", "element"},
    {"entries", "entry"}, {"execs", "exec"}, {"files", "file"}, {"indices", "index"}, {"inputs", "input"},
    {"letters", "letter"}, {"modules", "module"}, {"names", "name"}, {"nodes", "node"}, {"numbers", "number"},
    {"offsets", "offset"}, {"outputs", "output"}, {"parts", "part"}, {"pieces", "piece"}, {"placements", "placement"},
    {"positions", "position"}, {"processes", "process"}, {"ranges", "range"}, {"ranks", "rank"}, {"rows", "row"},
    {"seconds", "second"}, {"segments", "segment"}, {"shards", "shard"}, {"sizes", "size"}, {"subgroups", "subgroup"},
    {"tensors", "tensor"}, {"threads", "thread"}, {"values", "value"},
};
enum { NOUNS = sizeof nouns / sizeof *nouns };

static bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }

static bool is_word(const char *text, size_t n, const char *word) {
    return strlen(word) == n && !memcmp(text, word, n);
}

/* Returns the noun whose plural begins at `text`; NULL: none. */
static const struct noun *find_many(const char *text) {
    size_t n = 0;
    while (is_letter(text[n])) n++;
    for (int i = 0; i < NOUNS; i++)
        if (is_word(text, n, nouns[i].many)) return &nouns[i];
    return NULL;
}

/* Is the number at `at` a count of one?  It is not in "rank 1", nor in "2 and 1 dims". */
static bool is_count(const char *text, const char *at) {
    static const char *const joins[] = {"and", "or", "to"};
    if (at == text) return true;
    if (at[-1] != ' ') return at[-1] == '(';
    const char *end = at - 1, *begin = end;
    while (begin > text && is_letter(begin[-1])) begin--;
    for (int i = 0; i < NOUNS; i++)
        if (is_word(begin, (size_t)(end - begin), nouns[i].one)) return false;
    for (size_t i = 0; i < sizeof joins / sizeof *joins; i++)
        if (is_word(begin, (size_t)(end - begin), joins[i])) return false;
    return true;
}

static void use_singular(char *text) {
    bool quoted = false;
    for (char *p = text; *p; p++) {
        quoted ^= *p == '"';
        if (quoted || strncmp(p, "1 ", 2) || !is_count(text, p)) continue;
        const struct noun *n = find_many(p + 2);
        if (!n) continue;
        size_t one = strlen(n->one), many = strlen(n->many);
        memcpy(p + 2, n->one, one);
        memmove(p + 2 + one, p + 2 + many, strlen(p + 2 + many) + 1);
    }
}

/* ---- failures ---- */

rsh_status rshi_fail(rsh_status status, const char *format, ...) {
    char text[RSHI_DETAIL_BYTES]; /* the arguments may point into `detail` */
    va_list args;
    va_start(args, format);
    rshi_text_format_list(text, sizeof text, format, args);
    va_end(args);
    use_singular(text);
    rshi_set_detail(text);
    return status;
}

rsh_status rsh_fail(rsh_status status, const char *sentence) {
    RSH_NEEDS(sentence);
    RSH_REQUIRE(status > RSH_OK && status <= RSH_EBUSY, RSH_EVALUE, "status must be an error code, got %d",
                (int)status);
    return rshi_fail(status, "%s", sentence);
}

void rshi_set_detail(const char *text) {
    size_t n = strnlen(text, sizeof detail - 1);
    memmove(detail, text, n);
    detail[n] = '\0';
    sentences++;
}

uint64_t rshi_sentences(void) { return sentences; }
