/* Elements: where tensors of any strides lie, and whether they share memory. */
#include <stdlib.h>

#include "group/impl.h"
#include "tensor/tensor.h"

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
