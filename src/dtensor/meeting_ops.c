/* Meeting ops: applies ops to DTensors.
 *
 * The op's rule and the placements of its inputs give a solution: the layouts to which inputs are moved, and the
 * layouts of outputs and gradients.  Then the op runs on this rank's parts.  If there is no solution, the call fails
 * and names the op and the placements: nothing is ever gathered implicitly. */
#include "dtensor/solution.h"

#include <stdio.h>
#include <string.h>

#include "comm/comm.h"

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

/* Fails with "add of DTensors with placements (S0), (S1): why". */
static rsh_status fail_unsupported(const rsh_grad_op *op, int nin, rsh_value *const *in, const char *why) {
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

/* ---- checking the meshes ---- */

static rsh_status check_meshes(const rsh_grad_op *op, int nin, rsh_value *const *in, rsh_mesh **mesh) {
    *mesh = NULL;
    for (int i = 0; i < nin; i++) {
        rsh_mesh *other = rsh_dtensor_mesh(in[i]);
        if (other && *mesh && !rsh_mesh_equal(*mesh, other))
            return fail_unsupported(op, nin, in, "meshes must be equal");
        if (other && !*mesh) *mesh = other;
        RSH_REQUIRE(other || !rsh_value_sharded(in[i]), RSH_EVALUE,
                    "%s: cannot combine a DTensor with a distributed value that has no mesh", op->name);
    }
    return RSH_OK;
}

/* ---- plain tensors: scalars, and indices, masks and targets, which are equal on every rank ---- */

static bool is_index_or_mask(const rsh_value *v) {
    rsh_dtype dtype = rsh_value_dtype(v);
    return dtype == RSH_I64 || dtype == RSH_BOOL || dtype == RSH_U8;
}

static rsh_status replicate(rsh_value *v, rsh_mesh *mesh, rsh_value **out) {
    rsh_layout *l = NULL;
    rshi_places places;
    int n = rsh_mesh_ndim(mesh);
    for (int a = 0; a < n; a++) places[a] = rsh_place_replicate();
    RSH_TRY(rshi_dtensor_layout(mesh, n, places, rsh_value_dtype(v), rsh_value_ndim(v), rsh_value_shape(v), &l));
    rsh_status st = rsh_value_from_local(v, rsh_mesh_comm(mesh), l, out);
    rsh_layout_free(l);
    return st ? st : rsh_value_set_kind(*out, &rshi_dtensor_kind, mesh);
}

/* Returns whether a plain value must be replicated.  A scalar can be combined with any placement. */
static bool is_plain(const rsh_value *v) {
    return v && !rsh_value_sharded(v) && (is_index_or_mask(v) || rsh_tensor_count(rsh_value_tensor(v)) != 1);
}

static rsh_status prepare_input(const rsh_grad_op *op, rsh_mesh *mesh, rsh_value *v, rsh_value **out) {
    *out = is_plain(v) ? NULL : rsh_value_hold(v);
    if (!is_plain(v)) return RSH_OK;
    RSH_REQUIRE(!rsh_dtensor_part_mesh(v), RSH_EVALUE, "%s: cannot combine a DTensor with this rank's part of one",
                op->name);
    RSH_REQUIRE(is_index_or_mask(v), RSH_EVALUE,
                "%s: cannot combine a DTensor with a plain tensor of %lld elements; distribute it, or use the "
                "DTensor's local part",
                op->name, (long long)rsh_tensor_count(rsh_value_tensor(v)));
    return replicate(v, mesh, out);
}

/* ---- applying ---- */

/* If the value has become partial, it counts only at coordinate 0 of its new partial axes. */
static rsh_status take_own_part(rsh_value *v, rsh_mesh *mesh, const rsh_layout *to, rsh_value **out) {
    const rsh_layout_desc *was = rsh_layout_describe(rsh_value_layout(v)), *is = rsh_layout_describe(to);
    rsh_grad_apply_opts as = {.struct_size = sizeof as, .out = &to, .kind = &rshi_dtensor_kind, .kind_data = mesh};
    bool counts = true;
    for (int i = 0; i < is->npartial; i++) {
        bool before = false;
        for (int j = 0; j < was->npartial; j++) before |= was->partial[j] == is->partial[i];
        counts &= before || !rsh_mesh_coordinate(mesh)[is->partial[i]];
    }
    return rshi_own_part_take(v, counts, &as, out);
}

static rsh_status move_to_layout(rsh_value *v, rsh_mesh *mesh, const rsh_layout *to, rsh_value **out) {
    RSH_TRY(rsh_value_reshard(v, to, RSH_DERIVATIVE_BACKWARD, NULL, out));
    return rsh_value_set_kind(*out, &rshi_dtensor_kind, mesh);
}

/* Returns whether output i or a later one moves. */
static bool outputs_move(const rshi_solution *s, int i) {
    bool moves = false;
    for (; i < s->nout; i++) moves |= s->made[i] != NULL;
    return moves;
}

/* Returns whether ranks communicate after input i: to move a later input, in the op, or to move outputs. */
static bool communicates_after(const rshi_solution *s, int i) {
    bool meet = s->calls || outputs_move(s, 0);
    while (++i < s->nin) meet |= s->wanted[i] && !s->at_home[i];
    return meet;
}

/* Moves the inputs as the solution requires; moved inputs are owned. */
static rsh_status bring_inputs(const rshi_solution *s, rsh_mesh *mesh, rsh_value *const *in, rsh_value **brought) {
    rsh_comm *comm = rsh_mesh_comm(mesh);
    uint64_t calls = comm->calls;
    for (int i = 0; i < s->nin; i++) {
        brought[i] = rsh_value_hold(in[i]);
        if (!s->wanted[i]) continue;
        rsh_value_free(brought[i]);
        brought[i] = NULL;
        rsh_status st = (s->at_home[i] ? take_own_part : move_to_layout)(in[i], mesh, s->wanted[i], &brought[i]);
        if (st) return communicates_after(s, i) ? rshi_comm_tell(comm, calls, st) : st;
    }
    return RSH_OK;
}

/* Applies the op to this rank's parts. */
static rsh_status apply_here(const rshi_solution *s, const void *attrs, rsh_value *const *in,
                             const rsh_grad_apply_opts *as, rsh_value **out) {
    uint64_t calls = as->comm->calls;
    rsh_status st = rsh_grad_apply_with(s->op, attrs, s->nin, in, s->nout, as, out);
    /* the other ranks are in the op, but this rank failed before its collective calls */
    bool in_op = s->calls && as->comm->calls == calls;
    return in_op || outputs_move(s, 0) ? rshi_comm_tell(as->comm, calls, st) : st;
}

/* Moves outputs that the op has created as ranges to chunks.  Either all outputs exist afterwards, or none. */
static rsh_status place_outputs(const rshi_solution *s, rsh_mesh *mesh, rsh_value **out) {
    rsh_comm *comm = rsh_mesh_comm(mesh);
    uint64_t calls = comm->calls;
    rsh_status st = RSH_OK;
    for (int i = 0; !st && i < s->nout; i++) {
        rsh_value *made = out[i];
        if (!s->made[i] || !made) continue;
        out[i] = NULL;
        st = move_to_layout(made, mesh, s->out[i], &out[i]);
        if (outputs_move(s, i + 1)) st = rshi_comm_tell(comm, calls, st);
        rsh_value_free(made);
    }
    for (int i = 0; st && i < s->nout; i++) {
        rsh_value_free(out[i]);
        out[i] = NULL;
    }
    return st;
}

static rsh_status run_solution(const rshi_solution *s, rsh_mesh *mesh, const void *attrs, rsh_value *const *in,
                               rsh_value **out) {
    rsh_value *brought[RSHI_RULE_MOST] = {0};
    const rsh_layout *made[RSHI_RULE_MOST];
    for (int i = 0; i < s->nout; i++) made[i] = s->made[i] ? s->made[i] : s->out[i];
    rsh_grad_apply_opts as = {.struct_size = sizeof as,
                              .comm = rsh_mesh_comm(mesh),
                              .out = made,
                              .grad_in = (const rsh_layout *const *)s->grad,
                              .kind = &rshi_dtensor_kind,
                              .kind_data = mesh};
    rsh_status st = bring_inputs(s, mesh, in, brought);
    if (!st) st = apply_here(s, attrs, brought, &as, out);
    for (int i = 0; i < s->nin; i++) rsh_value_free(brought[i]);
    return st ? st : place_outputs(s, mesh, out);
}

static unsigned letters_cut(const rsh_rule_tensor *t, const rsh_value *v) {
    const rsh_layout *l = rsh_value_layout(v);
    unsigned cut = 0;
    for (int d = 0; l && d < t->ndim; d++)
        if (t->letter[d] >= 0 && rsh_layout_describe(l)->dim[d].cut.naxes) cut |= 1u << t->letter[d];
    return cut;
}

/* Returns whether plain scalars fit.  A plain scalar is equal on every rank, even if a cut input has no rows there.  A
 * pointwise op broadcasts it.  Any other op needs one scalar for each row of a cut input, so it could not run on a rank
 * without rows. */
static bool numbers_fit(const rshi_rule_question *q, rsh_value *const *in) {
    unsigned cut = 0;
    if (q->op->layouts == rsh_grad_same_layout) return true;
    for (int i = 0; i < q->dims.nin; i++) cut |= in[i] ? letters_cut(&q->dims.in[i], in[i]) : 0;
    for (int i = 0; i < q->dims.nin; i++)
        for (int d = 0; in[i] && !rsh_value_layout(in[i]) && d < q->dims.in[i].ndim; d++)
            if (q->dims.in[i].letter[d] >= 0 && cut >> q->dims.in[i].letter[d] & 1) return false;
    return true;
}

/* *solved tells whether there is a solution; running it then tells the other ranks of errors. */
static rsh_status apply_prepared(const rsh_grad_op *op, const void *attrs, rsh_mesh *mesh, int nin,
                                 rsh_value *const *in, int nout, rsh_value **out, bool *solved) {
    rshi_rule_question q;
    const rsh_layout *layouts[RSHI_RULE_MOST];
    const rshi_solution *s = NULL;
    char why[RSHI_WHY] = "";
    RSH_TRY(rshi_rule_ask(op, attrs, nin, in, nout, &q));
    if (!numbers_fit(&q, in)) return fail_unsupported(op, nin, in, "a dim of the plain tensor is cut; distribute it");
    q.naxes = rsh_mesh_ndim(mesh);
    for (int i = 0; i < nin; i++) {
        layouts[i] = rsh_value_layout(in[i]);
        q.placed[i] = layouts[i] != NULL;
    }
    rsh_status st = rshi_solution_find(mesh, &q, layouts, &s, why);
    if (st == RSH_EUNSUP && !*why) snprintf(why, sizeof why, "%s", rsh_error_detail());
    if (st == RSH_EUNSUP) return fail_unsupported(op, nin, in, why);
    *solved = !st;
    return st ? st : run_solution(s, mesh, attrs, in, out);
}

/* Returns whether the other ranks will communicate, if this rank lacks memory to compute the solution. */
static bool others_communicate(const rsh_grad_op *op, const void *attrs, rsh_mesh *mesh, int nin, rsh_value *const *in,
                               int nout) {
    rshi_rule_question q;
    const rsh_layout *layouts[RSHI_RULE_MOST];
    if (rshi_rule_ask(op, attrs, nin, in, nout, &q)) return false;
    q.naxes = rsh_mesh_ndim(mesh);
    for (int i = 0; i < nin; i++) {
        layouts[i] = rsh_value_layout(in[i]);
        q.placed[i] = layouts[i] || is_plain(in[i]);
    }
    return rshi_solution_meets(mesh, &q, layouts);
}

static rsh_status apply_to_dtensors(const rsh_grad_op *op, const void *attrs, int nin, rsh_value *const *in, int nout,
                                    rsh_value **out) {
    rsh_mesh *mesh;
    rsh_value *taken[RSHI_RULE_MOST];
    RSH_TRY(check_meshes(op, nin, in, &mesh));
    if (!op->placements && op->layouts != rsh_grad_same_layout)
        return fail_unsupported(op, nin, in, "this op has no placement rule");
    if (nin > RSHI_RULE_MOST || nout > RSHI_RULE_MOST) return fail_unsupported(op, nin, in, "too many inputs");
    rsh_status st = RSH_OK;
    bool solved = false;
    int n = 0;
    while (!st && n < nin) {
        st = prepare_input(op, mesh, in[n], &taken[n]);
        n++;
    }
    if (!st) st = apply_prepared(op, attrs, mesh, nin, taken, nout, out, &solved);
    while (n--) rsh_value_free(taken[n]);
    if (st != RSH_ENOMEM || solved) return st;
    return others_communicate(op, attrs, mesh, nin, in, nout) ? rsh_comm_agree(rsh_mesh_comm(mesh), st) : st;
}

static void hold_mesh(void *kind_data) { rsh_mesh_hold(kind_data); }
static void drop_mesh(void *kind_data) { rsh_mesh_free(kind_data); }

const rsh_value_kind rshi_dtensor_kind = {
    .name = "DTensor", .apply = apply_to_dtensors, .hold = hold_mesh, .drop = drop_mesh};

/* ---- getters ---- */

rsh_mesh *rsh_dtensor_mesh(const rsh_value *v) {
    void *kind_data = NULL;
    return rsh_value_get_kind(v, &kind_data) == &rshi_dtensor_kind ? kind_data : NULL;
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
