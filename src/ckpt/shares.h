/* Shares: which rank of a node reads which part of a tensor, so that every byte is read once per
 * node. */
#ifndef RESHARD_CKPT_SHARES_H
#define RESHARD_CKPT_SHARES_H

#include "ckpt/read_box.h"
#include "comm/comm.h"

/* A region of a part that one rank of each node reads, if the node needs it. */
typedef struct rshi_chunk {
    rshi_file_region region;
    int64_t bytes;    /* in memory */
    int64_t box;      /* index of its first box */
    int64_t nboxes;
    int64_t reader;   /* index in shares->reader of its first reader */
    int64_t nreaders;
    int64_t at; /* its byte offset in this rank's buffer; -1: this rank does not read it */
    bool of_view; /* the chunk is the only box of a view; `region` is not used */
} rshi_chunk;

/* A box of the tensor and its position in its chunk. */
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
    rsh_layout
        *layout; /* owned: the boxes and the ranks that read them; NULL: the tensor is empty */
    int64_t mine;       /* number of boxes that this rank reads */
    int64_t bytes;      /* number of bytes that this rank reads */
} rshi_shares;

/* Divides the reading of a tensor whose destination is `to`.  Adds to load[r] the bytes that rank r
 * of the comm reads, and to *memory the bytes of this rank's buffer.  The result is the same on
 * every rank, except for the fields about this rank.  RSH_ENOMEM; RSH_EUNSUP for elements smaller
 * than a byte. */
rsh_status rshi_shares_make(const rsh_ckpt *c, int64_t tensor, const rsh_layout *to,
                            const rsh_comm *comm, int64_t *load, int64_t *memory,
                            rshi_shares *out);
void rshi_shares_free(rshi_shares *s);

#endif
