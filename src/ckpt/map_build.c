/* Map build: makes the targets of a line of the form TARGET = EXPR. */
#include "ckpt/map.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define MOST_PARTS 65536 /* most parts that an unstack makes */

/* Values of the captures of a line, and the highest index of each stack. */
typedef struct assignment {
    rshi_captured c;
    int64_t choice;                 /* index of the word in paired lists; -1: lists are operands */
    int64_t most[RSHI_MOST_STACKS]; /* for each stack the highest value of its capture; -1: none yet */
    uint64_t hash;
} assignment;

typedef struct building {
    rshi_map_work *m;
    int64_t number; /* number of the rule */
    const rshi_ckpt_rule *rule;
    const rshi_expr *inner;
    unsigned needed; /* captures of the target whose values come from operands */
    bool paired;
    assignment *list; /* owned */
    int64_t n, room;
    int64_t *slot; /* owned: hash table of the assignments */
    int64_t nslots;
    /* the current assignment */
    const assignment *a;
    int64_t first; /* index of the first operand; -1: none yet */
    bool in_slice, in_scale;
    rshi_map_instance instance;
    char target[256]; /* name of the target, for messages */
} building;

/* ---- assignments: values of captures, found from the names of the source ---- */

static uint64_t hash_of(const building *b, const assignment *a) {
    uint64_t h = rshi_hash(&a->choice, sizeof a->choice, 0);
    for (int i = 0; i < b->rule->captures.n; i++)
        if (b->needed >> i & 1) {
            h = rshi_hash(&a->c.value[i].length, sizeof a->c.value[i].length, h);
            h = rshi_hash(a->c.value[i].at, a->c.value[i].length, h);
        }
    return h;
}

static bool same_assignment(const building *b, const assignment *x, const assignment *y) {
    if (x->hash != y->hash || x->choice != y->choice) return false;
    for (int i = 0; i < b->rule->captures.n; i++) {
        rshi_text_span s = x->c.value[i], t = y->c.value[i];
        if ((b->needed >> i & 1) && (s.length != t.length || memcmp(s.at, t.at, s.length))) return false;
    }
    return true;
}

static rsh_status grow_slots(building *b) {
    if (2 * (b->n + 1) <= b->nslots) return RSH_OK;
    int64_t n = b->nslots ? 2 * b->nslots : 64;
    rshi_free(b->slot);
    b->slot = rshi_alloc((size_t)n, sizeof *b->slot);
    b->nslots = b->slot ? n : 0;
    if (!b->slot) return rshi_nomem();
    for (int64_t i = 0; i < n; i++) b->slot[i] = -1;
    for (int64_t i = 0; i < b->n; i++) {
        int64_t at = (int64_t)(b->list[i].hash & (uint64_t)(n - 1));
        while (b->slot[at] >= 0) at = (at + 1) & (n - 1);
        b->slot[at] = i;
    }
    return RSH_OK;
}

/* Finds an equal assignment, or adds this one. */
static rsh_status find_assignment(building *b, const assignment *a, assignment **out) {
    RSH_TRY(grow_slots(b));
    int64_t at = (int64_t)(a->hash & (uint64_t)(b->nslots - 1));
    while (b->slot[at] >= 0 && !same_assignment(b, &b->list[b->slot[at]], a)) at = (at + 1) & (b->nslots - 1);
    if (b->slot[at] < 0) {
        RSH_TRY(RSHI_GROW(b->list, b->n + 1, &b->room));
        b->list[b->n] = *a;
        b->slot[at] = b->n++;
    }
    *out = &b->list[b->slot[at]];
    return RSH_OK;
}

/* Updates the highest value of a stack's capture, which must be a decimal integer. */
static rsh_status note_stack(const building *b, const rshi_captured *c, unsigned extra, int64_t *most) {
    int i = 0;
    if (!extra) return RSH_OK;
    while (!(extra >> i & 1)) i++;
    int64_t n = rshi_span_number(c->value[i]);
    RSH_REQUIRE(n >= 0, RSH_EVALUE, "stack: capture {%s} must be a decimal integer without leading zeros, got \"%.*s\"",
                b->rule->captures.name[i], (int)rshi_min((int64_t)c->value[i].length, 200), c->value[i].at);
    *most = rshi_max(*most, n);
    return RSH_OK;
}

