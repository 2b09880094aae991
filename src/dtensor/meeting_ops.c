/* Meeting ops: how an op meets a DTensor.
 *
 * An op whose rule for layouts holds for any layout, as that of a pointwise op does, is applied to the parts.  Any
 * other op is refused with its name and the placements: nothing is ever gathered in silence. */
#include "dtensor/dtensor.h"

#include <stdio.h>
#include <string.h>

/* ---- text ---- */

typedef struct line {
    char *text;
    size_t used;
} line;

static int write_line(void *ctx, const char *text, size_t length) {
    line *l = ctx;
    if (length > RSHI_PLACES_TEXT - 1 - l->used) length = RSHI_PLACES_TEXT - 1 - l->used;
    memcpy(l->text + l->used, text, length);
    l->used += length;
    l->text[l->used] = 0;
    return 0;
}

void rshi_places_text(int n, const rsh_place *places, char text[RSHI_PLACES_TEXT]) {
    line l = {text, 0};
    rsh_sink sink = {write_line, &l};
    *text = 0;
    rsh_places_print(n, places, &sink);
}

static void text_of(const rsh_value *v, char text[RSHI_PLACES_TEXT]) {
    rsh_place places[RSH_MAX_AXES];
    const rsh_mesh *mesh = rsh_dtensor_mesh(v);
    if (!mesh || rsh_dtensor_places(v, places)) snprintf(text, RSHI_PLACES_TEXT, "plain");
    else rshi_places_text(rsh_mesh_ndim(mesh), places, text);
}

/* "add: placements (S0) and (S1)": for an op that is refused. */
static rsh_status refuse(const rsh_grad_op *op, int nin, rsh_value *const *in, const char *why) {
    rshi_text list = {0};
    for (int i = 0; i < nin; i++) {
        char text[RSHI_PLACES_TEXT];
        if (!in[i]) continue;
        text_of(in[i], text);
        rshi_text_add(&list, "%s%s", list.length ? ", " : "", text);
    }
    rsh_status st =
        rshi_fail(RSH_EUNSUP, "%s of DTensors with placements %s: %s", op->name, list.data ? list.data : "?", why);
    rshi_text_free(&list);
    return st;
}

/* ---- applying ---- */

static rsh_status check_meshes(const rsh_grad_op *op, int nin, rsh_value *const *in, rsh_mesh **mesh) {
    *mesh = NULL;
    for (int i = 0; i < nin; i++) {
        rsh_mesh *other = rsh_dtensor_mesh(in[i]);
        if (other && *mesh && !rsh_mesh_equal(*mesh, other)) return refuse(op, nin, in, "the meshes differ");
        if (other) *mesh = other;
        RSH_REQUIRE(other || !rsh_value_sharded(in[i]), RSH_EVALUE,
                    "%s of a DTensor and a distributed value without a mesh", op->name);
    }
    return RSH_OK;
}

enum { MOST = 16 }; /* inputs or outputs of an op with a rule for layouts */

static void drop_layouts(int n, rsh_layout **list) {
    for (int i = 0; i < n; i++) rsh_layout_free(list[i]);
}

static rsh_status apply(const rsh_grad_op *op, const void *attrs, int nin, rsh_value *const *in, int nout,
                        rsh_value **out) {
    rsh_mesh *mesh;
    RSH_TRY(check_meshes(op, nin, in, &mesh));
    if (!op->layouts || nin > MOST || nout > MOST) return refuse(op, nin, in, "there is no rule for it");
    const rsh_layout *layouts[MOST] = {0};
    rsh_layout *given[MOST] = {0}, *grad_in[MOST] = {0}, *grad_out[MOST] = {0};
    for (int i = 0; i < nin; i++) layouts[i] = rsh_value_layout(in[i]);
    rsh_grad_layouts io = {.attrs = attrs,
                           .nin = nin,
                           .nout = nout,
                           .in = layouts,
                           .values = (const rsh_value *const *)in,
                           .out = given,
                           .grad_in = grad_in,
                           .grad_out = grad_out};
    rsh_status st = op->layouts(&io);
    rsh_grad_as as = {.out = (const rsh_layout *const *)given, .grad_in = (const rsh_layout *const *)grad_in,
                      .grad_out = (const rsh_layout *const *)grad_out, .reading = &rshi_dtensor_reading, .what = mesh};
    if (!st) st = rsh_grad_apply_as(op, attrs, nin, in, nout, &as, out);
    else if (st == RSH_EVALUE || st == RSH_EUNSUP) st = refuse(op, nin, in, "they do not go together");
    drop_layouts(nout, given);
    drop_layouts(nin, grad_in);
    drop_layouts(nout, grad_out);
    return st;
}

static void hold(void *what) { rsh_mesh_hold(what); }
static void drop(void *what) { rsh_mesh_free(what); }

const rsh_reading rshi_dtensor_reading = {.name = "DTensor", .apply = apply, .hold = hold, .drop = drop};

/* ---- questions ---- */

rsh_mesh *rsh_dtensor_mesh(const rsh_value *v) {
    void *what = NULL;
    return rsh_value_reading(v, &what) == &rshi_dtensor_reading ? what : NULL;
}

rsh_status rsh_dtensor_places(const rsh_value *v, rsh_place *places) {
    RSH_NEEDS(places);
    RSH_TRY(rshi_dtensor_require("rsh_dtensor_places", v));
    return rsh_mesh_places(rsh_dtensor_mesh(v), RSH_MESH_POSITIONS, rsh_value_layout(v), places);
}

rsh_status rshi_dtensor_require(const char *who, const rsh_value *v) {
    RSH_REQUIRE(rsh_dtensor_mesh(v), RSH_EVALUE, "%s: %s", who, v ? "the value is not a DTensor" : "the value is NULL");
    return RSH_OK;
}
