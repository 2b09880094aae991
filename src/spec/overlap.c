/* Overlap: finds out whether any two of many boxes share an element.
 *
 * Two boxes overlap if along every dim one of them contains the first index of the other.  The search treats one list
 * of boxes as spans, and one as points (their first index along a dim), inside a window of that dim.  Spans that cover
 * the whole window contain every point in it, so for them only the remaining dims matter, where either list may be the
 * spans.  The other spans are followed into the two halves of the window, which is cut at a median of the points.
 * Along the last dim a span that contains a point is an overlap, and the search ends.  (These are the streamed segment
 * trees of Zomorodian and Edelsbrunner, stopped at the first hit.)
 *
 * Cost: at worst n log^k n if boxes differ in k dims, and one sort of n if neighbours are cut along one dim only.
 * Memory: two lists of n numbers, which are only reordered. */
#include "spec/spec.h"

#include <stdlib.h>

enum { FEW = 12 }; /* a list with at most this length is compared pair by pair */

/* First index and end of a box along one of the relevant dims. */
typedef struct edge {
    int64_t lo, hi;
} edge;

typedef struct search {
    const rsh_shard_meta *shards;
    int k;        /* number of dims along which boxes differ; the search begins with the last of them */
    edge *edges;  /* k entries for each shard, contiguous because the search uses nothing else */
    int64_t a, b; /* the pair that was found */
} search;

/* A list of shard numbers.  A call may reorder the list but does not change its content. */
typedef struct list {
    int64_t *at, n;
} list;

static edge edge_of(const search *s, int64_t i, int level) { return s->edges[i * s->k + level]; }
static int64_t begin_of(const search *s, int64_t i, int level) { return edge_of(s, i, level).lo; }
static int64_t end_of(const search *s, int64_t i, int level) { return edge_of(s, i, level).hi; }

static bool overlap(const rsh_shard_meta *a, const rsh_shard_meta *b) {
    for (int d = 0; d < a->ndim; d++)
        if (a->offsets[d] >= b->offsets[d] + b->sizes[d] || b->offsets[d] >= a->offsets[d] + a->sizes[d]) return false;
    return true;
}

static bool record_pair(search *s, int64_t a, int64_t b) {
    const edge *x = &s->edges[a * s->k], *y = &s->edges[b * s->k];
    if (a == b) return false;
    for (int i = 0; i < s->k; i++)
        if (x[i].lo >= y[i].hi || y[i].lo >= x[i].hi) return false;
    s->a = a;
    s->b = b;
    return true;
}

static bool search_pairs(search *s, list spans, list points) {
    for (int64_t i = 0; i < spans.n; i++)
        for (int64_t j = 0; j < points.n; j++)
            if (record_pair(s, spans.at[i], points.at[j])) return true;
    return false;
}

/* ---- the last dim: one pass through both lists by first index ---- */

static int by_begin(const void *x, const void *y, void *ctx) {
    const search *s = ctx;
    int64_t a = begin_of(s, *(const int64_t *)x, 0), b = begin_of(s, *(const int64_t *)y, 0);
    return a < b ? -1 : a > b;
}

/* Searches an overlap along the last dim.  If a point is inside any span that began before it, it is inside the span
 * that extends furthest.  That may be the span of the point's own box, so the two furthest are kept. */
static bool scan_last_dim(search *s, list spans, list points) {
    int64_t far[2] = {-1, -1}, i = 0;
    qsort_r(spans.at, (size_t)spans.n, sizeof *spans.at, by_begin, s);
    qsort_r(points.at, (size_t)points.n, sizeof *points.at, by_begin, s);
    for (int64_t j = 0; j < points.n; j++) {
        for (; i < spans.n && begin_of(s, spans.at[i], 0) <= begin_of(s, points.at[j], 0); i++) {
            if (far[0] < 0 || end_of(s, spans.at[i], 0) > end_of(s, far[0], 0))
                far[1] = far[0], far[0] = spans.at[i];
            else if (far[1] < 0 || end_of(s, spans.at[i], 0) > end_of(s, far[1], 0))
                far[1] = spans.at[i];
        }
        for (int k = 0; k < 2; k++)
            if (far[k] >= 0 && record_pair(s, far[k], points.at[j])) return true;
    }
    return false;
}

