/* models: what tests of modules share: values from numbers, modules of the test's own, whole models on one rank to compare
 * with. */
#ifndef RESHARD_TESTS_NN_MODELS_H
#define RESHARD_TESTS_NN_MODELS_H

#include <math.h>

#include "../group/groups.h"

#include <reshard/nn/layers.h>
#include <reshard/nn/optim.h>
#include <reshard/nn/random.h>
#include <reshard/nn/shard.h>
#include <reshard/nn/state.h>

/* A value of this shape whose element i is fn of seed and i: the same on every rank that asks for it. */
static inline rsh_status make_value(rsh_dtype dtype, int ndim, const int64_t *shape, uint64_t seed, bool requires_grad,
                                    rsh_value **out) {
    rsh_tensor *t = NULL;
    RSH_TRY(rsh_tensor_empty(dtype, ndim, shape, &t));
    RSH_TRY(rsh_math_normal(t, &(rsh_random){.seed = seed}));
    return rsh_value_take(t, requires_grad, out);
}

static inline rsh_status make_indices(int64_t n, const int64_t *numbers, rsh_value **out) {
    rsh_tensor *t = NULL;
    RSH_TRY(rsh_tensor_empty(RSH_I64, 1, &n, &t));
    memcpy(rsh_tensor_data(t), numbers, (size_t)n * sizeof *numbers);
    return rsh_value_take(t, false, out);
}

static inline double at(const rsh_tensor *t, int64_t i) {
    int64_t where = 0;
    for (int d = rsh_tensor_ndim(t) - 1; d >= 0; d--) {
        where += i % rsh_tensor_shape(t)[d] * rsh_tensor_strides(t)[d];
        i /= rsh_tensor_shape(t)[d];
    }
    const void *data = rsh_tensor_data(t);
    return rsh_tensor_dtype(t) == RSH_F32 ? ((const float *)data)[where] : ((const double *)data)[where];
}

/* Largest difference relative to the largest element; infinite if shapes differ. */
static inline double difference(const rsh_tensor *a, const rsh_tensor *b) {
    if (rsh_tensor_count(a) != rsh_tensor_count(b) || rsh_tensor_ndim(a) != rsh_tensor_ndim(b)) return INFINITY;
    double most = 0, scale = 1;
    for (int64_t i = 0; i < rsh_tensor_count(a); i++) {
        double d = fabs(at(a, i) - at(b, i));
        if (!(d <= most)) most = d;
        if (fabs(at(b, i)) > scale) scale = fabs(at(b, i));
    }
    return most / scale;
}

/* The whole of a distributed value, on every rank. */
static inline rsh_status whole_of(const rsh_value *v, rsh_tensor **out) {
    RSH_TRY(rsh_tensor_empty(rsh_value_dtype(v), rsh_value_ndim(v), rsh_value_shape(v), out));
    if (!rsh_value_sharded(v)) return rsh_math_copy(rsh_value_tensor(v), *out);
    rsh_comm *c = rsh_value_comm(v);
    for (int r = 0; r < rsh_comm_size(c); r++) {
        rsh_memory memory = {rsh_tensor_data(*out), NULL};
        RSH_TRY(rsh_gather(rsh_value_sharded(v), r, &memory));
    }
    return RSH_OK;
}

#define CHECK_CLOSE(a, b, tolerance)                                                                                   \
    do {                                                                                                               \
        double off_ = difference((a), (b));                                                                            \
        RSH_REQUIRE(off_ <= (tolerance), RSH_ERUNTIME, "%s:%d: %s differs from %s by %g", __FILE__, __LINE__, #a, #b,  \
                    off_);                                                                                             \
    } while (0)

#endif
