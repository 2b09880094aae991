/* reshard: sharded tensors, and the moves between one way of cutting a tensor and another.
 *
 *     text --> layout --> plan --> exec --> bytes
 *              (where)    (how)    (do it)
 *
 * Read the headers in this order; each opens with a paragraph that says what its noun is.  Every
 * function is one of: pure (a value from values), local (touches this rank only), collective (every
 * rank of the comm calls it). */
#ifndef RESHARD_H
#define RESHARD_H

#include <reshard/version.h>
#include <reshard/status.h>
#include <reshard/alloc.h>
#include <reshard/sink.h>
#include <reshard/progress.h>
#include <reshard/dtype.h>
#include <reshard/layout.h>
#include <reshard/plan.h>
#include <reshard/tensor.h>
#include <reshard/math.h>
#include <reshard/message.h>
#include <reshard/pool.h>
#include <reshard/wire.h>
#include <reshard/comm.h>
#include <reshard/shard.h>
#include <reshard/stash.h>
#include <reshard/mesh.h>
#include <reshard/grad.h>
#include <reshard/rule.h>
#include <reshard/dtensor.h>
#include <reshard/draw.h>
#include <reshard/simulate.h>
#include <reshard/ckpt.h>

#endif
