/* Slots of rsh_input_reshard: which tensors are cut, how they are restored, and when the hooks are pushed. */
#include "probes.h"

/* Tests one tensor of a given size and dtype; at most the largest chunk is kept. */
static rsh_status size_trial(rsh_mesh *mesh, rsh_dtype dtype, int ndim, const int64_t *shape, int dim) {
    rsh_input_reshard_stats stats = {0};
    rsh_input_reshard_opts opts = {sizeof opts, .plain_is_replicated = true, .stats = &stats};
    probe p = {.n = 0};
    rsh_module *m = NULL;
    rsh_value *v = NULL;
    rsh_tensor *t = NULL;
    int64_t count = 1, w = rsh_mesh_size(mesh);
    int cut = dim < 0 ? dim + ndim : dim;
    TRY(rsh_tensor_empty(dtype, ndim, shape, &t));
    for (int d = 0; d < ndim; d++) count *= shape[d];
    unsigned char *bytes = rsh_tensor_data(t);
    for (size_t i = 0; i < (size_t)count * rsh_dtype_size(dtype); i++) bytes[i] = i % 50;
    TRY(rsh_value_adopt_tensor(t, false, &v));
    TRY(probe_new(&p, mesh, dim, &opts, &m));
    TRY(probe_call(m, 1, &v));
    bool expected = w > 1 && cut >= 0 && cut < ndim && count >= w;
    CHECK(stats.cut == expected && stats.left == (w > 1 && !expected));
    if (expected) {
        uint64_t share = (uint64_t)(count / shape[cut] * ceiling(shape[cut], w)) * rsh_dtype_size(dtype);
        CHECK(stats.bytes_kept <= share && stats.bytes_whole == (uint64_t)count * rsh_dtype_size(dtype));
    }
    TRY(comes_back(p.slot[0], v));
    TRY(comes_back(p.slot[0], v)); /* as in a second, retained backward */
    CHECK(stats.gathers == (expected ? 2 : 0));
    probe_end(&p);
    rsh_value_free(v);
    rsh_module_free(m);
    return RSH_OK;
}

static rsh_status sizes_trial(void *ctx) {
    rsh_mesh *mesh = NULL;
    (void)ctx;
    TRY(line(&mesh));
    for (int dim = -1; dim < 2; dim++)
        for (int64_t n = 1; n < 10; n++) {
            TRY(size_trial(mesh, RSH_F32, 1, (int64_t[]){n}, dim));
            TRY(size_trial(mesh, RSH_I64, 2, (int64_t[]){n, 4}, dim));
            TRY(size_trial(mesh, RSH_BOOL, 2, (int64_t[]){1, n}, dim));
            TRY(size_trial(mesh, RSH_F64, 3, (int64_t[]){2, n, 3}, dim));
        }
    TRY(size_trial(mesh, RSH_F32, 0, NULL, 0));
    TRY(size_trial(mesh, RSH_F32, 0, NULL, -1));
    TRY(size_trial(mesh, RSH_F32, 2, (int64_t[]){0, 4}, 0));
    rsh_mesh_free(mesh);
    return RSH_OK;
}
static void tensors_of_all_sizes_come_back(void **state) {
    (void)state;
    run_all(sizes_trial);
}

/* ---- which tensors ---- */

static rsh_status transposed(rsh_value **out) {
    rsh_value *v = NULL;
    TRY(make_value(RSH_F32, 2, (int64_t[]){6, 9}, 2, false, &v));
    rsh_status st = rsh_nn_transpose(v, 0, 1, out);
    rsh_value_free(v);
    return st;
}

