/* Placed values: whole tensors of random sizes as DTensors of given placements, and the comparison
 * of an op on DTensors with the same op on whole tensors, forward and backward. */
#ifndef TESTS_NN_PLACED_VALUES_H
#define TESTS_NN_PLACED_VALUES_H

#include "models.h"

#include <reshard/dtensor.h>

enum { MOST_INPUTS = 4 };

/* An op on inputs whose shapes are words, such as "ab bc": equal letters are equal sizes, drawn
 * from 1 to 9, `e` is a multiple of 24, and a digit is a size.  A letter before a colon gives the
 * kind of elements: i, indices below the size of letter z; m, a mask; p, numbers above 0.5; without
 * one, any numbers. */
typedef struct placed_op {
    const char *name, *shapes;
    rsh_status (*run)(rsh_value *const *in, rsh_value **out);
} placed_op;

/* Placements of the inputs along one dim of the mesh, and the expected placement of the output.  S1
 * is a cut of dim 1, P a sum, A an average, M a maximum; if `out` is "no", RSH_EUNSUP is
 * expected. */
typedef struct placed_row {
    const char *in, *out;
} placed_row;

/* Checks the values, placements and gradients of an op on a mesh, with row i along dim i.  Sizes
 * are drawn from `seed`.  For rows with "no" the error must name the op and the placements. */
rsh_status placed_check(rsh_mesh *mesh, const placed_op *op, const placed_row *const *row,
                        uint64_t seed);

#endif
