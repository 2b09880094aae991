/* models: what tests of modules share: ranks with groups, values from numbers, comparisons. */
#ifndef RESHARD_TESTS_NN_MODELS_H
#define RESHARD_TESTS_NN_MODELS_H

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include <reshard.h>
#include <reshard/nn/layers.h>
#include <reshard/nn/optim.h>
#include <reshard/nn/random.h>
#include <reshard/nn/shard.h>
#include <reshard/nn/state.h>

/* Ranks are threads or processes, where cmocka's assertions cannot be used: rank functions say what
 * is wrong in the sentence of their status. */
static inline rsh_status wrong(const char *file, int line, const char *what) {
    char sentence[900];
    snprintf(sentence, sizeof sentence, "%s:%d: %s  [%.300s]", file, line, what,
             rsh_error_detail());
    return rsh_fail(RSH_ERUNTIME, sentence);
}
#define CHECK(condition)                                               \
    do {                                                               \
        if (!(condition)) return wrong(__FILE__, __LINE__, #condition); \
    } while (0)
#define CHECK_STATUS(expected, call)                                                           \
    do {                                                                                       \
        rsh_status got_ = (call);                                                              \
        char what_[400];                                                                       \
        snprintf(what_, sizeof what_, "%.300s is %s", #call, rsh_status_name(got_));           \
        if (got_ != (expected)) return wrong(__FILE__, __LINE__, what_);                       \
    } while (0)
#define TRY(call)                    \
    do {                             \
        rsh_status st_ = (call);     \
        if (st_) return st_;         \
    } while (0)

/* A rank function that has a default group, and its context. */
typedef struct body {
    rsh_status (*fn)(void *ctx);
    void *ctx;
} body;

static inline rsh_status with_default_group(void *ctx, rsh_comm *c) {
    const body *b = ctx;
    TRY(rsh_group_init(c));
    rsh_status st = b->fn(b->ctx);
    rsh_status left = st ? RSH_OK : rsh_group_destroy();
    return st ? st : left;
}

/* On n ranks, as threads and as processes. */
static inline void run_groups(int n, rsh_status (*fn)(void *ctx), void *ctx) {
    body b = {fn, ctx};
    rsh_status st = rsh_run(n, with_default_group, &b);
    if (st) fail_msg("%d threads: %s: %s", n, rsh_status_name(st), rsh_error_detail());
    st = rsh_run_shm(n, with_default_group, &b);
    if (st) fail_msg("%d processes: %s: %s", n, rsh_status_name(st), rsh_error_detail());
}

/* A value of this shape whose element i is fn of seed and i: the same on every rank that asks for
 * it. */
static inline rsh_status make_value(rsh_dtype dtype, int ndim, const int64_t *shape, uint64_t seed,
                                    bool requires_grad, rsh_value **out) {
    rsh_tensor *t = NULL;
    TRY(rsh_tensor_empty(dtype, ndim, shape, &t));
    TRY(rsh_math_normal(t, &(rsh_random){.seed = seed}));
    return rsh_value_take(t, requires_grad, out);
}

static inline rsh_status make_indices(int64_t n, const int64_t *numbers, rsh_value **out) {
    rsh_tensor *t = NULL;
    TRY(rsh_tensor_empty(RSH_I64, 1, &n, &t));
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
    return rsh_tensor_dtype(t) == RSH_F32 ? ((const float *)data)[where]
                                          : ((const double *)data)[where];
}

/* Largest difference relative to the largest element; infinite if shapes differ. */
static inline double difference(const rsh_tensor *a, const rsh_tensor *b) {
    if (rsh_tensor_count(a) != rsh_tensor_count(b) || rsh_tensor_ndim(a) != rsh_tensor_ndim(b))
        return INFINITY;
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
    TRY(rsh_tensor_empty(rsh_value_dtype(v), rsh_value_ndim(v), rsh_value_shape(v), out));
    if (!rsh_value_sharded(v)) return rsh_math_copy(rsh_value_tensor(v), *out);
    rsh_comm *c = rsh_value_comm(v);
    for (int r = 0; r < rsh_comm_size(c); r++) {
        rsh_memory memory = {rsh_tensor_data(*out), NULL};
        TRY(rsh_gather(rsh_value_sharded(v), r, &memory));
    }
    return RSH_OK;
}

#define CHECK_CLOSE(a, b, tolerance)                                                               \
    do {                                                                                           \
        double off_ = difference((a), (b));                                                        \
        char what_[200];                                                                           \
        snprintf(what_, sizeof what_, "%s differs from %s by %g", #a, #b, off_);                   \
        if (!(off_ <= (tolerance))) return wrong(__FILE__, __LINE__, what_);                       \
    } while (0)

#endif
