/* reduce: the arithmetic of rsh_comm_allreduce. */
#ifndef RESHARD_COMM_REDUCE_H
#define RESHARD_COMM_REDUCE_H

#include "base/base.h"

/* RSH_EVALUE, RSH_ETYPE or RSH_EUNSUP if allreduce does not support `op` on `dtype`. */
rsh_status rshi_reduce_check(rsh_op op, rsh_dtype dtype);

/* Combines blocks[nblocks][count], dense, in ascending order into out[count].  Arguments must have
 * passed rshi_reduce_check. */
void rshi_reduce(rsh_op op, rsh_dtype dtype, int nblocks, int64_t count, const void *blocks,
                 void *out);

#endif
