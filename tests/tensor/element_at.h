/* element_at: one element of an f32 or f64 tensor by its row-major index, whatever the strides. */
#ifndef RESHARD_TESTS_TENSOR_ELEMENT_AT_H
#define RESHARD_TESTS_TENSOR_ELEMENT_AT_H

#include <reshard/tensor.h>

static inline double at(const rsh_tensor *t, int64_t i) {
    int64_t where = 0;
    for (int d = rsh_tensor_ndim(t) - 1; d >= 0; d--) {
        where += i % rsh_tensor_shape(t)[d] * rsh_tensor_strides(t)[d];
        i /= rsh_tensor_shape(t)[d];
    }
    const void *data = rsh_tensor_data(t);
    return rsh_tensor_dtype(t) == RSH_F32 ? ((const float *)data)[where]
                                          : ((const double *)data)[where];
}

#endif