/* A transposed tensor is restored as transposed, and a tensor that is saved three times is cut once. */
static rsh_status sharing_trial(void *ctx) {
    rsh_input_reshard_stats stats = {0};
    rsh_input_reshard_opts opts = {sizeof opts, .plain_is_replicated = true, .stats = &stats};
    probe p = {.n = 0};
    rsh_mesh *mesh = NULL;
    rsh_module *m = NULL;
    rsh_value *v = NULL, *back = NULL;
    (void)ctx;
    TRY(line(&mesh));
    TRY(probe_new(&p, mesh, 0, &opts, &m));
    TRY(transposed(&v));
    TRY(probe_call(m, 3, (rsh_value *[]){v, v, v}));
    if (rsh_mesh_size(mesh) > 1) CHECK(stats.cut == 1 && stats.shared == 2 && stats.left == 0);
    TRY(rsh_saved_read(p.slot[0], &back));
    CHECK(rsh_tensor_strides(rsh_value_tensor(back))[0] == 1 && rsh_tensor_strides(rsh_value_tensor(back))[1] == 9);
    rsh_value_free(back);
    TRY(comes_back(p.slot[1], v));
    TRY(comes_back(p.slot[2], v));
    if (rsh_mesh_size(mesh) > 1) CHECK(stats.gathers == 1);
    probe_end(&p);
    rsh_value_free(v);
    rsh_module_free(m);
    rsh_mesh_free(mesh);
    return RSH_OK;
}
static void slots_of_one_tensor_share_a_chunk_and_a_gather(void **state) {
    (void)state;
    run_all(sharing_trial);
}

/* A parameter, a frozen parameter, and a tensor below the threshold are kept whole. */
static rsh_status left_trial(void *ctx) {
    rsh_input_reshard_stats stats = {0};
    rsh_input_reshard_opts opts = {sizeof opts, .plain_is_replicated = true, .threshold = 65, .stats = &stats};
    probe p = {.n = 0};
    rsh_mesh *mesh = NULL;
    rsh_module *m = NULL;
    rsh_value *leaf = NULL, *frozen = NULL, *small = NULL, *large = NULL;
    (void)ctx;
    TRY(line(&mesh));
    TRY(probe_new(&p, mesh, 0, &opts, &m));
    TRY(make_value(RSH_F32, 2, (int64_t[]){10, 10}, 2, true, &leaf));
    TRY(make_value(RSH_F32, 2, (int64_t[]){10, 10}, 2, false, &frozen));
    TRY(make_value(RSH_F32, 2, (int64_t[]){8, 8}, 2, false, &small));
    TRY(make_value(RSH_F32, 2, (int64_t[]){13, 5}, 2, false, &large));
    TRY(rsh_module_set_parameter(m, "frozen", frozen));
    TRY(probe_call(m, 3, (rsh_value *[]){leaf, frozen, small}));
    if (rsh_mesh_size(mesh) > 1) CHECK(stats.cut == 0 && stats.left == 3);
    probe_end(&p);
    TRY(probe_call(m, 1, &large));
    if (rsh_mesh_size(mesh) > 1) CHECK(stats.cut == 1 && stats.left == 3);
    probe_end(&p);
    rsh_value_free(leaf), rsh_value_free(frozen), rsh_value_free(small), rsh_value_free(large);
    rsh_module_free(m);
    rsh_mesh_free(mesh);
    return RSH_OK;
}
static void parameters_and_small_tensors_are_left(void **state) {
    (void)state;
    run_all(left_trial);
}

/* ---- DTensors ---- */

static rsh_status dtensor(rsh_mesh *mesh, rsh_place place, rsh_value **out) {
    rsh_value *v = NULL;
    TRY(make_value(RSH_F32, 2, (int64_t[]){7, 3}, 6, false, &v));
    rsh_status st = rsh_dtensor_distribute(rsh_value_tensor(v), false, mesh, 1, &place, RSH_SOURCE_OWN, out);
    rsh_value_free(v);
    return st;
}

static rsh_status dtensor_back(const rsh_saved *s, rsh_mesh *mesh, const rsh_value *v) {
    rsh_value *back = NULL;
    rsh_place was, is;
    TRY(comes_back(s, v));
    TRY(rsh_saved_read(s, &back));
    CHECK(rsh_dtensor_mesh(back) == mesh);
    TRY(rsh_dtensor_places(v, &was));
    TRY(rsh_dtensor_places(back, &is));
    CHECK(rsh_places_equal(2, 1, &was, &is));
    rsh_value_free(back);
    return RSH_OK;
}

