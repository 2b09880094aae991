/* Rules reverse: writes rules, as text, that undo other rules.
 *
 * An expression becomes a chain of steps from the target back to its operands.  In a rule all steps that split a tensor
 * must be outermost, so later permutations are moved before them. */
#include "ckpt/rules.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define MOST_STEPS 16

/* One step: a permutation, or a function that splits a tensor. */
typedef struct undo_step {
    rshi_expr_op op; /* PERMUTE, SPLIT, UNSTACK or DEINTERLEAVE */
    int dim;
    int64_t groups;
    const int64_t *sizes;
    int64_t nsizes;
    int order[RSH_MAX_NDIM], ndim; /* order of the dims, for PERMUTE */
} undo_step;

typedef struct undoing {
    const rsh_ckpt_rules *r;
    const rshi_ckpt_rule *rule;
    const rsh_ckpt *c;
    const rshi_ckpt_tensor *target; /* a tensor that the line made; NULL: there is none */
    rshi_text *text;
    undo_step step[MOST_STEPS];
    int nsteps;
    int64_t own[64]; /* sizes taken from a layout */
    char **name;     /* owned: names of the operands */
    int64_t nnames, names_room;
} undoing;

static rsh_status cannot_reverse(const undoing *u, const char *why) {
    return rshi_fail(RSH_EVALUE, "%.200s:%d: cannot reverse \"%.200s\": %s", u->r->name, u->rule->line, u->rule->text,
                     why);
}

/* ---- names ---- */

/* Writes a name with captures shifted by `shift` (NULL: not shifted).  If choice >= 0, writes the chosen word instead
 * of a list. */
static void add_name(const undoing *u, rshi_text *t, const rshi_name_pattern *p, const int64_t *shift, int64_t choice) {
    int64_t left = p->nchoices;
    if (p->text[0] == '"') {
        rshi_text_add(t, "%s", p->text);
        return;
    }
    for (int64_t i = 0; i < p->ntokens; i++) {
        const rshi_name_token *k = &p->token[i];
        const char *word = k->text;
        int64_t by = shift && k->kind == RSHI_TOKEN_CAPTURE ? shift[k->capture] : 0;
        switch (k->kind) {
        case RSHI_TOKEN_TEXT: rshi_text_add(t, "%s", k->text); break;
        case RSHI_TOKEN_STAR: rshi_text_add(t, "*"); break;
        case RSHI_TOKEN_ONE: rshi_text_add(t, "?"); break;
        case RSHI_TOKEN_RANGE: rshi_text_add(t, "<%" PRId64 "-%" PRId64 ">", k->lo, k->hi); break;
        case RSHI_TOKEN_LONG: rshi_text_add(t, "{%s*}", u->rule->captures.name[k->capture]); break;
        case RSHI_TOKEN_CAPTURE:
            rshi_text_add(t, "{%s", u->rule->captures.name[k->capture]);
            if (by) rshi_text_add(t, "%+" PRId64, by);
            rshi_text_add(t, "}");
            break;
        case RSHI_TOKEN_LIST:
            left /= k->nwords;
            for (int64_t w = 0; w < k->nwords; w++, word += strlen(word) + 1) {
                if (choice >= 0 && choice / left % k->nwords == w) rshi_text_add(t, "%s", word);
                if (choice < 0) rshi_text_add(t, "%s%s", w ? "," : "{", word);
            }
            if (choice < 0) rshi_text_add(t, "}");
            break;
        }
    }
}

static rsh_status keep_operand(undoing *u, const rshi_name_pattern *p, int64_t choice) {
    rshi_text t = {0};
    RSH_TRY(RSHI_GROW(u->name, u->nnames + 1, &u->names_room));
    add_name(u, &t, p, NULL, choice);
    if (t.failed || !t.data) return rshi_text_free(&t), rshi_nomem();
    u->name[u->nnames++] = t.data;
    return RSH_OK;
}

/* Returns the length of the common prefix of all names or, if `end` is set, of their common suffix after `used` bytes
 * of prefix. */
static size_t common_length(const undoing *u, size_t used, bool end) {
    size_t n = 0;
    for (;; n++) {
        size_t length = strlen(u->name[0]);
        if (n + used >= length) return n;
        for (int64_t i = 0; i < u->nnames; i++) {
            size_t its = strlen(u->name[i]);
            if (n + used >= its) return n;
            if (u->name[i][end ? its - 1 - n : n] != u->name[0][end ? length - 1 - n : n]) return n;
        }
    }
}

