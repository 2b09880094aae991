/* Solve: derives the placements of outputs and gradients from an op's rule, one axis of the mesh at a time.
 *
 * Along one axis at most one letter is cut.  Tensors with that letter are cut along it, others are replicated, and
 * outputs without it are sums over the coordinates.  Partial inputs pass through terms, as <reshard/rule.h> describes.
 * The axes are independent: if several cut one letter, all tensors with that letter are cut by the same axes in the
 * same order. */
#include "rule/rule.h"

#include <stdarg.h>
#include <stdio.h>

typedef struct solving {
    const rshi_rule_question *m;
    rshi_outcome *o;
    int axis;
    int letter;   /* the letter that is cut along this axis; -1: none */
    rsh_op op;    /* op of the partial inputs; RSH_OP_NONE: there is none */
    bool summed;  /* outputs are sums over the letter: no output has it, and the op itself does not sum over it */
    bool partial; /* the outputs are partial */
    char *why;
} solving;

static rsh_status reject(const solving *s, const char *format, ...) __attribute__((format(printf, 2, 3)));
static rsh_status reject(const solving *s, const char *format, ...) {
    va_list args;
    va_start(args, format);
    vsnprintf(s->why, RSHI_WHY, format, args);
    va_end(args);
    return RSH_EUNSUP;
}

static bool is_placed(const solving *s, int i) { return s->m->placed[i]; }
static rsh_place *place_of(const solving *s, int i) { return &s->o->in[i][s->axis]; }

/* ---- placements of the inputs ---- */

static rsh_status find_letter(solving *s) {
    s->letter = -1;
    for (int i = 0; i < s->m->dims.nin; i++) {
        if (!is_placed(s, i) || place_of(s, i)->kind != RSH_PLACE_SHARD) continue;
        int d = place_of(s, i)->dim, letter = s->m->dims.in[i].letter[d];
        if (letter == RSH_DIM_WHOLE) return reject(s, "dim %d of input %d cannot be cut", d, i);
        if (s->letter >= 0 && letter != s->letter)
            return reject(s, "the inputs are cut along dims that do not correspond");
        s->letter = letter;
    }
    return RSH_OK;
}

static rsh_status find_op(solving *s) {
    const rsh_rule_dims *r = &s->m->dims;
    s->op = RSH_OP_NONE;
    for (int i = 0; i < r->nin; i++) {
        if (!is_placed(s, i) || place_of(s, i)->kind != RSH_PLACE_PARTIAL) continue;
        rsh_op op = place_of(s, i)->op;
        if (r->in[i].term == RSH_TERM_NONE) return reject(s,
                "input %d is partial, but the op is not linear in this input; reduce it first", i);
        if (s->op && op != s->op) return reject(s, "partial inputs have different reductions");
        if (!r->moves_only && op != RSH_OP_SUM && op != RSH_OP_AVG)
            return reject(s, "partial inputs must have reduction sum or avg, got \"%s\"", rsh_op_name(op));
        s->op = op;
    }
    return RSH_OK;
}

/* Determines whether no output has the letter, so that outputs are sums over it. */
static void find_summed(solving *s) {
    const rsh_rule_dims *r = &s->m->dims;
    s->summed = s->letter >= 0 && !(r->own >> s->letter & 1);
    for (int i = 0; i < r->nout; i++)
        if (rshi_rule_dim_of(&r->out[i], s->letter) >= 0) s->summed = false;
}

/* ---- required placements ---- */

static int in_term(const solving *s, int term, rsh_place_kind kind) {
    int n = 0;
    for (int i = 0; i < s->m->dims.nin; i++)
        n += is_placed(s, i) && s->m->dims.in[i].term == term && place_of(s, i)->kind == kind;
    return n;
}

/* Cuts inputs: a replicated input is cut to its chunk; a partial input that is a whole term is reduced to that
 * chunk. */
