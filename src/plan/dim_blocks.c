/* Dim blocks: a dim divided among coordinates, as blocks in ascending order. */
#include "plan/totals.h"

#include <stdlib.h>
#include <string.h>

#define MOST_BLOCKS ((int64_t)1 << 22)

typedef struct block {
    int64_t lo, owner;
} block;

typedef struct block_list {
    block *at;
    int64_t n, room;
    bool in_order;
} block_list;

static int by_start(const void *a, const void *b) {
    const block *x = a, *y = b;
    return (x->lo > y->lo) - (x->lo < y->lo);
}

static rsh_status add_stripe(block_list *list, const rshi_stripe *s, int64_t owner) {
    RSH_TRY(RSHI_GROW(list->at, list->n + s->count, &list->room));
    for (int64_t j = 0; j < s->count; j++) {
        int64_t lo = s->lo + j * s->stride;
        list->in_order = list->in_order && (!list->n || list->at[list->n - 1].lo < lo);
        list->at[list->n++] = (block){lo, owner};
    }
    return RSH_OK;
}

static rsh_status list_blocks(const rsh_layout *l, int d, block_list *list) {
    for (int g = 0; g < rshi_layout_segments(l, d); g++)
        for (int64_t k = 0; k < rshi_layout_cut_parts(l, d); k++) {
            rshi_stripe s = rshi_layout_segment_stripe(l, d, g, k);
            RSH_TRY(add_stripe(list, &s, k));
        }
    if (!list->in_order) qsort(list->at, (size_t)list->n, sizeof *list->at, by_start);
    return RSH_OK;
}

bool rshi_dim_blocks_fit(const rsh_layout *l) {
    for (int d = 0; d < rsh_layout_ndim(l); d++) {
        int64_t n = 0;
        for (int g = 0; g < rshi_layout_segments(l, d); g++)
            for (int64_t k = 0; k < rshi_layout_cut_parts(l, d) && n <= MOST_BLOCKS; k++)
                n = rshi_add(n, rshi_layout_segment_stripe(l, d, g, k).count, &n) ? n : INT64_MAX;
        if (n > MOST_BLOCKS) return false;
    }
    return true;
}

/* Numbers the coordinates that own something, without gaps. */
static rsh_status number_owners(rshi_dim_blocks *r) {
    int64_t *number = rshi_calloc((size_t)r->parts, sizeof *number);
    if (!number) return rshi_nomem();
    for (int64_t i = 0; i < r->n; i++) number[r->owner[i]] = 1;
    for (int64_t k = 0; k < r->parts; k++)
        if (number[k]) number[k] = r->full++;
    for (int64_t i = 0; i < r->n; i++) r->owner[i] = number[r->owner[i]];
    rshi_free(number);
    return RSH_OK;
}

static rsh_status fill(rshi_dim_blocks *r, const block_list *list, int64_t end) {
    r->n = list->n;
    r->start = rshi_alloc((size_t)r->n + 1, sizeof *r->start);
    r->owner = rshi_alloc((size_t)r->n + 1, sizeof *r->owner);
    r->run = rshi_alloc((size_t)r->n + 1, sizeof *r->run);
    if (!r->start || !r->owner || !r->run) return rshi_nomem();
    for (int64_t i = 0; i < r->n; i++) r->start[i] = list->at[i].lo, r->owner[i] = list->at[i].owner;
    r->start[r->n] = end;
    RSH_TRY(number_owners(r));
    for (int64_t i = r->n - 1; i >= 0; i--)
        r->run[i] = i + 1 < r->n && r->owner[i + 1] == r->owner[i] + 1 ? r->run[i + 1] : i;
    return RSH_OK;
}

rsh_status rshi_dim_blocks_make(const rsh_layout *l, int d, rshi_dim_blocks *out) {
    block_list list = {.in_order = true};
    *out = (rshi_dim_blocks){.parts = rshi_layout_cut_parts(l, d)};
    rsh_status st = list_blocks(l, d, &list);
    if (!st) st = fill(out, &list, rsh_layout_shape(l)[d]);
    rshi_free(list.at);
    return st;
}

void rshi_dim_blocks_free(rshi_dim_blocks *r) {
    rshi_free(r->start);
    rshi_free(r->owner);
    rshi_free(r->run);
}

/* ---- ranges ---- */

rsh_status rshi_ranges_add(rshi_ranges *list, int64_t lo, int64_t hi) {
    if (list->n && list->range[list->n - 1].hi == lo) { /* consecutive ranges are common */
        list->range[list->n - 1].hi = hi;
        return RSH_OK;
    }
    RSH_TRY(RSHI_GROW(list->range, list->n + 1, &list->room));
    list->range[list->n++] = (rshi_range){lo, hi};
    return RSH_OK;
}

static int by_lo(const void *a, const void *b) {
    const rshi_range *x = a, *y = b;
    return (x->lo > y->lo) - (x->lo < y->lo);
}

int64_t rshi_ranges_merge(rshi_ranges *list) {
    int64_t n = 0, count = 0;
    rshi_range *r = list->range;
    for (int64_t i = 1; i < list->n; i++)
        if (r[i].lo < r[i - 1].lo) {
            qsort(r, (size_t)list->n, sizeof *r, by_lo);
            break;
        }
    for (int64_t i = 0; i < list->n; i++) {
        if (n && r[i].lo <= r[n - 1].hi)
            r[n - 1].hi = rshi_max(r[n - 1].hi, r[i].hi);
        else
            r[n++] = r[i];
    }
    list->n = n;
    for (int64_t i = 0; i < n; i++) count += r[i].hi - r[i].lo;
    return count;
}
