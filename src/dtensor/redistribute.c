/* Redistribute: moves a DTensor to other placements with one plan. */
#include "dtensor/dtensor.h"
#include "grad/grad.h"

/* A mesh dim may stay partial with its op, or stop being partial, but it cannot become partial. */
static rsh_status check_partial(int n, const rsh_place *from, const rsh_place *to) {
    for (int i = 0; i < n; i++) {
        if (to[i].kind != RSH_PLACE_PARTIAL) continue;
        bool same = from[i].kind == RSH_PLACE_PARTIAL && from[i].op == to[i].op;
        char text[RSHI_PLACES_TEXT];
        rshi_places_text(n, from, text);
        RSH_REQUIRE(same, RSH_ERUNTIME,
                    "redistribute: mesh dim %d cannot become partial with \"%s\"; the current placements are %s",
                    i, rsh_op_name(to[i].op), text);
    }
    return RSH_OK;
}

static rsh_status check_placements(rsh_value *v, int n, const rsh_place *places, rsh_dtype dtype, rsh_layout **to) {
    rsh_mesh *mesh = rsh_dtensor_mesh(v);
    rsh_place now[RSH_MAX_AXES];
    RSH_REQUIRE(places, RSH_ERUNTIME, "redistribute: places is NULL");
    RSH_REQUIRE(n == rsh_mesh_ndim(mesh), RSH_EVALUE, "redistribute: expected one placement per mesh dim (%d), got %d",
                rsh_mesh_ndim(mesh), n);
    RSH_TRY(rsh_dtensor_places(v, now));
    RSH_TRY(check_partial(n, now, places));
    return rshi_dtensor_layout(mesh, n, places, dtype, rsh_value_ndim(v), rsh_value_shape(v), to);
}

/* Finds the new layout; *out is NULL if it is unchanged.  An error on one rank is reported in the opening exchange of
 * the move.  If nothing moves, the ranks synchronize here to report it. */
static rsh_status find_target(rsh_value *v, int n, const rsh_place *places, rsh_dtype dtype, rsh_layout **to) {
    rsh_comm *comm = rsh_mesh_comm(rsh_dtensor_mesh(v));
    rsh_layout *found = NULL;
    rsh_status st = check_placements(v, n, places, dtype == RSH_DTYPE_NONE ? rsh_value_dtype(v) : dtype, &found);
    bool moves = !st && !rsh_layout_equal(found, rsh_value_layout(v));
    if (!moves) st = rsh_comm_agree(comm, st);
    if (!moves) rsh_layout_free(found);
    *to = moves ? found : NULL;
    return st;
}

rsh_status rsh_dtensor_redistribute(rsh_value *v, int n, const rsh_place *places, rsh_dtype dtype, rsh_value **out) {
    RSH_NEEDS(out);
    *out = NULL;
    if (!v) return RSH_OK;
    RSH_TRY(rshi_dtensor_require("rsh_dtensor_redistribute", v));
    rsh_layout *to = NULL;
    RSH_TRY(find_target(v, n, places, dtype, &to));
    if (!to) {
        *out = rsh_value_hold(v);
        return RSH_OK;
    }
    rsh_value *moved = NULL;
    rsh_status st = rsh_value_reshard(v, to, RSH_DERIVATIVE_BACKWARD, NULL, &moved);
    if (!st) st = rsh_value_set_kind(moved, &rshi_dtensor_kind, rsh_dtensor_mesh(v));
    rsh_layout_free(to);
    if (st) rsh_value_free(moved);
    else *out = moved;
    return st;
}

rsh_status rsh_dtensor_redistribute_begin(rsh_value *v, int n, const rsh_place *places, rsh_dtype dtype,
                                          rsh_value_transit **out) {
    RSH_NEEDS(out);
    if (!v) return rshi_value_transit_new_done(NULL, out);
    RSH_TRY(rshi_dtensor_require("rsh_dtensor_redistribute_begin", v));
    rsh_layout *to = NULL;
    RSH_TRY(find_target(v, n, places, dtype, &to));
    if (!to) return rshi_value_transit_new_done(v, out);
    rsh_status st = rsh_value_reshard_begin(v, to, RSH_DERIVATIVE_BACKWARD, NULL, out);
    rsh_layout_free(to);
    if (!st) rshi_value_transit_set_kind(*out, &rshi_dtensor_kind, rsh_dtensor_mesh(v));
    return st;
}

rsh_status rsh_dtensor_full_tensor(rsh_value *v, const rsh_place *grads, rsh_value **out) {
    RSH_NEEDS(out);
    *out = NULL;
    if (!v) return RSH_OK;
    RSH_TRY(rshi_dtensor_require("rsh_dtensor_full_tensor", v));
    rsh_place all[RSH_MAX_AXES];
    int n = rsh_mesh_ndim(rsh_dtensor_mesh(v));
    for (int i = 0; i < n; i++) all[i] = rsh_place_replicate();
    rsh_value *whole = NULL;
    RSH_TRY(rsh_dtensor_redistribute(v, n, all, RSH_DTYPE_NONE, &whole));
    rsh_status st = rsh_dtensor_to_local(whole, grads, out);
    rsh_value_free(whole);
    return st;
}
