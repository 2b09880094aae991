/* Prepare: hooks that redistribute inputs and outputs of a module. */
#include "nn/prepare.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nn/impl.h"

/* ---- one value ---- */

/* Returns whether ranks compare the elements of replicated inputs. */
static bool checks_replicas(void) {
    const char *text = getenv("RESHARD_CHECK");
    return text && !strcmp(text, "1");
}

/* Makes a DTensor from a plain value, which is this rank's part.  If the value is marked as a part of a DTensor, the
 * result is that DTensor; otherwise the ranks compare sizes. */
static rsh_status from_plain(rsh_value *v, rsh_mesh *mesh, rsh_place is, rsh_value **out) {
    const rsh_layout *was = rsh_dtensor_part_layout(v);
    rsh_from_local_opts opts = RSH_FROM_LOCAL_OPTS_INIT;
    if (was && rsh_mesh_equal(rsh_dtensor_part_mesh(v), mesh)) {
        opts.shape = rsh_layout_shape(was);
        NN_TRY(rsh_mesh_places(mesh, RSH_MESH_POSITIONS, was, &is));
    } else {
        opts.check = is.kind == RSH_PLACE_REPLICATE && checks_replicas();
    }
    return rsh_dtensor_from_local(v, mesh, 1, &is, &opts, out);
}

/* Extends the message: the meaning of a plain value depends on how a module is distributed. */
static rsh_status explain_replicated(const rsh_module *m, const char *what, int i, const rsh_value *v, rsh_place is,
                                     rsh_status st) {
    char why[600];
    snprintf(why, sizeof why, "%s", rsh_error_detail());
    if (st != RSH_EVALUE || is.kind != RSH_PLACE_REPLICATE) return st;
    return rshn_fail(st,
                     "%s: plain %s %d must be replicated (the same on every rank), got %s here; if it is this rank's "
                     "own rows, set the style's placement to rsh_place_shard(0) or pass a DTensor (%.200s)",
                     m->kind->name, what, i, rshn_shape_text(rsh_value_tensor(v)), why);
}

static rsh_status check_value(const rsh_module *m, const char *what, int i, const rsh_value *v, const rsh_mesh *mesh) {
    if (!v)
        return rshn_fail(RSH_EVALUE, "%s: %s %d is missing, but the style redistributes it", m->kind->name, what, i);
    if (!rsh_value_sharded(v)) return RSH_OK;
    const rsh_mesh *has = rsh_dtensor_mesh(v);
    if (has && rsh_mesh_equal(has, mesh)) return RSH_OK;
    return rshn_fail(RSH_EVALUE,
                     "%s: an input or output must be plain or a DTensor on the module's mesh, but it is "
                     "%s",
                     m->kind->name, has ? "on another mesh" : "distributed and not a DTensor");
}

/* Redistributes a DTensor; returns v itself if nothing moves. */
static rsh_status move_value(rsh_value *v, rsh_place to, rsh_value **out) {
    rsh_place now;
    NN_TRY(rsh_dtensor_places(v, &now));
    if (!rsh_places_equal(rsh_value_ndim(v), 1, &now, &to))
        return rsh_dtensor_redistribute(v, 1, &to, RSH_DTYPE_NONE, out);
    *out = rsh_value_hold(v);
    return RSH_OK;
}

static rsh_status as_local(rsh_value *v, rsh_place now, rsh_value **out) {
    rsh_place whole = rsh_place_replicate();
    return rsh_dtensor_part(v, now.kind == RSH_PLACE_PARTIAL ? &whole : NULL, out);
}

static rsh_status redistribute_value(const rsh_module *m, const rshn_prepared *p, const char *what, int i,
                                     rsh_value **v) {
    const rshn_bringing *b = &p->at[i];
    rsh_value *d = NULL, *moved = NULL, *local = NULL;
    rsh_status st = check_value(m, what, i, *v, p->mesh);
    if (st) rsh_comm_agree(rsh_mesh_comm(p->mesh), st); /* the other ranks may be waiting in a redistribution */
    if (st) return st;
    if (rsh_value_sharded(*v))
        d = rsh_value_hold(*v);
    else if ((st = from_plain(*v, p->mesh, b->is, &d)))
        st = explain_replicated(m, what, i, *v, b->is, st);
    if (!st) st = move_value(d, b->becomes, &moved);
    if (!st && p->local) st = as_local(moved, b->becomes, &local);
    if (!st) {
        rsh_value_free(*v);
        *v = p->local ? local : rsh_value_hold(moved);
    }
    rsh_value_free(d);
    rsh_value_free(moved);
    return st;
}

/* ---- hooks ---- */

static rsh_status redistribute_all(const rsh_module *m, const rshn_prepared *p, const char *what, rsh_value **v) {
    for (int i = 0; i < p->n; i++) {
        if (!p->at[i].listed || p->at[i].leave) continue;
        NN_TRY(redistribute_value(m, p, what, i, &v[i]));
    }
    return RSH_OK;
}

static rsh_status inputs_hook(void *ctx, rsh_module *m, rsh_value **in) {
    return redistribute_all(m, ctx, "input", in);
}

static rsh_status outputs_hook(void *ctx, rsh_module *m, rsh_value *const *in, rsh_value **out) {
    (void)in;
    return redistribute_all(m, ctx, "output", out);
}

static void free_prepared(void *ctx) {
    rshn_prepared *p = ctx;
    rsh_mesh_free(p->mesh);
    rshn_free(p);
}

/* Adds the hook's settings to the hash that ranks compare: if they redistributed a value to different placements,
 * forward would deadlock. */
static void mix_prepared(rshn_tree_change *c, const rshn_prepared *p) {
    for (int i = 0; i < p->n; i++) {
        const rshn_bringing *b = &p->at[i];
        bool brought = b->listed && !b->leave;
        int kinds[] = {p->local, brought, (int)b->is.kind, b->is.dim, (int)b->is.op,
                       (int)b->becomes.kind, b->becomes.dim, (int)b->becomes.op};
        rshn_change_mix(c, kinds, (brought ? 8 : 2) * sizeof *kinds);
    }
}

static rsh_status add_prepare_hook(rshn_tree_change *c, rsh_module *m, const rshn_prepared *how, rshn_hook hook) {
    rshn_prepared *p = rshn_malloc(sizeof *p);
    if (!p) return rshn_fail(RSH_ENOMEM, "out of memory for the hooks of a %s", m->kind->name);
    mix_prepared(c, how);
    *p = *how;
    p->mesh = rsh_mesh_hold(c->mesh);
    hook.ctx = p;
    hook.drop = free_prepared;
    return rshn_change_hook(c, m, hook);
}

rsh_status rshn_prepare_inputs(rshn_tree_change *c, rsh_module *m, const rshn_prepared *how) {
    return add_prepare_hook(c, m, how, (rshn_hook){.kind = RSHN_PRE, .fn = (void (*)(void))inputs_hook});
}

rsh_status rshn_prepare_outputs(rshn_tree_change *c, rsh_module *m, const rshn_prepared *how) {
    return add_prepare_hook(
        c, m, how, (rshn_hook){.kind = RSHN_FORWARD, .when = RSH_HOOK_ON_SUCCESS, .fn = (void (*)(void))outputs_hook});
}
