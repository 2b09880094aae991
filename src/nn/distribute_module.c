/* Distribute module: turns all parameters and buffers of a tree into DTensors. */
#include <reshard/nn/parallel.h>

#include "nn/impl.h"
#include "nn/tree_change.h"

typedef struct distributing {
    const rsh_distribution *how;
    rshn_tree_change *change;
} distributing;

static bool on_mesh(const rsh_value *v, const rsh_mesh *mesh) {
    return rsh_dtensor_mesh(v) && rsh_mesh_equal(rsh_dtensor_mesh(v), mesh);
}

static rsh_status plan_value(void *ctx, const char *path, rsh_module *owner, const char *name, rsh_value *v) {
    const distributing *d = ctx;
    rsh_place places[RSH_MAX_AXES];
    if (on_mesh(v, d->change->mesh)) return RSH_OK;
    for (int i = 0; i < RSH_MAX_AXES; i++) places[i] = rsh_place_replicate();
    if (d->how->partition) NN_TRY(d->how->partition(d->how->ctx, path, owner, name, v, places));
    return rshn_change_value(d->change, path, v, places);
}

/* ---- hooks ---- */

/* Context of the module's hooks. */
typedef struct called {
    rsh_distribution how;
    rsh_mesh *mesh; /* held */
} called;

static rsh_status call_inputs(void *ctx, rsh_module *m, rsh_value **in) {
    const called *c = ctx;
    return c->how.inputs(c->how.ctx, m, c->mesh, in);
}

static rsh_status call_outputs(void *ctx, rsh_module *m, rsh_value *const *in, rsh_value **out) {
    const called *c = ctx;
    (void)in;
    return c->how.outputs(c->how.ctx, m, c->mesh, out);
}

static void free_called(void *ctx) {
    called *c = ctx;
    rsh_mesh_free(c->mesh);
    rshn_free(c);
}

static rsh_status add_hook(const distributing *d, rsh_module *m, rshn_hook hook) {
    called *c = rshn_malloc(sizeof *c);
    if (!c) return rshn_fail(RSH_ENOMEM, "out of memory for a hook of a %s", m->kind->name);
    *c = (called){*d->how, rsh_mesh_hold(d->change->mesh)};
    hook.ctx = c;
    hook.drop = free_called;
    return rshn_change_hook(d->change, m, hook);
}

static rsh_status plan_tree(distributing *d, rsh_module *m) {
    if (!m) return rshn_fail(RSH_EVALUE, "rsh_distribute_module: m is NULL");
    NN_TRY(rsh_module_each_parameter(m, true, plan_value, d));
    NN_TRY(rsh_module_each_buffer(m, plan_value, d));
    if (d->how->inputs) NN_TRY(add_hook(d, m, (rshn_hook){.kind = RSHN_PRE, .fn = (void (*)(void))call_inputs}));
    if (d->how->outputs) NN_TRY(add_hook(d, m, (rshn_hook){.kind = RSHN_FORWARD, .fn = (void (*)(void))call_outputs}));
    return RSH_OK;
}

rsh_status rsh_distribute_module(rsh_module *m, rsh_mesh *mesh, const rsh_distribution *how) {
    if (!mesh) return rshn_fail(RSH_EVALUE, "rsh_distribute_module: mesh is NULL");
    if (!rsh_mesh_comm(mesh)) return RSH_OK;
    rsh_distribution none = {0};
    rshn_tree_change c = {.mesh = mesh};
    distributing d = {how ? how : &none, &c};
    rsh_status st = rshn_change_run(&c, m, plan_tree(&d, m));
    rshn_change_end(&c);
    return st;
}
