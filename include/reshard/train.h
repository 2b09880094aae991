/* train: the part of the core that is for training: gradients, meshes and DTensors.
 *
 * Read the headers in this order.  Ops, modules and optimizers are in <reshard/nn.h>. */
#ifndef RESHARD_TRAIN_H
#define RESHARD_TRAIN_H

#include <reshard.h>
#include <reshard/grad.h>
#include <reshard/mesh.h>
#include <reshard/dtensor.h>
#include <reshard/rule.h>
#include <reshard/stash.h>

#endif
