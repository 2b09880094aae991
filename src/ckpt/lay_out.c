/* Lay out: applies the rules, to find the layout of each tensor of the target. */
#include "ckpt/impl.h"
#include "ckpt/rules.h"
#include "ckpt/view.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* ---- uneven cuts ---- */

/* Returns whether a cut is uneven.  With `%u` the size of each part must be a multiple of u. */
static bool is_uneven(const rsh_layout_desc *l, const rsh_cut *cut, int64_t size) {
    int64_t parts = cut->rule == RSH_CUT_UNIT ? cut->number : 1;
    if (!cut->naxes || (cut->rule != RSH_CUT_CHUNK && cut->rule != RSH_CUT_UNIT)) return false;
    for (int i = 0; i < cut->naxes; i++)
        if (!rshi_mul(parts, l->axis[cut->axes[i]].size, &parts)) return size > 0;
    return size % parts != 0;
}

/* Returns the size of a dim that is cut unevenly without ~, {} or a cyclic cut; -1: there is no such dim. */
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
                "%.200s:%d: tensor \"%.200s\": %s cuts a size of %" PRId64
                " into unequal parts; if that is intended, write ~ or {}, or \"uneven\" at the end of the line",
                r->name, rule->line, name, rsh_layout_text(l), size);
    RSH_REQUIRE(!rsh_layout_op(l), RSH_EUNSUP, "%.200s:%d: tensor \"%.200s\": a partial layout cannot be stored",
                r->name, rule->line, name);
    for (int64_t i = 0; i < rsh_layout_nranks(l); i++)
        RSH_REQUIRE(rsh_layout_nparts(l, rsh_layout_rank(l, i)) == 1, RSH_EUNSUP,
                    "%.200s:%d: tensor \"%.200s\": a rank file cannot store several boxes of a tensor", r->name,
                    rule->line, name);
    return RSH_OK;
}

/* ---- forms ---- */

/* Sizes for segments written as `_`: those of the operands of cat, or of the segments of the source's own layout. */
typedef struct segment_sizes {
    int64_t *list[RSH_MAX_NDIM]; /* owned; NULL: unknown */
} segment_sizes;

static rsh_status find_sizes(const rshi_ckpt_tensor *s, const rsh_layout_desc *form, int d, segment_sizes *out) {
    const rshi_ckpt_view *cat = s->view ? s->view->cat[d] : NULL;
    const rsh_layout_desc *own = s->layout ? rsh_layout_describe(s->layout) : NULL;
    int64_t n = form->dim[d].nsegments;
    bool by_cat = cat && cat->nparts == n, by_own = own && !own->is_boxes && own->dim[d].nsegments == n;
    if (n < 2 || (!by_cat && !by_own)) return RSH_OK;
    out->list[d] = rshi_alloc((size_t)n, sizeof **out->list);
    if (!out->list[d]) return rshi_nomem();
    for (int64_t i = 0; i < n; i++)
        out->list[d][i] = by_cat ? cat->part[i]->shape[cat->dim] : own->dim[d].segment[i].size;
    return RSH_OK;
}

static rsh_status fill_form(const rshi_target *t, const rshi_ckpt_rule *rule, const rshi_ckpt_tensor *s,
                            rsh_layout **out) {
    const rsh_layout_desc *form = rsh_form_describe(rule->form);
    rsh_text_error error = {0};
    segment_sizes sizes = {{0}};
    rsh_status st = RSH_OK;
    for (int d = 0; d < s->ndim && form->ndim == s->ndim && !form->is_boxes && !st; d++)
        st = find_sizes(s, form, d, &sizes);
    if (!st)
        st = rshi_form_fill_segments(rule->form, s->dtype, s->ndim, s->shape, (const int64_t *const *)sizes.list,
                                     &error, out);
    for (int d = 0; d < RSH_MAX_NDIM; d++) rshi_free(sizes.list[d]);
    if (!st || st == RSH_ENOMEM) return st;
    char why[600];
    snprintf(why, sizeof why, "%s", error.sentence ? error.sentence : rsh_error_detail());
    return rshi_fail(st, "%.150s:%d: tensor \"%.150s\": %s", t->rules->name, rule->line, s->name, why);
}

/* Does a dim have several segments of size _?  Then the layout does not follow from the shape alone. */
static bool has_open_segments(const rsh_form *form) {
    const rsh_layout_desc *f = rsh_form_describe(form);
    for (int d = 0; d < f->ndim; d++) {
        int holes = 0;
        for (int i = 0; i < f->dim[d].nsegments; i++) holes += f->dim[d].segment[i].size == RSH_HOLE;
        if (holes > 1) return true;
    }
    return false;
}

/* Returns the layout of a recent tensor with the same rule, dtype and shape, to be shared; NULL: there is none. */
static rsh_layout *known_layout(const rshi_target *t, int64_t rule, const rshi_ckpt_tensor *s) {
    if (has_open_segments(t->rules->rule[rule].form)) return NULL;
    for (int64_t i = t->ntensors; i-- > 0 && i > t->ntensors - 64;) {
        const rshi_target_tensor *other = &t->tensor[i];
        const rshi_ckpt_tensor *o = &t->source->tensor[other->source];
        if (other->rule == rule && o->dtype == s->dtype && o->ndim == s->ndim && o->scales < 0 &&
            !memcmp(o->shape, s->shape, (size_t)s->ndim * sizeof *s->shape))
            return other->layout;
    }
    return NULL;
}

