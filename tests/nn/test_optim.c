/* Optimizers: steps compared with formulas written out here, on plain and on sharded parameters; clipping; state;
 * schedules. */
#include "models.h"

enum { STEPS = 5, ROWS = 6, COLUMNS = 3, COUNT = ROWS * COLUMNS };

/* The expected values of one parameter, in double. */
typedef struct model {
    double p[COUNT], first[COUNT], second[COUNT];
} model;

/* A module with one parameter, "w". */
static const rsh_module_kind holder = {.name = "Holder"};
static rsh_status make_holder(rsh_dtype dtype, rsh_module **out) {
    rsh_value *w = NULL;
    TRY(rsh_module_new(&holder, NULL, out));
    TRY(make_value(dtype, 2, (const int64_t[]){ROWS, COLUMNS}, 4, true, &w));
    TRY(rsh_module_set_parameter(*out, "w", w));
    rsh_value_free(w);
    return RSH_OK;
}

static rsh_status shard_holder(rsh_module *m, int dim) {
    rsh_spec *spec = NULL;
    TRY(rsh_spec_chunk_ranks(dim, rsh_group_size(NULL), NULL, &spec));
    rsh_status st = rsh_shard_parameter(m, "w", spec, 0, NULL);
    rsh_spec_free(spec);
    return st;
}

/* Sets the gradient of a step, cut like the parameter. */
static rsh_status set_grad(rsh_module *m, uint64_t seed) {
    rsh_value *w = NULL, *g = NULL;
    TRY(rsh_module_parameter(m, "w", &w));
    if (rsh_value_sharded(w)) {
        rsh_sharded *s = NULL;
        TRY(rsh_sharded_zeros(rsh_value_comm(w), rsh_value_layout(w), &s));
        TRY(rsh_sharded_normal(s, seed));
        TRY(rsh_value_adopt_sharded(s, false, &g));
    } else {
        TRY(make_value(rsh_value_dtype(w), 2, (const int64_t[]){ROWS, COLUMNS}, seed, false, &g));
    }
    rsh_status st = rsh_value_set_grad(w, g);
    rsh_value_free(g);
    return st;
}

static rsh_status start(rsh_dtype dtype, model *m) {
    rsh_value *w = NULL;
    memset(m, 0, sizeof *m);
    TRY(make_value(dtype, 2, (const int64_t[]){ROWS, COLUMNS}, 4, false, &w));
    for (int i = 0; i < COUNT; i++) m->p[i] = at(rsh_value_tensor(w), i);
    rsh_value_free(w);
    return RSH_OK;
}

static rsh_status gradient(rsh_dtype dtype, uint64_t seed, double *g) {
    rsh_value *v = NULL;
    TRY(make_value(dtype, 2, (const int64_t[]){ROWS, COLUMNS}, seed, false, &v));
    for (int i = 0; i < COUNT; i++) g[i] = at(rsh_value_tensor(v), i);
    rsh_value_free(v);
    return RSH_OK;
}

static void expect_sgd(model *m, const double *g, const rsh_sgd_opts *o, int step) {
    for (int i = 0; i < COUNT; i++) {
        double d = g[i] + o->weight_decay * m->p[i];
        if (o->momentum != 0) {
            m->first[i] = step == 1 ? d : o->momentum * m->first[i] + (1 - o->dampening) * d;
            d = o->nesterov ? d + o->momentum * m->first[i] : m->first[i];
        }
        m->p[i] -= o->lr * d;
    }
}

static void expect_adam(model *m, const double *g, const rsh_adam_opts *o, int step) {
    for (int i = 0; i < COUNT; i++) {
        double d = g[i];
        if (o->decoupled) m->p[i] *= 1 - o->lr * o->weight_decay;
        else d += o->weight_decay * m->p[i];
        m->first[i] = o->beta1 * m->first[i] + (1 - o->beta1) * d;
        m->second[i] = o->beta2 * m->second[i] + (1 - o->beta2) * d * d;
        double mean = m->first[i] / (1 - pow(o->beta1, step)), square = m->second[i] / (1 - pow(o->beta2, step));
        m->p[i] -= o->lr * mean / (sqrt(square) + o->eps);
    }
}

