/* Rules: which tensor is cut how, as a file says that names patterns and forms.
 *
 *     mesh tp=4
 *     files model-rank-{rank}-part-{part}.safetensors
 *     *.q_proj.weight    [_/tp%128, _]
 */
#include "ckpt/ckpt.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define RULES_MOST (16 << 20) /* bytes of a file: no file of rules is longer */

typedef struct parsing {
    rsh_ckpt_rules *r;
    int line;
} parsing;

static rsh_status refuse(const parsing *p, int column, const char *format, ...) __attribute__((format(printf, 3, 4)));
static rsh_status refuse(const parsing *p, int column, const char *format, ...) {
    char sentence[700];
    va_list list;
    va_start(list, format);
    vsnprintf(sentence, sizeof sentence, format, list);
    va_end(list);
    return rshi_fail(RSH_EVALUE, "%.200s:%d:%d: %s", p->r->name, p->line, column, sentence);
}

static bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r'; }

/* Ends the text behind its last byte that is no blank. */
static void trim(char *text) {
    size_t n = strlen(text);
    while (n && is_blank(text[n - 1])) text[--n] = 0;
}

/* One more than the highest rank of a mesh. */
static int64_t ranks_of(const rsh_layout_desc *l) {
    int64_t positions = 1, most = 0;
    for (int a = 0; a < l->naxes; a++)
        if (!rshi_mul(positions, l->axis[a].size, &positions)) return INT64_MAX;
    for (int64_t i = 0; l->ranks && i < positions; i++) most = rshi_max(most, l->ranks[i] + 1);
    for (int64_t i = 0; i < l->nboxes; i++)
        for (int64_t k = 0; k < l->boxes[i].nranks; k++) most = rshi_max(most, l->boxes[i].ranks[k] + 1);
    if (l->is_boxes || l->ranks) return most;
    return rshi_add(positions, l->first_rank, &most) ? most : INT64_MAX;
}

/* `mesh tp=4@0-3`: whatever may stand behind `on`. */
static rsh_status read_mesh(parsing *p, const char *text, int column) {
    rshi_text t = {0};
    rsh_text_error error = {0};
    if (p->r->mesh) return refuse(p, 1, "a second mesh");
    if (p->r->nrules) return refuse(p, 1, "the mesh stands before the first rule");
    rshi_text_add(&t, "u8[] on %s", text);
    if (t.failed) return rshi_text_free(&t), rshi_nomem();
    rsh_status st = rsh_layout_parse_at(t.data, &error, &p->r->mesh);
    rshi_text_free(&t);
    if (st == RSH_EVALUE)
        return refuse(p, column + (error.column > 8 ? error.column - 9 : 0), "%s",
                      error.sentence ? error.sentence : "no mesh");
    if (!st && ranks_of(rsh_layout_describe(p->r->mesh)) > RSHI_MOST_RANKS)
        return refuse(p, column, "mesh names more than %d ranks", RSHI_MOST_RANKS);
    return st;
}

static rsh_status read_files(parsing *p, const char *text, int column) {
    if (p->r->files) return refuse(p, 1, "a second `files`");
    if (strchr(text, '/')) return refuse(p, column, "`files` are names in one directory: no '/'");
    for (const char *c = text; *c; c++)
        if (is_blank(*c)) return refuse(p, column, "names of files have no blanks here");
    if (!rshi_files_names(text, "rank")) return refuse(p, column, "`files` has no {rank}");
    p->r->files = rshi_ckpt_copy(text);
    return p->r->files ? RSH_OK : rshi_nomem();
}

/* "uneven" as the last word is taken off. */
static bool take_uneven(char *text) {
    size_t n = strlen(text);
    if (n < 7 || strcmp(text + n - 6, "uneven") || !is_blank(text[n - 7])) return false;
    text[n - 6] = 0;
    trim(text);
    return true;
}

static rsh_status read_rule(parsing *p, const char *pattern, char *form, int column, bool optional) {
    rsh_ckpt_rules *r = p->r;
    rsh_text_error error = {0};
    RSH_TRY(RSHI_GROW(r->rule, r->nrules + 1, &r->room));
    rshi_ckpt_rule rule = {.uneven = take_uneven(form), .optional = optional, .line = p->line};
    rsh_status st = rsh_form_parse(form, r->mesh ? rsh_layout_describe(r->mesh) : NULL, &error, &rule.form);
    if (st && st != RSH_ENOMEM)
        return refuse(p, column + (error.column ? error.column - 1 : 0), "%s",
                      error.sentence ? error.sentence : "no layout");
    if (st) return st;
    if (ranks_of(rsh_form_describe(rule.form)) > RSHI_MOST_RANKS) {
        rsh_form_free(rule.form);
        return refuse(p, column, "rule names more than %d ranks", RSHI_MOST_RANKS);
    }
    rule.pattern = rshi_ckpt_copy(pattern);
    if (!rule.pattern) return rsh_form_free(rule.form), rshi_nomem();
    r->rule[r->nrules++] = rule;
    return RSH_OK;
}

