/* Numbers: creates and reads values in tests of nn. */
#include "nn/numbers.h"

#include <stdlib.h>

static rsh_value *taken(rsh_tensor *t, bool requires_grad) {
    rsh_value *v = NULL;
    if (rsh_value_adopt_tensor(t, requires_grad, &v)) abort();
    return v;
}

static rsh_tensor *empty(rsh_dtype dtype, int ndim, const int64_t *shape) {
    rsh_tensor *t = NULL;
    if (rsh_tensor_empty(dtype, ndim, shape, &t)) abort();
    return t;
}

static void put(const rsh_tensor *t, int64_t i, double x) {
    if (rsh_tensor_dtype(t) == RSH_F32)
        ((float *)rsh_tensor_data(t))[i] = (float)x;
    else
        ((double *)rsh_tensor_data(t))[i] = x;
}

rsh_value *some_value(rsh_dtype dtype, int salt, bool requires_grad, int ndim, const int64_t *shape) {
    rsh_tensor *t = empty(dtype, ndim, shape);
    for (int64_t i = 0; i < rsh_tensor_count(t); i++)
        put(t, i, (double)((i * 7919 + salt * 104729) % 3001) / 1000 - 1.5);
    return taken(t, requires_grad);
}

rsh_value *number_value(rsh_dtype dtype, double x) {
    rsh_tensor *t = empty(dtype, 0, NULL);
    put(t, 0, x);
    return taken(t, false);
}

rsh_value *some_indices(int64_t below, int ndim, const int64_t *shape) {
    rsh_tensor *t = empty(RSH_I64, ndim, shape);
    for (int64_t i = 0; i < rsh_tensor_count(t); i++) ((int64_t *)rsh_tensor_data(t))[i] = (i * 2 + 1) % below;
    return taken(t, false);
}

rsh_value *some_mask(int ndim, const int64_t *shape) {
    rsh_tensor *t = empty(RSH_BOOL, ndim, shape);
    for (int64_t i = 0; i < rsh_tensor_count(t); i++) ((bool *)rsh_tensor_data(t))[i] = i % 3 == 0;
    return taken(t, false);
}

double tensor_element(const rsh_tensor *t, int64_t i) {
    int64_t at = 0;
    for (int d = rsh_tensor_ndim(t) - 1; d >= 0; i /= rsh_tensor_shape(t)[d], d--)
        at += i % rsh_tensor_shape(t)[d] * rsh_tensor_strides(t)[d];
    switch (rsh_tensor_dtype(t)) {
    case RSH_F32: return (double)((const float *)rsh_tensor_data(t))[at];
    case RSH_I64: return (double)((const int64_t *)rsh_tensor_data(t))[at];
    default: return ((const double *)rsh_tensor_data(t))[at];
    }
}

double element_of(const rsh_value *v, int64_t i) { return tensor_element(rsh_value_tensor(v), i); }
int64_t count_of(const rsh_value *v) { return rsh_tensor_count(rsh_value_tensor(v)); }
