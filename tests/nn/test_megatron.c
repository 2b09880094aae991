/* Megatron: a Linear cut by columns followed by one cut by rows, compared with the same pair on one rank. */
#include "two_layers.h"

/* ---- the Megatron pair ---- */

typedef struct megatron {
    int64_t in, hidden, out, rows;
    int order; /* order of the owners: identity, rotated by two, rotated by one */
    rsh_dtype dtype;
    bool nested; /* in a child "megatron" of a module, followed by a relu (L7) */
} megatron;

static rsh_status shard_pair(const megatron *t, rsh_module *m, const char *prefix) {
    int n = rsh_group_size(NULL), ranks[8];
    rsh_spec *rows = NULL, *columns = NULL, *home = NULL;
    rsh_sharding_plan *p = NULL;
    char path[64];
    for (int i = 0; i < n; i++) ranks[i] = (i + (t->order == 1 ? 2 : t->order == 2 ? n - 1 : 0)) % n;
    TRY(chunks(0, n, ranks, &rows));
    TRY(chunks(1, n, ranks, &columns));
    TRY(chunks(0, n, NULL, &home));
    TRY(rsh_sharding_plan_new(&p));
    snprintf(path, sizeof path, "%sfc1.weight", prefix);
    TRY(rsh_sharding_plan_add(p, path, rows, NULL));
    snprintf(path, sizeof path, "%sfc2.weight", prefix);
    TRY(rsh_sharding_plan_add(p, path, columns, NULL));
    const char *root = *prefix ? "0" : "";
    TRY(rsh_sharding_plan_reshard_output(p, root, home));
    TRY(rsh_sharding_plan_return_local(p, root));
    rsh_status st = rsh_shard_module(m, p, 0, NULL);
    rsh_sharding_plan_free(p);
    rsh_spec_free(rows), rsh_spec_free(columns), rsh_spec_free(home);
    return st;
}

static rsh_status make_model(const megatron *t, rsh_module **out) {
    rsh_module *pair = NULL, *relu = NULL;
    TRY(make_mlp((const int64_t[]){t->in, t->hidden, t->out}, t->dtype, &pair));
    if (!t->nested) return *out = pair, RSH_OK;
    TRY(rsh_relu_new(&relu));
    rsh_status st = rsh_sequential_new(2, (rsh_module *[]){pair, relu}, out);
    rsh_module_free(pair);
    rsh_module_free(relu);
    return st;
}

static rsh_status compare_parameters(rsh_module *cut, rsh_module *whole, const char *prefix, double tolerance,
                                     bool grads) {
    static const char *const names[] = {"fc1.weight", "fc1.bias", "fc2.weight", "fc2.bias"};
    for (int i = 0; i < 4; i++) {
        rsh_value *a = NULL, *b = NULL;
        rsh_tensor *got = NULL;
        char path[64];
        snprintf(path, sizeof path, "%s%s", prefix, names[i]);
        TRY(parameter(cut, path, &a));
        TRY(parameter(whole, path, &b));
        if (grads) CHECK(rsh_value_grad(a) && rsh_value_grad(b));
        TRY(whole_of(grads ? rsh_value_grad(a) : a, &got));
        CHECK_CLOSE(got, rsh_value_tensor(grads ? rsh_value_grad(b) : b), tolerance);
        rsh_tensor_free(got);
    }
    return RSH_OK;
}

static rsh_status megatron_trial(void *ctx) {
    const megatron *t = ctx;
    const char *prefix = t->nested ? "0." : "";
    int n = rsh_group_size(NULL), me = rsh_group_rank(NULL);
    double tolerance = t->dtype == RSH_F64 ? 1e-12 : 1e-5;
    rsh_module *cut = NULL, *whole = NULL;
    rsh_optimizer *cut_sgd = NULL, *whole_sgd = NULL;
    TRY(make_model(t, &cut));
    TRY(make_model(t, &whole));
    TRY(shard_pair(t, cut, prefix));
    rsh_sgd_opts opts = {sizeof opts, .lr = 0.01, .momentum = 0.9};
    TRY(rsh_sgd_new(cut, &opts, &cut_sgd));
    TRY(rsh_sgd_new(whole, &opts, &whole_sgd));
    rsh_value *all = NULL, *mine = NULL, *y = NULL, *expected = NULL, *loss = NULL;
    TRY(make_value(t->dtype, 2, (const int64_t[]){t->rows * n, t->in}, 8, false, &all));
    TRY(rsh_nn_narrow(all, 0, t->rows * me, t->rows, &mine));
    for (int step = 0; step < 2; step++) {
        rsh_value *part = NULL;
        TRY(rsh_module_forward(whole, all, &expected));
        TRY(rsh_module_forward(cut, mine, &y));
        CHECK(!rsh_value_sharded(y));
        TRY(rsh_nn_narrow(expected, 0, t->rows * me, t->rows, &part));
        CHECK_CLOSE(rsh_value_tensor(y), rsh_value_tensor(part), tolerance);
        TRY(squared_loss(y, &loss));
        TRY(rsh_backward(loss, NULL, 0));
        rsh_value_free(loss);
        TRY(squared_loss(expected, &loss));
        TRY(rsh_backward(loss, NULL, 0));
        TRY(compare_parameters(cut, whole, prefix, tolerance * 10, true));
        TRY(rsh_optimizer_step(cut_sgd));
        TRY(rsh_optimizer_step(whole_sgd));
        TRY(compare_parameters(cut, whole, prefix, tolerance * 10, false));
        TRY(rsh_optimizer_zero_grad(cut_sgd));
        TRY(rsh_optimizer_zero_grad(whole_sgd));
        rsh_value_free(part), rsh_value_free(y), rsh_value_free(expected), rsh_value_free(loss);
    }
    rsh_value_free(all), rsh_value_free(mine);
    rsh_optimizer_free(cut_sgd), rsh_optimizer_free(whole_sgd);
    rsh_module_free(cut), rsh_module_free(whole);
    return RSH_OK;
}
static void test_megatron_two_layer_prototype(void **state) { /* L6 and L7 */
    (void)state;
    static const int64_t sizes[4][3] = {{17, 12, 29}, {17, 14, 29}, {18, 16, 8}, {5, 3, 2}};
    for (int n = 1; n <= 4; n++)
        for (int i = 0; i < 4; i++)
            for (int order = 0; order < 3; order++) {
                megatron t = {sizes[i][0], sizes[i][1], sizes[i][2], 22, order, i % 2 ? RSH_F32 : RSH_F64, order == 1};
                run_groups(n, megatron_trial, &t);
            }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_megatron_two_layer_prototype),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
