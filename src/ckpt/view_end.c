/* View end: finds the elements of a view in files, by applying every operation of the view to the pieces of its
 * sources.
 *
 * A piece is a product of stripes of the view's indices.  Its elements are stored in one part of a source, at offsets
 * that are affine in its local indices.  If an operation would make them non-affine, it divides the piece first. */
#include "ckpt/view_pieces.h"
#include "ckpt/view_read.h"

#include <string.h>

/* ---- the list ---- */

rsh_status rshi_pieces_add(rshi_piece_list *b, const rshi_stored_piece *p) {
    rshi_ckpt_end *e = b->e;
    RSH_REQUIRE(e->npieces < RSHI_MOST_PIECES, RSH_EUNSUP,
                "tensor \"%.200s\": its expression needs more than %d boxes; write it in smaller steps", b->name,
                RSHI_MOST_PIECES);
    RSH_TRY(RSHI_GROW(e->piece, e->npieces + 1, &e->pieces_room));
    e->piece[e->npieces++] = *p;
    return RSH_OK;
}

/* Moves the pieces from index `start` on from the list to a new array, which the caller frees. */
static rsh_status take_pieces(rshi_piece_list *b, int64_t start, rshi_stored_piece **list, int64_t *n) {
    *n = b->e->npieces - start;
    *list = rshi_alloc((size_t)*n, sizeof **list);
    if (!*list) return rshi_nomem();
    if (*n) memcpy(*list, b->e->piece + start, (size_t)*n * sizeof **list);
    b->e->npieces = start;
    return RSH_OK;
}

/* ---- one dim of a piece ---- */

/* Divides local indices [first, first + n) of a stripe into one or two stripes; returns how many. */
static int sub_stripes(const rshi_stripe *s, int64_t first, int64_t n, rshi_stripe out[2]) {
    int count = 0;
    int64_t block = first / s->len, in = first % s->len;
    if (in && n) {
        int64_t head = rshi_min(n, s->len - in), lo = s->lo + block * s->stride + in;
        out[count++] = rshi_stripe_range(lo, lo + head);
        n -= head;
        block++;
    }
    if (!n) return count;
    int64_t blocks = rshi_ceil_div(n, s->len), lo = s->lo + block * s->stride;
    out[count] = (rshi_stripe){lo, s->len, s->stride, blocks, n - (blocks - 1) * s->len};
    if (blocks == 1) out[count] = rshi_stripe_range(lo, lo + n);
    return count + 1;
}

rshi_stored_piece rshi_piece_from(const rshi_stored_piece *p, int d, int64_t first, rshi_stripe set) {
    rshi_stored_piece q = *p;
    q.set[d] = set;
    q.base += first * p->stride[d];
    q.from += first * p->from_stride[d];
    if (p->scale >= 0 && p->scale_of[d] >= 0) q.scale_first[p->scale_of[d]] += first;
    return q;
}

/* Removes dim d, along which the piece has one index. */
static void remove_dim(rshi_stored_piece *p, int ndim, int d) {
    size_t n = (size_t)(ndim - 1 - d);
    memmove(p->set + d, p->set + d + 1, n * sizeof *p->set);
    memmove(p->stride + d, p->stride + d + 1, n * sizeof *p->stride);
    memmove(p->from_stride + d, p->from_stride + d + 1, n * sizeof *p->from_stride);
    memmove(p->scale_of + d, p->scale_of + d + 1, n * sizeof *p->scale_of);
}

static void insert_dim(rshi_stored_piece *p, int ndim, int d, int64_t index) {
    size_t n = (size_t)(ndim - d);
    memmove(p->set + d + 1, p->set + d, n * sizeof *p->set);
    memmove(p->stride + d + 1, p->stride + d, n * sizeof *p->stride);
    memmove(p->from_stride + d + 1, p->from_stride + d, n * sizeof *p->from_stride);
    memmove(p->scale_of + d + 1, p->scale_of + d, n * sizeof *p->scale_of);
    p->set[d] = rshi_stripe_range(index, index + 1);
    p->stride[d] = 1;
    p->from_stride[d] = 0;
    p->scale_of[d] = -1;
}

