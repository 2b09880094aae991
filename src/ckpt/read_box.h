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

#endif
