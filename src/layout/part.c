/* Part: shape, boxes, index sets and offsets of the elements that one rank holds. */
#include "layout/impl.h"

#include <stdlib.h>

/* Where a part is: at a mesh position, or in a box. */
typedef struct place {
    const rsh_layout *l;
    int64_t position; /* mesh */
    const rsh_box *box;
} place;

static rsh_status find_place(const rsh_layout *l, int64_t rank, int64_t part, place *out) {
    int64_t n = rsh_layout_nparts(l, rank);
    RSH_REQUIRE(part >= 0 && part < n, RSH_EINDEX, "rank %lld has %lld parts in \"%.200s\", requested part %lld",
                (long long)rank, (long long)n, rsh_layout_text(l), (long long)part);
    int64_t position = rshi_layout_position(l, rank);
    *out = (place){l, position, NULL};
    if (l->desc.is_boxes) out->box = &l->desc.boxes[l->box_of[l->entry[position].value + part]].box;
    return RSH_OK;
}

static bool is_flat(const rsh_layout *l) { return !l->desc.is_boxes && l->flat.naxes; }

static int64_t part_extent(const place *p, int d) {
    return p->box ? p->box->hi[d] - p->box->lo[d] : rshi_dim_extent(p->l, d, p->position);
}

/* Returns the number of stripes along a dim, and stripe s. */
static int nstripes(const place *p, int d) { return p->box ? 1 : p->l->dim[d].nsegments; }
static rshi_stripe part_stripe(const place *p, int d, int s) {
    if (p->box) return rshi_stripe_range(p->box->lo[d], p->box->hi[d]);
    const rshi_resolved_segment *g = &p->l->dim[d].segment[s];
    return rshi_cut_stripe(p->l, &g->cut, g->start, g->size, rshi_cut_coordinate(p->l, &g->cut, p->position));
}

/* Writes local shape and row-major strides of the part that a flat layout cuts; returns the range of this rank. */
static rshi_stripe flat_range(const place *p, int64_t *shape, int64_t *strides) {
    int64_t total = 1;
    for (int d = 0; d < p->l->desc.ndim; d++) shape[d] = part_extent(p, d);
    if (!rshi_product(p->l->desc.ndim, shape, &total)) total = 0; /* overflows only if another size is 0 */
    rshi_dense_strides(p->l->desc.ndim, shape, NULL, strides);
    return rshi_cut_stripe(p->l, &p->l->flat, 0, total, rshi_cut_coordinate(p->l, &p->l->flat, p->position));
}

static void flat_part(const place *p, rsh_part *out) {
    int64_t shape[RSH_MAX_NDIM], strides[RSH_MAX_NDIM];
    rshi_stripe range = flat_range(p, shape, strides);
    out->ndim = 1;
    out->count = out->shape[0] = rshi_stripe_size(&range);
    out->strides[0] = 1;
}

rsh_status rsh_layout_part(const rsh_layout *l, int64_t rank, int64_t part, rsh_part *out) {
    RSH_NEEDS(l);
    RSH_NEEDS(out);
    place p;
    RSH_TRY(find_place(l, rank, part, &p));
    *out = (rsh_part){.ndim = l->desc.ndim};
    if (is_flat(l)) {
        flat_part(&p, out);
        return RSH_OK;
    }
    out->count = 1;
    for (int d = 0; d < l->desc.ndim; d++) out->shape[d] = part_extent(&p, d);
    for (int d = 0; d < l->desc.ndim; d++) out->count = out->shape[d] ? out->count : 0;
    for (int d = 0; d < l->desc.ndim && out->count; d++) out->count *= out->shape[d];
    rshi_dense_strides(l->desc.ndim, out->shape, l->desc.has_order ? l->desc.order : NULL, out->strides);
    return RSH_OK;
}

/* ---- index sets ---- */

