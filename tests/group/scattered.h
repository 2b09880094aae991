/* scattered: tensors of any dtype, shape and strides whose elements are known from who made them,
 * for tests of the collectives. */
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

/* A form that all ranks draw alike. */
typedef struct form {
    rsh_dtype dtype;
    int ndim;
    int64_t shape[RSH_MAX_NDIM], count;
} form;
form form_draw(uint64_t *rng);

/* A tensor of this form; dense if `dense`, else with dims in any order, gaps and strides of any
 * sign. */
scattered scattered_new(const form *f, bool dense, uint64_t *rng);
void scattered_free(scattered *s);

/* Element i (row-major) of what `rank` made as number `slot`: any bits that the dtype has. */
void element_of(const form *f, uint64_t seed, int rank, int slot, int64_t i,
                unsigned char element[16]);
void scattered_fill(const form *f, scattered *s, uint64_t seed, int rank, int slot);

/* Are all elements those that `rank` made as number `slot`, and is nothing else written? */
bool scattered_is(const form *f, const scattered *s, uint64_t seed, int rank, int slot);
/* The same for the combination of what ranks 0..n-1 made as number `slot`. */
bool scattered_is_reduced(const form *f, const scattered *s, uint64_t seed, int n, int slot,
                          rsh_op op);

#endif
