/* View pieces: the pieces of a view while it is taken apart. */
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
    bool dry;       /* nothing is read: scales stay undefined */
} rshi_piece_list;

/* RSH_EUNSUP if there are RSHI_MOST_PIECES already. */
rsh_status rshi_pieces_add(rshi_piece_list *b, const rshi_placed *p);
/* The piece from local index `first` of dim d on, where its indices are `set`. */
rshi_placed rshi_piece_from(const rshi_placed *p, int d, int64_t first, rshi_stripe set);
/* Adds the pieces that a piece of v->part[0] becomes in a reshaped view. */
rsh_status rshi_reshape_piece(rshi_piece_list *b, const rshi_ckpt_view *v, const rshi_placed *p);

void rshi_end_free_scales(rshi_ckpt_end *e);

#endif
