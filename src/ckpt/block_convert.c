/* Block convert: converts the elements of a block to the target's dtype and multiplies them by their scales. */
#include "ckpt/impl.h"

#include <string.h>

#define ROW 256 /* number of elements that are scaled at a time */

typedef struct scaling {
    const rshi_ckpt_end *e;
    const rshi_stored_piece *p;
    rshi_view raw, mem;
    rsh_dtype from, to;
    const char *in;
    char *out;
    int inner; /* the dim of the inner loop */
} scaling;

/* Returns the scale of a local index. *same is the number of indices of the inner dim, from there on, that have this
 * scale. */
static float scale_at(const scaling *s, const int64_t *local, int64_t *same) {
    const rshi_scales *t = &s->e->scale[s->p->scale];
    int64_t at = 0, x[RSH_MAX_NDIM];
    memcpy(x, s->p->scale_first, sizeof x);
    *same = INT64_MAX;
    for (int d = 0; d < s->e->ndim; d++) {
        int k = s->p->scale_of[d];
        if (k < 0) continue;
        x[k] += local[d];
        if (d == s->inner) *same = t->block[k] - x[k] % t->block[k];
    }
    for (int k = 0; k < t->ndim; k++) at = at * t->shape[k] + x[k] / t->block[k];
    return t->value[at];
}

static void scale_row(const scaling *s, const char *in, char *out, int64_t n, float by) {
    float row[ROW];
    rshi_convert(s->from, in, RSH_F32, row, (size_t)n);
    for (int64_t i = 0; i < n; i++) row[i] *= by;
    rshi_convert(RSH_F32, row, s->to, out, (size_t)n);
}

/* Scales all indices of the inner dim; the other indices are fixed. */
static void scale_line(const scaling *s, int64_t *local) {
    int64_t end = s->raw.first[s->inner] + s->raw.n[s->inner], same;
    bool dense = s->raw.stride[s->inner] == (int64_t)rsh_dtype_size(s->from);
    for (local[s->inner] = s->raw.first[s->inner]; local[s->inner] < end;) {
        int64_t in = s->raw.bias, out = s->mem.bias;
        float by = scale_at(s, local, &same);
        int64_t n = dense ? rshi_min(rshi_min(ROW, same), end - local[s->inner]) : 1;
        for (int d = 0; d < s->e->ndim; d++) {
            in += local[d] * s->raw.stride[d];
            out += local[d] * s->mem.stride[d];
        }
        scale_row(s, s->in + in, s->out + out, n, by);
        local[s->inner] += n;
    }
}

static void scale_view(scaling *s) {
    int64_t i[RSH_MAX_NDIM], local[RSH_MAX_NDIM] = {0}, same;
    int ndim = s->e->ndim;
    if (!ndim) {
        scale_row(s, s->in + s->raw.bias, s->out + s->mem.bias, 1, scale_at(s, local, &same));
        return;
    }
    memset(i, 0, sizeof i);
    s->inner = 0;
    for (int d = 0; d < ndim; d++)
        if (s->raw.n[d] > 1 && (s->raw.n[s->inner] == 1 || s->raw.stride[d] < s->raw.stride[s->inner])) s->inner = d;
    for (int k = 0; k >= 0;) {
        for (int d = 0; d < ndim; d++) local[d] = s->raw.first[d] + i[d];
        scale_line(s, local);
        for (k = ndim; k-- > 0 && (k == s->inner || ++i[k] == s->raw.n[k]);) i[k] = 0;
    }
}

void rshi_block_convert(const rshi_ckpt_end *e, const rsh_box *window, const rshi_ckpt_block *b, const char *raw,
                        rsh_dtype to, char *mem) {
    const rshi_ckpt_group *g = &e->group[b->group];
    bool scaled = false;
    for (int64_t p = b->piece; p < b->piece + b->npieces; p++) scaled |= e->nscales && e->piece[p].scale >= 0;
    if (!scaled) {
        rshi_convert(g->from, raw, to, mem, (size_t)b->count);
        return;
    }
    for (int64_t p = b->piece; p < b->piece + b->npieces; p++) {
        scaling s = {.e = e, .p = &e->piece[p], .from = g->from, .to = to, .in = raw, .out = mem};
        if (!rshi_view_make(e, window, b, p, rsh_dtype_size(g->from), &s.raw)) continue;
        rshi_view_make(e, window, b, p, rsh_dtype_size(to), &s.mem);
        scale_view(&s);
    }
}
