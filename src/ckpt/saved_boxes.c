/* Saved boxes: divides a tensor of torch.save with any strides into boxes that are contiguous in the file. */
#include "ckpt/archive.h"

#include <string.h>

#define BOXES_MOST 65536 /* most boxes of a tensor */

/* Finds the dims to iterate over, so that the other dims are contiguous and row-major.  Dims are kept from the fastest
 * on, as long as each comes before the dims that are already kept.  Returns the number of boxes, at most BOXES_MOST +
 * 1. */
static int64_t find_walked(const rshi_saved_tensor *t, bool *walked) {
    int64_t dense = 1, boxes = 1;
    int first = t->ndim; /* index of the first kept dim */
    for (int d = t->ndim; d-- > 0;) walked[d] = t->shape[d] != 1;
    for (int d = t->ndim; d-- > 0;)
        if (walked[d] && d < first && t->strides[d] == dense) {
            walked[d] = false;
            first = d;
            dense *= t->shape[d];
        }
    for (int d = 0; d < t->ndim; d++)
        if (walked[d] && (!rshi_mul(boxes, t->shape[d], &boxes) || boxes > BOXES_MOST)) return BOXES_MOST + 1;
    return boxes;
}

/* Is the tensor contiguous with its dims in another order?  `order` lists them from the slowest to the fastest. */
static bool find_order(const rshi_saved_tensor *t, int *order) {
    int64_t dense = 1;
    bool used[RSH_MAX_NDIM] = {false};
    for (int k = t->ndim; k--;) {
        int next = -1;
        for (int d = t->ndim; d--;)
            if (!used[d] && (t->shape[d] == 1 || t->strides[d] == dense) && (next < 0 || t->shape[next] == 1)) next = d;
        if (next < 0) return false;
        used[next] = true;
        order[k] = next;
        dense *= t->shape[next];
    }
    return true;
}

static rsh_status set_ordered(rsh_ckpt *c, int64_t tensor, const rshi_saved_tensor *t, const int *order, int32_t file) {
    rsh_layout_desc desc = {.dtype = t->dtype, .ndim = t->ndim, .has_order = true};
    rsh_layout *layout;
    for (int d = 0; d < t->ndim; d++) {
        desc.dim[d].size = t->shape[d];
        desc.order[d] = order[d];
    }
    RSH_TRY(rsh_layout_new(&desc, &layout));
    rsh_status st = rshi_ckpt_set_parts(c, tensor, layout, 1, &(rshi_ckpt_part){file, t->at});
    rsh_layout_free(layout);
    c->tensor[tensor].ranks_are_files = false; /* its only part belongs to no rank */
    return st;
}

/* Adds one box for each index of the walked dims. */
static rsh_status add_boxes(rsh_ckpt *c, int64_t tensor, const int64_t *offset, const rshi_saved_tensor *t,
                            const bool *walked, int32_t file) {
    int64_t index[RSH_MAX_NDIM] = {0}, lo[RSH_MAX_NDIM], size[RSH_MAX_NDIM];
    for (;;) {
        uint64_t at = t->at;
        for (int d = 0; d < t->ndim; d++) {
            lo[d] = offset[d] + index[d];
            size[d] = walked[d] ? 1 : t->shape[d];
            at += (uint64_t)(index[d] * t->strides[d]) * (uint64_t)rsh_dtype_bits(t->dtype) / 8;
        }
        RSH_TRY(rshi_ckpt_add_box(c, tensor, lo, size, file, at));
        int d = t->ndim;
        while (d && (!walked[d - 1] || ++index[d - 1] == t->shape[d - 1])) index[--d] = 0;
        if (!d) return RSH_OK;
    }
}

static bool is_empty(const rshi_saved_tensor *t) {
    for (int d = 0; d < t->ndim; d++)
        if (!t->shape[d]) return true;
    return false;
}

rsh_status rshi_ckpt_add_saved(rsh_ckpt *c, int64_t tensor, const int64_t *offset, const rshi_saved_tensor *t,
                               int32_t file) {
    bool walked[RSH_MAX_NDIM];
    int order[RSH_MAX_NDIM];
    const rshi_ckpt_tensor *whole = &c->tensor[tensor];
    if (is_empty(t)) return RSH_OK;
    int64_t boxes = find_walked(t, walked);
    if (boxes > 1 && !memcmp(whole->shape, t->shape, (size_t)t->ndim * sizeof *t->shape) && find_order(t, order))
        return set_ordered(c, tensor, t, order, file);
    RSH_REQUIRE(boxes <= BOXES_MOST, RSH_EUNSUP,
                "%.150s: tensor \"%.200s\" is stored with strides that need more than %d separate runs; save it with "
                ".contiguous()",
                c->file[file].name, whole->name, BOXES_MOST);
    return add_boxes(c, tensor, offset, t, walked, file);
}
