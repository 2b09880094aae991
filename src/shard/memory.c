/* Memory: checks the parts that a caller passes. */
#include "shard/memory.h"

#include <stdlib.h>

/* Does the distance between the first and the last byte fit into 64 bits? */
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

rsh_status rshi_part_take(const rsh_layout *l, int64_t rank, int64_t part, const rsh_memory *memory,
                          rshi_part_memory *out) {
    rsh_part shape;
    RSH_TRY(rsh_layout_part(l, rank, part, &shape));
    RSH_REQUIRE(!shape.count || (memory && memory->data), RSH_EVALUE,
                "rank %lld, part %lld of \"%.200s\" has %lld elements but its data is NULL", (long long)rank,
                (long long)part,
                rsh_layout_text(l), (long long)shape.count);
    *out = (rshi_part_memory){.data = memory ? memory->data : NULL};
    for (int d = 0; d < shape.ndim; d++)
        out->strides[d] = memory && memory->strides ? memory->strides[d] : shape.strides[d];
    RSH_REQUIRE(!shape.count || strides_fit(l, &shape, out->strides), RSH_EVALUE,
                "strides of rank %lld, part %lld of \"%.200s\" span more than 2^63 bytes", (long long)rank,
                (long long)part,
                rsh_layout_text(l));
    return RSH_OK;
}

rshi_lattice rshi_part_lattice(const rsh_layout *l, int64_t rank, int64_t part, const rshi_part_memory *p) {
    rsh_part shape;
    if (rsh_layout_part(l, rank, part, &shape) || !shape.count) return (rshi_lattice){0};
    return rshi_lattice_of(p->data, (int64_t)rsh_dtype_size(rsh_layout_dtype(l)), shape.ndim, shape.shape, p->strides);
}

/* Checks that a destination does not have two elements at one address. */
static rsh_status check_written(const rsh_layout *l, int64_t rank, int64_t part, const rshi_part_memory *p) {
    int64_t steps = RSHI_LATTICE_STEPS;
    rshi_lattice lattice = rshi_part_lattice(l, rank, part, p);
    rshi_sharing sharing = rshi_lattice_folds(&lattice, &steps);
    if (sharing == RSHI_APART) return RSH_OK;
    return rshi_fail(RSH_EVALUE, "destination of rank %lld, part %lld of \"%.200s\" %s", (long long)rank,
                     (long long)part, rsh_layout_text(l),
                     sharing == RSHI_SHARED ? "has overlapping strides: two elements share memory"
                                            : "has strides that are too complex to rule out an overlap; use contiguous "
                                              "memory");
}

rshi_extent rshi_part_extent(const rsh_layout *l, int64_t rank, int64_t part, const rshi_part_memory *p, bool dst) {
    rsh_part shape;
    int64_t size = (int64_t)rsh_dtype_size(rsh_layout_dtype(l)), lo = 0, hi = size;
    if (rsh_layout_part(l, rank, part, &shape) || !shape.count) return (rshi_extent){.dst = dst};
    for (int d = 0; d < shape.ndim; d++) {
        int64_t reach = (shape.shape[d] - 1) * p->strides[d] * size;
        *(reach < 0 ? &lo : &hi) += reach;
    }
    return (rshi_extent){(uintptr_t)p->data + (uintptr_t)lo, (uintptr_t)p->data + (uintptr_t)hi, dst, 0};
}

rsh_status rshi_taken_part_fill(rshi_taken_part *table, int64_t k, const rsh_memory *memory, bool dst,
                                rshi_extent *extent) {
    rshi_taken_part *p = &table[k];
    RSH_TRY(rshi_part_take(p->layout, p->rank, p->number, memory, &p->memory));
    if (dst && memory && memory->strides) RSH_TRY(check_written(p->layout, p->rank, p->number, &p->memory));
    extent[k] = rshi_part_extent(p->layout, p->rank, p->number, &p->memory, dst);
    extent[k].part = k;
    return RSH_OK;
}

