/* Far cuts: a stripe cut into ranges that have equally many elements which are not near.
 *
 * Along the stripe the number of far elements before an index only grows, by the same number at each index between the
 * borders of what is near.  Where everything is one block, one sweep over those borders finds all cuts; otherwise each
 * is found by bisection. */
#include "plan/relay.h"

#include <stdlib.h>

/* ---- by bisection ---- */

/* Elements that are not near, of those before index x. */
static int64_t far_before(const rshi_stripe *b, int64_t across, const rshi_near *near, int64_t nnear, int64_t x) {
    int64_t n = across * rshi_stripe_before(b, x);
    for (int64_t i = 0; i < nnear; i++)
        if (near[i].along.lo < x) n -= near[i].across * rshi_stripe_common(&near[i].along, b, b->lo, x);
    return n;
}

static void bisect(const rshi_stripe *b, int64_t across, const rshi_near *near, int64_t nnear, int64_t n, int64_t *at) {
    int64_t end = rshi_stripe_end(b), far = far_before(b, across, near, nnear, end);
    at[0] = b->lo;
    for (int64_t i = 1; i < n; i++) {
        int64_t lo = at[i - 1], hi = end, target = rshi_slice_start(far, n, i);
        while (lo < hi) {
            int64_t mid = lo + (hi - lo) / 2;
            if (far_before(b, across, near, nnear, mid) < target)
                lo = mid + 1;
            else
                hi = mid;
        }
        at[i] = lo;
    }
    at[n] = end;
}

/* ---- by a sweep ---- */

/* From index x on there are `more` elements more that are far. */
typedef struct border {
    int64_t x, more;
} border;

typedef struct borders {
    border *list; /* owned: ascending */
    int64_t n, far; /* far: elements of the whole stripe that are */
} borders;

static int by_index(const void *a, const void *b) {
    const border *x = a, *y = b;
    return (x->x > y->x) - (x->x < y->x);
}

static rsh_status list_borders(const rshi_stripe *b, int64_t across, const rshi_near *near, int64_t nnear,
                               borders *out) {
    bool ascending = true;
    int64_t last = INT64_MIN;
    *out = (borders){rshi_alloc((size_t)(2 * nnear + 1), sizeof *out->list), 0, across * b->len};
    if (!out->list) return rshi_nomem();
    for (int64_t i = 0; i < nnear; i++) {
        int64_t lo = rshi_max(b->lo, near[i].along.lo), hi = rshi_min(b->lo + b->len, rshi_stripe_end(&near[i].along));
        if (lo >= hi) continue;
        ascending = ascending && last <= lo;
        last = hi;
        out->far -= near[i].across * (hi - lo);
        out->list[out->n++] = (border){lo, -near[i].across};
        out->list[out->n++] = (border){hi, near[i].across};
    }
    if (!ascending) qsort(out->list, (size_t)out->n, sizeof *out->list, by_index);
    return RSH_OK;
}

/* Between borders the count grows evenly: a cut is where it first reaches its target. */
static void sweep(const rshi_stripe *b, int64_t across, const borders *w, int64_t n, int64_t *at) {
    int64_t x = b->lo, far = 0, k = 0;
    at[0] = b->lo;
    for (int64_t i = 1; i < n; i++) {
        int64_t target = rshi_slice_start(w->far, n, i);
        for (; k < w->n && far + across * (w->list[k].x - x) < target; k++) {
            far += across * (w->list[k].x - x);
            x = w->list[k].x;
            across += w->list[k].more;
        }
        at[i] = target > far ? x + rshi_ceil_div(target - far, across) : at[i - 1];
    }
    at[n] = b->lo + b->len;
}

/* ---- */

static bool all_ranges(const rshi_stripe *b, const rshi_near *near, int64_t nnear) {
    bool all = b->count == 1;
    for (int64_t i = 0; i < nnear && all; i++) all = near[i].along.count <= 1;
    return all;
}

rsh_status rshi_far_cuts(const rshi_stripe *b, int64_t across, const rshi_near *near, int64_t nnear, int64_t n,
                         int64_t *at) {
    borders w;
    if (!all_ranges(b, near, nnear)) {
        bisect(b, across, near, nnear, n, at);
        return RSH_OK;
    }
    RSH_TRY(list_borders(b, across, near, nnear, &w));
    sweep(b, across, &w, n, at);
    rshi_free(w.list);
    return RSH_OK;
}
