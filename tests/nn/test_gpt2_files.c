/* GPT-2 files: a checkpoint with Hugging Face's names is loaded through a map into a tensor-parallel model, trained,
 * saved, resumed on other ranks, and saved under the original names.
 *
 * tools/golden/torch_gpt2.py wrote the checkpoint and PyTorch 1.13's results: logits, the losses of 30 steps of AdamW,
 * and the logits afterwards.  The first 20 steps run on 2 ranks, the others on 3.  If RESHARD_KEEP names a directory,
 * the trained checkpoint stays there for tests/nn/check_gpt2_torch.py. */
#include "parallel_models.h"

#include <ftw.h>
#include <unistd.h>

#include <reshard/nn/checkpoint.h>
#include <reshard/nn/ops.h>

enum { VOCABULARY = 24, WIDTH = 24, HEADS = 12, LAYERS = 2, LENGTH = 6, ROWS = 2, FIRST = 20, STEPS = 30 };
enum { LOGITS = ROWS * LENGTH * VOCABULARY };

static char folder[64];
static struct {
    double logits[LOGITS], losses[STEPS], trained[LOGITS];
} golden;

/* ---- the model ---- */

static rsh_status through(rsh_module *m, const char *name, rsh_value **v) {
    rsh_module *part = NULL;
    rsh_value *next = NULL;
    TRY(rsh_module_child(m, name, &part));
    TRY(rsh_module_forward(part, *v, &next));
    rsh_value_free(*v);
    *v = next;
    return RSH_OK;
}

static rsh_status forward(rsh_module *m, rsh_value *const *in, rsh_value **out) {
    static const char *const rest[] = {"blocks", "norm", "head"};
    rsh_value *places = NULL, *a = NULL, *b = NULL, *v = NULL;
    TRY(rsh_module_buffer(m, "places", &places));
    a = rsh_value_hold(in[0]), b = rsh_value_hold(places);
    rsh_status st = through(m, "tokens", &a);
    if (!st) st = through(m, "positions", &b);
    if (!st) st = rsh_nn_add(a, b, &v);
    rsh_value_free(a), rsh_value_free(b);
    for (int i = 0; i < 3 && !st; i++) st = through(m, rest[i], &v);
    if (st) rsh_value_free(v);
    else *out = v;
    return st;
}

static const char *const inputs[] = {"input"};
static const rsh_module_kind gpt = {.name = "GPT", .nin = 1, .nout = 1, .inputs = inputs, .forward = forward};

static rsh_status give_blocks(rsh_module *m) {
    rsh_module *block[LAYERS] = {NULL}, *blocks = NULL;
    rsh_attention_opts opts = {sizeof opts, .width = WIDTH, .heads = HEADS, .bias = true, .causal = true};
    for (int i = 0; i < LAYERS; i++) TRY(rsh_transformer_block_new(&opts, 4 * WIDTH, RSH_F64, &block[i]));
    TRY(sequence(LAYERS, block, &blocks));
    return give(m, "blocks", blocks);
}

/* Makes the model; its head is tied to "tokens". */
static rsh_status make_model(rsh_module **out) {
    rsh_module *m = NULL, *part = NULL;
    rsh_value *words = NULL, *places = NULL;
    TRY(rsh_module_new(&gpt, NULL, &m));
    TRY(rsh_embedding_new(VOCABULARY, WIDTH, NULL, RSH_F64, &part));
    TRY(rsh_module_parameter(part, "weight", &words));
    TRY(give(m, "tokens", part));
    TRY(rsh_embedding_new(LENGTH, WIDTH, NULL, RSH_F64, &part));
    TRY(give(m, "positions", part));
    TRY(give_blocks(m));
    TRY(rsh_layer_norm_new(1, (int64_t[]){WIDTH}, 1e-5, true, RSH_F64, &part));
    TRY(give(m, "norm", part));
    TRY(rsh_linear_new(WIDTH, VOCABULARY, false, RSH_F64, &part));
    TRY(rsh_module_set_parameter(part, "weight", words));
    TRY(give(m, "head", part));
    TRY(make_indices(LENGTH, (int64_t[]){0, 1, 2, 3, 4, 5}, &places));
    TRY(rsh_module_set_buffer(m, "places", places, false));
    rsh_value_free(places);
    *out = m;
    return RSH_OK;
}

static rsh_status cut(rsh_module *m, rsh_mesh *mesh) {
    rsh_style columns = rsh_colwise_style(), rows = rsh_rowwise_style();
    columns.local_output = rows.local_output = false;
    rsh_parallel_entry plan[] = {{"tokens", rows},
                                 {"blocks.*.attention.[qkv]*", columns},
                                 {"blocks.*.attention.out", rows},
                                 {"blocks.*.up", columns},
                                 {"blocks.*.down", rows},
                                 {"head", columns}};
    TRY(rsh_parallelize_module(m, mesh, 6, plan));
    return rsh_distribute_module(m, mesh, NULL);
}