static rsh_status assign_from(building *b, const rshi_name_pattern *p, int stack, const char *name) {
    assignment a = {.choice = -1}, *known;
    int64_t chosen;
    bool matches;
    RSH_TRY(rshi_name_match(p, name, -1, &a.c, &chosen, &matches));
    if (!matches) return RSH_OK;
    rshi_captured all = a.c;
    int64_t from = 0, to = 1;
    if (b->paired) {
        from = p->nchoices > 1 ? chosen : 0;
        to = p->nchoices > 1 ? chosen + 1 : b->rule->target.nchoices;
    }
    for (int64_t k = from; k < to; k++) {
        a.choice = b->paired ? k : -1;
        a.hash = hash_of(b, &a);
        for (int i = 0; i < RSHI_MOST_CAPTURES; i++)
            if (!(b->needed >> i & 1)) a.c.value[i].at = NULL;
        for (int i = 0; i < RSHI_MOST_STACKS; i++) a.most[i] = -1;
        RSH_TRY(find_assignment(b, &a, &known));
        if (stack >= 0) RSH_TRY(note_stack(b, &all, p->captures & ~b->rule->target.captures, &known->most[stack]));
    }
    return RSH_OK;
}

static rsh_status assign_names(building *b, const rshi_expr *e, int stack) {
    if (e->op == RSHI_EXPR_STACK) stack = e->stack;
    if (e->op == RSHI_EXPR_NAME) {
        if (b->needed & ~e->name.captures) return RSH_OK;
        for (int64_t i = 0; i < b->m->c->ntensors; i++)
            if (b->m->wanted[i]) RSH_TRY(assign_from(b, &e->name, stack, b->m->c->tensor[i].name));
        return RSH_OK;
    }
    for (int64_t i = 0; i < e->noperands; i++) RSH_TRY(assign_names(b, &e->operand[i], stack));
    return RSH_OK;
}

/* ---- operands ---- */

static rsh_status build_expr(building *b, const rshi_expr *e, const rshi_captured *c, rshi_ckpt_view **out);

rsh_status rshi_map_stated(const rshi_ckpt_tensor *t, rsh_digest *out) {
    rsh_digest begin;
    if (!t->digest) return RSH_EKEY;
    RSH_TRY(rsh_digest_parse(t->digest, out));
    RSH_TRY(rsh_digest_begin(rsh_dtype_name(t->dtype), t->ndim, t->shape, &begin));
    *out = (rsh_digest){out->hi - begin.hi, out->lo - begin.lo};
    return RSH_OK;
}

/* Notes the digest that the source states.  It can be checked only if the tensor is read as a whole. */
static rsh_status note_digest(building *b, rshi_ckpt_view *v) {
    const rshi_ckpt_tensor *t = &b->m->c->tensor[v->source];
    rsh_digest stated;
    rsh_ckpt *out = b->m->out;
    if (b->in_slice || rshi_map_stated(t, &stated)) return RSH_OK;
    if (b->in_scale) { /* tensors of scales are read separately */
        RSH_TRY(RSHI_GROW(out->apart, out->napart + 1, &out->apart_room));
        if (!b->m->checked[v->source]) out->apart[out->napart++] = v->source;
        b->m->checked[v->source] = true;
        return RSH_OK;
    }
    rsh_digest_merge(&b->instance.stated, stated);
    if (!b->instance.nstated++) b->instance.source = v->source;
    v->checked = b->m->checked[v->source] = true;
    return RSH_OK;
}

static rsh_status build_name(building *b, const rshi_expr *e, const rshi_captured *c, int64_t choice,
                             rshi_ckpt_view **out) {
    char *name = NULL;
    RSH_TRY(rshi_name_expand(&e->name, choice, c, &name));
    int64_t i = rshi_ckpt_find(b->m->c, name, strlen(name));
    rsh_status st = RSH_OK;
    if (i < 0 || !b->m->wanted[i])
        st = rshi_fail(RSH_EVALUE, "source tensor \"%.200s\" is %s", name,
                       i < 0 ? "not in the checkpoint" : "omitted by --include or --exclude");
    rshi_free(name);
    if (st) return st;
    if (b->first < 0) b->first = i;
    b->m->used[i] = true;
    b->m->hidden[i] |= b->rule->expr.op != RSHI_EXPR_NAME;
    RSH_TRY(rshi_view_source(&b->m->out->store, b->m->c, i, out));
    return note_digest(b, *out);
}

