/* Scale layout: derives the layout of block scales from the layout of their weight. */
#include "ckpt/impl.h"

#include <inttypes.h>
#include <string.h>

typedef struct scaling_down {
    const rshi_weight *w;
    const int64_t *block;
    const rshi_ckpt_tensor *scales;
} scaling_down;

static rsh_status check_shapes(const scaling_down *x, int nblocks) {
    bool fits = x->w->ndim == nblocks && x->scales->ndim == nblocks;
    for (int d = 0; d < nblocks && fits; d++) fits = x->scales->shape[d] == rshi_ceil_div(x->w->shape[d], x->block[d]);
    RSH_REQUIRE(fits, RSH_EVALUE,
                "expected one scale for each block of \"%.200s\" and one block size for each of its dims", x->w->name);
    return RSH_OK;
}

/* ---- the layout of the weight, counted in blocks instead of elements ---- */

static void scale_cut(rsh_cut *cut, int64_t block, int64_t *sizes) {
    if (cut->rule == RSH_CUT_CYCLIC || cut->rule == RSH_CUT_UNIT) cut->number = rshi_max(1, cut->number / block);
    for (int64_t i = 0; i < cut->nsizes; i++) sizes[i] = rshi_ceil_div(cut->sizes[i], block);
    if (cut->nsizes) cut->sizes = sizes;
}

static rsh_status make_layout(const scaling_down *x, rsh_layout **out) {
    rsh_layout_desc desc = *rsh_layout_describe(x->w->layout);
    rsh_segment *segment[RSH_MAX_NDIM] = {0};
    int64_t *sizes[RSH_MAX_NDIM] = {0};
    rsh_status st = RSH_OK;
    for (int d = 0; d < desc.ndim && !st; d++) {
        rsh_dim *dim = &desc.dim[d];
        segment[d] = rshi_alloc((size_t)dim->nsegments, sizeof **segment);
        sizes[d] = rshi_alloc((size_t)dim->cut.nsizes, sizeof **sizes);
        if (!segment[d] || !sizes[d]) {
            st = rshi_nomem();
            break;
        }
        dim->size = x->scales->shape[d];
        scale_cut(&dim->cut, x->block[d], sizes[d]);
        for (int i = 0; i < dim->nsegments; i++) {
            segment[d][i] = dim->segment[i];
            segment[d][i].size = rshi_ceil_div(dim->segment[i].size, x->block[d]);
            scale_cut(&segment[d][i].cut, x->block[d], NULL);
        }
        if (dim->nsegments) dim->segment = segment[d];
    }
    desc.dtype = x->scales->dtype;
    if (!st) st = rsh_layout_new(&desc, out);
    for (int d = 0; d < RSH_MAX_NDIM; d++) {
        rshi_free(segment[d]);
        rshi_free(sizes[d]);
    }
    return st;
}

/* ---- checking that every rank has the scales of its blocks ---- */

static rsh_status check_stripe(const scaling_down *x, int d, int64_t rank, const rshi_stripe *weight,
                               const rshi_stripe *scale, bool *same) {
    int64_t block = x->block[d];
    for (int64_t j = 0; j < weight->count; j++) {
        int64_t lo = weight->lo + j * weight->stride, hi = lo + (j == weight->count - 1 ? weight->last : weight->len);
        int64_t wrong = lo % block ? lo : hi % block && hi != x->w->shape[d] ? hi : -1;
        RSH_REQUIRE(wrong < 0, RSH_EVALUE,
                    "weight \"%.200s\" is cut at index %" PRId64 " of dim %d (rank %" PRId64
                    "), inside a block; cuts must be multiples of %" PRId64,
                    x->w->name, wrong, d, rank, block);
        *same &= rshi_stripe_has(scale, lo / block) && rshi_stripe_has(scale, (hi - 1) / block);
    }
    *same &= rshi_stripe_size(scale) > 0;
    return RSH_OK;
}

static int64_t blocks_of(const scaling_down *x, int d, const rshi_stripe *s) {
    int64_t n = 0;
    for (int64_t j = 0; j < s->count; j++) n += rshi_ceil_div(j == s->count - 1 ? s->last : s->len, x->block[d]);
    return n;
}

static rsh_status check_rank(const scaling_down *x, const rsh_layout *scales, int64_t rank, bool *same) {
    rshi_piece *a = NULL, *b = NULL;
    int64_t n = 0, m = 0;
    rsh_status st = rshi_layout_pieces(x->w->layout, rank, &a, &n);
    if (!st) st = rshi_layout_pieces(scales, rank, &b, &m);
    *same &= n == m;
    for (int64_t i = 0; i < n && !st; i++)
        for (int d = 0; d < x->w->ndim && !st; d++) {
            const rshi_stripe none = {0, 0, 0, 0, 0}, *scale = i < m ? &b[i].set[d] : &none;
            st = check_stripe(x, d, rank, &a[i].set[d], scale, same);
            *same &= blocks_of(x, d, &a[i].set[d]) == rshi_stripe_size(scale);
        }
    rshi_free(a);
    rshi_free(b);
    return st;
}

static rsh_status check_ranks(const scaling_down *x, const rsh_layout *scales) {
    bool same = true;
    for (int64_t i = 0; i < rsh_layout_nranks(x->w->layout); i++)
        RSH_TRY(check_rank(x, scales, rsh_layout_rank(x->w->layout, i), &same));
    RSH_REQUIRE(same, RSH_EUNSUP, "no layout of the scales matches that of weight \"%.200s\", %.300s",
                x->w->name, rsh_layout_text(x->w->layout));
    return RSH_OK;
}

rsh_status rshi_scale_layout(const rshi_weight *w, int nblocks, const int64_t *block, const rshi_ckpt_tensor *scales,
                             rsh_layout **out) {
    scaling_down x = {w, block, scales};
    rsh_layout *l = NULL;
    *out = NULL;
    RSH_TRY(check_shapes(&x, nblocks));
    if (!w->layout) return RSH_OK;
    const rsh_layout_desc *desc = rsh_layout_describe(w->layout);
    RSH_REQUIRE(!desc->flat.naxes && !desc->is_boxes && !desc->has_order, RSH_EUNSUP,
                "weight \"%.200s\" has the layout %.300s; scales support only layouts that cut dims", w->name,
                rsh_layout_text(w->layout));
    rsh_status st = make_layout(&x, &l);
    if (!st) st = check_ranks(&x, l);
    if (st)
        rsh_layout_free(l);
    else
        *out = l;
    return st;
}
