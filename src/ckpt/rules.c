/* Rules: parses a rule file, line by line.
 *
 *     mesh tp=4
 *     files model-rank-{rank}-part-{part}.safetensors
 *     *.q_proj.weight                          [_/tp%128, _]
 *     model.{n*} -> {n*}                       [...]
 *     {n*}.qkv.weight = cat(0, {n*}.{q,k,v}.weight)  [(_|_|_)/tp%128, _]
 */
#include "ckpt/rules.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#define RULES_MOST (16 << 20) /* largest rule file in bytes */

typedef struct parsing {
    rsh_ckpt_rules *r;
    int line;
    const char *start; /* beginning of the line, from which columns are counted */
} parsing;

static rsh_status refuse_at(const parsing *p, const char *at, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
static rsh_status refuse_at(const parsing *p, const char *at, const char *format, ...) {
    char sentence[700];
    va_list list;
    va_start(list, format);
    vsnprintf(sentence, sizeof sentence, format, list);
    va_end(list);
    return rshi_fail(RSH_EVALUE, "%.200s:%d:%d: %s", p->r->name, p->line, (int)(at - p->start) + 1, sentence);
}

/* Adds file, line and column to the current error message. */
static rsh_status add_position(const parsing *p, const char *at, rsh_status st) {
    char sentence[700];
    if (st != RSH_EVALUE) return st;
    snprintf(sentence, sizeof sentence, "%s", rsh_error_detail());
    return refuse_at(p, at, "%s", sentence);
}

static bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r'; }

static char *skip_blanks(char *at) {
    while (is_blank(*at)) at++;
    return at;
}

/* Removes trailing blanks. */
static void trim(char *text) {
    size_t n = strlen(text);
    while (n && is_blank(text[n - 1])) text[--n] = 0;
}

/* Does the text start with this word, followed by a blank or the end? */
static bool at_word(const char *at, const char *word) {
    size_t n = strlen(word);
    return !strncmp(at, word, n) && (!at[n] || is_blank(at[n]));
}

/* ---- the mesh and the files ---- */

/* Returns one more than the highest rank of a mesh. */
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

/* Parses `mesh tp=4@0-3`; the text is the same as after `on` in a layout. */
static rsh_status read_mesh(parsing *p, const char *text) {
    rshi_text t = {0};
    rsh_text_error error = {0};
    if (p->r->mesh) return refuse_at(p, p->start, "only one mesh line is allowed");
    if (p->r->nrules) return refuse_at(p, p->start, "the mesh line must come before the first rule");
    rshi_text_add(&t, "u8[] on %s", text);
    if (t.failed) return rshi_text_free(&t), rshi_nomem();
    rsh_status st = rsh_layout_parse_at(t.data, &error, &p->r->mesh);
    rshi_text_free(&t);
    if (st == RSH_EVALUE)
        return refuse_at(p, text + (error.column > 8 ? error.column - 9 : 0), "%s",
                      error.sentence ? error.sentence : "expected a mesh, such as tp=4");
    if (!st && ranks_of(rsh_layout_describe(p->r->mesh)) > RSHI_MOST_RANKS)
        return refuse_at(p, text, "the mesh has more than %d ranks", RSHI_MOST_RANKS);
    return st;
}

static rsh_status read_files(parsing *p, const char *text) {
    if (p->r->files) return refuse_at(p, p->start, "only one files line is allowed");
    RSH_TRY(add_position(p, text, rshi_files_check(text)));
    p->r->files = rshi_ckpt_copy(text);
    return p->r->files ? RSH_OK : rshi_nomem();
}

/* ---- lines ---- */

static void free_rule(rshi_ckpt_rule *rule) {
    rshi_name_free(&rule->source);
    rshi_name_free(&rule->target);
    rshi_expr_free(&rule->expr);
    rshi_free(rule->text);
    rsh_form_free(rule->form);
}

/* Removes "uneven" if it is the last word. */
static bool take_uneven(char *text) {
    size_t n = strlen(text);
    if (n < 6 || strcmp(text + n - 6, "uneven") || (n > 6 && !is_blank(text[n - 7]))) return false;
    text[n - 6] = 0;
    trim(text);
    return true;
}

/* Returns a hint for users who write placements as PyTorch does. */
static const char *hint_for(const char *text) {
    if (!strncasecmp(text, "shard", 5)) return "; for Shard(0) write [_/tp, _], for Shard(1) [_, _/tp]";
    if (!strncasecmp(text, "replicate", 9)) return "; for Replicate write [...]";
    return "";
}

/* Parses the form, which is the rest of the line. */
static rsh_status read_form(parsing *p, char *text, rshi_ckpt_rule *rule) {
    rsh_text_error error = {0};
    const rsh_layout_desc *mesh = p->r->mesh ? rsh_layout_describe(p->r->mesh) : NULL;
    rule->uneven = take_uneven(text);
    rule->has_form = *text;
    rsh_status st = rsh_form_parse(*text ? text : "[...]", mesh, &error, &rule->form);
    if (st && st != RSH_ENOMEM)
        return refuse_at(p, text + (error.column ? error.column - 1 : 0), "%s%s",
                      error.sentence ? error.sentence : "expected a form, such as [_/tp, _]", hint_for(text));
    if (!st && ranks_of(rsh_form_describe(rule->form)) > RSHI_MOST_RANKS)
        return refuse_at(p, text, "the mesh of this line has more than %d ranks", RSHI_MOST_RANKS);
    return st;
}

/* Parses a name and advances *at past it and the blanks after it. */
static rsh_status read_name(parsing *p, char **at, rshi_ckpt_rule *rule, rshi_name_pattern *out) {
    const char *name = *at;
    rsh_status st = rshi_name_parse(&name, false, &rule->captures, out);
    if (st) return add_position(p, name, st);
    *at = skip_blanks((char *)(uintptr_t)name);
    return RSH_OK;
}

static rsh_status read_blocks(parsing *p, char *at, rshi_ckpt_rule *rule) {
    for (rule->nblocks = 0; *at;) {
        int64_t n = 0;
        const char *start = at;
        for (; *at >= '0' && *at <= '9' && at - start < 15; at++) n = 10 * n + (*at - '0');
        if (at == start || n < 1) return refuse_at(p, start, "expected a block size, such as 128");
        if (rule->nblocks == RSH_MAX_NDIM) return refuse_at(p, start, "expected at most %d block sizes", RSH_MAX_NDIM);
        rule->block[rule->nblocks++] = n;
        at = skip_blanks(at);
        if (*at && *at != ',') return refuse_at(p, at, "expected \",\" or the end of the line");
        if (*at == ',') at = skip_blanks(at + 1);
    }
    return rule->nblocks ? RSH_OK : refuse_at(p, at, "expected block sizes, such as 128,128");
}

/* Parses TARGET scales WEIGHT by 128,128. */
static rsh_status read_scales(parsing *p, char *at, rshi_ckpt_rule *rule) {
    rule->kind = RSHI_RULE_SCALES;
    rule->target = rule->source;
    rule->source = (rshi_name_pattern){0};
    RSH_TRY(read_name(p, &at, rule, &rule->source));
    if (!at_word(at, "by")) return refuse_at(p, at, "expected \"by\" and block sizes, such as \"by 128,128\"");
    return read_blocks(p, skip_blanks(at + 2), rule);
}

static rsh_status read_rename(parsing *p, char *at, rshi_ckpt_rule *rule, char **form) {
    rule->kind = RSHI_RULE_RENAME;
    RSH_TRY(read_name(p, &at, rule, &rule->target));
    *form = at;
    return RSH_OK;
}

static rsh_status read_build(parsing *p, char *at, rshi_ckpt_rule *rule, char **form) {
    const char *text = at;
    rule->kind = RSHI_RULE_BUILD;
    rule->target = rule->source;
    rule->source = (rshi_name_pattern){0};
    rsh_status st = rshi_expr_parse(&text, &rule->captures, &rule->expr);
    if (st) return add_position(p, text, st);
    *form = skip_blanks((char *)(uintptr_t)text);
    return RSH_OK;
}

/* Parses a line from its first name on. */
static rsh_status read_names(parsing *p, char *at, rshi_ckpt_rule *rule) {
    char *start = at, *form;
    RSH_TRY(read_name(p, &at, rule, &rule->source));
    form = at;
    if (at_word(at, "->"))
        RSH_TRY(read_rename(p, skip_blanks(at + 2), rule, &form));
    else if (at_word(at, "="))
        RSH_TRY(read_build(p, skip_blanks(at + 1), rule, &form));
    else if (at_word(at, "scales"))
        return read_scales(p, skip_blanks(at + 6), rule);
    RSH_TRY(read_form(p, form, rule));
    *form = 0;
    trim(start);
    return RSH_OK;
}

static rsh_status read_rule(parsing *p, char *at, bool optional) {
    rsh_ckpt_rules *r = p->r;
    rshi_ckpt_rule rule = {.optional = optional, .line = p->line};
    char *start = at;
    rsh_status st = RSHI_GROW(r->rule, r->nrules + 1, &r->room);
    if (!st && at_word(at, "drop")) {
        rule.kind = RSHI_RULE_DROP;
        at = skip_blanks(at + 4);
        st = read_name(p, &at, &rule, &rule.source);
        if (!st && *at) st = refuse_at(p, at, "expected the end of the line after \"drop\" and a pattern");
    } else if (!st) {
        st = read_names(p, at, &rule);
    }
    if (!st) st = add_position(p, start, rshi_rule_check(&rule));
    if (!st && !(rule.text = rshi_ckpt_copy(start))) st = rshi_nomem();
    if (st) return free_rule(&rule), st;
    r->rule[r->nrules++] = rule;
    return RSH_OK;
}

/* Removes a comment, which starts with "#" outside of quotes. */
static void cut_comment(char *line) {
    bool quoted = false;
    for (char *c = line; *c; c++) {
        if (quoted && *c == '\\' && c[1]) {
            c++;
        } else if (*c == '"') {
            quoted = !quoted;
        } else if (*c == '#' && !quoted) {
            *c = 0;
            return;
        }
    }
}

/* Parses one line without its newline; modifies the text. */
static rsh_status read_line(parsing *p, char *line) {
    cut_comment(line);
    trim(line);
    p->start = line;
    char *at = skip_blanks(line);
    if (!*at) return RSH_OK;
    if (!strncmp(at, "mesh:", 5) || !strncmp(at, "files:", 6))
        return refuse_at(p, strchr(at, ':'),
                         "unexpected \":\"; write \"mesh tp=2\" or \"files rank-{rank}.safetensors\"");
    bool mesh = at_word(at, "mesh"), files = at_word(at, "files"), optional = at_word(at, "optional");
    char *rest = mesh || files || optional ? skip_blanks(at + (mesh ? 4 : files ? 5 : 8)) : at;
    if (!*rest) return refuse_at(p, rest, "expected an argument after \"%s\"", at);
    if (mesh) return read_mesh(p, rest);
    if (files) return read_files(p, rest);
    return read_rule(p, rest, optional);
}

static rsh_status read_lines(rsh_ckpt_rules *r, char *text) {
    parsing p = {r, 0, NULL};
    for (char *line = text, *end; line; line = end) {
        end = strchr(line, '\n');
        if (end) *end++ = 0;
        p.line++;
        RSH_TRY(read_line(&p, line));
    }
    r->nranks = r->mesh ? rshi_layout_rank_bound(r->mesh) : 1;
    RSH_REQUIRE(r->nrules, RSH_EVALUE, "%.200s: the file has no rules; write at least \"* [...]\"", r->name);
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
    if (!st) r->hash = rshi_hash(text, strlen(text), 0);
    if (!st) st = read_lines(r, copy + (strncmp(copy, "\xef\xbb\xbf", 3) ? 0 : 3)); /* skip a byte order mark */
    rshi_free(copy);
    if (st)
        rsh_ckpt_rules_free(r);
    else
        *out = r;
    return st;
}

/* Reads a small file into a NUL-terminated text, which the caller frees with rshi_free. */
static rsh_status read_text(const char *path, size_t most, char **out) {
    struct stat s;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) return rshi_io_fail(path);
    rsh_status st = fstat(fd, &s) || !S_ISREG(s.st_mode) ? rshi_fail(RSH_EIO, "%s: not a regular file", path) : RSH_OK;
    if (!st && (uint64_t)s.st_size > most)
        st = rshi_fail(RSH_EVALUE, "%s: the file has %" PRIu64 " bytes; a rule file may have at most %zu", path,
                       (uint64_t)s.st_size, most);
    char *text = st ? NULL : rshi_alloc((size_t)s.st_size + 1, 1);
    if (!st && !text) st = rshi_nomem();
    size_t have = 0;
    while (!st && have < (size_t)s.st_size) {
        ssize_t got = pread(fd, text + have, (size_t)s.st_size - have, (off_t)have);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0)
            st = rshi_fail(RSH_EIO, "%s: byte %zu: %s", path, have, got ? strerror(errno) : "unexpected end of file");
        have += got > 0 ? (size_t)got : 0;
    }
    close(fd);
    const char *zero = st || !have ? NULL : memchr(text, 0, have);
    if (zero)
        st = rshi_fail(RSH_EVALUE, "%s: not a rule file: byte %td is 0; expected text in UTF-8", path, zero - text);
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
    for (int64_t i = 0; i < r->nrules; i++) free_rule(&r->rule[i]);
    rshi_free(r->rule);
    rshi_free(r->files);
    rshi_free(r->name);
    rsh_layout_free(r->mesh);
    rshi_free(r);
}
