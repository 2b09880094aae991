/* Window: divides a tensor into windows, and finds the blocks of a window in files and in memory. */
#include "ckpt/impl.h"

#include <string.h>

/* ---- windows ---- */

static void shrink_rows(rshi_grid *g, int64_t most) {
    for (int d = 0; d < g->ndim; d++) {
        int64_t row = 1;
        for (int e = d + 1; e < g->ndim; e++) row *= g->extent[e];
        g->extent[d] = rshi_max(1, rshi_min(g->extent[d], most / row));
        if (row <= most) return;
    }
}

static void shrink_tiles(rshi_grid *g, int64_t most) {
    for (;;) {
        int64_t count = 1;
        int widest = 0;
        for (int d = 0; d < g->ndim; d++) {
            count *= g->extent[d];
            if (g->extent[d] > g->extent[widest]) widest = d;
        }
        if (count <= most || !g->ndim || g->extent[widest] == 1) return;
        g->extent[widest] = rshi_ceil_div(g->extent[widest], 2);
    }
}

void rshi_grid_make(const rshi_file_tensor *stored, size_t size, bool tiles, rshi_grid *out) {
    *out = (rshi_grid){.ndim = stored->ndim, .n = 1};
    rshi_file_tensor_shape(stored, out->shape);
    memcpy(out->extent, out->shape, sizeof out->extent);
    for (int d = 0; d < out->ndim; d++)
        if (!out->shape[d]) out->n = 0;
    if (!out->n) return;
    int64_t most = rshi_max(1, (tiles ? RSHI_TILE_BYTES : RSHI_WINDOW_BYTES) / (int64_t)size);
    if (tiles)
        shrink_tiles(out, most);
    else
        shrink_rows(out, most);
    for (int d = 0; d < out->ndim; d++) out->n *= rshi_ceil_div(out->shape[d], out->extent[d]);
}

void rshi_grid_box(const rshi_grid *g, int64_t window, rsh_box *out) {
    for (int d = g->ndim; d-- > 0;) {
        int64_t n = rshi_ceil_div(g->shape[d], g->extent[d]);
        out->lo[d] = window % n * g->extent[d];
        out->hi[d] = rshi_min(out->lo[d] + g->extent[d], g->shape[d]);
        window /= n;
    }
}

/* ---- the intersection of a window and a piece ---- */

/* The part of one dim that is inside the window: local indices, number of elements, and first and last offset. */
typedef struct extent {
    int64_t first[RSH_MAX_NDIM], n[RSH_MAX_NDIM], count, lo, hi;
} extent;

static bool piece_extent(const rshi_ckpt_end *e, const rsh_box *window, const rshi_stored_piece *p, extent *x) {
    x->count = 1;
    x->lo = x->hi = p->base;
    for (int d = 0; d < e->ndim; d++) {
        x->first[d] = rshi_stripe_before(&p->set[d], window->lo[d]);
        x->n[d] = rshi_stripe_before(&p->set[d], window->hi[d]) - x->first[d];
        if (!x->n[d]) return false;
        x->count *= x->n[d];
        x->lo += x->first[d] * p->stride[d];
        x->hi += (x->first[d] + x->n[d] - 1) * p->stride[d];
    }
    return true;
}

static rsh_status add_block(rshi_blocks *list, const rshi_ckpt_block *b) {
    RSH_TRY(RSHI_GROW(list->block, list->n + 1, &list->room));
    list->block[list->n++] = *b;
    list->count += b->count;
    list->largest = rshi_max(list->largest, b->count);
    return RSH_OK;
}

/* Adds each piece as a separate block, for a group that is not contiguous. */
static rsh_status add_pieces(const rshi_ckpt_end *e, const rsh_box *window, int64_t group, rshi_blocks *out) {
    const rshi_ckpt_group *g = &e->group[group];
    for (int64_t i = g->piece; i < g->piece + g->npieces; i++) {
        extent x;
        if (!piece_extent(e, window, &e->piece[i], &x)) continue;
        rshi_ckpt_block b = {group, i, 1, x.lo, x.count, x.count == x.hi - x.lo + 1, 0};
        RSH_TRY(add_block(out, &b));
    }
    return RSH_OK;
}

