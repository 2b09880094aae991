/* Move: brings a move into canonical form, chooses its kernel, and loops over its outer dims. */
#include "copy/impl.h"

#include <stdlib.h>

/* Smaller destinations stay in the caches, where plain stores are faster and leave the data cached. */
#define STREAM_BYTES ((size_t)8 << 20)

static int64_t *source_strides(const rshi_move *m, int k) { return m->ss + (ptrdiff_t)k * RSHI_MOVE_DIMS; }

static void copy_dim(rshi_move *m, int to, int from) {
    m->n[to] = m->n[from];
    m->ds[to] = m->ds[from];
    for (int k = 0; k < m->nsrc; k++) source_strides(m, k)[to] = source_strides(m, k)[from];
}

static void swap_values(int64_t *a, int64_t *b) {
    int64_t t = *a;
    *a = *b;
    *b = t;
}

static void swap_dims(rshi_move *m, int a, int b) {
    swap_values(&m->n[a], &m->n[b]);
    swap_values(&m->ds[a], &m->ds[b]);
    for (int k = 0; k < m->nsrc; k++) swap_values(&source_strides(m, k)[a], &source_strides(m, k)[b]);
}

static bool is_empty(const rshi_move *m) {
    for (int d = 0; d < m->nd; d++)
        if (m->n[d] <= 0) return true;
    return false;
}

static void drop_single(rshi_move *m) {
    int kept = 0;
    for (int d = 0; d < m->nd; d++)
        if (m->n[d] != 1) copy_dim(m, kept++, d);
    m->nd = kept;
}

/* Insertion sort: there are at most 16 dims and they are mostly sorted. */
static void sort_by_destination(rshi_move *m) {
    for (int i = 1; i < m->nd; i++)
        for (int d = i; d > 0 && llabs(m->ds[d - 1]) < llabs(m->ds[d]); d--) swap_dims(m, d - 1, d);
}

/* Can dims a (outer) and b (inner) be treated as one dim on every side? */
static bool fusible(const rshi_move *m, int a, int b) {
    if (m->ds[a] != m->n[b] * m->ds[b]) return false;
    for (int k = 0; k < m->nsrc; k++)
        if (source_strides(m, k)[a] != m->n[b] * source_strides(m, k)[b]) return false;
    return true;
}

static void fuse_dims(rshi_move *m) {
    int last = 0;
    for (int d = 1; d < m->nd; d++) {
        if (fusible(m, last, d)) {
            int64_t n = m->n[last] * m->n[d];
            copy_dim(m, last, d);
            m->n[last] = n;
        } else {
            copy_dim(m, ++last, d);
        }
    }
    if (m->nd) m->nd = last + 1;
}

/* A single element becomes one dim of extent 1, so that the kernels always have a plane. */
static void ensure_a_dim(rshi_move *m) {
    if (m->nd) return;
    m->nd = 1;
    m->n[0] = 1;
    m->ds[0] = (int64_t)rsh_dtype_size(m->to);
    for (int k = 0; k < m->nsrc; k++) source_strides(m, k)[0] = (int64_t)rsh_dtype_size(m->from);
}

static bool is_plain(const rshi_move *m) { return m->nsrc == 1 && m->from == m->to && m->divisor <= 1; }

static bool is_unit_size(int64_t bytes) { return bytes <= 16 && (bytes & (bytes - 1)) == 0; }

static bool unit_along(const rshi_move *m, int d) { return m->ds[d] == m->unit && source_strides(m, 0)[d] == m->unit; }

/* If the last dim is a run of 2, 4, 8 or 16 bytes, that run becomes the unit. */
static void widen_unit(rshi_move *m) {
    int last = m->nd - 1;
    if (last == 0 || !unit_along(m, last) || !is_unit_size(m->n[last] * m->unit)) return;
    m->unit = (int)(m->n[last] * m->unit);
    m->walked = last;
}

/* Returns the dim along which the first source is dense, if the destination is dense along the last dim; -1: none. */
static int crossing_dim(const rshi_move *m) {
    int last = m->walked - 1;
    if (m->nsrc == 0 || m->ds[last] != (int64_t)rsh_dtype_size(m->to) * (m->unit / (int)rsh_dtype_size(m->from)))
        return -1;
    if (source_strides(m, 0)[last] == m->unit) return -1;
    for (int d = last - 1; d >= 0; d--)
        if (source_strides(m, 0)[d] == m->unit) return d;
    return -1;
}

