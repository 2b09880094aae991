/* Rule: which dims of an op's inputs and outputs belong together, as the letters of an Einstein sum
 * do.  From that, and for each axis of the mesh on its own, follow the placements of the outputs
 * and of all gradients:
 *
 * - If an input is cut along a letter, all tensors that have the letter are cut there; a replicated
 *   input takes its own chunk.  An output that lacks the letter is partial with sum.
 * - If the op is a sum of products (its terms) and one input of a term is partial, the others of
 *   that term being replicated, the output is partial.  Every other term must be partial too: a
 *   replicated input of it counts once, at coordinate 0.
 * - A partial input that meets a cut one in another term is reduced to the same cut.
 * - A dim that is a range of its letter is cut where the letter is: the op works on that part of
 *   the range which each rank has.  Inputs are brought there, and outputs from there to chunks.
 * - The gradient of an input is cut as the input is; replicated if the input is partial; and
 *   partial with sum if the input is replicated while others are not.
 *
 * One solver serves DTensors (<reshard/dtensor.h>), whose placements are those of a mesh, and
 * sharded tensors, whose layouts say the same and may cut in other ways.  What does not fit is
 * RSH_EUNSUP with the op's name. */
#ifndef RESHARD_RULE_H
#define RESHARD_RULE_H

#include <reshard/grad.h>

#ifdef __cplusplus
extern "C" {
#endif

#define RSH_DIM_WHOLE (-1) /* in place of a letter: the dim cannot be cut */
#define RSH_TERM_NONE (-1) /* in place of a term: the op is not linear in that input */

typedef struct rsh_rule_tensor {
    int ndim;                    /* -1: the input is missing */
    rsh_dtype dtype;             /* of an output: that of input 0, unless the rule says another */
    int64_t shape[RSH_MAX_NDIM]; /* of the whole */
    int64_t unit[RSH_MAX_NDIM];  /* elements of the letter in one index: all 1 at first.  Others in
                                    views: a dim of 6 becomes one of 2 with unit 3 and one of 3 */
    int64_t of[RSH_MAX_NDIM];    /* the dim is a range of the letter, which has `of` elements in
                                    all; 0: it is all of them */
    int64_t start[RSH_MAX_NDIM]; /* where that range begins */
    signed char letter[RSH_MAX_NDIM]; /* from 0 to 31; all RSH_DIM_WHOLE at first */
    signed char term; /* of an input: the number of its term; RSH_TERM_NONE at first */
} rsh_rule_tensor;

typedef struct rsh_rule_dims {
    const void *attrs;
    int nin, nout;
    const rsh_value *const *values; /* the inputs */
    rsh_rule_tensor *in;  /* nin: sizes and dtypes are filled in */
    rsh_rule_tensor *out; /* nout: without dims at first */
    unsigned own;    /* letters, a bit for each, along which the op makes collective calls itself:
                        an output that lacks the letter is replicated */
    unsigned counted; /* more letters along which it does, though outputs without them are sums */
    bool moves_only; /* elements are only moved, so partial values of any op pass; otherwise sum and
                        avg do */
} rsh_rule_dims;

/* The rule of an op, rsh_grad_op.placements.  A record is constant and usually static.  `dims`
 * fills in letters, terms and outputs from attributes and sizes alone, the same on every rank; if
 * it fails, so does the op. */
struct rsh_placement_rule {
    rsh_status (*dims)(rsh_rule_dims *io);
};

/* The dims of a pointwise op with one or more outputs, for the rules of such ops: inputs broadcast,
 * aligned at the last dim, and a dim that is repeated cannot be cut.  Terms are left alone.  An op
 * without a rule whose `layouts` is rsh_grad_same_layout gets this one.
 * RSH_EVALUE if the sizes do not broadcast.  Pure. */
RSH_API rsh_status rsh_rule_pointwise(rsh_rule_dims *io);

/* Applies an op as rsh_grad_apply does, and to sharded tensors by the op's rule: distributed values
 * without a kind, whose layouts have one part for each rank of a mesh.  Dims of the outputs are
 * cut as those of the inputs with the same letter.  A replicated input and a plain one, which is
 * the same on all ranks, give each rank its range; of these each rank gets the gradient of its own
 * part of the result.  A pointwise op whose inputs have one layout needs no rule.
 * RSH_EUNSUP if an input or a result is partial, if inputs have boxes, segments, different ranks or
 * different cuts, or if no result follows; RSH_EVALUE if a pointwise op gets a plain tensor of
 * numbers that has more than one element; otherwise as rsh_grad_apply.  Collective over the comm of
 * the inputs if one of them is replicated where others are cut, or the op makes collective
 * calls. */
RSH_API rsh_status rsh_rule_apply(const rsh_grad_op *op, const void *attrs, int nin,
                                  rsh_value *const *in, int nout, rsh_value **out);

#ifdef __cplusplus
}
#endif
#endif
