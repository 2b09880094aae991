/* Parallel state: optimizers, clipping, state dicts, checkpoints and hooks with parameters that are DTensors.
 *
 * Gradients are set directly, so nothing here depends on how ops treat DTensors. */
#include "parallel_models.h"

#include <unistd.h>

#include <reshard/ckpt.h>

/* ---- models ---- */

/* Makes a model with sizes that are not divisible by 2 and 4, an embedding with a padding row, and norms. */
static rsh_status model(rsh_module **out) {
    rsh_module *m[4] = {0};
    rsh_embedding_opts padded = {sizeof padded, .padded = true, .padding = 6};
    TRY(rsh_embedding_new(7, 5, &padded, RSH_F64, &m[0]));
    TRY(rsh_linear_new(5, 9, true, RSH_F64, &m[1]));
    TRY(rsh_linear_new(9, 5, true, RSH_F64, &m[2]));
    TRY(rsh_layer_norm_new(1, (int64_t[]){5}, 1e-5, true, RSH_F64, &m[3]));
    TRY(rsh_sequential_new(4, m, out));
    for (int i = 0; i < 4; i++) rsh_module_free(m[i]);
    return RSH_OK;
}

static rsh_status cut(rsh_module *m, rsh_mesh *mesh) {
    rsh_parallel_entry plan[] = {{"0", rsh_rowwise_style()},
                                 {"1", rsh_colwise_style()},
                                 {"2", rsh_rowwise_style()},
                                 {"3", rsh_sequence_style(1)}};
    return rsh_parallelize_module(m, mesh, 4, plan);
}

/* Sets a gradient for every parameter of both models: normal numbers by seed; those of the plain model are cut like the
 * other's. */
static rsh_status give_grads(rsh_module *m, rsh_module *plain, uint64_t seed) {
    listing a = {.n = 0}, b = {.n = 0};
    TRY(rsh_module_each_parameter(m, false, list_one, &a));
    TRY(rsh_module_each_parameter(plain, false, list_one, &b));
    for (int i = 0; i < a.n; i++) {
        rsh_value *g = NULL, *d = NULL;
        rsh_mesh *mesh = rsh_dtensor_mesh(a.at[i]);
        rsh_place place;
        TRY(make_value(RSH_F64, rsh_value_ndim(b.at[i]), rsh_value_shape(b.at[i]), seed + (uint64_t)i, false, &g));
        TRY(rsh_dtensor_places(a.at[i], &place));
        TRY(rsh_dtensor_distribute(rsh_value_tensor(g), false, mesh, 1, &place, RSH_SOURCE_OWN, &d));
        TRY(rsh_value_set_grad(a.at[i], d));
        TRY(rsh_value_set_grad(b.at[i], g));
        rsh_value_free(g), rsh_value_free(d);
    }
    return RSH_OK;
}

static rsh_status new_optimizer(int kind, rsh_module *m, rsh_optimizer **out) {
    rsh_adam_opts adam = RSH_ADAM_OPTS_INIT, adamw = RSH_ADAMW_OPTS_INIT;
    rsh_sgd_opts sgd = {sizeof sgd, .lr = 0.1, .momentum = 0.9, .weight_decay = 0.01};
    if (kind == 0) return rsh_sgd_new(m, &sgd, out);
    return rsh_adam_new(m, kind == 1 ? &adam : &adamw, out);
}

/* ---- optimizers ---- */

static rsh_status steps_trial(void *ctx) {
    (void)ctx;
    rsh_mesh *mesh = NULL;
    TRY(line(&mesh));
    for (int kind = 0; kind < 3; kind++) {
        rsh_module *m = NULL, *plain = NULL;
        rsh_optimizer *o = NULL, *p = NULL;
        rsh_random_seed(2);
        TRY(model(&m));
        rsh_random_seed(2);
        TRY(model(&plain));
        TRY(cut(m, mesh));
        TRY(new_optimizer(kind, m, &o));
        TRY(new_optimizer(kind, plain, &p));
        for (uint64_t i = 0; i < 3; i++) {
            double norm = 0, plain_norm = 0;
            TRY(rsh_optimizer_zero_grad(o));
            TRY(rsh_optimizer_zero_grad(p));
            TRY(give_grads(m, plain, 100 * i));
            TRY(rsh_clip_grad_norm(m, 1, &norm));
            TRY(rsh_clip_grad_norm(plain, 1, &plain_norm));
            CHECK(fabs(norm - plain_norm) <= 1e-12 * plain_norm && norm > 1);
            TRY(rsh_optimizer_step(o));
            TRY(rsh_optimizer_step(p));
            TRY(close_models(m, plain, 1e-13));
        }
        rsh_optimizer_free(o), rsh_optimizer_free(p);
        rsh_module_free(m), rsh_module_free(plain);
    }
    rsh_mesh_free(mesh);
    return RSH_OK;
}
static void optimizers_and_clipping_count_every_element_once(void **state) {
    (void)state;
    run_ranks(steps_trial, NULL);
}