/* Makes the crossing dim the second to last, because planes are the last two dims. */
static bool bring_crossing_dim(rshi_move *m) {
    int d = crossing_dim(m);
    if (d < 0) return false;
    for (; d < m->walked - 2; d++) swap_dims(m, d, d + 1);
    return true;
}

static rshi_kernel choose_plain_kernel(const rshi_move *m, bool crossing) {
    if (m->walked == m->nd && unit_along(m, m->nd - 1)) return m->nd == 1 ? RSHI_KERNEL_CONTIGUOUS : RSHI_KERNEL_ROWS;
    return crossing ? RSHI_KERNEL_TRANSPOSE : RSHI_KERNEL_STRIDED;
}

static rshi_kernel choose_kernel(const rshi_move *m, bool crossing) {
    if (m->nsrc == 0) return RSHI_KERNEL_FILL;
    if (is_plain(m)) return choose_plain_kernel(m, crossing);
    return m->nsrc == 1 && m->divisor <= 1 ? RSHI_KERNEL_CONVERT : RSHI_KERNEL_REDUCE;
}

bool rshi_copy_is_large(size_t footprint) { return footprint >= STREAM_BYTES; }

void rshi_move_prepare(rshi_move *m, size_t footprint) {
    m->kernel = RSHI_KERNEL_NONE;
    m->stream = false;
    m->split = 0;
    if (is_empty(m)) return;
    drop_single(m);
    sort_by_destination(m);
    fuse_dims(m);
    ensure_a_dim(m);
    m->walked = m->nd;
    m->unit = (int)rsh_dtype_size(m->nsrc ? m->from : m->to);
    if (is_plain(m)) widen_unit(m);
    bool crossing = bring_crossing_dim(m);
    m->kernel = choose_kernel(m, crossing);
    m->stream = rshi_copy_is_large(footprint);
    m->split = crossing ? m->walked - 2 : m->walked - 1;
    m->grain = crossing ? RSHI_CROSSING_ROWS : RSHI_LINE / m->unit;
}

static rshi_plane_fn *const kernels[RSHI_KERNEL_COUNT] = {
    [RSHI_KERNEL_CONTIGUOUS] = rshi_run_rows, [RSHI_KERNEL_ROWS] = rshi_run_rows,
    [RSHI_KERNEL_STRIDED] = rshi_run_strided, [RSHI_KERNEL_TRANSPOSE] = rshi_run_transpose,
    [RSHI_KERNEL_CONVERT] = rshi_run_convert, [RSHI_KERNEL_REDUCE] = rshi_run_reduce,
    [RSHI_KERNEL_FILL] = rshi_run_fill,       [RSHI_KERNEL_WEAVE] = rshi_run_weave,
};

/* Advances to the next plane; false after the last one. */
static bool next_plane(const rshi_move *m, rshi_plane *p, int64_t i0, int64_t i1) {
    for (int d = p->dims - 3; d >= p->first; d--) {
        if (++p->index[d] < (d == p->first ? i1 : m->n[d])) return true;
        p->index[d] = d == p->first ? i0 : 0;
    }
    return false;
}

static int64_t sub_move_extent(const rshi_move *m, int d, int first, int64_t i0, int64_t i1) {
    if (d < first) return 1;
    return d == first ? i1 - i0 : m->n[d];
}

void rshi_copy_bytes(char *dst, const char *src, size_t bytes, size_t footprint) {
    int64_t strides[RSHI_MOVE_DIMS] = {1};
    rshi_move m = {.nd = 1, .n = {(int64_t)bytes}, .ds = {1}, .nsrc = 1, .ss = strides, .from = RSH_U8, .to = RSH_U8};
    rshi_move_prepare(&m, footprint);
    rshi_move_run(&m, 0, 0, m.nd ? m.n[0] : 1, dst, &src);
}

void rshi_aside_end(rshi_aside *a, size_t footprint) {
    if (a->left) rshi_copy_bytes(a->dst, a->src, a->left, footprint);
    a->left = 0;
}

void rshi_move_run(const rshi_move *m, int first, int64_t i0, int64_t i1, char *dst, const char *const *src) {
    if (m->kernel == RSHI_KERNEL_NONE || i0 >= i1) return;
    rshi_plane p;
    p.first = first;
    p.dims = m->walked;
    for (int d = first; d < p.dims; d++) p.index[d] = 0;
    p.index[first] = i0;
    p.rows = sub_move_extent(m, p.dims - 2, first, i0, i1);
    p.cols = sub_move_extent(m, p.dims - 1, first, i0, i1);
    do kernels[m->kernel](m, &p, dst, src);
    while (next_plane(m, &p, i0, i1));
}
