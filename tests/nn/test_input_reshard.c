/* Input reshard: models that keep chunks of saved tensors train to the same bits, and keep fewer bytes.
 *
 * Models are whole on every rank and get the same input, so plain tensors are replicated. */
#include "probes.h"

/* ---- models ---- */

static rsh_status block(rsh_module **out) {
    rsh_random_seed(4);
    return small_block(WIDTH, HIDDEN, out);
}

/* Trains two models, which must stay equal, for three steps of SGD. */
static rsh_status train_both(rsh_module *a, rsh_module *b, rsh_value *x) {
    rsh_optimizer *sgd[2] = {NULL, NULL};
    TRY(rsh_sgd_new(a, &(rsh_sgd_opts){sizeof(rsh_sgd_opts), .lr = 0.01}, &sgd[0]));
    TRY(rsh_sgd_new(b, &(rsh_sgd_opts){sizeof(rsh_sgd_opts), .lr = 0.01}, &sgd[1]));
    for (int i = 0; i < 3; i++) {
        TRY(rsh_module_zero_grad(a));
        TRY(rsh_module_zero_grad(b));
        TRY(forward_backward(a, x));
        TRY(forward_backward(b, x));
        TRY(rsh_optimizer_step(sgd[0]));
        TRY(rsh_optimizer_step(sgd[1]));
        TRY(same_models(a, b));
    }
    rsh_optimizer_free(sgd[0]), rsh_optimizer_free(sgd[1]);
    return RSH_OK;
}

/* ---- the same bits ---- */

/* In each of three steps, chunks are kept of the input and, unless the module recomputes, of the hidden layer of the
 * MLP, but of nothing else. */
static rsh_status keeps_its_share(const rsh_input_reshard_stats *s, int dim, bool again, uint64_t w) {
    uint64_t columns = again ? WIDTH : WIDTH + HIDDEN, size = 3 * sizeof(float);
    uint64_t most = again ? (uint64_t)ceiling(WIDTH, (int64_t)w)
                          : (uint64_t)(ceiling(WIDTH, (int64_t)w) + ceiling(HIDDEN, (int64_t)w));
    CHECK(s->bytes_whole == ROWS * columns * size);
    CHECK(s->bytes_kept <= (dim ? ROWS * most : (uint64_t)ceiling(ROWS, (int64_t)w) * columns) * size);
    return RSH_OK;
}

static rsh_status compare(rsh_status (*make)(rsh_module **), int ndim, int dim, bool again, int64_t cut) {
    rsh_module *plain = NULL, *other = NULL;
    rsh_mesh *mesh = NULL;
    rsh_value *x = NULL;
    rsh_input_reshard_stats stats = {0};
    TRY(line(&mesh));
    TRY(make(&plain));
    TRY(make(&other));
    TRY(make_value(RSH_F32, ndim, (int64_t[]){ROWS, ndim == 2 ? WIDTH : 5, WIDTH}, 5, false, &x));
    TRY(rsh_input_reshard(other, mesh, dim, INPUT_OPTS(.plain_is_replicated = true, .stats = &stats)));
    if (again) TRY(rsh_recompute(other));
    TRY(train_both(plain, other, x));
    if (rsh_mesh_size(mesh) > 1) CHECK(cut < 0 ? stats.cut > 20 : stats.cut == 3 * cut);
    if (rsh_mesh_size(mesh) > 1) CHECK(stats.gathers == stats.cut && stats.bytes_kept < stats.bytes_whole);
    if (rsh_mesh_size(mesh) > 1 && cut >= 0) TRY(keeps_its_share(&stats, dim, again, (uint64_t)rsh_mesh_size(mesh)));
    rsh_value_free(x);
    rsh_module_free(plain), rsh_module_free(other);
    rsh_mesh_free(mesh);
    return RSH_OK;
}

/* An MLP keeps the input, the tensor that relu needs, and the input of the second Linear. */
static rsh_status mlp_trial(void *ctx) {
    (void)ctx;
    TRY(compare(mlp, 2, 0, false, 2));
    TRY(compare(mlp, 2, 1, false, 2));
    return compare(mlp, 2, -1, false, 2);
}
static void an_mlp_trains_to_the_same_bits(void **state) {
    (void)state;
    run_all(mlp_trial);
}

