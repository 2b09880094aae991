/* Sharded state: parameters by name, optimizers and state dicts of modules with cut parameters. */
#include "two_layers.h"

static rsh_status cut(rsh_module *m, const char *path, int dim) {
    rsh_module *owner = NULL;
    const char *name = NULL;
    rsh_spec *spec = NULL;
    TRY(rsh_module_owner(m, path, &owner, &name));
    TRY(chunks(dim, rsh_group_size(NULL), NULL, &spec));
    rsh_status st = rsh_shard_parameter(owner, name, spec, 0, NULL);
    rsh_spec_free(spec);
    return st;
}

static const int64_t sizes[] = {5, 8, 3};
static const char *const paths[] = {"fc1.weight", "fc1.bias", "fc2.weight", "fc2.bias"};

/* Makes a pair of layers with given numbers; fc1 is cut along `first` and fc2 along `second`; -1: not cut. */
static rsh_status make_cut(uint64_t numbers, int first, int second, rsh_module **out) {
    TRY(make_mlp(sizes, RSH_F64, out));
    rsh_random_seed(numbers);
    for (int i = 0; i < 4; i++) {
        rsh_value *v = NULL;
        TRY(parameter(*out, paths[i], &v));
        TRY(rsh_random_uniform(v, -0.5, 0.5));
    }
    if (first >= 0) TRY(cut(*out, "fc1.weight", first));
    return second >= 0 ? cut(*out, "fc2.weight", second) : RSH_OK;
}

static rsh_status same_numbers(rsh_module *a, rsh_module *b) {
    for (int i = 0; i < 4; i++) {
        rsh_value *va = NULL, *vb = NULL;
        rsh_tensor *ta = NULL, *tb = NULL;
        TRY(parameter(a, paths[i], &va));
        TRY(parameter(b, paths[i], &vb));
        TRY(whole_of(va, &ta));
        TRY(whole_of(vb, &tb));
        CHECK_CLOSE(ta, tb, 1e-12);
        rsh_tensor_free(ta), rsh_tensor_free(tb);
    }
    return RSH_OK;
}

/* ---- names ---- */

typedef struct seen {
    int n;
    bool sharded[4];
} seen;
static rsh_status see(void *ctx, const char *path, rsh_module *owner, const char *name, rsh_value *v) {
    seen *s = ctx;
    rsh_value *there = NULL;
    CHECK(s->n < 4 && !strcmp(path, paths[s->n]));
    TRY(rsh_module_parameter(owner, name, &there));
    CHECK(there == v);
    s->sharded[s->n++] = rsh_value_sharded(v) != NULL;
    return RSH_OK;
}

static rsh_status named(void *ctx) {
    (void)ctx;
    rsh_module *m = NULL;
    seen s = {0};
    TRY(make_cut(1, 0, -1, &m));
    TRY(rsh_module_each_parameter(m, false, see, &s));
    CHECK(s.n == 4 && s.sharded[0] && !s.sharded[1] && !s.sharded[2] && !s.sharded[3]);
    rsh_module_free(m);
    return RSH_OK;
}
static void test_named_params_with_sharded_tensor(void **state) {
    (void)state;
    for (int n = 1; n <= 4; n++) run_groups(n, named, NULL);
}

/* ---- the optimizer ---- */

/* Computes the loss of a model whose output is this rank's shard of the rows of all ranks. */
static rsh_status own_loss(rsh_module *m, rsh_value *x, rsh_value **loss) {
    rsh_value *y = NULL;
    TRY(rsh_module_forward(m, x, &y));
    CHECK(!rsh_value_sharded(y));
    TRY(squared_loss(y, loss));
    rsh_value_free(y);
    return RSH_OK;
}

static rsh_status optimized(void *ctx) {
    const int *adam = ctx;
    int n = rsh_group_size(NULL), me = rsh_group_rank(NULL);
    rsh_module *m[2] = {0};
    rsh_optimizer *o[2] = {0};
    rsh_value *all = NULL, *mine = NULL, *loss = NULL;
    rsh_spec *home = NULL;
    TRY(make_cut(1, 0, 1, &m[0]));
    TRY(make_cut(1, -1, -1, &m[1]));
    TRY(chunks(0, n, NULL, &home));
    TRY(rsh_reshard_output(m[0], home));
    TRY(rsh_collect_local_shard(m[0]));
    for (int i = 0; i < 2; i++)
        if (*adam) TRY(rsh_adam_new(m[i], &(rsh_adam_opts)RSH_ADAMW_OPTS_INIT, &o[i]));
        else TRY(rsh_sgd_new(m[i], &(rsh_sgd_opts){sizeof(rsh_sgd_opts), .lr = 0.02, .momentum = 0.9}, &o[i]));
    TRY(make_value(RSH_F64, 2, (const int64_t[]){2 * n, 5}, 8, false, &all));
    TRY(rsh_nn_narrow(all, 0, 2 * me, 2, &mine));
    for (int step = 0; step < 4; step++)
        for (int i = 0; i < 2; i++) {
            TRY(rsh_optimizer_zero_grad(o[i]));
            TRY(own_loss(m[i], i ? all : mine, &loss));
            TRY(rsh_backward(loss, NULL, 0));
            TRY(rsh_optimizer_step(o[i]));
            rsh_value_free(loss);
        }
    TRY(same_numbers(m[0], m[1]));
    rsh_value_free(all), rsh_value_free(mine);
    rsh_spec_free(home);
    for (int i = 0; i < 2; i++) rsh_optimizer_free(o[i]), rsh_module_free(m[i]);
    return RSH_OK;
}
static void test_sharded_optim(void **state) {
    (void)state;
    for (int n = 1; n <= 4; n++)
        for (int adam = 0; adam < 2; adam++) run_groups(n, optimized, &adam);
}