static rsh_status add_group(const rshi_ckpt_end *e, const rsh_box *window, int64_t group, rshi_blocks *out) {
    const rshi_ckpt_group *g = &e->group[group];
    rshi_ckpt_block b = {group, g->piece, g->npieces, INT64_MAX, 0, true, 0};
    int64_t hi = -1;
    for (int64_t i = g->piece; i < g->piece + g->npieces; i++) {
        extent x;
        if (!piece_extent(e, window, &e->piece[i], &x)) continue;
        b.count += x.count;
        b.lo = rshi_min(b.lo, x.lo);
        hi = rshi_max(hi, x.hi);
    }
    if (!b.count) return RSH_OK;
    return b.count == hi - b.lo + 1 ? add_block(out, &b) : add_pieces(e, window, group, out);
}

rsh_status rshi_blocks_list(const rshi_ckpt_end *e, const rsh_box *window, rshi_blocks *out) {
    out->n = out->count = out->largest = 0;
    for (int64_t g = 0; g < e->ngroups; g++) RSH_TRY(add_group(e, window, g, out));
    return RSH_OK;
}

/* ---- in memory ---- */

/* Sorts dims from the largest stride to the smallest. */
static void storage_order(int ndim, const rshi_stored_piece *p, int *order) {
    for (int d = 0; d < ndim; d++) {
        int k = d;
        for (; k > 0 && p->stride[order[k - 1]] < p->stride[d]; k--) order[k] = order[k - 1];
        order[k] = d;
    }
}

/* Computes the strides, in elements, of a contiguous copy of [0, n) in the part's own order. */
static void compact_strides(int ndim, const rshi_stored_piece *p, const int64_t *n, int *order, int64_t *stride) {
    int64_t step = 1;
    storage_order(ndim, p, order);
    for (int k = ndim; k-- > 0;) {
        stride[order[k]] = step;
        step *= n[order[k]];
    }
}

bool rshi_view_make(const rshi_ckpt_end *e, const rsh_box *window, const rshi_ckpt_block *b, int64_t piece, size_t size,
                    rshi_view *out) {
    const rshi_stored_piece *p = &e->piece[piece];
    extent x;
    int order[RSH_MAX_NDIM];
    if (!piece_extent(e, window, p, &x)) return false;
    out->piece = p;
    memcpy(out->first, x.first, sizeof x.first);
    memcpy(out->n, x.n, sizeof x.n);
    if (b->dense)
        memcpy(out->stride, p->stride, sizeof out->stride);
    else
        compact_strides(e->ndim, p, x.n, order, out->stride);
    out->bias = b->dense ? p->base - b->lo : 0;
    for (int d = 0; d < e->ndim && !b->dense; d++) out->bias -= x.first[d] * out->stride[d];
    out->bias *= (int64_t)size;
    for (int d = 0; d < e->ndim; d++) out->stride[d] *= (int64_t)size;
    return true;
}

/* ---- in the file ---- */

rsh_status rshi_block_runs(const rshi_ckpt_end *e, const rsh_box *window, const rshi_ckpt_block *b, rshi_run_fn fn,
                           void *ctx) {
    extent x;
    int order[RSH_MAX_NDIM], inner = e->ndim;
    int64_t stride[RSH_MAX_NDIM], i[RSH_MAX_NDIM] = {0}, run = 1;
    const rshi_stored_piece *p = &e->piece[b->piece];
    if (b->dense) return fn(ctx, b->lo, 0, b->count);
    if (!piece_extent(e, window, p, &x)) return RSH_OK;
    compact_strides(e->ndim, p, x.n, order, stride);
    while (inner > 0 && (p->stride[order[inner - 1]] == run || x.n[order[inner - 1]] == 1)) run *= x.n[order[--inner]];
    for (int64_t at = 0; at < b->count; at += run) {
        int64_t offset = x.lo;
        for (int k = 0; k < inner; k++) offset += i[k] * p->stride[order[k]];
        RSH_TRY(fn(ctx, offset, at, run));
        for (int k = inner; k-- > 0 && ++i[k] == x.n[order[k]];) i[k] = 0;
    }
    return RSH_OK;
}

