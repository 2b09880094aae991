/* Sharded rule: applies ops to sharded tensors with the placement rules for DTensors.
 *
 * A sharded tensor has a layout on a mesh of ranks and no kind.  Its layout is converted to placements, which the
 * solver processes; the cut of each letter (chunks, cyclic, explicit sizes) is tracked separately.  If an input is
 * whole along a cut letter, each rank uses its range of it: a replicated input is cut within each rank, and a plain
 * input, which must be equal on all ranks, is a view.  Backward is the same, so each rank gets the gradient of its own
 * part of a plain input. */
#include "rule/rule.h"

#include <stdio.h>
#include <string.h>

#include "comm/comm.h"

enum { LETTERS = 32 };

typedef struct matching {
    rshi_rule_question q;
    rshi_outcome o;
    rsh_comm *comm;
    const rsh_layout_desc *mesh; /* axes and ranks of a distributed input */
    const rsh_cut *cut[LETTERS]; /* borrowed from a layout: how each letter is cut; NULL: the letter is not cut */
    rsh_layout *in[RSHI_RULE_MOST]; /* the layout to which each input is moved; NULL: no move */
    rsh_layout *out[RSHI_RULE_MOST];
} matching;

static rsh_status fail_unsupported(const matching *m, const char *why) {
    return rshi_fail(RSH_EUNSUP, "%s of sharded tensors: %s", m->q.op->name, why);
}

/* ---- does the rule apply? ---- */

static bool is_pointwise(const rsh_grad_op *op) { return op->layouts == rsh_grad_same_layout; }

static bool is_number(const rsh_value *v) { return rsh_tensor_count(rsh_value_tensor(v)) == 1; }

/* Returns whether all layouts are equal and plain values have one element and not more dims, so that the result has the
 * same layout and any layout is supported. */
static bool is_alike(int nin, rsh_value *const *in) {
    const rsh_layout *first = NULL;
    int ndim = 0;
    for (int i = 0; i < nin; i++) {
        const rsh_layout *l = rsh_value_layout(in[i]);
        if (in[i] && !l && !is_number(in[i])) return false;
        if (l && first && !rsh_layout_equal(l, first)) return false;
        if (l) first = l;
        if (!l && rsh_value_ndim(in[i]) > ndim) ndim = rsh_value_ndim(in[i]);
    }
    return !first || ndim <= rsh_layout_ndim(first);
}

static bool rule_applies(const rsh_grad_op *op, int nin, rsh_value *const *in) {
    bool sharded = false;
    for (int i = 0; i < nin; i++) {
        if (!in[i] || !rsh_value_sharded(in[i])) continue;
        if (rsh_value_get_kind(in[i], NULL)) return false;
        sharded = true;
    }
    return sharded && op->placements && !(is_pointwise(op) && is_alike(nin, in));
}

/* ---- the mesh and its cuts ---- */

static int64_t positions(const rsh_layout_desc *l) {
    int64_t n = 1;
    for (int a = 0; a < l->naxes; a++) n *= l->axis[a].size;
    return n;
}

static int64_t rank_at(const rsh_layout_desc *l, int64_t i) { return l->ranks ? l->ranks[i] : l->first_rank + i; }

static bool same_mesh(const rsh_layout_desc *a, const rsh_layout_desc *b) {
    if (a->naxes != b->naxes) return false;
    for (int k = 0; k < a->naxes; k++)
        if (a->axis[k].size != b->axis[k].size) return false;
    for (int64_t i = 0; i < positions(a); i++)
        if (rank_at(a, i) != rank_at(b, i)) return false;
    return true;
}

static bool same_cut(const rsh_cut *a, const rsh_cut *b) {
    if (a->naxes != b->naxes || a->rule != b->rule || a->nsizes != b->nsizes) return false;
    if ((a->rule == RSH_CUT_CYCLIC || a->rule == RSH_CUT_UNIT) && a->number != b->number) return false;
    for (int k = 0; k < a->naxes; k++)
        if (a->axes[k] != b->axes[k]) return false;
    return a->rule != RSH_CUT_SIZES || !memcmp(a->sizes, b->sizes, (size_t)a->nsizes * sizeof *a->sizes);
}