/* Shortens a prefix so that it does not end inside braces. */
static size_t outside_braces(const char *name, size_t n) {
    const char *open = NULL;
    for (size_t i = 0; i < n; i++)
        if (name[i] == '{' || name[i] == '}') open = name[i] == '{' ? name + i : NULL;
    return open ? (size_t)(open - name) : n;
}

/* Writes the operands as one name with a list. */
static rsh_status add_operands(undoing *u) {
    if (u->nnames == 1) return rshi_text_add(u->text, "%s", u->name[0]), RSH_OK;
    size_t from = outside_braces(u->name[0], common_length(u, 0, false)), to = common_length(u, from, true);
    rshi_text_add(u->text, "%.*s{", (int)from, u->name[0]);
    for (int64_t i = 0; i < u->nnames; i++) {
        size_t n = strlen(u->name[i]);
        const char *middle = u->name[i] + from;
        size_t length = n - from - to;
        if (memchr(middle, '{', length) || memchr(middle, '}', length) || memchr(middle, ',', length) ||
            memchr(middle, '"', length) || memchr(middle, ' ', length))
            return cannot_reverse(u, "the names of the operands must differ in exactly one place, outside of "
                                     "captures");
        rshi_text_add(u->text, "%s%.*s", i ? "," : "", (int)length, middle);
    }
    rshi_text_add(u->text, "}%s", u->name[0] + strlen(u->name[0]) - to);
    return RSH_OK;
}

/* ---- steps ---- */

static rsh_status add_step(undoing *u, undo_step s) {
    if (u->nsteps == MOST_STEPS) return cannot_reverse(u, "the expression is nested too deeply");
    u->step[u->nsteps++] = s;
    return RSH_OK;
}

/* Inserts a permutation before all steps that split the tensor. */
static rsh_status add_permutation(undoing *u, const int *order, int ndim) {
    undo_step p = {.op = RSHI_EXPR_PERMUTE, .ndim = ndim};
    int at = u->nsteps;
    memcpy(p.order, order, sizeof p.order);
    while (at > 0 && u->step[at - 1].op != RSHI_EXPR_PERMUTE) {
        undo_step *s = &u->step[--at];
        if (s->op == RSHI_EXPR_UNSTACK) { /* the dim that unstack removes keeps its position */
            undo_step q = p;
            q.ndim++;
            for (int d = 0, k = 0; d < q.ndim; d++)
                q.order[d] = d == s->dim ? s->dim : p.order[k] + (p.order[k] >= s->dim), k += d != s->dim;
            p = q;
            continue;
        }
        for (int d = 0, old = s->dim; d < p.ndim; d++)
            if (p.order[d] == old) s->dim = d;
    }
    RSH_TRY(add_step(u, p));
    memmove(u->step + at + 1, u->step + at, (size_t)(u->nsteps - 1 - at) * sizeof *u->step);
    u->step[at] = p;
    return RSH_OK;
}

/* Finds the sizes of a dim's segments in the layout of the target or in the form; 0: unknown. */
static int64_t segments_of(undoing *u, int dim, int64_t n) {
    const rsh_layout_desc *from[2] = {u->target && u->target->layout ? rsh_layout_describe(u->target->layout) : NULL,
                                      rsh_form_describe(u->rule->form)};
    for (int i = 0; i < u->nsteps; i++)
        if (u->step[i].op == RSHI_EXPR_PERMUTE || u->step[i].op == RSHI_EXPR_UNSTACK) return 0;
    for (int k = 0; k < 2 && n <= (int64_t)(sizeof u->own / sizeof *u->own); k++) {
        const rsh_layout_desc *l = from[k];
        bool known = l && !l->is_boxes && l->ndim > dim && l->dim[dim].nsegments == n;
        for (int64_t i = 0; i < n && known; i++) {
            u->own[i] = l->dim[dim].segment[i].size;
            known = u->own[i] != RSH_HOLE;
        }
        if (known) return n;
    }
    return 0;
}

static int64_t count_operands(const rshi_expr *e) {
    int64_t n = 0;
    for (int64_t i = 0; i < e->noperands; i++)
        n += e->operand[i].op == RSHI_EXPR_NAME ? e->operand[i].name.nchoices : 1;
    return n;
}