/* ---- digest ---- */

typedef struct mixing {
    const rshi_ckpt_end *e;
    const rsh_box *window;
    const rshi_view *v;
    const char *block;
    size_t size;
    int last;    /* the innermost dim to iterate over; later dims are whole and contiguous */
    int64_t row; /* number of elements per index of that dim */
    int64_t global[RSH_MAX_NDIM]; /* row-major strides of the whole tensor */
    rsh_digest *sum;
} mixing;

static void mix_dim(const mixing *m, int d, int64_t at, uint64_t index) {
    const rshi_stripe *s = &m->v->piece->set[d];
    int64_t local = m->v->first[d], left = m->v->n[d];
    while (left) {
        int64_t j = local / s->len, in = local % s->len, n = rshi_min(s->len - in, left);
        uint64_t from = index + (uint64_t)((s->lo + j * s->stride + in) * m->global[d]);
        int64_t here = at + local * m->v->stride[d];
        if (d == m->last) {
            bool rows = m->row > 1;
            rshi_mix_run(m->block + here, rows ? (int64_t)m->size : m->v->stride[d], m->size, n * m->row, from,
                         &m->sum->hi, &m->sum->lo);
        }
        for (int64_t k = 0; k < n && d != m->last; k++)
            mix_dim(m, d + 1, here + k * m->v->stride[d], from + (uint64_t)(k * m->global[d]));
        local += n;
        left -= n;
    }
}

/* Returns whether dim d is whole, both in the piece and in the window. */
static bool is_whole(const mixing *m, int d) {
    const rshi_stripe *s = &m->v->piece->set[d];
    return s->count == 1 && m->v->n[d] == m->e->shape[d];
}

void rshi_view_digest(const rshi_ckpt_end *e, const rsh_box *window, const rshi_view *v, const char *block, size_t size,
                      rsh_digest *sum) {
    mixing m = {
        .e = e, .window = window, .v = v, .block = block, .size = size, .last = e->ndim - 1, .row = 1, .sum = sum};
    rshi_dense_strides(e->ndim, e->shape, NULL, m.global);
    if (!e->ndim) {
        rshi_mix_run(block + v->bias, 0, size, 1, 0, &sum->hi, &sum->lo);
        return;
    }
    while (m.last > 0 && is_whole(&m, m.last) && v->stride[m.last] == m.row * (int64_t)size &&
           v->stride[m.last - 1] == m.row * e->shape[m.last] * (int64_t)size)
        m.row *= e->shape[m.last--];
    mix_dim(&m, 0, v->bias, 0);
}

/* ---- digest of sources ---- */

/* Returns the dim with stride 1 in the source tensor. */
static int run_dim(const rshi_ckpt_end *e, const rshi_view *v) {
    int run = 0;
    for (int d = 0; d < e->ndim; d++)
        if (v->n[d] > 1 && v->piece->from_stride[d] == 1) run = d;
    return run;
}

void rshi_view_source_digest(const rshi_ckpt_end *e, const rshi_view *v, const char *block, size_t size,
                             rsh_digest *sum) {
    const rshi_stored_piece *p = v->piece;
    int run = run_dim(e, v), ndim = e->ndim;
    bool regular = ndim && (p->from_stride[run] == 1 || v->n[run] == 1);
    int64_t i[RSH_MAX_NDIM] = {0}, n = regular ? v->n[run] : 1;
    for (int k = 0; k >= 0;) {
        int64_t at = v->bias, from = p->from;
        for (int d = 0; d < ndim; d++) {
            at += (v->first[d] + i[d]) * v->stride[d];
            from += (v->first[d] + i[d]) * p->from_stride[d];
        }
        rshi_mix_run(block + at, ndim ? v->stride[run] : 0, size, n, (uint64_t)from, &sum->hi, &sum->lo);
        for (k = ndim; k-- > 0 && ((regular && k == run) || ++i[k] == v->n[k]);) i[k] = 0;
    }
}