static rsh_status note_dim(matching *m, int i, int d, const rsh_dim *dim) {
    int letter = m->q.dims.in[i].letter[d];
    if (dim->nsegments) return fail_unsupported(m, "dims with segments are not supported");
    for (int k = 0; k < dim->cut.naxes; k++) m->o.in[i][dim->cut.axes[k]] = rsh_place_shard(d);
    if (!dim->cut.naxes || letter < 0) return RSH_OK; /* the solver rejects a cut without a letter */
    const rsh_cut **cut = &m->cut[letter];
    if (*cut && !same_cut(*cut, &dim->cut)) return fail_unsupported(m, "dims that must match are cut differently");
    *cut = &dim->cut;
    return RSH_OK;
}

static rsh_status note_input(matching *m, int i, const rsh_value *v) {
    const rsh_layout_desc *l = rsh_layout_describe(rsh_value_layout(v));
    if (l->is_boxes || l->flat.naxes) return fail_unsupported(m, "the layout must give each rank of a mesh one part");
    if (l->op) return fail_unsupported(m, "inputs must not be partial; reduce them first");
    RSH_REQUIRE(!m->comm || rsh_value_comm(v) == m->comm, RSH_EVALUE, "%s: sharded tensors must have the same comm",
                m->q.op->name);
    if (m->mesh && !same_mesh(m->mesh, l)) return fail_unsupported(m,
            "the meshes of the inputs must have the same axes and ranks");
    m->mesh = l;
    m->comm = rsh_value_comm(v);
    for (int d = 0; d < l->ndim; d++) RSH_TRY(note_dim(m, i, d, &l->dim[d]));
    return RSH_OK;
}

/* Rejects ranges of a cut letter: they would be cut like the letter, and not into chunks. */
static rsh_status check_ranges(const matching *m, int n, const rsh_rule_tensor *t) {
    for (int i = 0; i < n; i++)
        for (int d = 0; d < t[i].ndim; d++)
            RSH_REQUIRE(!t[i].of[d] || t[i].letter[d] < 0 || !m->cut[(int)t[i].letter[d]], RSH_EUNSUP,
                        "%s of sharded tensors: dim %d must not be cut", m->q.op->name, d);
    return RSH_OK;
}

/* Reads the placements of the inputs.  Dims that are not cut are replicated, which zeroed placements express. */
static rsh_status read_inputs(matching *m, rsh_value *const *in) {
    for (int i = 0; i < m->q.dims.nin; i++) {
        m->q.placed[i] = in[i] != NULL;
        if (in[i] && rsh_value_sharded(in[i])) RSH_TRY(note_input(m, i, in[i]));
    }
    m->q.naxes = m->mesh->naxes;
    memcpy(m->o.was, m->o.in, sizeof m->o.was);
    RSH_TRY(check_ranges(m, m->q.dims.nin, m->q.dims.in));
    return check_ranges(m, m->q.dims.nout, m->q.dims.out);
}

/* ---- resulting layouts ---- */

static rsh_status layout_for(const matching *m, const rsh_place *places, const rsh_rule_tensor *t, rsh_layout **out) {
    rsh_layout_desc l = *m->mesh;
    l.dtype = t->dtype;
    l.ndim = t->ndim;
    l.has_order = false;
    for (int d = 0; d < t->ndim; d++) l.dim[d] = (rsh_dim){.size = t->shape[d]};
    for (int a = 0; a < l.naxes; a++)
        if (places[a].kind == RSH_PLACE_SHARD) l.dim[places[a].dim].cut = *m->cut[(int)t->letter[places[a].dim]];
    return rsh_layout_new(&l, out);
}

