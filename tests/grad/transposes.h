/* Transposes: the gradient of a linear op on all ranks against its matrix, column by column.
 *
 * The op is applied to every unit vector of every rank's inputs.  The sum of the outputs of all
 * ranks, weighted with the seeds, is an entry of the transposed matrix times the seeds; the
 * gradient must be equal to it.  This does not use the op's backward. */
#ifndef TRANSPOSES_H
#define TRANSPOSES_H

#include "grad/small_ops.h"

#include "../comm/ranks.h"

enum { TRANSPOSE_LISTS = 8 };

/* A linear op: its inputs on this rank, which it makes with all elements 0, and how it is applied.
 */
typedef struct linear {
    rsh_status (*make)(void *ctx, rsh_comm *comm, bool requires_grad, int *nin, rsh_value **in);
    rsh_status (*apply)(void *ctx, rsh_comm *comm, rsh_value **in, int *nout, rsh_value **out);
    void *ctx;
    double tolerance;
} linear;

/* Collective.  RSH_ERUNTIME and a sentence if a gradient is wrong. */
rsh_status transpose_check(const linear *l, rsh_comm *comm);

/* Runs a rank function with n ranks on threads, on processes, and on nodes with messages between
 * them. */
void run_engines(int n, rsh_rank_fn fn, void *ctx);

#endif
