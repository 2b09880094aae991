/* Parallel training: MLPs and transformers over ranks train like plain ones.  Tests whose names begin with test_
 * correspond to PyTorch's tests of that name. */
#include "parallel_twins.h"

/* ---- MLP ---- */

static rsh_status mlp(rsh_module **out) {
    rsh_module *part[3] = {0};
    TRY(linear(10, 16, &part[0]));
    TRY(rsh_relu_new(&part[1]));
    TRY(linear(16, 12, &part[2]));
    return sequence(3, part, out);
}

/* Makes an MLP in a container, next to a plain layer. */
static rsh_status nested_mlp(rsh_module **out) {
    rsh_module *part[2] = {0};
    TRY(mlp(&part[0]));
    TRY(linear(12, 3, &part[1]));
    return sequence(2, part, out);
}

typedef struct mlp_case {
    bool recompute, reshard, local;
    bool rows; /* sequence parallelism: inputs and outputs are cut along dim 0 */
} mlp_case;

static void mlp_plan(const mlp_case *c, rsh_parallel_entry plan[2]) {
    plan[0] = (rsh_parallel_entry){"0", rsh_colwise_style()};
    plan[1] = (rsh_parallel_entry){"2", rsh_rowwise_style()};
    plan[0].style.local_output = c->local;
    if (!c->rows) return;
    plan[0].style.input = rsh_place_shard(0);
    plan[0].style.default_input = false;
    plan[1].style.output = rsh_place_shard(0);
    plan[1].style.local_output = false;
}

static rsh_status mlp_trial(void *ctx) {
    const mlp_case *c = ctx;
    rsh_module *m = NULL, *plain = NULL;
    rsh_mesh *mesh = NULL;
    rsh_value *x = NULL;
    rsh_parallel_entry plan[2];
    rsh_input_reshard_stats stats = {0};
    rsh_input_reshard_opts opts = {sizeof opts, .plain_is_replicated = true, .stats = &stats, .no_prefetch = c->local};
    TRY(line(&mesh));
    TRY(normals(2, (int64_t[]){12, 10}, &x));
    if (c->reshard) TRY(rsh_value_set_requires_grad(x, false)); /* a leaf that requires a gradient would not be cut */
    rsh_random_seed(3);
    TRY(mlp(&m));
    rsh_random_seed(3);
    TRY(mlp(&plain));
    mlp_plan(c, plan);
    if (c->rows) plan[0].style.input = rsh_place_replicate();
    TRY(rsh_parallelize_module(m, mesh, 2, plan));
    if (c->recompute) TRY(rsh_recompute(m));
    if (c->reshard) TRY(rsh_input_reshard(m, mesh, 0, &opts));
    TRY(train_both(m, plain, x, 3));
    /* Only the input is cut: local columns, and the result of relu on them, are not treated as replicated. */
    if (c->reshard && rsh_mesh_size(mesh) > 1)
        CHECK(stats.cut == 3 && stats.bytes_whole == 3 * 12 * 10 * sizeof(double));
    if (c->reshard && rsh_mesh_size(mesh) > 1) CHECK(opts.no_prefetch == (stats.prefetches == 0));
    rsh_value_free(x);
    rsh_module_free(m), rsh_module_free(plain);
    rsh_mesh_free(mesh);
    return RSH_OK;
}
static void test_mlp_training(void **state) {
    (void)state;
    for (int bits = 0; bits < 8; bits++)
        run_threads(mlp_trial, &(mlp_case){.recompute = bits & 1, .local = bits & 2, .rows = bits & 4});
}
static void local_columns_are_never_taken_for_replicated(void **state) {
    (void)state;
    run_ranks(mlp_trial, &(mlp_case){.reshard = true, .local = true});
    run_threads(mlp_trial, &(mlp_case){.reshard = true, .local = false});
    run_threads(mlp_trial, &(mlp_case){.reshard = true, .local = true, .recompute = true});
}

static rsh_status nested_trial(void *ctx) {
    (void)ctx;
    rsh_value *x = NULL;
    TRY(normals(2, (int64_t[]){12, 10}, &x));
    rsh_parallel_entry plan[] = {{"0.0", rsh_colwise_style()}, {"0.2", rsh_rowwise_style()}};
    TRY(compare(nested_mlp, 2, plan, x, 3));
    plan[1].style.output = rsh_place_shard(-1);
    plan[1].style.local_output = false;
    rsh_parallel_entry all[] = {plan[0], plan[1], {"1", rsh_rowwise_style()}};
    TRY(compare(nested_mlp, 3, all, x, 3));
    rsh_value_free(x);
    return RSH_OK;
}
static void test_parallelize_mlp_with_module_api(void **state) {
    (void)state;
    run_ranks(nested_trial, NULL);
}

/* ---- a transformer ---- */

enum { LAYERS = 2, HEADS = 4, WIDTH = 16, LENGTH = 6, ROWS = 3, WORDS = 10 };