static rsh_status matches(rsh_module *m, const model *expected, double tolerance) {
    rsh_value *w = NULL;
    rsh_tensor *whole = NULL;
    TRY(rsh_module_parameter(m, "w", &w));
    TRY(whole_of(w, &whole));
    for (int i = 0; i < COUNT; i++) CHECK(fabs(at(whole, i) - expected->p[i]) <= tolerance);
    rsh_tensor_free(whole);
    return RSH_OK;
}

typedef struct trial {
    rsh_dtype dtype;
    bool adam, sharded;
    int dim;
    rsh_sgd_opts sgd;
    rsh_adam_opts opts;
} trial;

static rsh_status make_optimizer(const trial *t, rsh_module *m, rsh_optimizer **out) {
    return t->adam ? rsh_adam_new(m, &t->opts, out) : rsh_sgd_new(m, &t->sgd, out);
}

static rsh_status steps(void *ctx) {
    const trial *t = ctx;
    double tolerance = t->dtype == RSH_F64 ? 1e-14 : 1e-5, g[COUNT];
    rsh_module *m = NULL;
    rsh_optimizer *o = NULL;
    model expected;
    TRY(make_holder(t->dtype, &m));
    if (t->sharded) TRY(shard_holder(m, t->dim));
    TRY(make_optimizer(t, m, &o));
    TRY(start(t->dtype, &expected));
    TRY(rsh_optimizer_step(o)); /* without a gradient nothing changes and no step is counted */
    for (int step = 1; step <= STEPS; step++) {
        TRY(set_grad(m, 100 + (uint64_t)step));
        TRY(gradient(t->dtype, 100 + (uint64_t)step, g));
        if (step == 3) { /* saves the state and loads it into another optimizer with another learning rate */
            rsh_state_dict *d = NULL;
            rsh_optimizer *other = NULL;
            trial changed = *t;
            changed.sgd.lr = changed.opts.lr = 7;
            TRY(rsh_optimizer_state_dict(o, &d));
            TRY(make_optimizer(&changed, m, &other));
            TRY(rsh_optimizer_load_state_dict(other, d));
            rsh_state_dict_free(d);
            rsh_optimizer_free(o);
            o = other;
            CHECK(rsh_optimizer_lr(o) == (t->adam ? t->opts.lr : t->sgd.lr));
        }
        TRY(rsh_optimizer_step(o));
        if (t->adam) expect_adam(&expected, g, &t->opts, step);
        else expect_sgd(&expected, g, &t->sgd, step);
        TRY(matches(m, &expected, tolerance));
    }
    rsh_optimizer_free(o);
    rsh_module_free(m);
    return RSH_OK;
}

static void optimizers_step_as_their_formulas_say(void **state) {
    (void)state;
    enum { SIZE = sizeof(rsh_sgd_opts), ADAM_SIZE = sizeof(rsh_adam_opts) };
    const rsh_sgd_opts sgd[] = {{SIZE, .lr = 0.1},
                                {SIZE, .lr = 0.1, .weight_decay = 0.3},
                                {SIZE, .lr = 0.1, .momentum = 0.9, .dampening = 0.2},
                                {SIZE, .lr = 0.1, .momentum = 0.8, .weight_decay = 0.1, .nesterov = true}};
    const rsh_adam_opts adam[] = {RSH_ADAM_OPTS_INIT,
                                  RSH_ADAMW_OPTS_INIT,
                                  {ADAM_SIZE, 0.05, 0.8, 0.9, 1e-6, 0.2, false},
                                  {ADAM_SIZE, 0.05, 0.8, 0.9, 1e-6, 0.2, true}};
    for (int i = 0; i < 4; i++)
        for (int n = 1; n <= 4; n++) {
            trial t = {
                .dtype = n % 2 ? RSH_F64 : RSH_F32, .sharded = n > 1, .dim = i % 2, .sgd = sgd[i], .opts = adam[i]};
            run_groups(n, steps, &t);
            t.adam = true;
            run_groups(n, steps, &t);
        }
}