rshi_lattice rshi_taken_part_lattice(const void *table, int64_t k) {
    const rshi_taken_part *p = &((const rshi_taken_part *)table)[k];
    return rshi_part_lattice(p->layout, p->rank, p->number, &p->memory);
}

/* ---- overlaps of parts ---- */

#define MOST_STEPS ((int64_t)1 << 22) /* limit for each list; takes about a second */

static int by_start(const void *a, const void *b) {
    const rshi_extent *x = a, *y = b;
    return (x->start > y->start) - (x->start < y->start);
}

/* Returns whether no extents overlap.  In a list sorted by start, an extent can only overlap earlier ones that end
 * after its start, so it is enough to keep the largest end of each kind. */
static bool extents_are_apart(const rshi_extent *list, int64_t n) {
    uintptr_t end[2] = {0, 0}; /* largest end of the sources, and of the destinations */
    for (int64_t i = 0; i < n; i++) {
        if (list[i].start == list[i].end) continue;
        if (list[i].start < end[1] || (list[i].dst && list[i].start < end[0])) return false;
        if (list[i].end > end[list[i].dst]) end[list[i].dst] = list[i].end;
    }
    return true;
}

static rshi_sharing pair_meets(const rshi_lattice *a, const rshi_extent *b, const rshi_extent_owner *owner,
                               int64_t *steps) {
    rshi_lattice other = owner->lattice(owner->ctx, b->part);
    int64_t given = rshi_min(--*steps, RSHI_LATTICE_STEPS), left = given;
    if (given < 0) return RSHI_UNDECIDED;
    rshi_sharing sharing = rshi_lattices_meet(a, &other, &left);
    *steps -= given - rshi_max(left, 0);
    return sharing;
}

/* Sweeps over sorted parts.  The front of the list is reused for the earlier parts that end after the start of the
 * current one. */
static rshi_sharing lattices_meet(rshi_extent *list, int64_t n, const rshi_extent_owner *owner, rshi_extent at[2]) {
    int64_t open = 0, steps = MOST_STEPS;
    for (int64_t i = 0; i < n; i++) {
        rshi_extent now = list[i];
        if (now.start == now.end) continue;
        rshi_lattice lattice = owner->lattice(owner->ctx, now.part);
        int64_t kept = 0;
        for (int64_t k = 0; k < open; k++) {
            if (list[k].end <= now.start) continue;
            rshi_sharing s = list[k].dst || now.dst ? pair_meets(&lattice, &list[k], owner, &steps) : RSHI_APART;
            if (s != RSHI_APART) return at[0] = list[k], at[1] = now, s;
            list[kept++] = list[k];
        }
        list[kept] = now;
        open = kept + 1;
    }
    return RSHI_APART;
}

bool rshi_extents_apart(rshi_extent *list, int64_t n) {
    if (n) qsort(list, (size_t)n, sizeof *list, by_start);
    return extents_are_apart(list, n);
}

rshi_sharing rshi_extents_meet(rshi_extent *list, int64_t n, const rshi_extent_owner *owner, rshi_extent at[2]) {
    return rshi_extents_apart(list, n) ? RSHI_APART : lattices_meet(list, n, owner, at);
}

rsh_status rshi_extents_check(rshi_extent *list, int64_t n, const rshi_extent_owner *owner) {
    rshi_extent at[2];
    rshi_sharing sharing = rshi_extents_meet(list, n, owner, at);
    if (sharing == RSHI_APART) return RSH_OK;
    const char *who = at[0].dst && at[1].dst ? "two destinations" : "a source and a destination";
    if (sharing == RSHI_SHARED)
        return rshi_fail(RSH_EVALUE, "%s share memory: one begins at %p, the other at %p", who, (void *)at[0].start,
                         (void *)at[1].start);
    return rshi_fail(RSH_EVALUE,
                     "%s interleave, at %p and at %p, and it is unknown whether they share "
                     "memory; keep them apart, or use contiguous memory",
                     who, (void *)at[0].start, (void *)at[1].start);
}
