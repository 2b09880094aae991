/* View make: makes views and checks their shapes. */
#include "ckpt/view.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

void rshi_shape_text(rsh_dtype dtype, int ndim, const int64_t *shape, char *text, size_t room) {
    int used = snprintf(text, room, "%s[", rsh_dtype_name(dtype));
    for (int d = 0; d < ndim; d++)
        used += snprintf(text + used, room - (size_t)used, "%s%" PRId64, d ? ", " : "", shape[d]);
    snprintf(text + used, room - (size_t)used, "]");
}

static void text_of(const rshi_ckpt_view *v, char text[RSHI_SHAPE_TEXT]) {
    rshi_shape_text(v->dtype, v->ndim, v->shape, text, RSHI_SHAPE_TEXT);
}

/* Creates a view with the dtype and shape of another view, and n parts. */
static rsh_status new_view(rshi_ckpt_store *s, rshi_view_op op, const rshi_ckpt_view *like, int64_t n,
                           rshi_ckpt_view **out) {
    rshi_ckpt_view *v = rshi_store_take(s, sizeof *v, sizeof(int64_t));
    const rshi_ckpt_view **part = rshi_store_take(s, (size_t)n * sizeof(void *) + 1, sizeof(void *));
    if (!v || !part) return rshi_nomem();
    *v = (rshi_ckpt_view){.op = op, .part = part, .nparts = n};
    if (like) {
        v->dtype = like->dtype;
        v->ndim = like->ndim;
        memcpy(v->shape, like->shape, sizeof v->shape);
        memcpy(v->cat, like->cat, sizeof v->cat);
    }
    *out = v;
    return RSH_OK;
}

static rsh_status check_dim(const char *what, int64_t dim, int ndim, int *out) {
    *out = (int)(dim < 0 ? ndim - 1 : dim);
    RSH_REQUIRE(*out >= 0 && *out < ndim, RSH_EVALUE, "%s: dim %" PRId64 " is out of range for a tensor of %d dims",
                what, dim, ndim);
    return RSH_OK;
}

static rsh_status check_elements(const rshi_ckpt_view *v) {
    RSH_REQUIRE(rsh_dtype_bits(v->dtype) % 8 == 0, RSH_EUNSUP,
                "elements of %s are smaller than a byte and cannot be rearranged", rsh_dtype_name(v->dtype));
    return RSH_OK;
}

static bool is_empty(const rshi_ckpt_view *v) {
    for (int d = 0; d < v->ndim; d++)
        if (!v->shape[d]) return true;
    return false;
}

/* Checks that the number of elements fits into 63 bits. */
static rsh_status check_count(const rshi_ckpt_view *v) {
    int64_t n = 1;
    for (int d = 0; d < v->ndim && !is_empty(v); d++)
        RSH_REQUIRE(rshi_mul(n, v->shape[d], &n) && rshi_mul(n, 1, &n), RSH_EVALUE,
                    "the number of elements of the result exceeds 2^63 - 1");
    return RSH_OK;
}

rsh_status rshi_view_source(rshi_ckpt_store *s, const rsh_ckpt *c, int64_t tensor, rshi_ckpt_view **out) {
    const rshi_ckpt_tensor *t = &c->tensor[tensor];
    RSH_TRY(new_view(s, RSHI_VIEW_SOURCE, NULL, 0, out));
    (*out)->dtype = t->dtype;
    (*out)->ndim = t->ndim;
    if (t->ndim) memcpy((*out)->shape, t->shape, (size_t)t->ndim * sizeof *t->shape);
    (*out)->source = tensor;
    return RSH_OK;
}

/* ---- views of several parts ---- */

/* Checks that parts have equal dtypes, and equal sizes except along `dim` (-1: no exception). */
static rsh_status check_parts(const char *what, int dim, int64_t n, rshi_ckpt_view *const *parts) {
    char a[RSHI_SHAPE_TEXT], b[RSHI_SHAPE_TEXT];
    for (int64_t i = 0; i < n; i++) {
        bool same = parts[i]->dtype == parts[0]->dtype && parts[i]->ndim == parts[0]->ndim;
        for (int d = 0; d < parts[0]->ndim && same; d++) same = d == dim || parts[i]->shape[d] == parts[0]->shape[d];
        text_of(parts[0], a);
        text_of(parts[i], b);
        RSH_REQUIRE(same, RSH_EVALUE, "%s: operands must have equal dtypes and shapes%s, got %s and %s", what,
                    dim >= 0 ? " except along DIM" : "", a, b);
        RSH_TRY(check_elements(parts[i]));
    }
    return RSH_OK;
}

