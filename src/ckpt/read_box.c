/* Read box: reads any box of a tensor directly from the files that hold it.
 *
 * Each part that overlaps the box gives a region: extents, offsets and strides in the file and in memory.  A region
 * that is contiguous on both sides is read in place.  Other regions are read in windows and copied from there.  A
 * window includes the gaps between rows if that is faster than one call per row. */
#include "ckpt/read_box.h"

#include <inttypes.h>
#include <string.h>

#include "copy/copy.h"

enum {
    WINDOW = 1 << 20, /* bytes of a window if at least half of them are wanted */
    SPARSE = 1 << 16  /* bytes of a window otherwise */
};

typedef rshi_file_region region; /* dims are sorted by descending file stride */

typedef struct filling {
    const rsh_ckpt *c;
    const rshi_ckpt_tensor *t;
    const rshi_ckpt_part *part;
    rsh_box want;
    int64_t size; /* bytes of an element */
    char *to;
    const int64_t *strides; /* strides of the memory in bytes */
    char *window;           /* owned: WINDOW bytes, allocated on first use */
    uint64_t read;          /* number of bytes read from files */
    rsh_status status;
} filling;

/* ---- one region ---- */

static rsh_status read_bytes(filling *f, int32_t file, uint64_t at, char *to, int64_t n) {
    f->read += (uint64_t)n;
    return rshi_ckpt_pread(f->c, file, at, to, (size_t)n);
}

static rsh_dtype plain_dtype(int64_t size) {
    return size == 1 ? RSH_U8 : size == 2 ? RSH_U16 : size == 4 ? RSH_U32 : size == 8 ? RSH_U64 : RSH_C128;
}

/* Copies n indices of dim d, and all of the dims after d, from the window to memory. */
static void copy_out(const filling *f, const region *r, int d, int64_t n, char *to) {
    int64_t ss[RSHI_MOVE_DIMS] = {0};
    rshi_move m = {.nd = r->nd - d, .nsrc = 1, .ss = ss, .from = plain_dtype(f->size), .to = plain_dtype(f->size)};
    const char *src[1] = {f->window};
    for (int k = d; k < r->nd; k++) {
        m.n[k - d] = k == d ? n : r->n[k];
        m.ds[k - d] = r->ms[k];
        ss[k - d] = r->fs[k];
    }
    rshi_move_prepare(&m, 0);
    rshi_move_run(&m, 0, 0, m.nd ? m.n[0] : 1, to, src);
    rshi_copy_fence();
}

/* Returns the number of bytes in the file from the first to the last element of dim d and the dims after it. */
static int64_t span_of(const filling *f, const region *r, int d, int64_t n) {
    int64_t span = f->size;
    for (int k = d; k < r->nd; k++) span += ((k == d ? n : r->n[k]) - 1) * r->fs[k];
    return span;
}

static int64_t bytes_of(const filling *f, const region *r, int d) {
    int64_t bytes = f->size;
    for (int k = d; k < r->nd; k++) bytes *= r->n[k];
    return bytes;
}

static bool is_dense(const filling *f, const region *r, int d) {
    int64_t bytes = f->size;
    for (int k = r->nd; k-- > d; bytes *= r->n[k])
        if (r->fs[k] != bytes || r->ms[k] != bytes) return false;
    return true;
}

static rsh_status read_window(filling *f, const region *r, int d, int64_t n, uint64_t at, char *to) {
    if (!f->window) f->window = rshi_alloc(WINDOW, 1);
    if (!f->window) return rshi_nomem();
    RSH_TRY(read_bytes(f, r->file, at, f->window, span_of(f, r, d, n)));
    copy_out(f, r, d, n, to);
    return RSH_OK;
}

static rsh_status read_region(filling *f, const region *r, int d, uint64_t at, char *to) {
    int64_t bytes = bytes_of(f, r, d), span = d < r->nd ? span_of(f, r, d, r->n[d]) : f->size;
    if (is_dense(f, r, d)) return read_bytes(f, r->file, at, to, bytes);
    int64_t limit = 2 * bytes >= span ? WINDOW : SPARSE, one = span_of(f, r, d, 1);
    int64_t step = one <= limit ? (limit - one) / r->fs[d] + 1 : 1;
    for (int64_t i = 0; i < r->n[d]; i += step) {
        uint64_t from = at + (uint64_t)(i * r->fs[d]);
        char *target = to + i * r->ms[d];
        RSH_TRY(one <= limit ? read_window(f, r, d, rshi_min(step, r->n[d] - i), from, target)
                             : read_region(f, r, d + 1, from, target));
    }
    return RSH_OK;
}

