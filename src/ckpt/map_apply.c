/* Map apply: finds the line that matches each source tensor, and checks source and target names. */
#include "ckpt/map.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LISTED       20        /* most names in one message */
#define MOST_TARGETS (1 << 22) /* most tensors of a result */

rsh_status rshi_map_refuse(const rshi_map_work *m, int64_t rule, rsh_status st, const char *target) {
    char why[600];
    if (st == RSH_ENOMEM || st == RSH_EIO) return st;
    snprintf(why, sizeof why, "%s", rsh_error_detail());
    if (!*target) return rshi_fail(st, "%.150s:%d: %s", m->rules->name, m->rules->rule[rule].line, why);
    return rshi_fail(st, "%.150s:%d: tensor \"%.150s\": %s", m->rules->name, m->rules->rule[rule].line, target, why);
}

rsh_status rshi_map_add_target(rshi_map_work *m, const rshi_map_target *t) {
    RSH_REQUIRE(m->ntargets < MOST_TARGETS, RSH_EUNSUP, "the rules make too many tensors: at most %d are supported",
                MOST_TARGETS);
    RSH_TRY(RSHI_GROW(m->target, m->ntargets + 1, &m->room));
    m->target[m->ntargets++] = *t;
    return RSH_OK;
}

/* ---- which tensors ---- */

static bool matches_any(const char *const *list, int64_t n, const char *name) {
    for (int64_t i = 0; i < n; i++)
        if (rshi_glob(list[i], name)) return true;
    return false;
}

static bool is_wanted(const rsh_convert_opts *o, const char *name) {
    if (!o) return true;
    return (!o->ninclude || matches_any(o->include, o->ninclude, name)) && !matches_any(o->exclude, o->nexclude, name);
}

/* A misspelled pattern would otherwise convert too few or too many tensors. */
static rsh_status check_idle(const rsh_ckpt *c, const char *option, const char *const *list, int64_t n) {
    for (int64_t k = 0; k < n; k++) {
        bool used = false;
        for (int64_t i = 0; i < c->ntensors && !used; i++) used = rshi_glob(list[k], c->tensor[i].name);
        RSH_REQUIRE(used, RSH_EVALUE, "%s \"%.200s\" matches no tensor of %.300s; correct the pattern, or omit it",
                    option, list[k], c->path);
    }
    return RSH_OK;
}

/* Marks the tensors to convert.  Quantised tensors can only be copied to GGUF files. */
static rsh_status choose_sources(rshi_map_work *m, const rsh_convert_opts *o) {
    bool keep = o ? o->format && !strcmp(o->format, "gguf") : !m->rules;
    if (o) RSH_TRY(check_idle(m->c, "--include", o->include, o->ninclude));
    if (o) RSH_TRY(check_idle(m->c, "--exclude", o->exclude, o->nexclude));
    for (int64_t i = 0; i < m->c->ntensors; i++) {
        const rshi_ckpt_tensor *t = &m->c->tensor[i];
        char text[260];
        m->wanted[i] = is_wanted(o, t->name);
        if (!m->wanted[i] || !t->packing || keep) continue;
        m->wanted[i] = false;
        if (o && o->drop) continue;
        rshi_ckpt_shape_text(t, text, sizeof text);
        return rshi_fail(RSH_EUNSUP,
                         "%.300s: tensor \"%.300s\" is quantised (%s), and safetensors has no such dtype; write GGUF "
                         "files with --format gguf, or use --drop to omit such tensors",
                         m->c->path, t->name, text);
    }
    return RSH_OK;
}

/* ---- one source tensor by PATTERN FORM, SOURCE -> TARGET, drop and scales ---- */

static const rshi_name_pattern *matching_pattern(const rshi_ckpt_rule *rule) {
    if (rule->kind == RSHI_RULE_BUILD) return NULL;
    return rule->kind == RSHI_RULE_SCALES ? &rule->target : &rule->source;
}

static rsh_status drop_source(rshi_map_work *m, int64_t source, int64_t rule) {
    rsh_ckpt *c = m->out;
    RSH_TRY(RSHI_GROW(c->dropped, c->ndropped + 1, &c->dropped_room));
    c->dropped[c->ndropped++] = (struct rshi_ckpt_dropped){source, rule};
    m->checked[source] = true; /* there is nothing to check */
    return RSH_OK;
}

