/* Seal: completes a checkpoint.  It checks that boxes tile their tensors and that every part is inside its file. */
#include "ckpt/ckpt.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

struct rshi_ckpt_boxes {
    int64_t tensor;
    rsh_box box;
    rshi_ckpt_part part;
};
typedef struct rshi_ckpt_boxes boxed;

/* ---- collecting ---- */

rsh_status rshi_ckpt_add_box(rsh_ckpt *c, int64_t tensor, const int64_t *lo, const int64_t *size, int32_t file,
                             uint64_t at) {
    const rshi_ckpt_tensor *t = &c->tensor[tensor];
    boxed b = {tensor, {{0}, {0}}, {file, at}};
    for (int d = 0; d < t->ndim; d++) {
        RSH_REQUIRE(lo[d] >= 0 && size[d] >= 0 && size[d] <= t->shape[d] && lo[d] <= t->shape[d] - size[d], RSH_EVALUE,
                    "%s: tensor \"%.200s\": a box starts at %" PRId64 " with size %" PRId64
                    " in dim %d, but the dim has size %" PRId64,
                    c->file[file].name, t->name, lo[d], size[d], d, t->shape[d]);
        b.box.lo[d] = lo[d];
        b.box.hi[d] = lo[d] + size[d];
    }
    RSH_TRY(RSHI_GROW(c->boxes, c->nboxes + 1, &c->boxes_room));
    c->boxes[c->nboxes++] = b;
    return RSH_OK;
}

typedef struct ranging {
    rsh_ckpt *c;
    int64_t tensor, rows[RSH_MAX_NDIM]; /* rows: elements per index of each dim */
    int64_t from[RSH_MAX_NDIM], extent[RSH_MAX_NDIM]; /* first index and size of the flattened box */
    int32_t file;
    uint64_t at; /* byte offset of the next element */
    int64_t lo[RSH_MAX_NDIM], size[RSH_MAX_NDIM];
} ranging;

static rsh_status add_run(ranging *r, int d, int64_t lo, int64_t n) {
    const rshi_ckpt_tensor *t = &r->c->tensor[r->tensor];
    if (n <= 0) return RSH_OK;
    r->lo[d] = r->from[d] + lo;
    r->size[d] = n;
    for (int e = d + 1; e < t->ndim; e++) {
        r->lo[e] = r->from[e];
        r->size[e] = r->extent[e];
    }
    RSH_TRY(rshi_ckpt_add_box(r->c, r->tensor, r->lo, r->size, r->file, r->at));
    r->at += (uint64_t)(n * r->rows[d]) * (uint64_t)rsh_dtype_bits(t->dtype) / 8;
    return RSH_OK;
}

/* Adds elements [first, end) of the flattened dims from d on: a partial first row, whole rows, a partial last row. */
static rsh_status add_rows(ranging *r, int d, int64_t first, int64_t end) {
    int64_t row = r->rows[d], a = first / row, b = end / row, from = first % row, to = end % row;
    if (first >= end) return RSH_OK;
    if (row == 1) return add_run(r, d, first, end - first);
    if (a == b) {
        r->lo[d] = r->from[d] + a;
        r->size[d] = 1;
        return add_rows(r, d + 1, from, to);
    }
    if (from) {
        r->lo[d] = r->from[d] + a++;
        r->size[d] = 1;
        RSH_TRY(add_rows(r, d + 1, from, row));
    }
    RSH_TRY(add_run(r, d, a, b - a));
    r->lo[d] = r->from[d] + b;
    r->size[d] = 1;
    return add_rows(r, d + 1, 0, to);
}

rsh_status rshi_ckpt_add_range(rsh_ckpt *c, int64_t tensor, int64_t first, int64_t count, int32_t file, uint64_t at) {
    static const int64_t zero[RSH_MAX_NDIM];
    return rshi_ckpt_add_range_in(c, tensor, zero, c->tensor[tensor].shape, first, count, file, at);
}