/* Inserts a dim into the order of descending file strides. */
void rshi_file_region_add(region *r, int64_t n, int64_t fs, int64_t ms) {
    if (n == 1) return;
    int k = r->nd++;
    for (; k && r->fs[k - 1] < fs; k--) {
        r->n[k] = r->n[k - 1];
        r->fs[k] = r->fs[k - 1];
        r->ms[k] = r->ms[k - 1];
    }
    r->n[k] = n;
    r->fs[k] = fs;
    r->ms[k] = ms;
}

rsh_status rshi_file_region_read(const rsh_ckpt *c, const region *r, int64_t size, char *to, uint64_t *read) {
    filling f = {.c = c, .size = size};
    rsh_status st = read_region(&f, r, 0, r->at, to);
    rshi_free(f.window);
    *read += f.read;
    return st;
}

/* Reads the intersection of the wanted box and a box of a part that starts at `offset`. */
static int read_intersection(void *ctx, const rsh_box *box, int64_t offset, const int64_t *strides) {
    filling *f = ctx;
    region r = {.file = f->part->file};
    char *to = f->to;
    for (int d = 0; d < f->t->ndim; d++) {
        int64_t lo = rshi_max(box->lo[d], f->want.lo[d]), hi = rshi_min(box->hi[d], f->want.hi[d]);
        if (lo >= hi) return 0;
        offset += (lo - box->lo[d]) * strides[d];
        to += (lo - f->want.lo[d]) * f->strides[d];
        rshi_file_region_add(&r, hi - lo, strides[d] * f->size, f->strides[d]);
    }
    f->status = read_region(f, &r, 0, f->part->at + (uint64_t)(offset * f->size), to);
    return f->status != RSH_OK;
}

/* ---- the parts ---- */

static rsh_status fill_whole(filling *f) {
    rsh_box all = {{0}, {0}};
    int64_t strides[RSH_MAX_NDIM];
    memcpy(all.hi, f->t->shape, (size_t)f->t->ndim * sizeof *all.hi);
    rshi_dense_strides(f->t->ndim, f->t->shape, NULL, strides);
    f->part = f->c->parts + f->t->part;
    if (f->t->nparts) read_intersection(f, &all, 0, strides);
    return f->status;
}

bool rshi_piece_is_stored_first(const rsh_ckpt *c, const rshi_ckpt_tensor *t, const rshi_piece *p,
                                const int64_t *base) {
    const rsh_layout *l = t->layout;
    int64_t mine = rshi_piece_holder_index(l, p, p->rank);
    if (rshi_layout_irregular(l) && !rshi_piece_first_copy(l, p)) return false;
    for (int64_t j = 0; j < mine; j++) {
        rshi_piece other;
        rshi_piece_at_holder(l, p, j, &other);
        if (c->parts[base[rshi_layout_ordinal(l, other.rank)] + other.part].file >= 0) return false;
    }
    return true;
}

rsh_status rshi_ckpt_part_numbers(const rshi_ckpt_tensor *t, int64_t **out) {
    int64_t n = rsh_layout_nranks(t->layout), next = t->part, *base = rshi_alloc((size_t)n, sizeof *base);
    if (!base) return rshi_nomem();
    for (int64_t i = 0; i < n; i++) {
        base[i] = next;
        next += rsh_layout_nparts(t->layout, rsh_layout_rank(t->layout, i));
    }
    *out = base;
    return RSH_OK;
}

/* Finds the blocks [*from, *to) of a stripe that overlap [lo, hi). */
static void overlapping_blocks(const rshi_stripe *s, int64_t lo, int64_t hi, int64_t *from, int64_t *to) {
    *from = 0;
    *to = s->count;
    if (s->count < 2) return;
    if (lo > s->lo) *from = rshi_min((lo - s->lo) / s->stride, s->count);
    *to = hi <= s->lo ? 0 : rshi_min((hi - 1 - s->lo) / s->stride + 1, s->count);
}

