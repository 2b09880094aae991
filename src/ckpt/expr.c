/* Expr: parses expressions of rule files, such as cat(0, a, transpose(b)). */
#include "ckpt/expr.h"

#include <string.h>

#include <reshard/layout.h>

#define MOST_DEPTH    16
#define MOST_OPERANDS 65536

/* The arguments of each function: d is a dim, g a number of groups, x an operand, X several operands, n numbers, N
 * numbers or `_`. */
static const struct function {
    const char *word, *arguments;
    int least, most; /* number of numeric arguments; most = -1: no limit */
} functions[] = {
    [RSHI_EXPR_NAME] = {"", "", 0, 0},
    [RSHI_EXPR_CAT] = {"cat", "dXn", 0, -1},
    [RSHI_EXPR_STACK] = {"stack", "dx", 0, 0},
    [RSHI_EXPR_INTERLEAVE] = {"interleave", "dgXn", 0, -1},
    [RSHI_EXPR_PERMUTE] = {"permute", "xn", 1, RSH_MAX_NDIM},
    [RSHI_EXPR_TRANSPOSE] = {"transpose", "x", 0, 0},
    [RSHI_EXPR_SLICE] = {"slice", "xdn", 2, 2},
    [RSHI_EXPR_RESHAPE] = {"reshape", "xN", 1, RSH_MAX_NDIM},
    [RSHI_EXPR_DEQUANTISE] = {"dequantise", "xxn", 1, RSH_MAX_NDIM},
    [RSHI_EXPR_SPLIT] = {"split", "dxn", 0, -1},
    [RSHI_EXPR_UNSTACK] = {"unstack", "dx", 0, 0},
    [RSHI_EXPR_DEINTERLEAVE] = {"deinterleave", "dgxn", 1, -1},
};

const char *rshi_expr_word(rshi_expr_op op) { return functions[op].word; }
bool rshi_expr_splits(const rshi_expr *e) { return e->op >= RSHI_EXPR_SPLIT; }

void rshi_expr_free(rshi_expr *e) {
    for (int64_t i = 0; i < e->noperands; i++) rshi_expr_free(&e->operand[i]);
    rshi_free(e->operand);
    rshi_free(e->number);
    rshi_name_free(&e->name);
    *e = (rshi_expr){0};
}

typedef struct reading_expr {
    const char *at;
    rshi_capture_names *names;
    int depth, stacks;
} reading_expr;

static void skip_blanks(reading_expr *r) {
    while (*r->at == ' ' || *r->at == '\t') r->at++;
}

/* Is the next argument an integer or `_`? */
static bool at_number(const reading_expr *r) {
    const char *p = r->at + (*r->at == '-');
    size_t n = *r->at == '_' ? 1 : strspn(p, "0123456789");
    if (*r->at == '_') p = r->at;
    return n && strchr(" \t,)", p[n]);
}

static rsh_status read_number(reading_expr *r, bool hole, int64_t *out) {
    bool minus = *r->at == '-';
    RSH_REQUIRE(at_number(r) && (hole || *r->at != '_'), RSH_EVALUE, "expected an integer%s", hole ? " or _" : "");
    r->at += minus || *r->at == '_';
    if (r->at[-1] == '_') return *out = -1, RSH_OK;
    for (*out = 0; *r->at >= '0' && *r->at <= '9'; r->at++)
        if (!rshi_mul(*out, 10, out) || !rshi_add(*out, *r->at - '0', out))
            return rshi_fail(RSH_EVALUE, "integer is too large");
    if (minus) *out = -*out;
    return RSH_OK;
}

static rsh_status add_number(reading_expr *r, bool hole, rshi_expr *e) {
    RSH_TRY(RSHI_GROW(e->number, e->nnumbers + 1, &e->numbers_room));
    const char *start = r->at;
    RSH_TRY(read_number(r, hole, &e->number[e->nnumbers]));
    if (*start == '-')
        return r->at = start,
               rshi_fail(RSH_EVALUE, "%s: expected a number of at least 0", rshi_expr_word(e->op));
    e->nnumbers++;
    return RSH_OK;
}

static rsh_status read_expr(reading_expr *r, rshi_expr *e);

static rsh_status add_operand(reading_expr *r, rshi_expr *e) {
    RSH_REQUIRE(e->noperands < MOST_OPERANDS, RSH_EVALUE, "%s: expected at most %d operands", rshi_expr_word(e->op),
                MOST_OPERANDS);
    RSH_TRY(RSHI_GROW(e->operand, e->noperands + 1, &e->operands_room));
    rshi_expr *x = &e->operand[e->noperands];
    *x = (rshi_expr){0};
    e->noperands++;
    RSH_TRY(read_expr(r, x));
    e->captures |= x->captures;
    return RSH_OK;
}