static rsh_status dtensor_trial(void *ctx) {
    rsh_input_reshard_stats stats = {0};
    rsh_input_reshard_opts opts = {sizeof opts, .stats = &stats};
    probe p = {.n = 0};
    rsh_mesh *mesh = NULL;
    rsh_module *m = NULL;
    rsh_value *in[3] = {NULL, NULL, NULL};
    (void)ctx;
    TRY(line(&mesh));
    TRY(dtensor(mesh, rsh_place_replicate(), &in[0]));
    TRY(dtensor(mesh, rsh_place_shard(0), &in[1]));
    rsh_place partial = rsh_place_partial(RSH_OP_SUM);
    TRY(rsh_dtensor_full(mesh, 1, &partial, RSH_F32, 2, (int64_t[]){8, 8}, 1, &in[2]));
    TRY(probe_new(&p, mesh, 0, &opts, &m));
    TRY(probe_call(m, 3, in));
    if (rsh_mesh_size(mesh) > 1) {
        CHECK(stats.cut == 1 && stats.left == 2);
        CHECK(stats.bytes_kept <= (uint64_t)ceiling(7, rsh_mesh_size(mesh)) * 3 * sizeof(float));
    }
    for (int i = 0; i < 3; i++) TRY(dtensor_back(p.slot[i], mesh, in[i]));
    probe_end(&p);
    for (int i = 0; i < 3; i++) rsh_value_free(in[i]);
    rsh_module_free(m);
    rsh_mesh_free(mesh);
    return RSH_OK;
}
static void dtensors_that_are_replicated_are_cut_and_others_left(void **state) {
    (void)state;
    run_all(dtensor_trial);
}

/* A DTensor on another mesh with the same ranks and more dims is kept whole. */
static rsh_status other_mesh_trial(void *ctx) {
    rsh_input_reshard_stats stats = {0};
    rsh_input_reshard_opts opts = {sizeof opts, .stats = &stats};
    probe p = {.n = 0};
    rsh_mesh *mesh = NULL, *grid = NULL;
    rsh_module *m = NULL;
    rsh_value *v = NULL, *whole = NULL;
    const rsh_place places[2] = {rsh_place_replicate(), rsh_place_replicate()};
    (void)ctx;
    TRY(line(&mesh));
    TRY(rsh_mesh_new(rsh_group_comm(NULL), 2, (int64_t[]){1, rsh_group_size(NULL)}, NULL, NULL, &grid));
    TRY(make_value(RSH_F32, 2, (int64_t[]){7, 3}, 6, false, &v));
    TRY(rsh_dtensor_distribute(rsh_value_tensor(v), false, grid, 2, places, RSH_SOURCE_OWN, &whole));
    TRY(probe_new(&p, mesh, 0, &opts, &m));
    TRY(probe_call(m, 1, &whole));
    CHECK(stats.cut == 0 && stats.left == (rsh_mesh_size(mesh) > 1));
    TRY(comes_back(p.slot[0], whole));
    probe_end(&p);
    rsh_value_free(v), rsh_value_free(whole);
    rsh_module_free(m);
    rsh_mesh_free(grid), rsh_mesh_free(mesh);
    return RSH_OK;
}
static void a_dtensor_on_another_mesh_is_left(void **state) {
    (void)state;
    run_all(other_mesh_trial);
}

