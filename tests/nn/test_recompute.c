/* Recompute: modules that run forward again in backward give the same bits and keep only their inputs. */
#include "models.h"

#include <reshard/nn/recompute.h>

#define ROWS 6
#define WIDTH 8

/* ---- models ---- */

/* Makes Linear, ReLU, Dropout, Linear. */
static rsh_status mlp(rsh_module **out) {
    rsh_module *part[4];
    TRY(rsh_linear_new(WIDTH, 4 * WIDTH, true, RSH_F32, &part[0]));
    TRY(rsh_relu_new(&part[1]));
    TRY(rsh_dropout_new(0.25, &part[2]));
    TRY(rsh_linear_new(4 * WIDTH, WIDTH, true, RSH_F32, &part[3]));
    return sequence(4, part, out);
}

static rsh_status three_mlps(rsh_module **out) {
    rsh_module *part[3];
    for (int i = 0; i < 3; i++) TRY(mlp(&part[i]));
    return sequence(3, part, out);
}

static rsh_status block(rsh_module **out) { return small_block(WIDTH, 2 * WIDTH, out); }

/* ---- comparing two models ---- */

static rsh_status same_gradients(rsh_module *a, rsh_module *b, rsh_value *xa, rsh_value *xb) {
    TRY(same_models(a, b));
    return xa ? same_bits(rsh_value_grad(xa), rsh_value_grad(xb)) : RSH_OK;
}

static rsh_status child(rsh_module *m, const char *path) {
    rsh_module *found = NULL;
    TRY(rsh_module_submodule(m, path, &found));
    return rsh_recompute(found);
}

typedef struct pairing {
    rsh_status (*make)(rsh_module **out);
    int ndim;
    const char *const *again; /* paths of the modules that recompute, ending with NULL */
} pairing;

static rsh_status compare(void *ctx) {
    const pairing *p = ctx;
    int64_t shape[] = {2, ROWS, WIDTH};
    rsh_module *plain = NULL, *other = NULL;
    rsh_value *x[2] = {NULL, NULL};
    rsh_random_seed(2);
    TRY(p->make(&plain));
    rsh_random_seed(2);
    TRY(p->make(&other));
    for (int i = 0; p->again[i]; i++) TRY(child(other, p->again[i]));
    for (int i = 0; i < 2; i++) TRY(make_value(RSH_F32, p->ndim, shape + 3 - p->ndim, 5, true, &x[i]));
    for (int i = 0; i < 3; i++) {
        TRY(forward_backward(plain, x[0]));
        TRY(forward_backward(other, x[1]));
        TRY(same_gradients(plain, other, x[0], x[1]));
    }
    rsh_value_free(x[0]), rsh_value_free(x[1]);
    rsh_module_free(plain), rsh_module_free(other);
    return RSH_OK;
}

static void ok(rsh_status st) {
    if (st) fail_msg("%s: %s", rsh_status_name(st), rsh_error_detail());
}

static void gradients_are_the_same_bits_with_and_without(void **state) {
    (void)state;
    ok(compare(&(pairing){mlp, 2, (const char *const[]){"", NULL}}));
    ok(compare(&(pairing){three_mlps, 2, (const char *const[]){"0", "2", NULL}}));
    ok(compare(&(pairing){block, 3, (const char *const[]){"", NULL}}));
}

static void modules_that_recompute_may_be_nested(void **state) {
    (void)state;
    ok(compare(&(pairing){three_mlps, 2, (const char *const[]){"", "1", "1.0", "2", NULL}}));
    ok(compare(&(pairing){block, 3, (const char *const[]){"", "attention", "attention.query", "up", NULL}}));
}

/* ---- kept memory ---- */

static rsh_status bytes_kept(bool again, uint64_t *kept) {
    rsh_module *m = NULL;
    rsh_value *x = NULL, *y = NULL;
    TRY(three_mlps(&m));
    if (again) TRY(rsh_recompute(m));
    TRY(make_value(RSH_F32, 2, (int64_t[]){64, WIDTH}, 5, true, &x));
    uint64_t before = rsh_alloc_get_stats().data_bytes;
    TRY(rsh_module_forward(m, x, &y));
    *kept = rsh_alloc_get_stats().data_bytes - before;
    rsh_value_free(x), rsh_value_free(y);
    rsh_module_free(m);
    return RSH_OK;
}

