/* Elements: tensors of any strides as memory: copying them, and whether they share any. */
#include <stdlib.h>

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

rshi_reach rshi_reach_of(const rsh_tensor *t, bool written) {
    rshi_span s = rshi_tensor_span(t);
    return (rshi_reach){s.start, s.end, written};
}

static int by_start(const void *a, const void *b) {
    const rshi_reach *x = a, *y = b;
    return (x->start > y->start) - (x->start < y->start);
}

/* Sorted by start, one meets an earlier one if that ends behind its start: the farthest end of each kind so far will
 * do. */
bool rshi_reaches_meet(rshi_reach *list, int64_t n) {
    uintptr_t read_end = 0, written_end = 0;
    if (n) qsort(list, (size_t)n, sizeof *list, by_start);
    for (int64_t i = 0; i < n; i++) {
        const rshi_reach *r = &list[i];
        if (r->start == r->end) continue;
        if (r->start < written_end || (r->written && r->start < read_end)) return true;
        uintptr_t *end = r->written ? &written_end : &read_end;
        if (r->end > *end) *end = r->end;
    }
    return false;
}
