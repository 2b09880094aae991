/* rank_parts: one rank's parts of a layout, in memory that the other ranks can access, so that a
 * move between processes needs no scratch memory. */
#ifndef RESHARD_CLI_RANK_PARTS_H
#define RESHARD_CLI_RANK_PARTS_H

#include "part_files.h"

typedef struct rank_parts {
    const parts *whole;
    rsh_sharded *tensor;
    rsh_memory *memory;    /* [nparts] */
    int64_t (*strides)[RSH_MAX_NDIM]; /* [nparts]; NULL: the layout's order */
    int64_t nparts, first; /* first: index of its first part among the parts of all ranks */
} rank_parts;

/* Allocates this rank's parts, in the element order of the files.  The caller frees *h, also after
 * a failure.  Local. */
rsh_status rank_parts_take(rsh_comm *comm, const files *f, rank_parts *h);
void rank_parts_free(rank_parts *h);
/* Collective. */
rsh_status rank_parts_reshard(rsh_comm *comm, const rsh_plan *plan, const rank_parts *src,
                              const rank_parts *dst);

#endif