static rsh_status block_trial(void *ctx) {
    (void)ctx;
    for (int dim = -1; dim < 2; dim++) TRY(compare(block, 3, dim, false, -1));
    return RSH_OK;
}
static void a_transformer_block_trains_to_the_same_bits(void **state) {
    (void)state;
    run_all(block_trial);
}

/* I1: the module recomputes, so only its input is kept, as a chunk. */
static rsh_status i1_trial(void *ctx) {
    (void)ctx;
    return compare(mlp, 2, 0, true, 1);
}
static void i1_an_mlp_that_recomputes_keeps_a_chunk_of_its_input(void **state) {
    (void)state;
    run_all(i1_trial);
}

/* I2: without a dim no hook is registered. */
static rsh_status i2_trial(void *ctx) {
    (void)ctx;
    rsh_input_reshard_stats stats = {0};
    rsh_module *m = NULL;
    rsh_mesh *mesh = NULL;
    rsh_value *x = NULL;
    TRY(line(&mesh));
    TRY(mlp(&m));
    TRY(make_value(RSH_F32, 2, (int64_t[]){ROWS, WIDTH}, 5, false, &x));
    TRY(rsh_input_reshard(m, mesh, 2, INPUT_OPTS(.plain_is_replicated = true, .stats = &stats)));
    TRY(forward_backward(m, x));
    CHECK(!stats.cut && (stats.left || rsh_mesh_size(mesh) == 1));
    rsh_value_free(x);
    rsh_module_free(m);
    rsh_mesh_free(mesh);
    return RSH_OK;
}
static void i2_tensors_without_the_dim_are_left_as_they_are(void **state) {
    (void)state;
    run_all(i2_trial);
}

/* I3: data parallel over the rows of a 2 x 2 mesh, with chunks over its columns. */
static rsh_status small_net(rsh_module **out) {
    rsh_module *part[6];
    const int64_t width[] = {5, 8, 4, 12};
    rsh_random_seed(3);
    for (int i = 0; i < 3; i++) {
        TRY(rsh_linear_new(width[i], width[i + 1], true, RSH_F64, &part[2 * i]));
        TRY(rsh_relu_new(&part[2 * i + 1]));
    }
    return sequence(6, part, out);
}

static rsh_status sum_gradient(void *ctx, const char *path, rsh_module *owner, const char *name, rsh_value *v) {
    const rsh_tensor *g = rsh_value_tensor(rsh_value_grad(v));
    double sum[128];
    (void)path, (void)owner, (void)name;
    TRY(rsh_comm_allreduce(ctx, rsh_tensor_data(g), sum, rsh_tensor_count(g), RSH_F64, RSH_OP_SUM));
    memcpy(rsh_tensor_data(g), sum, (size_t)rsh_tensor_count(g) * sizeof *sum);
    return RSH_OK;
}

static rsh_status i3_trial(void *ctx) {
    rsh_module *m[2] = {NULL, NULL};
    rsh_optimizer *adam[2] = {NULL, NULL};
    rsh_adam_opts opts = RSH_ADAM_OPTS_INIT;
    rsh_mesh *mesh = NULL, *tp = NULL;
    rsh_value *x = NULL;
    rsh_input_reshard_stats stats = {0};
    (void)ctx;
    TRY(rsh_mesh_new(rsh_group_comm(NULL), 2, (int64_t[]){2, 2}, NULL, (const char *const[]){"dp", "tp"}, &mesh));
    TRY(rsh_mesh_slice(mesh, 1, (const char *const[]){"tp"}, &tp));
    TRY(make_value(RSH_F64, 2, (int64_t[]){4, 5}, (uint64_t)rsh_mesh_coordinate(mesh)[0], false, &x));
    for (int i = 0; i < 2; i++) {
        TRY(small_net(&m[i]));
        TRY(rsh_adam_new(m[i], &opts, &adam[i]));
    }
    TRY(rsh_input_reshard(m[1], tp, 0, INPUT_OPTS(.plain_is_replicated = true, .stats = &stats)));
    for (int i = 0; i < 5; i++) {
        for (int k = 0; k < 2; k++) {
            TRY(rsh_module_zero_grad(m[k]));
            TRY(forward_backward(m[k], x));
            TRY(rsh_module_each_parameter(m[k], false, sum_gradient, rsh_mesh_dim_comm(mesh, 0)));
            TRY(rsh_optimizer_step(adam[k]));
        }
        TRY(same_models(m[0], m[1]));
    }
    CHECK(stats.cut >= 5 * 3 && 2 * stats.bytes_kept == stats.bytes_whole);
    for (int i = 0; i < 2; i++) rsh_optimizer_free(adam[i]), rsh_module_free(m[i]);
    rsh_value_free(x);
    rsh_mesh_free(tp), rsh_mesh_free(mesh);
    return RSH_OK;
}
static void i3_data_parallel_ranks_keep_chunks_over_a_slice_of_the_mesh(void **state) {
    (void)state;
    run_groups(4, i3_trial, NULL);
}

