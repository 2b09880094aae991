/* View pieces: the list of pieces that view_end.c and view_reshape.c build. */
#ifndef RESHARD_CKPT_VIEW_PIECES_H
#define RESHARD_CKPT_VIEW_PIECES_H

#include "ckpt/impl.h"
#include "ckpt/view.h"

#define RSHI_MOST_SCALES (1 << 24) /* of a tensor: 64 MiB in memory */

typedef struct rshi_piece_list {
    const rsh_ckpt *c;
    const char *name; /* of the target, for messages */
    rshi_ckpt_end *e;
    rshi_runs runs; /* scratch; owned */
    bool dry;       /* do not read scales; their values stay undefined */
} rshi_piece_list;

/* Adds a piece.  RSH_EUNSUP if there are already RSHI_MOST_PIECES. */
rsh_status rshi_pieces_add(rshi_piece_list *b, const rshi_stored_piece *p);
/* Returns the part of a piece that starts at local index `first` of dim d and has the indices
 * `set`. */
rshi_stored_piece rshi_piece_from(const rshi_stored_piece *p, int d, int64_t first,
                                  rshi_stripe set);
/* Adds the pieces of a reshaped view that correspond to a piece of v->part[0]. */
rsh_status rshi_reshape_piece(rshi_piece_list *b, const rshi_ckpt_view *v,
                              const rshi_stored_piece *p);

void rshi_end_free_scales(rshi_ckpt_end *e);

#endif
