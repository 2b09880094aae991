/* Boxes build: builds a layout of boxes.  It checks each box, checks that they tile the tensor, and sorts them into
 * canonical order. */
#include "layout/impl.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define CHECK RSHI_CHECK

static rshi_text_place box_place(const rshi_builder *b, int64_t i) {
    return (rshi_text_place){rshi_origin_at(b->origin->box, i), "box", i, -1};
}

static rsh_status check_shape(rshi_builder *b) {
    rsh_layout *l = b->l;
    for (int d = 0; d < l->desc.ndim; d++) {
        l->shape[d] = l->desc.dim[d].size = b->desc->dim[d].size;
        CHECK(l->shape[d] >= 0, ((rshi_text_place){b->origin->dim[d], "dim", d, -1}),
              "size must be 0 or more, got %" PRId64, l->shape[d]);
    }
    return rshi_count_elements(b);
}

static rsh_status check_range(const rshi_builder *b, int64_t i, int d) {
    int64_t lo = b->desc->boxes[i].box.lo[d], hi = b->desc->boxes[i].box.hi[d];
    CHECK(lo <= hi, box_place(b, i), "range %" PRId64 ":%" PRId64 " of dim %d ends before it begins", lo, hi, d);
    CHECK(lo >= 0, box_place(b, i), "range %" PRId64 ":%" PRId64 " of dim %d begins below 0", lo, hi, d);
    CHECK(hi <= b->l->shape[d], box_place(b, i),
          "range %" PRId64 ":%" PRId64 " runs past the end of dim %d, whose size is %" PRId64, lo, hi, d,
          b->l->shape[d]);
    return RSH_OK;
}

/* Allocates one list for all boxes and one for the ranks of all boxes. */
static rsh_status alloc_boxes(rshi_builder *b, rsh_ranked_box **boxes) {
    int64_t n = b->desc->nboxes, total = 0;
    bool listed = n > 0 ? b->desc->boxes != NULL : n == 0;
    CHECK(listed, ((rshi_text_place){b->origin->boxes, "boxes", -1, -1}), 
          "nboxes must be 0 or more and boxes must list them, got nboxes %" PRId64, n);
    for (int64_t i = 0; i < n; i++) {
        const rsh_ranked_box *from = &b->desc->boxes[i];
        CHECK(from->nranks >= 1 && from->ranks, box_place(b, i), "box has no ranks; write RANK:[...]");
        if (!rshi_add(total, from->nranks, &total)) return rshi_fail(RSH_ENOMEM, "layout: too many ranks to count");
    }
    b->l->desc.boxes = *boxes = rshi_calloc((size_t)n, sizeof **boxes);
    b->l->box_ranks = rshi_alloc((size_t)total, sizeof *b->l->box_ranks);
    if (!*boxes || !b->l->box_ranks) return rshi_nomem();
    b->l->desc.nboxes = n;
    return RSH_OK;
}

/* Stores box i and its ranks; `ranks` is where the ranks are stored. */
static rsh_status store_box(rshi_builder *b, int64_t i, rsh_ranked_box *to, int64_t *ranks) {
    const rsh_ranked_box *from = &b->desc->boxes[i];
    for (int d = 0; d < b->l->desc.ndim; d++) {
        RSH_TRY(check_range(b, i, d));
        to->box.lo[d] = from->box.lo[d];
        to->box.hi[d] = from->box.hi[d];
    }
    memcpy(ranks, from->ranks, (size_t)from->nranks * sizeof *ranks);
    qsort(ranks, (size_t)from->nranks, sizeof *ranks, rshi_compare_int64);
    for (int64_t k = 0; k < from->nranks; k++) {
        CHECK(ranks[k] >= 0 && ranks[k] <= RSHI_RANK_MAX, box_place(b, i), "rank %" PRId64 " is not in 0..%" PRId64,
              ranks[k], RSHI_RANK_MAX);
        CHECK(!k || ranks[k - 1] != ranks[k], box_place(b, i), "rank %" PRId64 " appears twice in one box", ranks[k]);
    }
    to->nranks = from->nranks;
    to->ranks = ranks;
    return RSH_OK;
}

rsh_status rshi_boxes_build(rshi_builder *b) {
    rsh_layout *l = b->l;
    rsh_ranked_box *boxes = NULL;
    l->desc.is_boxes = true;
    RSH_TRY(check_shape(b));
    RSH_TRY(alloc_boxes(b, &boxes));
    for (int64_t i = 0, at = 0; i < l->desc.nboxes; at += boxes[i++].nranks)
        RSH_TRY(store_box(b, i, &boxes[i], l->box_ranks + at));
    RSH_TRY(rshi_boxes_check(l, b->origin));
    RSH_TRY(rshi_boxes_arrange(l));
    return rshi_boxes_index(l);
}
