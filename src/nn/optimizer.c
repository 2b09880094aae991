/* Optimizer: its parameters, their state, and the update step. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <reshard/math.h>

#include "nn/impl.h"
#include "nn/module.h"
#include "nn/optim.h"
#include "nn/state_dict.h"

rsh_status rshn_not_negative(const char *name, double number) {
    if (number >= 0 && isfinite(number)) return RSH_OK;
    return rshn_fail(RSH_EVALUE, "%s must be finite and at least 0, got %.17g", name, number);
}

/* ---- creating ---- */

static rsh_status add_parameter(void *ctx, const char *path, rsh_module *owner, const char *name, rsh_value *v) {
    (void)owner, (void)name;
    rsh_optimizer *o = ctx;
    if (rsh_value_dtype(v) != RSH_F32 && rsh_value_dtype(v) != RSH_F64)
        return rshn_fail(RSH_ETYPE, "optimizer: parameter \"%s\" must be f32 or f64, got %s", path,
                         rsh_dtype_name(rsh_value_dtype(v)));
    NN_TRY(RSHN_GROW(o->trained, o->n + 1, &o->room));
    char *copy = rshn_duplicate(path);
    if (!copy) return rshn_fail(RSH_ENOMEM, "out of memory for the path \"%s\"", path);
    o->trained[o->n++] = (rshn_trained){.path = copy, .parameter = rsh_value_hold(v), .lr_scale = 1};
    return RSH_OK;
}

rsh_status rshn_optimizer_make(rsh_module *m, const rshn_optimizer_kind *kind, double lr, rsh_optimizer **out) {
    if (!m || !out) return rshn_fail(RSH_EVALUE, "cannot create an optimizer: %s is NULL", m ? "out" : "m");
    rsh_optimizer *o = rshn_calloc(1, sizeof *o);
    if (!o) return rshn_fail(RSH_ENOMEM, "out of memory for an optimizer");
    o->kind = kind;
    o->lr = lr;
    rsh_status st = rsh_module_each_parameter(m, false, add_parameter, o);
    if (!st && !o->n) st = rshn_fail(RSH_EVALUE, "cannot create an optimizer: the module has no parameters");
    if (st) rsh_optimizer_free(o);
    else *out = o;
    return st;
}

void rsh_optimizer_free(rsh_optimizer *o) {
    if (!o) return;
    for (int64_t i = 0; i < o->n; i++) {
        for (int k = 0; k < RSHN_MOST_SLOTS; k++) rsh_value_free(o->trained[i].slot[k]);
        rsh_value_free(o->trained[i].parameter);
        rshn_free(o->trained[i].path);
    }
    rshn_free(o->trained);
    rshn_free(o);
}

double rsh_optimizer_lr(const rsh_optimizer *o) { return o ? o->lr : -1; }

rsh_status rsh_optimizer_set_lr(rsh_optimizer *o, double lr) {
    if (!o) return rshn_fail(RSH_EVALUE, "rsh_optimizer_set_lr: o is NULL");
    NN_TRY(rshn_not_negative("learning rate", lr));
    o->lr = lr;
    return RSH_OK;
}

rsh_status rsh_optimizer_zero_grad(rsh_optimizer *o) {
    if (!o) return rshn_fail(RSH_EVALUE, "rsh_optimizer_zero_grad: o is NULL");
    for (int64_t i = 0; i < o->n; i++) NN_TRY(rsh_value_set_grad(o->trained[i].parameter, NULL));
    return RSH_OK;
}

/* ---- the step ---- */

static rsh_status check_grad(const rshn_trained *t) {
    const rsh_layout *have = rsh_value_layout(rsh_value_grad(t->parameter)), *need = rsh_value_layout(t->parameter);
    bool same = !have == !need && (!have || (rsh_layout_op(have) == rsh_layout_op(need) &&
                                             rsh_layout_same_parts(have, need)));
    if (same) return RSH_OK;
    return rshn_fail(RSH_EVALUE,
                     "the gradient of \"%s\" must have the layout of the parameter: gradient \"%.200s\", "
                     "parameter \"%.200s\"",
                     t->path, have ? rsh_layout_text(have) : "not distributed",
                     need ? rsh_layout_text(need) : "not distributed");
}

static rsh_status make_slots(const rsh_optimizer *o, rshn_trained *t) {
    for (int k = 0; k < o->kind->nslots; k++)
        if (!t->slot[k] && o->kind->needs(o, k)) NN_TRY(rshn_zeros_like(t->parameter, &t->slot[k]));
    return RSH_OK;
}

typedef struct update {
    const rsh_optimizer *o;
    const rshn_trained *t;
    rsh_dtype dtype;
    rshn_run run;
} update;

static void *offset_by(void *p, rsh_dtype dtype, int64_t n) {
    return p ? (char *)p + n * (int64_t)rsh_dtype_size(dtype) : NULL;
}

static void update_range(void *ctx, int64_t lo, int64_t hi) {
    const update *u = ctx;
    rshn_run run = {offset_by(u->run.p, u->dtype, lo), offset_by(u->run.g, u->dtype, lo), {0}, hi - lo};
    for (int k = 0; k < RSHN_MOST_SLOTS; k++) run.slot[k] = offset_by(u->run.slot[k], u->dtype, lo);
    u->o->kind->update(u->o, u->t, u->dtype, &run);
}

/* A dense part of the parameter is updated in place; otherwise a copy is updated and copied back. */
static rsh_status step_part(const rsh_optimizer *o, const rshn_trained *t, int64_t part) {
    const rsh_tensor *where = rsh_value_part(t->parameter, part);
    rsh_tensor *p = NULL, *g = NULL;
    rsh_status st = rshn_dense(where, &p);
    if (!st) st = rshn_dense(rsh_value_part(rsh_value_grad(t->parameter), part), &g);
    if (!st) {
        update u = {o, t, rsh_tensor_dtype(p), {rsh_tensor_data(p), rsh_tensor_data(g), {0}, rsh_tensor_count(p)}};
        for (int k = 0; k < o->kind->nslots; k++)
            if (t->slot[k]) u.run.slot[k] = rsh_tensor_data(rsh_value_part(t->slot[k], part));
        if (u.run.n) rshn_spread(u.run.n, 1 << 14, update_range, &u);
        if (rsh_tensor_dense(where)) rsh_tensor_bump_version(where);
        else st = rsh_math_copy(p, where);
    }
    rsh_tensor_free(p);
    rsh_tensor_free(g);
    return st;
}

static rsh_status step_one(const rsh_optimizer *o, rshn_trained *t) {
    NN_TRY(make_slots(o, t));
    t->step++;
    for (int64_t i = 0; i < rsh_value_nparts(t->parameter); i++) NN_TRY(step_part(o, t, i));
    return RSH_OK;
}

rsh_status rsh_optimizer_step(rsh_optimizer *o) {
    if (!o) return rshn_fail(RSH_EVALUE, "rsh_optimizer_step: o is NULL");
    for (int64_t i = 0; i < o->n; i++)
        if (rsh_value_grad(o->trained[i].parameter)) NN_TRY(check_grad(&o->trained[i]));
    for (int64_t i = 0; i < o->n; i++)
        if (rsh_value_grad(o->trained[i].parameter)) NN_TRY(step_one(o, &o->trained[i]));
    return RSH_OK;
}
