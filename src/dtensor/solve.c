/* Solve: placements of outputs and gradients from an op's rule, one dim of the mesh at a time.
 *
 * Along one dim of the mesh at most one letter is cut.  Tensors that have it are cut there, others are replicated, and
 * what lacks it in the result is a sum over the coordinates.  Partial inputs pass through terms, as the header says.
 * The dims of the mesh do not see each other: where several cut one letter, all tensors that have it are cut by the
 * same ones in the same order. */
#include "dtensor/rule.h"

#include <stdarg.h>
#include <stdio.h>

typedef struct solving {
    const rshi_rule_question *m;
    rshi_outcome *o;
    int axis;
    int letter;   /* that is cut along this axis; -1: none */
    rsh_op op;    /* of the partial inputs; RSH_OP_NONE: there is none */
    bool summed;  /* the letter is in no output, and the op does not add up itself */
    bool partial; /* the outputs are */
    char *why;
} solving;

static rsh_status no(const solving *s, const char *format, ...) __attribute__((format(printf, 2, 3)));
static rsh_status no(const solving *s, const char *format, ...) {
    va_list args;
    va_start(args, format);
    vsnprintf(s->why, RSHI_WHY, format, args);
    va_end(args);
    return RSH_EUNSUP;
}

static bool placed(const solving *s, int i) { return s->m->layouts[i] != NULL; }
static rsh_place *place(const solving *s, int i) { return &s->o->in[i][s->axis]; }

static int dim_of(const rsh_rule_tensor *t, int letter) {
    for (int d = 0; d < t->ndim; d++)
        if (letter >= 0 && t->letter[d] == letter) return d;
    return -1;
}

/* ---- what the inputs are ---- */

static rsh_status find_letter(solving *s) {
    s->letter = -1;
    for (int i = 0; i < s->m->dims.nin; i++) {
        if (!placed(s, i) || place(s, i)->kind != RSH_PLACE_SHARD) continue;
        int d = place(s, i)->dim, letter = s->m->dims.in[i].letter[d];
        if (letter == RSH_DIM_WHOLE) return no(s, "dim %d of input %d cannot be cut", d, i);
        if (s->letter >= 0 && letter != s->letter) return no(s, "they cut dims that do not belong together");
        s->letter = letter;
    }
    return RSH_OK;
}

static rsh_status find_op(solving *s) {
    const rsh_rule_dims *r = &s->m->dims;
    s->op = RSH_OP_NONE;
    for (int i = 0; i < r->nin; i++) {
        if (!placed(s, i) || place(s, i)->kind != RSH_PLACE_PARTIAL) continue;
        rsh_op op = place(s, i)->op;
        if (r->in[i].term == RSH_TERM_NONE) return no(s, "it is not linear in input %d, which is partial", i);
        if (s->op && op != s->op) return no(s, "the partial ops differ");
        if (!r->moves_only && op != RSH_OP_SUM && op != RSH_OP_AVG)
            return no(s, "partial values of \"%s\" do not pass", rsh_op_name(op));
        s->op = op;
    }
    return RSH_OK;
}

/* Is the letter gone from the results, and are they sums over it? */
static void find_summed(solving *s) {
    const rsh_rule_dims *r = &s->m->dims;
    s->summed = s->letter >= 0 && !(r->own >> s->letter & 1);
    for (int i = 0; i < r->nout; i++)
        if (dim_of(&r->out[i], s->letter) >= 0) s->summed = false;
}

/* ---- what they must be ---- */

static int in_term(const solving *s, int term, rsh_place_kind kind) {
    int n = 0;
    for (int i = 0; i < s->m->dims.nin; i++)
        n += placed(s, i) && s->m->dims.in[i].term == term && place(s, i)->kind == kind;
    return n;
}

/* A replicated input takes its chunk; a partial one that is a term alone is reduced to it. */
static rsh_status cut_inputs(solving *s) {
    const rsh_rule_dims *r = &s->m->dims;
    for (int i = 0; i < r->nin && s->letter >= 0; i++) {
        int d = dim_of(&r->in[i], s->letter);
        if (!placed(s, i) || place(s, i)->kind == RSH_PLACE_SHARD) continue;
        bool partial = place(s, i)->kind == RSH_PLACE_PARTIAL;
        if (partial && s->summed) continue;
        if (partial && (d < 0 || (r->own >> s->letter & 1) || in_term(s, r->in[i].term, RSH_PLACE_SHARD)))
            return no(s, "input %d is partial where another one is cut", i);
        if (d >= 0) *place(s, i) = rsh_shard_on(d);
    }
    if (!s->summed && s->letter >= 0) s->op = RSH_OP_NONE;
    return RSH_OK;
}

/* One replicated input of the term becomes partial: the value at coordinate 0, nothing elsewhere. */
static rsh_status make_partial(solving *s, int term) {
    const rsh_rule_dims *r = &s->m->dims;
    for (int i = 0; i < r->nin; i++) {
        if (r->in[i].term != term || !placed(s, i)) continue;
        *place(s, i) = rsh_partial_of(s->op);
        return RSH_OK;
    }
    return no(s, "a plain tensor would be added once for every coordinate");
}

