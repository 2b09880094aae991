/* Parallel style: how a module's parameters are cut, and where its inputs and outputs are placed.
 *
 * A column-wise layer followed by a row-wise layer needs only one reduction: the outputs of the first are cut as the
 * second needs its inputs. */
#include "nn/parallel_style.h"

#include <stdio.h>
#include <string.h>

#include "nn/impl.h"
#include "nn/layer.h"
#include "nn/prepare.h"

/* ---- parameters ---- */

/* Context of a walk over the parameters of a module at `path`. */
typedef struct placing {
    const rsh_style *style;
    bool linear;
    const char *path;
    rshn_tree_change *change;
} placing;

/* Weights are [out, in] in a Linear, [rows, columns] in an Embedding. */
static rsh_place place_of(const placing *p, const char *name) {
    rsh_style_kind kind = p->style->kind;
    if (kind == RSH_STYLE_COLWISE) return rsh_place_shard(p->linear ? 0 : 1);
    if (kind == RSH_STYLE_ROWWISE && strcmp(name, "bias")) return rsh_place_shard(p->linear ? 1 : 0);
    return rsh_place_replicate();
}

static rsh_status place_one(void *ctx, const char *below, rsh_module *owner, const char *name, rsh_value *v) {
    const placing *p = ctx;
    char path[1100];
    rsh_place place = place_of(p, name);
    (void)owner;
    int n = snprintf(path, sizeof path, "%s%s%s", p->path, *p->path ? "." : "", below);
    if (n >= (int)sizeof path)
        return rshn_fail(RSH_EVALUE, "path \"%.100s...\" is too long, at most %zu characters", path, sizeof path - 1);
    return rshn_change_value(p->change, path, v, &place);
}

static rsh_status place_all(const rsh_style *s, bool linear, const char *path, rsh_module *m, rshn_tree_change *c) {
    return rsh_module_each_parameter(m, true, place_one, &(placing){s, linear, path, c});
}

/* ---- inputs and outputs ---- */

static rsh_status plan_hooks(rshn_tree_change *c, rsh_module *m, rshn_bringing in, rshn_bringing out, bool local) {
    rshn_prepared inputs = {.n = 1, .at = {in}}, outputs = {.local = local, .n = 1, .at = {out}};
    if (m->kind->nin < 1 || m->kind->nout != 1)
        return rshn_fail(RSH_EVALUE,
                         "%s has %d inputs and %d outputs; this style needs at least one input and "
                         "exactly one output",
                         m->kind->name, m->kind->nin, m->kind->nout);
    NN_TRY(rshn_prepare_inputs(c, m, &inputs));
    return rshn_prepare_outputs(c, m, &outputs);
}

static rsh_status check_layer(const rsh_style *s, const char *path, const rsh_module *m, bool linear) {
    const char *name = s->kind == RSH_STYLE_COLWISE ? "column-wise" : "row-wise";
    if (!linear && strcmp(m->kind->name, "Embedding"))
        return rshn_fail(RSH_EUNSUP, "\"%s\" is a %s; the %s style supports only Linear and Embedding", path,
                         m->kind->name, name);
    if (!linear && rshn_embedding_shortens(m))
        return rshn_fail(RSH_EUNSUP, "\"%s\" is an Embedding with max_norm, which the %s style does not support", path,
                         name);
    return RSH_OK;
}

static rsh_status plan_layer(const rsh_style *s, const char *path, rsh_module *m, rshn_tree_change *c) {
    bool linear = !strcmp(m->kind->name, "Linear");
    NN_TRY(check_layer(s, path, m, linear));
    rsh_place needed = s->kind == RSH_STYLE_ROWWISE && linear ? rsh_place_shard(-1) : rsh_place_replicate();
    rshn_bringing in = {true, false, s->default_input ? needed : s->input, needed};
    NN_TRY(place_all(s, linear, path, m, c));
    return plan_hooks(c, m, in, (rshn_bringing){true, false, s->output, s->output}, s->local_output);
}

