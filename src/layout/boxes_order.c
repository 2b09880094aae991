/* Order of boxes: sorts boxes by rank without changing the order of any rank's boxes, and lists the boxes of each
 * rank. */
#include "layout/impl.h"

#include <stdlib.h>

int rshi_rank_entry_compare(const void *x, const void *y) {
    const rshi_rank_entry *a = x, *b = y;
    if (a->rank != b->rank) return a->rank < b->rank ? -1 : 1;
    return a->value < b->value ? -1 : a->value > b->value;
}

/* Lists every (rank, box) pair of the layout, by rank and then in the order written. */
static rshi_rank_entry *list_holdings(const rsh_layout *l, size_t *n) {
    *n = 0;
    for (int64_t i = 0; i < l->desc.nboxes; i++) *n += (size_t)l->desc.boxes[i].nranks;
    rshi_rank_entry *held = rshi_alloc(*n, sizeof *held);
    size_t k = 0;
    if (!held) return NULL;
    for (int64_t i = 0; i < l->desc.nboxes; i++)
        for (int64_t r = 0; r < l->desc.boxes[i].nranks; r++)
            held[k++] = (rshi_rank_entry){l->desc.boxes[i].ranks[r], i};
    qsort(held, *n, sizeof *held, rshi_rank_entry_compare);
    return held;
}

static void heap_push(rshi_rank_entry *heap, int64_t *n, rshi_rank_entry e) {
    int64_t i = (*n)++;
    for (; i && heap[(i - 1) / 2].rank > e.rank; i = (i - 1) / 2) heap[i] = heap[(i - 1) / 2];
    heap[i] = e;
}

static rshi_rank_entry heap_pop(rshi_rank_entry *heap, int64_t *n) {
    rshi_rank_entry top = heap[0], last = heap[--*n];
    int64_t i = 0;
    for (int64_t c; (c = 2 * i + 1) < *n; i = c) {
        if (c + 1 < *n && heap[c + 1].rank < heap[c].rank) c++;
        if (heap[c].rank >= last.rank) break;
        heap[i] = heap[c];
    }
    heap[i] = last;
    return top;
}

/* Sorts the boxes into canonical order: of all boxes whose predecessors on each of their ranks are already listed, the
 * one with the lowest rank comes next.  So the result depends only on the order on each rank.  There are no ties,
 * because two boxes that may come next share no rank. */
static rsh_status sort_boxes(rsh_layout *l, const rshi_rank_entry *held, size_t nheld, int64_t *position) {
    size_t n = (size_t)l->desc.nboxes;
    /* by box: on how many of its ranks it has an unlisted predecessor */
    int64_t *waiting = rshi_calloc(n, sizeof *waiting);
    rshi_rank_entry *heap = rshi_alloc(n, sizeof *heap);
    rsh_ranked_box *sorted = rshi_alloc(n, sizeof *sorted);
    int64_t ready = 0, done = 0;
    rsh_status st = RSH_OK;
    RSH_GOTO(waiting && heap && sorted ? RSH_OK : rshi_nomem());
    for (size_t k = 1; k < nheld; k++) waiting[held[k].value] += held[k].rank == held[k - 1].rank;
    for (int64_t i = 0; i < l->desc.nboxes; i++)
        if (!waiting[i]) heap_push(heap, &ready, (rshi_rank_entry){l->desc.boxes[i].ranks[0], i});
    while (ready) {
        int64_t i = heap_pop(heap, &ready).value;
        position[i] = done;
        sorted[done++] = l->desc.boxes[i];
        for (int64_t r = 0; r < l->desc.boxes[i].nranks; r++) {
            rshi_rank_entry key = {l->desc.boxes[i].ranks[r], i};
            const rshi_rank_entry *next = bsearch(&key, held, nheld, sizeof key, rshi_rank_entry_compare);
            if (++next < held + nheld && next->rank == key.rank && !--waiting[next->value])
                heap_push(heap, &ready, (rshi_rank_entry){l->desc.boxes[next->value].ranks[0], next->value});
        }
    }
    rshi_free((void *)l->desc.boxes);
    l->desc.boxes = sorted;
    sorted = NULL;
out:
    rshi_free(waiting);
    rshi_free(heap);
    rshi_free(sorted);
    return st;
}

/* Lists the boxes of each rank. */
static rsh_status index_boxes(rsh_layout *l, const rshi_rank_entry *held, size_t n, const int64_t *position) {
    l->box_of = rshi_alloc(n, sizeof *l->box_of);
    l->entry = rshi_alloc(n + 1, sizeof *l->entry);
    if (!l->box_of || !l->entry) return rshi_nomem();
    for (size_t k = 0; k < n; k++) {
        l->box_of[k] = position[held[k].value];
        if (!k || held[k].rank != held[k - 1].rank) l->entry[l->nranks++] = (rshi_rank_entry){held[k].rank, (int64_t)k};
    }
    l->entry[l->nranks] = (rshi_rank_entry){RSHI_RANK_MAX + 1, (int64_t)n};
    return RSH_OK;
}

rsh_status rshi_boxes_arrange(rsh_layout *l) {
    size_t n;
    rshi_rank_entry *held = list_holdings(l, &n);
    /* by box, in the order written: its new position */
    int64_t *position = rshi_alloc((size_t)l->desc.nboxes, sizeof *position);
    rsh_status st = held && position ? sort_boxes(l, held, n, position) : rshi_nomem();
    if (!st) st = index_boxes(l, held, n, position);
    rshi_free(held);
    rshi_free(position);
    return st;
}
