/* Cell coverage: how many elements of a cell do given cells cover, without comparing pairs of cells?
 *
 * Along one dim, [lo, hi) and [0, x) have max(0, x - lo) - max(0, x - hi) indices in common.  Let F(x, y, ..) be the
 * weighted elements of all boxes inside [0, x) x [0, y) x ..  Then every corner e of a box adds, at all points
 * beyond it, the product of (x - e).  The coefficients of these polynomials are summed on a grid of lines, so F at
 * any point is one evaluation, and the coverage of a cell is a sum of F over the corners of its blocks.
 * Intermediate sums are computed modulo 2^64; the result fits and is exact. */
#include "plan/totals.h"

#define MOST_NUMBERS ((int64_t)1 << 24) /* coefficients: 128 MB */

struct rshi_coverage {
    int ndim, n;                       /* dims of the tensor, and of the grid */
    int dim[RSH_MAX_NDIM];             /* the dims of the tensor that the grid has */
    int64_t lines[RSH_MAX_NDIM];       /* of each */
    const int64_t *line[RSH_MAX_NDIM]; /* borrowed from the side's blocks */
    bool of_added;
    int64_t points; /* of the grid */
    int64_t classes;
    uint64_t *coefficient; /* owned: [class][point][set of the grid's dims that have a factor x] */
};

static void set_dims(rshi_coverage *m, const rshi_grouped_side *lines) {
    m->points = 1;
    for (int d = 0; d < lines->ndim; d++) {
        if (lines->blocks[d].n == 1) continue; /* every cell covers all of it */
        m->dim[m->n] = d;
        m->lines[m->n] = lines->blocks[d].n + 1;
        m->line[m->n] = lines->blocks[d].start;
        m->points = rshi_mul_most(m->points, m->lines[m->n++]);
    }
}

rsh_status rshi_coverage_new(const rshi_grouped_side *lines, bool of_added, int64_t classes, rshi_coverage **out) {
    rshi_coverage *m = RSHI_NEW(rshi_coverage);
    *out = NULL;
    if (!m) return rshi_nomem();
    *m = (rshi_coverage){.ndim = lines->ndim, .of_added = of_added, .classes = classes};
    set_dims(m, lines);
    int64_t n = rshi_mul_most(rshi_mul_most(m->points, classes), (int64_t)1 << m->n);
    if (n > MOST_NUMBERS) {
        rshi_free(m);
        return RSH_OK;
    }
    m->coefficient = rshi_calloc((size_t)n, sizeof *m->coefficient);
    if (!m->coefficient) {
        rshi_free(m);
        return rshi_nomem();
    }
    *out = m;
    return RSH_OK;
}

void rshi_coverage_free(rshi_coverage *m) {
    if (m) rshi_free(m->coefficient);
    rshi_free(m);
}

static bool has_lines(const rshi_coverage *m, int d) {
    for (int i = 0; i < m->n; i++)
        if (m->dim[i] == d) return true;
    return false;
}

/* The first line at or after x. */
static int64_t line_from(const rshi_coverage *m, int i, int64_t x) {
    int64_t lo = 0, hi = m->lines[i] - 1;
    while (lo < hi) {
        int64_t mid = lo + (hi - lo) / 2;
        if (m->line[i][mid] < x)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

/* The last line at or before x. */
static int64_t line_before(const rshi_coverage *m, int i, int64_t x) {
    int64_t at = line_from(m, i, x);
    return m->line[i][at] > x ? at - 1 : at;
}

/* One corner of a cell, while the dims of the grid are enumerated. */
typedef struct corner {
    int64_t class_, point;
    uint64_t value; /* with sign */
    int64_t at[RSH_MAX_NDIM];
} corner;

/* ---- adding ---- */

static void add_corner(rshi_coverage *m, const corner *c) {
    uint64_t *out = m->coefficient + ((c->class_ * m->points + c->point) << m->n);
    for (unsigned set = 0; set < 1u << m->n; set++) {
        uint64_t x = c->value;
        for (int i = 0; i < m->n; i++)
            if (!(set >> i & 1)) x *= (uint64_t)-c->at[i];
        out[set] += x;
    }
}

static void add_corners(rshi_coverage *m, const rshi_stripe *cell, int i, corner c) {
    if (i == m->n) {
        add_corner(m, &c);
        return;
    }
    const rshi_stripe *s = &cell[m->dim[i]];
    for (int64_t j = 0; j < s->count; j++) {
        int64_t lo = s->lo + j * s->stride, hi = lo + (j == s->count - 1 ? s->last : s->len);
        for (int end = 0; end < 2; end++) {
            corner next = c;
            next.at[i] = end ? hi : lo;
            next.value = end ? -c.value : c.value;
            next.point = c.point * m->lines[i] + line_from(m, i, next.at[i]);
            add_corners(m, cell, i + 1, next);
        }
    }
}

void rshi_coverage_add(rshi_coverage *m, int64_t class_, const rshi_stripe *cell) {
    corner c = {.class_ = class_, .value = 1};
    for (int d = 0; d < m->ndim && !m->of_added; d++)
        if (!has_lines(m, d)) c.value *= (uint64_t)rshi_stripe_size(&cell[d]);
    if (c.value) add_corners(m, cell, 0, c);
}

/* Computes prefix sums, dim by dim. */
void rshi_coverage_finish(rshi_coverage *m) {
    int64_t step = 1, sets = (int64_t)1 << m->n, all = m->classes * m->points;
    for (int i = m->n - 1; i >= 0; step *= m->lines[i--])
        for (int64_t p = 0; p < all; p++) {
            if (p / step % m->lines[i] == 0) continue;
            for (int64_t k = 0; k < sets; k++) m->coefficient[p * sets + k] += m->coefficient[(p - step) * sets + k];
        }
}

/* ---- queries ---- */

static uint64_t value_at(const rshi_coverage *m, const corner *c) {
    const uint64_t *in = m->coefficient + ((c->class_ * m->points + c->point) << m->n);
    uint64_t sum = 0;
    for (unsigned set = 0; set < 1u << m->n; set++) {
        uint64_t x = in[set];
        for (int i = 0; i < m->n; i++)
            if (set >> i & 1) x *= (uint64_t)c->at[i];
        sum += x;
    }
    return sum * c->value;
}

static uint64_t sum_corners(const rshi_coverage *m, const rshi_stripe *cell, int i, corner c) {
    if (i == m->n) return value_at(m, &c);
    const rshi_stripe *s = &cell[m->dim[i]];
    uint64_t sum = 0;
    for (int64_t j = 0; j < s->count; j++)
        for (int end = 0; end < 2; end++) {
            corner next = c;
            int64_t lo = s->lo + j * s->stride;
            next.at[i] = end ? lo + (j == s->count - 1 ? s->last : s->len) : lo;
            next.value = end ? c.value : -c.value;
            next.point = c.point * m->lines[i] + line_before(m, i, next.at[i]);
            sum += sum_corners(m, cell, i + 1, next);
        }
    return sum;
}

int64_t rshi_coverage_of(const rshi_coverage *m, int64_t class_, const rshi_stripe *cell) {
    corner c = {.class_ = class_, .value = 1};
    for (int d = 0; d < m->ndim && m->of_added; d++)
        if (!has_lines(m, d)) c.value *= (uint64_t)rshi_stripe_size(&cell[d]);
    return (int64_t)sum_corners(m, cell, 0, c);
}
