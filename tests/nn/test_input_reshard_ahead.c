/* Prefetched gathers: backward starts them one op early, and all gathers that have begun end on all ranks when backward
 * ends. */
#include "probes.h"

/* ---- an op whose backward fails, or that returns no gradient ---- */

typedef struct trouble {
    bool fails, gives_nothing;
} trouble;

static rsh_status trouble_forward(rsh_grad_call *c) {
    const rsh_tensor *in = rsh_call_input(c, 0);
    rsh_tensor *t = NULL;
    TRY(rsh_tensor_view(in, 0, rsh_tensor_ndim(in), rsh_tensor_shape(in), rsh_tensor_strides(in), &t));
    return rsh_call_set_output(c, 0, t);
}
static rsh_status trouble_backward(rsh_grad_call *c) {
    const trouble *t = rsh_call_attrs(c);
    if (t->fails) return rsh_fail(RSH_EIO, "an op fails on one rank");
    return t->gives_nothing ? RSH_OK : rsh_call_pass_grad(c, 0, 0);
}
static const rsh_grad_op trouble_op = {
    .name = "trouble", .forward = trouble_forward, .backward = trouble_backward, .attr_bytes = sizeof(trouble)};

/* Two MLPs in a row, each with its own chunks, and the op between them. */
typedef struct pair {
    rsh_mesh *mesh;
    rsh_module *first, *second;
    rsh_input_reshard_stats stats;
    rsh_value *x;
} pair;

static rsh_status pair_new(pair *p, bool cut) {
    rsh_input_reshard_opts opts = {sizeof opts, .plain_is_replicated = true, .stats = &p->stats};
    TRY(line(&p->mesh));
    TRY(mlp(&p->first));
    TRY(mlp(&p->second));
    TRY(make_value(RSH_F32, 2, (int64_t[]){ROWS, WIDTH}, 5, false, &p->x));
    if (!cut) return RSH_OK;
    TRY(rsh_input_reshard(p->first, p->mesh, 0, &opts));
    return rsh_input_reshard(p->second, p->mesh, 1, &opts);
}

static void pair_free(pair *p) {
    rsh_value_free(p->x);
    rsh_module_free(p->first), rsh_module_free(p->second);
    rsh_mesh_free(p->mesh);
}

static rsh_status pair_forward(pair *p, trouble t, rsh_value **loss) {
    rsh_value *y = NULL, *z = NULL, *out = NULL, *squares = NULL;
    rsh_status st = rsh_module_forward(p->first, p->x, &y);
    if (!st) st = rsh_grad_apply(&trouble_op, &t, 1, &y, 1, &z);
    if (!st) st = rsh_module_forward(p->second, z, &out);
    if (!st) st = rsh_nn_mul(out, out, &squares);
    if (!st) st = rsh_nn_sum(squares, 0, NULL, false, loss);
    rsh_value_free(y), rsh_value_free(z), rsh_value_free(out), rsh_value_free(squares);
    return st;
}

static rsh_status weight_of(rsh_module *m, rsh_value **out) {
    rsh_module *layer = NULL;
    TRY(rsh_module_submodule(m, "0", &layer));
    return rsh_module_parameter(layer, "weight", out);
}

/* Runs a step that must succeed. */
static rsh_status pair_step(pair *p, unsigned flags, rsh_value **loss) {
    TRY(rsh_module_zero_grad(p->first));
    TRY(rsh_module_zero_grad(p->second));
    TRY(pair_forward(p, (trouble){false, false}, loss));
    return rsh_backward(*loss, NULL, flags);
}

/* ---- trials ---- */

/* All gathers are started early, even in a retained backward, and the gradients equal those of the plain model. */
static rsh_status ahead_trial(void *ctx) {
    pair p = {.mesh = NULL}, plain = {.mesh = NULL};
    rsh_value *loss = NULL, *other = NULL, *a = NULL, *b = NULL;
    (void)ctx;
    TRY(pair_new(&p, true));
    TRY(pair_new(&plain, false));
    TRY(pair_step(&p, RSH_RETAIN_GRAPH, &loss));
    TRY(pair_step(&plain, RSH_RETAIN_GRAPH, &other));
    TRY(weight_of(p.first, &a));
    TRY(weight_of(plain.first, &b));
    TRY(same_bits(rsh_value_grad(a), rsh_value_grad(b)));
    if (rsh_mesh_size(p.mesh) > 1) {
        CHECK(p.stats.cut == 4 && p.stats.gathers == 4 && p.stats.prefetches == 4);
        TRY(rsh_backward(loss, NULL, 0));
        TRY(rsh_backward(other, NULL, 0));
        CHECK(p.stats.gathers == 8 && p.stats.prefetches == 8);
        TRY(same_bits(rsh_value_grad(a), rsh_value_grad(b)));
    }
    rsh_value_free(loss), rsh_value_free(other);
    pair_free(&p), pair_free(&plain);
    return RSH_OK;
}
static void gathers_begin_one_op_ahead(void **state) {
    (void)state;
    run_all(ahead_trial);
}

/* Runs the step after a failure, in which the weight got no gradient; frees the pair. */
static rsh_status next_step_goes_well(pair *p, const rsh_value *weight) {
    rsh_value *loss = NULL;
    TRY(pair_step(p, 0, &loss));
    CHECK(rsh_value_grad(weight));
    rsh_value_free(loss);
    pair_free(p);
    return RSH_OK;
}

