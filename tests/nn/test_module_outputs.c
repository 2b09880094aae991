/* Module outputs: hooks that reshard and collect outputs; gradients of parameters that are whole on every rank. */
#include "two_layers.h"

/* ---- outputs ---- */

static rsh_status give_sharded(rsh_module *m, rsh_value *const *in, rsh_value **out) {
    (void)m;
    *out = rsh_value_hold(in[0]);
    return RSH_OK;
}
static const rsh_module_kind passing = {.name = "Passing", .nin = 1, .nout = 1, .forward = give_sharded};

static rsh_status numbers_on(rsh_comm *comm, const char *text, rsh_value **out) {
    rsh_layout *l = NULL;
    rsh_sharded *s = NULL;
    TRY(rsh_layout_parse(text, &l));
    TRY(rsh_sharded_zeros(comm, l, &s));
    TRY(rsh_sharded_normal(s, 21));
    rsh_layout_free(l);
    return rsh_value_adopt_sharded(s, false, out);
}

static rsh_status resharded(void *ctx) { /* H1 */
    (void)ctx;
    rsh_comm *comm = rsh_group_comm(NULL);
    rsh_module *m = NULL;
    rsh_spec *spec = NULL;
    rsh_value *x = NULL, *y = NULL, *plain = NULL, *same = NULL;
    rsh_tensor *a = NULL, *b = NULL;
    TRY(rsh_module_new(&passing, NULL, &m));
    TRY(chunks(1, 4, (const int[]){2, 3, 1, 0}, &spec));
    TRY(rsh_reshard_output(m, spec));
    TRY(numbers_on(comm, "f32[24/x, 12] on x=4@[0,1,3,2]", &x));
    TRY(rsh_module_forward(m, x, &y));
    CHECK(!strcmp(rsh_layout_text(rsh_value_layout(y)), "f32[24, 12/x] on x=4@[2,3,1,0]"));
    CHECK(rsh_tensor_shape(rsh_value_tensor(y))[0] == 24 && rsh_tensor_shape(rsh_value_tensor(y))[1] == 3);
    TRY(whole_of(x, &a));
    TRY(whole_of(y, &b));
    CHECK_CLOSE(a, b, 0.0);
    CHECK(
        !strcmp(rsh_layout_text(rsh_value_layout(x)), "f32[24/x, 12] on x=4@[0,1,3,2]")); /* the source is unchanged */
    TRY(make_value(RSH_F32, 1, (const int64_t[]){5}, 1, false, &plain));
    TRY(rsh_module_forward(m, plain, &same));
    CHECK(same == plain); /* other outputs are not changed */
    rsh_tensor_free(a), rsh_tensor_free(b);
    rsh_value_free(x), rsh_value_free(y), rsh_value_free(plain), rsh_value_free(same);
    rsh_module_free(m);
    rsh_spec_free(spec);
    return RSH_OK;
}
static void test_reshard_output(void **state) {
    (void)state;
    run_groups(4, resharded, NULL);
}

static rsh_status collect_shape(rsh_module *m, const char *text, int ndim, const int64_t *size) {
    rsh_value *x = NULL, *y = NULL;
    TRY(numbers_on(rsh_group_comm(NULL), text, &x));
    TRY(rsh_module_forward(m, x, &y));
    CHECK(!rsh_value_sharded(y) && rsh_value_ndim(y) == ndim);
    for (int d = 0; d < ndim; d++) CHECK(rsh_value_shape(y)[d] == size[d]);
    rsh_tensor *flat = NULL;
    TRY(rsh_tensor_view(rsh_value_tensor(y), 0, rsh_value_ndim(x), rsh_tensor_shape(rsh_value_tensor(x)), NULL, &flat));
    CHECK_CLOSE(flat, rsh_value_tensor(x), 0.0);
    rsh_tensor_free(flat);
    rsh_value_free(x), rsh_value_free(y);
    return RSH_OK;
}

