/* Boxes check: do boxes tile a tensor exactly?
 *
 * Let f of an element be the number of boxes that hold it, minus one.  Boxes tile the tensor if f is 0 everywhere,
 * which is true if its differences along all dims are 0.  These differences are 0 except at corners of boxes, where
 * every box counts +1 or -1.  The sweep visits the coordinates of the first dim at which boxes begin (+) or end (-).
 * The faces at each coordinate must cancel; they are boxes of the remaining dims.  Equal faces of neighbours cancel
 * at once; the rest is swept along the next dim.  If faces are left over at the end, the first of them, in row-major
 * order, is at an element whose f is not 0: all differences before it are 0, so the excess there is its f.
 *
 * Cost: one sort of 2n faces if neighbours share whole faces, as in grids and slabs; never more than n * 2^ndim
 * corners, and never memory for more than 2n faces per dim. */
#include "layout/impl.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A box that begins or ends at coordinate `x` of the dim before `dim`; the dims from `dim` on are not swept yet. */
typedef struct face {
    int64_t x;
    const rsh_box *box;
    int sign;
    short dim, ndim;
} face;

typedef struct sweep {
    int ndim;
    int64_t element[RSH_MAX_NDIM]; /* current position of the sweep */
    int64_t excess;                /* f of `element`, if it is not 0; the sweep then ends */
} sweep;

static int compare_coordinates(int64_t a, int64_t b) { return a < b ? -1 : a > b; }

/* Sorts by coordinate; faces that are equal in the remaining dims become neighbours. */
static int compare_faces(const void *x, const void *y) {
    const face *a = x, *b = y;
    int c = compare_coordinates(a->x, b->x);
    for (int d = a->dim; !c && d < a->ndim; d++) {
        c = compare_coordinates(a->box->lo[d], b->box->lo[d]);
        if (!c) c = compare_coordinates(a->box->hi[d], b->box->hi[d]);
    }
    return c;
}

/* Removes pairs that cancel from sorted faces; returns the number that remains. */
static int64_t cancel_faces(face *f, int64_t n) {
    int64_t kept = 0;
    for (int64_t i = 0; i < n;) {
        face key = f[i];
        for (int64_t first = kept; i < n && !compare_faces(&f[i], &key); i++) {
            if (kept > first && f[kept - 1].sign != f[i].sign)
                kept--;
            else
                f[kept++] = f[i];
        }
    }
    return kept;
}

/* Lists where boxes begin and end along `dim`; 2n faces.  NULL: no memory. */
static face *list_faces(const face *boxes, int64_t n, int dim) {
    face *f = rshi_alloc((size_t)n, 2 * sizeof *f);
    for (int64_t i = 0; f && i < n; i++) {
        f[2 * i] = f[2 * i + 1] = boxes[i];
        f[2 * i].x = boxes[i].box->lo[dim];
        f[2 * i + 1].x = boxes[i].box->hi[dim];
        f[2 * i + 1].sign = -boxes[i].sign;
        f[2 * i].dim = f[2 * i + 1].dim = (short)(dim + 1);
    }
    return f;
}

/* Do all boxes have the same lo and hi along `dim`?  Then the dim can be skipped. */
static bool all_agree(const face *boxes, int64_t n, int dim) {
    for (int64_t i = 1; i < n; i++)
        if (boxes[i].box->lo[dim] != boxes->box->lo[dim] || boxes[i].box->hi[dim] != boxes->box->hi[dim]) return false;
    return true;
}

/* Sweeps n > 0 boxes along `dim` and, at each coordinate where faces remain, along the dims after it. */
static rsh_status sweep_dim(sweep *s, const face *boxes, int64_t n, int dim) {
    if (dim == s->ndim) {
        for (int64_t i = 0; i < n; i++) s->excess += boxes[i].sign;
        return RSH_OK;
    }
    if (all_agree(boxes, n, dim)) {
        s->element[dim] = boxes->box->lo[dim];
        return sweep_dim(s, boxes, n, dim + 1);
    }
    face *f = list_faces(boxes, n, dim);
    if (!f) return rshi_nomem();
    qsort(f, 2 * (size_t)n, sizeof *f, compare_faces);
    int64_t kept = cancel_faces(f, 2 * n);
    rsh_status st = RSH_OK;
    for (int64_t i = 0, next; i < kept && !st && !s->excess; i = next) {
        for (next = i; next < kept && f[next].x == f[i].x;) next++;
        s->element[dim] = f[i].x;
        st = sweep_dim(s, f + i, next - i, dim + 1);
    }
    rshi_free(f);
    return st;
}

