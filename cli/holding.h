/* holding: one rank's parts of a layout, in memory that the other ranks can reach: what a rank of
 * processes moves needs no scratch. */
#ifndef RESHARD_CLI_HOLDING_H
#define RESHARD_CLI_HOLDING_H

#include "part_files.h"

typedef struct holding {
    const parts *whole;
    rsh_sharded *tensor;
    rsh_memory *memory;    /* [nparts] */
    int64_t (*strides)[RSH_MAX_NDIM]; /* [nparts]; NULL: as the layout says */
    int64_t nparts, first; /* the first part's number among all */
} holding;

/* New memory for this rank's parts, in the order that they have in the files.  Also after a failure
 * there is a holding to free.  Local. */
rsh_status holding_take(rsh_comm *comm, const files *f, holding *h);
void holding_free(holding *h);
/* Collective. */
rsh_status holding_reshard(rsh_comm *comm, const rsh_plan *plan, const holding *src,
                           const holding *dst);

#endif
