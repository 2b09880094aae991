/* Lay out: the layout that each tensor of a target gets, by the rules. */
#include "ckpt/impl.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* ---- which tensors ---- */

static bool matches(const char *const *list, int64_t n, const char *name) {
    for (int64_t i = 0; i < n; i++)
        if (rshi_glob(list[i], name)) return true;
    return false;
}

static bool is_wanted(const rsh_convert_opts *o, const char *name) {
    return (!o->ninclude || matches(o->include, o->ninclude, name)) && !matches(o->exclude, o->nexclude, name);
}

/* ---- uneven cuts ---- */

/* `%u` needs a multiple of u for each part. */
static bool is_uneven(const rsh_layout_desc *l, const rsh_cut *cut, int64_t size) {
    int64_t parts = cut->rule == RSH_CUT_UNIT ? cut->number : 1;
    if (!cut->naxes || (cut->rule != RSH_CUT_CHUNK && cut->rule != RSH_CUT_UNIT)) return false;
    for (int i = 0; i < cut->naxes; i++)
        if (!rshi_mul(parts, l->axis[cut->axes[i]].size, &parts)) return size > 0;
    return size % parts != 0;
}

/* The size that a cut without ~, {} or : leaves uneven; -1: none. */
static int64_t uneven_size(const rsh_layout *layout) {
    const rsh_layout_desc *l = rsh_layout_describe(layout);
    if (l->is_boxes) return -1;
    for (int d = 0; d < l->ndim; d++) {
        const rsh_dim *dim = &l->dim[d];
        if (!dim->nsegments && is_uneven(l, &dim->cut, dim->size)) return dim->size;
        for (int s = 0; s < dim->nsegments; s++)
            if (is_uneven(l, dim->segment[s].cut.naxes ? &dim->segment[s].cut : &dim->cut, dim->segment[s].size))
                return dim->segment[s].size;
    }
    return is_uneven(l, &l->flat, rsh_layout_count(layout)) ? rsh_layout_count(layout) : -1;
}

/* ---- one tensor ---- */

static rsh_status check_layout(const rshi_target *t, const rshi_ckpt_rule *rule, const char *name,
                               const rsh_layout *l) {
    const rsh_ckpt_rules *r = t->rules;
    int64_t size = rule->uneven ? -1 : uneven_size(l);
    RSH_REQUIRE(size < 0, RSH_EVALUE,
                "%.200s:%d: tensor \"%.200s\": %s cuts %" PRId64
                " unevenly; write ~, {} or the word uneven if that is meant",
                r->name, rule->line, name, rsh_layout_text(l), size);
    RSH_REQUIRE(!rsh_layout_op(l), RSH_EUNSUP, "%.200s:%d: tensor \"%.200s\": partial layouts are not stored", r->name,
                rule->line, name);
    for (int64_t i = 0; i < rsh_layout_nranks(l); i++)
        RSH_REQUIRE(rsh_layout_nparts(l, rsh_layout_rank(l, i)) == 1, RSH_EUNSUP,
                    "%.200s:%d: tensor \"%.200s\": a rank with several boxes is not stored", r->name, rule->line, name);
    return RSH_OK;
}

static rsh_status fill(const rshi_target *t, const rshi_ckpt_rule *rule, const rshi_ckpt_tensor *s, rsh_layout **out) {
    rsh_text_error error = {0};
    rsh_status st = rsh_form_fill(rule->form, s->dtype, s->ndim, s->shape, &error, out);
    if (st && st != RSH_ENOMEM) {
        char why[600];
        snprintf(why, sizeof why, "%s", error.sentence ? error.sentence : rsh_error_detail());
        return rshi_fail(st, "%.150s:%d: tensor \"%.150s\": %s", t->rules->name, rule->line, s->name, why);
    }
    return st;
}

/* A tensor before this one that was caught by the same rule and has the same dtype and shape: its layout serves. */
static rsh_layout *known_layout(const rshi_target *t, int64_t rule, const rshi_ckpt_tensor *s) {
    for (int64_t i = t->ntensors; i-- > 0 && i > t->ntensors - 64;) {
        const rshi_target_tensor *other = &t->tensor[i];
        const rshi_ckpt_tensor *o = &t->source->tensor[other->source];
        if (other->rule == rule && o->dtype == s->dtype && o->ndim == s->ndim &&
            !memcmp(o->shape, s->shape, (size_t)s->ndim * sizeof *s->shape))
            return other->layout;
    }
    return NULL;
}