/* ---- operations on one piece ---- */

static rsh_status take_range(rshi_piece_list *b, const rshi_ckpt_view *v, const rshi_stored_piece *p) {
    const rshi_stripe *s = &p->set[v->dim];
    int64_t first = rshi_stripe_before(s, v->lo), n = rshi_stripe_before(s, v->lo + v->size) - first;
    rshi_stripe out[2];
    int count = n ? sub_stripes(s, first, n, out) : 0;
    for (int i = 0; i < count; i++) {
        rshi_stored_piece q = rshi_piece_from(p, v->dim, first, out[i]);
        first += rshi_stripe_size(&out[i]);
        q.set[v->dim].lo -= v->lo;
        RSH_TRY(rshi_pieces_add(b, &q));
    }
    return RSH_OK;
}

static rsh_status take_index(rshi_piece_list *b, const rshi_ckpt_view *v, const rshi_stored_piece *p) {
    const rshi_stripe *s = &p->set[v->dim];
    if (!rshi_stripe_has(s, v->lo)) return RSH_OK;
    rshi_stored_piece q = rshi_piece_from(p, v->dim, rshi_stripe_before(s, v->lo), rshi_stripe_range(0, 1));
    remove_dim(&q, v->ndim + 1, v->dim);
    return rshi_pieces_add(b, &q);
}

/* Makes a piece of each block of deinterleave; blocks that are adjacent in memory become one piece. */
static rsh_status take_blocks(rshi_piece_list *b, const rshi_ckpt_view *v, const rshi_stored_piece *p) {
    rshi_stripe blocks = {v->lo, v->size, v->period, v->groups, v->size};
    rsh_status st = RSH_OK;
    if (!v->size) return RSH_OK;
    b->runs.n = 0;
    RSH_TRY(rshi_stripe_overlap(&p->set[v->dim], &blocks, 0, INT64_MAX, &b->runs));
    for (int64_t i = 0; i < b->runs.n; i++) {
        rshi_run r = b->runs.run[i];
        if (r.count > 1 && r.da == r.len && r.db == r.len) r = (rshi_run){r.ia, r.ib, r.len * r.count, 1, 0, 0};
        for (int64_t j = 0; j < r.count && !st; j++) {
            int64_t at = r.ib + j * r.db;
            rshi_stored_piece q = rshi_piece_from(p, v->dim, r.ia + j * r.da, rshi_stripe_range(at, at + r.len));
            st = rshi_pieces_add(b, &q);
        }
        if (st) return st;
    }
    return RSH_OK;
}

/* An operand of interleave.  In every period of the result, its block of `size` indices starts at `at`. */
typedef struct weaving {
    int dim;
    int64_t size, at, period;
} weaving;

static rsh_status interleave_range(rshi_piece_list *b, const weaving *w, const rshi_stored_piece *p, int64_t first,
                                   int64_t lo, int64_t hi) {
    int64_t group = lo / w->size, in = lo % w->size, head = in ? rshi_min(hi - lo, w->size - in) : 0;
    if (head) {
        int64_t at = group * w->period + w->at + in;
        rshi_stored_piece q = rshi_piece_from(p, w->dim, first, rshi_stripe_range(at, at + head));
        RSH_TRY(rshi_pieces_add(b, &q));
        group++;
    }
    int64_t n = hi - lo - head, blocks = rshi_ceil_div(n, w->size), at = group * w->period + w->at;
    if (!n) return RSH_OK;
    rshi_stripe s = {at, w->size, w->period, blocks, n - (blocks - 1) * w->size};
    rshi_stored_piece q = rshi_piece_from(p, w->dim, first + head, blocks == 1 ? rshi_stripe_range(at, at + n) : s);
    return rshi_pieces_add(b, &q);
}

static rsh_status interleave_piece(rshi_piece_list *b, const weaving *w, const rshi_stored_piece *p) {
    const rshi_stripe *s = &p->set[w->dim];
    for (int64_t j = 0; j < s->count; j++) {
        int64_t lo = s->lo + j * s->stride, n = j == s->count - 1 ? s->last : s->len;
        RSH_TRY(interleave_range(b, w, p, j * s->len, lo, lo + n));
    }
    return RSH_OK;
}

