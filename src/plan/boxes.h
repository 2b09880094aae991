/* boxes: sets of elements as disjoint boxes, for the few places where products of stripes do not
 * do. */
#ifndef RESHARD_PLAN_BOXES_H
#define RESHARD_PLAN_BOXES_H

#include "layout/layout.h"

typedef struct rshi_boxes {
    rsh_box *box; /* owned, disjoint */
    int64_t n, room;
} rshi_boxes;

/* The smallest box around a piece, as the only member of a new set. */
rsh_status rshi_boxes_around(int ndim, const rshi_piece *p, rshi_boxes *out);
/* Add what of the piece is not in the set yet. */
rsh_status rshi_boxes_add(int ndim, rshi_boxes *set, const rshi_piece *p);
/* Take the piece out of the set. */
rsh_status rshi_boxes_remove(int ndim, rshi_boxes *set, const rshi_piece *p);
int64_t rshi_boxes_count(int ndim, const rshi_boxes *set); /* elements */
void rshi_boxes_free(rshi_boxes *set);

#endif
