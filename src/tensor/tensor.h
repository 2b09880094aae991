/* tensor: functions on tensors for other rooms, in addition to the public ones. */
#ifndef RESHARD_TENSOR_TENSOR_H
#define RESHARD_TENSOR_TENSOR_H

#include <reshard/tensor.h>

#include "base/base.h"

/* The bytes from the lowest to the highest element of t; start == end if t is empty.  Two tensors
 * with disjoint spans share no element. */
typedef struct rshi_span {
    uintptr_t start, end; /* addresses; end is one past the last byte */
} rshi_span;
rshi_span rshi_tensor_span(const rsh_tensor *t);

/* Returns whether it is the only tensor on its storage, and the storage owns its memory. */
bool rshi_tensor_alone(const rsh_tensor *t);

#endif
