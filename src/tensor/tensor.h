/* tensor: what other rooms may ask of a tensor beyond the public calls. */
#ifndef RESHARD_TENSOR_TENSOR_H
#define RESHARD_TENSOR_TENSOR_H

#include <reshard/tensor.h>

#include "base/base.h"

/* The bytes between the lowest and the highest element of t, both included; start == end where t
 * has no elements. Two tensors whose spans are disjoint share no element. */
typedef struct rshi_span {
    uintptr_t start, end; /* addresses; end is one past the last byte */
} rshi_span;
rshi_span rshi_tensor_span(const rsh_tensor *t);

/* Is it the only tensor on its storage, and does the storage own its memory? */
bool rshi_tensor_alone(const rsh_tensor *t);

#endif
