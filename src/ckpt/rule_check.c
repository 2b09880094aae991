/* Rule check: checks the captures, lists and functions of a parsed line of a rule file. */
#include "ckpt/rules.h"

#include <string.h>

int64_t rshi_rules_match(const rsh_ckpt_rules *r, const char *name) {
    for (int64_t i = 0; i < r->nrules; i++) {
        rshi_captured c = {0};
        bool matches;
        if (r->rule[i].kind != RSHI_RULE_KEEP) continue;
        if (!rshi_name_match(&r->rule[i].source, name, -1, &c, NULL, &matches) && matches) return i;
    }
    return -1;
}

rsh_status rshi_rules_check_from(const rsh_ckpt_rules *r) {
    for (int64_t i = 0; i < r->nrules; i++)
        RSH_REQUIRE(
            r->rule[i].kind == RSHI_RULE_KEEP, RSH_EVALUE,
            "%.200s:%d: \"%.200s\": rules for --from may have only mesh, files and PATTERN FORM lines",
            r->name, r->rule[i].line, r->rule[i].text);
    return RSH_OK;
}

int rshi_rule_splits(const rshi_ckpt_rule *rule, const rshi_expr **inner) {
    int n = 0;
    const rshi_expr *e = &rule->expr;
    for (; rshi_expr_splits(e); e = e->operand) n++;
    *inner = e;
    return n;
}

static int count_lists(const rshi_name_pattern *p) {
    int n = 0;
    for (int64_t i = 0; i < p->ntokens; i++) n += p->token[i].kind == RSHI_TOKEN_LIST;
    return n;
}

static int count_bits(unsigned x) {
    int n = 0;
    for (; x; x &= x - 1) n++;
    return n;
}

/* ---- SOURCE -> TARGET ---- */

static rsh_status check_target(const rshi_ckpt_rule *rule) {
    RSH_REQUIRE(!rule->target.has_globs, RSH_EVALUE, "target \"%.200s\" must not have * ? or <a-b>", rule->target.text);
    return RSH_OK;
}

static rsh_status check_rename(const rshi_ckpt_rule *rule) {
    RSH_TRY(check_target(rule));
    RSH_REQUIRE(!rule->source.has_shifts, RSH_EVALUE,
                "a capture such as {i+4} is allowed only in the target, on the right of \"->\"");
    RSH_REQUIRE(!(rule->target.captures & ~rule->source.captures), RSH_EVALUE,
                "target \"%.200s\" has a capture that source \"%.200s\" lacks", rule->target.text, rule->source.text);
    RSH_REQUIRE(rule->target.nchoices == rule->source.nchoices, RSH_EVALUE,
                "lists of source and target must have the same number of words, got %lld and %lld",
                (long long)rule->source.nchoices, (long long)rule->target.nchoices);
    return RSH_OK;
}

/* ---- TARGET = EXPR ---- */

/* The context of an operand. */
typedef struct standing {
    const rshi_ckpt_rule *rule;
    bool in_stack, in_list; /* in_list: the operand belongs to cat or interleave */
    bool paired;            /* true: lists are paired with the target's */
    bool complete;          /* true: one operand has all captures in `needed` */
    unsigned needed;
} standing;

static rsh_status check_name(standing *s, const rshi_expr *e) {
    unsigned extra = e->name.captures & ~s->rule->target.captures;
    RSH_REQUIRE(!extra || s->in_stack, RSH_EVALUE,
                "\"%.200s\" has a capture that the target lacks; only an operand of stack may have one", e->name.text);
    if (!(s->needed & ~e->name.captures)) s->complete = true;
    if (e->name.nchoices == 1) return RSH_OK;
    if (s->paired)
        RSH_REQUIRE(e->name.nchoices == s->rule->target.nchoices, RSH_EVALUE,
                    "lists of target and operands must have the same number of words: the target has %lld, \"%.200s\" "
                    "has %lld",
                    (long long)s->rule->target.nchoices, e->name.text, (long long)e->name.nchoices);
    else
        RSH_REQUIRE(s->in_list, RSH_EVALUE, "\"%.200s\" is a list of tensors; only cat and interleave accept lists",
                    e->name.text);
    return RSH_OK;
}