static rsh_status add_matched(rshi_map_work *m, int64_t source, int64_t number, const rshi_captured *c,
                              int64_t chosen) {
    const rshi_ckpt_rule *rule = number >= 0 ? &m->rules->rule[number] : NULL;
    const char *name = m->c->tensor[source].name;
    rshi_map_target t = {.rule = number, .first = source, .source = source, .instance = -1};
    char *other = NULL;
    m->used[source] = true;
    if (rule) m->caught[number]++;
    if (rule && rule->kind == RSHI_RULE_DROP) return drop_source(m, source, number);
    if (rule && rule->kind == RSHI_RULE_RENAME) {
        rsh_status st = rshi_name_expand(&rule->target, chosen, c, &other);
        if (st) return rshi_map_refuse(m, number, st, name);
        name = other;
    }
    t.name = rshi_store_text(&m->out->store, name, strlen(name));
    rshi_free(other);
    return t.name ? rshi_map_add_target(m, &t) : rshi_nomem();
}

static rsh_status match_source(rshi_map_work *m, int64_t source) {
    if (!m->rules) return add_matched(m, source, -1, NULL, 0);
    for (int64_t i = 0; i < m->rules->nrules; i++) {
        const rshi_name_pattern *p = matching_pattern(&m->rules->rule[i]);
        rshi_captured c = {0};
        int64_t chosen;
        bool matches;
        if (!p || (m->hidden[source] && p->has_wildcards)) continue;
        rsh_status st = rshi_name_match(p, m->c->tensor[source].name, -1, &c, &chosen, &matches);
        if (st) return rshi_map_refuse(m, i, st, "");
        if (matches) return add_matched(m, source, i, &c, chosen);
    }
    return RSH_OK;
}

/* ---- checks ---- */

static rsh_status check_used(const rshi_map_work *m) {
    rshi_text t = {0};
    int64_t n = 0;
    for (int64_t i = 0; i < m->c->ntensors; i++) {
        if (!m->wanted[i] || m->used[i]) continue;
        if (n++ < LISTED) rshi_text_add(&t, "%s\"%.40s\"", n > 1 ? ", " : "", m->c->tensor[i].name);
    }
    if (n > LISTED) rshi_text_add(&t, " and %" PRId64 " more", n - LISTED);
    rsh_status st = t.failed ? rshi_nomem() : RSH_OK;
    if (!st && n)
        st = rshi_fail(RSH_EVALUE,
                       "%.150s: no rule matches tensor%s %.600s; add \"* [...]\" as the last line to keep such tensors "
                       "whole, or \"drop PATTERN\" to omit them",
                       m->rules->name, n == 1 ? "" : "s", t.data);
    rshi_text_free(&t);
    return st;
}

/* Returns whether a line may match nothing.  A bare "*" matches all remaining tensors, and there may be none. */
static bool may_match_nothing(const rshi_ckpt_rule *rule) {
    return rule->optional || (rule->kind == RSHI_RULE_KEEP && rshi_name_is_star(&rule->source));
}

/* Returns the first tensor that matches, even if it is not wanted; -1: there is none. */
static int64_t first_match(const rshi_map_work *m, const rshi_name_pattern *p) {
    for (int64_t i = 0; i < m->c->ntensors; i++) {
        rshi_captured c = {0};
        bool matches;
        if (!rshi_name_match(p, m->c->tensor[i].name, -1, &c, NULL, &matches) && matches) return i;
    }
    return -1;
}

static int line_that_took(const rshi_map_work *m, int64_t source) {
    for (int64_t i = 0; i < m->ntargets; i++)
        if (m->target[i].source == source && m->rules->rule[m->target[i].rule].kind != RSHI_RULE_BUILD)
            return m->rules->rule[m->target[i].rule].line;
    for (int64_t i = 0; i < m->out->ndropped; i++)
        if (m->out->dropped[i].source == source) return m->rules->rule[m->out->dropped[i].rule].line;
    return 0;
}