static rsh_status plan_sequence(const rsh_style *s, const char *path, rsh_module *m, rshn_tree_change *c) {
    rshn_bringing in = {true, false, s->input, s->input};
    NN_TRY(place_all(s, false, path, m, c));
    return plan_hooks(c, m, in, (rshn_bringing){true, false, s->output, s->output}, s->local_output);
}

/* ---- RSH_STYLE_PREPARE ---- */

static rsh_status find_input(const rsh_module *m, const char *name, int *at) {
    for (*at = 0; m->kind->inputs && *at < m->kind->nin; ++*at)
        if (!strcmp(m->kind->inputs[*at], name)) return RSH_OK;
    return rshn_fail(RSH_EKEY, "%s has no input \"%s\"", m->kind->name, name);
}

static rsh_status add_prepared(const rsh_module *m, const rsh_prepare *from, int at, int n, rshn_prepared *p) {
    if (at >= n)
        return rshn_fail(RSH_EVALUE, "%s: the style lists input or output %d, but the module has only %d",
                                     m->kind->name, at, n);
    if (p->at[at].listed) return rshn_fail(RSH_EVALUE, "%s: the style lists input %d twice", m->kind->name, at);
    p->at[at] = (rshn_bringing){true, from->leave, from->is, from->becomes};
    return RSH_OK;
}

static rsh_status list_inputs(const rsh_style *s, const rsh_module *m, rshn_prepared *p) {
    int next = 0;
    p->n = m->kind->nin;
    for (int i = 0; i < s->ninputs; i++) {
        int at = next;
        if (s->inputs[i].name)
            NN_TRY(find_input(m, s->inputs[i].name, &at));
        else
            next++;
        NN_TRY(add_prepared(m, &s->inputs[i], at, p->n, p));
    }
    return RSH_OK;
}

static rsh_status list_outputs(const rsh_style *s, const rsh_module *m, rshn_prepared *p) {
    p->n = m->kind->nout;
    if (s->noutputs != p->n)
        return rshn_fail(RSH_EVALUE, "%s: the style must list all %d outputs, got %d", m->kind->name, p->n,
                         s->noutputs);
    for (int i = 0; i < s->noutputs; i++) NN_TRY(add_prepared(m, &s->outputs[i], i, p->n, p));
    return RSH_OK;
}

static rsh_status plan_prepare(const rsh_style *s, rsh_module *m, rshn_tree_change *c) {
    rshn_prepared in = {.local = s->local_input}, out = {.local = s->local_output};
    if (s->ninputs < 0 || s->noutputs < 0 || (s->ninputs && !s->inputs) || (s->noutputs && !s->outputs))
        return rshn_fail(RSH_EVALUE, "style: ninputs and noutputs must be the lengths of the lists, got %d and %d; "
                                     "a count is negative or a list is NULL",
                         s->ninputs, s->noutputs);
    NN_TRY(list_inputs(s, m, &in));
    if (s->noutputs) NN_TRY(list_outputs(s, m, &out));
    if (s->ninputs) NN_TRY(rshn_prepare_inputs(c, m, &in));
    return s->noutputs ? rshn_prepare_outputs(c, m, &out) : RSH_OK;
}

rsh_status rshn_style_plan(const rsh_style *s, const char *path, rsh_module *m, rshn_tree_change *c) {
    rshn_change_mix(c, path, strlen(path) + 1);
    switch (s->kind) {
    case RSH_STYLE_COLWISE:
    case RSH_STYLE_ROWWISE: return plan_layer(s, path, m, c);
    case RSH_STYLE_SEQUENCE: return plan_sequence(s, path, m, c);
    case RSH_STYLE_PREPARE: return plan_prepare(s, m, c);
    }
    return rshn_fail(RSH_EVALUE, "\"%s\": unknown kind of style %d", path, (int)s->kind);
}
