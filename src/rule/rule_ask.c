/* Rule question: collects the sizes of an op's inputs, and asks its rule for dims and calls. */
#include "rule/rule.h"

#include <string.h>

static void describe_input(const rsh_value *v, rsh_rule_tensor *t) {
    memset(t, 0, sizeof *t);
    memset(t->letter, RSH_DIM_WHOLE, sizeof t->letter);
    for (int d = 0; d < RSH_MAX_NDIM; d++) t->unit[d] = 1;
    t->term = RSH_TERM_NONE;
    t->ndim = v ? rsh_value_ndim(v) : -1;
    if (!v) return;
    t->dtype = rsh_value_dtype(v);
    for (int d = 0; d < t->ndim; d++) t->shape[d] = rsh_value_shape(v)[d];
}

rsh_status rshi_rule_ask(const rsh_grad_op *op, const void *attrs, int nin, rsh_value *const *in, int nout,
                         rshi_rule_question *q) {
    RSH_REQUIRE(nin <= RSHI_RULE_MOST && nout <= RSHI_RULE_MOST, RSH_EUNSUP,
                "%s: at most %d inputs or outputs are supported", op->name, RSHI_RULE_MOST);
    q->op = op;
    q->naxes = 0;
    memset(q->placed, 0, sizeof q->placed);
    q->dims = (rsh_rule_dims){.attrs = attrs, .nin = nin, .nout = nout, .values = (const rsh_value *const *)in};
    q->dims.in = q->tensors;
    q->dims.out = q->tensors + nin;
    for (int i = 0; i < nin; i++) describe_input(in[i], &q->dims.in[i]);
    for (int i = 0; i < nout; i++) {
        describe_input(NULL, &q->dims.out[i]);
        q->dims.out[i].ndim = 0;
        q->dims.out[i].dtype = rsh_value_dtype(in[0]);
    }
    return op->placements ? op->placements->dims(&q->dims) : rsh_rule_pointwise(&q->dims);
}

bool rshi_rule_calls(const rshi_rule_question *q, const rshi_outcome *o) {
    unsigned letters = q->dims.own | q->dims.counted;
    for (int i = 0; i < q->dims.nin; i++)
        for (int a = 0; q->placed[i] && a < q->naxes; a++) {
            rsh_place in = o->in[i][a];
            int letter = in.kind == RSH_PLACE_SHARD ? q->dims.in[i].letter[in.dim] : RSH_DIM_WHOLE;
            if (letter >= 0 && letters >> letter & 1) return true;
        }
    return false;
}
