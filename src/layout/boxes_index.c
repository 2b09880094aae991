/* Index of boxes: sorted along the dim in which they differ most, so that a search looks at few of them. */
#include "layout/impl.h"

#include <stdlib.h>

/* How many different starts the boxes have along a dim; `list` has room for all. */
static int64_t different_starts(const rsh_layout *l, int d, int64_t *list) {
    int64_t n = 0;
    for (int64_t b = 0; b < l->desc.nboxes; b++) list[b] = l->desc.boxes[b].box.lo[d];
    qsort(list, (size_t)l->desc.nboxes, sizeof *list, rshi_compare_int64);
    for (int64_t b = 0; b < l->desc.nboxes; b++) n += !b || list[b] != list[b - 1];
    return n;
}

static void choose_dim(rsh_layout *l) {
    int64_t most = 0;
    for (int d = 0; d < l->desc.ndim; d++) {
        int64_t n = different_starts(l, d, l->reach);
        if (n > most) most = n, l->index_dim = d;
    }
}

static int by_lo(const void *a, const void *b, void *ctx) {
    const rsh_layout *l = ctx;
    int64_t x = l->desc.boxes[*(const int64_t *)a].box.lo[l->index_dim],
            y = l->desc.boxes[*(const int64_t *)b].box.lo[l->index_dim];
    return x != y ? (x > y) - (x < y) : rshi_compare_int64(a, b);
}

rsh_status rshi_boxes_index(rsh_layout *l) {
    l->by_start = rshi_alloc((size_t)l->desc.nboxes, sizeof *l->by_start);
    l->reach = rshi_alloc((size_t)l->desc.nboxes, sizeof *l->reach);
    if (!l->by_start || !l->reach) return rshi_nomem();
    choose_dim(l);
    for (int64_t b = 0; b < l->desc.nboxes; b++) l->by_start[b] = b;
    if (l->desc.nboxes && l->desc.ndim) qsort_r(l->by_start, (size_t)l->desc.nboxes, sizeof *l->by_start, by_lo, l);
    for (int64_t i = 0, most = INT64_MIN; i < l->desc.nboxes; i++) {
        most = rshi_max(most, l->desc.ndim ? l->desc.boxes[l->by_start[i]].box.hi[l->index_dim] : INT64_MAX);
        l->reach[i] = most;
    }
    return RSH_OK;
}

int64_t rshi_boxes_last(const rsh_layout *l, int64_t hi) {
    int64_t lo = 0, n = l->desc.nboxes;
    while (lo < n) { /* the first box that starts at or after hi */
        int64_t mid = lo + (n - lo) / 2;
        if (l->desc.boxes[l->by_start[mid]].box.lo[l->index_dim] < hi)
            lo = mid + 1;
        else
            n = mid;
    }
    return lo - 1;
}
