/* Read box: reads any box of a tensor of an open checkpoint. */
#ifndef RESHARD_CKPT_READ_BOX_H
#define RESHARD_CKPT_READ_BOX_H

#include "ckpt/ckpt.h"

/* Reads a box (NULL: all) of a tensor into memory at `to`, with the given element strides.  If
 * parts are stored several times, one copy is read.  Adds the number of bytes read from files to
 * *read, which may be NULL; it exceeds the size of the box if gaps between short rows are read as
 * well.  RSH_EINDEX if the box is not inside the tensor; RSH_EUNSUP for elements smaller than a
 * byte; RSH_EIO; RSH_ENOMEM.  From any thread. */
rsh_status rshi_ckpt_read_box(const rsh_ckpt *c, int64_t tensor, const rsh_box *box, char *to,
                              const int64_t *strides, uint64_t *read);

/* Lists, for each rank of a tensor's layout in ascending order, the index of its first part.  The
 * caller frees *out with rshi_free.  RSH_ENOMEM. */
rsh_status rshi_ckpt_part_numbers(const rshi_ckpt_tensor *t, int64_t **out);
/* Is this the first stored copy of the piece, which is the one that is read?  `base` is the list of
 * rshi_ckpt_part_numbers. */
bool rshi_piece_is_stored_first(const rsh_ckpt *c, const rshi_ckpt_tensor *t, const rshi_piece *p,
                                const int64_t *base);

/* A strided region of a file: element (i0, i1, ..) is at byte  at + sum i_d * fs[d]  of the file
 * and is read to byte  sum i_d * ms[d]  of the memory. */
typedef struct rshi_file_region {
    int32_t file;
    uint64_t at;
    int nd;
    int64_t n[RSH_MAX_NDIM], fs[RSH_MAX_NDIM], ms[RSH_MAX_NDIM];
} rshi_file_region;
/* Adds a dim; a dim of size 1 is ignored. */
void rshi_file_region_add(rshi_file_region *r, int64_t n, int64_t fs, int64_t ms);
/* Reads a region of elements of `size` bytes; short rows are read together.  *read as above.
 * RSH_EIO; RSH_ENOMEM.  From any thread. */
rsh_status rshi_file_region_read(const rsh_ckpt *c, const rshi_file_region *r, int64_t size,
                                 char *to, uint64_t *read);

#endif