static rsh_status check_line(const rshi_map_work *m, int64_t number) {
    const rshi_ckpt_rule *rule = &m->rules->rule[number];
    const rshi_name_pattern *p = matching_pattern(rule);
    int64_t source = p ? first_match(m, p) : -1;
    bool matches = p ? source >= 0 : rshi_map_build_matches(m, number);
    RSH_REQUIRE(
        matches, RSH_EVALUE,
        "%.150s:%d: \"%.200s\" matches no tensor of %.200s; correct the name, or write \"optional\" in front of "
        "the line",
        m->rules->name, rule->line, rule->text, m->c->path);
    if (!p || !m->wanted[source]) return RSH_OK; /* the line matches only tensors that --include or --exclude omit */
    RSH_REQUIRE(
        !m->hidden[source], RSH_EVALUE,
        "%.150s:%d: \"%.200s\" matches no tensor: \"%.200s\" is used by an = line, and patterns with * ? or {n*} skip "
        "such tensors; write its full name, or remove the line",
        m->rules->name, rule->line, rule->text, m->c->tensor[source].name);
    return rshi_fail(
        RSH_EVALUE,
        "%.150s:%d: \"%.200s\" matches no tensor: line %d already matches \"%.200s\"; move the line up, or "
        "write \"optional\" in front of it",
        m->rules->name, rule->line, rule->text, line_that_took(m, source), m->c->tensor[source].name);
}

static bool serves_scales(const rshi_map_work *m, int64_t number) {
    const rshi_ckpt_rule *rule = &m->rules->rule[number];
    for (int64_t i = 0; rule->kind == RSHI_RULE_SCALES && i < m->out->ntensors; i++)
        if (m->out->tensor[i].scales == number) return true;
    return false;
}

static rsh_status check_lines(const rshi_map_work *m) {
    for (int64_t i = 0; i < m->rules->nrules; i++)
        if (!m->caught[i] && !may_match_nothing(&m->rules->rule[i]) && !serves_scales(m, i)) RSH_TRY(check_line(m, i));
    return RSH_OK;
}

/* ---- the checkpoint of targets ---- */

static int by_first(const void *a, const void *b) {
    const rshi_map_target *x = *(rshi_map_target *const *)a, *y = *(rshi_map_target *const *)b;
    if (x->first != y->first) return x->first < y->first ? -1 : 1;
    if (x->rule != y->rule) return x->rule < y->rule ? -1 : 1;
    return x < y ? -1 : x > y;
}

static rsh_status check_name(const rshi_map_work *m, const rshi_map_target *t) {
    int64_t other = rshi_ckpt_find(m->out, t->name, strlen(t->name));
    if (t->rule < 0) return RSH_OK;
    const rshi_ckpt_rule *rule = &m->rules->rule[t->rule];
    RSH_REQUIRE(*t->name, RSH_EVALUE, "%.150s:%d: the new name of tensor \"%.200s\" is empty", m->rules->name,
                rule->line, m->c->tensor[t->first].name);
    RSH_REQUIRE(other < 0, RSH_EVALUE,
                "%.150s:%d: target \"%.200s\" (from \"%.200s\") is also made by line %d; each target must be made once",
                m->rules->name, rule->line, t->name, m->c->tensor[t->first].name,
                other < 0 ? 0 : m->rules->rule[m->out->tensor[other].rule].line);
    return RSH_OK;
}

/* Returns the `scales` line that lays out the target; -1: none. */
static int64_t scales_of(const rshi_map_work *m, const rshi_map_target *t) {
    const rshi_ckpt_rule *rule = t->rule >= 0 ? &m->rules->rule[t->rule] : NULL;
    if (!rule || (rule->kind != RSHI_RULE_SCALES && rule->has_form)) return -1;
    for (int64_t i = 0; i < m->rules->nrules; i++) {
        rshi_captured c = {0};
        bool matches;
        if (m->rules->rule[i].kind != RSHI_RULE_SCALES) continue;
        if (!rshi_name_match(&m->rules->rule[i].target, t->name, -1, &c, NULL, &matches) && matches) return i;
    }
    return -1;
}

