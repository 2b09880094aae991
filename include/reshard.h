/* reshard: sharded tensors, and moves from one way of cutting a tensor to another.
 *
 * A layout says which rank holds which part of a tensor.  A comm is a group of ranks.  A sharded
 * tensor combines both with this rank's part, and rsh_reshard moves it to another layout.  In this
 * example four ranks, which are threads of one process, turn 1,024 rows each into 1,024 columns
 * each:
 *
 *     #include <reshard.h>
 *
 *     static rsh_status rows_to_columns(void *ctx, rsh_comm *comm) {
 *         rsh_layout *rows = NULL, *columns = NULL;
 *         rsh_sharded *a = NULL, *b = NULL;
 *         rsh_status st = rsh_layout_parse("f32[4096/x, 4096] on x=4", &rows);
 *         if (!st) st = rsh_layout_parse("f32[4096, 4096/x] on x=4", &columns);
 *         if (!st) st = rsh_sharded_zeros(comm, rows, &a);
 *         if (!st) st = rsh_reshard(a, columns, NULL, &b);
 *         rsh_sharded_free(a), rsh_sharded_free(b);
 *         rsh_layout_free(rows), rsh_layout_free(columns);
 *         return st;
 *     }
 *     int main(void) { return rsh_run(4, rows_to_columns, NULL); }
 *
 * Which function to use:
 * - To move a tensor once or now and then: rsh_reshard.  Into existing memory: rsh_reshard_into.
 *   Several tensors together: rsh_reshard_many.
 * - To repeat a move on the same memory: rsh_exec_bind once, then rsh_exec_run.
 * - To compute while elements move: rsh_reshard_begin and rsh_transit_wait, or rsh_exec_begin.
 * - To move all parts within one process, without ranks: rsh_plan_run_local; to repeat it:
 *   rsh_local_exec_bind and rsh_local_exec_run.
 * - To see the cost without moving anything: rsh_plan_new and rsh_plan_get_totals, rsh_simulate.
 * - Under MPI: the same functions on a comm from rsh_comm_mpi, in <reshard/mpi.h>.
 * - For checkpoints: rsh_ckpt_convert from files to files; rsh_ckpt_save and rsh_ckpt_load in a
 *   program.
 * - For values with gradients: rsh_value_reshard; for DTensors: rsh_dtensor_redistribute, both in
 *   <reshard/train.h>.  For PyTorch's ShardedTensor: rsh_torch_reshard, in <reshard/torch.h>.
 *
 * Every function is pure (depends on its arguments only), local (affects this rank only) or
 * collective (every rank of the comm must call it).  <reshard/status.h> lists what holds for all
 * functions.  Read the headers in the order below; each opens with a paragraph about its
 * subject. */
#ifndef RESHARD_H
#define RESHARD_H

/* What most programs need. */
#include <reshard/status.h>
#include <reshard/layout.h>
#include <reshard/comm.h>
#include <reshard/shard.h>
#include <reshard/tensor.h>
#include <reshard/dtype.h>
#include <reshard/math.h>

/* Plans that can be inspected before they run, files, pictures and estimates. */
#include <reshard/plan.h>
#include <reshard/ckpt.h>
#include <reshard/draw.h>
#include <reshard/simulate.h>

/* For programs that supply their own threads, messages, output or memory limits. */
#include <reshard/version.h>
#include <reshard/progress.h>
#include <reshard/sink.h>
#include <reshard/pool.h>
#include <reshard/message.h>
#include <reshard/wire.h>
#include <reshard/alloc.h>

#endif