static rsh_status by_rules(rshi_target *t, const rshi_ckpt_tensor *s, rshi_target_tensor *out) {
    out->rule = rshi_rules_match(t->rules, s->name);
    RSH_REQUIRE(out->rule >= 0, RSH_EVALUE,
                "%.200s: no rule matches tensor \"%.300s\"; a last rule \"* [...]\" takes what is left", t->rules->name,
                s->name);
    const rshi_ckpt_rule *rule = &t->rules->rule[out->rule];
    out->layout = rsh_layout_hold(known_layout(t, out->rule, s));
    rsh_status st = RSH_OK;
    if (!out->layout) st = fill(t, rule, s, &out->layout);
    if (!st) st = check_layout(t, rule, s->name, out->layout);
    if (st) {
        rsh_layout_free(out->layout);
        out->layout = NULL;
        return st;
    }
    out->dtype = rsh_layout_dtype(out->layout);
    t->nranks = rshi_max(t->nranks, rshi_layout_rank_bound(out->layout));
    return RSH_OK;
}

static rsh_status check_dtypes(const rshi_target *t, const rshi_ckpt_tensor *s, rsh_dtype to) {
    RSH_REQUIRE(rshi_safetensors_name(to), RSH_EUNSUP, "tensor \"%.300s\": safetensors has no %s", s->name,
                rsh_dtype_name(to));
    if (s->dtype == to || !rsh_dtype_check_convert(s->dtype, to)) return RSH_OK;
    return rshi_fail(RSH_ETYPE, "%s: tensor \"%.300s\": %s does not convert to %s", t->source->path, s->name,
                     rsh_dtype_name(s->dtype), rsh_dtype_name(to));
}

/* ---- rules that catch nothing ---- */

/* A bare star takes what is left, which may be nothing. */
static bool may_catch_nothing(const rshi_ckpt_rule *rule) { return rule->optional || !strcmp(rule->pattern, "*"); }

/* The first tensor that the rule matches and another rule or an option took; NULL: it matches none. */
static const char *taken_name(const rshi_target *t, const rshi_ckpt_rule *rule) {
    for (int64_t i = 0; i < t->source->ntensors; i++)
        if (rshi_glob(rule->pattern, t->source->tensor[i].name)) return t->source->tensor[i].name;
    return NULL;
}

static rsh_status check_rule(const rshi_target *t, const rsh_convert_opts *opts, const rshi_ckpt_rule *rule) {
    const char *name = taken_name(t, rule);
    RSH_REQUIRE(name, RSH_EVALUE,
                "%.200s:%d: \"%.200s\" matches no tensor of %.200s; correct it, or write optional in front of it",
                t->rules->name, rule->line, rule->pattern, t->source->path);
    RSH_REQUIRE(!is_wanted(opts, name), RSH_EVALUE,
                "%.200s:%d: \"%.200s\" takes no tensor: line %d takes \"%.200s\" before it; move it up, or write "
                "optional in front of it",
                t->rules->name, rule->line, rule->pattern, t->rules->rule[rshi_rules_match(t->rules, name)].line, name);
    return RSH_OK;
}

static rsh_status check_rules(const rshi_target *t, const rsh_convert_opts *opts) {
    bool *used = rshi_calloc((size_t)t->rules->nrules, sizeof *used);
    if (!used) return rshi_nomem();
    for (int64_t i = 0; i < t->ntensors; i++) used[t->tensor[i].rule] = true;
    rsh_status st = RSH_OK;
    for (int64_t i = 0; i < t->rules->nrules && !st; i++)
        if (!used[i] && !may_catch_nothing(&t->rules->rule[i])) st = check_rule(t, opts, &t->rules->rule[i]);
    rshi_free(used);
    return st;
}

rsh_status rshi_target_lay_out(rshi_target *t, const rsh_convert_opts *opts) {
    const rsh_ckpt *c = t->source;
    t->nranks = t->rules ? t->rules->nranks : 0;
    for (int64_t i = 0; i < c->ntensors; i++) {
        const rshi_ckpt_tensor *s = &c->tensor[i];
        rshi_target_tensor out = {.source = i, .dtype = s->dtype, .rule = -1};
        if (!is_wanted(opts, s->name)) continue;
        RSH_TRY(RSHI_GROW(t->tensor, t->ntensors + 1, &t->tensors_room));
        if (t->rules) RSH_TRY(by_rules(t, s, &out));
        t->tensor[t->ntensors++] = out;
        RSH_TRY(check_dtypes(t, s, out.dtype));
    }
    return t->rules ? check_rules(t, opts) : RSH_OK;
}
