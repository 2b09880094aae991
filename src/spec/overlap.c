/* Overlap: do two of many boxes hold a common element?
 *
 * Two boxes overlap if along every dim one of them holds the other's first index.  Take one list of boxes as spans and one as points (their
 * first index along a dim) inside a window of that dim.  Spans that cover the whole window hold every point in it, so for them and the points
 * only the dims that remain count, with either list as spans there.  The other spans are followed into the two halves of the window, cut at a
 * median of the points.  Along the last dim a span that holds a point is an overlap, and the search ends.
 * (Zomorodian and Edelsbrunner's streamed segment trees, stopped at the first hit.)
 *
 * Cost: n log^k n at worst, where k dims have boxes that differ, and a sort of n along one dim if neighbours are cut along that dim alone;
 * two lists of n numbers, which are only ever rearranged. */
#include "spec/spec.h"

#include <stdlib.h>

enum { FEW = 24 }; /* lists this short are compared pair by pair */

typedef struct search {
    const rsh_shard_meta *shards;
    int ndim;              /* dims in which boxes differ */
    int dim[RSH_MAX_NDIM]; /* which they are; the last is looked at first */
    int64_t a, b;          /* the pair that was found */
} search;

/* Numbers of shards; the list of one call is rearranged by it, never changed. */
typedef struct list {
    int64_t *at, n;
} list;

typedef struct window {
    int64_t lo, hi; /* half-open */
} window;

static int64_t begin_of(const search *s, int64_t i, int d) { return s->shards[i].offsets[d]; }
static int64_t end_of(const search *s, int64_t i, int d) { return s->shards[i].offsets[d] + s->shards[i].sizes[d]; }

static bool overlap(const rsh_shard_meta *a, const rsh_shard_meta *b) {
    for (int d = 0; d < a->ndim; d++)
        if (a->offsets[d] >= b->offsets[d] + b->sizes[d] || b->offsets[d] >= a->offsets[d] + a->sizes[d]) return false;
    return true;
}

static bool found(search *s, int64_t a, int64_t b) {
    if (a == b || !overlap(&s->shards[a], &s->shards[b])) return false;
    s->a = a;
    s->b = b;
    return true;
}

static bool search_pairs(search *s, list spans, list points) {
    for (int64_t i = 0; i < spans.n; i++)
        for (int64_t j = 0; j < points.n; j++)
            if (found(s, spans.at[i], points.at[j])) return true;
    return false;
}

/* ---- the last dim: one pass through both lists by first index ---- */

static int by_begin(const void *x, const void *y, void *ctx) {
    const search *s = ctx;
    int64_t a = begin_of(s, *(const int64_t *)x, s->dim[0]), b = begin_of(s, *(const int64_t *)y, s->dim[0]);
    return a < b ? -1 : a > b;
}

/* A point is held by a span that began before it if it is held by the one that reaches furthest; that may be the point's own box, so two are kept. */
static bool scan(search *s, list spans, list points) {
    int d = s->dim[0];
    int64_t far[2] = {-1, -1}, i = 0;
    qsort_r(spans.at, (size_t)spans.n, sizeof *spans.at, by_begin, s);
    qsort_r(points.at, (size_t)points.n, sizeof *points.at, by_begin, s);
    for (int64_t j = 0; j < points.n; j++) {
        for (; i < spans.n && begin_of(s, spans.at[i], d) <= begin_of(s, points.at[j], d); i++) {
            if (far[0] < 0 || end_of(s, spans.at[i], d) > end_of(s, far[0], d))
                far[1] = far[0], far[0] = spans.at[i];
            else if (far[1] < 0 || end_of(s, spans.at[i], d) > end_of(s, far[1], d))
                far[1] = spans.at[i];
        }
        for (int k = 0; k < 2; k++)
            if (far[k] >= 0 && found(s, far[k], points.at[j])) return true;
    }
    return false;
}

/* ---- the other dims ---- */

static void swap(int64_t *a, int64_t *b) {
    int64_t t = *a;
    *a = *b;
    *b = t;
}

/* To the front: spans that hold the whole window (`whole`), or any index of it.  Returns how many they are. */
static int64_t gather_spans(const search *s, list spans, int d, window w, bool whole) {
    int64_t n = 0;
    for (int64_t i = 0; i < spans.n; i++) {
        int64_t lo = begin_of(s, spans.at[i], d), hi = end_of(s, spans.at[i], d);
        if (whole ? lo <= w.lo && hi >= w.hi : lo < w.hi && hi > w.lo) swap(&spans.at[n++], &spans.at[i]);
    }
    return n;
}

static int64_t gather_points(const search *s, list points, int d, int64_t below) {
    int64_t n = 0;
    for (int64_t i = 0; i < points.n; i++)
        if (begin_of(s, points.at[i], d) < below) swap(&points.at[n++], &points.at[i]);
    return n;
}

/* The narrowest window that holds all points. */
static window window_of(const search *s, list points, int d) {
    window w = {INT64_MAX, 0};
    for (int64_t i = 0; i < points.n; i++) {
        int64_t x = begin_of(s, points.at[i], d);
        w.lo = rshi_min(w.lo, x);
        w.hi = rshi_max(w.hi, x + 1);
    }
    return w;
}

