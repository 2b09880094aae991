/* nn: ops with gradients, modules, optimizers and sharded modules.  libreshard-nn is a library of
 * its own that uses only the public headers of the core.
 *
 * Link with -lreshard-nn (pkg-config reshard-nn, CMake's reshard::nn). */
#ifndef RESHARD_NN_H
#define RESHARD_NN_H

#include <reshard/nn/ops.h>
#include <reshard/nn/module.h>
#include <reshard/nn/state.h>
#include <reshard/nn/random.h>
#include <reshard/nn/layers.h>
#include <reshard/nn/optim.h>
#include <reshard/nn/checkpoint.h>
#include <reshard/nn/shard.h>
#include <reshard/nn/recompute.h>
#include <reshard/nn/parallel.h>

#endif