/* ---- batches, logits, losses ---- */

/* Creates a batch: tokens [ROWS, LENGTH], and for each of them the next token, as one list. */
static rsh_status make_batch(int step, rsh_value **tokens, rsh_value **after) {
    int64_t all[ROWS * (LENGTH + 1)], from[ROWS * LENGTH], to[ROWS * LENGTH];
    rsh_value *flat = NULL;
    for (int i = 0; i < ROWS * (LENGTH + 1); i++) all[i] = (7 * i * i + 5 * i + 3 * step) % VOCABULARY;
    for (int i = 0; i < ROWS * LENGTH; i++) from[i] = all[i + i / LENGTH], to[i] = all[i + i / LENGTH + 1];
    TRY(make_indices(ROWS * LENGTH, from, &flat));
    TRY(rsh_nn_reshape(flat, 2, (int64_t[]){ROWS, LENGTH}, tokens));
    rsh_value_free(flat);
    return make_indices(ROWS * LENGTH, to, after);
}

static rsh_status check_numbers(const char *what, int n, const rsh_tensor *t, const double *expected, double bound) {
    for (int i = 0; i < n; i++) {
        char text[160];
        double found = at(t, i);
        snprintf(text, sizeof text, "%s %d: %.17g, and PyTorch has %.17g", what, i, found, expected[i]);
        if (!(fabs(found - expected[i]) <= bound * (1 + fabs(expected[i])))) return wrong(__FILE__, __LINE__, text);
    }
    return RSH_OK;
}

static rsh_status check_logits(rsh_module *m, const double *expected, double bound) {
    rsh_value *x = NULL, *after = NULL, *y = NULL, *whole = NULL;
    TRY(make_batch(0, &x, &after));
    TRY(rsh_module_forward(m, x, &y));
    if (rsh_dtensor_mesh(y)) TRY(rsh_dtensor_full_tensor(y, NULL, &whole));
    rsh_status st = check_numbers("logit", LOGITS, rsh_value_tensor(whole ? whole : y), expected, bound);
    rsh_value_free(x), rsh_value_free(after), rsh_value_free(y), rsh_value_free(whole);
    return st;
}

static rsh_status step(rsh_module *m, rsh_optimizer *o, int i) {
    rsh_value *x = NULL, *after = NULL, *y = NULL, *flat = NULL, *cut_loss = NULL, *loss = NULL;
    TRY(rsh_optimizer_zero_grad(o));
    TRY(make_batch(i, &x, &after));
    TRY(rsh_module_forward(m, x, &y));
    TRY(rsh_nn_reshape(y, 2, (int64_t[]){-1, VOCABULARY}, &flat));
    TRY(rsh_nn_cross_entropy(flat, after, NULL, &cut_loss));
    TRY(rsh_dtensor_full_tensor(cut_loss, NULL, &loss));
    TRY(rsh_backward(loss, NULL, 0));
    TRY(check_numbers("loss", 1, rsh_value_tensor(loss), &golden.losses[i], 1e-10));
    rsh_value_free(x), rsh_value_free(after), rsh_value_free(y);
    rsh_value_free(flat), rsh_value_free(cut_loss), rsh_value_free(loss);
    return rsh_optimizer_step(o);
}

static rsh_status make_optimizer(rsh_module *m, rsh_optimizer **out) {
    rsh_adam_opts opts = RSH_ADAMW_OPTS_INIT;
    rsh_param_group vectors = RSH_PARAM_GROUP_INIT;
    opts.lr = 0.01, opts.weight_decay = 0.1;
    vectors.ndim_below = 2;
    TRY(rsh_adam_new(m, &opts, out));
    return rsh_optimizer_add_group(*out, &vectors, NULL);
}

/* ---- files ---- */

static rsh_status load(rsh_module *m, rsh_optimizer *o, const char *path, const char *rules) {
    rsh_module_load_opts opts = RSH_MODULE_LOAD_OPTS_INIT;
    rsh_ckpt_rules *map = NULL;
    if (rules) TRY(rsh_ckpt_rules_read(rules, &map));
    opts.optimizer = o, opts.map = map;
    rsh_status st = rsh_module_load(m, rsh_group_comm(NULL), path, &opts);
    rsh_ckpt_rules_free(map);
    return st;
}

