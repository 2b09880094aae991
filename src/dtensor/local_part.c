/* Local part: a plain value with a mark that it is this rank's part of a DTensor.
 *
 * Ops treat it as a plain tensor of this rank.  Their results get a mark without a layout: they differ between the
 * ranks of the mesh, so they must not be treated as replicated. */
#include "dtensor/dtensor.h"

/* The content of a mark, which several values may share. */
typedef struct mark {
    int refs;
    rsh_mesh *mesh;     /* held */
    rsh_layout *layout; /* owned: the layout of the DTensor; NULL: the value was computed from a part */
} mark;

static void hold_mark(void *kind_data) { ((mark *)kind_data)->refs++; }

static void drop_mark(void *kind_data) {
    mark *m = kind_data;
    if (--m->refs) return;
    rsh_layout_free(m->layout);
    rsh_mesh_free(m->mesh);
    rshi_free(m);
}

static rsh_status mark_new(rsh_mesh *mesh, const rsh_layout *layout, mark **out) {
    mark *m = rshi_alloc(1, sizeof *m);
    if (!m) return rshi_nomem();
    *m = (mark){1, rsh_mesh_hold(mesh), rsh_layout_hold(layout)};
    *out = m;
    return RSH_OK;
}

/* ---- ops ---- */

static const rsh_value_kind local_part;

static const mark *mark_of(const rsh_value *v) {
    void *kind_data = NULL;
    return rsh_value_get_kind(v, &kind_data) == &local_part ? kind_data : NULL;
}

static rsh_mesh *first_mesh(int nin, rsh_value *const *in) {
    for (int i = 0; i < nin; i++)
        if (mark_of(in[i])) return mark_of(in[i])->mesh;
    return NULL;
}

enum { MOST = 64 }; /* largest number of outputs of an op on parts */

/* Applies an op to parts.  If a DTensor is among the inputs, the parts count as plain values. */
static rsh_status apply_to_parts(const rsh_grad_op *op, const void *attrs, int nin, rsh_value *const *in, int nout,
                                 rsh_value **out) {
    for (int i = 0; i < nin; i++)
        if (rsh_dtensor_mesh(in[i])) return rshi_dtensor_kind.apply(op, attrs, nin, in, nout, out);
    for (int i = 0; i < nin; i++)
        RSH_REQUIRE(!rsh_value_sharded(in[i]), RSH_EVALUE,
                    "%s: cannot combine this rank's part of a DTensor with a distributed value", op->name);
    RSH_REQUIRE(nout <= MOST, RSH_EUNSUP, "%s: too many outputs (%d) for this rank's part of a DTensor", op->name,
                nout);
    const rsh_layout *plain[MOST] = {0};
    mark *m = NULL;
    RSH_TRY(mark_new(first_mesh(nin, in), NULL, &m));
    rsh_grad_apply_opts as = {.struct_size = sizeof as, .out = plain, .kind = &local_part, .kind_data = m};
    rsh_status st = rsh_grad_apply_with(op, attrs, nin, in, nout, &as, out);
    drop_mark(m);
    return st;
}

static const rsh_value_kind local_part = {
    .name = "part of a DTensor", .apply = apply_to_parts, .hold = hold_mark, .drop = drop_mark};

/* ---- creating, and getters ---- */

static bool same_everywhere(int n, const rsh_place *places) {
    for (int i = 0; i < n; i++)
        if (places[i].kind != RSH_PLACE_REPLICATE) return false;
    return true;
}

rsh_status rsh_dtensor_part(rsh_value *v, const rsh_place *grads, rsh_value **out) {
    RSH_NEEDS(out);
    *out = NULL;
    if (!v) return RSH_OK;
    RSH_TRY(rshi_dtensor_require("rsh_dtensor_part", v));
    rsh_mesh *mesh = rsh_dtensor_mesh(v);
    rsh_place places[RSH_MAX_AXES];
    rsh_value *plain = NULL;
    mark *m = NULL;
    RSH_TRY(rsh_dtensor_places(v, places));
    RSH_TRY(rsh_dtensor_to_local(v, grads, &plain));
    rsh_status st = RSH_OK;
    if (!same_everywhere(rsh_mesh_ndim(mesh), places)) {
        st = mark_new(mesh, rsh_value_layout(v), &m);
        if (!st) st = rsh_value_set_kind(plain, &local_part, m);
    }
    if (m) drop_mark(m);
    if (st)
        rsh_value_free(plain);
    else
        *out = plain;
    return st;
}

rsh_mesh *rsh_dtensor_part_mesh(const rsh_value *v) { return mark_of(v) ? mark_of(v)->mesh : NULL; }
const rsh_layout *rsh_dtensor_part_layout(const rsh_value *v) { return mark_of(v) ? mark_of(v)->layout : NULL; }