/* ---- the other dims ---- */

static void swap(int64_t *a, int64_t *b) {
    int64_t t = *a;
    *a = *b;
    *b = t;
}

/* Moves spans that contain the whole window (`whole`), or any index of it, to the front, and returns their number. */
static int64_t gather_spans(const search *s, list spans, int level, edge w, bool whole) {
    int64_t n = 0;
    for (int64_t i = 0; i < spans.n; i++) {
        edge e = edge_of(s, spans.at[i], level);
        if (whole ? e.lo <= w.lo && e.hi >= w.hi : e.lo < w.hi && e.hi > w.lo) swap(&spans.at[n++], &spans.at[i]);
    }
    return n;
}

static int64_t gather_points(const search *s, list points, int level, int64_t below) {
    int64_t n = 0;
    for (int64_t i = 0; i < points.n; i++)
        if (begin_of(s, points.at[i], level) < below) swap(&points.at[n++], &points.at[i]);
    return n;
}

/* Returns the smallest window that contains all points. */
static edge window_of(const search *s, list points, int level) {
    edge w = {INT64_MAX, 0};
    for (int64_t i = 0; i < points.n; i++) {
        int64_t x = begin_of(s, points.at[i], level);
        w.lo = rshi_min(w.lo, x);
        w.hi = rshi_max(w.hi, x + 1);
    }
    return w;
}

/* Returns where to cut a window: the median of a sample, chosen so that both halves have points. */
static int64_t cut_of(const search *s, list points, int level, edge w) {
    int64_t sample[31], n = rshi_min(points.n, 31);
    for (int64_t i = 0; i < n; i++) sample[i] = begin_of(s, points.at[i * (points.n / n)], level);
    qsort(sample, (size_t)n, sizeof *sample, rshi_compare_int64);
    return rshi_max(sample[n / 2], w.lo + 1);
}

/* Searches a pair that overlaps along the dims up to `level`; spans and points already overlap along all later dims. */
static bool search_level(search *s, list spans, list points, int level) {
    if (!spans.n || !points.n) return false;
    if (rshi_min(spans.n, points.n) <= FEW) return search_pairs(s, spans, points);
    if (!level) return scan_last_dim(s, spans, points);
    edge w = window_of(s, points, level);
    list whole = {spans.at, gather_spans(s, spans, level, w, true)}, rest = {spans.at + whole.n, spans.n - whole.n};
    if (search_level(s, whole, points, level - 1) || search_level(s, points, whole, level - 1)) return true;
    if (w.hi - w.lo == 1) return false; /* the remaining spans contain no point */
    int64_t cut = cut_of(s, points, level, w), n = gather_points(s, points, level, cut);
    list left = {points.at, n}, right = {points.at + n, points.n - n};
    rest.n = gather_spans(s, rest, level, (edge){w.lo, w.hi}, false);
    int64_t all = rest.n;
    rest.n = gather_spans(s, rest, level, (edge){w.lo, cut}, false);
    if (search_level(s, rest, left, level)) return true;
    rest.n = all;
    rest.n = gather_spans(s, rest, level, (edge){cut, w.hi}, false);
    return search_level(s, rest, right, level);
}

/* ---- the whole search ---- */

/* Returns whether all nonempty shards have the same range along d, so that the dim can be ignored. */
static bool all_agree(int64_t n, const rsh_shard_meta *shards, int d) {
    const rsh_shard_meta *first = NULL;
    for (int64_t i = 0; i < n; i++) {
        if (rshi_shard_empty(&shards[i])) continue;
        if (!first) first = &shards[i];
        if (shards[i].offsets[d] != first->offsets[d] || shards[i].sizes[d] != first->sizes[d]) return false;
    }
    return true;
}

/* Returns the average extent of boxes along a dim; 1 if each covers the whole dim. */
static double share_of(int64_t n, const rsh_shard_meta *shards, int d) {
    double sum = 0, end = 0;
    for (int64_t i = 0; i < n; i++) {
        sum += (double)shards[i].sizes[d];
        if (end < (double)(shards[i].offsets[d] + shards[i].sizes[d]))
            end = (double)(shards[i].offsets[d] + shards[i].sizes[d]);
    }
    return sum / (end * (double)n);
}

