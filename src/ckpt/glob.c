/* Glob: matches names of tensors and names of rank files against patterns.
 *
 * In tensor patterns `*` matches any text including dots, `?` one character, `<a-b>` an integer from a to b.  In file
 * patterns {rank} and {part} are numbers, {rank:05} is a number of five digits. */
#include "ckpt/ckpt.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static bool is_digit(char c) { return c >= '0' && c <= '9'; }

/* The digits at *p as a number; false: none, or more than 18. */
static bool take_number(const char **p, int64_t *out) {
    const char *start = *p;
    *out = 0;
    while (is_digit(**p) && *p - start < 18) *out = 10 * *out + (*(*p)++ - '0');
    return *p > start && !is_digit(**p);
}

/* Parses "<a-b>" at *p. */
static bool take_range(const char **p, int64_t *a, int64_t *b) {
    const char *q = *p;
    if (*q++ != '<' || !take_number(&q, a) || *q++ != '-' || !take_number(&q, b) || *q++ != '>') return false;
    *p = q;
    return true;
}

/* Matches one pattern item other than a star.  `<a-b>` must match a whole number, not some of its digits. */
static bool match_item(const char **p, const char **s, const char *name) {
    int64_t a, b, n;
    if (take_range(p, &a, &b)) {
        bool starts = is_digit(**s) && (*s == name || !is_digit((*s)[-1])) && (**s != '0' || !is_digit((*s)[1]));
        return starts && take_number(s, &n) && n >= a && n <= b;
    }
    if (!**s || (**p != '?' && **p != **s)) return false;
    ++*p;
    ++*s;
    return true;
}

/* Text between two stars is matched as early as possible, so backtracking is needed only to the last star. */
bool rshi_glob(const char *pattern, const char *name) {
    const char *p = pattern, *s = name, *star = NULL, *skipped = NULL;
    for (;;) {
        if (*p == '*') {
            star = ++p;
            skipped = s;
        } else if (!*p && !*s) {
            return true;
        } else if (!*p || !match_item(&p, &s, name)) {
            if (!star || !*skipped) return false;
            p = star;
            s = ++skipped;
        }
    }
}

/* ---- files ---- */

/* Parses "{WORD}" or "{WORD:05}" at *p.  Returns the width of the number, or -1. */
static int take_placeholder(const char **p, const char *word) {
    size_t n = strlen(word);
    const char *q = *p;
    int64_t width = 0;
    if (*q++ != '{' || strncmp(q, word, n)) return -1;
    q += n;
    if (*q == ':' && (q++, !take_number(&q, &width) || width > 18)) return -1;
    if (*q++ != '}') return -1;
    *p = q;
    return (int)width;
}

rsh_status rshi_files_name(const char *files, int64_t rank, int64_t part, char **out) {
    rshi_text t = {0};
    for (const char *p = files; *p;) {
        int width;
        if ((width = take_placeholder(&p, "rank")) >= 0)
            rshi_text_add(&t, "%0*" PRId64, width, rank);
        else if ((width = take_placeholder(&p, "part")) >= 0)
            rshi_text_add(&t, "%0*" PRId64, width, part);
        else
            rshi_text_add(&t, "%c", *p++);
    }
    if (t.failed || !t.data) return rshi_text_free(&t), rshi_nomem();
    *out = t.data;
    return RSH_OK;
}

/* Parses a number at *s; if *seen is set, it must be the same number. */
static bool same_number(const char **s, int64_t *seen) {
    int64_t n;
    if (!take_number(s, &n) || (*seen >= 0 && *seen != n)) return false;
    *seen = n;
    return true;
}

bool rshi_files_match(const char *files, const char *name, int64_t *rank, int64_t *part) {
    const char *s = name;
    *rank = *part = -1;
    for (const char *p = files; *p;) {
        if (take_placeholder(&p, "rank") >= 0) {
            if (!same_number(&s, rank)) return false;
        } else if (take_placeholder(&p, "part") >= 0) {
            if (!same_number(&s, part)) return false;
        } else if (*p++ != *s++) {
            return false;
        }
    }
    return !*s;
}

/* Does the pattern contain {WORD}? */
bool rshi_files_names(const char *files, const char *word) {
    for (const char *p = files; *p; p++) {
        const char *q = p;
        if (take_placeholder(&q, word) >= 0) return true;
    }
    return false;
}
