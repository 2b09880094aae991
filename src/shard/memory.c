/* Memory: parts that a caller hands in. */
#include "shard/memory.h"

#include <stdlib.h>

/* Can the distance between the first and the last byte be counted? */
static bool strides_fit(const rsh_layout *l, const rsh_part *shape, const int64_t *strides) {
    int64_t size = (int64_t)rsh_dtype_size(rsh_layout_dtype(l)), total = size;
    for (int d = 0; d < shape->ndim; d++) {
        int64_t reach;
        if (strides[d] == INT64_MIN ||
            !rshi_mul(shape->shape[d] - 1, strides[d] < 0 ? -strides[d] : strides[d], &reach))
            return false;
        if (!rshi_mul(reach, size, &reach) || !rshi_add(total, reach, &total)) return false;
    }
    return true;
}

rsh_status rshi_part_take(const rsh_layout *l, int64_t rank, int64_t part, const rsh_memory *memory, rshi_part *out) {
    rsh_part shape;
    RSH_TRY(rsh_layout_part(l, rank, part, &shape));
    RSH_REQUIRE(!shape.count || (memory && memory->data), RSH_EVALUE,
                "rank %lld, part %lld of %.200s has %lld elements and no memory", (long long)rank, (long long)part,
                rsh_layout_text(l), (long long)shape.count);
    *out = (rshi_part){.data = memory ? memory->data : NULL};
    for (int d = 0; d < shape.ndim; d++)
        out->strides[d] = memory && memory->strides ? memory->strides[d] : shape.strides[d];
    RSH_REQUIRE(!shape.count || strides_fit(l, &shape, out->strides), RSH_EVALUE,
                "the strides of rank %lld, part %lld of %.200s reach beyond 64 bits", (long long)rank, (long long)part,
                rsh_layout_text(l));
    return RSH_OK;
}

rshi_extent rshi_part_extent(const rsh_layout *l, int64_t rank, int64_t part, const rshi_part *p, bool dst) {
    rsh_part shape;
    int64_t size = (int64_t)rsh_dtype_size(rsh_layout_dtype(l)), lo = 0, hi = size;
    if (rsh_layout_part(l, rank, part, &shape) || !shape.count) return (rshi_extent){0, 0, dst};
    for (int d = 0; d < shape.ndim; d++) {
        int64_t reach = (shape.shape[d] - 1) * p->strides[d] * size;
        *(reach < 0 ? &lo : &hi) += reach;
    }
    return (rshi_extent){(uintptr_t)p->data + (uintptr_t)lo, (uintptr_t)p->data + (uintptr_t)hi, dst};
}

static int by_start(const void *a, const void *b) {
    const rshi_extent *x = a, *y = b;
    return (x->start > y->start) - (x->start < y->start);
}

/* Sorted by start, an extent can only meet ones that reach past its start: keep the farthest end of each kind so far.
 */
rsh_status rshi_extents_check(rshi_extent *list, int64_t n) {
    uintptr_t end[2] = {0, 0}; /* of sources, of destinations */
    if (n) qsort(list, (size_t)n, sizeof *list, by_start);
    for (int64_t i = 0; i < n; i++) {
        if (list[i].start == list[i].end) continue;
        RSH_REQUIRE(list[i].start >= end[1] && (!list[i].dst || list[i].start >= end[0]), RSH_EVALUE,
                    "source and destination share memory at %p, or two destinations do", (void *)list[i].start);
        if (list[i].end > end[list[i].dst]) end[list[i].dst] = list[i].end;
    }
    return RSH_OK;
}