/* ---- clipping ---- */

static rsh_status clipped(void *ctx) {
    (void)ctx;
    rsh_module *m = NULL, *whole = NULL, *both = NULL;
    rsh_value *w = NULL;
    double g[COUNT], norm = 0, sum = 0;
    TRY(make_holder(RSH_F64, &m));
    TRY(make_holder(RSH_F64, &whole));
    TRY(shard_holder(m, 1));
    TRY(rsh_sequential_new(2, (rsh_module *[]){m, whole}, &both));
    TRY(set_grad(m, 5));
    TRY(set_grad(whole, 5));
    TRY(gradient(RSH_F64, 5, g));
    for (int i = 0; i < COUNT; i++) sum += 2 * g[i] * g[i];
    TRY(rsh_clip_grad_norm(both, 1e9, &norm));
    CHECK(fabs(norm - sqrt(sum)) < 1e-12);
    TRY(rsh_clip_grad_norm(both, 0.5, &norm));
    CHECK(fabs(norm - sqrt(sum)) < 1e-12);
    TRY(rsh_clip_grad_norm(both, 0.5, &norm));
    CHECK(fabs(norm - 0.5) < 1e-5);
    TRY(rsh_module_parameter(whole, "w", &w));
    CHECK(fabs(at(rsh_value_tensor(rsh_value_grad(w)), 3) - g[3] * 0.5 / sqrt(sum)) < 1e-6);
    /* an error on every rank */
    CHECK_STATUS(RSH_EVALUE, rsh_clip_grad_norm(both, rsh_group_rank(NULL) ? 1 : -1, &norm));
    rsh_module_free(m), rsh_module_free(whole), rsh_module_free(both);
    return RSH_OK;
}
static void gradients_are_clipped_by_their_norm_over_all_ranks(void **state) {
    (void)state;
    for (int n = 1; n <= 4; n++) run_groups(n, clipped, NULL);
}

/* Replicas count once. */
static rsh_status replicas(void *ctx) {
    (void)ctx;
    rsh_comm *c = rsh_group_comm(NULL);
    rsh_module *m = NULL;
    rsh_layout *l = NULL;
    rsh_sharded *s = NULL, *ones = NULL;
    rsh_value *w = NULL, *g = NULL;
    double norm = 0;
    TRY(rsh_module_new(&holder, NULL, &m));
    TRY(rsh_layout_parse("f32[6/x, 5] on x=2,r=2", &l));
    TRY(rsh_sharded_zeros(c, l, &s));
    TRY(rsh_sharded_full(c, l, &(float){1}, &ones));
    TRY(rsh_value_adopt_sharded(s, true, &w));
    TRY(rsh_value_adopt_sharded(ones, false, &g));
    TRY(rsh_value_set_grad(w, g));
    TRY(rsh_module_set_parameter(m, "w", w));
    TRY(rsh_clip_grad_norm(m, 100, &norm));
    CHECK(fabs(norm - sqrt(30)) < 1e-12);
    rsh_value_free(w), rsh_value_free(g);
    rsh_layout_free(l);
    rsh_module_free(m);
    return RSH_OK;
}
static void copies_of_a_gradient_count_once(void **state) {
    (void)state;
    run_groups(4, replicas, NULL);
}

/* ---- errors ---- */