static bool is_partial(const matching *m, const rsh_place *places) {
    for (int a = 0; a < m->q.naxes; a++)
        if (places[a].kind == RSH_PLACE_PARTIAL) return true;
    return false;
}

static rsh_status layouts_for_all(matching *m) {
    for (int i = 0; i < m->q.dims.nout; i++) {
        if (is_partial(m, m->o.out[i])) return fail_unsupported(m, "the result would be a sum over a cut dim");
        RSH_TRY(layout_for(m, m->o.out[i], &m->q.dims.out[i], &m->out[i]));
    }
    for (int i = 0; i < m->q.dims.nin; i++)
        if (m->q.placed[i] && !rsh_places_equal(0, m->q.naxes, m->o.was[i], m->o.in[i]))
            RSH_TRY(layout_for(m, m->o.in[i], &m->q.dims.in[i], &m->in[i]));
    return RSH_OK;
}

static rsh_status check_chunks(const matching *m, rsh_value *const *in, char why[RSHI_WHY]) {
    const rsh_layout *brought[RSHI_RULE_MOST];
    for (int i = 0; i < m->q.dims.nin; i++) brought[i] = m->in[i] ? m->in[i] : rsh_value_layout(in[i]);
    return rshi_rule_check_chunks(&m->q, brought, (const rsh_layout *const *)m->out, why);
}

/* Checks that every rank has a part if the op makes collective calls, because all ranks must take part in these. */
static rsh_status check_ranks(const matching *m) {
    for (int letter = 0; letter < LETTERS; letter++)
        if (m->cut[letter] && (m->q.dims.own >> letter & 1) && positions(m->mesh) != rsh_comm_size(m->comm))
            return fail_unsupported(m, "every rank of the comm must have a part");
    return RSH_OK;
}

static rsh_status find_layouts(matching *m, rsh_value *const *in) {
    char why[RSHI_WHY] = "";
    RSH_TRY(read_inputs(m, in));
    RSH_TRY(check_ranks(m));
    rsh_status st = rshi_rule_solve(&m->q, &m->o, why);
    if (!st) st = layouts_for_all(m);
    if (!st) st = check_chunks(m, in, why);
    return st && *why ? fail_unsupported(m, why) : st;
}

/* ---- inputs ---- */

static rsh_status check_plain(const matching *m, const rsh_value *v) {
    bool number = rsh_value_dtype(v) == RSH_F32 || rsh_value_dtype(v) == RSH_F64;
    RSH_REQUIRE(!is_pointwise(m->q.op) || !number || is_number(v), RSH_EVALUE,
                "%s: cannot combine a sharded tensor with a plain one of %lld elements; only plain scalars are "
                "supported",
                m->q.op->name, (long long)rsh_tensor_count(rsh_value_tensor(v)));
    return RSH_OK;
}

static rsh_status move_input(const matching *m, int i, rsh_value *v, rsh_value **out) {
    int rank = rsh_comm_rank(m->comm);
    if (v && !rsh_value_sharded(v)) RSH_TRY(check_plain(m, v));
    if (m->in[i] && rsh_value_sharded(v)) return rsh_value_reshard(v, m->in[i], RSH_DERIVATIVE_ADJOINT, NULL, out);
    if (m->in[i] && rsh_layout_nparts(m->in[i], rank) == 1) return rshi_own_box_take(v, m->comm, m->in[i], out);
    *out = rsh_value_hold(v);
    return RSH_OK;
}

/* ---- applying ---- */

static bool input_moves(const matching *m, int i, const rsh_value *v) {
    return v && rsh_value_sharded(v) && !rsh_places_equal(0, m->q.naxes, m->o.was[i], m->o.in[i]);
}

/* Returns whether ranks communicate after input i: to move another input, or in the op. */
static bool communicates_after(const matching *m, int i, rsh_value *const *in) {
    bool meet = rshi_rule_calls(&m->q, &m->o);
    while (++i < m->q.dims.nin) meet |= input_moves(m, i, in[i]);
    return meet;
}