static rsh_status join_parts(rshi_ckpt_store *s, rshi_view_op op, const char *what, int64_t dim, int64_t n,
                       rshi_ckpt_view *const *parts, rshi_ckpt_view **out) {
    int d;
    RSH_TRY(check_dim(what, dim, parts[0]->ndim, &d));
    RSH_TRY(check_parts(what, d, n, parts));
    RSH_TRY(new_view(s, op, parts[0], n, out));
    rshi_ckpt_view *v = *out;
    v->dim = d;
    v->shape[d] = 0;
    for (int64_t i = 0; i < n; i++) {
        v->part[i] = parts[i];
        RSH_REQUIRE(rshi_add(v->shape[d], parts[i]->shape[d], &v->shape[d]), RSH_EVALUE, "%s: the result is too large",
                    what);
    }
    for (int e = 0; e < v->ndim; e++) v->cat[e] = e == d ? NULL : parts[0]->cat[e];
    return check_count(v);
}

rsh_status rshi_view_cat(rshi_ckpt_store *s, int64_t dim, int64_t n, rshi_ckpt_view *const *parts, int64_t nsizes,
                         const int64_t *sizes, rshi_ckpt_view **out) {
    RSH_TRY(join_parts(s, RSHI_VIEW_CAT, "cat", dim, n, parts, out));
    (*out)->cat[(*out)->dim] = *out;
    RSH_REQUIRE(!nsizes || nsizes == n, RSH_EVALUE, "cat: expected %" PRId64 " sizes, one per operand, got %" PRId64, n,
                nsizes);
    for (int64_t i = 0; i < nsizes; i++)
        RSH_REQUIRE(sizes[i] == parts[i]->shape[(*out)->dim], RSH_EVALUE,
                    "cat: operand %" PRId64 " must have size %" PRId64 " along dim %d, got %" PRId64, i, sizes[i],
                    (*out)->dim, parts[i]->shape[(*out)->dim]);
    return RSH_OK;
}

rsh_status rshi_view_interleave(rshi_ckpt_store *s, int64_t dim, int64_t groups, int64_t n,
                                rshi_ckpt_view *const *parts, int64_t nsizes, const int64_t *sizes,
                                rshi_ckpt_view **out) {
    RSH_TRY(join_parts(s, RSHI_VIEW_INTERLEAVE, "interleave", dim, n, parts, out));
    (*out)->groups = groups;
    RSH_REQUIRE(!nsizes || nsizes == n, RSH_EVALUE,
                "interleave: expected %" PRId64 " sizes, one per operand, got %" PRId64, n, nsizes);
    for (int64_t i = 0; i < n; i++) {
        int64_t size = parts[i]->shape[(*out)->dim];
        RSH_REQUIRE(size % groups == 0, RSH_EVALUE,
                    "interleave: the size of dim %d of operand %" PRId64 " must be a multiple of the %" PRId64
                    " groups, got %" PRId64,
                    (*out)->dim, i, groups, size);
        RSH_REQUIRE(!nsizes || size / groups == sizes[i], RSH_EVALUE,
                    "interleave: blocks of operand %" PRId64 " must have size %" PRId64 ", got %" PRId64, i, sizes[i],
                    size / groups);
    }
    return RSH_OK;
}

rsh_status rshi_view_stack(rshi_ckpt_store *s, int64_t dim, int64_t n, rshi_ckpt_view *const *parts,
                           rshi_ckpt_view **out) {
    int ndim = parts[0]->ndim + 1, d;
    RSH_REQUIRE(ndim <= RSH_MAX_NDIM, RSH_EUNSUP, "stack: the result would have %d dims; at most %d are supported",
                ndim, RSH_MAX_NDIM);
    RSH_TRY(check_dim("stack", dim, ndim, &d));
    RSH_TRY(check_parts("stack", -1, n, parts));
    RSH_TRY(new_view(s, RSHI_VIEW_STACK, parts[0], n, out));
    rshi_ckpt_view *v = *out;
    for (int64_t i = 0; i < n; i++) v->part[i] = parts[i];
    v->dim = d;
    v->ndim = ndim;
    memmove(v->shape + d + 1, v->shape + d, (size_t)(ndim - 1 - d) * sizeof *v->shape);
    memmove(v->cat + d + 1, v->cat + d, (size_t)(ndim - 1 - d) * sizeof *v->cat);
    v->shape[d] = n;
    v->cat[d] = NULL;
    return check_count(v);
}

/* ---- views of one part ---- */

static rsh_status view_of_one(rshi_ckpt_store *s, rshi_view_op op, const rshi_ckpt_view *x, rshi_ckpt_view **out) {
    RSH_TRY(check_elements(x));
    RSH_TRY(new_view(s, op, x, 1, out));
    (*out)->part[0] = x;
    return RSH_OK;
}

