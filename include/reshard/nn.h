/* nn: ops with gradients, in libreshard-nn, a library of its own on the public headers of the core.
 *
 * Link with -lreshard-nn (pkg-config reshard-nn, CMake's reshard::nn). */
#ifndef RESHARD_NN_H
#define RESHARD_NN_H

#include <reshard/nn/ops.h>

#endif
