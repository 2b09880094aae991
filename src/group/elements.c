/* Elements: checks whether tensors with any strides share memory. */
#include "group/impl.h"
#include "shard/shard.h"
#include "tensor/tensor.h"

static rshi_lattice lattice_of(const rsh_tensor *t) {
    return rshi_lattice_of(rsh_tensor_data(t), (int64_t)rsh_dtype_size(rsh_tensor_dtype(t)), rsh_tensor_ndim(t),
                           rsh_tensor_shape(t), rsh_tensor_strides(t));
}

rsh_status rshi_elements_check_written(const char *name, const rsh_tensor *t) {
    int64_t steps = RSHI_LATTICE_STEPS;
    rshi_lattice lattice = lattice_of(t);
    rshi_sharing sharing = rshi_lattice_folds(&lattice, &steps);
    if (sharing == RSHI_APART) return RSH_OK;
    return rshi_fail(RSH_EVALUE, "%s: output %s", name,
                     sharing == RSHI_SHARED ? "has overlapping strides: two elements share memory"
                                            : "has strides that are too complex to rule out an overlap; use a "
                                              "contiguous tensor");
}

static rshi_lattice lattice_in(const void *ctx, int64_t i) { return lattice_of(((const rshi_touched *)ctx)[i].tensor); }

rsh_status rshi_elements_meet(const rshi_touched *list, int64_t n, bool *out) {
    rshi_extent at[2], *extents = rshi_alloc((size_t)n, sizeof *extents);
    if (!extents) return rshi_nomem();
    for (int64_t i = 0; i < n; i++) {
        rshi_span s = rshi_tensor_span(list[i].tensor);
        extents[i] = (rshi_extent){s.start, s.end, list[i].written, i};
    }
    *out = rshi_extents_meet(extents, n, &(rshi_extent_owner){lattice_in, list}, at) != RSHI_APART;
    rshi_free(extents);
    return RSH_OK;
}