static rsh_status check_stack(const standing *s, const rshi_expr *e) {
    unsigned extra = e->captures & ~s->rule->target.captures;
    RSH_REQUIRE(!s->in_stack, RSH_EVALUE, "stack must not be nested in another stack");
    RSH_REQUIRE(count_bits(extra) == 1, RSH_EVALUE,
                "stack: its operand must have exactly one capture that the target lacks, got %d", count_bits(extra));
    return RSH_OK;
}

static rsh_status check_expr(standing *s, const rshi_expr *e) {
    bool in_stack = s->in_stack, in_list = s->in_list;
    if (e->op == RSHI_EXPR_NAME) return check_name(s, e);
    RSH_REQUIRE(!rshi_expr_splits(e), RSH_EVALUE,
                "%s must be the outermost function, or inside split, unstack or deinterleave", rshi_expr_word(e->op));
    if (e->op == RSHI_EXPR_STACK) RSH_TRY(check_stack(s, e));
    s->in_stack |= e->op == RSHI_EXPR_STACK;
    s->in_list = e->op == RSHI_EXPR_CAT || e->op == RSHI_EXPR_INTERLEAVE;
    for (int64_t i = 0; i < e->noperands; i++) RSH_TRY(check_expr(s, &e->operand[i]));
    s->in_stack = in_stack;
    s->in_list = in_list;
    return RSH_OK;
}

/* Checks that the target has one list for each split and deinterleave, and one capture for each unstack. */
static rsh_status check_splits(const rshi_ckpt_rule *rule, const rshi_expr *inner) {
    int lists = 0, unstacks = 0, own = count_bits(rule->target.captures & ~inner->captures);
    for (const rshi_expr *e = &rule->expr; e != inner; e = e->operand) {
        lists += e->op != RSHI_EXPR_UNSTACK;
        unstacks += e->op == RSHI_EXPR_UNSTACK;
    }
    RSH_REQUIRE(!lists || count_lists(&rule->target) == lists, RSH_EVALUE,
                "target \"%.200s\" must have one list, such as {q,k,v}, for each split and deinterleave: expected %d, "
                "got %d",
                rule->target.text, lists, count_lists(&rule->target));
    RSH_REQUIRE(own == unstacks, RSH_EVALUE,
                "target \"%.200s\" has %d capture%s that no operand has; expected %d, one for each unstack",
                rule->target.text, own, own == 1 ? "" : "s", unstacks);
    return RSH_OK;
}

static rsh_status check_build(const rshi_ckpt_rule *rule) {
    const rshi_expr *inner;
    bool splits = rshi_rule_splits(rule, &inner) > 0;
    standing s = {.rule = rule, .needed = rule->target.captures & inner->captures};
    bool lists = false;
    for (const rshi_expr *e = &rule->expr; e != inner; e = e->operand) lists |= e->op != RSHI_EXPR_UNSTACK;
    s.paired = !lists && rule->target.nchoices > 1;
    RSH_TRY(check_target(rule));
    RSH_TRY(check_splits(rule, inner));
    (void)splits;
    RSH_TRY(check_expr(&s, inner));
    RSH_REQUIRE(s.complete, RSH_EVALUE, "at least one operand must have all captures of target \"%.200s\"",
                rule->target.text);
    return RSH_OK;
}

static rsh_status check_scales(const rshi_ckpt_rule *rule) {
    RSH_TRY(check_target(rule));
    RSH_REQUIRE(!rule->source.has_globs && !rule->target.has_shifts && !rule->source.has_shifts, RSH_EVALUE,
                "scales: names must not have * ? <a-b> or {i+n}; use captures such as {n*}");
    RSH_REQUIRE(!(rule->source.captures & ~rule->target.captures), RSH_EVALUE,
                "scales: weight \"%.200s\" has a capture that \"%.200s\" lacks", rule->source.text, rule->target.text);
    RSH_REQUIRE(rule->target.nchoices == rule->source.nchoices, RSH_EVALUE,
                "scales: lists of both names must have the same number of words");
    return RSH_OK;
}

rsh_status rshi_rule_check(const rshi_ckpt_rule *rule) {
    switch (rule->kind) {
    case RSHI_RULE_RENAME: return check_rename(rule);
    case RSHI_RULE_BUILD: return check_build(rule);
    case RSHI_RULE_SCALES: return check_scales(rule);
    default:
        RSH_REQUIRE(!rule->source.has_shifts, RSH_EVALUE, "a capture such as {i+4} is allowed only in a target");
        return RSH_OK;
    }
}
