/* Glob: matches names of tensors against patterns: `*` matches any text including dots, `?` one character, `<a-b>` an
 * integer from a to b. */
#include "ckpt/ckpt.h"

static bool is_digit(char c) { return c >= '0' && c <= '9'; }

bool rshi_take_number(const char **p, int64_t *out) {
    const char *start = *p;
    *out = 0;
    while (is_digit(**p) && *p - start < 18) *out = 10 * *out + (*(*p)++ - '0');
    return *p > start && !is_digit(**p);
}

/* Parses "<a-b>" at *p. */
static bool take_range(const char **p, int64_t *a, int64_t *b) {
    const char *q = *p;
    if (*q++ != '<' || !rshi_take_number(&q, a) || *q++ != '-' || !rshi_take_number(&q, b) || *q++ != '>') return false;
    *p = q;
    return true;
}

/* Matches one pattern item other than a star.  `<a-b>` must match a whole number, not some of its digits. */
static bool match_item(const char **p, const char **s, const char *name) {
    int64_t a, b, n;
    if (take_range(p, &a, &b)) {
        bool starts = is_digit(**s) && (*s == name || !is_digit((*s)[-1])) && (**s != '0' || !is_digit((*s)[1]));
        return starts && rshi_take_number(s, &n) && n >= a && n <= b;
    }
    if (!**s || (**p != '?' && **p != **s)) return false;
    ++*p;
    ++*s;
    return true;
}

/* Text between two stars is matched as early as possible, so it is enough to backtrack to the last star. */
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
