/* Ckpt read: the lazy reader of programs. */
#include "ckpt/read_box.h"

#include <string.h>

rsh_status rsh_ckpt_read(const rsh_ckpt *c, int64_t tensor, const rsh_box *box, const rsh_memory *to) {
    int64_t shape[RSH_MAX_NDIM], strides[RSH_MAX_NDIM] = {0}, count = 1;
    bool inside = true; /* if not, rshi_ckpt_read_box says so */
    RSH_NEEDS(c);
    RSH_NEEDS(to);
    RSH_REQUIRE(tensor >= 0 && tensor < c->ntensors, RSH_EINDEX, "%s: there is no tensor %lld", c->path,
                (long long)tensor);
    const rshi_ckpt_tensor *t = &c->tensor[tensor];
    for (int d = 0; d < t->ndim; d++) {
        inside = inside && (!box || (box->lo[d] >= 0 && box->lo[d] <= box->hi[d] && box->hi[d] <= t->shape[d]));
        shape[d] = !inside ? 0 : box ? box->hi[d] - box->lo[d] : t->shape[d];
        count *= shape[d];
    }
    RSH_REQUIRE(to->data || !count, RSH_EVALUE, "rsh_ckpt_read: there is no memory for tensor \"%.300s\"", t->name);
    if (count) rshi_dense_strides(t->ndim, shape, NULL, strides);
    return rshi_ckpt_read_box(c, tensor, box, to->data, to->strides ? to->strides : strides, NULL);
}
