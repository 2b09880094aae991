/* rank_parts: one rank's parts of a layout, in memory that the other ranks can reach, so that a
 * move between processes needs no scratch. */
#ifndef RESHARD_CLI_RANK_PARTS_H
#define RESHARD_CLI_RANK_PARTS_H

#include "part_files.h"

typedef struct rank_parts {
    const parts *whole;
    rsh_sharded *tensor;
    rsh_memory *memory;    /* [nparts] */
    int64_t (*strides)[RSH_MAX_NDIM]; /* [nparts]; NULL: as the layout says */
    int64_t nparts, first; /* the first part's number among all */
} rank_parts;

/* New memory for this rank's parts, in the order that they have in the files.  Also after a failure
 * there is something to free.  Local. */
rsh_status rank_parts_take(rsh_comm *comm, const files *f, rank_parts *h);
void rank_parts_free(rank_parts *h);
/* Collective. */
rsh_status rank_parts_reshard(rsh_comm *comm, const rsh_plan *plan, const rank_parts *src,
                              const rank_parts *dst);

#endif