static rsh_status collected(void *ctx) { /* H2, B-15: a dim of length 1 is dropped on all ranks or on none */
    (void)ctx;
    rsh_module *m = NULL;
    int me = rsh_group_rank(NULL);
    TRY(rsh_module_new(&passing, NULL, &m));
    TRY(rsh_collect_local_shard(m));
    TRY(collect_shape(m, "f32[23/x, 15] on x=4@[0,1,3,2]", 2, (const int64_t[]){me == 2 ? 5 : 6, 15}));
    TRY(collect_shape(m, "f32[4/x, 16] on x=4", 1, (const int64_t[]){16}));
    TRY(collect_shape(m, "f32[5/x, 16] on x=4", 2,
                      (const int64_t[]){me < 2 ? 2 : me == 2, 16})); /* all ranks have the same number of dims */
    rsh_value *x = NULL, *y = NULL;
    TRY(numbers_on(rsh_group_comm(NULL), "f32[4, 4] boxes 0:[0:4,0:2] 0:[0:4,2:4]", &x));
    CHECK_STATUS(RSH_EUNSUP, rsh_module_forward(m, x, &y));
    rsh_value_free(x);
    rsh_module_free(m);
    return RSH_OK;
}
static void the_local_shard_is_collected(void **state) {
    (void)state;
    run_groups(4, collected, NULL);
}

/* ---- gradients of whole parameters ---- */

static rsh_status synced(void *ctx) {
    (void)ctx;
    int n = rsh_group_size(NULL), me = rsh_group_rank(NULL);
    rsh_module *m = NULL, *whole = NULL;
    rsh_value *all = NULL, *mine = NULL, *y = NULL, *loss = NULL;
    TRY(make_mlp((const int64_t[]){4, 6, 3}, RSH_F64, &m));
    TRY(make_mlp((const int64_t[]){4, 6, 3}, RSH_F64, &whole));
    TRY(make_value(RSH_F64, 2, (const int64_t[]){2 * n, 4}, 8, false, &all));
    TRY(rsh_nn_narrow(all, 0, 2 * me, 2, &mine));
    TRY(rsh_module_forward(m, mine, &y));
    TRY(squared_loss(y, &loss));
    TRY(rsh_backward(loss, NULL, 0));
    rsh_value_free(y), rsh_value_free(loss);
    TRY(rsh_module_forward(whole, all, &y));
    TRY(squared_loss(y, &loss));
    TRY(rsh_backward(loss, NULL, 0));
    if (me == n - 1 && n > 1) { /* a rank without a gradient contributes zeros */
        rsh_value *b = NULL;
        TRY(parameter(m, "fc2.bias", &b));
        TRY(rsh_value_set_grad(b, NULL));
    }
    CHECK_STATUS(RSH_EVALUE, rsh_module_sync_grads(m, NULL, RSH_OP_MAX));
    TRY(rsh_module_sync_grads(m, NULL, RSH_OP_SUM));
    rsh_value *a = NULL, *b = NULL;
    TRY(parameter(m, "fc1.weight", &a));
    TRY(parameter(whole, "fc1.weight", &b));
    CHECK_CLOSE(rsh_value_tensor(rsh_value_grad(a)), rsh_value_tensor(rsh_value_grad(b)), 1e-12);
    TRY(parameter(m, "fc2.bias", &a));
    CHECK(rsh_value_grad(a));
    rsh_value_free(all), rsh_value_free(mine), rsh_value_free(y), rsh_value_free(loss);
    rsh_module_free(m), rsh_module_free(whole);
    return RSH_OK;
}
static void gradients_of_whole_parameters_are_summed_over_ranks(void **state) {
    (void)state;
    for (int n = 1; n <= 4; n++) run_groups(n, synced, NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reshard_output),
        cmocka_unit_test(the_local_shard_is_collected),
        cmocka_unit_test(gradients_of_whole_parameters_are_summed_over_ranks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