typedef struct operands {
    rshi_ckpt_view **list; /* owned: the operands */
    int64_t n, room;
} operands;

static rsh_status add_operand(operands *o, rshi_ckpt_view *v) {
    RSH_TRY(RSHI_GROW(o->list, o->n + 1, &o->room));
    o->list[o->n++] = v;
    return RSH_OK;
}

/* Builds an operand, or one per word of its lists. */
static rsh_status build_operand(building *b, const rshi_expr *e, const rshi_captured *c, operands *o) {
    rshi_ckpt_view *v;
    bool several = e->op == RSHI_EXPR_NAME && !b->paired && e->name.nchoices > 1;
    for (int64_t i = 0; several && i < e->name.nchoices; i++) {
        RSH_TRY(build_name(b, e, c, i, &v));
        RSH_TRY(add_operand(o, v));
    }
    if (several) return RSH_OK;
    RSH_TRY(build_expr(b, e, c, &v));
    return add_operand(o, v);
}

/* ---- stack ---- */

/* Finds the highest value of a stack's capture among the names that match its operand. */
static rsh_status find_most(const building *b, const rshi_expr *e, const rshi_captured *c, int64_t *most) {
    if (e->op == RSHI_EXPR_NAME) {
        for (int64_t i = 0; i < b->m->c->ntensors; i++) {
            rshi_captured all = *c;
            bool matches;
            if (!b->m->wanted[i]) continue;
            RSH_TRY(rshi_name_match(&e->name, b->m->c->tensor[i].name, -1, &all, NULL, &matches));
            if (matches) RSH_TRY(note_stack(b, &all, e->name.captures & ~b->rule->target.captures, most));
        }
        return RSH_OK;
    }
    for (int64_t i = 0; i < e->noperands; i++) RSH_TRY(find_most(b, &e->operand[i], c, most));
    return RSH_OK;
}

/* Builds the operand of stack for each value of the capture that the target lacks. */
static rsh_status build_stacked(building *b, const rshi_expr *e, const rshi_captured *c, operands *o) {
    unsigned extra = e->captures & ~b->rule->target.captures;
    int64_t most = b->a->most[e->stack];
    int capture = 0;
    while (!(extra >> capture & 1)) capture++;
    if (most < 0) RSH_TRY(find_most(b, e, c, &most));
    for (int64_t i = 0; i <= most; i++) {
        rshi_captured with = *c;
        char text[24];
        rshi_ckpt_view *v;
        with.value[capture] = (rshi_text_span){text, (size_t)snprintf(text, sizeof text, "%" PRId64, i)};
        RSH_TRY(build_expr(b, e->operand, &with, &v));
        RSH_TRY(add_operand(o, v));
    }
    RSH_REQUIRE(o->n, RSH_EVALUE, "stack: no tensor matches the operand");
    return RSH_OK;
}

/* ---- functions ---- */

static rsh_status apply_function(building *b, const rshi_expr *e, const operands *o, rshi_ckpt_view **out) {
    rshi_ckpt_store *s = &b->m->out->store;
    rshi_ckpt_view **x = o->list;
    switch (e->op) {
    case RSHI_EXPR_CAT: return rshi_view_cat(s, e->dim, o->n, x, e->nnumbers, e->number, out);
    case RSHI_EXPR_STACK: return rshi_view_stack(s, e->dim, o->n, x, out);
    case RSHI_EXPR_INTERLEAVE: return rshi_view_interleave(s, e->dim, e->groups, o->n, x, e->nnumbers, e->number, out);
    case RSHI_EXPR_PERMUTE: return rshi_view_permute(s, x[0], e->nnumbers, e->number, out);
    case RSHI_EXPR_TRANSPOSE: return rshi_view_transpose(s, x[0], out);
    case RSHI_EXPR_SLICE: return rshi_view_range(s, x[0], e->dim, e->number[0], e->number[1], out);
    case RSHI_EXPR_RESHAPE: return rshi_view_reshape(s, x[0], e->nnumbers, e->number, out);
    default: return rshi_view_dequantise(s, x[0], x[1], e->nnumbers, e->number, out);
    }
}