/* A line from its first word on. */
static rsh_status read_words(parsing *p, const char *line, char *word, bool optional) {
    char *rest = word + strcspn(word, " \t");
    if (!*rest) return refuse(p, (int)(rest - line) + 1, "a pattern without a layout behind it");
    *rest++ = 0;
    while (is_blank(*rest)) rest++;
    int column = (int)(rest - line) + 1;
    if (!optional && !strcmp(word, "optional")) return read_words(p, line, rest, true);
    if (!optional && !strcmp(word, "mesh")) return read_mesh(p, rest, column);
    if (!optional && !strcmp(word, "files")) return read_files(p, rest, column);
    return read_rule(p, word, rest, column, optional);
}

/* One line, without its end; it is written to. */
static rsh_status read_line(parsing *p, char *line) {
    char *comment = strchr(line, '#');
    if (comment) *comment = 0;
    char *word = line;
    while (is_blank(*word)) word++;
    trim(word);
    return *word ? read_words(p, line, word, false) : RSH_OK;
}

static rsh_status read_lines(rsh_ckpt_rules *r, char *text) {
    parsing p = {r, 0};
    for (char *line = text, *end; line; line = end) {
        end = strchr(line, '\n');
        if (end) *end++ = 0;
        p.line++;
        RSH_TRY(read_line(&p, line));
    }
    r->nranks = r->mesh ? rshi_layout_rank_bound(r->mesh) : 1;
    RSH_REQUIRE(r->nrules, RSH_EVALUE, "%.200s: no rule", r->name);
    return RSH_OK;
}

rsh_status rsh_ckpt_rules_parse(const char *text, const char *name, rsh_ckpt_rules **out) {
    RSH_NEEDS(text);
    RSH_NEEDS(name);
    RSH_NEEDS(out);
    rsh_ckpt_rules *r = RSHI_NEW(rsh_ckpt_rules);
    char *copy = rshi_ckpt_copy(text);
    rsh_status st = r && copy ? RSH_OK : rshi_nomem();
    if (!st) r->name = rshi_ckpt_copy(name);
    if (!st && !r->name) st = rshi_nomem();
    if (!st) st = read_lines(r, copy);
    rshi_free(copy);
    if (st)
        rsh_ckpt_rules_free(r);
    else
        *out = r;
    return st;
}

/* The text of a small file, new (rshi_free), NUL-terminated. */
static rsh_status read_text(const char *path, size_t most, char **out) {
    struct stat s;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) return rshi_io_fail(path);
    rsh_status st = fstat(fd, &s) || !S_ISREG(s.st_mode) ? rshi_fail(RSH_EIO, "%s: not a regular file", path) : RSH_OK;
    if (!st && (uint64_t)s.st_size > most)
        st = rshi_fail(RSH_EVALUE, "%s: %" PRIu64 " bytes; at most %zu", path, (uint64_t)s.st_size, most);
    char *text = st ? NULL : rshi_alloc((size_t)s.st_size + 1, 1);
    if (!st && !text) st = rshi_nomem();
    size_t have = 0;
    while (!st && have < (size_t)s.st_size) {
        ssize_t got = pread(fd, text + have, (size_t)s.st_size - have, (off_t)have);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) st = rshi_fail(RSH_EIO, "%s: byte %zu: %s", path, have, got ? strerror(errno) : "the file ends");
        have += got > 0 ? (size_t)got : 0;
    }
    close(fd);
    if (st) return rshi_free(text), st;
    text[have] = 0;
    *out = text;
    return RSH_OK;
}

rsh_status rsh_ckpt_rules_read(const char *path, rsh_ckpt_rules **out) {
    RSH_NEEDS(path);
    RSH_NEEDS(out);
    char *text = NULL;
    RSH_TRY(read_text(path, RULES_MOST, &text));
    rsh_status st = rsh_ckpt_rules_parse(text, path, out);
    rshi_free(text);
    return st;
}

void rsh_ckpt_rules_free(rsh_ckpt_rules *r) {
    if (!r) return;
    for (int64_t i = 0; i < r->nrules; i++) {
        rshi_free(r->rule[i].pattern);
        rsh_form_free(r->rule[i].form);
    }
    rshi_free(r->rule);
    rshi_free(r->files);
    rshi_free(r->name);
    rsh_layout_free(r->mesh);
    rshi_free(r);
}

int64_t rshi_rules_match(const rsh_ckpt_rules *r, const char *name) {
    for (int64_t i = 0; i < r->nrules; i++)
        if (rshi_glob(r->rule[i].pattern, name)) return i;
    return -1;
}
