/* Name match: matches a name against a pattern and finds the text of its captures.
 *
 * Tokens match from left to right, each as short as possible.  If the tokens after a star match nowhere in the rest of
 * the name, a longer match of an earlier star cannot help either, so the search ends.  So the search is fast for any
 * number of stars.  Repeated captures and lists break this rule, so the number of steps is limited as well. */
#include "ckpt/name_pattern.h"

#include <string.h>

#define MOST_STEPS 1000000

typedef enum answer {
    FAILED, /* no match at this position */
    DEAD,   /* no match at this or any later position */
    FOUND
} answer;

typedef struct matching {
    const rshi_name_pattern *p;
    const char *name;
    int64_t choice, chosen;
    rshi_captured *c;
    int64_t steps;
} matching;

static answer match_from(matching *m, int64_t token, const char *s);

static bool is_digit(char c) { return c >= '0' && c <= '9'; }

/* Returns the length of a whole decimal integer in the range of the token; 0: there is none. */
static size_t number_length(const matching *m, const rshi_name_token *t, const char *s) {
    int64_t n = 0;
    size_t k = 0;
    if (!is_digit(*s) || (s > m->name && is_digit(s[-1])) || (*s == '0' && is_digit(s[1]))) return 0;
    for (; is_digit(s[k]) && k < 18; k++) n = 10 * n + (s[k] - '0');
    return !is_digit(s[k]) && n >= t->lo && n <= t->hi ? k : 0;
}

static answer match_star(matching *m, int64_t token, const char *s) {
    for (;; s++) {
        answer a = match_from(m, token + 1, s);
        if (a != FAILED || !*s) return a == FAILED ? (m->p->repeats ? FAILED : DEAD) : a;
    }
}

/* Matches a capture whose text is already known. */
static answer match_known(matching *m, int64_t token, const char *s, rshi_text_span known) {
    if (strncmp(s, known.at, known.length)) return FAILED;
    return match_from(m, token + 1, s + known.length);
}

static answer match_capture(matching *m, int64_t token, const char *s) {
    const rshi_name_token *t = &m->p->token[token];
    rshi_text_span *value = &m->c->value[t->capture];
    bool any = t->kind == RSHI_TOKEN_LONG;
    if (value->at) return match_known(m, token, s, *value);
    for (size_t n = 1; s[n - 1] && (any || s[n - 1] != '.'); n++) {
        *value = (rshi_text_span){s, n};
        answer a = match_from(m, token + 1, s + n);
        if (a == FOUND) return a;
        if (a == DEAD && any) break;
    }
    value->at = NULL;
    return any && !m->p->repeats ? DEAD : FAILED;
}

static answer match_list(matching *m, int64_t token, const char *s) {
    const rshi_name_token *t = &m->p->token[token];
    const char *word = t->text;
    int64_t left = 1, before = m->chosen;
    for (int64_t i = token + 1; i < m->p->ntokens; i++)
        if (m->p->token[i].kind == RSHI_TOKEN_LIST) left *= m->p->token[i].nwords;
    for (int64_t w = 0; w < t->nwords; w++, word += strlen(word) + 1) {
        size_t n = strlen(word);
        if (strncmp(s, word, n) || (m->choice >= 0 && m->choice / left % t->nwords != w)) continue;
        m->chosen = before + w * left;
        if (match_from(m, token + 1, s + n) == FOUND) return FOUND;
    }
    m->chosen = before;
    return FAILED;
}

static answer match_from(matching *m, int64_t token, const char *s) {
    size_t n = 0;
    if (++m->steps > MOST_STEPS) return DEAD;
    if (token == m->p->ntokens) return *s ? FAILED : FOUND;
    const rshi_name_token *t = &m->p->token[token];
    switch (t->kind) {
    case RSHI_TOKEN_STAR: return match_star(m, token, s);
    case RSHI_TOKEN_CAPTURE:
    case RSHI_TOKEN_LONG: return match_capture(m, token, s);
    case RSHI_TOKEN_LIST: return match_list(m, token, s);
    case RSHI_TOKEN_ONE: n = *s != 0; break;
    case RSHI_TOKEN_RANGE: n = number_length(m, t, s); break;
    case RSHI_TOKEN_TEXT: n = strncmp(s, t->text, t->length) ? 0 : t->length; break;
    }
    return n || (t->kind == RSHI_TOKEN_TEXT && !t->length) ? match_from(m, token + 1, s + n) : FAILED;
}

/* Returns whether the name ends with the last text of the pattern.  This quick test rejects most names. */
static bool suffix_matches(const rshi_name_pattern *p, const char *name) {
    const rshi_name_token *last = p->ntokens ? &p->token[p->ntokens - 1] : NULL;
    if (!last || last->kind != RSHI_TOKEN_TEXT) return true;
    size_t n = strlen(name);
    return n >= last->length && !memcmp(name + n - last->length, last->text, last->length);
}

rsh_status rshi_name_match(const rshi_name_pattern *p, const char *name, int64_t choice, rshi_captured *c,
                           int64_t *chosen, bool *matches) {
    rshi_captured mine = *c;
    matching m = {.p = p, .name = name, .choice = choice, .c = &mine};
    *matches = suffix_matches(p, name) && match_from(&m, 0, name) == FOUND;
    RSH_REQUIRE(m.steps <= MOST_STEPS, RSH_EVALUE,
                "pattern \"%.200s\" takes too long to match against \"%.200s\"; use fewer captures and lists",
                p->text, name);
    if (*matches) *c = mine;
    if (*matches && chosen) *chosen = m.chosen;
    return RSH_OK;
}
