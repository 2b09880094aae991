/* Rule check: what a line of a rule file says as a whole. */
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
            "%.200s:%d: \"%.200s\": rules that say how files are read have only mesh, files and PATTERN FORM lines",
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
    RSH_REQUIRE(!rule->source.has_shifts, RSH_EVALUE, "only the target may shift a capture");
    RSH_REQUIRE(!(rule->target.captures & ~rule->source.captures), RSH_EVALUE,
                "target \"%.200s\" has a capture that \"%.200s\" lacks", rule->target.text, rule->source.text);
    RSH_REQUIRE(rule->target.nchoices == rule->source.nchoices, RSH_EVALUE,
                "lists of source and target are paired: the source has %lld words, the target %lld",
                (long long)rule->source.nchoices, (long long)rule->target.nchoices);
    return RSH_OK;
}

/* ---- TARGET = EXPR ---- */

/* Where an operand stands. */
typedef struct standing {
    const rshi_ckpt_rule *rule;
    bool in_stack, in_list; /* in_list: as an operand of cat or interleave */
    bool paired;            /* lists are paired with the target's */
    bool complete;          /* one operand has all captures that the target takes from operands */
    unsigned needed;
} standing;

static rsh_status check_name(standing *s, const rshi_expr *e) {
    unsigned extra = e->name.captures & ~s->rule->target.captures;
    RSH_REQUIRE(!extra || s->in_stack, RSH_EVALUE,
                "\"%.200s\" has a capture that the target lacks; only stack may use one", e->name.text);
    if (!(s->needed & ~e->name.captures)) s->complete = true;
    if (e->name.nchoices == 1) return RSH_OK;
    if (s->paired)
        RSH_REQUIRE(e->name.nchoices == s->rule->target.nchoices, RSH_EVALUE,
                    "lists of target and operands are paired: the target has %lld words, \"%.200s\" %lld",
                    (long long)s->rule->target.nchoices, e->name.text, (long long)e->name.nchoices);
    else
        RSH_REQUIRE(s->in_list, RSH_EVALUE, "\"%.200s\" stands for several tensors, which only cat and interleave take",
                    e->name.text);
    return RSH_OK;
}

static rsh_status check_stack(const standing *s, const rshi_expr *e) {
    unsigned extra = e->captures & ~s->rule->target.captures;
    RSH_REQUIRE(!s->in_stack, RSH_EVALUE, "a stack must not stand in a stack");
    RSH_REQUIRE(count_bits(extra) == 1, RSH_EVALUE,
                "stack: its operand must have one capture that the target lacks, got %d", count_bits(extra));
    return RSH_OK;
}

static rsh_status check_expr(standing *s, const rshi_expr *e) {
    bool in_stack = s->in_stack, in_list = s->in_list;
    if (e->op == RSHI_EXPR_NAME) return check_name(s, e);
    RSH_REQUIRE(!rshi_expr_splits(e), RSH_EVALUE, "%s may stand only outermost, or in split, unstack and deinterleave",
                rshi_expr_word(e->op));
    if (e->op == RSHI_EXPR_STACK) RSH_TRY(check_stack(s, e));
    s->in_stack |= e->op == RSHI_EXPR_STACK;
    s->in_list = e->op == RSHI_EXPR_CAT || e->op == RSHI_EXPR_INTERLEAVE;
    for (int64_t i = 0; i < e->noperands; i++) RSH_TRY(check_expr(s, &e->operand[i]));
    s->in_stack = in_stack;
    s->in_list = in_list;
    return RSH_OK;
}

/* One list for each split and deinterleave, one capture for each unstack. */
static rsh_status check_splits(const rshi_ckpt_rule *rule, const rshi_expr *inner) {
    int lists = 0, unstacks = 0, own = count_bits(rule->target.captures & ~inner->captures);
    for (const rshi_expr *e = &rule->expr; e != inner; e = e->operand) {
        lists += e->op != RSHI_EXPR_UNSTACK;
        unstacks += e->op == RSHI_EXPR_UNSTACK;
    }
    RSH_REQUIRE(!lists || count_lists(&rule->target) == lists, RSH_EVALUE,
                "target \"%.200s\" must have one list of words for each split and deinterleave: expected %d, got %d",
                rule->target.text, lists, count_lists(&rule->target));
    RSH_REQUIRE(own == unstacks, RSH_EVALUE,
                "target \"%.200s\" has %d capture%s that no operand has; there must be one for each unstack (%d)",
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
    RSH_REQUIRE(s.complete, RSH_EVALUE, "one operand must have all captures that target \"%.200s\" takes from operands",
                rule->target.text);
    return RSH_OK;
}

static rsh_status check_scales(const rshi_ckpt_rule *rule) {
    RSH_TRY(check_target(rule));
    RSH_REQUIRE(!rule->source.has_globs && !rule->target.has_shifts && !rule->source.has_shifts, RSH_EVALUE,
                "scales: names have captures and lists, no * ? <a-b> {i+n}");
    RSH_REQUIRE(!(rule->source.captures & ~rule->target.captures), RSH_EVALUE,
                "scales: weight \"%.200s\" has a capture that \"%.200s\" lacks", rule->source.text, rule->target.text);
    RSH_REQUIRE(rule->target.nchoices == rule->source.nchoices, RSH_EVALUE,
                "scales: lists are paired and must be equally long");
    return RSH_OK;
}

rsh_status rshi_rule_check(const rshi_ckpt_rule *rule) {
    switch (rule->kind) {
    case RSHI_RULE_RENAME: return check_rename(rule);
    case RSHI_RULE_BUILD: return check_build(rule);
    case RSHI_RULE_SCALES: return check_scales(rule);
    default: RSH_REQUIRE(!rule->source.has_shifts, RSH_EVALUE, "only a target may shift a capture"); return RSH_OK;
    }
}
