/* Sharded rule: ops on sharded tensors, by the rules that they have for DTensors.
 *
 * A sharded tensor has a layout on a mesh of ranks and no reading.  The op's rule says by letters which dims of inputs
 * and outputs belong together (<reshard/dtensor.h>); dims of the outputs are cut as those of the inputs with the same
 * letter.  Inputs that have a cut letter as a whole give each rank its range: replicated ones by a move inside the
 * rank, plain ones, which are the same on all ranks, by a view.  Gradients go back the same way, so of a plain input
 * each rank gets the gradient of its own part. */
#include "nn/sharded_rule.h"

#include <string.h>

#include "nn/impl.h"

enum { LETTERS = 32, MOST = 64 };

/* The dim of an input that says how a letter is cut. */
typedef struct letter_cut {
    const rsh_cut *cut; /* borrowed from a layout; NULL: the letter is not cut */
    int64_t size, unit; /* of that dim */
} letter_cut;

typedef struct matching {
    const rsh_grad_op *op;
    rsh_rule_dims dims;
    rsh_comm *comm;
    const rsh_layout_desc *mesh; /* of the first distributed input: axes and ranks */
    letter_cut by[LETTERS];
} matching;

static rsh_status refuse(const matching *m, const char *why) {
    return rshn_fail(RSH_EUNSUP, "%s of sharded tensors: %s", m->op->name, why);
}

/* ---- is it a case for a rule? ---- */

static bool is_pointwise(const rsh_grad_op *op) { return op->layouts == rsh_grad_same_layout; }

static bool is_number(const rsh_value *v) { return rsh_tensor_count(rsh_value_tensor(v)) == 1; }

/* Equal layouts, and plain values of one element: any layout will do. */
static bool is_alike(int nin, rsh_value *const *in) {
    const rsh_layout *first = NULL;
    for (int i = 0; i < nin; i++) {
        const rsh_layout *l = rsh_value_layout(in[i]);
        if (in[i] && !l && !is_number(in[i])) return false;
        if (l && first && !rsh_layout_equal(l, first)) return false;
        if (l) first = l;
    }
    return true;
}

bool rshn_rule_applies(const rsh_grad_op *op, int nin, rsh_value *const *in) {
    bool sharded = false;
    for (int i = 0; i < nin; i++) {
        if (!in[i] || !rsh_value_sharded(in[i])) continue;
        if (rsh_value_reading(in[i], NULL)) return false;
        sharded = true;
    }
    return sharded && op->placements && nin <= MOST && !(is_pointwise(op) && is_alike(nin, in));
}

/* ---- the dims ---- */

static void describe(const rsh_value *v, rsh_rule_tensor *t) {
    memset(t, 0, sizeof *t);
    memset(t->letter, RSH_DIM_WHOLE, sizeof t->letter);
    for (int d = 0; d < RSH_MAX_NDIM; d++) t->unit[d] = 1;
    t->term = RSH_TERM_NONE;
    t->ndim = v ? rsh_value_ndim(v) : -1;
    if (!v) return;
    t->dtype = rsh_value_dtype(v);
    memcpy(t->shape, rsh_value_shape(v), (size_t)t->ndim * sizeof *t->shape);
}

static rsh_status ask_rule(matching *m, rsh_value *const *in) {
    for (int i = 0; i < m->dims.nin; i++) describe(in[i], &m->dims.in[i]);
    for (int i = 0; i < m->dims.nout; i++) {
        describe(NULL, &m->dims.out[i]);
        m->dims.out[i].ndim = 0;
        m->dims.out[i].dtype = rsh_value_dtype(in[0]);
    }
    return m->op->placements->dims(&m->dims);
}

static int dim_of(const rsh_rule_tensor *t, int letter) {
    for (int d = 0; d < t->ndim; d++)
        if (t->letter[d] == letter) return d;
    return -1;
}

/* ---- the mesh, and what it cuts ---- */

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
    if ((a->rule == RSH_RULE_CYCLIC || a->rule == RSH_RULE_UNIT) && a->number != b->number) return false;
    for (int k = 0; k < a->naxes; k++)
        if (a->axes[k] != b->axes[k]) return false;
    return a->rule != RSH_RULE_SIZES || !memcmp(a->sizes, b->sizes, (size_t)a->nsizes * sizeof *a->sizes);
}

static rsh_status note_dim(matching *m, const rsh_rule_tensor *t, int d, const rsh_dim *dim) {
    int letter = t->letter[d];
    if (dim->nsegments) return refuse(m, "a dim is made of segments");
    if (!dim->cut.naxes) return RSH_OK;
    if (letter < 0) return rshn_fail(RSH_EUNSUP, "%s of sharded tensors: dim %d is cut", m->op->name, d);
    letter_cut *by = &m->by[letter];
    if (by->cut && !same_cut(by->cut, &dim->cut)) return refuse(m, "dims that belong together are cut differently");
    *by = (letter_cut){&dim->cut, t->shape[d], t->unit[d]};
    return RSH_OK;
}