/* State of a walk over the boxes of a piece, one dim at a time. */
typedef struct walking {
    filling *f;
    const rshi_piece *p;
    int64_t strides[RSH_MAX_NDIM];
    rsh_box box;
} walking;

static rsh_status walk_boxes(walking *w, int d, int64_t offset) {
    if (d == w->f->t->ndim) {
        read_intersection(w->f, &w->box, offset, w->strides);
        return w->f->status;
    }
    const rshi_stripe *s = &w->p->set[d];
    int64_t from, to;
    overlapping_blocks(s, w->f->want.lo[d], w->f->want.hi[d], &from, &to);
    for (int64_t j = from; j < to; j++) {
        w->box.lo[d] = s->lo + j * s->stride;
        w->box.hi[d] = w->box.lo[d] + (j == s->count - 1 ? s->last : s->len);
        RSH_TRY(walk_boxes(w, d + 1, offset + j * s->len * w->strides[d]));
    }
    return RSH_OK;
}

static rsh_status fill_rank(filling *f, int64_t ordinal, const int64_t *base) {
    const rsh_layout *l = f->t->layout;
    rshi_piece *list = NULL;
    int64_t n = 0, offset;
    rsh_status st = rshi_layout_pieces(l, rsh_layout_rank(l, ordinal), &list, &n);
    for (int64_t i = 0; i < n && !st; i++) {
        rsh_part part;
        walking w = {.f = f, .p = &list[i]};
        f->part = f->c->parts + base[ordinal] + list[i].part;
        if (f->part->file < 0 || !rshi_piece_is_stored_first(f->c, f->t, &list[i], base)) continue;
        st = rsh_layout_part(l, list[i].rank, list[i].part, &part);
        rshi_piece_place(l, &list[i], part.strides, &offset, w.strides);
        if (!st) st = walk_boxes(&w, 0, offset);
    }
    rshi_free(list);
    return st;
}

static rsh_status fill_parts(filling *f) {
    int64_t *base = NULL;
    rsh_status st = rshi_ckpt_part_numbers(f->t, &base);
    for (int64_t i = 0; i < rsh_layout_nranks(f->t->layout) && !st; i++) st = fill_rank(f, i, base);
    rshi_free(base);
    return st;
}

static rsh_status check_box(const rsh_ckpt *c, const rshi_ckpt_tensor *t, const rsh_box *box) {
    for (int d = 0; d < t->ndim; d++)
        RSH_REQUIRE(box->lo[d] >= 0 && box->lo[d] <= box->hi[d] && box->hi[d] <= t->shape[d], RSH_EINDEX,
                    "%s: tensor \"%.200s\": box %" PRId64 ":%" PRId64 " of dim %d is outside 0:%" PRId64, c->path,
                    t->name, box->lo[d], box->hi[d], d, t->shape[d]);
    RSH_REQUIRE(rsh_dtype_bits(t->dtype) % 8 == 0, RSH_EUNSUP,
                "%s: tensor \"%.200s\": elements of %s are smaller than a byte; boxes of them cannot be read", c->path,
                t->name, rsh_dtype_name(t->dtype));
    return RSH_OK;
}

rsh_status rshi_ckpt_read_box(const rsh_ckpt *c, int64_t tensor, const rsh_box *box, char *to, const int64_t *strides,
                              uint64_t *read) {
    const rshi_ckpt_tensor *t = &c->tensor[tensor];
    filling f = {.c = c, .t = t, .size = rsh_dtype_bits(t->dtype) / 8, .to = to};
    int64_t bytes[RSH_MAX_NDIM];
    if (box)
        f.want = *box;
    else
        memcpy(f.want.hi, t->shape, (size_t)t->ndim * sizeof *t->shape);
    RSH_TRY(check_box(c, t, &f.want));
    for (int d = 0; d < t->ndim; d++) bytes[d] = strides[d] * f.size;
    f.strides = bytes;
    rsh_status st = t->layout ? fill_parts(&f) : fill_whole(&f);
    rshi_free(f.window);
    if (read) *read += f.read;
    return st;
}
