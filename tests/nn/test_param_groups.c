/* Param groups: parameters with their own settings change as under an optimizer of their own, and as in PyTorch. */
#include "models.h"

enum { STEPS = 4 };

typedef enum kind { SGD, ADAM, ADAMW, KINDS } kind;

static const rsh_module_kind holder = {.name = "Holder"};

/* Makes parameters "a" [3, 2] and "b.bias" [4], or one of them. */
static rsh_status make(bool a, bool b, rsh_module **out) {
    rsh_module *child = NULL;
    rsh_value *v[2] = {NULL};
    TRY(rsh_module_new(&holder, NULL, out));
    TRY(rsh_module_new(&holder, NULL, &child));
    TRY(make_value(RSH_F64, 2, (int64_t[]){3, 2}, 1, true, &v[0]));
    TRY(make_value(RSH_F64, 1, (int64_t[]){4}, 2, true, &v[1]));
    if (a) TRY(rsh_module_set_parameter(*out, "a", v[0]));
    if (b) TRY(rsh_module_set_parameter(child, "bias", v[1]));
    TRY(rsh_module_set_child(*out, "b", child));
    rsh_module_free(child);
    rsh_value_free(v[0]), rsh_value_free(v[1]);
    return RSH_OK;
}

static rsh_status optimizer(kind k, rsh_module *m, double lr, double decay, rsh_optimizer **out) {
    rsh_sgd_opts sgd = RSH_SGD_OPTS_INIT;
    rsh_adam_opts adam = RSH_ADAM_OPTS_INIT;
    sgd.lr = adam.lr = lr, sgd.weight_decay = adam.weight_decay = decay;
    sgd.momentum = 0.9;
    adam.decoupled = k == ADAMW;
    return k == SGD ? rsh_sgd_new(m, &sgd, out) : rsh_adam_new(m, &adam, out);
}

static rsh_status set_grad(void *ctx, const char *path, rsh_module *owner, const char *name, rsh_value *v) {
    rsh_value *g = NULL;
    (void)owner, (void)path;
    uint64_t seed = 50 + 2 * *(const uint64_t *)ctx + (*name == 'a');
    TRY(make_value(RSH_F64, rsh_value_ndim(v), rsh_value_shape(v), seed, false, &g));
    rsh_status st = rsh_value_set_grad(v, g);
    rsh_value_free(g);
    return st;
}

static rsh_status train(rsh_module *m, rsh_optimizer *o) {
    for (uint64_t i = 0; i < STEPS; i++) {
        TRY(rsh_module_each_parameter(m, false, set_grad, &i));
        TRY(rsh_optimizer_step(o));
        TRY(rsh_optimizer_set_lr(o, rsh_optimizer_lr(o) * 0.5)); /* groups follow the schedule */
    }
    return RSH_OK;
}

static rsh_status same(rsh_module *m, rsh_module *other, const char *path) {
    rsh_module *owner[2] = {NULL};
    const char *name = NULL;
    rsh_value *v[2] = {NULL};
    TRY(rsh_module_owner(m, path, &owner[0], &name));
    TRY(rsh_module_owner(other, path, &owner[1], &name));
    for (int i = 0; i < 2; i++) TRY(rsh_module_parameter(owner[i], name, &v[i]));
    return same_bits(v[0], v[1]);
}

static rsh_status separate(kind k) {
    rsh_module *both = NULL, *a = NULL, *b = NULL;
    rsh_optimizer *o[3] = {NULL};
    rsh_param_group g = RSH_PARAM_GROUP_INIT;
    const char *paths[] = {"*.bias"};
    int64_t n = 0;
    TRY(make(true, true, &both));
    TRY(make(true, false, &a));
    TRY(make(false, true, &b));
    TRY(optimizer(k, both, 0.02, 0.1, &o[0]));
    TRY(optimizer(k, a, 0.02, 0.1, &o[1]));
    TRY(optimizer(k, b, 0.02 * 0.3, 0.07, &o[2]));
    g.npaths = 1, g.paths = paths, g.lr_scale = 0.3, g.weight_decay = 0.07;
    TRY(rsh_optimizer_add_group(o[0], &g, &n));
    CHECK(n == 1);
    TRY(train(both, o[0]));
    TRY(train(a, o[1]));
    TRY(train(b, o[2]));
    TRY(same(both, a, "a"));
    TRY(same(both, b, "b.bias"));
    for (int i = 0; i < 3; i++) rsh_optimizer_free(o[i]);
    rsh_module_free(both), rsh_module_free(a), rsh_module_free(b);
    return RSH_OK;
}

static void a_group_is_an_optimizer_of_its_own(void **state) {
    (void)state;
    for (int k = SGD; k < KINDS; k++)
        if (separate((kind)k)) fail_msg("%s", rsh_error_detail());
}

/* ---- PyTorch's results, recorded in golden_optim.txt by tools/golden/torch_optim.py ---- */

static rsh_value *formula(int k, int ndim, const int64_t *shape, bool grad) {
    rsh_tensor *t = NULL;
    rsh_value *v = NULL;
    assert_int_equal(rsh_tensor_empty(RSH_F64, ndim, shape, &t), RSH_OK);
    for (int64_t i = 0; i < rsh_tensor_count(t); i++)
        ((double *)rsh_tensor_data(t))[i] = (double)((7919 * i + 104729 * (k + 1)) % 2003) / 1000 - 1;
    assert_int_equal(rsh_value_adopt_tensor(t, grad, &v), RSH_OK);
    return v;
}