static rsh_status note_input(matching *m, int i, const rsh_value *v) {
    const rsh_layout_desc *l = rsh_layout_describe(rsh_value_layout(v));
    if (l->is_boxes || l->flat.naxes) return refuse(m, "the layout is not one part for each rank of a mesh");
    if (l->op) return refuse(m, "an input is partial");
    if (m->comm && rsh_value_comm(v) != m->comm)
        return rshn_fail(RSH_EVALUE, "%s of sharded tensors that live on different comms", m->op->name);
    if (m->mesh && !same_mesh(m->mesh, l)) return refuse(m, "their ranks differ");
    m->mesh = l;
    m->comm = rsh_value_comm(v);
    for (int d = 0; d < l->ndim; d++) NN_TRY(note_dim(m, &m->dims.in[i], d, &l->dim[d]));
    return RSH_OK;
}

/* An axis cuts one letter. */
static rsh_status check_axes(const matching *m) {
    unsigned seen = 0;
    for (int letter = 0; letter < LETTERS; letter++) {
        const rsh_cut *cut = m->by[letter].cut;
        for (int k = 0; cut && k < cut->naxes; k++) {
            if (seen >> cut->axes[k] & 1) return refuse(m, "they cut dims that do not belong together");
            seen |= 1u << cut->axes[k];
        }
    }
    return RSH_OK;
}

static rsh_status check_ranges(const matching *m, int n, const rsh_rule_tensor *t) {
    for (int i = 0; i < n; i++)
        for (int d = 0; d < t[i].ndim; d++)
            if (t[i].of[d] && t[i].letter[d] >= 0 && m->by[(int)t[i].letter[d]].cut)
                return rshn_fail(RSH_EUNSUP, "%s of sharded tensors: dim %d is cut", m->op->name, d);
    return RSH_OK;
}

/* ---- layouts that follow ---- */

/* Where part i of a dim of n ends; the axes cut one after the other, the first one slowest. */
static int64_t end_of(const matching *m, const rsh_cut *cut, int64_t n, int64_t i, int64_t parts) {
    int64_t lo = 0;
    for (int k = 0; k < cut->naxes; k++) {
        int64_t each = m->mesh->axis[cut->axes[k]].size, size = (n + each - 1) / each;
        parts /= each;
        int64_t from = size * (i / parts % each);
        from = from < n ? from : n;
        lo += from;
        n = size < n - from ? size : n - from;
    }
    return lo + n;
}

/* Do chunks of n dims of `unit` elements end where those of the letter do? */
static bool same_chunks(const matching *m, const letter_cut *by, int64_t n, int64_t unit) {
    int64_t parts = 1;
    if (by->unit == unit) return true;
    if (by->cut->rule != RSH_RULE_CHUNK) return false;
    for (int k = 0; k < by->cut->naxes; k++) parts *= m->mesh->axis[by->cut->axes[k]].size;
    for (int64_t i = 0; i < parts; i++)
        if (end_of(m, by->cut, by->size, i, parts) * by->unit != end_of(m, by->cut, n, i, parts) * unit) return false;
    return true;
}

static rsh_status lay_out(const matching *m, const rsh_rule_tensor *t, rsh_layout **out) {
    rsh_layout_desc l = *m->mesh;
    l.dtype = t->dtype;
    l.ndim = t->ndim;
    l.has_order = false;
    for (int d = 0; d < t->ndim; d++) {
        const letter_cut *by = t->letter[d] < 0 ? NULL : &m->by[(int)t->letter[d]];
        l.dim[d] = (rsh_dim){.size = t->shape[d]};
        if (!by || !by->cut) continue;
        if (!same_chunks(m, by, t->shape[d], t->unit[d]))
            return rshn_fail(RSH_EUNSUP, "%s of sharded tensors: the chunks of dim %d would end elsewhere",
                             m->op->name, d);
        l.dim[d].cut = *by->cut;
    }
    return rsh_layout_new(&l, out);
}

/* Outputs have every letter that is cut, unless the op adds up over it by itself. */
static rsh_status lay_out_outputs(const matching *m, rsh_layout **out) {
    for (int i = 0; i < m->dims.nout; i++) {
        for (int letter = 0; letter < LETTERS; letter++)
            if (m->by[letter].cut && !(m->dims.own >> letter & 1) && dim_of(&m->dims.out[i], letter) < 0)
                return refuse(m, "the result is a sum over a dim that is cut");
        NN_TRY(lay_out(m, &m->dims.out[i], &out[i]));
    }
    return RSH_OK;
}

/* ---- inputs ---- */

/* Is a dim of input i to be cut that is not? */
static bool is_to_be_cut(const matching *m, int i, const rsh_value *v) {
    const rsh_rule_tensor *t = &m->dims.in[i];
    const rsh_layout_desc *l = rsh_value_sharded(v) ? rsh_layout_describe(rsh_value_layout(v)) : NULL;
    for (int d = 0; d < t->ndim; d++)
        if (t->letter[d] >= 0 && m->by[(int)t->letter[d]].cut && !(l && l->dim[d].cut.naxes)) return true;
    return false;
}

