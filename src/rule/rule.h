/* rule: what follows from an op's rule and the placements of its inputs. */
#ifndef RESHARD_RULE_RULE_H
#define RESHARD_RULE_RULE_H

#include <reshard/mesh.h>
#include <reshard/rule.h>

#include "base/base.h"

#define RSHI_RULE_MOST 64 /* inputs or outputs of an op */

/* An op, its dims as its rule tells them, and what has placements. */
typedef struct rshi_rule_question {
    const rsh_grad_op *op;
    int naxes; /* of the mesh */
    rsh_rule_dims dims;
    bool placed[RSHI_RULE_MOST]; /* inputs; others are missing, or plain and of one element */
    rsh_rule_tensor tensors[2 * RSHI_RULE_MOST];
} rshi_rule_question;

/* Fills in the question for these inputs, by the op's rule (NULL: that of pointwise ops); `placed`
 * is false everywhere, and naxes 0.  RSH_EUNSUP if there are too many; what the rule returns. */
rsh_status rshi_rule_ask(const rsh_grad_op *op, const void *attrs, int nin, rsh_value *const *in,
                         int nout, rshi_rule_question *q);

/* The dim of a tensor that has the letter; -1: none. */
static inline int rshi_rule_dim_of(const rsh_rule_tensor *t, int letter) {
    for (int d = 0; d < t->ndim; d++)
        if (letter >= 0 && t->letter[d] == letter) return d;
    return -1;
}

/* What follows, as placements for each axis of the mesh. */
typedef rsh_place rshi_places[RSH_MAX_AXES];
typedef struct rshi_outcome {
    rshi_places was[RSHI_RULE_MOST];  /* the inputs, as they are */
    rshi_places in[RSHI_RULE_MOST];   /* as they are at first; then as they must be */
    rshi_places grad[RSHI_RULE_MOST]; /* of the gradients of the inputs */
    rshi_places out[RSHI_RULE_MOST];
} rshi_outcome;

/* Brings `o`, which has the placements of the inputs, to what follows.  RSH_EUNSUP with the reason
 * in `why` if nothing does. */
#define RSHI_WHY 200
rsh_status rshi_rule_solve(const rshi_rule_question *m, rshi_outcome *o, char why[RSHI_WHY]);

/* Does the op make collective calls in forward, with inputs as they must be? */
bool rshi_rule_calls(const rshi_rule_question *q, const rshi_outcome *o);

/* Do chunks end at the same elements before and after a view that splits or joins dims?  `in` are
 * the layouts that the inputs are brought to, NULL for those that have none.  RSH_EUNSUP as
 * above if they do not. */
rsh_status rshi_rule_check_chunks(const rshi_rule_question *m, const rsh_layout *const *in,
                                  const rsh_layout *const *out, char why[RSHI_WHY]);

/* The indices of dim d that a rank has, as one range; n counts the ranges that there are. */
typedef struct rshi_own_range {
    int n;
    int64_t lo, hi;
} rshi_own_range;
rsh_status rshi_own_range_of(const rsh_layout *l, int64_t rank, int d, rshi_own_range *out);

/* Can a value of placements `from` become one of placements `to` by what each rank has? */
bool rshi_own_part_fits(int n, const rsh_place *from, const rsh_place *to);
/* Then this is it, on the same memory where it can be; all zeros on ranks where it does not count.
 * `as` has the layout and the kind that it gets.  Local. */
rsh_status rshi_own_part_take(rsh_value *v, bool counts, const rsh_grad_apply_opts *as,
                              rsh_value **out);
/* This rank's box of a plain value that is the same on all ranks, as a plain value.  RSH_EUNSUP if
 * its part of `to` is not a box.  Local. */
rsh_status rshi_own_box_take(rsh_value *v, const rsh_layout *to, int rank, rsh_value **out);

#endif