/* Without the option, tensors that differ between ranks, such as the local output of a column-wise layer, are kept
 * whole. */
static rsh_status own_trial(void *ctx) {
    rsh_input_reshard_stats stats = {0};
    rsh_input_reshard_opts opts = {sizeof opts, .stats = &stats};
    rsh_module *m = NULL, *plain = NULL, **both[] = {&m, &plain};
    rsh_mesh *mesh = NULL;
    rsh_value *x = NULL;
    (void)ctx;
    TRY(line(&mesh));
    for (int i = 0; i < 2; i++) {
        rsh_module *part[2];
        rsh_random_seed((uint64_t)rsh_group_rank(NULL) + 1); /* the columns of this rank */
        TRY(rsh_linear_new(WIDTH, 4, true, RSH_F32, &part[0]));
        TRY(rsh_relu_new(&part[1]));
        TRY(sequence(2, part, both[i]));
    }
    TRY(rsh_input_reshard(m, mesh, 0, &opts));
    TRY(make_value(RSH_F32, 2, (int64_t[]){ROWS, WIDTH}, 5, false, &x));
    TRY(train_both(plain, m, x));
    if (rsh_mesh_size(mesh) > 1) CHECK(stats.cut == 0 && stats.left > 0);
    rsh_value_free(x);
    rsh_module_free(m), rsh_module_free(plain);
    rsh_mesh_free(mesh);
    return RSH_OK;
}
static void plain_tensors_that_differ_are_left_without_the_option(void **state) {
    (void)state;
    run_all(own_trial);
}

/* If one rank changes a weight before backward, backward fails on all ranks. */
static rsh_status changed_trial(void *ctx) {
    rsh_module *m = NULL, *second = NULL;
    rsh_mesh *mesh = NULL;
    rsh_value *x = NULL, *loss = NULL, *weight = NULL;
    (void)ctx;
    TRY(line(&mesh));
    TRY(mlp(&m));
    TRY(rsh_input_reshard(m, mesh, 0, INPUT_OPTS(.plain_is_replicated = true)));
    TRY(make_value(RSH_F32, 2, (int64_t[]){ROWS, WIDTH}, 5, false, &x));
    TRY(forward_loss(m, x, &loss));
    TRY(rsh_module_submodule(m, "2", &second));
    TRY(rsh_module_parameter(second, "weight", &weight));
    if (rsh_group_rank(NULL) == rsh_group_size(NULL) - 1) rsh_tensor_bump_version(rsh_value_tensor(weight));
    CHECK_STATUS(RSH_ERUNTIME, rsh_backward(loss, NULL, 0));
    CHECK(strstr(rsh_error_detail(), "has been modified") && !rsh_value_grad(weight));
    TRY(rsh_comm_barrier(rsh_group_comm(NULL)));
    rsh_value_free(x), rsh_value_free(loss);
    rsh_module_free(m);
    rsh_mesh_free(mesh);
    return RSH_OK;
}
static void a_weight_that_one_rank_changes_fails_backward_on_all(void **state) {
    (void)state;
    run_all(changed_trial);
}