static rsh_status cut_inputs(solving *s) {
    const rsh_rule_dims *r = &s->m->dims;
    for (int i = 0; i < r->nin && s->letter >= 0; i++) {
        int d = rshi_rule_dim_of(&r->in[i], s->letter);
        if (!is_placed(s, i) || place_of(s, i)->kind == RSH_PLACE_SHARD) continue;
        bool partial = place_of(s, i)->kind == RSH_PLACE_PARTIAL;
        if (partial && s->summed) continue;
        if (partial && (d < 0 || (r->own >> s->letter & 1) || in_term(s, r->in[i].term, RSH_PLACE_SHARD)))
            return reject(s, "input %d is partial along an axis that cuts another input", i);
        if (d >= 0) *place_of(s, i) = rsh_place_shard(d);
    }
    if (!s->summed && s->letter >= 0) s->op = RSH_OP_NONE;
    return RSH_OK;
}

/* Makes one replicated input of the term partial: it has its value at coordinate 0 and zeros elsewhere. */
static rsh_status make_partial(solving *s, int term) {
    const rsh_rule_dims *r = &s->m->dims;
    for (int i = 0; i < r->nin; i++) {
        if (r->in[i].term != term || !is_placed(s, i)) continue;
        *place_of(s, i) = rsh_place_partial(s->op);
        return RSH_OK;
    }
    return reject(s, "a plain tensor would be added once by each rank; distribute it first");
}

static rsh_status check_term(solving *s, int term) {
    int partial = in_term(s, term, RSH_PLACE_PARTIAL), cut = in_term(s, term, RSH_PLACE_SHARD);
    if (partial > 1) return reject(s, "two inputs of a product are partial");
    if (partial && cut) return reject(s, "a partial input is multiplied by a cut input");
    return partial || cut ? RSH_OK : make_partial(s, term);
}

/* Makes all terms partial if one of them is. */
static rsh_status make_terms_partial(solving *s) {
    const rsh_rule_dims *r = &s->m->dims;
    if (s->summed && s->op && s->op != RSH_OP_SUM)
        return reject(s, "a sum over a cut dim cannot be combined with partial inputs of reduction \"%s\"",
                      rsh_op_name(s->op));
    if (s->summed) s->op = RSH_OP_SUM;
    s->partial = s->op != RSH_OP_NONE;
    for (int i = 0; i < r->nin && s->partial; i++) {
        bool first = r->in[i].ndim >= 0 && r->in[i].term != RSH_TERM_NONE;
        for (int j = 0; j < i; j++) first &= r->in[j].ndim < 0 || r->in[j].term != r->in[i].term;
        if (first) RSH_TRY(check_term(s, r->in[i].term));
    }
    return RSH_OK;
}

/* ---- results ---- */

static rsh_place output_place(const solving *s, int i) {
    const rsh_rule_dims *r = &s->m->dims;
    int d = rshi_rule_dim_of(&r->out[i], s->letter);
    if (d >= 0) return rsh_place_shard(d);
    return s->partial ? rsh_place_partial(s->op) : rsh_place_replicate();
}

static void place_gradients(solving *s) {
    bool alike = s->letter < 0 && !s->partial;
    for (int i = 0; i < s->m->dims.nin; i++) {
        if (!is_placed(s, i)) continue;
        rsh_place p = *place_of(s, i);
        bool share = p.kind == RSH_PLACE_REPLICATE && !alike; /* each coordinate then contributes to the sum */
        s->o->grad[i][s->axis] = p.kind == RSH_PLACE_SHARD ? p
                                 : share                   ? rsh_place_partial(RSH_OP_SUM)
                                                           : rsh_place_replicate();
    }
}

static rsh_status solve_axis(solving *s) {
    RSH_TRY(find_letter(s));
    RSH_TRY(find_op(s));
    find_summed(s);
    RSH_TRY(cut_inputs(s));
    RSH_TRY(make_terms_partial(s));
    for (int i = 0; i < s->m->dims.nout; i++) s->o->out[i][s->axis] = output_place(s, i);
    place_gradients(s);
    return RSH_OK;
}

rsh_status rshi_rule_solve(const rshi_rule_question *m, rshi_outcome *o, char why[RSHI_WHY]) {
    solving s = {.m = m, .o = o, .why = why};
    for (s.axis = 0; s.axis < m->naxes; s.axis++) {
        s.summed = s.partial = false;
        RSH_TRY(solve_axis(&s));
    }
    return RSH_OK;
}