/* ---- data parallelism combined with tensor parallelism ---- */

static rsh_status sync_trial(void *ctx) {
    (void)ctx;
    rsh_mesh *mesh = NULL, *tp = NULL;
    rsh_module *m = NULL, *plain = NULL;
    rsh_group *dp = NULL, *other = NULL;
    TRY(grid(2, 2, &mesh, &tp));
    TRY(rsh_group_new(2, (int[]){0, 2}, &dp));
    TRY(rsh_group_new(2, (int[]){1, 3}, &other));
    rsh_random_seed(2);
    TRY(model(&m));
    rsh_random_seed(2);
    TRY(model(&plain));
    TRY(cut(m, tp));
    int64_t row = rsh_mesh_coordinate(mesh)[0];
    TRY(give_grads(m, plain, 1000 * (uint64_t)row)); /* the two rows have different gradients */
    rsh_group *mine = rsh_mesh_coordinate(mesh)[1] ? other : dp;
    TRY(rsh_module_sync_grads(m, mine, RSH_OP_SUM));
    TRY(rsh_module_sync_grads(plain, mine, RSH_OP_SUM));
    TRY(close_models(m, plain, 0));
    TRY(rsh_module_zero_grad(m)); /* over its own mesh nothing is summed again */
    TRY(give_grads(m, plain, 5));
    rsh_group *line[2] = {NULL};
    TRY(rsh_group_new(2, (int[]){0, 1}, &line[0]));
    TRY(rsh_group_new(2, (int[]){2, 3}, &line[1]));
    TRY(rsh_module_sync_grads(m, line[row], RSH_OP_SUM));
    TRY(close_models(m, plain, 0));
    rsh_group_free(dp), rsh_group_free(other), rsh_group_free(line[0]), rsh_group_free(line[1]);
    rsh_module_free(m), rsh_module_free(plain);
    rsh_mesh_free(tp), rsh_mesh_free(mesh);
    return RSH_OK;
}
static void gradients_are_combined_over_dp_and_not_over_tp(void **state) {
    (void)state;
    run_groups(4, sync_trial, NULL);
}

/* ---- state ---- */

static rsh_status all_dtensors(const rsh_state_dict *d) {
    for (int64_t i = 0; i < rsh_state_dict_count(d); i++) {
        rsh_value *v = rsh_state_dict_value(d, i);
        if (rsh_value_ndim(v)) CHECK(rsh_dtensor_mesh(v));
    }
    return RSH_OK;
}

