/* View read: reads boxes of views into memory. */
#ifndef RESHARD_CKPT_VIEW_READ_H
#define RESHARD_CKPT_VIEW_READ_H

#include "ckpt/view.h"

/* Reads a box (NULL: all) of a view into memory, contiguous and row-major, converted to dtype `to`.
 * `name` is for messages.  Adds the number of bytes read from files to *read, which may be NULL.
 * RSH_EUNSUP; RSH_EIO; RSH_ENOMEM.  From any thread. */
rsh_status rshi_view_read(const rsh_ckpt *c, const rshi_ckpt_view *v, const char *name,
                          const rsh_box *box, rsh_dtype to, void *out, uint64_t *read);

#endif