static void permute_dims(const rshi_ckpt_view *v, rshi_stored_piece *p) {
    rshi_stored_piece q = *p;
    for (int d = 0; d < v->ndim; d++) {
        int o = v->order[d];
        q.set[d] = p->set[o];
        q.stride[d] = p->stride[o];
        q.from_stride[d] = p->from_stride[o];
        q.scale_of[d] = p->scale_of[o];
    }
    *p = q;
}

/* ---- sources ---- */

/* Adds a piece for an operation that needs the index in the source.  That index is not affine across the blocks of a
 * stripe, so each block becomes a piece. */
static rsh_status add_checked(rshi_piece_list *b, const rshi_stored_piece *p, int ndim, int d) {
    if (d == ndim) return rshi_pieces_add(b, p);
    const rshi_stripe *s = &p->set[d];
    for (int64_t j = 0; j < s->count; j++) {
        int64_t lo = s->lo + j * s->stride, n = j == s->count - 1 ? s->last : s->len;
        rshi_stored_piece q = *p;
        q.set[d] = rshi_stripe_range(lo, lo + n);
        q.base += j * s->len * p->stride[d];
        q.from += lo * p->from_stride[d];
        RSH_TRY(add_checked(b, &q, ndim, d + 1));
    }
    return RSH_OK;
}

static rsh_status add_source_piece(rshi_piece_list *b, const rshi_ckpt_view *v, rshi_stored_piece *p) {
    for (int d = 0; d < RSH_MAX_NDIM; d++) p->scale_of[d] = -1;
    p->scale = -1;
    p->from = 0;
    p->checked = v->checked;
    if (!v->checked) {
        memset(p->from_stride, 0, sizeof p->from_stride);
        return rshi_pieces_add(b, p);
    }
    rshi_dense_strides(v->ndim, v->shape, NULL, p->from_stride);
    return add_checked(b, p, v->ndim, 0);
}

static rsh_status copy_end(rshi_piece_list *b, const rshi_ckpt_view *v, const rshi_ckpt_end *source) {
    rshi_ckpt_end *e = b->e;
    int64_t group = e->ngroups, copy = e->ncopies;
    RSH_TRY(RSHI_GROW(e->group, group + source->ngroups, &e->groups_room));
    RSH_TRY(RSHI_GROW(e->copy, copy + source->ncopies, &e->copies_room));
    for (int64_t i = 0; i < source->ngroups; i++) {
        e->group[group + i] = source->group[i];
        e->group[group + i].copy += copy;
    }
    if (source->ncopies) memcpy(e->copy + copy, source->copy, (size_t)source->ncopies * sizeof *source->copy);
    e->ngroups += source->ngroups;
    e->ncopies += source->ncopies;
    e->size = rsh_dtype_size(v->dtype) > e->size ? source->size : e->size;
    for (int64_t i = 0; i < source->npieces; i++) {
        rshi_stored_piece p = source->piece[i];
        p.group += group;
        RSH_TRY(add_source_piece(b, v, &p));
    }
    return RSH_OK;
}

static rsh_status add_source(rshi_piece_list *b, const rshi_ckpt_view *v) {
    const rshi_ckpt_tensor *t = &b->c->tensor[v->source];
    rshi_file_tensor stored = {.name = t->name,
                    .dtype = t->dtype,
                    .ndim = t->ndim,
                    .shape = t->shape,
                    .layout = t->layout,
                    .parts = b->c->parts + t->part};
    rshi_ckpt_end source = {0};
    rsh_status st = rshi_end_make(&stored, true, &source);
    if (!st) st = copy_end(b, v, &source);
    rshi_end_free(&source);
    return st;
}

/* ---- scales ---- */

