/* Module files: models are saved and loaded in one call, and resumed on other ranks and with other plans.
 *
 * All of them must reach the state of a model that is trained without a stop on one rank. */
#include "file_models.h"

/* Runs one step on n rows of the batch of a step, from row `first` on. */
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

/* Trains.  The ranks divide the rows of a batch, or compute all rows together. */
static rsh_status train(rsh_module *m, rsh_optimizer *o, plan p, int from, int to) {
    int n = rsh_group_size(NULL), me = rsh_group_rank(NULL);
    for (int i = from; i < to; i++)
        TRY(p == TENSOR_PARALLEL ? learn(m, o, i, 0, BATCH) : learn(m, o, i, BATCH / n * me, BATCH / n));
    return RSH_OK;
}

/* ---- without a stop ---- */

static rsh_module *whole_run; /* the model after all steps on one rank, which the others read */

static rsh_status train_whole(void *ctx) {
    rsh_optimizer *o = NULL;
    (void)ctx;
    TRY(make_model(1, &whole_run));
    TRY(make_optimizer(whole_run, &o));
    TRY(train(whole_run, o, PLAIN, 0, 2 * STEPS));
    rsh_optimizer_free(o);
    return RSH_OK;
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
    if (s->loads) TRY(rsh_optimizer_set_lr(o, 1)); /* learning rate and groups come from the files */
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

/* Loads a replica; ctx is the name of the files. */
static rsh_status load_replica(void *ctx) {
    char path[128];
    rsh_module *m = NULL, *plain = NULL;
    rsh_optimizer *o = NULL;
    TRY(make_model(9, &m));
    TRY(make_model(4, &plain));
    TRY(load(m, NULL, file(path, ctx))); /* the optimizer's state is not loaded */
    TRY(close_models(m, plain, 0));
    TRY(cut(m, COLUMNS));
    TRY(make_adam(m, &o));
    TRY(load(m, o, path));
    TRY(close_models(m, plain, 0));
    rsh_optimizer_free(o);
    rsh_module_free(m), rsh_module_free(plain);
    return RSH_OK;
}

static void replicas_are_stored_once_and_all_loaded(void **state) {
    (void)state;
    bool loads = false;
    run_on(4, replicas, &loads);
    loads = true;
    run_on(4, replicas, &loads);
    run_on(1, load_replica, "replicas");
    char from[128], to[128]; /* the same checkpoint as one file and as a Hugging Face directory */
    assert_int_equal(rsh_ckpt_convert(file(from, "replicas"), file(to, "one.safetensors"), NULL, NULL), RSH_OK);
    assert_int_equal(rsh_ckpt_convert(from, file(to, "directory"), NULL, NULL), RSH_OK);
    for (int n = 1; n <= 3; n++) {
        run_on(n, load_replica, "one.safetensors");
        run_on(n, load_replica, "directory");
    }
}

/* ---- tied parameters, and other values ---- */

static const rsh_module_kind holder = {.name = "Holder"};

/* Makes "words" [5, 4] and "head", which has the same weight if tied; or "head" alone. */
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

/* A tied parameter is stored once and found under any of its paths. */
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
    TRY(load(m, NULL, path)); /* not requested, so not loaded */
    rsh_optimizer *o = NULL;
    TRY(make_optimizer(m, &o));
    CHECK_STATUS(RSH_EVALUE, load(m, o, path)); /* requested, but not in the files */
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
        cmocka_unit_test(a_tied_parameter_is_stored_once),
        cmocka_unit_test(other_values_are_saved_too),
    };
    return cmocka_run_group_tests_name("module files", tests, make_folder, remove_folder);
}