static rsh_status move_inputs(const matching *m, rsh_value *const *in, rsh_value **brought) {
    uint64_t calls = m->comm->calls;
    for (int i = 0; i < m->q.dims.nin; i++) {
        rsh_status st = move_input(m, i, in[i], &brought[i]);
        if (st) return communicates_after(m, i, in) ? rshi_comm_tell(m->comm, calls, st) : st;
    }
    return RSH_OK;
}

static rsh_status apply_here(const matching *m, const void *attrs, rsh_value *const *in, rsh_value **out) {
    rsh_grad_apply_opts as = {.struct_size = sizeof as, .comm = m->comm, .out = (const rsh_layout *const *)m->out};
    uint64_t calls = m->comm->calls;
    rsh_status st = rsh_grad_apply_with(m->q.op, attrs, m->q.dims.nin, in, m->q.dims.nout, &as, out);
    bool in_op = rshi_rule_calls(&m->q, &m->o) &&
                 /* the other ranks are in the op, but this rank failed before its collective calls */
                 m->comm->calls == calls;
    return in_op ? rshi_comm_tell(m->comm, calls, st) : st;
}

static rsh_status apply_rule(const matching *m, const void *attrs, rsh_value *const *in, rsh_value **out) {
    rsh_value *brought[RSHI_RULE_MOST] = {0};
    rsh_status st = move_inputs(m, in, brought);
    if (!st) st = apply_here(m, attrs, brought, out);
    for (int i = 0; i < m->q.dims.nin; i++) rsh_value_free(brought[i]);
    return st;
}

/* Returns whether the other ranks will communicate.  Uses only the stack, for a rank that has run out of memory. */
static bool others_communicate(const rsh_grad_op *op, const void *attrs, int nin, rsh_value *const *in, int nout,
                               rsh_comm **comm) {
    matching m;
    char why[RSHI_WHY];
    memset(&m, 0, sizeof m);
    if (rshi_rule_ask(op, attrs, nin, in, nout, &m.q) || read_inputs(&m, in) || check_ranks(&m)) return false;
    *comm = m.comm;
    return !rshi_rule_solve(&m.q, &m.o, why) && communicates_after(&m, -1, in);
}

static rsh_status tell_no_memory(const rsh_grad_op *op, const void *attrs, int nin, rsh_value *const *in, int nout) {
    char detail[RSHI_DETAIL_BYTES];
    rsh_comm *comm = NULL;
    snprintf(detail, sizeof detail, "%s", rsh_error_detail());
    bool meet = others_communicate(op, attrs, nin, in, nout, &comm);
    rshi_set_detail(detail);
    return meet ? rsh_comm_agree(comm, RSH_ENOMEM) : RSH_ENOMEM;
}

static void free_matching(matching *m) {
    for (int i = 0; i < RSHI_RULE_MOST; i++) {
        rsh_layout_free(m->in[i]);
        rsh_layout_free(m->out[i]);
    }
    rshi_free(m);
}

rsh_status rsh_rule_apply(const rsh_grad_op *op, const void *attrs, int nin, rsh_value *const *in, int nout,
                          rsh_value **out) {
    bool wrong = !op || !in || !out || nout < 1; /* rsh_grad_apply reports these errors */
    if (wrong || !rule_applies(op, nin, in)) return rsh_grad_apply(op, attrs, nin, in, nout, out);
    matching *m = RSHI_NEW(matching);
    rsh_status st = m ? rshi_rule_ask(op, attrs, nin, in, nout, &m->q) : rshi_nomem();
    if (!st) st = find_layouts(m, in);
    if (!st)
        st = apply_rule(m, attrs, in, out);
    else if (st == RSH_ENOMEM)
        st = tell_no_memory(op, attrs, nin, in, nout);
    if (m) free_matching(m);
    return st;
}
