/* Files pattern: names of rank files, such as "mp_rank_{rank:02}/part-{part}.safetensors": checks a pattern, makes
 * names from it, and finds the files that match it.  {rank} and {part} are numbers, {rank:05} has five digits. */
#include "ckpt/ckpt.h"

#include <inttypes.h>
#include <string.h>

static bool is_digit(char c) { return c >= '0' && c <= '9'; }

/* Parses "{WORD}" or "{WORD:05}" at *p.  Returns the width of the number, or -1. */
static int take_placeholder(const char **p, const char *word) {
    size_t n = strlen(word);
    const char *q = *p;
    int64_t width = 0;
    if (*q++ != '{' || strncmp(q, word, n)) return -1;
    q += n;
    if (*q == ':' && (q++, !rshi_take_number(&q, &width) || width > 18)) return -1;
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
    if (!rshi_take_number(s, &n) || (*seen >= 0 && *seen != n)) return false;
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

/* ---- checks ---- */

/* Every component must name an entry of its directory. */
static rsh_status check_components(const char *files) {
    int levels = 0;
    for (const char *at = files, *end;; at = end + 1, levels++) {
        end = strchr(at, '/');
        size_t n = end ? (size_t)(end - at) : strlen(at);
        RSH_REQUIRE(n && !(n == 1 && *at == '.') && !(n == 2 && !strncmp(at, "..", 2)), RSH_EVALUE,
                    "files: expected NAME or DIRECTORY/NAME, got \"%.200s\"; the name must be relative, without "
                    "\"..\", \".\" and empty components",
                    files);
        RSH_REQUIRE(n <= 255, RSH_EVALUE, "files: a component of the name has %zu bytes; at most 255 are possible", n);
        RSH_REQUIRE(levels <= RSHI_MOST_LEVELS, RSH_EVALUE, "files: at most %d directories may be nested",
                    RSHI_MOST_LEVELS);
        if (!end) return RSH_OK;
    }
}

/* The digits of a number must end where the number ends, so that names can be read back. */
static rsh_status check_placeholders(const char *files) {
    for (const char *p = files; *p;) {
        if (take_placeholder(&p, "rank") >= 0 || take_placeholder(&p, "part") >= 0) {
            const char *next = p;
            bool joined = is_digit(*p) || take_placeholder(&next, "rank") >= 0 || take_placeholder(&next, "part") >= 0;
            RSH_REQUIRE(!joined, RSH_EVALUE,
                        "files: a number must not be followed by a digit or another number; separate them, as in "
                        "rank-{rank}-part-{part}.safetensors");
            continue;
        }
        RSH_REQUIRE(*p != '{' && *p != '}', RSH_EVALUE,
                    "files: braces must be {rank} or {part}, with a width as in {rank:05} if needed, got \"%.30s\"", p);
        RSH_REQUIRE((unsigned char)*p > ' ' && *p != 127, RSH_EVALUE,
                    "files: the name must not contain blanks or control characters");
        p++;
    }
    return RSH_OK;
}

rsh_status rshi_files_check(const char *files) {
    RSH_TRY(check_components(files));
    RSH_TRY(check_placeholders(files));
    RSH_REQUIRE(rshi_is_utf8(files, strlen(files)), RSH_EVALUE, "files: the name must be UTF-8");
    RSH_REQUIRE(rshi_files_names(files, "rank"), RSH_EVALUE,
                "files: the name must contain {rank}, as in rank-{rank}.safetensors");
    return RSH_OK;
}

/* ---- numbered files ---- */

/* A name such as model-00002-of-00003.safetensors. */
typedef struct numbered {
    int stem; /* length of "model-" */
    int64_t number, total;
    int width; /* digits of the number */
} numbered;

static bool parse_numbered(const char *name, const char *suffix, numbered *out) {
    for (const char *of = strstr(name, "-of-"); of; of = strstr(of + 1, "-of-")) {
        const char *begin = of, *from, *to = of + 4;
        while (begin > name && is_digit(begin[-1])) begin--;
        from = begin;
        if (begin == of || !rshi_take_number(&from, &out->number) || from != of) continue;
        if (!rshi_take_number(&to, &out->total) || strcmp(to, suffix)) continue;
        out->stem = (int)(begin - name);
        out->width = (int)(of - begin);
        return true;
    }
    return false;
}

static bool same_series(const char *a, const numbered *x, const char *b, const numbered *y) {
    return x->stem == y->stem && x->total == y->total && x->width == y->width && !strncmp(a, b, (size_t)x->stem);
}

/* Names are sorted, so the files of a series are adjacent and ascend.  They count from 0 or 1. */
rsh_status rshi_ckpt_check_series(const rshi_ckpt_place *p, const char *suffix) {
    for (int64_t i = 0, found; i < p->nnames; i += found ? found : 1) {
        numbered first, x;
        int64_t missing = -1;
        found = 0;
        if (!parse_numbered(p->name[i], suffix, &first)) continue;
        int64_t base = first.number ? 1 : 0;
        for (; i + found < p->nnames && parse_numbered(p->name[i + found], suffix, &x); found++) {
            if (!same_series(p->name[i], &first, p->name[i + found], &x)) break;
            if (missing < 0 && x.number != base + found) missing = base + found;
        }
        if (missing < 0 && found < first.total) missing = base + found;
        RSH_REQUIRE(missing < 0, RSH_EVALUE,
                    "%.300s: missing %.*s%0*" PRId64 "-of-%0*" PRId64 "%s: found %" PRId64 " of %" PRId64
                    " files; download the missing file, or give the path of one file to read only that",
                    p->path, first.stem, p->name[i], first.width, missing, first.width, first.total, suffix, found,
                    first.total);
    }
    return RSH_OK;
}

/* ---- finding files ---- */

/* Handles one level of the pattern: the entries of the directory `below` (NULL: of the checkpoint) that match the first
 * `length` bytes of the pattern.  They are files at the last level and directories before it. */
static rsh_status each_of_level(const char *files, const rshi_ckpt_place *top, const char *below, size_t length,
                                rshi_files_fn fn, void *ctx) {
    const char *next = files[length] ? strchr(files + length + 1, '/') : NULL;
    rshi_ckpt_place own = {0};
    const rshi_ckpt_place *place = below ? &own : top;
    char *path = NULL, *pattern = rshi_ckpt_copy(files);
    rsh_status st = pattern ? RSH_OK : rshi_nomem();
    if (!st) pattern[length] = 0;
    if (!st && below) st = rshi_ckpt_join(top->path, below, &path);
    if (!st && below) st = rshi_ckpt_place_open(path, NULL, &own);
    for (int64_t i = 0; !st && i < place->nnames; i++) {
        char *name = NULL;
        int64_t rank, part;
        st = rshi_ckpt_join(below, place->name[i], &name);
        bool fits = !st && rshi_files_match(pattern, name, &rank, &part);
        if (fits) st = rshi_ckpt_inside(place->path, place->name[i]);
        if (fits && !st && files[length])
            st = each_of_level(files, top, name, next ? (size_t)(next - files) : strlen(files), fn, ctx);
        else if (fits && !st)
            st = fn(ctx, name, rank);
        rshi_free(name);
    }
    if (below) rshi_ckpt_place_close(&own);
    rshi_free(pattern);
    rshi_free(path);
    return st;
}

rsh_status rshi_files_each(const char *files, const rshi_ckpt_place *place, rshi_files_fn fn, void *ctx) {
    return each_of_level(files, place, NULL, strcspn(files, "/"), fn, ctx);
}