static rsh_status settle_term(solving *s, int term) {
    int partial = in_term(s, term, RSH_PLACE_PARTIAL), cut = in_term(s, term, RSH_PLACE_SHARD);
    if (partial > 1) return no(s, "it is not linear in two partial inputs together");
    if (partial && cut) return no(s, "a partial input is multiplied by a cut one");
    return partial || cut ? RSH_OK : make_partial(s, term);
}

/* All terms become partial if one is. */
static rsh_status settle_terms(solving *s) {
    const rsh_rule_dims *r = &s->m->dims;
    if (s->summed && s->op && s->op != RSH_OP_SUM)
        return no(s, "a sum over a cut dim meets partial values of \"%s\"", rsh_op_name(s->op));
    if (s->summed) s->op = RSH_OP_SUM;
    s->partial = s->op != RSH_OP_NONE;
    for (int i = 0; i < r->nin && s->partial; i++) {
        bool first = r->in[i].ndim >= 0 && r->in[i].term != RSH_TERM_NONE;
        for (int j = 0; j < i; j++) first &= r->in[j].ndim < 0 || r->in[j].term != r->in[i].term;
        if (first) RSH_TRY(settle_term(s, r->in[i].term));
    }
    return RSH_OK;
}

/* ---- what follows ---- */

static rsh_place output_place(const solving *s, int i) {
    const rsh_rule_dims *r = &s->m->dims;
    int d = dim_of(&r->out[i], s->letter);
    if (d >= 0) return rsh_shard_on(d);
    return s->partial ? rsh_partial_of(s->op) : rsh_replicate();
}

static void place_gradients(solving *s) {
    bool alike = s->letter < 0 && !s->partial;
    for (int i = 0; i < s->m->dims.nin; i++) {
        if (!placed(s, i)) continue;
        rsh_place p = *place(s, i);
        bool share = p.kind == RSH_PLACE_REPLICATE && !alike; /* this coordinate's share of a sum */
        s->o->grad[i][s->axis] = p.kind == RSH_PLACE_SHARD ? p : share ? rsh_partial_of(RSH_OP_SUM) : rsh_replicate();
    }
}

static rsh_status solve_axis(solving *s) {
    RSH_TRY(find_letter(s));
    RSH_TRY(find_op(s));
    find_summed(s);
    RSH_TRY(cut_inputs(s));
    RSH_TRY(settle_terms(s));
    for (int i = 0; i < s->m->dims.nout; i++) s->o->out[i][s->axis] = output_place(s, i);
    place_gradients(s);
    return RSH_OK;
}

/* ---- units: a view that splits or joins dims, and the chunks of both sides ---- */

void rshi_chunk_at(const rsh_mesh *mesh, const rsh_place *places, int dim, int64_t n, int64_t position, int64_t *lo,
                   int64_t *size) {
    int64_t below = rsh_mesh_size(mesh);
    *lo = 0;
    *size = n;
    for (int a = 0; a < rsh_mesh_ndim(mesh); a++) {
        int64_t parts = rsh_mesh_dim_size(mesh, a), each = rshi_ceil_div(*size, parts);
        below /= parts;
        if (places[a].kind != RSH_PLACE_SHARD || places[a].dim != dim) continue;
        int64_t from = rshi_min(each * (position / below % parts), *size);
        *lo += from;
        *size = rshi_min(each, *size - from);
    }
}

static bool same_chunks(const solving *s, int in, int d, int out, int e) {
    const rsh_rule_tensor *x = &s->m->dims.in[in], *y = &s->m->dims.out[out];
    for (int64_t at = 0; at < rsh_mesh_size(s->m->mesh); at++) {
        int64_t lo, size, low, length;
        rshi_chunk_at(s->m->mesh, s->o->in[in], d, x->shape[d], at, &lo, &size);
        rshi_chunk_at(s->m->mesh, s->o->out[out], e, y->shape[e], at, &low, &length);
        if (size * x->unit[d] != length * y->unit[e] || (size && lo * x->unit[d] != low * y->unit[e])) return false;
    }
    return true;
}

static rsh_status check_units(solving *s) {
    const rsh_rule_dims *r = &s->m->dims;
    for (int i = 0; i < r->nin; i++)
        for (int d = 0; placed(s, i) && d < r->in[i].ndim; d++)
            for (int j = 0; j < r->nout; j++) {
                int e = dim_of(&r->out[j], r->in[i].letter[d]);
                if (e >= 0 && r->in[i].unit[d] != r->out[j].unit[e] && !same_chunks(s, i, d, j, e))
                    return no(s, "the chunks of dim %d, cut as dim %d of the result, would end elsewhere", d, e);
            }
    return RSH_OK;
}

rsh_status rshi_question_solve(const rshi_rule_question *m, rshi_outcome *o, char why[RSHI_WHY]) {
    solving s = {.m = m, .o = o, .why = why};
    for (s.axis = 0; s.axis < rsh_mesh_ndim(m->mesh); s.axis++) {
        s.summed = s.partial = false;
        RSH_TRY(solve_axis(&s));
    }
    return check_units(&s);
}