static rsh_status add_split(undoing *u, const rshi_expr *e, int ndim) {
    int64_t n = count_operands(e);
    undo_step s = {.op = e->op == RSHI_EXPR_CAT ? RSHI_EXPR_SPLIT : RSHI_EXPR_DEINTERLEAVE,
                   .groups = e->groups,
                   .dim = (int)(e->dim < 0 ? ndim - 1 : e->dim),
                   .sizes = e->number,
                   .nsizes = e->nnumbers};
    if (n == 1) return RSH_OK;
    if (!s.nsizes && s.op == RSHI_EXPR_SPLIT) {
        s.nsizes = segments_of(u, s.dim, n);
        s.sizes = u->own;
    }
    if (s.nsizes != n)
        return cannot_reverse(u,
                      "the sizes of the operands are unknown; write them after the operands, as in cat(0, a, b, 4, "
                      "2), or as segments of the form");
    return add_step(u, s);
}

/* ---- expressions ---- */

static rsh_status walk_expr(undoing *u, const rshi_expr *e, int ndim, bool names);

static rsh_status permute_back(undoing *u, const rshi_expr *e, int ndim, bool names) {
    int order[RSH_MAX_NDIM];
    for (int d = 0; d < ndim; d++) order[d] = d;
    if (e->op == RSHI_EXPR_TRANSPOSE && ndim >= 2) {
        order[ndim - 1] = ndim - 2;
        order[ndim - 2] = ndim - 1;
    }
    for (int d = 0; e->op == RSHI_EXPR_PERMUTE && d < ndim; d++) {
        if (e->nnumbers != ndim || e->number[d] >= ndim)
            return cannot_reverse(u, "the permutation does not match the dims of the target");
        order[e->number[d]] = d;
    }
    if (!names) RSH_TRY(add_permutation(u, order, ndim));
    return walk_expr(u, e->operand, ndim, names);
}

/* Checks that all operands use the same functions, because only the steps of the first operand are kept. */
static rsh_status check_same_functions(undoing *u, const rshi_expr *a, const rshi_expr *b) {
    bool same = a->op == b->op && a->dim == b->dim && a->groups == b->groups && a->nnumbers == b->nnumbers &&
                a->noperands == b->noperands;
    for (int64_t i = 0; i < a->nnumbers && same; i++) same = a->number[i] == b->number[i];
    if (!same) return cannot_reverse(u, "all operands must use the same functions");
    for (int64_t i = 0; i < a->noperands; i++) RSH_TRY(check_same_functions(u, &a->operand[i], &b->operand[i]));
    return RSH_OK;
}

/* Collects the steps back through e, and the names of its operands.  If `names` is set, collects only the names. */
static rsh_status walk_expr(undoing *u, const rshi_expr *e, int ndim, bool names) {
    switch (e->op) {
    case RSHI_EXPR_NAME:
        /* lists of the target and of the operands are paired */
        if (u->rule->target.nchoices > 1) return keep_operand(u, &e->name, -1);
        for (int64_t i = 0; i < e->name.nchoices; i++)
            RSH_TRY(keep_operand(u, &e->name, e->name.nchoices > 1 ? i : -1));
        return RSH_OK;
    case RSHI_EXPR_PERMUTE:
    case RSHI_EXPR_TRANSPOSE: return permute_back(u, e, ndim, names);
    case RSHI_EXPR_STACK:
        if (!names)
            RSH_TRY(add_step(u, (undo_step){.op = RSHI_EXPR_UNSTACK, .dim = (int)(e->dim < 0 ? ndim - 1 : e->dim)}));
        return walk_expr(u, e->operand, ndim - 1, names);
    case RSHI_EXPR_CAT:
    case RSHI_EXPR_INTERLEAVE:
        if (!names) RSH_TRY(add_split(u, e, ndim));
        for (int64_t i = 0; i < e->noperands; i++) {
            RSH_TRY(check_same_functions(u, e->operand, &e->operand[i]));
            RSH_TRY(walk_expr(u, &e->operand[i], ndim, names || i));
        }
        return RSH_OK;
    case RSHI_EXPR_SLICE: return cannot_reverse(u, "slice discards elements, which cannot be restored");
    case RSHI_EXPR_DEQUANTISE: return cannot_reverse(u, "dequantise cannot restore the quantised values");
    default: return cannot_reverse(u, "the sizes before the reshape are unknown");
    }
}

