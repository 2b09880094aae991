/* Gradients of every op compared with finite differences in f64, on random sizes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <reshard/nn.h>

#include "../tensor/element_at.h"
#include "seed.h"
#include "op_trials.h"

enum { PROBES = 12 };

/* ---- the comparison ---- */

static rsh_value *make(trial *t, int k) {
    rsh_value *v = NULL;
    rsh_tensor *x = trial_tensor(t, k);
    if (x) assert_int_equal(rsh_value_adopt_tensor(x, trial_differentiable(t, k), &v), RSH_OK);
    return v;
}

static double weight(int j, int64_t i) { return sin(1.7 * (double)(i + 1) + 0.9 * j) + 0.2; }

/* Returns a weighted sum of the outputs. */
static double loss(const trial *t, op_fn *fn, rsh_value *const *in) {
    rsh_value *out[TRIAL_OUTPUTS] = {NULL};
    double total = 0;
    bool was = rsh_grad_enable(false);
    assert_int_equal(fn(t, in, out), RSH_OK);
    rsh_grad_enable(was);
    for (int j = 0; j < t->nout; j++) {
        const rsh_tensor *y = rsh_value_tensor(out[j]);
        for (int64_t i = 0; i < rsh_tensor_count(y); i++) total += at(y, i) * weight(j, i);
        rsh_value_free(out[j]);
    }
    return total;
}

static void go_back(const char *name, trial *t, op_fn *fn, rsh_value *const *in) {
    rsh_value *out[TRIAL_OUTPUTS] = {NULL}, *seed[TRIAL_OUTPUTS] = {NULL};
    if (fn(t, in, out)) fail_msg("%s: %s", name, rsh_error_detail());
    for (int j = 0; j < t->nout; j++) {
        rsh_tensor *w = NULL;
        assert_int_equal(rsh_tensor_empty(RSH_F64, rsh_value_ndim(out[j]), rsh_value_shape(out[j]), &w), RSH_OK);
        for (int64_t i = 0; i < rsh_tensor_count(w); i++) ((double *)rsh_tensor_data(w))[i] = weight(j, i);
        assert_int_equal(rsh_value_adopt_tensor(w, false, &seed[j]), RSH_OK);
    }
    if (rsh_backward_many(t->nout, out, seed, 0)) fail_msg("%s: backward: %s", name, rsh_error_detail());
    for (int j = 0; j < t->nout; j++) rsh_value_free(out[j]), rsh_value_free(seed[j]);
}

static void probe(const char *name, trial *t, op_fn *fn, rsh_value *const *in, int k, int64_t i) {
    double *x = (double *)rsh_tensor_data(rsh_value_tensor(in[k])) + i, before = *x, h = 1e-5;
    *x = before + h;
    double up = loss(t, fn, in);
    *x = before - h;
    double down = loss(t, fn, in);
    *x = before;
    double slope = (up - down) / (2 * h), found = at(rsh_value_tensor(rsh_value_grad(in[k])), i);
    if (fabs(slope - found) > 2e-7 * (1 + fabs(slope)))
        fail_msg("%s: input %d of %d dims, element %lld: the gradient is %.12g, differences say %.12g", name, k,
                 t->ndim[k], (long long)i, found, slope);
}

static void check(const char *name, trial *t, op_fn *fn) {
    rsh_value *in[TRIAL_INPUTS] = {NULL};
    for (int k = 0; k < t->nin; k++) in[k] = make(t, k);
    go_back(name, t, fn, in);
    for (int k = 0; k < t->nin; k++) {
        if (!rsh_value_requires_grad(in[k])) continue;
        int64_t count = rsh_tensor_count(rsh_value_tensor(in[k]));
        for (int i = 0; i < PROBES && i < count; i++)
            probe(name, t, fn, in, k, (int64_t)(trial_draw(t) % (uint64_t)count));
    }
    for (int k = 0; k < t->nin; k++) rsh_value_free(in[k]);
}

static void gradients_are_finite_differences(void **state) {
    (void)state;
    const char *number = getenv("RESHARD_CASES");
    uint64_t seed = seed_or(11);
    int cases = number ? atoi(number) / 10 + 1 : 30;
    print_message("RESHARD_SEED=%llu\n", (unsigned long long)seed);
    for (int i = 0; i < trial_ops_count; i++)
        for (int n = 0; n < cases; n++) {
            trial t = {.random = seed * 1000003 + (uint64_t)i * 101 + (uint64_t)n * 7919, .nout = 1};
            trial_ops[i].set(&t);
            check(trial_ops[i].name, &t, trial_ops[i].fn);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(gradients_are_finite_differences)};
    return cmocka_run_group_tests_name("gradients of ops", tests, NULL, NULL);
}