rsh_status rshi_ckpt_add_range_in(rsh_ckpt *c, int64_t tensor, const int64_t *lo, const int64_t *size, int64_t first,
                                  int64_t count, int32_t file, uint64_t at) {
    const rshi_ckpt_tensor *t = &c->tensor[tensor];
    ranging r = {.c = c, .tensor = tensor, .file = file, .at = at};
    int64_t all = 1;
    for (int d = t->ndim; d-- > 0; all *= size[d]) {
        r.rows[d] = all;
        r.from[d] = lo[d];
        r.extent[d] = size[d];
    }
    RSH_REQUIRE(first >= 0 && count >= 0 && count <= all && first <= all - count, RSH_EVALUE,
                "%s: tensor \"%.200s\": a range of %" PRId64 " elements starts at element %" PRId64 ", but the "
                "tensor has only %" PRId64,
                c->file[file].name, t->name, count, first, all);
    RSH_REQUIRE(rsh_dtype_bits(t->dtype) % 8 == 0, RSH_EUNSUP,
                "%s: tensor \"%.200s\": flat ranges are not supported for %s, whose elements are smaller than a byte",
                c->file[file].name, t->name, rsh_dtype_name(t->dtype));
    if (!t->ndim) return count ? rshi_ckpt_add_box(c, tensor, NULL, NULL, file, at) : RSH_OK;
    return count ? add_rows(&r, 0, first, first + count) : RSH_OK;
}

/* ---- boxes to layouts ---- */

static int by_tensor(const void *a, const void *b) {
    const boxed *x = a, *y = b;
    if (x->tensor != y->tensor) return x->tensor < y->tensor ? -1 : 1;
    for (int d = 0; d < RSH_MAX_NDIM; d++) {
        if (x->box.lo[d] != y->box.lo[d]) return x->box.lo[d] < y->box.lo[d] ? -1 : 1;
        if (x->box.hi[d] != y->box.hi[d]) return x->box.hi[d] < y->box.hi[d] ? -1 : 1;
    }
    if (x->part.file != y->part.file) return x->part.file < y->part.file ? -1 : 1;
    return x->part.at < y->part.at ? -1 : x->part.at > y->part.at;
}

static bool is_empty(const rshi_ckpt_tensor *t, const rsh_box *b) {
    for (int d = 0; d < t->ndim; d++)
        if (b->lo[d] == b->hi[d]) return true;
    return false;
}

static bool is_whole(const rshi_ckpt_tensor *t, const rsh_box *b) {
    for (int d = 0; d < t->ndim; d++)
        if (b->lo[d] || b->hi[d] != t->shape[d]) return false;
    return true;
}

/* Removes copies and empty boxes from the sorted boxes of a tensor; returns the number of boxes left. */
static int64_t drop_copies(const rshi_ckpt_tensor *t, boxed *b, int64_t n) {
    int64_t kept = 0;
    for (int64_t i = 0; i < n; i++) {
        if (is_empty(t, &b[i].box) || (kept && !memcmp(&b[kept - 1].box, &b[i].box, sizeof b->box))) continue;
        b[kept++] = b[i];
    }
    return kept;
}

static rsh_status boxes_layout(const rsh_ckpt *c, const rshi_ckpt_tensor *t, const boxed *b, int64_t n,
                               rsh_layout **out) {
    int64_t *rank = rshi_alloc((size_t)n, sizeof *rank);
    rsh_ranked_box *list = rshi_alloc((size_t)n, sizeof *list);
    rsh_layout_desc desc = {.dtype = t->dtype, .ndim = t->ndim, .is_boxes = true, .nboxes = n, .boxes = list};
    rsh_status st = list && rank ? RSH_OK : rshi_nomem();
    for (int d = 0; d < t->ndim; d++) desc.dim[d].size = t->shape[d];
    for (int64_t i = 0; i < n && !st; i++) {
        rank[i] = i;
        list[i] = (rsh_ranked_box){1, &rank[i], b[i].box};
    }
    if (!st) st = rsh_layout_new(&desc, out);
    if (st == RSH_EVALUE) {
        char why[RSHI_DETAIL_BYTES - 300];
        strncpy(why, rsh_error_detail(), sizeof why - 1);
        why[sizeof why - 1] = 0;
        st = rshi_fail(RSH_EVALUE, "%.100s: the parts of tensor \"%.150s\" do not make a whole tensor: %.600s", c->path,
                       t->name, why);
    }
    rshi_free(list);
    rshi_free(rank);
    return st;
}