/* ---- state dicts ---- */

/* The state of a module can be loaded into a module that is cut differently, or not cut. */
static rsh_status loaded(void *ctx) {
    (void)ctx;
    static const int cuts[][2] = {{-1, -1}, {0, 1}, {1, 0}, {0, 0}};
    for (int i = 0; i < 16; i++) {
        const int *a = cuts[i / 4], *b = cuts[i % 4];
        rsh_module *from = NULL, *to = NULL;
        rsh_state_dict *d = NULL;
        TRY(make_cut(1, a[0], a[1], &from));
        TRY(make_cut(2, b[0], b[1], &to));
        TRY(rsh_module_state_dict(from, &d));
        CHECK(rsh_state_dict_count(d) == 4);
        CHECK(!rsh_value_sharded(rsh_state_dict_find(d, "fc2.weight")) == (a[1] < 0));
        if (a[0] >= 0 && b[0] < 0) { /* a whole parameter has no comm on which its elements could be moved */
            CHECK_STATUS(RSH_ERUNTIME, rsh_module_load_state_dict(to, d, 0));
        } else {
            TRY(rsh_module_load_state_dict(to, d, 0));
            TRY(same_numbers(from, to));
        }
        rsh_state_dict_free(d);
        rsh_module_free(from), rsh_module_free(to);
    }
    return RSH_OK;
}
static void state_dicts_hold_sharded_tensors_and_load_into_any_cut(void **state) {
    (void)state;
    for (int n = 1; n <= 4; n++) run_groups(n, loaded, NULL);
}

/* PyTorch's state_dict_hook and pre_load_state_dict_hook: a tensor that is not a parameter is saved and loaded. */
static rsh_status put_out(void *ctx, rsh_module *m, rsh_state_dict *d, const char *prefix) {
    (void)m;
    char name[64];
    snprintf(name, sizeof name, "%sextra", prefix);
    return rsh_state_dict_set(d, name, *(rsh_value **)ctx);
}
static rsh_status take_in(void *ctx, rsh_module *m, rsh_state_dict *d, const char *prefix) {
    (void)m;
    char name[64];
    snprintf(name, sizeof name, "%sextra", prefix);
    rsh_value *v = rsh_state_dict_find(d, name);
    CHECK(v);
    *(rsh_value **)ctx = rsh_value_hold(v);
    return rsh_state_dict_remove(d, name);
}

static rsh_status hooked(void *ctx) {
    (void)ctx;
    rsh_module *from = NULL, *to = NULL, *fc1 = NULL;
    rsh_value *out = NULL, *in = NULL;
    rsh_state_dict *d = NULL;
    TRY(make_cut(1, 0, 1, &from));
    TRY(make_cut(2, 0, 1, &to));
    TRY(parameter(from, "fc2.weight", &out));
    TRY(rsh_module_child(from, "fc1", &fc1));
    TRY(rsh_module_add_state_hook(fc1, put_out, &out, NULL, NULL));
    TRY(rsh_module_child(to, "fc1", &fc1));
    TRY(rsh_module_add_load_hook(fc1, take_in, &in, NULL, NULL));
    TRY(rsh_module_state_dict(from, &d));
    CHECK(rsh_state_dict_find(d, "fc1.extra") == out);
    TRY(rsh_module_load_state_dict(to, d, 0));
    CHECK(in == out);
    TRY(same_numbers(from, to));
    rsh_value_free(in);
    rsh_state_dict_free(d);
    rsh_module_free(from), rsh_module_free(to);
    return RSH_OK;
}
static void hooks_put_sharded_tensors_into_state_dicts_and_take_them_out(void **state) {
    (void)state;
    for (int n = 1; n <= 4; n++) run_groups(n, hooked, NULL);
}

static void the_random_state_goes_out_and_comes_in(void **state) {
    (void)state;
    rsh_state_dict *d = NULL, *empty = NULL;
    rsh_random_set_state((rsh_random_state){UINT64_MAX - 3, 77});
    assert_int_equal(rsh_random_state_dict(&d), RSH_OK);
    rsh_random_seed(1);
    assert_int_equal(rsh_random_load_state_dict(d), RSH_OK);
    assert_true(rsh_random_get_state().seed == UINT64_MAX - 3 && rsh_random_get_state().call == 77);
    assert_int_equal(rsh_state_dict_new(&empty), RSH_OK);
    assert_int_equal(rsh_random_load_state_dict(empty), RSH_ERUNTIME);
    rsh_state_dict_free(d), rsh_state_dict_free(empty);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_named_params_with_sharded_tensor),
        cmocka_unit_test(test_sharded_optim),
        cmocka_unit_test(state_dicts_hold_sharded_tensors_and_load_into_any_cut),
        cmocka_unit_test(hooks_put_sharded_tensors_into_state_dicts_and_take_them_out),
        cmocka_unit_test(the_random_state_goes_out_and_comes_in),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