static void nothing_but_inputs_and_outputs_is_kept(void **state) {
    (void)state;
    uint64_t plain = 0, again = 0, output = 64 * WIDTH * sizeof(float), slack = 4096;
    ok(bytes_kept(false, &plain));
    ok(bytes_kept(true, &again));
    assert_true(plain >= 3 * 4 * output);
    assert_in_range(again, output, output + slack);
}

/* ---- a module that counts its calls, and fails on demand ---- */

typedef struct counting {
    int runs, fail_in_run, extra_in_run;
    bool training[8];
} counting;

static rsh_status counting_forward(rsh_module *m, rsh_value *const *in, rsh_value **out) {
    counting *c = *(counting **)rsh_module_state(m);
    rsh_value *a = NULL;
    c->training[c->runs % 8] = rsh_module_training(m);
    c->runs++;
    if (c->runs == c->fail_in_run) return rsh_fail(RSH_EIO, "the second run fails");
    if (c->runs == c->extra_in_run) return rsh_nn_neg(in[0], out);
    TRY(rsh_nn_exp(in[0], &a));
    rsh_status st = rsh_nn_mul(a, in[1] ? in[1] : in[0], out);
    rsh_value_free(a);
    return st;
}
static const rsh_module_kind counting_kind = {"Counting", 2, 1, NULL, counting_forward, sizeof(counting *), NULL};

typedef struct scene {
    counting c;
    rsh_module *m;
    rsh_value *x, *y, *loss;
} scene;

static void set_scene(scene *s) {
    counting *c = &s->c;
    ok(rsh_module_new(&counting_kind, &c, &s->m));
    ok(rsh_recompute(s->m));
    ok(make_value(RSH_F64, 1, (int64_t[]){5}, 9, true, &s->x));
    ok(rsh_module_forward(s->m, s->x, &s->y));
    ok(rsh_nn_sum(s->y, 0, NULL, false, &s->loss));
    assert_int_equal(s->c.runs, 1);
}
static void end_scene(scene *s) {
    rsh_value_free(s->x), rsh_value_free(s->y), rsh_value_free(s->loss);
    rsh_module_free(s->m);
    assert_int_equal(rsh_saved_hooks_depth(), 0);
    assert_true(rsh_grad_enabled());
}

static void forward_runs_once_more_in_every_backward(void **state) {
    (void)state;
    scene s = {.m = NULL};
    set_scene(&s);
    ok(rsh_backward(s.loss, NULL, RSH_RETAIN_GRAPH));
    assert_int_equal(s.c.runs, 2);
    ok(rsh_backward(s.loss, NULL, RSH_RETAIN_GRAPH));
    assert_int_equal(s.c.runs, 3);
    for (int i = 0; i < 5; i++) { /* d(x exp x) = (1 + x) exp x, twice */
        double x = at(rsh_value_tensor(s.x), i);
        assert_true(fabs(at(rsh_value_tensor(rsh_value_grad(s.x)), i) - 2 * (1 + x) * exp(x)) < 1e-12);
    }
    end_scene(&s);
}

static void without_recording_nothing_is_kept_or_run_again(void **state) {
    (void)state;
    scene s = {.m = NULL};
    rsh_value *y = NULL;
    set_scene(&s);
    bool was = rsh_grad_enable(false);
    ok(rsh_module_forward(s.m, s.x, &y));
    rsh_grad_enable(was);
    assert_false(rsh_value_requires_grad(y));
    rsh_value_free(y);
    end_scene(&s);
    assert_int_equal(s.c.runs, 2);
}

static void the_second_run_is_in_the_training_mode_of_the_first(void **state) {
    (void)state;
    scene s = {.m = NULL};
    set_scene(&s);
    rsh_module_train(s.m, false);
    ok(rsh_backward(s.loss, NULL, 0));
    assert_true(s.c.runs == 2 && s.c.training[0] && s.c.training[1]);
    assert_false(rsh_module_training(s.m));
    end_scene(&s);
}

static void fails(scene *s, rsh_status expected, const char *text) {
    assert_int_equal(rsh_backward(s->loss, NULL, 0), expected);
    if (!strstr(rsh_error_detail(), text)) fail_msg("%s: no \"%s\" in it", rsh_error_detail(), text);
    assert_null(rsh_value_grad(s->x));
    end_scene(s);
}

