/* scattered: tensors of any dtype, shape and strides whose elements follow from the rank that made
 * them, for tests of the collectives. */
#ifndef RESHARD_TESTS_GROUP_SCATTERED_H
#define RESHARD_TESTS_GROUP_SCATTERED_H

#include <reshard.h>

#include "oracle/oracle.h"

#define SCATTERED_GUARD 0xab /* every byte between elements */

typedef struct scattered {
    rsh_tensor *t;
    unsigned char *base; /* owned by the tensor */
    size_t bytes;
} scattered;

/* A random dtype and shape, the same on all ranks. */
typedef struct form {
    rsh_dtype dtype;
    int ndim;
    int64_t shape[RSH_MAX_NDIM], count;
} form;
form form_draw(uint64_t *rng);

/* Makes a tensor of this form: dense if `dense` is set, otherwise with dims in any order, gaps, and
 * strides of any sign. */
scattered scattered_new(const form *f, bool dense, uint64_t *rng);
void scattered_free(scattered *s);

/* Computes element i (row-major) of tensor number `slot` of a rank: any bits of the dtype. */
void element_of(const form *f, uint64_t seed, int rank, int slot, int64_t i,
                unsigned char element[16]);
void scattered_fill(const form *f, scattered *s, uint64_t seed, int rank, int slot);

/* Does the tensor equal tensor number `slot` of `rank`, with all other bytes unchanged? */
bool scattered_is(const form *f, const scattered *s, uint64_t seed, int rank, int slot);
/* Does the same for the reduction of tensors number `slot` of ranks 0 to n-1. */
bool scattered_is_reduced(const form *f, const scattered *s, uint64_t seed, int n, int slot,
                          rsh_op op);

#endif
