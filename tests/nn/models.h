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

#include "../group/default_group.h"
#include "../prop/engine.h"
#include "../tensor/element_at.h"

/* cmocka's assertions cannot be used in ranks, which are threads or processes; rank functions
 * return an error with a message instead. */
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

/* A function to run on the first n ranks of a job. */
typedef struct share {
    int n;
    rsh_rank_fn fn;
    void *ctx;
} share;
static inline rsh_status on_first_ranks(void *ctx, rsh_comm *job) {
    const share *s = ctx;
    rsh_comm *first = NULL;
    TRY(rsh_comm_split(job, rsh_comm_rank(job) < s->n ? 0 : -1, rsh_comm_rank(job), &first));
    rsh_status st = first ? s->fn(s->ctx, first) : RSH_OK;
    rsh_comm_free(first);
    return st;
}

static inline void must_run(const char *engine, int n, rsh_status st) {
    if (st) fail_msg("%d %s: %s: %s", n, engine, rsh_status_name(st), rsh_error_detail());
}

/* Runs fn on n ranks with a default group: as threads and as processes or, in a job
 * (../prop/engine.h), on its first n ranks.  A job with fewer ranks skips it. */
static inline void run_groups(int n, rsh_status (*fn)(void *ctx), void *ctx) {
    body b = {fn, ctx};
    share s = {n, with_default_group, &b};
    if (engine_is_job()) {
        if (engine_ranks(n) == n) must_run("ranks of a job", n, engine_run(n, on_first_ranks, &s));
        return;
    }
    must_run("threads", n, rsh_run(n, with_default_group, &b));
    must_run("processes", n, rsh_run_shm(n, with_default_group, &b));
}

/* Creates a value whose element i depends only on `seed` and i, so that it is equal on all
 * ranks. */
static inline rsh_status make_value(rsh_dtype dtype, int ndim, const int64_t *shape, uint64_t seed,
                                    bool requires_grad, rsh_value **out) {
    rsh_tensor *t = NULL;
    TRY(rsh_tensor_empty(dtype, ndim, shape, &t));
    TRY(rsh_math_normal(t, &(rsh_random){.seed = seed}));
    return rsh_value_adopt_tensor(t, requires_grad, out);
}

static inline rsh_status make_indices(int64_t n, const int64_t *numbers, rsh_value **out) {
    rsh_tensor *t = NULL;
    TRY(rsh_tensor_empty(RSH_I64, 1, &n, &t));
    memcpy(rsh_tensor_data(t), numbers, (size_t)n * sizeof *numbers);
    return rsh_value_adopt_tensor(t, false, out);
}

/* Returns the largest difference relative to the largest element; infinity if shapes differ. */
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

/* Gathers a distributed value on every rank. */
static inline rsh_status whole_of(const rsh_value *v, rsh_tensor **out) {
    TRY(rsh_tensor_empty(rsh_value_dtype(v), rsh_value_ndim(v), rsh_value_shape(v), out));
    if (!rsh_value_sharded(v)) return rsh_math_copy(rsh_value_tensor(v), *out);
    rsh_comm *c = rsh_value_comm(v);
    for (int r = 0; r < rsh_comm_size(c); r++) {
        rsh_memory memory = {rsh_tensor_data(*out), NULL};
        TRY(rsh_sharded_gather(rsh_value_sharded(v), r, &memory));
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

/* ---- models and their steps ---- */

static inline rsh_status sequence(int n, rsh_module **part, rsh_module **out) {
    TRY(rsh_sequential_new(n, part, out));
    for (int i = 0; i < n; i++) rsh_module_free(part[i]);
    return RSH_OK;
}

/* Creates a transformer block: attention with two heads, dropout and an MLP. */
static inline rsh_status small_block(int64_t width, int64_t hidden, rsh_module **out) {
    rsh_attention_opts opts = {
        sizeof opts, .width = width, .heads = 2, .bias = true, .causal = true, .dropout = 0.1};
    return rsh_transformer_block_new(&opts, hidden, RSH_F32, out);
}

static inline rsh_status squared_loss(rsh_value *y, rsh_value **out) {
    rsh_value *squares = NULL;
    TRY(rsh_nn_mul(y, y, &squares));
    rsh_status st = rsh_nn_sum(squares, 0, NULL, false, out);
    rsh_value_free(squares);
    return st;
}

static inline rsh_status forward_loss(rsh_module *m, rsh_value *x, rsh_value **loss) {
    rsh_value *y = NULL;
    TRY(rsh_module_forward(m, x, &y));
    rsh_status st = squared_loss(y, loss);
    rsh_value_free(y);
    return st;
}

/* Runs forward and backward with the same random numbers in every call, and checks that backward
 * draws none. */
static inline rsh_status forward_backward(rsh_module *m, rsh_value *x) {
    rsh_value *loss = NULL;
    rsh_random_seed(11);
    TRY(forward_loss(m, x, &loss));
    rsh_random_state after = rsh_random_get_state();
    CHECK(rsh_saved_hooks_depth() == 0);
    TRY(rsh_backward(loss, NULL, 0));
    CHECK(rsh_random_get_state().seed == after.seed && rsh_random_get_state().call == after.call);
    CHECK(rsh_saved_hooks_depth() == 0);
    rsh_value_free(loss);
    return RSH_OK;
}

static inline rsh_status same_bits(const rsh_value *a, const rsh_value *b) {
    bool same = false;
    CHECK(a && b && rsh_value_nparts(a) == rsh_value_nparts(b));
    for (int64_t i = 0; i < rsh_value_nparts(a); i++) {
        TRY(rsh_math_equal(rsh_value_part(a, i), rsh_value_part(b, i), &same));
        CHECK(same);
    }
    return RSH_OK;
}

typedef struct value_list {
    rsh_value *at[64];
    int n;
} value_list;
static inline rsh_status list_value(void *ctx, const char *path, rsh_module *owner,
                                    const char *name, rsh_value *v) {
    value_list *l = ctx;
    (void)path, (void)owner, (void)name;
    CHECK(l->n < 64);
    l->at[l->n++] = v;
    return RSH_OK;
}

/* Checks that the parameters and their gradients have the same bits. */
static inline rsh_status same_models(rsh_module *a, rsh_module *b) {
    value_list la = {.n = 0}, lb = {.n = 0};
    TRY(rsh_module_each_parameter(a, false, list_value, &la));
    TRY(rsh_module_each_parameter(b, false, list_value, &lb));
    CHECK(la.n && la.n == lb.n);
    for (int i = 0; i < la.n; i++) {
        TRY(same_bits(rsh_value_grad(la.at[i]), rsh_value_grad(lb.at[i])));
        TRY(same_bits(la.at[i], lb.at[i]));
    }
    return RSH_OK;
}

#endif
