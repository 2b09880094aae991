/* Sharded random: random numbers by seed and global index, the same in every layout.
 *
 * A piece is a product of stripes.  Each of its blocks is a box whose elements have regular global distances, as the
 * math room requires.  A stripe of single indices is one such block. */
#include "math/math.h"
#include "shard/shard.h"

typedef struct drawing {
    const rsh_tensor *part;
    const rshi_piece *p;
    int ndim;
    int64_t stride[RSH_MAX_NDIM]; /* strides of the part in elements */
    int64_t global[RSH_MAX_NDIM]; /* row-major strides of the whole tensor */
    int64_t n[RSH_MAX_NDIM], pitch[RSH_MAX_NDIM]; /* sizes and global pitches of the current box */
    const rshi_numbers *numbers;
} drawing;

static rsh_status draw_box(const drawing *w, int64_t at, int64_t first) {
    rsh_random from = {.seed = w->numbers->seed, .first = (uint64_t)first, .pitch = w->pitch};
    rsh_tensor *box;
    RSH_TRY(rsh_tensor_view(w->part, at, w->ndim, w->n, w->stride, &box));
    rsh_status st = rshi_math_draw(box, w->numbers->normal, &from, w->numbers->scale, w->numbers->shift);
    rsh_tensor_free(box);
    return st;
}

/* Fills dims from d on; the box begins at offset `at` of the part and at position `first` of the tensor. */
static rsh_status draw_dims(drawing *w, int d, int64_t at, int64_t first) {
    if (d == w->ndim) return draw_box(w, at, first);
    const rshi_stripe *s = &w->p->set[d];
    bool single = s->len == 1 && s->last == 1;
    int64_t blocks = single ? 1 : s->count;
    w->pitch[d] = w->global[d] * (single ? s->stride : 1);
    for (int64_t j = 0; j < blocks; j++) {
        w->n[d] = single ? s->count : j == s->count - 1 ? s->last : s->len;
        int64_t lo = s->lo + j * s->stride;
        RSH_TRY(draw_dims(w, d + 1, at + j * s->len * w->stride[d], first + lo * w->global[d]));
    }
    return RSH_OK;
}

static rsh_status draw_piece(const rsh_sharded *s, const rshi_piece *p, const rshi_numbers *numbers) {
    drawing w = {.part = s->part[p->part], .p = p, .ndim = rsh_layout_ndim(s->layout), .numbers = numbers};
    int64_t base;
    rshi_dense_strides(w.ndim, rsh_layout_shape(s->layout), NULL, w.global);
    rshi_piece_place(s->layout, p, rsh_tensor_strides(w.part), &base, w.stride);
    return draw_dims(&w, 0, base, 0);
}

rsh_status rshi_sharded_draw(const rsh_sharded *s, const rshi_numbers *numbers) {
    RSH_REQUIRE(s, RSH_EVALUE, "random: sharded tensor is NULL");
    RSH_REQUIRE(!rsh_layout_op(s->layout), RSH_EUNSUP,
                "random: cannot fill the partial tensor \"%.300s\"; use a layout without a reduction",
                rsh_layout_text(s->layout));
    rshi_piece *list = NULL;
    int64_t n = 0;
    rsh_status st = rshi_layout_pieces(s->layout, s->comm->rank, &list, &n);
    for (int64_t i = 0; i < n && !st; i++) st = draw_piece(s, &list[i], numbers);
    rshi_free(list);
    return st;
}

rsh_status rsh_sharded_uniform(const rsh_sharded *s, uint64_t seed) {
    return rshi_sharded_draw(s, &(rshi_numbers){.seed = seed, .scale = 1});
}

rsh_status rsh_sharded_normal(const rsh_sharded *s, uint64_t seed) {
    return rshi_sharded_draw(s, &(rshi_numbers){.normal = true, .seed = seed, .scale = 1});
}
