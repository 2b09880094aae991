/* lattice: the bytes of a strided part, and whether two parts have a byte in common. */
#ifndef RESHARD_SHARD_LATTICE_H
#define RESHARD_SHARD_LATTICE_H

#include "base/base.h"

/* Runs of `run` bytes at start + i[0] * stride[0] + ..., with 0 <= i[d] < n[d] and n[d] > 1.
 * Strides are in bytes, not negative, in descending order. */
typedef struct rshi_lattice {
    uintptr_t start;
    int nd;
    int64_t n[RSH_MAX_NDIM], stride[RSH_MAX_NDIM];
    int64_t run; /* 0: no bytes at all */
} rshi_lattice;

/* `data` is the address of element 0,...,0; strides are in elements of `size` bytes, any sign.  The
 * first and the last byte must be at most INT64_MAX apart. */
rshi_lattice rshi_lattice_of(const void *data, int64_t size, int nd, const int64_t *shape,
                             const int64_t *strides);

typedef enum rshi_sharing {
    RSHI_APART,
    RSHI_SHARED,
    RSHI_UNDECIDED /* the search reached its limit */
} rshi_sharing;

/* Do two lattices have a byte in common?  Every step of the search decrements `steps`; it ends when
 * none is left.  Views of one dense array take a few steps for each dim. */
rshi_sharing rshi_lattices_meet(const rshi_lattice *a, const rshi_lattice *b, int64_t *steps);

/* Do two different indices of one lattice share a byte? */
rshi_sharing rshi_lattice_folds(const rshi_lattice *a, int64_t *steps);

#define RSHI_LATTICE_STEPS 10000 /* per question: less than a millisecond */

#endif
