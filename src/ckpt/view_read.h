/* View read: boxes of views, in memory. */
#ifndef RESHARD_CKPT_VIEW_READ_H
#define RESHARD_CKPT_VIEW_READ_H

#include "ckpt/view.h"

/* Reads a box (NULL: all) of a view into memory, dense and row-major, as elements of `to`.  `name`
 * is for messages.  Adds to *read, which may be NULL, the bytes that came from files.  RSH_EUNSUP,
 * RSH_EIO, RSH_ENOMEM.  From any thread. */
rsh_status rshi_view_read(const rsh_ckpt *c, const rshi_ckpt_view *v, const char *name,
                          const rsh_box *box, rsh_dtype to, void *out, uint64_t *read);

#endif
