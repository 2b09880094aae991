/* Read box: any box of a tensor of an open checkpoint. */
#ifndef RESHARD_CKPT_READ_BOX_H
#define RESHARD_CKPT_READ_BOX_H

#include "ckpt/ckpt.h"

/* Reads a box (NULL: all) of a tensor into memory with the given element strides, of which the
 * first element is at `to`.  Of copies one is read.  Adds to *read, which may be NULL, how many
 * bytes came from files: more than the box has, where rows are so short that what lies between them
 * is read along.  RSH_EINDEX if the box is not inside the tensor; RSH_EUNSUP for elements that are
 * no whole bytes; RSH_EIO; RSH_ENOMEM.  From any thread. */
rsh_status rshi_ckpt_read_box(const rsh_ckpt *c, int64_t tensor, const rsh_box *box, char *to,
                              const int64_t *strides, uint64_t *read);

/* Of each rank of a tensor's layout, ascending, the number of its first part; *out is new
 * (rshi_free).  RSH_ENOMEM. */
rsh_status rshi_ckpt_part_numbers(const rshi_ckpt_tensor *t, int64_t **out);
/* Is it, of the copies of a piece that are stored, the first?  One copy is read.  `base` is as
 * above. */
bool rshi_piece_is_stored_first(const rsh_ckpt *c, const rshi_ckpt_tensor *t, const rshi_piece *p,
                                const int64_t *base);

/* Elements of a file at regular distances: element (i0, i1, ..) lies at byte  at + sum i_d * fs[d]
 * of the file and goes to  sum i_d * ms[d]  bytes from where memory begins. */
typedef struct rshi_file_region {
    int32_t file;
    uint64_t at;
    int nd;
    int64_t n[RSH_MAX_NDIM], fs[RSH_MAX_NDIM], ms[RSH_MAX_NDIM];
} rshi_file_region;
/* One more dim; dims of one index are left out. */
void rshi_file_region_add(rshi_file_region *r, int64_t n, int64_t fs, int64_t ms);
/* Reads a region of elements of `size` bytes, without calls for single rows where these are short.
 * *read as above.  RSH_EIO; RSH_ENOMEM.  From any thread. */
rsh_status rshi_file_region_read(const rsh_ckpt *c, const rshi_file_region *r, int64_t size,
                                 char *to, uint64_t *read);

#endif