/* Calls fn for the ranges of a dim in ascending order; adjacent ranges are joined. */
static int walk_ranges(const place *p, int d, rsh_range_fn fn, void *ctx) {
    int64_t lo = 0, hi = 0;
    for (int s = 0; s < nstripes(p, d); s++) {
        rshi_stripe set = part_stripe(p, d, s);
        for (int64_t j = 0; j < set.count; j++) {
            int64_t start = set.lo + j * set.stride, end = start + (j == set.count - 1 ? set.last : set.len);
            if (start == hi && lo < hi) {
                hi = end;
                continue;
            }
            if (lo < hi && fn(ctx, lo, hi)) return 1;
            lo = start, hi = end;
        }
    }
    return lo < hi && fn(ctx, lo, hi);
}

rsh_status rsh_layout_each_range(const rsh_layout *l, int64_t rank, int64_t part, int dim, rsh_range_fn fn, void *ctx) {
    RSH_NEEDS(l);
    RSH_NEEDS(fn);
    place p;
    RSH_TRY(find_place(l, rank, part, &p));
    RSH_REQUIRE(!is_flat(l), RSH_EUNSUP,
                "flat layouts have no index ranges per dim: \"%.200s\"; use rsh_layout_each_box",
                rsh_layout_text(l));
    RSH_REQUIRE(dim >= 0 && dim < l->desc.ndim, RSH_EINDEX, "dim %d is out of range: \"%.200s\" has %d dims", dim,
                rsh_layout_text(l), l->desc.ndim);
    walk_ranges(&p, dim, fn, ctx);
    return RSH_OK;
}

/* ---- boxes ---- */

typedef struct range_list {
    int64_t (*at)[2];
    int64_t n, room;
    bool failed;
} range_list;

static int collect_range(void *ctx, int64_t lo, int64_t hi) {
    range_list *list = ctx;
    if (RSHI_GROW(list->at, list->n + 1, &list->room)) return list->failed = true;
    list->at[list->n][0] = lo;
    list->at[list->n++][1] = hi;
    return 0;
}

typedef struct box_walk {
    const rsh_layout *l;
    range_list list[RSH_MAX_NDIM];
    int64_t strides[RSH_MAX_NDIM];
    rsh_box_fn fn;
    void *ctx;
    rsh_box box;
} box_walk;

/* Iterates over dims from slowest to fastest in memory, so that boxes come in order of their offsets. */
static int walk_boxes(box_walk *w, int i, int64_t offset) {
    if (i == w->l->desc.ndim) return w->fn(w->ctx, &w->box, offset, w->strides);
    int d = w->l->desc.has_order ? w->l->desc.order[i] : i;
    int64_t at = 0;
    for (int64_t r = 0; r < w->list[d].n; r++) {
        w->box.lo[d] = w->list[d].at[r][0];
        w->box.hi[d] = w->list[d].at[r][1];
        if (walk_boxes(w, i + 1, offset + at * w->strides[d])) return 1;
        at += w->box.hi[d] - w->box.lo[d];
    }
    return 0;
}

static rsh_status product_boxes(const place *p, const rsh_part *part, rsh_box_fn fn, void *ctx) {
    box_walk w = {.l = p->l, .fn = fn, .ctx = ctx};
    bool failed = false;
    for (int d = 0; d < p->l->desc.ndim; d++) {
        w.strides[d] = part->strides[d];
        walk_ranges(p, d, collect_range, &w.list[d]);
        failed |= w.list[d].failed;
    }
    if (!failed) walk_boxes(&w, 0, 0);
    for (int d = 0; d < p->l->desc.ndim; d++) rshi_free(w.list[d].at);
    return failed ? rshi_nomem() : RSH_OK;
}

typedef struct placed_box {
    int64_t offset;
    rsh_box box;
} placed_box;

typedef struct flat_walk {
    const rshi_piece *p;
    int ndim;
    rsh_box box;
    placed_box *list; /* owned: the blocks */
    int64_t n, room;
} flat_walk;