/* Where to cut a window with points at both of its ends: the median of a sample, but so that both halves have points. */
static int64_t cut_of(const search *s, list points, int d, window w) {
    int64_t sample[31], n = rshi_min(points.n, 31);
    for (int64_t i = 0; i < n; i++) sample[i] = begin_of(s, points.at[i * (points.n / n)], d);
    qsort(sample, (size_t)n, sizeof *sample, rshi_compare_int64);
    return rshi_max(sample[n / 2], w.lo + 1);
}

/* Spans and points overlap along all dims from `level` + 1 on; is there a pair that does so along the rest? */
static bool search_level(search *s, list spans, list points, int level) {
    if (!spans.n || !points.n) return false;
    if (spans.n * points.n <= FEW * FEW) return search_pairs(s, spans, points);
    if (!level) return scan(s, spans, points);
    int d = s->dim[level];
    window w = window_of(s, points, d);
    list whole = {spans.at, gather_spans(s, spans, d, w, true)}, rest = {spans.at + whole.n, spans.n - whole.n};
    if (search_level(s, whole, points, level - 1) || search_level(s, points, whole, level - 1)) return true;
    if (w.hi - w.lo == 1) return false; /* the rest holds none of the points */
    int64_t cut = cut_of(s, points, d, w), n = gather_points(s, points, d, cut);
    list left = {points.at, n}, right = {points.at + n, points.n - n};
    rest.n = gather_spans(s, rest, d, (window){w.lo, w.hi}, false);
    int64_t all = rest.n;
    rest.n = gather_spans(s, rest, d, (window){w.lo, cut}, false);
    if (search_level(s, rest, left, level)) return true;
    rest.n = all;
    rest.n = gather_spans(s, rest, d, (window){cut, w.hi}, false);
    return search_level(s, rest, right, level);
}

/* ---- the whole ---- */

static bool all_agree(const rsh_shard_meta *shards, list boxes, int d) {
    const rsh_shard_meta *first = &shards[boxes.at[0]];
    for (int64_t i = 1; i < boxes.n; i++) {
        const rsh_shard_meta *m = &shards[boxes.at[i]];
        if (m->offsets[d] != first->offsets[d] || m->sizes[d] != first->sizes[d]) return false;
    }
    return true;
}

/* Is there an overlap among the shards 0 to n-1 that have elements?  `room` has space for 2n numbers. */
static bool search_first(search *s, int64_t n, int64_t *room) {
    list spans = {room, 0}, points = {room + n, 0};
    for (int64_t i = 0; i < n; i++)
        if (!rshi_shard_empty(&s->shards[i])) spans.at[spans.n++] = points.at[points.n++] = i;
    if (spans.n < 2) return false;
    s->ndim = 0;
    for (int d = 0; d < s->shards->ndim; d++)
        if (!all_agree(s->shards, spans, d)) s->dim[s->ndim++] = d;
    if (!s->ndim) return found(s, spans.at[0], spans.at[1]);
    return search_level(s, spans, points, s->ndim - 1);
}

/* Narrow an overlap down to the first shard that overlaps one before it, and that one. */
static void find_first(search *s, int64_t *room) {
    int64_t none = 1, some = rshi_max(s->a, s->b) + 1; /* of the first `none` shards no two overlap, of the first `some` two do */
    while (some - none > 1) {
        int64_t mid = none + (some - none) / 2;
        if (search_first(s, mid, room))
            some = rshi_max(s->a, s->b) + 1;
        else
            none = mid;
    }
    s->b = some - 1;
    for (s->a = 0; rshi_shard_empty(&s->shards[s->a]) || !overlap(&s->shards[s->a], &s->shards[s->b]);) s->a++;
}

static rsh_status fail_pair(const search *s) {
    char a[RSHI_SHARD_TEXT], b[RSHI_SHARD_TEXT];
    rshi_shard_print(&s->shards[s->a], a);
    rshi_shard_print(&s->shards[s->b], b);
    return rshi_fail(RSH_EVALUE, "shards %lld and %lld overlap: %.300s and %.300s", (long long)s->a, (long long)s->b, a, b);
}

rsh_status rsh_shards_check_overlap(int64_t n, const rsh_shard_meta *shards) {
    RSH_REQUIRE(n >= 0 && (!n || shards), RSH_EVALUE, "a list of %lld shards%s", (long long)n, shards ? "" : " at NULL");
    for (int64_t i = 0; i < n; i++) {
        RSH_TRY(rshi_shard_meta_check(&shards[i], i));
        RSH_REQUIRE(shards[i].ndim == shards->ndim, RSH_EVALUE, "shard %lld has %d dims, shard 0 has %d", (long long)i, shards[i].ndim,
                    shards->ndim);
    }
    if (n < 2) return RSH_OK;
    int64_t *room = rshi_alloc((size_t)n, 2 * sizeof *room);
    if (!room) return rshi_nomem();
    search s = {.shards = shards};
    bool any = search_first(&s, n, room);
    if (any) find_first(&s, room);
    rshi_free(room);
    return any ? fail_pair(&s) : RSH_OK;
}