/* Skips the comma before an argument, except for the first one; *more is false at the closing parenthesis. */
static rsh_status next_argument(reading_expr *r, bool *first, bool *more) {
    skip_blanks(r);
    *more = *r->at != ')';
    if (*more && !*first) {
        RSH_REQUIRE(*r->at == ',', RSH_EVALUE, "expected \",\" or \")\"");
        r->at++;
        skip_blanks(r);
    }
    *first = false;
    return RSH_OK;
}

static rsh_status read_argument(reading_expr *r, char kind, rshi_expr *e) {
    const char *start = r->at;
    switch (kind) {
    case 'd':
        RSH_TRY(read_number(r, false, &e->dim));
        if (e->dim < -1 || e->dim >= RSH_MAX_NDIM)
            return r->at = start,
                   rshi_fail(RSH_EVALUE, "expected a dim: 0 to %d, or -1 for the last", RSH_MAX_NDIM - 1);
        return RSH_OK;
    case 'g':
        RSH_TRY(read_number(r, false, &e->groups));
        if (e->groups < 1) return r->at = start, rshi_fail(RSH_EVALUE, "the number of groups must be at least 1");
        return RSH_OK;
    case 'n':
    case 'N': return add_number(r, kind == 'N', e);
    default: return add_operand(r, e);
    }
}

static rsh_status check_numbers(const rshi_expr *e) {
    const struct function *f = &functions[e->op];
    RSH_REQUIRE(e->nnumbers >= f->least && (f->most < 0 || e->nnumbers <= f->most), RSH_EVALUE,
                "%s: expected %d%s number%s, got %lld", f->word, f->least, f->most == f->least ? "" : " or more",
                f->least == 1 ? "" : "s", (long long)e->nnumbers);
    return RSH_OK;
}

static rsh_status read_arguments(reading_expr *r, rshi_expr *e) {
    const char *kind = functions[e->op].arguments;
    bool first = true, more;
    for (;; kind++) {
        RSH_TRY(next_argument(r, &first, &more));
        bool list = *kind == 'X' || *kind == 'n' || *kind == 'N';
        if (!more && (!*kind || *kind == 'n' || *kind == 'N' || (*kind == 'X' && e->noperands))) break;
        RSH_REQUIRE(more && *kind, RSH_EVALUE, "%s: %s", rshi_expr_word(e->op),
                    more ? "too many arguments; expected \")\"" : "too few arguments");
        RSH_TRY(read_argument(r, *kind, e));
        if (!list) continue;
        for (;;) { /* read the rest of the list; numbers end a list of operands */
            RSH_TRY(next_argument(r, &first, &more));
            if (!more || (*kind == 'X' && at_number(r))) break;
            RSH_TRY(read_argument(r, *kind, e));
        }
        if (!more) break;
        first = true; /* the comma has been read already */
    }
    r->at++;
    return check_numbers(e);
}

static rsh_status read_call(reading_expr *r, const char *word, size_t n, rshi_expr *e) {
    for (size_t i = 1; i < sizeof functions / sizeof *functions; i++)
        if (strlen(functions[i].word) == n && !memcmp(functions[i].word, word, n)) {
            e->op = (rshi_expr_op)i;
            if (e->op == RSHI_EXPR_STACK) e->stack = r->stacks++;
            RSH_REQUIRE(r->stacks <= RSHI_MOST_STACKS, RSH_EVALUE, "a line may use stack at most %d times",
                        RSHI_MOST_STACKS);
            r->at = word + n + 1;
            return read_arguments(r, e);
        }
    return rshi_fail(RSH_EVALUE,
                     "unknown function \"%.*s\"; expected cat, stack, interleave, permute, transpose, slice, reshape, "
                     "dequantise, split, unstack or deinterleave",
                     (int)rshi_min((int64_t)n, 100), word);
}

static rsh_status read_expr(reading_expr *r, rshi_expr *e) {
    const char *word = r->at;
    size_t n = strcspn(word, " \t,()\"");
    RSH_REQUIRE(r->depth < MOST_DEPTH, RSH_EVALUE, "expressions are nested more than %d deep", MOST_DEPTH);
    if (n && word[n] == '(' && !memchr(word, '{', n)) {
        r->depth++;
        rsh_status st = read_call(r, word, n, e);
        r->depth--;
        return st;
    }
    e->op = RSHI_EXPR_NAME;
    RSH_TRY(rshi_name_parse(&r->at, true, r->names, &e->name));
    e->captures = e->name.captures;
    if (e->name.has_globs || e->name.has_shifts)
        return r->at = word,
               rshi_fail(RSH_EVALUE, "a name in an expression must not have * ? <a-b> or {i+n}; use captures such as "
                                     "{i} or lists such as {q,k,v}");
    return RSH_OK;
}

rsh_status rshi_expr_parse(const char **text, rshi_capture_names *names, rshi_expr *out) {
    reading_expr r = {*text, names, 0, 0};
    rshi_expr e = {0};
    rsh_status st = read_expr(&r, &e);
    *text = r.at;
    if (st)
        rshi_expr_free(&e);
    else
        *out = e;
    return st;
}
