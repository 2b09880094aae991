/* Module files: models saved and loaded in one call, resumed on other ranks and with other plans.
 *
 * A model is trained without a stop on one rank; that is what all others must come to. */
#include "parallel_models.h"

#include <ftw.h>
#include <unistd.h>

#include <reshard/nn/checkpoint.h>

#include "nn/numbers.h"

enum { WIDTH = 6, HIDDEN = 8, BATCH = 12, STEPS = 3, VALUES = 7 };

/* ---- a folder for the files ---- */

static char folder[64];

static int remove_one(const char *path, const struct stat *s, int kind, struct FTW *at) {
    (void)s, (void)kind, (void)at;
    return remove(path);
}
static int make_folder(void **state) {
    (void)state;
    snprintf(folder, sizeof folder, "/tmp/reshard-module-files-XXXXXX");
    return mkdtemp(folder) ? 0 : -1;
}
static int remove_folder(void **state) {
    (void)state;
    return nftw(folder, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}
static const char *file(char text[128], const char *name) {
    snprintf(text, 128, "%s/%s", folder, name);
    return text;
}

/* ---- models ---- */

typedef enum plan { PLAIN, ROWS, COLUMNS, TENSOR_PARALLEL, PLANS } plan;
static const char *const plan_names[] = {"plain", "rows", "columns", "tensor parallel"};

/* "0" Linear, "1" LayerNorm, "2" Linear, and a buffer. */
static rsh_status make_model(int seed, rsh_module **out) {
    rsh_module *part[3] = {NULL};
    rsh_random_seed((uint64_t)seed);
    TRY(rsh_linear_new(WIDTH, HIDDEN, true, RSH_F64, &part[0]));
    TRY(rsh_layer_norm_new(1, (int64_t[]){HIDDEN}, 1e-3, true, RSH_F64, &part[1]));
    TRY(rsh_linear_new(HIDDEN, WIDTH, true, RSH_F64, &part[2]));
    TRY(sequence(3, part, out));
    rsh_value *scale = some_value(RSH_F64, seed, false, SIZES(3));
    rsh_status st = rsh_module_set_buffer(*out, "scale", scale, true);
    rsh_value_free(scale);
    return st;
}

static rsh_status shard_both(rsh_module *m, int dim) {
    rsh_spec *spec = NULL, *rows = NULL;
    rsh_sharding_plan *p = NULL;
    TRY(rsh_spec_chunk_ranks(dim, rsh_group_size(NULL), NULL, &spec));
    TRY(rsh_spec_chunk_ranks(0, rsh_group_size(NULL), NULL, &rows));
    TRY(rsh_sharding_plan_new(&p));
    for (int i = 0; i <= 2; i += 2) {
        char path[16];
        snprintf(path, sizeof path, "%d.weight", i);
        TRY(rsh_sharding_plan_add(p, path, spec, NULL));
        path[1] = 0;
        TRY(rsh_sharding_plan_reshard_output(p, path, rows));
        TRY(rsh_sharding_plan_return_local(p, path));
    }
    rsh_status st = rsh_shard_module(m, p, 0, NULL);
    rsh_sharding_plan_free(p);
    rsh_spec_free(spec), rsh_spec_free(rows);
    return st;
}

static rsh_status parallelize(rsh_module *m, rsh_mesh *mesh) {
    rsh_parallel_entry e[2] = {{"0", rsh_colwise_style()}, {"2", rsh_rowwise_style()}};
    e[0].style.output = rsh_place_replicate();
    e[1].style.input = rsh_place_replicate();
    e[1].style.default_input = false;
    return rsh_parallelize_module(m, mesh, 2, e);
}

static rsh_status cut(rsh_module *m, plan p) {
    rsh_mesh *mesh = NULL;
    if (p == PLAIN) return RSH_OK;
    if (p != TENSOR_PARALLEL) return shard_both(m, p == COLUMNS);
    TRY(line(&mesh));
    rsh_status st = parallelize(m, mesh);
    rsh_mesh_free(mesh);
    return st;
}

static rsh_status make_adam(rsh_module *m, rsh_optimizer **out) {
    rsh_adam_opts opts = RSH_ADAMW_OPTS_INIT;
    opts.lr = 0.05, opts.weight_decay = 0.1;
    return rsh_adam_new(m, &opts, out);
}

/* No weight decay for norms and biases, and smaller steps for the last layer. */
static rsh_status make_optimizer(rsh_module *m, rsh_optimizer **out) {
    rsh_param_group small = RSH_PARAM_GROUP_INIT, last = RSH_PARAM_GROUP_INIT;
    const char *paths[] = {"2.w*"};
    int64_t n = 0;
    small.ndim_below = 2;
    last.npaths = 1, last.paths = paths, last.lr_scale = 0.5, last.weight_decay = 0.3;
    TRY(make_adam(m, out));
    TRY(rsh_optimizer_add_group(*out, &small, &n));
    CHECK(n == 4);
    TRY(rsh_optimizer_add_group(*out, &last, &n));
    CHECK(n == 1);
    return RSH_OK;
}

/* One step on rows first to first + n of the batch of a step. */
static rsh_status learn(rsh_module *m, rsh_optimizer *o, int step, int64_t first, int64_t n) {
    rsh_value *all = some_value(RSH_F64, 100 + step, false, SIZES(BATCH, WIDTH)), *x = NULL, *loss = NULL, *mean = NULL;
    TRY(rsh_optimizer_zero_grad(o));
    TRY(rsh_nn_narrow(all, 0, first, n, &x));
    TRY(forward_loss(m, x, &loss));
    TRY(rsh_nn_mul_number(loss, 1.0 / BATCH, &mean));
    TRY(rsh_backward(mean, NULL, 0));
    TRY(rsh_module_sync_grads(m, NULL, RSH_OP_SUM));
    rsh_value_free(all), rsh_value_free(x), rsh_value_free(loss), rsh_value_free(mean);
    return rsh_optimizer_step(o);
}

/* Ranks share the rows of a batch out, or compute with all of them together. */
static rsh_status train(rsh_module *m, rsh_optimizer *o, plan p, int from, int to) {
    int n = rsh_group_size(NULL), me = rsh_group_rank(NULL);
    for (int i = from; i < to; i++)
        TRY(p == TENSOR_PARALLEL ? learn(m, o, i, 0, BATCH) : learn(m, o, i, BATCH / n * me, BATCH / n));
    return RSH_OK;
}

static rsh_status save(rsh_module *m, const rsh_optimizer *o, const char *path) {
    rsh_module_save_opts opts = RSH_MODULE_SAVE_OPTS_INIT;
    rsh_save_opts files = RSH_SAVE_OPTS_INIT;
    opts.optimizer = o;
    opts.files = &files;
    files.force = true;
    return rsh_module_save(m, rsh_group_comm(NULL), path, &opts);
}

static rsh_status load(rsh_module *m, rsh_optimizer *o, const char *path) {
    rsh_module_load_opts opts = RSH_MODULE_LOAD_OPTS_INIT;
    opts.optimizer = o;
    return rsh_module_load(m, rsh_group_comm(NULL), path, &opts);
}

/* ---- without a stop ---- */

static rsh_module *whole_run; /* after all steps, on one rank; read by the others */

static rsh_status train_whole(void *ctx) {
    rsh_optimizer *o = NULL;
    (void)ctx;
    TRY(make_model(1, &whole_run));
    TRY(make_optimizer(whole_run, &o));
    TRY(train(whole_run, o, PLAIN, 0, 2 * STEPS));
    rsh_optimizer_free(o);
    return RSH_OK;
}

static void run_on(int n, rsh_status (*fn)(void *ctx), void *ctx) {
    body b = {fn, ctx};
    must_run("threads", n, rsh_run(n, with_default_group, &b));
}

/* ---- stopped and resumed ---- */

typedef struct stage {
    plan plan;
    int from, to;
    bool loads;
} stage;

static rsh_status run_stage(void *ctx) {
    const stage *s = ctx;
    char path[128];
    rsh_module *m = NULL;
    rsh_optimizer *o = NULL;
    double lr = 0, decay = 0;
    TRY(make_model(s->loads ? 9 : 1, &m)); /* other elements, which loading replaces */
    TRY(cut(m, s->plan));
    TRY(s->loads ? make_adam(m, &o) : make_optimizer(m, &o));
    if (s->loads) TRY(rsh_optimizer_set_lr(o, 1)); /* the rate and the groups come from the files */
    if (s->loads) TRY(load(m, o, file(path, "run")));
    TRY(rsh_optimizer_get_settings(o, "2.weight", &lr, &decay));
    CHECK(lr == 0.025 && decay == 0.3);
    TRY(rsh_optimizer_get_settings(o, "1.bias", &lr, &decay));
    CHECK(lr == 0.05 && decay == 0);
    TRY(train(m, o, s->plan, s->from, s->to));
    if (s->loads) {
        rsh_value *mine = NULL, *other = NULL;
        rsh_module_zero_grad(m);
        TRY(close_models(m, whole_run, 1e-11));
        TRY(rsh_module_buffer(m, "scale", &mine));
        TRY(rsh_module_buffer(whole_run, "scale", &other));
        TRY(close_values(mine, other, "scale", 0));
    } else {
        TRY(save(m, o, file(path, "run")));
    }
    rsh_optimizer_free(o);
    rsh_module_free(m);
    return RSH_OK;
}

static void a_run_is_resumed_on_other_ranks_with_another_plan(void **state) {
    (void)state;
    run_on(1, train_whole, NULL);
    rsh_module_zero_grad(whole_run);
    for (int before = PLAIN; before < PLANS; before++) {
        stage first = {(plan)before, 0, STEPS, false};
        run_on(2, run_stage, &first);
        for (int after = PLAIN; after < PLANS; after++)
            for (int n = 1; n <= 3; n++) {
                stage second = {(plan)after, STEPS, 2 * STEPS, true};
                body b = {run_stage, &second};
                rsh_status st = rsh_run(n, with_default_group, &b);
                if (st) fail_msg("%s, then %s on %d: %s", plan_names[before], plan_names[after], n, rsh_error_detail());
            }
    }
    stage first = {TENSOR_PARALLEL, 0, STEPS, false}, second = {ROWS, STEPS, 2 * STEPS, true};
    must_run("processes", 2, rsh_run_shm(2, with_default_group, &(body){run_stage, &first}));
    must_run("processes", 3, rsh_run_shm(3, with_default_group, &(body){run_stage, &second}));
    rsh_module_free(whole_run);
}

/* ---- replicas of a tensor-parallel model ---- */

static rsh_status replicas(void *ctx) {
    bool loads = *(const bool *)ctx;
    char path[128];
    rsh_mesh *mesh = NULL, *tp = NULL;
    rsh_module *m = NULL, *plain = NULL;
    rsh_optimizer *o = NULL;
    TRY(grid(2, 2, &mesh, &tp));
    TRY(make_model(loads ? 9 : 4, &m));
    TRY(make_model(4, &plain));
    TRY(parallelize(m, tp));
    TRY(make_optimizer(m, &o));
    if (loads) {
        TRY(load(m, o, file(path, "replicas")));
        TRY(close_models(m, plain, 0));
    } else {
        TRY(save(m, o, file(path, "replicas")));
    }
    rsh_optimizer_free(o);
    rsh_module_free(m), rsh_module_free(plain);
    rsh_mesh_free(tp), rsh_mesh_free(mesh);
    return RSH_OK;
}

static rsh_status load_replica(void *ctx) {
    char path[128];
    rsh_module *m = NULL, *plain = NULL;
    (void)ctx;
    TRY(make_model(9, &m));
    TRY(make_model(4, &plain));
    TRY(load(m, NULL, file(path, "replicas"))); /* the optimizer's state stays in the files */
    TRY(close_models(m, plain, 0));
    rsh_module_free(m), rsh_module_free(plain);
    return RSH_OK;
}

static void replicas_are_stored_once_and_all_loaded(void **state) {
    (void)state;
    bool loads = false;
    run_on(4, replicas, &loads);
    loads = true;
    run_on(4, replicas, &loads);
    run_on(1, load_replica, NULL);
}

/* ---- what does not fit ---- */

/* All ranks have the same message, with all of these words. */
static rsh_status check_message(int n, const char *const *words) {
    char mine[512], all[4][512];
    snprintf(mine, sizeof mine, "%s", rsh_error_detail());
    for (int i = 0; i < n; i++)
        if (!strstr(mine, words[i])) return wrong(__FILE__, __LINE__, words[i]);
    TRY(rsh_comm_allgather(rsh_group_comm(NULL), mine, all, sizeof mine));
    for (int r = 1; r < rsh_group_size(NULL); r++) CHECK(!strcmp(all[0], all[r]));
    return RSH_OK;
}

/* No bias in "0", another width in "2", a parameter more in "1", and no buffer. */
static rsh_status make_other(rsh_module **out) {
    rsh_module *part[3] = {NULL}, *norm = NULL;
    rsh_random_seed(5);
    TRY(rsh_linear_new(WIDTH, HIDDEN, false, RSH_F64, &part[0]));
    TRY(rsh_layer_norm_new(1, (int64_t[]){HIDDEN}, 1e-3, true, RSH_F64, &part[1]));
    TRY(rsh_linear_new(HIDDEN, WIDTH + 1, true, RSH_F64, &part[2]));
    TRY(sequence(3, part, out));
    rsh_value *more = some_value(RSH_F64, 3, true, SIZES(2, 2));
    TRY(rsh_module_submodule(*out, "1", &norm));
    rsh_status st = rsh_module_set_parameter(norm, "more", more);
    rsh_value_free(more);
    return st;
}

static rsh_status save_model(const char *path) {
    rsh_module *m = NULL;
    rsh_optimizer *o = NULL;
    TRY(make_model(4, &m));
    TRY(make_optimizer(m, &o));
    TRY(save(m, o, path));
    rsh_optimizer_free(o);
    rsh_module_free(m);
    return RSH_OK;
}

static rsh_status refuse(void *ctx) {
    plan p = *(const plan *)ctx;
    char path[128];
    rsh_module *m = NULL, *plain = NULL;
    rsh_optimizer *o = NULL;
    rsh_adam_opts opts = RSH_ADAM_OPTS_INIT;
    TRY(save_model(file(path, "fit")));
    TRY(make_other(&m));
    TRY(make_other(&plain));
    TRY(cut(m, p));
    TRY(rsh_adam_new(m, &opts, &o));
    CHECK_STATUS(RSH_EVALUE, load(m, o, file(path, "fit")));
    const char *words[] = {"\"1.more\"", "\"0.bias\"", "\"scale\"", "\"2.weight\" is [6, 8] and must be [7, 8]",
                           "\"optimizer.1.more.step\""};
    TRY(check_message(5, words));
    CHECK(load(m, o, file(path, "nothing")) != RSH_OK);
    TRY(check_message(0, NULL));
    TRY(close_models(m, plain, 0)); /* nothing has changed */
    CHECK(rsh_optimizer_lr(o) == 1e-3);
    rsh_optimizer_free(o);
    rsh_module_free(m), rsh_module_free(plain);
    return RSH_OK;
}

static void what_does_not_fit_is_listed_in_one_message(void **state) {
    (void)state;
    for (int p = PLAIN; p < PLANS; p++) {
        plan one = (plan)p;
        for (int n = 1; n <= 2; n++) run_on(n, refuse, &one);
    }
}

/* ---- no memory ---- */

static rsh_status same_status(rsh_status mine) {
    int all[4], own = (int)mine;
    TRY(rsh_comm_allgather(rsh_group_comm(NULL), &own, all, sizeof own));
    for (int r = 1; r < rsh_group_size(NULL); r++) CHECK(all[r] == all[0]);
    return RSH_OK;
}

typedef struct shortage {
    plan plan;
    bool saves;
} shortage;

/* The call, in which allocation n of rank 0 fails (-1: none does).  Then all ranks get the error, and model and
 * optimizer are as before, unless the library could do without that memory. */
static rsh_status run_short(const shortage *s, int64_t n, int64_t *allocations) {
    char path[128];
    rsh_module *m = NULL, *plain = NULL;
    rsh_optimizer *o = NULL;
    TRY(make_model(9, &m));
    TRY(make_model(9, &plain));
    TRY(cut(m, s->plan));
    TRY(make_adam(m, &o));
    TRY(rsh_optimizer_set_lr(o, 1));
    int64_t before = (int64_t)rsh_alloc_get_stats().allocations;
    if (!rsh_group_rank(NULL)) rsh_alloc_fail_at(n);
    rsh_status st = s->saves ? save(m, o, file(path, "out")) : load(m, o, file(path, "short"));
    rsh_alloc_fail_at(-1);
    *allocations = (int64_t)rsh_alloc_get_stats().allocations - before;
    bool stored = st == RSH_EIO && strstr(rsh_error_detail(), "is complete"); /* the rest could not be removed */
    TRY(same_status(st));
    if (st && !stored) CHECK_STATUS(RSH_ENOMEM, st);
    if (st) TRY(close_models(m, plain, 0));
    if (st) CHECK(rsh_optimizer_lr(o) == 1);
    rsh_optimizer_free(o);
    rsh_module_free(m), rsh_module_free(plain);
    return RSH_OK;
}

static rsh_status run_shorts(void *ctx) {
    char path[128];
    int64_t all = 0, ignored;
    TRY(save_model(file(path, "short")));
    TRY(run_short(ctx, -1, &all));
    TRY(run_short(ctx, -1, &all)); /* plans are remembered from here on */
    int root = rsh_group_rank(NULL) == 0;
    TRY(rsh_comm_allreduce(rsh_group_comm(NULL), &(int64_t){root ? all : 0}, &all, 1, RSH_I64, RSH_OP_MAX));
    CHECK(all > 100);
    bool every = getenv("RESHARD_CASES"); /* otherwise fewer of those that come late */
    for (int64_t n = 0; n < all; n += every ? 1 : 1 + n / 40) TRY(run_short(ctx, n, &ignored));
    return RSH_OK;
}

static void a_rank_without_memory_leaves_the_model_as_it_was(void **state) {
    (void)state;
    for (int p = PLAIN; p < PLANS; p++)
        for (int saves = 0; saves < 2; saves++) run_on(2, run_shorts, &(shortage){(plan)p, saves});
}

/* ---- tied parameters, and other values ---- */

static const rsh_module_kind holder = {.name = "Holder"};

/* "words" [5, 4], and "head" with the same weight if it is tied; or "head" alone. */
static rsh_status make_tied(int seed, bool words, rsh_module **out) {
    rsh_module *embedding = NULL, *head = NULL;
    rsh_value *w = NULL;
    rsh_random_seed((uint64_t)seed);
    TRY(rsh_module_new(&holder, NULL, out));
    TRY(rsh_embedding_new(5, 4, NULL, RSH_F64, &embedding));
    TRY(rsh_linear_new(4, 5, false, RSH_F64, &head));
    TRY(rsh_module_parameter(embedding, "weight", &w));
    TRY(rsh_module_set_parameter(head, "weight", w));
    if (words) TRY(rsh_module_set_child(*out, "words", embedding));
    TRY(rsh_module_set_child(*out, "head", head));
    rsh_module_free(embedding), rsh_module_free(head);
    return RSH_OK;
}

/* A tied parameter is stored once; it is found under any of its paths. */
static rsh_status tied(void *ctx) {
    char path[128];
    (void)ctx;
    for (int both = 0; both < 2; both++) {
        rsh_module *m = NULL, *same = NULL, *other = NULL;
        rsh_ckpt *c = NULL;
        TRY(make_tied(2, both, &m));
        TRY(make_tied(2, true, &same));
        TRY(make_tied(3, true, &other));
        TRY(save(m, NULL, file(path, "tied")));
        TRY(rsh_ckpt_open(path, NULL, &c));
        CHECK(rsh_ckpt_ntensors(c) == 1 && rsh_ckpt_find(c, both ? "words.weight" : "head.weight") == 0);
        TRY(load(other, NULL, path));
        TRY(close_models(other, same, 0));
        rsh_ckpt_free(c);
        TRY(rsh_comm_barrier(rsh_group_comm(NULL)));
        rsh_module_free(m), rsh_module_free(same), rsh_module_free(other);
    }
    return RSH_OK;
}

static void a_tied_parameter_is_stored_once(void **state) {
    (void)state;
    for (int n = 1; n <= 2; n++) run_on(n, tied, NULL);
}

static rsh_status extras(void *ctx) {
    char path[128];
    rsh_module *m = NULL;
    rsh_state_dict *random = NULL, *later = NULL;
    rsh_module_save_opts out = RSH_MODULE_SAVE_OPTS_INIT;
    rsh_module_load_opts in = RSH_MODULE_LOAD_OPTS_INIT;
    rsh_save_opts files = {sizeof files, .force = true};
    (void)ctx;
    TRY(make_model(4, &m));
    rsh_random_set_state((rsh_random_state){77, 5});
    TRY(rsh_random_state_dict(&random));
    out.extra = random, out.files = &files;
    TRY(rsh_module_save(m, rsh_group_comm(NULL), file(path, "extra"), &out));
    rsh_random_seed(1);
    TRY(rsh_random_state_dict(&later));
    in.extra = later;
    TRY(rsh_module_load(m, rsh_group_comm(NULL), path, &in));
    TRY(rsh_random_load_state_dict(later));
    CHECK(rsh_random_get_state().seed == 77 && rsh_random_get_state().call == 5);
    TRY(load(m, NULL, path)); /* not asked for: left in the files */
    rsh_optimizer *o = NULL;
    TRY(make_optimizer(m, &o));
    CHECK_STATUS(RSH_EVALUE, load(m, o, path)); /* asked for and not there */
    in = (rsh_module_load_opts){sizeof in, .optimizer = o, .flags = RSH_LOAD_NONSTRICT};
    TRY(rsh_module_load(m, rsh_group_comm(NULL), path, &in));
    in.struct_size = 3;
    CHECK_STATUS(RSH_EVALUE, rsh_module_load(m, rsh_group_comm(NULL), path, &in));
    rsh_optimizer_free(o);
    rsh_state_dict_free(random), rsh_state_dict_free(later);
    rsh_module_free(m);
    return RSH_OK;
}

static void other_values_are_saved_too(void **state) {
    (void)state;
    for (int n = 1; n <= 2; n++) run_on(n, extras, NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_run_is_resumed_on_other_ranks_with_another_plan),
        cmocka_unit_test(replicas_are_stored_once_and_all_loaded),
        cmocka_unit_test(what_does_not_fit_is_listed_in_one_message),
        cmocka_unit_test(a_rank_without_memory_leaves_the_model_as_it_was),
        cmocka_unit_test(a_tied_parameter_is_stored_once),
        cmocka_unit_test(other_values_are_saved_too),
    };
    return cmocka_run_group_tests_name("module files", tests, make_folder, remove_folder);
}