static rsh_status add_tensor(rshi_map_work *m, const rshi_map_target *t) {
    const rshi_ckpt_tensor *s = t->source >= 0 ? &m->c->tensor[t->source] : NULL;
    const rshi_ckpt_view *v = t->view;
    int64_t number;
    RSH_TRY(check_name(m, t));
    RSH_TRY(rshi_ckpt_add_tensor(m->out, t->name, strlen(t->name), s ? s->dtype : v->dtype, s ? s->ndim : v->ndim,
                                 s ? s->shape : v->shape, -1, 0, &number));
    rshi_ckpt_tensor *x = &m->out->tensor[number];
    if (s) {
        x->layout = rsh_layout_hold(s->layout);
        x->nparts = s->nparts;
        x->part = s->part;
        x->digest = s->digest;
        x->packing = s->packing;
        x->ranks_are_files = s->ranks_are_files;
        m->checked[t->source] = true;
    }
    x->view = v;
    x->source = t->source;
    x->rule = t->rule;
    x->instance = t->instance;
    x->scales = scales_of(m, t);
    return RSH_OK;
}

static rsh_status add_tensors(rshi_map_work *m) {
    rshi_map_target **order = rshi_alloc((size_t)m->ntargets, sizeof *order);
    if (!order) return rshi_nomem();
    for (int64_t i = 0; i < m->ntargets; i++) order[i] = &m->target[i];
    if (m->ntargets) qsort(order, (size_t)m->ntargets, sizeof *order, by_first);
    rsh_status st = RSH_OK;
    for (int64_t i = 0; i < m->ntargets && !st; i++) st = add_tensor(m, order[i]);
    rshi_free(order);
    return st;
}

/* Allocates the result, which borrows everything except tensors from the source. */
static rsh_status start_map(rshi_map_work *m) {
    const rsh_ckpt *c = m->c;
    rsh_ckpt *out = RSHI_NEW(rsh_ckpt);
    if (!out) return rshi_nomem();
    m->out = out;
    *out = (rsh_ckpt){.base = c,
                      .kind = c->kind,
                      .file = c->file,
                      .nfiles = c->nfiles,
                      .parts = c->parts,
                      .nparts = c->nparts,
                      .meta = c->meta,
                      .nmeta = c->nmeta,
                      .other = c->other,
                      .nothers = c->nothers,
                      .beside = c->beside,
                      .nbeside = c->nbeside,
                      .reading = c->reading,
                      .gguf = c->gguf,
                      .rules = m->rules};
    out->path = rshi_ckpt_copy(c->path);
    size_t n = (size_t)c->ntensors + 1;
    m->wanted = rshi_calloc(n, sizeof *m->wanted);
    m->used = rshi_calloc(n, sizeof *m->used);
    m->hidden = rshi_calloc(n, sizeof *m->hidden);
    m->checked = rshi_calloc(n, sizeof *m->checked);
    m->caught = rshi_calloc((size_t)(m->rules ? m->rules->nrules : 0) + 1, sizeof *m->caught);
    return out->path && m->wanted && m->used && m->hidden && m->checked && m->caught ? RSH_OK : rshi_nomem();
}

static rsh_status apply_rules(rshi_map_work *m) {
    for (int64_t i = 0; m->rules && i < m->rules->nrules; i++)
        if (m->rules->rule[i].kind == RSHI_RULE_BUILD) RSH_TRY(rshi_map_build(m, i));
    for (int64_t i = 0; i < m->c->ntensors; i++)
        if (m->wanted[i]) RSH_TRY(match_source(m, i));
    if (m->rules) RSH_TRY(check_used(m));
    RSH_TRY(add_tensors(m));
    if (m->rules) RSH_TRY(check_lines(m));
    for (int64_t i = 0; i < m->c->ntensors; i++)
        m->out->unchecked += m->wanted[i] && m->used[i] && m->c->tensor[i].digest && !m->checked[i];
    return RSH_OK;
}

rsh_status rshi_map_apply(const rsh_ckpt *c, const rsh_ckpt_rules *rules, const rsh_convert_opts *opts,
                          rsh_ckpt **out) {
    rshi_map_work m = {.c = c, .rules = rules};
    rsh_status st = start_map(&m);
    if (!st) st = choose_sources(&m, opts);
    if (!st) st = apply_rules(&m);
    rshi_free(m.wanted);
    rshi_free(m.used);
    rshi_free(m.hidden);
    rshi_free(m.checked);
    rshi_free(m.caught);
    rshi_free(m.target);
    if (st) {
        rshi_free(m.instance);
        rsh_ckpt_free(m.out);
        return st;
    }
    m.out->instance = m.instance;
    m.out->ninstances = m.ninstances;
    m.out->instances_room = m.instances_room;
    *out = m.out;
    return RSH_OK;
}