/* An op saves its own output, which is kept whole: no reference cycle must keep it alive after the graph is freed. */
static rsh_status circle_trial(void *ctx) {
    rsh_mesh *mesh = NULL;
    rsh_module *m = NULL, *part[1] = {NULL};
    (void)ctx;
    TRY(line(&mesh));
    TRY(rsh_relu_new(&part[0]));
    TRY(sequence(1, part, &m));
    TRY(rsh_input_reshard(m, mesh, 0, NULL));
    uint64_t before = rsh_alloc_get_stats().data_bytes;
    for (int i = 0; i < 3; i++) {
        rsh_value *x = NULL, *y = NULL;
        TRY(make_value(RSH_F32, 2, (int64_t[]){100, 50}, 6, true, &x));
        TRY(rsh_module_forward(m, x, &y));
        rsh_value_free(x), rsh_value_free(y);
    }
    CHECK(rsh_alloc_get_stats().data_bytes == before);
    rsh_module_free(m);
    rsh_mesh_free(mesh);
    return RSH_OK;
}
static void an_output_that_is_saved_goes_with_its_graph(void **state) {
    (void)state;
    run_all(circle_trial);
}

/* ---- around forward ---- */

static rsh_status fails_before(void *ctx, rsh_module *m, rsh_value **in) {
    (void)ctx, (void)m, (void)in;
    return rsh_fail(RSH_EIO, "a hook fails");
}

static rsh_status failing_trial(void *ctx) {
    rsh_input_reshard_opts opts = {sizeof opts, .plain_is_replicated = true};
    probe p = {.fail = true};
    rsh_mesh *mesh = NULL;
    rsh_module *m = NULL, *outer = NULL;
    rsh_value *x = NULL;
    int64_t id = 0;
    (void)ctx;
    TRY(line(&mesh));
    TRY(make_value(RSH_F32, 1, (int64_t[]){9}, 5, false, &x));
    TRY(rsh_module_new(&probe_kind, &(probe *){&p}, &m));
    TRY(rsh_module_add_pre_hook(m, fails_before, NULL, NULL, &id));
    TRY(rsh_input_reshard(m, mesh, 0, &opts));
    TRY(rsh_sequential_new(1, &m, &outer));
    TRY(rsh_input_reshard(outer, mesh, 0, &opts));
    CHECK_STATUS(RSH_EIO, probe_call(outer, 1, &x)); /* the inner pair was not pushed */
    CHECK(rsh_saved_hooks_depth() == 0);
    TRY(rsh_module_remove_hook(m, id));
    CHECK_STATUS(RSH_EIO, probe_call(outer, 1, &x));
    CHECK(rsh_saved_hooks_depth() == 0 && strstr(rsh_error_detail(), "the probe fails"));
    p.fail = false;
    TRY(probe_call(outer, 1, &x));
    CHECK(rsh_saved_hooks_depth() == 0);
    for (int i = 0; i < p.n; i++) TRY(comes_back(p.slot[i], x));
    probe_end(&p);
    rsh_value_free(x);
    rsh_module_free(m), rsh_module_free(outer);
    rsh_mesh_free(mesh);
    return RSH_OK;
}
static void a_forward_that_fails_pops_its_pair_alone(void **state) {
    (void)state;
    run_all(failing_trial);
}

/* A module calls itself once; the inner call fails before its pair is pushed, and the outer call continues. */
static rsh_status fails_within(void *ctx, rsh_module *m, rsh_value **in) {
    (void)m, (void)in;
    return (*(int *)ctx)++ ? rsh_fail(RSH_EIO, "the inner call fails") : RSH_OK;
}
static rsh_status itself_forward(rsh_module *m, rsh_value *const *in, rsh_value **out) {
    int depth = rsh_saved_hooks_depth();
    CHECK_STATUS(RSH_EIO, rsh_module_forward(m, in[0], out));
    CHECK(rsh_saved_hooks_depth() == depth);
    *out = rsh_value_hold(in[0]);
    return RSH_OK;
}
static const rsh_module_kind itself_kind = {"Itself", 1, 1, NULL, itself_forward, 0, NULL};