static rsh_status golden_optimizer(const char *kind, rsh_module *m, rsh_optimizer **out) {
    rsh_sgd_opts sgd = RSH_SGD_OPTS_INIT;
    rsh_adam_opts adam = RSH_ADAM_OPTS_INIT;
    rsh_param_group g = RSH_PARAM_GROUP_INIT;
    const char *paths[] = {"b"};
    bool adams = !strncmp(kind, "adam", 4);
    sgd.lr = adam.lr = 0.02, sgd.weight_decay = adam.weight_decay = 0.1;
    sgd.momentum = 0.9, sgd.nesterov = !strcmp(kind, "nesterov"), sgd.dampening = sgd.nesterov ? 0 : 0.2;
    adam.decoupled = !strcmp(kind, "adamw");
    TRY(adams ? rsh_adam_new(m, &adam, out) : rsh_sgd_new(m, &sgd, out));
    g.npaths = 1, g.paths = paths, g.lr_scale = 0.3, g.weight_decay = 0.07;
    return rsh_optimizer_add_group(*out, &g, NULL);
}

static rsh_status golden_train(rsh_value *const *p, rsh_optimizer *o) {
    for (int s = 0; s < STEPS; s++) {
        for (int k = 0; k < 2; k++) {
            rsh_value *g = formula(10 + 2 * s + k, rsh_value_ndim(p[k]), rsh_value_shape(p[k]), false);
            TRY(rsh_value_set_grad(p[k], g));
            rsh_value_free(g);
        }
        TRY(rsh_optimizer_step(o));
        TRY(rsh_optimizer_set_lr(o, rsh_optimizer_lr(o) * 0.5));
    }
    return RSH_OK;
}

static void golden_case(const char *kind, FILE *file) {
    rsh_value *p[2] = {formula(0, 2, (int64_t[]){3, 2}, true), formula(1, 1, (int64_t[]){4}, true)};
    rsh_module *m = NULL;
    rsh_optimizer *o = NULL;
    assert_int_equal(rsh_module_new(&holder, NULL, &m), RSH_OK);
    for (int k = 0; k < 2; k++) assert_int_equal(rsh_module_set_parameter(m, k ? "b" : "a", p[k]), RSH_OK);
    if (golden_optimizer(kind, m, &o) || golden_train(p, o)) fail_msg("%s: %s", kind, rsh_error_detail());
    for (int k = 0; k < 2; k++) {
        char name[8] = "";
        assert_int_equal(fscanf(file, "%7s", name), 1);
        for (int64_t i = 0; i < rsh_tensor_count(rsh_value_tensor(p[k])); i++) {
            double expected = 0;
            assert_int_equal(fscanf(file, "%lf", &expected), 1);
            if (fabs(at(rsh_value_tensor(p[k]), i) - expected) > 1e-14)
                fail_msg("%s: %s[%d] is %.17g, PyTorch has %.17g", kind, name, (int)i, at(rsh_value_tensor(p[k]), i),
                         expected);
        }
        rsh_value_free(p[k]);
    }
    rsh_optimizer_free(o);
    rsh_module_free(m);
}

static void groups_are_those_of_pytorch(void **state) {
    char kind[16] = "";
    int cases = 0;
    (void)state;
    FILE *file = fopen("tests/nn/golden_optim.txt", "r");
    assert_non_null(file);
    for (; fscanf(file, " case %15s", kind) == 1; cases++) golden_case(kind, file);
    fclose(file);
    assert_int_equal(cases, 4);
}

/* ---- state ---- */

/* The state contains the settings; another optimizer gets them by loading it. */
static rsh_status state_trial(void) {
    rsh_module *m = NULL;
    rsh_optimizer *o = NULL, *other = NULL;
    rsh_state_dict *d = NULL;
    rsh_param_group g = RSH_PARAM_GROUP_INIT;
    double lr = 0, decay = 0;
    TRY(make(true, true, &m));
    TRY(optimizer(ADAM, m, 0.02, 0.1, &o));
    TRY(optimizer(ADAM, m, 0.5, 0.5, &other));
    g.ndim_below = 2, g.lr_scale = 2;
    TRY(rsh_optimizer_add_group(o, &g, NULL));
    TRY(rsh_optimizer_state_dict(o, &d));
    CHECK(rsh_state_dict_find(d, "b.bias.lr_scale") && !rsh_state_dict_find(d, "a.lr_scale"));
    TRY(rsh_optimizer_load_state_dict(other, d));
    TRY(rsh_optimizer_get_settings(other, "b.bias", &lr, &decay));
    CHECK(lr == 0.04 && decay == 0);
    TRY(rsh_optimizer_get_settings(other, "a", &lr, &decay));
    CHECK(lr == 0.02 && decay == 0.5);
    CHECK_STATUS(RSH_EATTR, rsh_optimizer_get_settings(other, "c", &lr, &decay));
    g.ndim_below = 1;
    CHECK_STATUS(RSH_EATTR, rsh_optimizer_add_group(o, &g, NULL));
    g.ndim_below = 0, g.weight_decay = -1;
    CHECK_STATUS(RSH_EVALUE, rsh_optimizer_add_group(o, &g, NULL));
    g.weight_decay = 0, g.struct_size = 1;
    CHECK_STATUS(RSH_EVALUE, rsh_optimizer_add_group(o, &g, NULL));
    rsh_state_dict_free(d);
    rsh_optimizer_free(o), rsh_optimizer_free(other);
    rsh_module_free(m);
    return RSH_OK;
}

static void settings_are_part_of_the_state(void **state) {
    (void)state;
    if (state_trial()) fail_msg("%s", rsh_error_detail());
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_group_is_an_optimizer_of_its_own),
        cmocka_unit_test(groups_are_those_of_pytorch),
        cmocka_unit_test(settings_are_part_of_the_state),
    };
    return cmocka_run_group_tests_name("parameter groups", tests, NULL, NULL);
}