static void what_is_wrong_in_the_second_run_fails_the_backward(void **state) {
    (void)state;
    scene failing = {.c.fail_in_run = 2}, shorter = {.c.extra_in_run = 2}, changed = {.m = NULL};
    set_scene(&failing);
    fails(&failing, RSH_EIO, "the second run fails");
    set_scene(&shorter);
    fails(&shorter, RSH_ERUNTIME, "saved 0 tensors, the first run 3");
    set_scene(&changed);
    ok(rsh_math_fill_number(rsh_value_tensor(changed.x), 1));
    fails(&changed, RSH_ERUNTIME, "has been modified");
}

static void a_parameter_that_has_changed_is_an_error(void **state) {
    (void)state;
    rsh_module *m = NULL;
    rsh_value *x = NULL, *loss = NULL, *weight = NULL;
    ok(rsh_linear_new(4, 4, false, RSH_F32, &m));
    ok(rsh_recompute(m));
    ok(make_value(RSH_F32, 2, (int64_t[]){4, 4}, 9, true, &x));
    ok(forward_loss(m, x, &loss));
    ok(rsh_module_parameter(m, "weight", &weight));
    ok(rsh_math_fill_number(rsh_value_tensor(weight), 1));
    assert_int_equal(rsh_backward(loss, NULL, 0), RSH_ERUNTIME);
    assert_non_null(strstr(rsh_error_detail(), "Linear: cannot recompute: a parameter was modified"));
    rsh_value_free(x), rsh_value_free(loss);
    rsh_module_free(m);
}

static void a_forward_that_fails_leaves_no_hooks(void **state) {
    (void)state;
    counting c = {.fail_in_run = 1}, *at_c = &c;
    rsh_module *m = NULL;
    rsh_value *x = NULL, *y = NULL;
    ok(rsh_module_new(&counting_kind, &at_c, &m));
    ok(rsh_recompute(m));
    ok(make_value(RSH_F64, 1, (int64_t[]){5}, 9, true, &x));
    assert_int_equal(rsh_module_forward(m, x, &y), RSH_EIO);
    assert_int_equal(rsh_saved_hooks_depth(), 0);
    ok(rsh_saved_hooks_disable("not here"));
    assert_int_equal(rsh_module_forward(m, x, &y), RSH_ERUNTIME);
    ok(rsh_saved_hooks_disable(NULL));
    rsh_value_free(x);
    rsh_module_free(m);
}

/* ---- inputs are saved through the enclosing pair of hooks ---- */

typedef struct watch {
    int packed, unpacked;
    const rsh_value *seen[4];
} watch;
static rsh_status watch_pack(void *ctx, rsh_value *v, void **packed) {
    watch *w = ctx;
    if (w->packed < 4) w->seen[w->packed] = v;
    w->packed++;
    *packed = NULL;
    return rsh_value_detach(v, (rsh_value **)packed);
}
static rsh_status watch_unpack(void *ctx, void *packed, rsh_value **out) {
    ((watch *)ctx)->unpacked++;
    return rsh_value_detach(packed, out);
}
static void watch_release(void *ctx, void *packed) {
    (void)ctx;
    rsh_value_free(packed);
}

static void a_pair_around_sees_the_inputs_alone(void **state) {
    (void)state;
    watch w = {.packed = 0};
    scene s = {.m = NULL};
    ok(rsh_saved_hooks_push(
        &(rsh_saved_hooks){.pack = watch_pack, .unpack = watch_unpack, .release = watch_release, .ctx = &w}));
    set_scene(&s);
    ok(rsh_saved_hooks_pop());
    assert_int_equal(w.packed, 1);
    assert_ptr_equal(w.seen[0], s.x);
    ok(rsh_backward(s.loss, NULL, 0));
    assert_int_equal(w.unpacked, 1);
    end_scene(&s);
}

/* ---- sharded layers in the module ---- */