static void numbers_that_make_no_sense_are_refused(void **state) {
    (void)state;
    rsh_module *m = NULL, *empty = NULL;
    rsh_optimizer *o = NULL;
    assert_int_equal(make_holder(RSH_F32, &m), RSH_OK);
    assert_int_equal(rsh_module_new(&holder, NULL, &empty), RSH_OK);
    assert_int_equal(rsh_sgd_new(m, &(rsh_sgd_opts){sizeof(rsh_sgd_opts), .lr = -1}, &o), RSH_EVALUE);
    assert_int_equal(rsh_sgd_new(m, &(rsh_sgd_opts){sizeof(rsh_sgd_opts), .lr = NAN}, &o), RSH_EVALUE);
    assert_int_equal(rsh_sgd_new(m, &(rsh_sgd_opts){sizeof(rsh_sgd_opts), .lr = 1, .nesterov = true}, &o), RSH_EVALUE);
    assert_int_equal(rsh_sgd_new(empty, &(rsh_sgd_opts){sizeof(rsh_sgd_opts), .lr = 1}, &o), RSH_EVALUE);
    rsh_adam_opts adam = RSH_ADAM_OPTS_INIT;
    adam.beta2 = 1;
    assert_int_equal(rsh_adam_new(m, &adam, &o), RSH_EVALUE);
    assert_null(o);
    assert_int_equal(rsh_sgd_new(m, &(rsh_sgd_opts){sizeof(rsh_sgd_opts), .lr = 1, .momentum = 0.5}, &o), RSH_OK);
    assert_int_equal(rsh_optimizer_set_lr(o, INFINITY), RSH_EVALUE);
    rsh_state_dict *d = NULL;
    rsh_value *v = NULL;
    assert_int_equal(rsh_state_dict_new(&d), RSH_OK);
    assert_int_equal(make_value(RSH_F32, 1, (const int64_t[]){2}, 1, false, &v), RSH_OK);
    assert_int_equal(rsh_state_dict_set(d, "w.momentum", v), RSH_OK);
    assert_int_equal(rsh_optimizer_load_state_dict(o, d), RSH_ERUNTIME); /* a different shape */
    assert_int_equal(rsh_state_dict_remove(d, "w.momentum"), RSH_OK);
    assert_int_equal(rsh_state_dict_set(d, "w.nothing", v), RSH_OK);
    assert_int_equal(rsh_optimizer_load_state_dict(o, d), RSH_ERUNTIME);
    rsh_state_dict_free(d);
    rsh_value_free(v);
    rsh_optimizer_free(o);
    rsh_module_free(m);
    rsh_module_free(empty);
}

static void a_schedule_warms_up_and_decays(void **state) {
    (void)state;
    rsh_schedule s = {.lr = 2, .warmup = 4, .steps = 12, .least = 0.1, .decay = RSH_DECAY_COSINE};
    assert_true(rsh_schedule_lr(&s, 0) == 0.5);
    assert_true(rsh_schedule_lr(&s, 3) == 2);
    assert_true(fabs(rsh_schedule_lr(&s, 8) - 2 * (0.1 + 0.9 / 2)) < 1e-15);
    assert_true(fabs(rsh_schedule_lr(&s, 12) - 0.2) < 1e-15);
    assert_true(fabs(rsh_schedule_lr(&s, 500) - 0.2) < 1e-15);
    s.decay = RSH_DECAY_LINEAR;
    assert_true(fabs(rsh_schedule_lr(&s, 10) - 2 * (0.1 + 0.9 / 4)) < 1e-15);
    s.decay = RSH_DECAY_NONE;
    assert_true(rsh_schedule_lr(&s, 10) == 2);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(optimizers_step_as_their_formulas_say),
        cmocka_unit_test(gradients_are_clipped_by_their_norm_over_all_ranks),
        cmocka_unit_test(copies_of_a_gradient_count_once),
        cmocka_unit_test(numbers_that_make_no_sense_are_refused),
        cmocka_unit_test(a_schedule_warms_up_and_decays),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
