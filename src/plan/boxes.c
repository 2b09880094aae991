/* Boxes: sets of elements as disjoint boxes. */
#include "plan/boxes.h"

void rshi_boxes_free(rshi_boxes *set) {
    rshi_free(set->box);
    *set = (rshi_boxes){0};
}

static rsh_status push(rshi_boxes *set, const rsh_box *b) {
    RSH_TRY(RSHI_GROW(set->box, set->n + 1, &set->room));
    set->box[set->n++] = *b;
    return RSH_OK;
}

/* Adds `b` without `hole`: in each dim the part below it and the part above it, then continues with the part
 * between. */
static rsh_status push_rest(int ndim, rsh_box b, const rsh_box *hole, rshi_boxes *out) {
    for (int d = 0; d < ndim; d++)
        if (hole->lo[d] >= b.hi[d] || hole->hi[d] <= b.lo[d]) return push(out, &b);
    for (int d = 0; d < ndim; d++) {
        rsh_box below = b, above = b;
        below.hi[d] = hole->lo[d];
        above.lo[d] = hole->hi[d];
        if (below.lo[d] < below.hi[d]) RSH_TRY(push(out, &below));
        if (above.lo[d] < above.hi[d]) RSH_TRY(push(out, &above));
        b.lo[d] = rshi_max(b.lo[d], hole->lo[d]);
        b.hi[d] = rshi_min(b.hi[d], hole->hi[d]);
    }
    return RSH_OK;
}

static rsh_status remove_box(int ndim, rshi_boxes *set, const rsh_box *hole) {
    rshi_boxes rest = {0};
    rsh_status st = RSH_OK;
    for (int64_t i = 0; i < set->n && !st; i++) st = push_rest(ndim, set->box[i], hole, &rest);
    rshi_boxes_free(st ? &rest : set);
    if (!st) *set = rest;
    return st;
}

static rsh_status add_box(int ndim, rshi_boxes *set, const rsh_box *b) {
    RSH_TRY(remove_box(ndim, set, b));
    return push(set, b);
}

/* Calls fn for each block of a piece. */
typedef rsh_status (*box_fn)(int ndim, rshi_boxes *set, const rsh_box *b);
static rsh_status each_block(int ndim, rshi_boxes *set, const rshi_piece *p, int d, rsh_box *b, box_fn fn) {
    if (d == ndim) return fn(ndim, set, b);
    const rshi_stripe *s = &p->set[d];
    for (int64_t j = 0; j < s->count; j++) {
        b->lo[d] = s->lo + j * s->stride;
        b->hi[d] = b->lo[d] + (j == s->count - 1 ? s->last : s->len);
        RSH_TRY(each_block(ndim, set, p, d + 1, b, fn));
    }
    return RSH_OK;
}

rsh_status rshi_boxes_around(int ndim, const rshi_piece *p, rshi_boxes *out) {
    rsh_box b = {{0}, {0}};
    for (int d = 0; d < ndim; d++) b.lo[d] = p->set[d].lo, b.hi[d] = rshi_stripe_end(&p->set[d]);
    return push(out, &b);
}

rsh_status rshi_boxes_add(int ndim, rshi_boxes *set, const rshi_piece *p) {
    rsh_box b = {{0}, {0}};
    return each_block(ndim, set, p, 0, &b, add_box);
}

rsh_status rshi_boxes_remove(int ndim, rshi_boxes *set, const rshi_piece *p) {
    rsh_box b = {{0}, {0}};
    return each_block(ndim, set, p, 0, &b, remove_box);
}

int64_t rshi_boxes_count(int ndim, const rshi_boxes *set) {
    int64_t total = 0;
    for (int64_t i = 0; i < set->n; i++) {
        int64_t n = 1;
        for (int d = 0; d < ndim; d++) n *= set->box[i].hi[d] - set->box[i].lo[d];
        total += n;
    }
    return total;
}
