/* boxes: sets of elements as disjoint boxes, for the few places where products of stripes are
 * not enough. */
#ifndef RESHARD_PLAN_BOXES_H
#define RESHARD_PLAN_BOXES_H

#include "layout/layout.h"

typedef struct rshi_boxes {
    rsh_box *box; /* owned, disjoint */
    int64_t n, room;
} rshi_boxes;

/* Makes a new set whose only member is the smallest box around a piece. */
rsh_status rshi_boxes_around(int ndim, const rshi_piece *p, rshi_boxes *out);
/* Adds the elements of the piece that are not in the set yet. */
rsh_status rshi_boxes_add(int ndim, rshi_boxes *set, const rshi_piece *p);
/* Removes the elements of the piece from the set. */
rsh_status rshi_boxes_remove(int ndim, rshi_boxes *set, const rshi_piece *p);
int64_t rshi_boxes_count(int ndim, const rshi_boxes *set); /* elements */
void rshi_boxes_free(rshi_boxes *set);

#endif