/* Lists the blocks of one piece of a flat part. */
static rsh_status list_blocks(flat_walk *w, int d, int64_t offset) {
    if (d == w->ndim) {
        RSH_TRY(RSHI_GROW(w->list, w->n + 1, &w->room));
        w->list[w->n++] = (placed_box){offset, w->box};
        return RSH_OK;
    }
    const rshi_stripe *s = &w->p->set[d];
    for (int64_t j = 0; j < s->count; j++) {
        w->box.lo[d] = s->lo + j * s->stride;
        w->box.hi[d] = w->box.lo[d] + (j == s->count - 1 ? s->last : s->len);
        RSH_TRY(list_blocks(w, d + 1, offset + j * s->len * w->p->step[d]));
    }
    return RSH_OK;
}

static int by_offset(const void *a, const void *b) {
    const placed_box *x = a, *y = b;
    return (x->offset > y->offset) - (x->offset < y->offset);
}

/* Sorts the blocks, because those of different pieces alternate if a dim has several blocks and a later one several
 * segments. */
static rsh_status flat_boxes(const place *p, rsh_box_fn fn, void *ctx) {
    rshi_pieces list = {0};
    flat_walk w = {.ndim = p->l->desc.ndim};
    rsh_status st = rshi_pieces_at(p->l, p->position, &list);
    for (int64_t i = 0; i < list.n && !st; i++) {
        w.p = &list.piece[i];
        st = list_blocks(&w, 0, list.piece[i].at[0]);
    }
    if (!st && w.n) qsort(w.list, (size_t)w.n, sizeof *w.list, by_offset);
    for (int64_t i = 0; i < w.n && !st; i++)
        if (fn(ctx, &w.list[i].box, w.list[i].offset, list.piece->step)) break;
    rshi_free(w.list);
    rshi_free(list.piece);
    return st;
}

rsh_status rsh_layout_each_box(const rsh_layout *l, int64_t rank, int64_t part, rsh_box_fn fn, void *ctx) {
    RSH_NEEDS(l);
    RSH_NEEDS(fn);
    place p;
    rsh_part shape;
    RSH_TRY(find_place(l, rank, part, &p));
    RSH_TRY(rsh_layout_part(l, rank, part, &shape));
    if (!shape.count) return RSH_OK;
    return is_flat(l) ? flat_boxes(&p, fn, ctx) : product_boxes(&p, &shape, fn, ctx);
}

/* ---- offsets ---- */

/* Returns the local index of global index x along dim d; -1 if the part does not hold it. */
static int64_t local_index(const place *p, int d, int64_t x) {
    int64_t at = 0;
    for (int s = 0; s < nstripes(p, d); s++) {
        rshi_stripe set = part_stripe(p, d, s);
        if (rshi_stripe_has(&set, x)) return at + rshi_stripe_before(&set, x);
        at += rshi_stripe_size(&set);
    }
    return -1;
}

/* Returns the global index of local index i; *run is the number of consecutive indices from i on. */
static int64_t global_along(const place *p, int d, int64_t i, int64_t *run) {
    for (int s = 0; s < nstripes(p, d); s++) {
        rshi_stripe set = part_stripe(p, d, s);
        int64_t n = rshi_stripe_size(&set);
        if (i < n) {
            *run = rshi_min(set.len - i % set.len, n - i);
            return rshi_stripe_at(&set, i);
        }
        i -= n;
    }
    return -1;
}

rsh_status rsh_layout_local_offset(const rsh_layout *l, int64_t rank, int64_t part, const int64_t *index,
                                   int64_t *offset) {
    RSH_NEEDS(l);
    RSH_NEEDS(index);
    RSH_NEEDS(offset);
    place p;
    rsh_part shape;
    int64_t base[RSH_MAX_NDIM], strides[RSH_MAX_NDIM], at = 0;
    RSH_TRY(find_place(l, rank, part, &p));
    RSH_TRY(rsh_layout_part(l, rank, part, &shape));
    rshi_stripe range = is_flat(l) ? flat_range(&p, base, strides) : rshi_stripe_range(0, shape.count);
    for (int d = 0; d < l->desc.ndim; d++) {
        int64_t i = local_index(&p, d, index[d]);
        RSH_REQUIRE(i >= 0, RSH_EKEY, "rank %lld, part %lld of \"%.200s\" does not hold index %lld of dim %d",
                    (long long)rank, (long long)part, rsh_layout_text(l), (long long)index[d], d);
        at += i * (is_flat(l) ? strides[d] : shape.strides[d]);
    }
    RSH_REQUIRE(rshi_stripe_has(&range, at), RSH_EKEY,
                "rank %lld, part %lld of \"%.200s\" does not hold flat index %lld",
                (long long)rank, (long long)part, rsh_layout_text(l), (long long)at);
    *offset = at - range.lo;
    return RSH_OK;
}