/* Makes a Linear cut along its outputs, the selection of this rank's columns, and ReLU. */
static rsh_status sharded_pair(bool again, rsh_module **out) {
    rsh_module *part[2];
    rsh_spec *spec = NULL;
    rsh_random_seed(3);
    TRY(rsh_linear_new(WIDTH, 12, true, RSH_F64, &part[0]));
    TRY(rsh_relu_new(&part[1]));
    TRY(rsh_spec_chunk_ranks(0, rsh_group_size(NULL), NULL, &spec));
    TRY(rsh_shard_parameter(part[0], "weight", spec, 0, NULL));
    rsh_spec_free(spec);
    TRY(sequence(2, part, out));
    return again ? rsh_recompute(*out) : RSH_OK;
}

static rsh_status sharded_step(rsh_module *m, rsh_value *x) {
    rsh_value *y = NULL, *mine = NULL, *loss = NULL;
    TRY(rsh_module_forward(m, x, &y));
    TRY(rsh_value_to_local(y, &mine));
    TRY(rsh_nn_sum(mine, 0, NULL, false, &loss));
    rsh_status st = rsh_backward(loss, NULL, 0);
    rsh_value_free(y), rsh_value_free(mine), rsh_value_free(loss);
    return st;
}

static rsh_status sharded_trial(void *ctx) {
    rsh_module *m[2] = {NULL, NULL};
    rsh_value *x[2] = {NULL, NULL};
    (void)ctx;
    for (int i = 0; i < 2; i++) {
        TRY(sharded_pair(i, &m[i]));
        TRY(make_value(RSH_F64, 2, (int64_t[]){3 + rsh_group_rank(NULL), WIDTH}, 7, true, &x[i]));
        TRY(sharded_step(m[i], x[i]));
    }
    TRY(same_gradients(m[0], m[1], x[0], x[1]));
    for (int i = 0; i < 2; i++) rsh_value_free(x[i]), rsh_module_free(m[i]);
    return RSH_OK;
}

static void sharded_layers_are_run_again_on_all_ranks(void **state) {
    (void)state;
    for (int n = 1; n <= 4; n++) run_groups(n, sharded_trial, NULL);
}

/* Only the last rank fails in its second run, after the layers that move elements. */
static rsh_status failing_trial(void *ctx) {
    (void)ctx;
    bool last = rsh_group_rank(NULL) == rsh_group_size(NULL) - 1;
    counting c = {.fail_in_run = last ? 2 : 0}, *at_c = &c;
    rsh_module *part[2], *m = NULL;
    rsh_value *x = NULL;
    TRY(sharded_pair(false, &part[0]));
    TRY(rsh_module_new(&counting_kind, &at_c, &part[1]));
    TRY(sequence(2, part, &m));
    TRY(rsh_recompute(m));
    TRY(make_value(RSH_F64, 2, (int64_t[]){3, WIDTH}, 7, true, &x));
    CHECK_STATUS(RSH_EIO, sharded_step(m, x));
    CHECK(strstr(rsh_error_detail(), "the second run fails"));
    CHECK(!rsh_value_grad(x) && rsh_saved_hooks_depth() == 0);
    TRY(rsh_comm_barrier(rsh_group_comm(NULL)));
    rsh_value_free(x);
    rsh_module_free(m);
    return RSH_OK;
}

static void a_second_run_that_fails_on_one_rank_fails_on_all(void **state) {
    (void)state;
    for (int n = 1; n <= 4; n++) run_groups(n, failing_trial, NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradients_are_the_same_bits_with_and_without),
        cmocka_unit_test(modules_that_recompute_may_be_nested),
        cmocka_unit_test(nothing_but_inputs_and_outputs_is_kept),
        cmocka_unit_test(forward_runs_once_more_in_every_backward),
        cmocka_unit_test(without_recording_nothing_is_kept_or_run_again),
        cmocka_unit_test(the_second_run_is_in_the_training_mode_of_the_first),
        cmocka_unit_test(what_is_wrong_in_the_second_run_fails_the_backward),
        cmocka_unit_test(a_parameter_that_has_changed_is_an_error),
        cmocka_unit_test(a_forward_that_fails_leaves_no_hooks),
        cmocka_unit_test(a_pair_around_sees_the_inputs_alone),
        cmocka_unit_test(sharded_layers_are_run_again_on_all_ranks),
        cmocka_unit_test(a_second_run_that_fails_on_one_rank_fails_on_all),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
