/* Rule chunks: for a view that splits or joins dims, checks that the chunks of both sides end at the same elements. */
#include "rule/rule.h"

#include <stdio.h>

/* Compares two ranges; an index of the first stands for `unit` elements, an index of the second for `other`
 * elements. */
static bool same_range(const rshi_own_range *a, int64_t unit, const rshi_own_range *b, int64_t other) {
    if (a->n > 1 || b->n > 1 || (a->hi - a->lo) * unit != (b->hi - b->lo) * other) return false;
    return a->lo == a->hi || a->lo * unit == b->lo * other;
}

/* Compares dim d of layout `in` with dim e of layout `out`, on every rank. */
static rsh_status compare_dims(const rsh_layout *in, int d, int64_t unit, const rsh_layout *out, int e, int64_t other,
                               bool *same) {
    for (int64_t i = 0; *same && i < rsh_layout_nranks(in); i++) {
        rshi_own_range a, b;
        RSH_TRY(rshi_own_range_of(in, rsh_layout_rank(in, i), d, &a));
        RSH_TRY(rshi_own_range_of(out, rsh_layout_rank(in, i), e, &b));
        *same = same_range(&a, unit, &b, other);
    }
    return RSH_OK;
}

static rsh_status check_pair(const rsh_rule_tensor *x, const rsh_layout *in, const rsh_rule_tensor *y,
                             const rsh_layout *out, char why[RSHI_WHY]) {
    for (int d = 0; d < x->ndim; d++) {
        int e = rshi_rule_dim_of(y, x->letter[d]);
        bool same = true;
        if (e < 0 || x->unit[d] == y->unit[e]) continue;
        RSH_TRY(compare_dims(in, d, x->unit[d], out, e, y->unit[e], &same));
        if (same) continue;
        snprintf(why, RSHI_WHY, "the chunks of dim %d of the input and dim %d of the result end at different elements",
                 d, e);
        return RSH_EUNSUP;
    }
    return RSH_OK;
}

rsh_status rshi_rule_check_chunks(const rshi_rule_question *m, const rsh_layout *const *in,
                                  const rsh_layout *const *out, char why[RSHI_WHY]) {
    const rsh_rule_dims *r = &m->dims;
    for (int i = 0; i < r->nin; i++)
        for (int j = 0; in[i] && j < r->nout; j++) RSH_TRY(check_pair(&r->in[i], in[i], &r->out[j], out[j], why));
    return RSH_OK;
}
