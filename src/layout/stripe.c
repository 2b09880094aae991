/* Stripe: equal blocks at equal distances along one dim, and the intersection of two stripes.
 *
 * Contiguous parts are stripes of one block, block-cyclic parts are stripes of many.  The intersection of two stripes
 * of many blocks repeats with the least common multiple of their strides.  So the common runs are listed for one period
 * and repeated: the cost is the number of different runs, not the length of the dim. */
#include "layout/layout.h"

int64_t rshi_stripe_before(const rshi_stripe *s, int64_t x) {
    if (!s->count || x <= s->lo) return 0;
    if (x >= rshi_stripe_end(s)) return rshi_stripe_size(s);
    if (s->count == 1) return x - s->lo;
    int64_t j = (x - s->lo) / s->stride;
    return j * s->len + rshi_min(x - s->lo - j * s->stride, s->len);
}

bool rshi_stripe_has(const rshi_stripe *s, int64_t x) {
    return s->count && x >= s->lo && x < rshi_stripe_end(s) && (x - s->lo) % s->stride < s->len;
}

int64_t rshi_stripe_at(const rshi_stripe *s, int64_t i) { return s->lo + i / s->len * s->stride + i % s->len; }

/* ---- common runs ---- */

static rsh_status push_run(rshi_runs *out, rshi_run run) {
    RSH_TRY(RSHI_GROW(out->run, out->n + 1, &out->room));
    out->run[out->n++] = run;
    return RSH_OK;
}

/* Finds the next common interval of a and b at or after x, below hi; returns false if there is none. */
static bool next_common(const rshi_stripe *a, const rshi_stripe *b, int64_t x, int64_t hi, int64_t *lo, int64_t *end) {
    const rshi_stripe *s[2] = {a, b};
    int64_t stop[2];
    for (int k = 0, settled = 0; settled < 2; k ^= 1) {
        int64_t j = (x - s[k]->lo) / s[k]->stride;
        int64_t start = s[k]->lo + j * s[k]->stride;
        if (x >= start + s[k]->len) start += s[k]->stride, j++;
        if (j >= s[k]->count) return false;
        stop[k] = start + (j == s[k]->count - 1 ? s[k]->last : s[k]->len);
        if (x >= stop[k]) return false;
        if (start > x)
            x = start, settled = 1;
        else
            settled++;
        if (x >= hi) return false;
    }
    *lo = x;
    *end = rshi_min(hi, rshi_min(stop[0], stop[1]));
    return true;
}

/* Returns the least common multiple of two strides, or hi if that is smaller. */
static int64_t common_period(const rshi_stripe *a, const rshi_stripe *b, int64_t hi) {
    int64_t l;
    if (!rshi_mul(a->stride / rshi_gcd(a->stride, b->stride), b->stride, &l)) return hi;
    return rshi_min(l, hi);
}

/* The range in which both stripes are regular: from the larger start to the smaller end, with the number of whole
 * periods of full blocks in it. */
typedef struct shared_range {
    int64_t lo, hi, period, repeats;
} shared_range;

static shared_range find_shared_range(const rshi_stripe *a, const rshi_stripe *b, int64_t lo, int64_t hi) {
    shared_range m = {rshi_max(lo, rshi_max(a->lo, b->lo)),
                      rshi_min(hi, rshi_min(rshi_stripe_end(a), rshi_stripe_end(b))),
                 0, 0};
    if (m.lo >= m.hi) return m;
    m.period = a->count > 1 ? a->stride : b->stride;
    if (a->count > 1 && b->count > 1) m.period = common_period(a, b, m.hi - m.lo + 1);
    if (a->count > 1 || b->count > 1) m.repeats = (m.hi - m.lo) / m.period;
    if (a->count == 1 && b->count == 1) m.period = m.hi - m.lo;
    return m;
}

/* Lists the runs of [lo, hi), each repeated `count` times at distance `step`. */
static rsh_status list_runs(const rshi_stripe *a, const rshi_stripe *b, int64_t lo, int64_t hi, int64_t step,
                            int64_t count, rshi_runs *out) {
    int64_t start, end;
    for (int64_t x = lo; next_common(a, b, x, hi, &start, &end); x = end) {
        rshi_run r = {rshi_stripe_before(a, start), rshi_stripe_before(b, start), end - start, count, 0, 0};
        if (count > 1) {
            r.da = rshi_stripe_before(a, start + step) - r.ia;
            r.db = rshi_stripe_before(b, start + step) - r.ib;
        }
        RSH_TRY(push_run(out, r));
    }
    return RSH_OK;
}

/* Does a block of one of the repeating stripes start at x?  Then no run crosses x, nor any point a multiple of the
 * period away from it. */
static bool block_starts(const rshi_stripe *a, const rshi_stripe *b, int64_t x) {
    return (a->count > 1 && (x - a->lo) % a->stride == 0) || (b->count > 1 && (x - b->lo) % b->stride == 0);
}

/* Lists an incomplete first run at m->lo separately, so that the repeated ones are whole. */
static rsh_status list_cut_off(const rshi_stripe *a, const rshi_stripe *b, shared_range *m, rshi_runs *out) {
    int64_t start, end;
    if (!next_common(a, b, m->lo, m->hi, &start, &end) || block_starts(a, b, start)) return RSH_OK;
    RSH_TRY(list_runs(a, b, start, end, 0, 1, out));
    m->lo = end;
    m->repeats = (m->hi - m->lo) / m->period;
    return RSH_OK;
}

rsh_status rshi_stripe_overlap(const rshi_stripe *a, const rshi_stripe *b, int64_t lo, int64_t hi, rshi_runs *out) {
    rshi_run r;
    if (!a->count || !b->count) return RSH_OK;
    if (a->count == 1 && b->count == 1) return rshi_range_overlap(a, b, lo, hi, &r) ? push_run(out, r) : RSH_OK;
    shared_range m = find_shared_range(a, b, lo, hi);
    if (m.lo >= m.hi) return RSH_OK;
    if (m.repeats > 1) RSH_TRY(list_cut_off(a, b, &m, out));
    if (m.repeats > 1) {
        RSH_TRY(list_runs(a, b, m.lo, m.lo + m.period, m.period, m.repeats, out));
        m.lo += m.repeats * m.period;
    }
    return list_runs(a, b, m.lo, m.hi, 0, 1, out);
}

static int64_t count_common(const rshi_stripe *a, const rshi_stripe *b, int64_t lo, int64_t hi) {
    int64_t n = 0, start, end;
    for (int64_t x = lo; next_common(a, b, x, hi, &start, &end); x = end) n += end - start;
    return n;
}

int64_t rshi_stripe_common(const rshi_stripe *a, const rshi_stripe *b, int64_t lo, int64_t hi) {
    if (!a->count || !b->count) return 0;
    if (a->count == 1 && b->count == 1) {
        lo = rshi_max(lo, rshi_max(a->lo, b->lo));
        hi = rshi_min(hi, rshi_min(a->lo + a->last, b->lo + b->last));
        return lo < hi ? hi - lo : 0;
    }
    shared_range m = find_shared_range(a, b, lo, hi);
    if (m.lo >= m.hi) return 0;
    if (a->count == 1) return rshi_stripe_before(b, m.hi) - rshi_stripe_before(b, m.lo);
    if (b->count == 1) return rshi_stripe_before(a, m.hi) - rshi_stripe_before(a, m.lo);
    int64_t whole = m.repeats ? m.repeats * count_common(a, b, m.lo, m.lo + m.period) : 0;
    return whole + count_common(a, b, m.lo + m.repeats * m.period, m.hi);
}
