/* torch: PyTorch's sharded tensors, specs and process groups, on the core of <reshard.h>.
 *
 * Read the headers in this order; docs/torch.md maps every name of torch.distributed._shard. */
#ifndef RESHARD_TORCH_H
#define RESHARD_TORCH_H

#include <reshard.h>
#include <reshard/torch/spec.h>
#include <reshard/torch/group.h>
#include <reshard/torch/functional.h>
#include <reshard/torch/tensor.h>

#endif