static rsh_status save(rsh_module *m, rsh_optimizer *o, const char *name, const char *rules) {
    rsh_module_save_opts opts = RSH_MODULE_SAVE_OPTS_INIT;
    rsh_save_opts files = RSH_SAVE_OPTS_INIT;
    rsh_ckpt_rules *map = NULL;
    char path[128];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    if (rules) TRY(rsh_ckpt_rules_read(rules, &map));
    opts.optimizer = o, opts.files = &files, files.map = map;
    rsh_status st = rsh_module_save(m, rsh_group_comm(NULL), path, &opts);
    rsh_ckpt_rules_free(map);
    return st;
}

/* ---- stages: the files contain the first `from` steps ---- */

typedef struct stage {
    int from, to;
} stage;

static rsh_status run_stage(void *ctx) {
    const stage *s = ctx;
    char path[128];
    rsh_mesh *mesh = NULL;
    rsh_module *m = NULL;
    rsh_optimizer *o = NULL;
    TRY(line(&mesh));
    TRY(make_model(&m));
    TRY(cut(m, mesh));
    TRY(make_optimizer(m, &o));
    snprintf(path, sizeof path, "%s/first", folder);
    if (s->from) TRY(load(m, o, path, NULL));
    else TRY(load(m, NULL, "tests/nn/gpt2.safetensors", "tests/nn/gpt2.rules"));
    if (!s->from) TRY(check_logits(m, golden.logits, 1e-12));
    for (int i = s->from; i < s->to; i++) TRY(step(m, o, i));
    if (s->to == FIRST) TRY(save(m, o, "first", NULL));
    if (s->to == STEPS) TRY(check_logits(m, golden.trained, 1e-11));
    if (s->to == STEPS) TRY(save(m, NULL, "trained", "tests/nn/gpt2-back.rules"));
    rsh_optimizer_free(o);
    rsh_module_free(m);
    rsh_mesh_free(mesh);
    return RSH_OK;
}

/* Reads the whole model from a checkpoint with Hugging Face's names. */
static rsh_status read_back(void *ctx) {
    char path[128];
    rsh_module *m = NULL;
    (void)ctx;
    snprintf(path, sizeof path, "%s/trained", folder);
    TRY(make_model(&m));
    TRY(load(m, NULL, path, "tests/nn/gpt2.rules"));
    TRY(check_logits(m, golden.trained, 1e-11));
    rsh_module_free(m);
    return RSH_OK;
}

static void run_on(int n, rsh_status (*fn)(void *ctx), void *ctx) {
    body b = {fn, ctx};
    must_run("threads", n, rsh_run(n, with_default_group, &b));
}

static void a_map_loads_the_model_on_any_number_of_ranks(void **state) {
    (void)state;
    for (int n = 1; n <= 4; n++) run_on(n, run_stage, &(stage){0, 0});
}

static void trained_on_two_ranks_it_goes_on_on_three(void **state) {
    (void)state;
    run_on(2, run_stage, &(stage){0, FIRST});
    run_on(3, run_stage, &(stage){FIRST, STEPS});
    run_on(1, read_back, NULL);
    run_on(2, read_back, NULL);
}

/* ---- running the stages ---- */

static int read_golden(FILE *file, const char *word, int n, double *numbers) {
    char found[16] = "";
    if (fscanf(file, "%15s", found) != 1 || strcmp(found, word)) return -1;
    for (int i = 0; i < n; i++)
        if (fscanf(file, "%lf", &numbers[i]) != 1) return -1;
    return 0;
}

static int begin(void **state) {
    (void)state;
    FILE *file = fopen("tests/nn/golden_gpt2.txt", "r");
    if (!file) return -1;
    int st = read_golden(file, "logits", LOGITS, golden.logits);
    if (!st) st = read_golden(file, "losses", STEPS, golden.losses);
    if (!st) st = read_golden(file, "trained", LOGITS, golden.trained);
    fclose(file);
    const char *keep = getenv("RESHARD_KEEP");
    snprintf(folder, sizeof folder, "%s", keep ? keep : "/tmp/reshard-gpt2-XXXXXX");
    return st || (!keep && !mkdtemp(folder)) ? -1 : 0;
}

static int remove_one(const char *path, const struct stat *s, int kind, struct FTW *at) {
    (void)s, (void)kind, (void)at;
    return remove(path);
}
static int end(void **state) {
    (void)state;
    return getenv("RESHARD_KEEP") ? 0 : nftw(folder, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_map_loads_the_model_on_any_number_of_ranks),
        cmocka_unit_test(trained_on_two_ranks_it_goes_on_on_three),
    };
    return cmocka_run_group_tests_name("GPT-2 in files", tests, begin, end);
}