static rsh_status build_expr(building *b, const rshi_expr *e, const rshi_captured *c, rshi_ckpt_view **out) {
    operands o = {0};
    bool in_slice = b->in_slice, in_scale = b->in_scale;
    rsh_status st = RSH_OK;
    if (e->op == RSHI_EXPR_NAME) return build_name(b, e, c, b->paired && e->name.nchoices > 1 ? b->a->choice : 0, out);
    b->in_slice |= e->op == RSHI_EXPR_SLICE;
    if (e->op == RSHI_EXPR_STACK) st = build_stacked(b, e, c, &o);
    for (int64_t i = 0; i < e->noperands && e->op != RSHI_EXPR_STACK && !st; i++) {
        b->in_scale |= e->op == RSHI_EXPR_DEQUANTISE && i == 1;
        st = build_operand(b, &e->operand[i], c, &o);
    }
    b->in_slice = in_slice;
    b->in_scale = in_scale;
    if (!st) st = apply_function(b, e, &o, out);
    rshi_free(o.list);
    return st;
}

/* ---- several targets of one line ---- */

static rsh_status add_build_target(building *b, const rshi_ckpt_view *v, const rshi_captured *c, int64_t choice) {
    char *name = NULL;
    RSH_TRY(rshi_name_expand(&b->rule->target, choice, c, &name));
    rshi_map_target t = {.rule = b->number, .first = b->first, .source = -1, .view = v, .instance = b->m->ninstances};
    t.name = rshi_store_text(&b->m->out->store, name, strlen(name));
    rshi_free(name);
    if (!t.name) return rshi_nomem();
    if (v->op == RSHI_VIEW_SOURCE) { /* the target is a tensor under another name */
        t.source = v->source;
        t.view = NULL;
        t.instance = -1;
        b->instance.nstated = 0; /* its digest is checked like the digest of any other tensor */
    }
    b->m->caught[b->number]++;
    return rshi_map_add_target(b->m, &t);
}

/* Returns the number of words in the list that belongs to a function.  The last list belongs to the outermost
 * function. */
static int64_t words_of(const building *b, const rshi_expr *e) {
    int64_t behind = 0, seen = 0;
    for (const rshi_expr *x = &b->rule->expr; x != e; x = x->operand) behind += x->op != RSHI_EXPR_UNSTACK;
    for (int64_t i = b->rule->target.ntokens; i-- > 0;) {
        const rshi_name_token *t = &b->rule->target.token[i];
        if (t->kind == RSHI_TOKEN_LIST && seen++ == behind) return t->nwords;
    }
    return 1;
}

/* Returns the capture that an unstack numbers.  Captures of the target that no operand has belong to the unstacks; the
 * first of them belongs to the innermost. */
static int capture_of(const building *b, const rshi_expr *e) {
    unsigned own = b->rule->target.captures & ~b->inner->captures, seen = 0;
    int inside = 0;
    for (const rshi_expr *x = e->operand; x != b->inner; x = x->operand) inside += x->op == RSHI_EXPR_UNSTACK;
    for (int64_t i = 0; i < b->rule->target.ntokens; i++) {
        const rshi_name_token *t = &b->rule->target.token[i];
        if (t->kind != RSHI_TOKEN_CAPTURE && t->kind != RSHI_TOKEN_LONG) continue;
        if (!(own >> t->capture & 1) || (seen >> t->capture & 1)) continue;
        seen |= 1u << t->capture;
        if (!inside--) return t->capture;
    }
    return 0;
}

/* Returns the function around e, or NULL if e is outermost. */
static const rshi_expr *enclosing_function(const building *b, const rshi_expr *e) {
    const rshi_expr *x = &b->rule->expr;
    if (x == e) return NULL;
    while (x->operand != e) x = x->operand;
    return x;
}

static rsh_status take_part(building *b, const rshi_expr *e, const rshi_ckpt_view *v, int64_t n, int64_t i,
                            rshi_ckpt_view **out) {
    rshi_ckpt_store *s = &b->m->out->store;
    if (e->op == RSHI_EXPR_UNSTACK) return rshi_view_select(s, v, e->dim, i, out);
    RSH_REQUIRE(!e->nnumbers || e->nnumbers == n, RSH_EVALUE,
                "%s: expected %" PRId64 " sizes, one per target, got %" PRId64, rshi_expr_word(e->op), n, e->nnumbers);
    if (e->op == RSHI_EXPR_SPLIT) return rshi_view_split(s, v, e->dim, n, e->nnumbers ? e->number : NULL, i, out);
    return rshi_view_deinterleave(s, v, e->dim, e->groups, n, e->number, i, out);
}