static rsh_status gpt_forward(rsh_module *m, rsh_value *const *in, rsh_value **out) {
    static const char *const names[] = {"tokens", "positions", "blocks", "norm", "head"};
    rsh_module *part[5] = {0};
    rsh_value *places = NULL, *a = NULL, *b = NULL, *v[4] = {0};
    for (int i = 0; i < 5; i++) TRY(rsh_module_child(m, names[i], &part[i]));
    TRY(rsh_module_buffer(m, "places", &places));
    TRY(rsh_module_forward(part[0], in[0], &a));
    TRY(rsh_module_forward(part[1], places, &b));
    TRY(rsh_nn_add(a, b, &v[0]));
    for (int i = 2; i < 5; i++) TRY(rsh_module_forward(part[i], v[i - 2], &v[i - 1]));
    rsh_value_free(a), rsh_value_free(b);
    for (int i = 0; i < 3; i++) rsh_value_free(v[i]);
    *out = v[3];
    return RSH_OK;
}
static const rsh_module_kind gpt_kind = {.name = "GPT", .nin = 1, .nout = 1, .forward = gpt_forward};

static rsh_status gpt(bool tied, rsh_module **out) {
    rsh_module *m = NULL, *part = NULL, *block[LAYERS] = {0};
    rsh_value *v = NULL;
    int64_t places[LENGTH], width = WIDTH;
    rsh_attention_opts opts = {sizeof opts, .width = WIDTH, .heads = HEADS, .bias = true, .causal = true};
    rsh_random_seed(3);
    for (int i = 0; i < LENGTH; i++) places[i] = i;
    TRY(rsh_module_new(&gpt_kind, NULL, &m));
    TRY(rsh_embedding_new(WORDS, WIDTH, NULL, RSH_F64, &part));
    TRY(give(m, "tokens", part));
    TRY(rsh_embedding_new(LENGTH, WIDTH, NULL, RSH_F64, &part));
    TRY(give(m, "positions", part));
    for (int i = 0; i < LAYERS; i++) TRY(rsh_transformer_block_new(&opts, 2 * WIDTH, RSH_F64, &block[i]));
    TRY(sequence(LAYERS, block, &part));
    TRY(give(m, "blocks", part));
    TRY(rsh_layer_norm_new(1, &width, 1e-5, true, RSH_F64, &part));
    TRY(give(m, "norm", part));
    TRY(rsh_linear_new(WIDTH, WORDS, false, RSH_F64, &part));
    TRY(value_at(m, "tokens.weight", &v));
    if (tied) TRY(rsh_module_set_parameter(part, "weight", v));
    TRY(give(m, "head", part));
    TRY(make_indices(LENGTH, places, &v));
    TRY(rsh_module_set_buffer(m, "places", v, false));
    rsh_value_free(v);
    *out = m;
    return RSH_OK;
}

/* Cuts the model as in PyTorch's example: between blocks the values are cut along the sequence, or whole on every
 * rank. */
static rsh_status cut_gpt(rsh_module *m, rsh_mesh *mesh, bool sequence_cut) {
    rsh_style columns = rsh_colwise_style(), rows = rsh_rowwise_style(), norm = rsh_sequence_style(1);
    rsh_place stream = sequence_cut ? rsh_place_shard(1) : rsh_place_replicate();
    rsh_prepare to_whole = {.is = stream, .becomes = rsh_place_replicate()};
    columns.local_output = rows.local_output = false;
    rsh_style places = columns;
    places.output = sequence_cut ? rsh_place_shard(0) : rsh_place_replicate();
    rows.output = norm.input = norm.output = stream;
    rsh_parallel_entry plan[] = {
        {"tokens", rows},
        {"positions", places},
        {"blocks.*.attention", rsh_prepare_input_style(1, &to_whole)},
        {"blocks.*.attention.[qkv]*", columns},
        {"blocks.*.attention.out", rows},
        {"blocks.*.norm?", norm},
        {"blocks.*.up", columns},
        {"blocks.*.down", rows},
        {"norm", norm},
        {"head", columns},
    };
    TRY(rsh_parallelize_module(m, mesh, 10, plan));
    return rsh_distribute_module(m, mesh, NULL);
}

/* Computes the mean of cross-entropies; logits stay cut along the vocabulary. */
static rsh_status gpt_loss(rsh_module *m, rsh_value *x, rsh_value *target, rsh_value **out) {
    rsh_value *logits = NULL, *flat = NULL, *loss = NULL;
    TRY(rsh_module_forward(m, x, &logits));
    TRY(rsh_nn_reshape(logits, 2, (int64_t[]){-1, WORDS}, &flat));
    TRY(rsh_nn_cross_entropy(flat, target, NULL, &loss));
    TRY(as_plain(loss, out));
    rsh_value_free(logits), rsh_value_free(flat), rsh_value_free(loss);
    return RSH_OK;
}

typedef struct gpt_case {
    bool tied, frozen, sequence_cut, reshard, recompute;
} gpt_case;