/* Selects the relevant dims, the one with the smallest boxes last, so that the search quickly narrows down. */
static int choose_dims(int64_t n, const rsh_shard_meta *shards, int *dim) {
    double share[RSH_MAX_NDIM];
    int k = 0;
    for (int d = 0; d < shards->ndim; d++) {
        if (all_agree(n, shards, d)) continue;
        double mine = share_of(n, shards, d);
        int at = k++;
        for (; at && share[at - 1] < mine; at--) share[at] = share[at - 1], dim[at] = dim[at - 1];
        share[at] = mine;
        dim[at] = d;
    }
    return k;
}

static rsh_status list_edges(search *s, int64_t n) {
    int dim[RSH_MAX_NDIM];
    s->k = choose_dims(n, s->shards, dim);
    s->edges = rshi_alloc((size_t)n, (size_t)s->k * sizeof *s->edges);
    if (!s->edges) return rshi_nomem();
    for (int64_t i = 0; i < n; i++)
        for (int k = 0; k < s->k; k++) {
            int64_t lo = s->shards[i].offsets[dim[k]];
            s->edges[i * s->k + k] = (edge){lo, lo + s->shards[i].sizes[dim[k]]};
        }
    return RSH_OK;
}

/* Lists the nonempty shards from `first` to n-1. */
static list list_full(const search *s, int64_t first, int64_t n, int64_t *room) {
    list l = {room, 0};
    for (int64_t i = first; i < n; i++)
        if (!rshi_shard_empty(&s->shards[i])) l.at[l.n++] = i;
    return l;
}

/* Returns whether a shard from `first` to n-1 overlaps any of the shards 0 to n-1.  `room` has space for 2n numbers. */
static bool search_from(search *s, int64_t first, int64_t n, int64_t *room) {
    list all = list_full(s, 0, n, room), some = list_full(s, first, n, room + n);
    if (!s->k) return all.n > 1 && record_pair(s, all.at[0], all.at[1]);
    return search_level(s, all, some, s->k - 1) || (first && search_level(s, some, all, s->k - 1));
}

/* Finds the first shard that overlaps an earlier one, and that one. */
static void find_first(search *s, int64_t *room) {
    int64_t none = 1,
            /* the first `none` shards do not overlap, but among the first `any` two do */
            any = rshi_max(s->a, s->b) + 1;
    while (any - none > 1) {
        int64_t mid = none + (any - none) / 2;
        if (search_from(s, none, mid, room))
            any = rshi_max(s->a, s->b) + 1;
        else
            none = mid;
    }
    s->b = any - 1;
    for (s->a = 0; rshi_shard_empty(&s->shards[s->a]) || !overlap(&s->shards[s->a], &s->shards[s->b]);) s->a++;
}

static rsh_status fail_pair(const search *s) {
    char a[RSHI_SHARD_TEXT], b[RSHI_SHARD_TEXT];
    rshi_shard_print(&s->shards[s->a], a);
    rshi_shard_print(&s->shards[s->b], b);
    return rshi_fail(RSH_EVALUE, "shards %lld and %lld overlap: %.300s and %.300s", (long long)s->a, (long long)s->b, a,
                     b);
}

rsh_status rsh_shards_check_overlap(int64_t n, const rsh_shard_meta *shards) {
    RSH_REQUIRE(n >= 0 && (!n || shards), RSH_EVALUE, "the number of shards must not be negative, nor their list "
                                                      "NULL; got %lld shards%s", (long long)n,
                shards ? "" : " (NULL)");
    for (int64_t i = 0; i < n; i++) {
        RSH_TRY(rshi_shard_meta_check(&shards[i], i));
        RSH_REQUIRE(shards[i].ndim == shards->ndim, RSH_EVALUE,
                    "shards must have the same number of dims: shard %lld has %d, shard 0 has %d", (long long)i,
                    shards[i].ndim, shards->ndim);
    }
    if (n < 2) return RSH_OK;
    search s = {.shards = shards};
    int64_t *room = rshi_alloc((size_t)n, 2 * sizeof *room);
    rsh_status st = room ? list_edges(&s, n) : rshi_nomem();
    if (!st && search_from(&s, 0, n, room)) {
        find_first(&s, room);
        st = fail_pair(&s);
    }
    rshi_free(s.edges);
    rshi_free(room);
    return st;
}