typedef struct one_range {
    int n;
    int64_t lo, hi;
} one_range;
static int take_range(void *ctx, int64_t lo, int64_t hi) {
    one_range *r = ctx;
    *r = (one_range){r->n + 1, lo, hi};
    return 0;
}

/* This rank's box of a plain value that is the same on all ranks. */
static rsh_status own_box(const matching *m, const rsh_layout *l, rsh_value *v, rsh_value **out) {
    rsh_value *at = rsh_value_hold(v);
    rsh_status st = RSH_OK;
    int dims = rsh_layout_nparts(l, rsh_comm_rank(m->comm)) == 1 ? rsh_value_ndim(v) : 0; /* no part, no box */
    for (int d = 0; !st && d < dims; d++) {
        one_range r = {0};
        rsh_value *next = NULL;
        st = rsh_layout_index_set(l, rsh_comm_rank(m->comm), 0, d, take_range, &r);
        if (!st && r.n > 1) st = refuse(m, "a rank's part of a plain input is not one range");
        if (!st) st = rsh_nn_narrow(at, d, r.lo, r.hi - r.lo, &next);
        if (st) break;
        rsh_value_free(at);
        at = next;
    }
    if (st) rsh_value_free(at);
    else *out = at;
    return st;
}

static rsh_status check_plain(const matching *m, const rsh_value *v) {
    bool number = rsh_value_dtype(v) == RSH_F32 || rsh_value_dtype(v) == RSH_F64;
    if (!is_pointwise(m->op) || !number || is_number(v)) return RSH_OK;
    return rshn_fail(RSH_EVALUE, "%s of a sharded tensor and a plain one of %s: a plain one has one element here",
                     m->op->name, rshn_shape_text(rsh_value_tensor(v)));
}

static rsh_status bring(const matching *m, int i, rsh_value *v, rsh_value **out) {
    rsh_layout *l = NULL;
    if (v && !rsh_value_sharded(v)) NN_TRY(check_plain(m, v));
    if (!v || !is_to_be_cut(m, i, v)) return *out = rsh_value_hold(v), RSH_OK;
    NN_TRY(lay_out(m, &m->dims.in[i], &l));
    rsh_status st = rsh_value_sharded(v) ? rsh_value_reshard(v, l, RSH_DERIVATIVE_ADJOINT, NULL, out)
                                         : own_box(m, l, v, out);
    rsh_layout_free(l);
    return st;
}

/* ---- applying ---- */

static rsh_status find_cuts(matching *m, rsh_value *const *in) {
    for (int i = 0; i < m->dims.nin; i++)
        if (in[i] && rsh_value_sharded(in[i])) NN_TRY(note_input(m, i, in[i]));
    NN_TRY(check_ranges(m, m->dims.nin, m->dims.in));
    NN_TRY(check_ranges(m, m->dims.nout, m->dims.out));
    return check_axes(m);
}

/* An op that makes collective calls needs all ranks: those without a part cannot take part. */
static rsh_status check_ranks(const matching *m) {
    for (int letter = 0; letter < LETTERS; letter++)
        if (m->by[letter].cut && (m->dims.own >> letter & 1) && positions(m->mesh) != rsh_comm_size(m->comm))
            return refuse(m, "not every rank of the comm has a part");
    return RSH_OK;
}

static rsh_status run(const matching *m, const void *attrs, rsh_value *const *in, rsh_value **out) {
    rsh_value *brought[MOST] = {0};
    rsh_layout *layouts[MOST] = {0};
    rsh_grad_as as = {.comm = m->comm, .out = (const rsh_layout *const *)layouts};
    rsh_status st = lay_out_outputs(m, layouts);
    for (int i = 0; !st && i < m->dims.nin; i++) st = bring(m, i, in[i], &brought[i]);
    if (!st) st = rsh_grad_apply_as(m->op, attrs, m->dims.nin, brought, m->dims.nout, &as, out);
    for (int i = 0; i < m->dims.nin; i++) rsh_value_free(brought[i]);
    for (int i = 0; i < m->dims.nout; i++) rsh_layout_free(layouts[i]);
    return st;
}

rsh_status rshn_rule_apply(const rsh_grad_op *op, const void *attrs, int nin, rsh_value *const *in, int nout,
                           rsh_value **out) {
    rsh_rule_tensor tensors[2 * MOST];
    matching m = {.op = op, .dims = {.attrs = attrs, .nin = nin, .nout = nout}};
    if (nout > MOST) return refuse(&m, "there are too many results");
    m.dims.values = (const rsh_value *const *)in;
    m.dims.in = tensors;
    m.dims.out = tensors + nin;
    NN_TRY(ask_rule(&m, in));
    NN_TRY(find_cuts(&m, in));
    NN_TRY(check_ranks(&m));
    return run(&m, attrs, in, out);
}
