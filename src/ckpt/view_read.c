/* View read: reads a box of a view into memory, using the code that copies windows to files. */
#include "ckpt/view_read.h"

#include <string.h>

#include "ckpt/impl.h"

#define BUDGET ((size_t)64 << 20) /* bytes of all buffers together */

static rsh_status write_memory(void *ctx, int32_t file, uint64_t at, const void *bytes, size_t n) {
    (void)file;
    memcpy((char *)ctx + at, bytes, n);
    return RSH_OK;
}

/* Describes the box as one contiguous part of a file. */
static rsh_status make_end(const rshi_ckpt_view *v, const rsh_box *box, rsh_dtype to, rshi_ckpt_end *e) {
    rshi_stored_piece p = {.scale = -1};
    int64_t size[RSH_MAX_NDIM];
    for (int d = 0; d < v->ndim; d++) {
        size[d] = box->hi[d] - box->lo[d];
        p.set[d] = rshi_stripe_range(box->lo[d], box->hi[d]);
    }
    rshi_dense_strides(v->ndim, size, NULL, p.stride);
    RSH_TRY(RSHI_GROW(e->piece, 1, &e->pieces_room));
    RSH_TRY(RSHI_GROW(e->group, 1, &e->groups_room));
    RSH_TRY(RSHI_GROW(e->copy, 1, &e->copies_room));
    e->piece[0] = p;
    e->group[0] = (rshi_ckpt_group){.npieces = 1, .ncopies = 1, .from = to};
    e->copy[0] = (rshi_ckpt_part){0, 0};
    e->npieces = e->ngroups = e->ncopies = 1;
    e->ndim = v->ndim;
    e->size = rsh_dtype_size(to);
    memcpy(e->shape, v->shape, sizeof e->shape);
    return RSH_OK;
}

rsh_status rshi_view_read(const rsh_ckpt *c, const rshi_ckpt_view *v, const char *name, const rsh_box *box,
                          rsh_dtype to, void *out, uint64_t *read) {
    rshi_files files = {.write = write_memory, .ctx = out};
    rshi_mover m = {.source = c, .files = &files, .mode = RSHI_WINDOW_WRITE, .to = to, .budget = BUDGET};
    rsh_box all = {{0}, {0}};
    memcpy(all.hi, v->shape, sizeof all.hi);
    if (!box) box = &all;
    for (int d = 0; d < v->ndim; d++)
        if (box->lo[d] >= box->hi[d]) return RSH_OK;
    rsh_status st = rshi_view_end(c, v, name, &m.src);
    if (!st) st = make_end(v, box, to, &m.dst);
    m.converts = rshi_end_converts(&m.src, to);
    if (!st) st = rshi_mover_window(&m, box);
    if (read) *read += m.bytes_read;
    rshi_mover_free(&m);
    return st;
}