static bool dequantises(const rshi_ckpt_view *v) {
    if (!v) return false;
    for (int64_t i = 0; i < v->nparts; i++)
        if (dequantises(v->part[i])) return true;
    return v->op == RSHI_VIEW_DEQUANTISE;
}

static rsh_status lay_out_tensor(rshi_target *t, const rshi_ckpt_tensor *s, rshi_target_tensor *out) {
    const rshi_ckpt_rule *rule = &t->rules->rule[out->rule];
    RSH_REQUIRE(
        !dequantises(s->view) || rsh_form_has_dtype(rule->form), RSH_EVALUE,
        "%.200s:%d: tensor \"%.200s\": dequantise needs the dtype of the result; write a form such as bf16[...]",
        t->rules->name, rule->line, s->name);
    out->layout = rsh_layout_hold(known_layout(t, out->rule, s));
    rsh_status st = RSH_OK;
    if (!out->layout) st = fill_form(t, rule, s, &out->layout);
    if (!st) st = check_layout(t, rule, s->name, out->layout);
    if (st) {
        rsh_layout_free(out->layout);
        out->layout = NULL;
        return st;
    }
    out->dtype = rsh_layout_dtype(out->layout);
    if (!t->by_rank) { /* the rules name no ranks, so the tensor is stored whole */
        bool turned = rsh_layout_describe(out->layout)->has_order;
        rsh_layout_free(out->layout);
        out->layout = NULL;
        RSH_REQUIRE(!turned, RSH_EUNSUP,
                    "%.200s:%d: tensor \"%.200s\": a whole tensor must be in row-major order; remove \"order\"",
                    t->rules->name, rule->line, s->name);
        return RSH_OK;
    }
    t->nranks = rshi_max(t->nranks, rshi_layout_rank_bound(out->layout));
    return RSH_OK;
}

/* ---- scales ---- */

/* Finds the weight to which the scales belong. */
static rsh_status find_weight(const rshi_target *t, const rshi_ckpt_tensor *s, int64_t *out) {
    const rshi_ckpt_rule *rule = &t->rules->rule[s->scales];
    rshi_captured c = {0};
    int64_t chosen;
    bool matches;
    char *name = NULL;
    RSH_TRY(rshi_name_match(&rule->target, s->name, -1, &c, &chosen, &matches));
    RSH_TRY(rshi_name_expand(&rule->source, chosen, &c, &name));
    *out = rshi_ckpt_find(t->source, name, strlen(name));
    rsh_status st = RSH_OK;
    if (*out < 0)
        st = rshi_fail(RSH_EVALUE, "%.150s:%d: tensor \"%.150s\": its weight \"%.150s\" is not in the result",
                       t->rules->name, rule->line, s->name, name);
    rshi_free(name);
    return st;
}

static rsh_status lay_out_scales(rshi_target *t, const rshi_ckpt_tensor *s, rshi_target_tensor *out) {
    const rshi_ckpt_rule *rule = &t->rules->rule[s->scales];
    int64_t number;
    RSH_TRY(find_weight(t, s, &number));
    const rshi_ckpt_tensor *w = &t->source->tensor[number];
    RSH_REQUIRE(w->scales < 0, RSH_EVALUE,
                "%.150s:%d: tensor \"%.150s\": its weight \"%.150s\" is itself laid out by a scales line",
                t->rules->name, rule->line, s->name, w->name);
    rshi_weight weight = {w->name, w->ndim, w->shape, t->tensor[number].layout};
    rsh_status st = rshi_scale_layout(&weight, rule->nblocks, rule->block, s, &out->layout);
    if (st && st != RSH_ENOMEM) {
        char why[600];
        snprintf(why, sizeof why, "%s", rsh_error_detail());
        return rshi_fail(st, "%.150s:%d: tensor \"%.150s\": %s", t->rules->name, rule->line, s->name, why);
    }
    return st;
}

/* ---- all tensors ---- */

static rsh_status check_dtypes(const rshi_target *t, const rshi_ckpt_tensor *s, rsh_dtype to) {
    RSH_REQUIRE(rshi_safetensors_name(to), RSH_EUNSUP,
                "tensor \"%.300s\": safetensors has no dtype %s; write a form with another dtype", s->name,
                rsh_dtype_name(to));
    if (s->dtype == to || !rsh_dtype_check_convert(s->dtype, to)) return RSH_OK;
    return rshi_fail(RSH_ETYPE, "%s: tensor \"%.300s\": cannot convert %s to %s", t->source->path, s->name,
                     rsh_dtype_name(s->dtype), rsh_dtype_name(to));
}

rsh_status rshi_target_lay_out(rshi_target *t) {
    const rsh_ckpt *c = t->source;
    t->nranks = t->by_rank ? t->rules->nranks : 0;
    for (int64_t i = 0; i < c->ntensors; i++) {
        const rshi_ckpt_tensor *s = &c->tensor[i];
        RSH_TRY(RSHI_GROW(t->tensor, t->ntensors + 1, &t->tensors_room));
        t->tensor[t->ntensors] = (rshi_target_tensor){.source = i, .dtype = s->dtype, .rule = s->rule};
        if (t->rules && s->scales < 0) RSH_TRY(lay_out_tensor(t, s, &t->tensor[t->ntensors]));
        t->ntensors++;
    }
    for (int64_t i = 0; i < c->ntensors; i++) {
        if (c->tensor[i].scales >= 0) RSH_TRY(lay_out_scales(t, &c->tensor[i], &t->tensor[i]));
        RSH_TRY(check_dtypes(t, &c->tensor[i], t->tensor[i].dtype));
    }
    return RSH_OK;
}