static rsh_status state_trial(void *ctx) {
    (void)ctx;
    rsh_mesh *mesh = NULL;
    rsh_module *m = NULL, *again = NULL, *plain = NULL;
    rsh_optimizer *o = NULL, *p = NULL;
    rsh_state_dict *d = NULL;
    TRY(line(&mesh));
    rsh_random_seed(2);
    TRY(model(&m));
    rsh_random_seed(3);
    TRY(model(&again));
    rsh_random_seed(2);
    TRY(model(&plain));
    TRY(cut(m, mesh));
    TRY(cut(again, mesh));
    TRY(rsh_module_state_dict(m, &d));
    TRY(all_dtensors(d));
    TRY(rsh_module_load_state_dict(again, d, 0));
    TRY(close_models(again, plain, 0));
    rsh_state_dict_free(d);
    TRY(rsh_module_state_dict(plain, &d)); /* loads whole tensors into DTensors */
    TRY(rsh_module_load_state_dict(again, d, 0));
    rsh_state_dict_free(d);
    TRY(new_optimizer(1, m, &o));
    TRY(new_optimizer(1, again, &p));
    TRY(give_grads(m, plain, 1));
    TRY(rsh_optimizer_step(o));
    TRY(rsh_optimizer_state_dict(o, &d));
    TRY(all_dtensors(d));
    TRY(rsh_optimizer_load_state_dict(p, d));
    rsh_state_dict_free(d);
    TRY(rsh_module_state_dict(m, &d));
    TRY(rsh_module_load_state_dict(again, d, 0));
    rsh_state_dict_free(d);
    TRY(give_grads(again, plain, 2));
    TRY(rsh_optimizer_step(p));
    TRY(give_grads(m, plain, 2));
    TRY(rsh_optimizer_step(o));
    listing a = {.n = 0}, b = {.n = 0};
    TRY(rsh_module_each_parameter(m, false, list_one, &a));
    TRY(rsh_module_each_parameter(again, false, list_one, &b));
    for (int i = 0; i < a.n; i++) CHECK_CLOSE(rsh_value_part(a.at[i], 0), rsh_value_part(b.at[i], 0), 0);
    rsh_optimizer_free(o), rsh_optimizer_free(p);
    rsh_module_free(m), rsh_module_free(again), rsh_module_free(plain);
    rsh_mesh_free(mesh);
    return RSH_OK;
}
static void state_dicts_have_dtensors_and_load_them(void **state) {
    (void)state;
    run_ranks(state_trial, NULL);
}

/* ---- checkpoints ---- */

typedef struct saved {
    char path[64];
    bool load;
} saved;

static rsh_status save_model(const saved *s, rsh_comm *comm, rsh_module *m) {
    rsh_state_dict *d = NULL;
    const char *names[16];
    const rsh_sharded *tensors[16];
    TRY(rsh_module_state_dict(m, &d));
    int64_t n = rsh_state_dict_count(d);
    for (int64_t i = 0; i < n; i++) {
        names[i] = rsh_state_dict_name(d, i);
        tensors[i] = rsh_value_sharded(rsh_state_dict_value(d, i));
    }
    TRY(rsh_ckpt_save(comm, s->path, n, names, tensors, NULL));
    rsh_state_dict_free(d);
    return RSH_OK;
}

static rsh_status load_model(const saved *s, rsh_comm *comm, rsh_module *m) {
    rsh_state_dict *d = NULL;
    rsh_ckpt *c = NULL;
    TRY(rsh_module_state_dict(m, &d));
    TRY(rsh_ckpt_open(s->path, NULL, &c));
    for (int64_t i = 0; i < rsh_state_dict_count(d); i++) {
        rsh_sharded *t = NULL;
        rsh_value *v = NULL;
        const char *name = rsh_state_dict_name(d, i);
        TRY(rsh_sharded_empty(comm, rsh_value_layout(rsh_state_dict_value(d, i)), &t));
        TRY(rsh_ckpt_load(c, comm, 1, &name, &t, NULL));
        TRY(rsh_value_adopt_sharded(t, false, &v));
        TRY(rsh_state_dict_set(d, name, v));
        rsh_value_free(v);
    }
    TRY(rsh_module_load_state_dict(m, d, 0));
    rsh_ckpt_free(c);
    rsh_state_dict_free(d);
    return RSH_OK;
}

static rsh_status ckpt_trial(void *ctx) {
    const saved *s = ctx;
    rsh_mesh *mesh = NULL;
    rsh_module *m = NULL, *plain = NULL;
    TRY(line(&mesh));
    rsh_random_seed(2);
    TRY(model(&plain));
    rsh_random_seed(s->load ? 9 : 2);
    TRY(model(&m));
    TRY(cut(m, mesh));
    if (s->load) TRY(load_model(s, rsh_mesh_comm(mesh), m));
    else TRY(save_model(s, rsh_mesh_comm(mesh), m));
    TRY(close_models(m, plain, 0));
    rsh_module_free(m), rsh_module_free(plain);
    rsh_mesh_free(mesh);
    return RSH_OK;
}

static void four_ranks_save_and_two_load(void **state) {
    (void)state;
    char folder[] = "/tmp/reshard-parallel-XXXXXX", command[128];
    assert_non_null(mkdtemp(folder));
    saved s = {.load = false};
    snprintf(s.path, sizeof s.path, "%s/model", folder);
    body b = {ckpt_trial, &s};
    for (int n = 4; n >= 1; n /= 2) {
        rsh_status st = rsh_run(n, with_default_group, &b);
        if (st) fail_msg("%d ranks: %s", n, rsh_error_detail());
        s.load = true;
    }
    snprintf(command, sizeof command, "rm -r %s", folder);
    assert_int_equal(system(command), 0);
}

