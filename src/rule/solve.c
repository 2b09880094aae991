/* Solve: placements of outputs and gradients from an op's rule, one axis of the mesh at a time.
 *
 * Along one axis at most one letter is cut.  Tensors that have it are cut there, others are replicated, and
 * what lacks it in the result is a sum over the coordinates.  Partial inputs pass through terms, as the header says.
 * The axes do not see each other: where several cut one letter, all tensors that have it are cut by the same ones in
 * the same order. */
#include "rule/rule.h"

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

static bool placed(const solving *s, int i) { return s->m->placed[i]; }
static rsh_place *place(const solving *s, int i) { return &s->o->in[i][s->axis]; }

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
        if (rshi_rule_dim_of(&r->out[i], s->letter) >= 0) s->summed = false;
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
        int d = rshi_rule_dim_of(&r->in[i], s->letter);
        if (!placed(s, i) || place(s, i)->kind == RSH_PLACE_SHARD) continue;
        bool partial = place(s, i)->kind == RSH_PLACE_PARTIAL;
        if (partial && s->summed) continue;
        if (partial && (d < 0 || (r->own >> s->letter & 1) || in_term(s, r->in[i].term, RSH_PLACE_SHARD)))
            return no(s, "input %d is partial where another one is cut", i);
        if (d >= 0) *place(s, i) = rsh_place_shard(d);
    }
    if (!s->summed && s->letter >= 0) s->op = RSH_OP_NONE;
    return RSH_OK;
}

/* One replicated input of the term becomes partial: the value at coordinate 0, nothing elsewhere. */
static rsh_status make_partial(solving *s, int term) {
    const rsh_rule_dims *r = &s->m->dims;
    for (int i = 0; i < r->nin; i++) {
        if (r->in[i].term != term || !placed(s, i)) continue;
        *place(s, i) = rsh_place_partial(s->op);
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
    int d = rshi_rule_dim_of(&r->out[i], s->letter);
    if (d >= 0) return rsh_place_shard(d);
    return s->partial ? rsh_place_partial(s->op) : rsh_place_replicate();
}

static void place_gradients(solving *s) {
    bool alike = s->letter < 0 && !s->partial;
    for (int i = 0; i < s->m->dims.nin; i++) {
        if (!placed(s, i)) continue;
        rsh_place p = *place(s, i);
        bool share = p.kind == RSH_PLACE_REPLICATE && !alike; /* this coordinate's share of a sum */
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
    RSH_TRY(settle_terms(s));
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
