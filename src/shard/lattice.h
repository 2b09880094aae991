/* lattice: the bytes of a strided part, and whether two parts have one in common. */
#ifndef RESHARD_SHARD_LATTICE_H
#define RESHARD_SHARD_LATTICE_H

#include "base/base.h"

/* Runs of `run` bytes at start + i[0] * stride[0] + ..., with 0 <= i[d] < n[d] and n[d] > 1.
 * Strides are in bytes, not negative, and do not rise. */
typedef struct rshi_lattice {
    uintptr_t start;
    int nd;
    int64_t n[RSH_MAX_NDIM], stride[RSH_MAX_NDIM];
    int64_t run; /* 0: no bytes at all */
} rshi_lattice;

/* `data` is the address of element 0,...,0; strides are in elements of `size` bytes, any sign.
 * First and last byte are at most INT64_MAX apart. */
rshi_lattice rshi_lattice_of(const void *data, int64_t size, int nd, const int64_t *shape,
                             const int64_t *strides);

typedef enum rshi_sharing {
    RSHI_APART,
    RSHI_SHARED,
    RSHI_UNDECIDED /* the search ended before it knew */
} rshi_sharing;

/* Have two lattices a byte in common?  Every step of the search takes one from `steps`, and it ends
 * when none is left.  Views of one dense array take a few steps for each dim. */
rshi_sharing rshi_lattices_meet(const rshi_lattice *a, const rshi_lattice *b, int64_t *steps);

/* Do two indices of one lattice stand for a common byte? */
rshi_sharing rshi_lattice_folds(const rshi_lattice *a, int64_t *steps);

#define RSHI_LATTICE_STEPS 10000 /* of one question: below a millisecond */

#endif