/* ---- deferred elements ---- */

static rsh_status meta_trial(void *ctx) {
    (void)ctx;
    rsh_mesh *mesh = NULL, *tp = NULL;
    rsh_module *m = NULL, *plain = NULL, *second = NULL;
    rsh_value *x = NULL, *y = NULL;
    TRY(grid(2, rsh_group_size(NULL) / 2, &mesh, &tp));
    rsh_random_seed(6);
    TRY(model(&plain));
    rsh_random_state after = rsh_random_get_state();
    rsh_random_seed(6);
    uint64_t before = rsh_alloc_get_stats().data_bytes;
    bool was = rsh_layers_defer_init(true);
    rsh_status st = model(&m);
    CHECK(!was && rsh_layers_defer_init(false));
    TRY(st);
    CHECK(rsh_alloc_get_stats().data_bytes - before <= 7 * 64); /* one element for each parameter */
    CHECK(rsh_random_get_state().call == after.call);
    TRY(rsh_module_submodule(m, "1", &second));
    TRY(make_value(RSH_F64, 2, (int64_t[]){3, 5}, 1, false, &x));
    CHECK_STATUS(RSH_ERUNTIME, rsh_module_forward(second, x, &y));
    TRY(cut(m, tp));
    TRY(rsh_module_materialize(m));
    CHECK(rsh_random_get_state().call == after.call);
    TRY(close_models(m, plain, 0)); /* so values are equal across dp, and different parts across tp */
    TRY(rsh_module_materialize(m));
    TRY(close_models(m, plain, 0));
    rsh_value_free(x);
    rsh_module_free(m), rsh_module_free(plain);
    rsh_mesh_free(tp), rsh_mesh_free(mesh);
    return RSH_OK;
}
static void test_tp_model_meta_init(void **state) {
    (void)state;
    run_groups(2, meta_trial, NULL);
    run_groups(4, meta_trial, NULL);
}

static rsh_status whole_later(void *ctx) {
    (void)ctx;
    rsh_module *m = NULL, *plain = NULL;
    rsh_random_seed(6);
    TRY(model(&plain));
    rsh_random_seed(6);
    rsh_layers_defer_init(true);
    TRY(model(&m));
    rsh_layers_defer_init(false);
    TRY(rsh_module_materialize(m));
    TRY(close_models(m, plain, 0));
    rsh_module_free(m), rsh_module_free(plain);
    return RSH_OK;
}
static void a_model_that_is_not_cut_gets_its_elements_later_too(void **state) {
    (void)state;
    run_groups(1, whole_later, NULL);
}

/* ---- printing ---- */

typedef struct page {
    char text[2000];
    size_t n;
} page;
static int write_page(void *ctx, const char *text, size_t n) {
    page *p = ctx;
    if (p->n + n >= sizeof p->text) return 1;
    memcpy(p->text + p->n, text, n);
    p->n += n;
    return 0;
}

static rsh_status print_trial(void *ctx) {
    (void)ctx;
    rsh_mesh *mesh = NULL;
    rsh_value *v = NULL, *plain = NULL;
    rsh_place rows = rsh_place_shard(0);
    page p = {.n = 0};
    rsh_sink sink = {write_page, &p};
    TRY(line(&mesh));
    TRY(rsh_dtensor_full(mesh, 1, &rows, RSH_F32, 2, (int64_t[]){3, 2}, 7, &v));
    TRY(rsh_dtensor_print(v, &sink));
    bool second = rsh_group_rank(NULL) == 1;
    CHECK(strstr(p.text, "DTensor f32[3, 2] (S0) on a mesh of [2]; the part at [") && strstr(p.text, "7"));
    CHECK(strstr(p.text, second ? "at [1]:" : "at [0]:"));
    TRY(rsh_value_share_tensor(rsh_value_part(v, 0), false, &plain));
    CHECK_STATUS(RSH_EVALUE, rsh_dtensor_print(plain, &sink));
    rsh_value_free(v), rsh_value_free(plain);
    rsh_mesh_free(mesh);
    return RSH_OK;
}
static void a_dtensor_prints_its_placements_and_its_part(void **state) {
    (void)state;
    run_groups(2, print_trial, NULL);
}