static void add_steps(const undoing *u, const rshi_name_pattern *target) {
    rshi_text *t = u->text;
    for (int i = u->nsteps; i-- > 0;) {
        const undo_step *s = &u->step[i];
        if (s->op == RSHI_EXPR_PERMUTE)
            rshi_text_add(t, "permute(");
        else if (s->op == RSHI_EXPR_DEINTERLEAVE)
            rshi_text_add(t, "deinterleave(%d, %" PRId64 ", ", s->dim, s->groups);
        else
            rshi_text_add(t, "%s(%d, ", rshi_expr_word(s->op), s->dim);
    }
    add_name(u, t, target, NULL, -1);
    for (int i = 0; i < u->nsteps; i++) {
        const undo_step *s = &u->step[i];
        for (int d = 0; s->op == RSHI_EXPR_PERMUTE && d < s->ndim; d++) rshi_text_add(t, ", %d", s->order[d]);
        for (int64_t k = 0; k < s->nsizes; k++) rshi_text_add(t, ", %" PRId64, s->sizes[k]);
        rshi_text_add(t, ")");
    }
}

/* Finds a tensor of the checkpoint that the line made. */
static const rshi_ckpt_tensor *find_target(const undoing *u) {
    for (int64_t i = 0; i < u->c->ntensors; i++) {
        rshi_captured c = {0};
        bool matches;
        if (!rshi_name_match(&u->rule->target, u->c->tensor[i].name, -1, &c, NULL, &matches) && matches)
            return &u->c->tensor[i];
    }
    return NULL;
}

/* Returns the number of words in the list of the target that belongs to a function.  The last list belongs to the
 * outermost function. */
static int64_t words_of(const undoing *u, int64_t outside) {
    for (int64_t i = u->rule->target.ntokens; i-- > 0;)
        if (u->rule->target.token[i].kind == RSHI_TOKEN_LIST && !outside--) return u->rule->target.token[i].nwords;
    return 1;
}

/* Writes the expression that joins the parts made by the splitting function e and all functions around it. */
static void join_parts(const undoing *u, const rshi_expr *e, int64_t choice) {
    static const char *const words[] = {"cat", "stack", "interleave"};
    const rshi_expr *around = NULL;
    int64_t outside = 0;
    if (!e) {
        add_name(u, u->text, &u->rule->target, NULL, choice);
        return;
    }
    for (const rshi_expr *x = &u->rule->expr; x != e; x = x->operand) {
        outside += x->op != RSHI_EXPR_UNSTACK;
        around = x;
    }
    int64_t n = e->op == RSHI_EXPR_UNSTACK ? 1 : words_of(u, outside);
    rshi_text_add(u->text, "%s(%" PRId64 ", ", words[e->op - RSHI_EXPR_SPLIT], e->dim);
    if (e->op == RSHI_EXPR_DEINTERLEAVE) rshi_text_add(u->text, "%" PRId64 ", ", e->groups);
    for (int64_t i = 0; i < n; i++) {
        if (i) rshi_text_add(u->text, ", ");
        join_parts(u, around, choice * n + i);
    }
    rshi_text_add(u->text, ")");
}

/* split, unstack and deinterleave become cat, stack and interleave of the targets. */
static rsh_status undo_splits(undoing *u) {
    const rshi_expr *inner, *last = NULL;
    bool lists = false; /* without a split, lists of the target are paired with those of the operand */
    rshi_rule_splits(u->rule, &inner);
    if (inner->op != RSHI_EXPR_NAME) return cannot_reverse(u, "the operand of a split must be a single tensor");
    for (const rshi_expr *e = &u->rule->expr; e != inner; e = e->operand) {
        lists |= e->op != RSHI_EXPR_UNSTACK;
        last = e;
    }
    add_name(u, u->text, &inner->name, NULL, -1);
    rshi_text_add(u->text, " = ");
    join_parts(u, last, lists ? 0 : -1);
    rshi_text_add(u->text, "\n");
    return RSH_OK;
}

/* ---- lines ---- */

/* Does another line make a tensor of this name? */
static bool made_elsewhere(const undoing *u, const rshi_name_pattern *name) {
    for (int64_t i = 0; i < u->r->nrules; i++) {
        const rshi_ckpt_rule *x = &u->r->rule[i];
        rshi_captured c = {0};
        bool matches;
        if (x == u->rule || (x->kind != RSHI_RULE_KEEP && x->kind != RSHI_RULE_RENAME)) continue;
        if (!rshi_name_match(&x->source, name->text, -1, &c, NULL, &matches) && matches) return true;
    }
    return false;
}