static bool is_empty(const rsh_box *box, int ndim) {
    for (int d = 0; d < ndim; d++)
        if (box->lo[d] == box->hi[d]) return true;
    return false;
}

static bool box_holds_element(const rsh_box *box, const sweep *s) {
    for (int d = 0; d < s->ndim; d++)
        if (s->element[d] < box->lo[d] || s->element[d] >= box->hi[d]) return false;
    return true;
}

/* ---- error messages ---- */

typedef struct sentence {
    char text[RSHI_DETAIL_BYTES];
    size_t length;
} sentence;

static void append(sentence *s, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void append(sentence *s, const char *format, ...) {
    va_list args;
    va_start(args, format);
    int n = vsnprintf(s->text + s->length, sizeof s->text - s->length, format, args);
    va_end(args);
    s->length += (size_t)rshi_min(n, (int64_t)(sizeof s->text - s->length) - 1);
}

/* Formats a box as in the notation, except that a long list of ranks is truncated. */
static void append_box(sentence *s, const rsh_ranked_box *box, int ndim) {
    for (int64_t i = 0; i < rshi_min(box->nranks, 4); i++) append(s, "%s%" PRId64, i ? "," : "", box->ranks[i]);
    append(s, box->nranks > 4 ? ",...:[" : ":[");
    for (int d = 0; d < ndim; d++) append(s, "%s%" PRId64 ":%" PRId64, d ? "," : "", box->box.lo[d], box->box.hi[d]);
    append(s, "]");
}

static void append_element(sentence *s, const sweep *w) {
    append(s, "element [");
    for (int d = 0; d < w->ndim; d++) append(s, "%s%" PRId64, d ? "," : "", w->element[d]);
    append(s, "]");
}

static rsh_status fail_with(const rshi_text_origin *origin, int at, const sentence *s) {
    return rshi_origin_fail(origin, (rshi_text_place){.at = at}, RSH_EVALUE, "%s", s->text);
}

static rsh_status fail_doubled(const rsh_layout *l, const rshi_text_origin *origin, const sweep *w) {
    int64_t first = 0, second;
    while (!box_holds_element(&l->desc.boxes[first].box, w)) first++;
    for (second = first + 1; !box_holds_element(&l->desc.boxes[second].box, w);) second++;
    sentence s = {.length = 0};
    append(&s, "boxes ");
    append_box(&s, &l->desc.boxes[first], l->desc.ndim);
    append(&s, " and ");
    append_box(&s, &l->desc.boxes[second], l->desc.ndim);
    append(&s, " both hold ");
    append_element(&s, w);
    return fail_with(origin, rshi_origin_at(origin->box, second), &s);
}

static rsh_status fail_missing(const rshi_text_origin *origin, const sweep *w) {
    sentence s = {.length = 0};
    append(&s, "no box holds ");
    append_element(&s, w);
    return fail_with(origin, origin->boxes, &s);
}

rsh_status rshi_boxes_check(const rsh_layout *l, const rshi_text_origin *origin) {
    if (!l->count) return RSH_OK;
    rsh_box whole = {.lo = {0}};
    memcpy(whole.hi, l->shape, sizeof l->shape);
    sweep s = {.ndim = l->desc.ndim};
    int64_t n = 0;
    face *boxes = rshi_alloc((size_t)l->desc.nboxes + 1, sizeof *boxes);
    if (!boxes) return rshi_nomem();
    boxes[n++] = (face){.box = &whole, .sign = -1, .ndim = (short)l->desc.ndim};
    for (int64_t i = 0; i < l->desc.nboxes; i++)
        if (!is_empty(&l->desc.boxes[i].box, l->desc.ndim))
            boxes[n++] = (face){.box = &l->desc.boxes[i].box, .sign = 1, .ndim = (short)l->desc.ndim};
    rsh_status st = sweep_dim(&s, boxes, n, 0);
    rshi_free(boxes);
    if (st || !s.excess) return st;
    return s.excess > 0 ? fail_doubled(l, origin, &s) : fail_missing(origin, &s);
}