/* ---- marked parts ---- */

static rsh_status keeps(void *ctx, rsh_value *v, void **packed) {
    int *marked = ctx;
    *marked += rsh_dtensor_part_mesh(v) != NULL;
    return rsh_value_detach(v, (rsh_value **)packed);
}
static rsh_status gives(void *ctx, void *packed, rsh_value **out) {
    (void)ctx;
    return rsh_value_detach(packed, out);
}
static void ends(void *ctx, void *packed) {
    (void)ctx;
    rsh_value_free(packed);
}

static rsh_status part_trial(void *ctx) {
    (void)ctx;
    rsh_mesh *mesh = NULL;
    rsh_value *x = NULL, *d = NULL, *part = NULL, *y = NULL, *z = NULL, *bare = NULL;
    rsh_tensor *t = NULL;
    rsh_place columns = rsh_place_shard(1), whole = rsh_place_replicate();
    int marked = 0;
    TRY(line(&mesh));
    TRY(make_value(RSH_F64, 2, (int64_t[]){4, 6}, 1, false, &x));
    TRY(rsh_dtensor_distribute(rsh_value_tensor(x), true, mesh, 1, &columns, 0, &d));
    TRY(rsh_dtensor_part(d, NULL, &part));
    CHECK(!rsh_value_sharded(part) && !rsh_dtensor_mesh(part) && rsh_dtensor_part_mesh(part) == mesh);
    CHECK(rsh_layout_equal(rsh_dtensor_part_layout(part), rsh_value_layout(d)));
    TRY(rsh_saved_hooks_push(&(rsh_saved_hooks){.pack = keeps, .unpack = gives, .release = ends, .ctx = &marked}));
    TRY(rsh_nn_dropout(part, 0.5, 1, 1, &y)); /* saves a mask that it creates */
    TRY(rsh_nn_relu(y, &z));
    TRY(rsh_saved_hooks_pop());
    CHECK(marked == 2);
    CHECK(rsh_dtensor_part_mesh(z) == mesh && !rsh_dtensor_part_layout(z));
    TRY(rsh_dtensor_to_local(z, NULL, &bare));
    CHECK(!rsh_dtensor_part_mesh(bare));
    CHECK_CLOSE(rsh_value_tensor(bare), rsh_value_tensor(z), 0);
    TRY(rsh_tensor_empty(RSH_F64, 2, rsh_value_shape(bare), &t));
    TRY(rsh_math_fill_number(t, 1));
    rsh_value *seed = NULL;
    TRY(rsh_value_adopt_tensor(t, false, &seed));
    TRY(rsh_backward(bare, seed, 0));
    CHECK(rsh_value_grad(d) && rsh_dtensor_mesh(rsh_value_grad(d)) == mesh);
    rsh_value_free(seed);
    rsh_value *r = NULL, *plain = NULL; /* a replicated value needs no mark */
    TRY(rsh_dtensor_redistribute(d, 1, &whole, RSH_DTYPE_NONE, &r));
    TRY(rsh_dtensor_part(r, NULL, &plain));
    CHECK(!rsh_dtensor_part_mesh(plain));
    rsh_value_free(r), rsh_value_free(plain);
    rsh_value_free(x), rsh_value_free(d), rsh_value_free(part), rsh_value_free(y), rsh_value_free(z);
    rsh_value_free(bare);
    rsh_mesh_free(mesh);
    return RSH_OK;
}
static void a_local_part_and_what_is_computed_from_it_are_marked(void **state) {
    (void)state;
    run_groups(2, part_trial, NULL);
    run_groups(4, part_trial, NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(optimizers_and_clipping_count_every_element_once),
        cmocka_unit_test(gradients_are_combined_over_dp_and_not_over_tp),
        cmocka_unit_test(state_dicts_have_dtensors_and_load_them),
        cmocka_unit_test(four_ranks_save_and_two_load),
        cmocka_unit_test(test_tp_model_meta_init),
        cmocka_unit_test(a_model_that_is_not_cut_gets_its_elements_later_too),
        cmocka_unit_test(a_dtensor_prints_its_placements_and_its_part),
        cmocka_unit_test(a_local_part_and_what_is_computed_from_it_are_marked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