rsh_status rshi_view_permute(rshi_ckpt_store *s, const rshi_ckpt_view *x, int64_t n, const int64_t *order,
                             rshi_ckpt_view **out) {
    bool seen[RSH_MAX_NDIM] = {0};
    RSH_REQUIRE(n == x->ndim, RSH_EVALUE, "permute: expected %d numbers, one per dim, got %" PRId64, x->ndim, n);
    RSH_TRY(view_of_one(s, RSHI_VIEW_PERMUTE, x, out));
    for (int d = 0; d < n; d++) {
        RSH_REQUIRE(order[d] >= 0 && order[d] < n && !seen[order[d]], RSH_EVALUE,
                    "permute: expected each of the dims 0 to %d once", x->ndim - 1);
        seen[order[d]] = true;
        (*out)->order[d] = (int)order[d];
        (*out)->shape[d] = x->shape[order[d]];
        (*out)->cat[d] = x->cat[order[d]];
    }
    return RSH_OK;
}

rsh_status rshi_view_transpose(rshi_ckpt_store *s, const rshi_ckpt_view *x, rshi_ckpt_view **out) {
    int64_t order[RSH_MAX_NDIM];
    RSH_REQUIRE(x->ndim >= 2, RSH_EVALUE, "transpose: the tensor must have at least 2 dims, got %d", x->ndim);
    for (int d = 0; d < x->ndim; d++) order[d] = d;
    order[x->ndim - 1] = x->ndim - 2;
    order[x->ndim - 2] = x->ndim - 1;
    return rshi_view_permute(s, x, x->ndim, order, out);
}

rsh_status rshi_view_range(rshi_ckpt_store *s, const rshi_ckpt_view *x, int64_t dim, int64_t lo, int64_t hi,
                           rshi_ckpt_view **out) {
    int d;
    RSH_TRY(check_dim("slice", dim, x->ndim, &d));
    RSH_REQUIRE(0 <= lo && lo <= hi && hi <= x->shape[d], RSH_EVALUE,
                "slice: the range must be inside dim %d of size %" PRId64 ", got %" PRId64 " to %" PRId64, d,
                x->shape[d], lo, hi);
    RSH_TRY(view_of_one(s, RSHI_VIEW_RANGE, x, out));
    (*out)->dim = d;
    (*out)->lo = lo;
    (*out)->size = (*out)->shape[d] = hi - lo;
    (*out)->cat[d] = NULL;
    return RSH_OK;
}

rsh_status rshi_view_reshape(rshi_ckpt_store *s, const rshi_ckpt_view *x, int64_t n, const int64_t *shape,
                             rshi_ckpt_view **out) {
    int64_t count = 1, known = 1;
    int hole = -1;
    char text[RSHI_SHAPE_TEXT];
    text_of(x, text);
    for (int d = 0; d < x->ndim; d++) count = x->shape[d] && count ? count * x->shape[d] : 0;
    for (int d = 0; d < n; d++) {
        RSH_REQUIRE(shape[d] >= 0 || hole < 0, RSH_EVALUE, "reshape: only one size may be _");
        if (shape[d] < 0)
            hole = d;
        else
            RSH_REQUIRE(rshi_mul(known, shape[d], &known), RSH_EVALUE, "reshape: the result is too large");
    }
    RSH_REQUIRE(hole < 0 ? known == count : known && count % known == 0, RSH_EVALUE,
                "reshape: the sizes have a product of %" PRId64 ", which does not match %s", known, text);
    RSH_TRY(view_of_one(s, RSHI_VIEW_RESHAPE, x, out));
    (*out)->ndim = (int)n;
    memset((*out)->cat, 0, sizeof(*out)->cat);
    for (int d = 0; d < n; d++) (*out)->shape[d] = d == hole ? count / known : shape[d];
    return RSH_OK;
}

rsh_status rshi_view_dequantise(rshi_ckpt_store *s, const rshi_ckpt_view *x, const rshi_ckpt_view *scale, int64_t n,
                                const int64_t *block, rshi_ckpt_view **out) {
    char a[RSHI_SHAPE_TEXT], b[RSHI_SHAPE_TEXT];
    text_of(x, a);
    text_of(scale, b);
    RSH_REQUIRE(n == x->ndim, RSH_EVALUE, "dequantise: %s needs %d block sizes, got %" PRId64, a, x->ndim, n);
    bool fits = scale->ndim == x->ndim;
    for (int d = 0; d < n && fits; d++) fits = block[d] > 0 && scale->shape[d] == rshi_ceil_div(x->shape[d], block[d]);
    RSH_REQUIRE(fits, RSH_EVALUE, "dequantise: %s needs one scale for each block, got %s", a, b);
    RSH_REQUIRE(!rsh_dtype_check_convert(x->dtype, RSH_F32) && !rsh_dtype_check_convert(scale->dtype, RSH_F32),
                RSH_ETYPE, "dequantise: both dtypes must be convertible to f32, got %s and %s", a, b);
    RSH_TRY(check_elements(scale));
    RSH_TRY(check_elements(x));
    RSH_TRY(new_view(s, RSHI_VIEW_DEQUANTISE, x, 2, out));
    (*out)->part[0] = x;
    (*out)->part[1] = scale;
    (*out)->dtype = RSH_F32;
    memcpy((*out)->block, block, (size_t)n * sizeof *block);
    return RSH_OK;
}

