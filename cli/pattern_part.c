/* Pattern parts: fills or compares a part box by box, along the dim with the smallest stride. */
#include "pattern_row.h"
#include "contributions.h"

#include <string.h>

#define CHUNK 1024 /* number of elements generated at a time; they fit into the L1 cache */

typedef struct part_walk {
    const pattern *pattern;
    int ndim;
    int64_t global[RSH_MAX_NDIM]; /* row-major strides of the whole tensor */
    int64_t rank, contribution;
    char *data;
    pattern_fault *fault; /* where to record a fault; NULL: fill the part instead of comparing */
} part_walk;

/* A row in memory: n elements with stride `stride` and the indices start, start + step, ... */
typedef struct memory_row {
    char *data;
    int64_t stride, start, step, n;
} memory_row;

static void fill_chunk(const part_walk *w, const memory_row *r, const char *made) {
    size_t size = w->pattern->size;
    if (r->stride == 1) memcpy(r->data, made, (size_t)r->n * size);
    else
        for (int64_t i = 0; i < r->n; i++)
            memcpy(r->data + i * r->stride * (int64_t)size, made + (size_t)i * size, size);
}

static void check_chunk(const part_walk *w, const memory_row *r, const char *made) {
    size_t size = w->pattern->size;
    if (r->stride == 1 && !memcmp(r->data, made, (size_t)r->n * size)) return;
    for (int64_t i = 0; i < r->n; i++) {
        if (!memcmp(r->data + i * r->stride * (int64_t)size, made + (size_t)i * size, size)) continue;
        if (!w->fault->count++) {
            w->fault->rank = w->rank;
            w->fault->index = r->start + i * r->step;
        }
    }
}

static void do_row(const part_walk *w, memory_row r) {
    _Alignas(64) char made[CHUNK * 16];
    int64_t left = r.n, size = (int64_t)w->pattern->size;
    for (; left > 0; left -= CHUNK) {
        r.n = left < CHUNK ? left : CHUNK;
        pattern_row(w->pattern, w->contribution, r.start, r.step, r.n, made);
        if (w->fault) check_chunk(w, &r, made);
        else fill_chunk(w, &r, made);
        r.data += r.n * r.stride * size;
        r.start += r.n * r.step;
    }
}

static int densest(int ndim, const int64_t *extent, const int64_t *strides) {
    int best = ndim - 1;
    for (int d = 0; d < ndim; d++)
        if (extent[d] > 1 && (extent[best] <= 1 || strides[d] < strides[best])) best = d;
    return best;
}

static int do_box(void *ctx, const rsh_box *box, int64_t offset, const int64_t *strides) {
    const part_walk *w = ctx;
    int64_t extent[RSH_MAX_NDIM], at[RSH_MAX_NDIM] = {0}, index = 0;
    for (int d = 0; d < w->ndim; d++) {
        extent[d] = box->hi[d] - box->lo[d];
        if (extent[d] <= 0) return 0;
        index += box->lo[d] * w->global[d];
    }
    int inner = densest(w->ndim, extent, strides), d;
    int64_t size = (int64_t)w->pattern->size;
    do {
        memory_row r = {w->data + offset * size, w->ndim ? strides[inner] : 1, index, w->ndim ? w->global[inner] : 1,
                        w->ndim ? extent[inner] : 1};
        do_row(w, r);
        for (d = w->ndim - 1; d >= 0; d--) { /* advance to the next row, like an odometer */
            if (d == inner) continue;
            bool turned = ++at[d] == extent[d];
            int64_t steps = turned ? 1 - extent[d] : 1;
            offset += steps * strides[d];
            index += steps * w->global[d];
            if (!turned) break;
            at[d] = 0;
        }
    } while (d >= 0);
    return 0;
}

static rsh_status do_part(const pattern *p, int64_t rank, int64_t part, void *data, pattern_fault *fault) {
    part_walk w = {.pattern = p,
                   .ndim = rsh_layout_ndim(p->layout),
                   .rank = rank,
                   .contribution = contribution_of(p->layout, rank),
                   .data = data,
                   .fault = fault};
    const int64_t *shape = rsh_layout_shape(p->layout);
    for (int64_t d = w.ndim - 1, stride = 1; d >= 0; stride *= shape[d--]) w.global[d] = stride;
    return rsh_layout_each_box(p->layout, rank, part, do_box, &w);
}

rsh_status pattern_fill(const pattern *p, int64_t rank, int64_t part, void *data) {
    return do_part(p, rank, part, data, NULL);
}

rsh_status pattern_check(const pattern *p, int64_t rank, int64_t part, const void *data, pattern_fault *fault) {
    return do_part(p, rank, part, (void *)data, fault);
}