static rsh_status set_tensor_boxes(rsh_ckpt *c, rshi_ckpt_tensor *t, boxed *b, int64_t n) {
    n = drop_copies(t, b, n);
    if (n == 1 && is_whole(t, &b->box)) return rshi_ckpt_set_whole(c, t - c->tensor, b->part.file, b->part.at);
    rsh_layout *layout = NULL;
    rshi_ckpt_part *parts = rshi_alloc((size_t)n, sizeof *parts);
    if (!parts) return rshi_nomem();
    for (int64_t i = 0; i < n; i++) parts[i] = b[i].part;
    rsh_status st = boxes_layout(c, t, b, n, &layout);
    if (!st) st = rshi_ckpt_set_parts(c, t - c->tensor, layout, n, parts);
    t->ranks_are_files = false;
    rsh_layout_free(layout);
    rshi_free(parts);
    return st;
}

static rsh_status set_all_boxes(rsh_ckpt *c) {
    if (c->nboxes) qsort(c->boxes, (size_t)c->nboxes, sizeof *c->boxes, by_tensor);
    for (int64_t i = 0, n; i < c->nboxes; i += n) {
        for (n = 1; i + n < c->nboxes && c->boxes[i + n].tensor == c->boxes[i].tensor;) n++;
        RSH_TRY(set_tensor_boxes(c, &c->tensor[c->boxes[i].tensor], &c->boxes[i], n));
    }
    rshi_free(c->boxes);
    c->boxes = NULL;
    c->nboxes = c->boxes_room = 0;
    return RSH_OK;
}

/* ---- parts in files ---- */

static rsh_status check_part(const rsh_ckpt *c, const rshi_ckpt_tensor *t, const rshi_ckpt_part *p, int64_t count) {
    int64_t bits = count * rsh_dtype_bits(t->dtype);
    if (p->file < 0) return RSH_OK;
    const rshi_ckpt_file *f = &c->file[p->file];
    RSH_REQUIRE(bits % 8 == 0, RSH_EUNSUP, "%s: tensor \"%.200s\": a part of it does not have a whole number of bytes",
                f->name, t->name);
    RSH_REQUIRE(p->at <= f->size && (uint64_t)(bits / 8) <= f->size - p->at, RSH_EVALUE,
                "%s: tensor \"%.200s\" has %" PRId64 " bytes from byte %" PRIu64
                " on, but the file ends at byte %" PRIu64 "; the file is truncated or damaged",
                f->name, t->name, bits / 8, p->at, f->size);
    return RSH_OK;
}

static rsh_status check_layout_parts(const rsh_ckpt *c, const rshi_ckpt_tensor *t) {
    const rshi_ckpt_part *p = c->parts + t->part;
    for (int64_t i = 0; i < rsh_layout_nranks(t->layout); i++) {
        int64_t rank = rsh_layout_rank(t->layout, i), n = rsh_layout_nparts(t->layout, rank);
        for (int64_t k = 0; k < n; k++) {
            rsh_part part;
            RSH_TRY(rsh_layout_part(t->layout, rank, k, &part));
            RSH_TRY(check_part(c, t, p++, part.count));
        }
    }
    return RSH_OK;
}

static rsh_status check_tensor(const rsh_ckpt *c, const rshi_ckpt_tensor *t) {
    int64_t count = rshi_ckpt_count(t);
    if (t->layout) return check_layout_parts(c, t);
    RSH_REQUIRE(t->nparts || !count, RSH_EVALUE, "%s: tensor \"%.200s\" has no data", c->path, t->name);
    return t->nparts ? check_part(c, t, c->parts + t->part, count) : RSH_OK;
}

int64_t rshi_ckpt_count(const rshi_ckpt_tensor *t) {
    int64_t count = 1;
    for (int d = 0; d < t->ndim; d++)
        if (!t->shape[d]) return 0;
    for (int d = 0; d < t->ndim; d++) count *= t->shape[d];
    return count;
}

rsh_status rshi_ckpt_seal(rsh_ckpt *c) {
    RSH_TRY(set_all_boxes(c));
    for (int64_t i = 0; i < c->ntensors; i++) RSH_TRY(check_tensor(c, &c->tensor[i]));
    return rshi_reading_open(c);
}