static rsh_status add_scales(rshi_piece_list *b, const rshi_ckpt_view *v, int64_t start) {
    rshi_ckpt_end *e = b->e;
    const rshi_ckpt_view *values = v->part[1];
    rshi_scales s = {.ndim = v->ndim};
    int64_t n = 1;
    memcpy(s.block, v->block, sizeof s.block);
    memcpy(s.shape, values->shape, sizeof s.shape);
    for (int d = 0; d < v->ndim; d++) n *= s.shape[d];
    RSH_REQUIRE(n <= RSHI_MOST_SCALES, RSH_EUNSUP, "tensor \"%.200s\" has too many scales; at most %d are supported",
                b->name, RSHI_MOST_SCALES);
    RSH_TRY(RSHI_GROW(e->scale, e->nscales + 1, &e->scales_room));
    s.value = rshi_alloc((size_t)n, sizeof *s.value);
    if (!s.value) return rshi_nomem();
    e->scale[e->nscales++] = s;
    if (!b->dry) RSH_TRY(rshi_view_read(b->c, values, b->name, NULL, RSH_F32, s.value, NULL));
    for (int64_t i = start; i < e->npieces; i++) {
        rshi_stored_piece *p = &e->piece[i];
        RSH_REQUIRE(p->scale < 0, RSH_EUNSUP, "tensor \"%.200s\": dequantise must not be applied twice", b->name);
        p->scale = (int32_t)(e->nscales - 1);
        for (int d = 0; d < v->ndim; d++) {
            p->scale_of[d] = d;
            p->scale_first[d] = 0;
        }
    }
    return RSH_OK;
}

/* Adds one piece per block, because local indices jump between the blocks of a stripe. */
static rsh_status add_unstriped(rshi_piece_list *b, const rshi_stored_piece *p, int ndim, int d) {
    if (d == ndim) {
        rshi_stored_piece q = *p;
        for (int k = 0; k < ndim; k++) q.scale_first[k] = q.set[k].lo;
        return rshi_pieces_add(b, &q);
    }
    const rshi_stripe *s = &p->set[d];
    for (int64_t j = 0; j < s->count; j++) {
        int64_t lo = s->lo + j * s->stride, n = j == s->count - 1 ? s->last : s->len;
        rshi_stored_piece q = *p;
        q.set[d] = rshi_stripe_range(lo, lo + n);
        q.base += j * s->len * p->stride[d];
        q.from += j * s->len * p->from_stride[d];
        RSH_TRY(add_unstriped(b, &q, ndim, d + 1));
    }
    return RSH_OK;
}

/* ---- trees ---- */

typedef rsh_status (*piece_fn)(rshi_piece_list *b, const rshi_ckpt_view *v, const rshi_stored_piece *p);

static rsh_status add_view(rshi_piece_list *b, const rshi_ckpt_view *v);

/* Adds the pieces of the only part, and replaces each of them by the pieces that fn makes from it. */
static rsh_status each_piece(rshi_piece_list *b, const rshi_ckpt_view *v, piece_fn fn) {
    int64_t start = b->e->npieces, n;
    rshi_stored_piece *list = NULL;
    RSH_TRY(add_view(b, v->part[0]));
    rsh_status st = take_pieces(b, start, &list, &n);
    for (int64_t i = 0; i < n && !st; i++) st = fn(b, v, &list[i]);
    rshi_free(list);
    return st;
}

static rsh_status interleave_part(rshi_piece_list *b, const rshi_ckpt_view *v, int64_t i, weaving *w) {
    int64_t start = b->e->npieces, n;
    rshi_stored_piece *list = NULL;
    RSH_TRY(add_view(b, v->part[i]));
    rsh_status st = take_pieces(b, start, &list, &n);
    w->size = v->part[i]->shape[v->dim] / v->groups;
    for (int64_t k = 0; k < n && !st; k++) st = interleave_piece(b, w, &list[k]);
    w->at += w->size;
    rshi_free(list);
    return st;
}