static rsh_status freeze(rsh_module *m) {
    static const char *const paths[] = {"tokens.weight", "blocks.0.up.weight", "blocks.1.attention.out.bias",
                                        "blocks.1.norm1.weight", "head.weight"};
    for (int i = 0; i < 5; i++) {
        rsh_value *v = NULL;
        TRY(value_at(m, paths[i], &v));
        TRY(rsh_value_set_requires_grad(v, false));
    }
    return RSH_OK;
}

static rsh_status gpt_step(rsh_module *m, rsh_optimizer *o, rsh_value *x, rsh_value *target, double *loss) {
    rsh_value *v = NULL;
    TRY(rsh_optimizer_zero_grad(o));
    TRY(gpt_loss(m, x, target, &v));
    TRY(rsh_backward(v, NULL, 0));
    *loss = at(rsh_value_tensor(v), 0);
    rsh_value_free(v);
    return RSH_OK;
}

static rsh_status gpt_trial(void *ctx) {
    const gpt_case *c = ctx;
    rsh_module *m[2] = {0}, *block = NULL;
    rsh_optimizer *o[2] = {0};
    rsh_mesh *mesh = NULL;
    rsh_value *flat = NULL, *x = NULL, *target = NULL;
    rsh_adam_opts opts = RSH_ADAMW_OPTS_INIT;
    int64_t words[ROWS * LENGTH], next[ROWS * LENGTH];
    for (int i = 0; i < ROWS * LENGTH; i++) words[i] = i * 7 % WORDS, next[i] = (i + 1) * 7 % WORDS;
    TRY(line(&mesh));
    TRY(make_indices(ROWS * LENGTH, words, &flat));
    TRY(rsh_nn_reshape(flat, 2, (int64_t[]){ROWS, LENGTH}, &x));
    TRY(make_indices(ROWS * LENGTH, next, &target));
    for (int i = 0; i < 2; i++) {
        TRY(gpt(c->tied, &m[i]));
        if (c->frozen) TRY(freeze(m[i]));
    }
    TRY(cut_gpt(m[0], mesh, c->sequence_cut));
    TRY(rsh_module_submodule(m[0], "blocks.1", &block));
    if (c->recompute) TRY(rsh_recompute(block));
    if (c->reshard) TRY(rsh_input_reshard(m[0], mesh, 0, NULL));
    opts.lr = 0.01;
    for (int i = 0; i < 2; i++) TRY(rsh_adam_new(m[i], &opts, &o[i]));
    for (int i = 0; i < 3; i++) {
        double loss[2] = {0}, norm[2] = {0};
        for (int k = 0; k < 2; k++) TRY(gpt_step(m[k], o[k], x, target, &loss[k]));
        CHECK(fabs(loss[0] - loss[1]) <= 1e-11);
        for (int k = 0; k < 2; k++) TRY(rsh_clip_grad_norm(m[k], 0.5, &norm[k]));
        CHECK(fabs(norm[0] - norm[1]) <= 1e-10 * norm[1]);
        TRY(close_models(m[0], m[1], 1e-10));
        for (int k = 0; k < 2; k++) TRY(rsh_optimizer_step(o[k]));
        TRY(close_models(m[0], m[1], 1e-9));
    }
    for (int i = 0; i < 2; i++) rsh_optimizer_free(o[i]), rsh_module_free(m[i]);
    rsh_value_free(flat), rsh_value_free(x), rsh_value_free(target);
    rsh_mesh_free(mesh);
    return RSH_OK;
}

static void test_transformer_training(void **state) {
    (void)state;
    run_ranks(gpt_trial, &(gpt_case){.sequence_cut = false});
    run_threads(gpt_trial, &(gpt_case){.sequence_cut = true});
}
static void test_transformer_req_grad(void **state) {
    (void)state;
    run_threads(gpt_trial, &(gpt_case){.frozen = true});
    run_threads(gpt_trial, &(gpt_case){.frozen = true, .sequence_cut = true});
}
static void test_weight_tying(void **state) {
    (void)state;
    run_threads(gpt_trial, &(gpt_case){.tied = true});
    run_threads(gpt_trial, &(gpt_case){.tied = true, .sequence_cut = true, .frozen = true});
}
static void a_transformer_that_keeps_chunks_trains_as_a_plain_one(void **state) {
    (void)state;
    run_threads(gpt_trial, &(gpt_case){.reshard = true});
    run_ranks(gpt_trial, &(gpt_case){.reshard = true, .recompute = true});
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_mlp_training),
        cmocka_unit_test(local_columns_are_never_taken_for_replicated),
        cmocka_unit_test(test_parallelize_mlp_with_module_api),
        cmocka_unit_test(test_transformer_training),
        cmocka_unit_test(test_transformer_req_grad),
        cmocka_unit_test(test_weight_tying),
        cmocka_unit_test(a_transformer_that_keeps_chunks_trains_as_a_plain_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
