/* rule: solves an op's placement rule for given placements of its inputs. */
#ifndef RESHARD_RULE_RULE_H
#define RESHARD_RULE_RULE_H

#include <reshard/mesh.h>
#include <reshard/rule.h>

#include "base/base.h"

#define RSHI_RULE_MOST 64 /* largest number of inputs or outputs of an op */

/* An op, its dims according to its rule, and which inputs have placements. */
typedef struct rshi_rule_question {
    const rsh_grad_op *op;
    int naxes; /* of the mesh */
    rsh_rule_dims dims;
    bool placed[RSHI_RULE_MOST]; /* for each input; others are missing, or plain with one element */
    rsh_rule_tensor tensors[2 * RSHI_RULE_MOST];
} rshi_rule_question;

/* Fills in the question for these inputs by the op's rule (NULL: that of pointwise ops).  `placed`
 * is set to false and naxes to 0.  RSH_EUNSUP if there are too many values; errors of the rule. */
rsh_status rshi_rule_ask(const rsh_grad_op *op, const void *attrs, int nin, rsh_value *const *in,
                         int nout, rshi_rule_question *q);

/* Returns the dim of a tensor that has the letter; -1: none. */
static inline int rshi_rule_dim_of(const rsh_rule_tensor *t, int letter) {
    for (int d = 0; d < t->ndim; d++)
        if (letter >= 0 && t->letter[d] == letter) return d;
    return -1;
}

/* The solution: placements for each axis of the mesh. */
typedef rsh_place rshi_places[RSH_MAX_AXES];
typedef struct rshi_outcome {
    rshi_places was[RSHI_RULE_MOST];  /* current placements of the inputs */
    rshi_places in[RSHI_RULE_MOST];   /* initially the same; then the required placements */
    rshi_places grad[RSHI_RULE_MOST]; /* placements of the gradients of the inputs */
    rshi_places out[RSHI_RULE_MOST];
} rshi_outcome;

/* Solves the rule; `o` has the placements of the inputs.  RSH_EUNSUP, with the reason in `why`, if
 * there is no solution. */
#define RSHI_WHY 200
rsh_status rshi_rule_solve(const rshi_rule_question *m, rshi_outcome *o, char why[RSHI_WHY]);

/* Returns whether the op makes collective calls in forward, with the required placements. */
bool rshi_rule_calls(const rshi_rule_question *q, const rshi_outcome *o);

/* Checks for a view that splits or joins dims that chunks end at the same elements before and after
 * it.  `in` are the layouts that the inputs are moved to, NULL for those without one.  RSH_EUNSUP
 * as above if they do not. */
rsh_status rshi_rule_check_chunks(const rshi_rule_question *m, const rsh_layout *const *in,
                                  const rsh_layout *const *out, char why[RSHI_WHY]);

/* The indices of dim d on a rank: their number of ranges, and the last of these ranges. */
typedef struct rshi_own_range {
    int n;
    int64_t lo, hi;
} rshi_own_range;
rsh_status rshi_own_range_of(const rsh_layout *l, int64_t rank, int d, rshi_own_range *out);

/* Returns whether a value with placements `from` can get placements `to` without communication. */
bool rshi_own_part_fits(int n, const rsh_place *from, const rsh_place *to);
/* Creates that value, on the same memory if possible.  If `counts` is false, its elements are
 * zeros.  `as` has its layout and kind.  Local. */
rsh_status rshi_own_part_take(rsh_value *v, bool counts, const rsh_grad_apply_opts *as,
                              rsh_value **out);
/* Returns a plain value that is equal on all ranks as a value with layout `to`, of which this rank
 * has one part.  RSH_EUNSUP if that part is not a box.  Local. */
rsh_status rshi_own_box_take(rsh_value *v, rsh_comm *comm, const rsh_layout *to, rsh_value **out);

#endif