/* ---- memory ---- */

static rsh_status kept_by(rsh_mesh *mesh, bool cut, uint64_t *kept) {
    rsh_module *m = NULL;
    rsh_value *x = NULL, *loss = NULL;
    TRY(mlp(&m));
    TRY(make_value(RSH_F32, 2, (int64_t[]){400, WIDTH}, 5, false, &x));
    if (cut) TRY(rsh_input_reshard(m, mesh, 0, INPUT_OPTS(.plain_is_replicated = true)));
    uint64_t before = rsh_alloc_get_stats().data_bytes;
    TRY(rsh_module_forward(m, x, &loss));
    *kept = rsh_alloc_get_stats().data_bytes - before;
    rsh_value_free(x), rsh_value_free(loss);
    rsh_module_free(m);
    return RSH_OK;
}

static rsh_status memory_trial(void *ctx) {
    rsh_mesh *mesh = NULL;
    uint64_t whole = 0, chunks = 0, rows = 400, output = rows * WIDTH * sizeof(float), slack = 8192;
    (void)ctx;
    TRY(line(&mesh));
    TRY(kept_by(mesh, false, &whole));
    TRY(kept_by(mesh, true, &chunks));
    uint64_t w = (uint64_t)rsh_mesh_size(mesh);
    CHECK(whole >= output + rows * HIDDEN * sizeof(float));
    /* the output, and this rank's chunks of the input and the hidden layer */
    if (w > 1) CHECK(chunks <= output + (rows * (WIDTH + HIDDEN) * sizeof(float) + w - 1) / w + slack);
    rsh_mesh_free(mesh);
    return RSH_OK;
}
static void the_bytes_kept_are_the_share_of_a_rank(void **state) {
    (void)state;
    run_all(memory_trial);
}

/* ---- nested modules ---- */

/* Tensors of the inner module are handled by the inner request, all others by the outer one. */
static rsh_status nested_trial(void *ctx) {
    rsh_input_reshard_stats inner = {0}, outer = {0};
    probe p = {.n = 0};
    rsh_mesh *mesh = NULL;
    rsh_module *in = NULL, *out = NULL, *plain = NULL;
    rsh_value *x = NULL;
    (void)ctx;
    TRY(line(&mesh));
    TRY(mlp(&plain));
    TRY(mlp(&in));
    p.inner = in;
    TRY(rsh_input_reshard(in, mesh, 1, INPUT_OPTS(.plain_is_replicated = true, .stats = &inner)));
    TRY(probe_new(&p, mesh, 0, INPUT_OPTS(.plain_is_replicated = true, .stats = &outer), &out));
    TRY(make_value(RSH_F32, 2, (int64_t[]){ROWS, WIDTH}, 5, false, &x));
    TRY(forward_backward(plain, x));
    TRY(forward_backward(out, x));
    TRY(same_models(plain, in));
    TRY(comes_back(p.slot[0], x));
    if (rsh_mesh_size(mesh) > 1) CHECK(inner.cut == 2 && outer.cut == 1);
    probe_end(&p);
    rsh_value_free(x);
    rsh_module_free(in), rsh_module_free(out), rsh_module_free(plain);
    rsh_mesh_free(mesh);
    return RSH_OK;
}
static void nested_modules_have_pairs_of_their_own(void **state) {
    (void)state;
    run_all(nested_trial);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_mlp_trains_to_the_same_bits),
        cmocka_unit_test(a_transformer_block_trains_to_the_same_bits),
        cmocka_unit_test(i1_an_mlp_that_recomputes_keeps_a_chunk_of_its_input),
        cmocka_unit_test(i3_data_parallel_ranks_keep_chunks_over_a_slice_of_the_mesh),
        cmocka_unit_test(i2_tensors_without_the_dim_are_left_as_they_are),
        cmocka_unit_test(plain_tensors_that_differ_are_left_without_the_option),
        cmocka_unit_test(a_weight_that_one_rank_changes_fails_backward_on_all),
        cmocka_unit_test(the_bytes_kept_are_the_share_of_a_rank),
        cmocka_unit_test(nested_modules_have_pairs_of_their_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
