/* Rank parts: allocates one rank's parts in memory of the comm, and moves them between two layouts. */
#include "rank_parts.h"

#include <stdlib.h>

/* Sets the strides of this rank's parts to the order of the files. */
static bool set_file_order(rank_parts *h, bool fortran) {
    h->strides = calloc((size_t)h->nparts + 1, sizeof *h->strides);
    for (int64_t i = 0; h->strides && i < h->nparts; i++) {
        const rsh_tensor *t = rsh_sharded_part(h->tensor, i);
        dense_strides(rsh_tensor_ndim(t), rsh_tensor_shape(t), fortran, h->strides[i]);
        h->memory[i].strides = h->strides[i];
    }
    return h->strides;
}

rsh_status rank_parts_take(rsh_comm *comm, const files *f, rank_parts *h) {
    const parts *whole = f->parts;
    *h = (rank_parts){.whole = whole, .first = parts_of(whole, rsh_comm_rank(comm))};
    rsh_status st = rsh_sharded_empty(comm, whole->layout, &h->tensor);
    if (st) return st;
    h->nparts = rsh_sharded_nparts(h->tensor);
    h->memory = calloc((size_t)h->nparts + 1, sizeof *h->memory);
    if (!h->memory) return RSH_ENOMEM;
    for (int64_t i = 0; i < h->nparts; i++) h->memory[i].data = rsh_tensor_data(rsh_sharded_part(h->tensor, i));
    return !f->npy || set_file_order(h, f->fortran) ? RSH_OK : RSH_ENOMEM;
}

void rank_parts_free(rank_parts *h) {
    rsh_sharded_free(h->tensor);
    free(h->memory);
    free(h->strides);
}

rsh_status rank_parts_reshard(rsh_comm *comm, const rsh_plan *plan, const rank_parts *src, const rank_parts *dst) {
    rsh_exec *exec = NULL;
    rsh_status st = rsh_exec_bind(plan, comm, src->memory, dst->memory, &exec);
    if (!st) st = rsh_exec_run(exec);
    rsh_exec_free(exec);
    return st;
}
