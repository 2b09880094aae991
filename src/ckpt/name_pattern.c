/* Name pattern: parses a name of a rule file into tokens, and expands tokens into names. */
#include "ckpt/name_pattern.h"

#include <inttypes.h>
#include <string.h>

#include "ckpt/ckpt.h"

#define MOST_TOKENS 64

void rshi_name_free(rshi_name_pattern *p) {
    for (int64_t i = 0; i < p->ntokens; i++) rshi_free(p->token[i].text);
    rshi_free(p->token);
    rshi_free(p->text);
    *p = (rshi_name_pattern){0};
}

bool rshi_name_is_star(const rshi_name_pattern *p) { return p->ntokens == 1 && p->token[0].kind == RSHI_TOKEN_STAR; }

/* ---- reading ---- */

typedef struct reading_name {
    const char *at;
    bool in_expression;
    rshi_capture_names *names;
    rshi_name_pattern *p;
} reading_name;

static rsh_status add_token(reading_name *r, rshi_name_token t) {
    rshi_name_pattern *p = r->p;
    rsh_status st = RSHI_GROW(p->token, p->ntokens + 1, &p->room);
    if (!st && p->ntokens == MOST_TOKENS)
        st = rshi_fail(RSH_EVALUE, "a name may have at most %d wildcards, captures and lists", MOST_TOKENS / 2);
    if (st) return rshi_free(t.text), st;
    p->token[p->ntokens++] = t;
    p->has_wildcards |= t.kind == RSHI_TOKEN_STAR || t.kind == RSHI_TOKEN_ONE || t.kind == RSHI_TOKEN_LONG;
    p->has_globs |= t.kind == RSHI_TOKEN_STAR || t.kind == RSHI_TOKEN_ONE || t.kind == RSHI_TOKEN_RANGE;
    p->has_shifts |= t.shift != 0;
    return RSH_OK;
}

static rsh_status add_text(reading_name *r, const char *text, size_t n) {
    char *copy = rshi_alloc(n + 1, 1);
    if (!copy) return rshi_nomem();
    memcpy(copy, text, n);
    copy[n] = 0;
    return add_token(r, (rshi_name_token){.kind = RSHI_TOKEN_TEXT, .text = copy, .length = n});
}