/* Computes the global index of a valid offset; *run consecutive offsets have consecutive row-major positions. */
static void index_at(const place *p, const rsh_part *shape, int64_t offset, int64_t *index, int64_t *run) {
    int64_t base[RSH_MAX_NDIM], strides[RSH_MAX_NDIM], along = 1;
    const rsh_layout *l = p->l;
    *run = 1;
    if (is_flat(l)) {
        offset += flat_range(p, base, strides).lo;
    } else {
        for (int d = 0; d < l->desc.ndim; d++) base[d] = shape->shape[d], strides[d] = shape->strides[d];
    }
    for (int d = 0; d < l->desc.ndim; d++) {
        index[d] = global_along(p, d, offset / strides[d] % base[d], &along);
        if (d == l->desc.ndim - 1 && strides[d] == 1) *run = along;
    }
}

rsh_status rsh_layout_global_index(const rsh_layout *l, int64_t rank, int64_t part, int64_t offset, int64_t *index) {
    RSH_NEEDS(l);
    RSH_NEEDS(index);
    place p;
    rsh_part shape;
    int64_t run;
    RSH_TRY(find_place(l, rank, part, &p));
    RSH_TRY(rsh_layout_part(l, rank, part, &shape));
    RSH_REQUIRE(offset >= 0 && offset < shape.count, RSH_EINDEX,
                "rank %lld, part %lld of \"%.200s\" has %lld elements, requested offset %lld", (long long)rank,
                (long long)part, rsh_layout_text(l), (long long)shape.count, (long long)offset);
    index_at(&p, &shape, offset, index, &run);
    return RSH_OK;
}

/* ---- same parts ---- */

static bool same_elements(const rsh_layout *a, const rsh_layout *b, int64_t rank, int64_t part) {
    place pa, pb;
    rsh_part sa, sb;
    int64_t ia[RSH_MAX_NDIM], ib[RSH_MAX_NDIM], ra, rb;
    if (find_place(a, rank, part, &pa) || find_place(b, rank, part, &pb)) return false;
    if (rsh_layout_part(a, rank, part, &sa) || rsh_layout_part(b, rank, part, &sb) || sa.count != sb.count)
        return false;
    for (int64_t i = 0; i < sa.count; i += rshi_min(ra, rb)) {
        index_at(&pa, &sa, i, ia, &ra);
        index_at(&pb, &sb, i, ib, &rb);
        for (int d = 0; d < a->desc.ndim; d++)
            if (ia[d] != ib[d]) return false;
    }
    return true;
}

static bool same_shape(const rsh_layout *a, const rsh_layout *b) {
    if (a->desc.ndim != b->desc.ndim) return false;
    for (int d = 0; d < a->desc.ndim; d++)
        if (a->shape[d] != b->shape[d]) return false;
    return true;
}

bool rsh_layout_same_parts(const rsh_layout *a, const rsh_layout *b) {
    if (!a || !b) return false;
    if (rsh_layout_equal(a, b)) return true;
    if (!same_shape(a, b) || a->desc.op != b->desc.op || rsh_layout_nranks(a) != rsh_layout_nranks(b)) return false;
    for (int64_t i = 0; i < rsh_layout_nranks(a); i++) {
        int64_t rank = rsh_layout_rank(a, i), n = rsh_layout_nparts(a, rank);
        if (rank != rsh_layout_rank(b, i) || n != rsh_layout_nparts(b, rank)) return false;
        for (int64_t part = 0; part < n; part++)
            if (!same_elements(a, b, rank, part)) return false;
    }
    return true;
}