/* An op fails on one rank when the gather for the next op has begun: all ranks fail, and the next step succeeds. */
static rsh_status failing_trial(void *ctx) {
    pair p = {.mesh = NULL};
    rsh_value *loss = NULL, *weight = NULL;
    bool last = rsh_group_rank(NULL) == rsh_group_size(NULL) - 1;
    (void)ctx;
    TRY(pair_new(&p, true));
    TRY(pair_forward(&p, (trouble){.fails = last}, &loss));
    CHECK_STATUS(RSH_EIO, rsh_backward(loss, NULL, 0));
    CHECK(strstr(rsh_error_detail(), "an op fails on one rank"));
    TRY(weight_of(p.second, &weight));
    CHECK(!rsh_value_grad(weight));
    rsh_value_free(loss);
    return next_step_goes_well(&p, weight);
}
static void an_op_that_fails_on_one_rank_ends_what_was_begun(void **state) {
    (void)state;
    run_all(failing_trial);
}

/* The first module gets no gradient: its gathers end without being read. */
static rsh_status idle_trial(void *ctx) {
    pair p = {.mesh = NULL};
    rsh_value *loss = NULL, *weight = NULL;
    (void)ctx;
    TRY(pair_new(&p, true));
    TRY(pair_forward(&p, (trouble){.gives_nothing = true}, &loss));
    TRY(rsh_backward(loss, NULL, 0));
    TRY(weight_of(p.first, &weight));
    CHECK(!rsh_value_grad(weight));
    if (rsh_mesh_size(p.mesh) > 1) CHECK(p.stats.gathers == 2 && p.stats.prefetches == 4);
    rsh_value_free(loss);
    return next_step_goes_well(&p, weight);
}
static void an_op_without_a_gradient_ends_what_was_begun(void **state) {
    (void)state;
    run_all(idle_trial);
}

/* Memory runs out on one rank at every allocation of backward: all ranks get the same error, and the comm still
 * works. */
static rsh_status shortage_trial(void *ctx) {
    pair p = {.mesh = NULL};
    rsh_value *loss = NULL;
    rsh_status st = RSH_ENOMEM;
    bool mine = rsh_group_rank(NULL) == 1;
    (void)ctx;
    TRY(pair_new(&p, true));
    TRY(pair_step(&p, 0, &loss)); /* plans and bindings are now cached */
    rsh_value_free(loss);
    for (int64_t n = 0; st; n++) {
        TRY(rsh_module_zero_grad(p.first));
        TRY(rsh_module_zero_grad(p.second));
        TRY(pair_forward(&p, (trouble){false, false}, &loss));
        if (mine) rsh_alloc_fail_at(n);
        st = rsh_backward(loss, NULL, 0);
        rsh_alloc_fail_at(-1);
        CHECK(!st || st == RSH_ENOMEM);
        rsh_value_free(loss);
        TRY(rsh_comm_barrier(rsh_mesh_comm(p.mesh)));
    }
    pair_free(&p);
    return RSH_OK;
}
static void memory_that_runs_out_on_one_rank_fails_backward_on_all(void **state) {
    (void)state;
    for (int n = 2; n <= 3; n++) run_groups(n, shortage_trial, NULL);
}

/* Forward fails on one rank at every allocation, after it has packed fewer tensors than the others: the next step
 * succeeds. */
static rsh_status forward_trial(void *ctx) {
    pair p = {.mesh = NULL};
    rsh_value *loss = NULL;
    rsh_status st = RSH_ENOMEM;
    bool mine = rsh_group_rank(NULL) == 1;
    (void)ctx;
    TRY(pair_new(&p, true));
    for (int64_t n = 0; st; n += 7) {
        if (mine) rsh_alloc_fail_at(n);
        st = pair_forward(&p, (trouble){false, false}, &loss);
        rsh_alloc_fail_at(-1);
        CHECK(!st || mine);
        if (!st) rsh_value_free(loss);
        loss = NULL;
        st = rsh_comm_agree(rsh_mesh_comm(p.mesh), st);
        CHECK(!st || st == RSH_ENOMEM);
        TRY(pair_step(&p, 0, &loss));
        rsh_value_free(loss);
    }
    pair_free(&p);
    return RSH_OK;
}
static void a_forward_that_fails_on_one_rank_spoils_no_later_step(void **state) {
    (void)state;
    run_groups(2, forward_trial, NULL);
}

/* A graph that is freed before backward, and a recomputing module whose input is prefetched. */
static rsh_status recompute_trial(void *ctx) {
    pair p = {.mesh = NULL};
    rsh_value *loss = NULL;
    (void)ctx;
    TRY(pair_new(&p, true));
    TRY(rsh_recompute(p.first));
    TRY(rsh_recompute(p.second));
    TRY(pair_forward(&p, (trouble){false, false}, &loss));
    rsh_value_free(loss);
    loss = NULL;
    TRY(pair_step(&p, 0, &loss));
    if (rsh_mesh_size(p.mesh) > 1) CHECK(p.stats.cut == 4 && p.stats.gathers == 2 && p.stats.prefetches == 2);
    rsh_value_free(loss);
    pair_free(&p);
    return RSH_OK;
}
static void inputs_of_modules_that_recompute_are_gathered_ahead(void **state) {
    (void)state;
    run_all(recompute_trial);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gathers_begin_one_op_ahead),
        cmocka_unit_test(an_op_that_fails_on_one_rank_ends_what_was_begun),
        cmocka_unit_test(an_op_without_a_gradient_ends_what_was_begun),
        cmocka_unit_test(memory_that_runs_out_on_one_rank_fails_backward_on_all),
        cmocka_unit_test(a_forward_that_fails_on_one_rank_spoils_no_later_step),
        cmocka_unit_test(inputs_of_modules_that_recompute_are_gathered_ahead),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
