/* Elements: tensors of any strides as memory: copying them, and whether they share any. */
#include "copy/copy.h"
#include "group/impl.h"
#include "tensor/tensor.h"

void rshi_elements_copy(const rsh_tensor *from, const rsh_tensor *to) {
    rsh_dtype dtype = rsh_tensor_dtype(to);
    int64_t size = (int64_t)rsh_dtype_size(dtype), ss[RSHI_MOVE_DIMS];
    rshi_move m = {.nd = rsh_tensor_ndim(to), .nsrc = 1, .ss = ss, .from = dtype, .to = dtype};
    if (!rsh_tensor_count(to)) return;
    for (int d = 0; d < m.nd; d++) {
        m.n[d] = rsh_tensor_shape(to)[d];
        m.ds[d] = rsh_tensor_strides(to)[d] * size;
        ss[d] = rsh_tensor_strides(from)[d] * size;
    }
    rshi_move_prepare(&m, (size_t)(rsh_tensor_count(to) * size));
    const char *src = rsh_tensor_data(from);
    rshi_move_run(&m, 0, 0, m.nd ? m.n[0] : 1, rsh_tensor_data(to), &src);
    rshi_copy_fence();
}

rshi_extent rshi_tensor_extent(const rsh_tensor *t, bool dst) {
    rshi_span s = rshi_tensor_span(t);
    return (rshi_extent){s.start, s.end, dst};
}

bool rshi_extents_meet(rshi_extent *list, int64_t n) { return rshi_extents_check(list, n) != RSH_OK; }
