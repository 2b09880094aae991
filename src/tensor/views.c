/* Views: narrows a tensor to a box, and swaps two of its dims. */
#include <reshard/tensor.h>

#include <string.h>

#include "base/base.h"

rsh_status rsh_tensor_narrow(const rsh_tensor *t, const int64_t *offsets, const int64_t *sizes, rsh_tensor **out) {
    RSH_REQUIRE(t && out, RSH_EVALUE, "rsh_tensor_narrow: %s", t ? "out is NULL" : "tensor is NULL");
    int ndim = rsh_tensor_ndim(t);
    const int64_t *shape = rsh_tensor_shape(t), *strides = rsh_tensor_strides(t);
    RSH_REQUIRE(!ndim || (offsets && sizes), RSH_EVALUE, "box of a %d-D tensor: %s is NULL", ndim,
                offsets ? "sizes" : "offsets");
    int64_t at = 0;
    bool empty = false;
    for (int d = 0; d < ndim; d++) {
        bool whole = sizes[d] == shape[d];
        bool inside =
            whole || (sizes[d] >= 0 && sizes[d] <= shape[d] && offsets[d] >= 0 && offsets[d] <= shape[d] - sizes[d]);
        RSH_REQUIRE(inside, RSH_EINDEX, "cannot take %lld elements starting at %lld of dim %d, which has size %lld",
                    (long long)sizes[d],
                    (long long)offsets[d], d, (long long)shape[d]);
        if (!whole && sizes[d]) at += offsets[d] * strides[d]; /* an empty box has no element to point to */
        empty |= !sizes[d];
    }
    return rsh_tensor_view(t, empty ? 0 : at, ndim, sizes, strides, out);
}

static bool find_dim(int ndim, int *d) {
    if (*d < 0) *d += ndim;
    return *d >= 0 && *d < ndim;
}

rsh_status rsh_tensor_transpose(const rsh_tensor *t, int a, int b, rsh_tensor **out) {
    RSH_REQUIRE(t && out, RSH_EVALUE, "rsh_tensor_transpose: %s",
                t ? "out is NULL" : "tensor is NULL");
    int ndim = rsh_tensor_ndim(t), x = a, y = b;
    RSH_REQUIRE(find_dim(ndim, &x) && find_dim(ndim, &y), RSH_EINDEX,
                "dims %d and %d are out of range for a tensor of %d dims", a, b,
                ndim);
    int64_t shape[RSH_MAX_NDIM], strides[RSH_MAX_NDIM];
    memcpy(shape, rsh_tensor_shape(t), (size_t)ndim * sizeof *shape);
    memcpy(strides, rsh_tensor_strides(t), (size_t)ndim * sizeof *strides);
    int64_t size = shape[x], stride = strides[x];
    shape[x] = shape[y], strides[x] = strides[y];
    shape[y] = size, strides[y] = stride;
    return rsh_tensor_view(t, 0, ndim, shape, strides, out);
}