/* Applies the splitting function e and all functions around it, and adds the targets. */
static rsh_status split_targets(building *b, const rshi_expr *e, const rshi_ckpt_view *v, const rshi_captured *c,
                        int64_t choice) {
    if (!e) return add_build_target(b, v, c, choice);
    bool unstack = e->op == RSHI_EXPR_UNSTACK;
    int64_t dim = e->dim < 0 ? v->ndim - 1 : e->dim, n = unstack ? 0 : words_of(b, e);
    RSH_REQUIRE(!unstack || (dim >= 0 && dim < v->ndim), RSH_EVALUE,
                "unstack: dim %" PRId64 " is out of range for %d dims", e->dim, v->ndim);
    if (unstack) n = v->shape[dim];
    RSH_REQUIRE(n <= MOST_PARTS, RSH_EUNSUP, "unstack: dim %" PRId64 " has size %" PRId64 "; at most %d are supported",
                dim, n, MOST_PARTS);
    for (int64_t i = 0; i < n; i++) {
        rshi_ckpt_view *part;
        rshi_captured with = *c;
        char text[24];
        if (unstack)
            with.value[capture_of(b, e)] = (rshi_text_span){text, (size_t)snprintf(text, sizeof text, "%" PRId64, i)};
        RSH_TRY(take_part(b, e, v, n, i, &part));
        RSH_TRY(split_targets(b, enclosing_function(b, e), part, &with, unstack ? choice : choice * n + i));
    }
    return RSH_OK;
}

static rsh_status make_instance(building *b, const assignment *a) {
    const rshi_expr *splits = NULL;
    rshi_ckpt_view *v;
    char *name = NULL;
    b->a = a;
    b->first = -1;
    b->instance = (rshi_map_instance){.source = -1};
    if (!rshi_name_expand(&b->rule->target, a->choice < 0 ? 0 : a->choice, &a->c, &name))
        snprintf(b->target, sizeof b->target, "%s", name);
    rshi_free(name);
    RSH_TRY(build_expr(b, b->inner, &a->c, &v));
    for (const rshi_expr *e = &b->rule->expr; e != b->inner; e = e->operand) splits = e;
    RSH_TRY(split_targets(b, splits, v, &a->c, a->choice < 0 ? 0 : a->choice));
    RSH_TRY(RSHI_GROW(b->m->instance, b->m->ninstances + 1, &b->m->instances_room));
    b->m->instance[b->m->ninstances++] = b->instance;
    return RSH_OK;
}

static void start_building(rshi_map_work *m, int64_t rule, building *b) {
    *b = (building){.m = m, .number = rule, .rule = &m->rules->rule[rule]};
    bool lists = false;
    rshi_rule_splits(b->rule, &b->inner);
    for (const rshi_expr *e = &b->rule->expr; e != b->inner; e = e->operand) lists |= e->op != RSHI_EXPR_UNSTACK;
    b->needed = b->rule->target.captures & b->inner->captures;
    b->paired = !lists && b->rule->target.nchoices > 1;
}

rsh_status rshi_map_build(rshi_map_work *m, int64_t rule) {
    building b;
    start_building(m, rule, &b);
    rsh_status st = assign_names(&b, b.inner, -1);
    for (int64_t i = 0; i < b.n && !st; i++) st = make_instance(&b, &b.list[i]);
    if (st) st = rshi_map_refuse(m, rule, st, b.target);
    rshi_free(b.list);
    rshi_free(b.slot);
    return st;
}

static bool any_matches(const building *b, const rshi_expr *e) {
    for (int64_t i = 0; e->op == RSHI_EXPR_NAME && i < b->m->c->ntensors; i++) {
        rshi_captured c = {0};
        bool matches;
        if (!rshi_name_match(&e->name, b->m->c->tensor[i].name, -1, &c, NULL, &matches) && matches) return true;
    }
    for (int64_t i = 0; i < e->noperands; i++)
        if (any_matches(b, &e->operand[i])) return true;
    return false;
}

bool rshi_map_build_matches(const rshi_map_work *m, int64_t rule) {
    building b;
    start_building((rshi_map_work *)(uintptr_t)m, rule, &b);
    return any_matches(&b, b.inner);
}