static rsh_status undo_build(undoing *u) {
    const rshi_expr *inner;
    u->target = find_target(u);
    if (!u->target && u->rule->optional) return rshi_text_add(u->text, "\"a name that no tensor has\"\n"), RSH_OK;
    if (u->rule->expr.op == RSHI_EXPR_NAME && made_elsewhere(u, &u->rule->expr.name)) {
        rshi_text_add(u->text, "drop ");
        add_name(u, u->text, &u->rule->target, NULL, -1);
        rshi_text_add(u->text, "\n");
        return RSH_OK;
    }
    if (rshi_rule_splits(u->rule, &inner)) return undo_splits(u);
    if (!u->target) return cannot_reverse(u, "the checkpoint has no tensor of this name");
    RSH_TRY(walk_expr(u, &u->rule->expr, u->target->ndim, false));
    RSH_TRY(add_operands(u));
    rshi_text_add(u->text, " = ");
    add_steps(u, &u->rule->target);
    rshi_text_add(u->text, "\n");
    return RSH_OK;
}

static rsh_status undo_rename(undoing *u) {
    int64_t shift[RSHI_MOST_CAPTURES] = {0};
    const rshi_ckpt_rule *rule = u->rule;
    if (rule->source.has_globs || (rule->source.captures & ~rule->target.captures))
        return cannot_reverse(u, "the old name cannot be derived from the new one");
    for (int64_t i = 0; i < rule->target.ntokens; i++)
        if (rule->target.token[i].kind == RSHI_TOKEN_CAPTURE)
            shift[rule->target.token[i].capture] = -rule->target.token[i].shift;
    add_name(u, u->text, &rule->target, NULL, -1);
    rshi_text_add(u->text, " -> ");
    add_name(u, u->text, &rule->source, shift, -1);
    rshi_text_add(u->text, "\n");
    return RSH_OK;
}

static rsh_status undo_line(undoing *u) {
    const rshi_ckpt_rule *rule = u->rule;
    if (rule->kind == RSHI_RULE_DROP)
        return rule->optional
                   ? RSH_OK
                   : cannot_reverse(u,
                                    "dropped tensors cannot be restored; write \"optional drop\" to ignore the line");
    if (rule->optional || rule->kind == RSHI_RULE_SCALES) rshi_text_add(u->text, "optional ");
    switch (rule->kind) {
    case RSHI_RULE_RENAME: return undo_rename(u);
    case RSHI_RULE_BUILD: return undo_build(u);
    default:
        add_name(u, u->text, rule->kind == RSHI_RULE_SCALES ? &rule->target : &rule->source, NULL, -1);
        rshi_text_add(u->text, "\n");
        return RSH_OK;
    }
}

rsh_status rsh_ckpt_rules_reverse(const rsh_ckpt_rules *r, const rsh_ckpt *c, rsh_ckpt_rules **out) {
    RSH_NEEDS(r);
    RSH_NEEDS(c);
    RSH_NEEDS(out);
    rshi_text text = {0};
    rsh_status st = RSH_OK;
    for (int64_t i = 0; i < r->nrules && !st; i++) {
        undoing u = {.r = r, .rule = &r->rule[i], .c = c, .text = &text};
        st = undo_line(&u);
        for (int64_t k = 0; k < u.nnames; k++) rshi_free(u.name[k]);
        rshi_free(u.name);
    }
    if (!st && text.failed) st = rshi_nomem();
    rshi_text name = {0};
    rshi_text_add(&name, "%s, reversed", r->name);
    if (!st && name.failed) st = rshi_nomem();
    if (!st) st = rsh_ckpt_rules_parse(text.data ? text.data : "", name.data, out);
    rshi_text_free(&name);
    rshi_text_free(&text);
    return st;
}

rsh_status rshi_rules_as_from(const rsh_ckpt_rules *r, rsh_ckpt_rules **out) {
    rshi_text text = {0};
    const char *mesh = r->mesh ? strstr(rsh_layout_text(r->mesh), " on ") : NULL;
    if (mesh) rshi_text_add(&text, "mesh %s\n", mesh + 4);
    if (r->files) rshi_text_add(&text, "files %s\n", r->files);
    for (int64_t i = 0; i < r->nrules; i++) {
        const rshi_ckpt_rule *rule = &r->rule[i];
        undoing u = {.r = r, .rule = rule};
        if (rule->kind == RSHI_RULE_DROP) continue;
        add_name(&u, &text, rule->kind == RSHI_RULE_KEEP ? &rule->source : &rule->target, NULL, -1);
        rshi_text_add(&text, " %s\n", rule->form ? rsh_form_text(rule->form) : "[...]");
    }
    rsh_status st = text.failed ? rshi_nomem() : rsh_ckpt_rules_parse(text.data ? text.data : "", r->name, out);
    rshi_text_free(&text);
    return st;
}