static rsh_status itself_trial(void *ctx) {
    rsh_mesh *mesh = NULL;
    rsh_module *m = NULL;
    rsh_value *x = NULL;
    int calls = 0;
    (void)ctx;
    TRY(line(&mesh));
    TRY(make_value(RSH_F32, 1, (int64_t[]){9}, 5, false, &x));
    TRY(rsh_module_new(&itself_kind, NULL, &m));
    TRY(rsh_module_add_pre_hook(m, fails_within, &calls, NULL, NULL));
    TRY(rsh_input_reshard(m, mesh, 0, NULL));
    TRY(probe_call(m, 1, &x));
    CHECK(calls == 2 && rsh_saved_hooks_depth() == 0);
    rsh_value_free(x);
    rsh_module_free(m);
    rsh_mesh_free(mesh);
    return RSH_OK;
}
static void an_inner_call_that_pushed_nothing_pops_nothing(void **state) {
    (void)state;
    run_all(itself_trial);
}

/* ---- errors ---- */

static rsh_status check_trial(void *ctx) {
    rsh_input_reshard_opts opts = {sizeof opts, .plain_is_replicated = true};
    bool differ = *(bool *)ctx && rsh_group_size(NULL) > 1;
    probe p = {.n = 0};
    rsh_mesh *mesh = NULL;
    rsh_module *m = NULL;
    rsh_value *x = NULL;
    TRY(line(&mesh));
    TRY(make_value(RSH_F32, 2, (int64_t[]){5, 4}, 1, false, &x));
    bool last = rsh_group_rank(NULL) == rsh_group_size(NULL) - 1;
    if (differ && last) ((float *)rsh_tensor_data(rsh_value_tensor(x)))[7] = 100;
    TRY(probe_new(&p, mesh, 0, &opts, &m));
    CHECK_STATUS(differ ? RSH_EVALUE : RSH_OK, probe_call(m, 1, &x));
    if (differ) CHECK(strstr(rsh_error_detail(), "differs between ranks"));
    CHECK(rsh_saved_hooks_depth() == 0);
    probe_end(&p);
    rsh_value_free(x);
    rsh_module_free(m);
    rsh_mesh_free(mesh);
    return RSH_OK;
}
static void plain_tensors_are_compared_on_demand(void **state) {
    (void)state;
    setenv("RESHARD_CHECK", "1", 1);
    for (int n = 1; n <= 4; n++) {
        run_groups(n, check_trial, &(bool){false});
        run_groups(n, check_trial, &(bool){true});
    }
    unsetenv("RESHARD_CHECK");
}

static rsh_status wrong_trial(void *ctx) {
    rsh_mesh *mesh = NULL, *flat = NULL;
    rsh_module *m = NULL;
    int64_t shape[] = {1, rsh_group_size(NULL)};
    (void)ctx;
    TRY(mlp(&m));
    TRY(line(&flat));
    TRY(rsh_mesh_new(rsh_group_comm(NULL), 2, shape, NULL, NULL, &mesh));
    CHECK_STATUS(RSH_EVALUE, rsh_input_reshard(m, mesh, 0, NULL));
    CHECK(strstr(rsh_error_detail(), "mesh must have 1 dim, got 2"));
    CHECK_STATUS(RSH_EVALUE, rsh_input_reshard(m, flat, 0, INPUT_OPTS(.threshold = -1)));
    rsh_module_free(m);
    rsh_mesh_free(mesh), rsh_mesh_free(flat);
    return RSH_OK;
}
static void a_mesh_of_two_dims_is_refused(void **state) {
    (void)state;
    run_all(wrong_trial);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tensors_of_all_sizes_come_back),
        cmocka_unit_test(slots_of_one_tensor_share_a_chunk_and_a_gather),
        cmocka_unit_test(parameters_and_small_tensors_are_left),
        cmocka_unit_test(dtensors_that_are_replicated_are_cut_and_others_left),
        cmocka_unit_test(a_dtensor_on_another_mesh_is_left),
        cmocka_unit_test(an_output_that_is_saved_goes_with_its_graph),
        cmocka_unit_test(a_forward_that_fails_pops_its_pair_alone),
        cmocka_unit_test(an_inner_call_that_pushed_nothing_pops_nothing),
        cmocka_unit_test(plain_tensors_are_compared_on_demand),
        cmocka_unit_test(a_mesh_of_two_dims_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