static bool is_word(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

/* Finds the index of a capture, or adds it. */
static rsh_status find_capture(reading_name *r, const char *name, size_t n, int *out) {
    rshi_capture_names *names = r->names;
    for (*out = 0; *out < names->n; ++*out)
        if (strlen(names->name[*out]) == n && !memcmp(names->name[*out], name, n)) return RSH_OK;
    RSH_REQUIRE(n < sizeof names->name[0], RSH_EVALUE, "the name of a capture must have at most 31 characters, got %zu",
                n);
    RSH_REQUIRE(names->n < RSHI_MOST_CAPTURES, RSH_EVALUE, "a line may have at most %d captures", RSHI_MOST_CAPTURES);
    memcpy(names->name[names->n], name, n);
    names->name[names->n++][n] = 0;
    return RSH_OK;
}

/* Parses "+4" or "-4" after a capture's name. */
static rsh_status read_shift(const char **at, int64_t *shift) {
    int64_t sign = **at == '-' ? -1 : 1, n = 0;
    const char *start = ++*at;
    while (**at >= '0' && **at <= '9' && *at - start < 15) n = 10 * n + (*(*at)++ - '0');
    RSH_REQUIRE(*at > start, RSH_EVALUE, "expected an integer after \"%c\"", sign < 0 ? '-' : '+');
    *shift = sign * n;
    return RSH_OK;
}

static rsh_status read_capture(reading_name *r, const char *word, size_t n) {
    rshi_name_token t = {.kind = RSHI_TOKEN_CAPTURE};
    RSH_TRY(find_capture(r, word, n, &t.capture));
    r->at = word + n;
    if (*r->at == '*') {
        t.kind = RSHI_TOKEN_LONG;
        r->at++;
    } else if (*r->at == '+' || *r->at == '-') {
        RSH_TRY(read_shift(&r->at, &t.shift));
    }
    RSH_REQUIRE(*r->at == '}', RSH_EVALUE, "expected \"}\" after the name of a capture");
    r->at++;
    r->p->repeats |= r->p->captures >> t.capture & 1;
    r->p->captures |= 1u << t.capture;
    return add_token(r, t);
}

/* Parses the words between braces; they must not have braces or blanks. */
static rsh_status read_list(reading_name *r, const char *words, size_t n) {
    rshi_name_token t = {.kind = RSHI_TOKEN_LIST, .length = n, .nwords = 1};
    for (size_t i = 0; i < n; i++) {
        t.nwords += words[i] == ',';
        RSH_REQUIRE(words[i] != '{' && words[i] != ' ' && words[i] != '\t', RSH_EVALUE,
                    "a list such as {q,k,v} must not have braces or blanks inside");
    }
    RSH_REQUIRE(rshi_mul(r->p->nchoices, t.nwords, &r->p->nchoices) && r->p->nchoices <= 4096, RSH_EVALUE,
                "the lists of a name have more than 4096 combinations");
    t.text = rshi_alloc(n + 1, 1);
    if (!t.text) return rshi_nomem();
    for (size_t i = 0; i < n; i++) t.text[i] = words[i] == ',' ? 0 : words[i];
    t.text[n] = 0;
    r->at = words + n + 1;
    return add_token(r, t);
}

/* Parses "{i}", "{n*}", "{i+4}" or "{q,k,v}". */
static rsh_status read_braces(reading_name *r) {
    const char *word = r->at + 1;
    size_t n = 0, all = strcspn(word, "}");
    while (is_word(word[n])) n++;
    RSH_REQUIRE(word[all] == '}', RSH_EVALUE,
                "expected \"}\" after a capture or list; if the brace is part of the name, put the name in double "
                "quotes");
    if (memchr(word, ',', all)) return read_list(r, word, all);
    RSH_REQUIRE(n, RSH_EVALUE, "expected the name of a capture or a list of words after \"{\"");
    return read_capture(r, word, n);
}

static bool take_digits(const char **p, int64_t *out) {
    const char *start = *p;
    for (*out = 0; **p >= '0' && **p <= '9' && *p - start < 18; ++*p) *out = 10 * *out + (**p - '0');
    return *p > start;
}

/* Parses "<a-b>"; anything else that starts with "<" is plain text. */
static bool take_range(const char **p, int64_t *a, int64_t *b) {
    const char *q = *p;
    if (*q++ != '<' || !take_digits(&q, a) || *q++ != '-' || !take_digits(&q, b) || *q++ != '>') return false;
    *p = q;
    return true;
}

static bool ends_name(const reading_name *r, char c) {
    return !c || c == ' ' || c == '\t' || c == '\r' || (r->in_expression && (c == ',' || c == '(' || c == ')'));
}

static rsh_status read_token(reading_name *r) {
    rshi_name_token range = {.kind = RSHI_TOKEN_RANGE};
    const char *start = r->at;
    if (*r->at == '*') return r->at++, add_token(r, (rshi_name_token){.kind = RSHI_TOKEN_STAR});
    if (*r->at == '?') return r->at++, add_token(r, (rshi_name_token){.kind = RSHI_TOKEN_ONE});
    if (*r->at == '{') return read_braces(r);
    if (take_range(&r->at, &range.lo, &range.hi)) return add_token(r, range);
    RSH_REQUIRE(!strchr("()\",}", *r->at), RSH_EVALUE, "a name that contains '%c' must be in double quotes", *r->at);
    do {
        r->at++;
    } while (!ends_name(r, *r->at) && !strchr("*?{}<()\",", *r->at));
    return add_text(r, start, (size_t)(r->at - start));
}

/* ---- quoted names ---- */

/* Parses a quoted name as a JSON string; it has no special characters. */
static rsh_status read_quoted(reading_name *r) {
    const char *end = r->at + 1;
    rshi_json j;
    rshi_json_token token;
    while (*end && *end != '"') end += *end == '\\' && end[1] ? 2 : 1;
    RSH_REQUIRE(*end == '"', RSH_EVALUE, "expected a closing quote");
    RSH_TRY(rshi_json_open_text(&j, r->at, (size_t)(end + 1 - r->at), "quoted name"));
    rsh_status st = rshi_json_next(&j, &token);
    if (!st && (token != RSHI_JSON_STRING || memchr(j.text, 0, j.length)))
        st = rshi_fail(RSH_EVALUE, "a name must not contain a NUL character");
    if (!st) st = add_text(r, j.text, j.length);
    rshi_json_close(&j);
    if (!st) r->at = end + 1;
    if (!st && !ends_name(r, *r->at)) st = rshi_fail(RSH_EVALUE, "expected a blank after a quoted name");
    return st;
}

static rsh_status read_name(reading_name *r) {
    RSH_REQUIRE(!ends_name(r, *r->at), RSH_EVALUE, "expected the name of a tensor");
    if (*r->at == '"') return read_quoted(r);
    while (!ends_name(r, *r->at)) RSH_TRY(read_token(r));
    return RSH_OK;
}

rsh_status rshi_name_parse(const char **text, bool in_expression, rshi_capture_names *names, rshi_name_pattern *out) {
    rshi_name_pattern p = {.nchoices = 1};
    reading_name r = {*text, in_expression, names, &p};
    rsh_status st = read_name(&r);
    size_t n = (size_t)(r.at - *text);
    if (!st) p.text = rshi_alloc(n + 1, 1);
    if (!st && !p.text) st = rshi_nomem();
    if (!st) {
        memcpy(p.text, *text, n);
        p.text[n] = 0;
    }
    *text = r.at;
    if (st)
        rshi_name_free(&p);
    else
        *out = p;
    return st;
}

/* ---- expanding ---- */

int64_t rshi_span_number(rshi_text_span s) {
    int64_t n = 0;
    if (!s.at || !s.length || s.length > 15 || (s.length > 1 && s.at[0] == '0')) return -1;
    for (size_t i = 0; i < s.length; i++) {
        if (s.at[i] < '0' || s.at[i] > '9') return -1;
        n = 10 * n + (s.at[i] - '0');
    }
    return n;
}

static rsh_status add_capture(rshi_text *t, const rshi_name_token *k, const rshi_captured *c) {
    rshi_text_span s = c->value[k->capture];
    int64_t n = rshi_span_number(s);
    if (!k->shift) return rshi_text_add(t, "%.*s", (int)s.length, s.at ? s.at : ""), RSH_OK;
    RSH_REQUIRE(n >= 0, RSH_EVALUE, "cannot add %+" PRId64 " to capture \"%.*s\": it is not a decimal integer",
                k->shift, (int)s.length, s.at ? s.at : "");
    RSH_REQUIRE(n + k->shift >= 0, RSH_EVALUE,
                "cannot add %" PRId64 " to capture \"%" PRId64 "\": the result is negative", k->shift, n);
    rshi_text_add(t, "%" PRId64, n + k->shift);
    return RSH_OK;
}

static const char *word_at(const rshi_name_token *t, int64_t i) {
    const char *word = t->text;
    while (i--) word += strlen(word) + 1;
    return word;
}

rsh_status rshi_name_expand(const rshi_name_pattern *p, int64_t choice, const rshi_captured *c, char **out) {
    rshi_text t = {0};
    rsh_status st = RSH_OK;
    int64_t left = p->nchoices;
    rshi_text_add(&t, "%s", "");
    for (int64_t i = 0; i < p->ntokens && !st; i++) {
        const rshi_name_token *k = &p->token[i];
        if (k->kind == RSHI_TOKEN_TEXT) rshi_text_add(&t, "%s", k->text);
        if (k->kind == RSHI_TOKEN_CAPTURE || k->kind == RSHI_TOKEN_LONG) st = add_capture(&t, k, c);
        if (k->kind != RSHI_TOKEN_LIST) continue;
        left /= k->nwords;
        rshi_text_add(&t, "%s", word_at(k, choice / left % k->nwords));
    }
    if (!st && (t.failed || !t.data)) st = rshi_nomem();
    if (st) return rshi_text_free(&t), st;
    *out = t.data;
    return RSH_OK;
}
