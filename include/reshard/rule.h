/* Placement rule: how an op maps the placements of its inputs to those of its outputs.
 *
 * A rule gives each dim of the inputs and outputs a letter, as in an Einstein sum; dims with the
 * same letter belong together.  The solver derives the placements of the outputs and of all
 * gradients, for each axis of the mesh separately:
 *
 * - If an input is cut along a letter, every tensor with that letter is cut there; a replicated
 *   input uses its own chunk.  An output that lacks the letter is partial with op sum.
 * - If the op is a sum of products (its terms), one input of a term is partial and the others of
 * that term are replicated, then the output is partial.  Every other term must be partial too: a
 * replicated input of such a term then counts only at coordinate 0.
 * - If a partial input and a cut input are in different terms, the partial one is reduced to the
 *   same cut.
 * - A dim that is a range of its letter is cut where the letter is cut: each rank works on its part
 *   of the range.  Inputs are moved to these ranges, and outputs are moved from them to chunks.
 * - The gradient of an input is cut like the input; it is replicated if the input is partial, and
 *   partial with op sum if the input is replicated while others are not.
 *
 * The same solver serves DTensors (<reshard/dtensor.h>), whose placements are those of a mesh, and
 * sharded tensors, whose layouts can express more kinds of cuts.  Unsupported combinations return
 * RSH_EUNSUP with the op's name. */
#ifndef RESHARD_RULE_H
#define RESHARD_RULE_H

#include <reshard/grad.h>

#ifdef __cplusplus
extern "C" {
#endif

#define RSH_DIM_WHOLE (-1) /* instead of a letter: the dim cannot be cut */
#define RSH_TERM_NONE (-1) /* instead of a term: the op is not linear in that input */

typedef struct rsh_rule_tensor {
    int ndim;                    /* -1: the input is missing */
    rsh_dtype dtype;             /* of an output: that of input 0, unless the rule sets another */
    int64_t shape[RSH_MAX_NDIM]; /* of the whole tensor */
    int64_t unit[RSH_MAX_NDIM];  /* elements of the letter per index, initially 1.  Views use other
                                    numbers: a dim of 6 becomes one of 2 with unit 3 and one of 3 */
    int64_t of[RSH_MAX_NDIM];    /* 0: the dim covers its whole letter; otherwise it is a range of
                                    the letter, which has `of` elements */
    int64_t start[RSH_MAX_NDIM]; /* the first element of that range */
    signed char letter[RSH_MAX_NDIM]; /* 0 to 31; initially RSH_DIM_WHOLE */
    signed char term; /* of an input: the number of its term; initially RSH_TERM_NONE */
} rsh_rule_tensor;

typedef struct rsh_rule_dims {
    const void *attrs;
    int nin, nout;
    const rsh_value *const *values; /* the inputs */
    rsh_rule_tensor *in;  /* nin; shapes and dtypes are filled in */
    rsh_rule_tensor *out; /* nout; initially without dims */
    unsigned own;    /* bit mask of letters along which the op itself makes collective calls; an
                        output that lacks such a letter is replicated */
    unsigned counted; /* further such letters; outputs that lack them are partial sums */
    bool moves_only; /* the op only moves elements, so partial inputs may have any op; otherwise
                        only sum and avg */
} rsh_rule_dims;

/* The rule of an op, rsh_grad_op.placements.  The record is constant and usually static.  `dims`
 * sets letters, terms and outputs.  It may use only attributes and sizes, so that all ranks get the
 * same result.  If it fails, the op fails. */
struct rsh_placement_rule {
    rsh_status (*dims)(rsh_rule_dims *io);
};

/* Fills in the dims of a pointwise op with one or more outputs.  Shapes broadcast, aligned at the
 * last dim; a dim that is repeated cannot be cut.  Terms are not changed.  This is the rule of ops
 * that have none and whose `layouts` is rsh_grad_same_layout.
 * RSH_EVALUE if the sizes do not broadcast.  Pure. */
RSH_API rsh_status rsh_rule_pointwise(rsh_rule_dims *io);

/* Applies an op as rsh_grad_apply does, and also supports sharded tensors, to which it applies the
 * op's rule.  Such a sharded tensor is a distributed value without a kind whose layout has one part
 * for each rank of a mesh.  Dims of outputs are cut like the dims of inputs with the same letter.
 * Each rank uses its own range of a replicated input, or of a plain input, which must be equal on
 * all ranks; the gradient of such an input on each rank is that of the rank's own part of the
 * result.  A pointwise op needs no rule if all inputs have the same layout.
 * RSH_EUNSUP if an input or a result is partial, if inputs have boxes, segments, different ranks or
 * different cuts, or if the rule gives no result; RSH_EVALUE if a pointwise op gets a plain tensor
 * with more than one element; errors of rsh_grad_apply.  Collective over the comm of the inputs if
 * one of them is replicated and another is cut, or if the op makes collective calls. */
RSH_API rsh_status rsh_rule_apply(const rsh_grad_op *op, const void *attrs, int nin,
                                  rsh_value *const *in, int nout, rsh_value **out);

#ifdef __cplusplus
}
#endif
#endif