static rsh_status add_parts(rshi_piece_list *b, const rshi_ckpt_view *v) {
    int64_t offset = 0;
    weaving w = {.dim = v->dim};
    if (v->op == RSHI_VIEW_INTERLEAVE) w.period = v->shape[v->dim] / v->groups;
    for (int64_t i = 0; i < v->nparts; i++) {
        int64_t start = b->e->npieces;
        if (v->op == RSHI_VIEW_INTERLEAVE) {
            RSH_TRY(interleave_part(b, v, i, &w));
            continue;
        }
        RSH_TRY(add_view(b, v->part[i]));
        for (int64_t k = start; k < b->e->npieces; k++) {
            if (v->op == RSHI_VIEW_CAT)
                b->e->piece[k].set[v->dim].lo += offset;
            else
                insert_dim(&b->e->piece[k], v->ndim - 1, v->dim, i);
        }
        if (v->op == RSHI_VIEW_CAT) offset += v->part[i]->shape[v->dim];
    }
    return RSH_OK;
}

static rsh_status unstripe(rshi_piece_list *b, const rshi_ckpt_view *v, const rshi_stored_piece *p) {
    return add_unstriped(b, p, v->ndim, 0);
}

static rsh_status permute_piece(rshi_piece_list *b, const rshi_ckpt_view *v, const rshi_stored_piece *p) {
    rshi_stored_piece q = *p;
    permute_dims(v, &q);
    return rshi_pieces_add(b, &q);
}

static rsh_status dequantise(rshi_piece_list *b, const rshi_ckpt_view *v) {
    int64_t start = b->e->npieces, n;
    rshi_stored_piece *list = NULL;
    RSH_TRY(add_view(b, v->part[0]));
    RSH_TRY(add_scales(b, v, start));
    rsh_status st = take_pieces(b, start, &list, &n);
    for (int64_t i = 0; i < n && !st; i++) st = unstripe(b, v, &list[i]);
    rshi_free(list);
    return st;
}

static rsh_status add_view(rshi_piece_list *b, const rshi_ckpt_view *v) {
    switch (v->op) {
    case RSHI_VIEW_SOURCE: return add_source(b, v);
    case RSHI_VIEW_CAT:
    case RSHI_VIEW_STACK:
    case RSHI_VIEW_INTERLEAVE: return add_parts(b, v);
    case RSHI_VIEW_PERMUTE: return each_piece(b, v, permute_piece);
    case RSHI_VIEW_RANGE: return each_piece(b, v, take_range);
    case RSHI_VIEW_BLOCKS: return each_piece(b, v, take_blocks);
    case RSHI_VIEW_SELECT: return each_piece(b, v, take_index);
    case RSHI_VIEW_RESHAPE: return each_piece(b, v, rshi_reshape_piece);
    case RSHI_VIEW_DEQUANTISE: return dequantise(b, v);
    }
    return RSH_OK;
}

/* Sets the pieces of each group.  They are adjacent, because operations do not change their order. */
static void number_pieces(rshi_ckpt_end *e) {
    for (int64_t g = 0; g < e->ngroups; g++) e->group[g].npieces = e->group[g].piece = 0;
    for (int64_t i = e->npieces; i-- > 0;) {
        e->group[e->piece[i].group].piece = i;
        e->group[e->piece[i].group].npieces++;
    }
}

static rsh_status fill_end(const rsh_ckpt *c, const rshi_ckpt_view *v, const char *name, bool dry,
                           rshi_ckpt_end *out) {
    rshi_piece_list b = {.c = c->base ? c->base : c, .name = name, .e = out, .dry = dry};
    out->npieces = out->ngroups = out->ncopies = 0;
    rshi_end_free_scales(out);
    out->ndim = v->ndim;
    out->size = 0;
    memcpy(out->shape, v->shape, sizeof out->shape);
    rsh_status st = add_view(&b, v);
    rshi_free(b.runs.run);
    if (!out->size) out->size = rsh_dtype_size(v->dtype);
    number_pieces(out);
    return st;
}

rsh_status rshi_view_end(const rsh_ckpt *c, const rshi_ckpt_view *v, const char *name, rshi_ckpt_end *out) {
    return fill_end(c, v, name, false, out);
}

rsh_status rshi_view_check(const rsh_ckpt *c, const rshi_ckpt_view *v, const char *name) {
    rshi_ckpt_end e = {0};
    rsh_status st = fill_end(c, v, name, true, &e);
    rshi_end_free(&e);
    return st;
}
