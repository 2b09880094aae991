/* Placed values: whole tensors of random sizes as DTensors of given placements, and the comparison
 * of an op on DTensors with the same op on whole tensors, forward and backward. */
#ifndef TESTS_NN_PLACED_VALUES_H
#define TESTS_NN_PLACED_VALUES_H

#include "models.h"

#include <reshard/dtensor.h>

enum { MOST_INPUTS = 4 };

/* An op on inputs whose shapes are words, such as "ab bc": equal letters are equal sizes, drawn
 * from 1 to 9, `e` is a multiple of 24, and a digit is a size.  Before a colon stands what the
 * elements are: i, indices below the size of letter z; m, a mask; p, numbers above 0.5; nothing:
 * numbers. */
typedef struct placed_op {
    const char *name, *shapes;
    rsh_status (*run)(rsh_value *const *in, rsh_value **out);
} placed_op;

/* Placements of the inputs along one dim of the mesh and what follows for the output; S1 is a cut
 * of dim 1, P a sum, A an average, M a maximum; `out` of "no": RSH_EUNSUP. */
typedef struct placed_row {
    const char *in, *out;
} placed_row;

/* The op on a mesh of n dims, row i along dim i: values, placements, gradients.  `seed` draws the
 * sizes.  Rows of "no" must be refused with the op's name and the placements. */
rsh_status placed_check(rsh_mesh *mesh, const placed_op *op, const placed_row *const *row,
                        uint64_t seed);

#endif