/* ---- parts of a view ---- */

rsh_status rshi_view_split(rshi_ckpt_store *s, const rshi_ckpt_view *x, int64_t dim, int64_t n, const int64_t *sizes,
                           int64_t i, rshi_ckpt_view **out) {
    int d;
    int64_t lo = 0, sum = 0;
    RSH_TRY(check_dim("split", dim, x->ndim, &d));
    RSH_REQUIRE(sizes || x->shape[d] % n == 0, RSH_EVALUE,
                "split: dim %d of size %" PRId64 " cannot be split into %" PRId64
                " equal parts; write the sizes of the parts",
                d, x->shape[d], n);
    for (int64_t k = 0; k < n; k++) {
        if (k == i) lo = sum;
        RSH_REQUIRE(rshi_add(sum, sizes ? sizes[k] : x->shape[d] / n, &sum), RSH_EVALUE, "split: sizes are too large");
    }
    RSH_REQUIRE(sum == x->shape[d], RSH_EVALUE, "split: sizes add up to %" PRId64 ", but dim %d has size %" PRId64, sum,
                d, x->shape[d]);
    return rshi_view_range(s, x, d, lo, lo + (sizes ? sizes[i] : x->shape[d] / n), out);
}

rsh_status rshi_view_select(rshi_ckpt_store *s, const rshi_ckpt_view *x, int64_t dim, int64_t i, rshi_ckpt_view **out) {
    int d;
    RSH_TRY(check_dim("unstack", dim, x->ndim, &d));
    RSH_TRY(view_of_one(s, RSHI_VIEW_SELECT, x, out));
    rshi_ckpt_view *v = *out;
    v->dim = d;
    v->lo = i;
    v->ndim--;
    memmove(v->shape + d, v->shape + d + 1, (size_t)(v->ndim - d) * sizeof *v->shape);
    memmove(v->cat + d, v->cat + d + 1, (size_t)(v->ndim - d) * sizeof *v->cat);
    return RSH_OK;
}

rsh_status rshi_view_deinterleave(rshi_ckpt_store *s, const rshi_ckpt_view *x, int64_t dim, int64_t groups, int64_t n,
                                  const int64_t *sizes, int64_t i, rshi_ckpt_view **out) {
    int d;
    int64_t lo = 0, period = 0, all;
    RSH_TRY(check_dim("deinterleave", dim, x->ndim, &d));
    for (int64_t k = 0; k < n; k++) {
        if (k == i) lo = period;
        RSH_REQUIRE(rshi_add(period, sizes[k], &period), RSH_EVALUE, "deinterleave: sizes are too large");
    }
    RSH_REQUIRE(rshi_mul(period, groups, &all) && all == x->shape[d], RSH_EVALUE,
                "deinterleave: %" PRId64 " groups of %" PRId64 " indices do not match dim %d of size %" PRId64, groups,
                period, d, x->shape[d]);
    RSH_TRY(view_of_one(s, RSHI_VIEW_BLOCKS, x, out));
    (*out)->dim = d;
    (*out)->groups = groups;
    (*out)->lo = lo;
    (*out)->size = sizes[i];
    (*out)->period = period;
    (*out)->shape[d] = groups * sizes[i];
    (*out)->cat[d] = NULL;
    return RSH_OK;
}

/* ---- leaves ---- */

void rshi_view_leaves(const rshi_ckpt_view *v, rshi_leaf_fn fn, void *ctx) {
    if (v->op == RSHI_VIEW_SOURCE) fn(ctx, v->source);
    for (int64_t i = 0; i < v->nparts; i++) rshi_view_leaves(v->part[i], fn, ctx);
}

bool rshi_view_is_turned(const rshi_ckpt_view *v) {
    bool turned = false;
    for (int d = 0; d < v->ndim && v->op == RSHI_VIEW_PERMUTE; d++) turned |= v->order[d] != d;
    for (int64_t i = 0; i < v->nparts && !turned; i++) turned = rshi_view_is_turned(v->part[i]);
    return turned;
}
