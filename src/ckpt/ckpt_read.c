/* Ckpt read: reads a box of a tensor into memory of the caller. */
#include "ckpt/read_box.h"
#include "ckpt/view_read.h"

#include <string.h>

/* Reads a box of a view into a contiguous buffer, then copies it with the caller's strides. */
static rsh_status read_view(const rsh_ckpt *c, const rshi_ckpt_tensor *t, const rsh_box *box, char *to,
                            const int64_t *strides) {
    size_t size = rsh_dtype_size(t->dtype), n = size;
    rsh_box all = {{0}, {0}};
    int64_t i[RSH_MAX_NDIM] = {0};
    if (!box) memcpy(all.hi, t->shape, (size_t)t->ndim * sizeof *t->shape);
    if (!box) box = &all;
    for (int d = 0; d < t->ndim; d++) n *= (size_t)(box->hi[d] - box->lo[d]);
    char *dense = rshi_alloc(n, 1);
    if (!dense) return rshi_nomem();
    rsh_status st = rshi_view_read(c, t->view, t->name, box, t->dtype, dense, NULL);
    for (size_t k = 0; k < n && !st; k += size) {
        int64_t at = 0;
        for (int d = 0; d < t->ndim; d++) at += i[d] * strides[d];
        memcpy(to + at * (int64_t)size, dense + k, size);
        for (int d = t->ndim; d-- > 0 && ++i[d] == box->hi[d] - box->lo[d];) i[d] = 0;
    }
    rshi_free(dense);
    return st;
}

rsh_status rsh_ckpt_read(const rsh_ckpt *c, int64_t tensor, const rsh_box *box, const rsh_memory *to) {
    int64_t shape[RSH_MAX_NDIM], strides[RSH_MAX_NDIM] = {0};
    bool empty = false; /* in an empty box the product of the sizes may overflow */
    bool inside = true; /* if not, rshi_ckpt_read_box returns the error */
    RSH_NEEDS(c);
    RSH_NEEDS(to);
    RSH_REQUIRE(tensor >= 0 && tensor < c->ntensors, RSH_EINDEX,
                "%s: tensor index must be at least 0 and below %lld, got %lld", c->path, (long long)c->ntensors,
                (long long)tensor);
    const rshi_ckpt_tensor *t = &c->tensor[tensor];
    for (int d = 0; d < t->ndim; d++) {
        inside = inside && (!box || (box->lo[d] >= 0 && box->lo[d] <= box->hi[d] && box->hi[d] <= t->shape[d]));
        shape[d] = !inside ? 0 : box ? box->hi[d] - box->lo[d] : t->shape[d];
        empty |= !shape[d];
    }
    RSH_REQUIRE(to->data || empty, RSH_EVALUE, "rsh_ckpt_read: to->data is NULL for tensor \"%.300s\"", t->name);
    if (!empty) rshi_dense_strides(t->ndim, shape, NULL, strides);
    if (t->view && inside) return read_view(c, t, box, to->data, to->strides ? to->strides : strides);
    return rshi_ckpt_read_box(c, tensor, box, to->data, to->strides ? to->strides : strides, NULL);
}
