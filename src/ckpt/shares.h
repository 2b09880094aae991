/* Shares: who of a node reads what of a tensor, so that every byte is read once per node. */
#ifndef RESHARD_CKPT_SHARES_H
#define RESHARD_CKPT_SHARES_H

#include "ckpt/read_box.h"
#include "comm/comm.h"

/* What one rank of each node that needs it reads at once: a region of a part. */
typedef struct rshi_chunk {
    rshi_file_region region;
    int64_t bytes;    /* in memory */
    int64_t box;      /* number of its first box, and how many there are */
    int64_t nboxes;
    int64_t reader;   /* of shares->reader: its first, and how many there are */
    int64_t nreaders;
    int64_t at; /* where it begins in the memory of this rank; -1: this rank does not read it */
    bool of_view; /* its only box is read as one of a view; there is no region */
} rshi_chunk;

/* A box of the tensor, and where it lies in its chunk. */
typedef struct rshi_share_box {
    rsh_box box;
    int64_t offset; /* bytes */
    int64_t strides[RSH_MAX_NDIM]; /* elements */
} rshi_share_box;

/* One tensor that is loaded. */
typedef struct rshi_shares {
    int64_t size; /* bytes of an element */
    rshi_chunk *chunk;
    int64_t nchunks, chunks_room;
    rshi_share_box *box; /* by chunk */
    int64_t nboxes, boxes_room;
    int64_t *reader; /* ranks, by chunk */
    int64_t nreaders, readers_room;
    rsh_layout *layout; /* owned: every box at its readers; NULL: the tensor is empty */
    int64_t mine;       /* boxes that this rank reads */
    int64_t bytes;      /* that this rank reads */
} rshi_shares;

/* Divides a tensor whose destination is `to`.  `load` has the bytes that each rank of the comm has
 * to read so far, and is added to; `memory` is where this rank's memory goes on, and is added to.
 * The result is the same on every rank, but for what is said to be this rank's.
 * RSH_ENOMEM; RSH_EUNSUP for elements that are no whole bytes. */
rsh_status rshi_shares_make(const rsh_ckpt *c, int64_t tensor, const rsh_layout *to,
                            const rsh_comm *comm, int64_t *load, int64_t *memory,
                            rshi_shares *out);
void rshi_shares_free(rshi_shares *s);

#endif
