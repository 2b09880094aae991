/* Parallel plans: which parameters they cut, which plans are errors, and that they change a whole tree or nothing. */
#include "parallel_models.h"


static const rsh_module_kind box = {.name = "Box"};

/* Makes "a" with a child "b", a child "b" of the root, two layers with "up" and "down", and an embedding tied to a
 * head. */
static rsh_status tree(rsh_module **out) {
    rsh_module *m = NULL, *a = NULL, *list = NULL, *child = NULL, *embedding = NULL;
    rsh_value *weight = NULL;
    rsh_random_seed(5);
    TRY(rsh_module_new(&box, NULL, &m));
    TRY(rsh_module_new(&box, NULL, &a));
    TRY(rsh_linear_new(6, 4, true, RSH_F64, &child));
    TRY(give(a, "b", child));
    TRY(give(m, "a", a));
    TRY(rsh_linear_new(6, 4, true, RSH_F64, &child));
    TRY(give(m, "b", child));
    TRY(rsh_module_new(&box, NULL, &list));
    for (int i = 0; i < 2; i++) {
        rsh_module *layer = NULL;
        TRY(rsh_module_new(&box, NULL, &layer));
        TRY(rsh_linear_new(5, 7, true, RSH_F64, &child));
        TRY(give(layer, "up", child));
        TRY(rsh_linear_new(7, 5, true, RSH_F64, &child));
        TRY(give(layer, "down", child));
        TRY(give(list, i ? "1" : "0", layer));
    }
    TRY(give(m, "layers", list));
    TRY(rsh_embedding_new(9, 6, NULL, RSH_F64, &embedding));
    TRY(rsh_module_parameter(embedding, "weight", &weight));
    TRY(rsh_linear_new(6, 9, false, RSH_F64, &child));
    TRY(rsh_module_set_parameter(child, "weight", weight));
    TRY(give(m, "embedding", embedding));
    TRY(give(m, "head", child));
    *out = m;
    return RSH_OK;
}

/* ---- what is cut ---- */

static rsh_status styles_trial(void *ctx) {
    rsh_module *m = NULL, *plain = NULL;
    rsh_mesh *mesh = NULL;
    rsh_value *frozen = NULL;
    (void)ctx;
    TRY(line(&mesh));
    TRY(tree(&plain));
    TRY(tree(&m));
    for (int i = 0; i < 2; i++) {
        TRY(value_at(i ? m : plain, "layers.0.up.weight", &frozen));
        TRY(rsh_value_set_requires_grad(frozen, false));
    }
    rsh_parallel_entry plan[] = {{"layers.*.up", rsh_colwise_style()}, {"layers.[01].down", rsh_rowwise_style()}};
    TRY(rsh_parallelize_module(m, mesh, 2, plan));
    for (int i = 0; i < 2; i++) {
        char path[64];
        const char *const names[] = {"up.weight", "up.bias", "down.weight", "down.bias"};
        const rsh_place places[] = {rsh_place_shard(0), rsh_place_shard(0), rsh_place_shard(1), rsh_place_replicate()};
        for (int k = 0; k < 4; k++) {
            snprintf(path, sizeof path, "layers.%d.%s", i, names[k]);
            TRY(is_placed(m, plain, path, places[k]));
        }
    }
    TRY(is_plain(m, "b.weight"));
    TRY(is_plain(m, "a.b.weight"));
    TRY(is_plain(m, "embedding.weight"));
    TRY(rsh_parallelize_module(m, mesh, 0, NULL));
    rsh_module_free(m), rsh_module_free(plain);
    rsh_mesh_free(mesh);
    return RSH_OK;
}
static void styles_cut_parameters_and_keep_frozen_ones_frozen(void **state) {
    (void)state;
    run_ranks(styles_trial, NULL);
}

static rsh_status levels_trial(void *ctx) {
    rsh_module *m = NULL, *plain = NULL, *inner = NULL;
    rsh_mesh *mesh = NULL;
    (void)ctx;
    TRY(line(&mesh));
    TRY(tree(&plain));
    TRY(tree(&m));
    rsh_parallel_entry plan[] = {{"a.b", rsh_colwise_style()}};
    TRY(rsh_parallelize_module(m, mesh, 1, plan));
    TRY(is_placed(m, plain, "a.b.weight", rsh_place_shard(0)));
    TRY(is_plain(m, "b.weight"));
    plan[0] = (rsh_parallel_entry){"?", rsh_sequence_style(1)}; /* matches "a" and "b" of the root */
    CHECK_STATUS(RSH_EVALUE, rsh_parallelize_module(m, mesh, 1, plan)); /* "a" is not a layer with one input */
    TRY(is_plain(m, "b.weight"));
    plan[0].path = "";
    plan[0].style = rsh_rowwise_style();
    TRY(rsh_module_submodule(m, "b", &inner));
    TRY(rsh_parallelize_module(inner, mesh, 1, plan));
    TRY(is_placed(m, plain, "b.weight", rsh_place_shard(1)));
    rsh_module_free(m), rsh_module_free(plain);
    rsh_mesh_free(mesh);
    return RSH_OK;
}
/* PyTorch's defect B-20. */
static void a_step_of_a_path_is_matched_at_its_own_level(void **state) {
    (void)state;
    run_ranks(levels_trial, NULL);
}

static rsh_status tied_trial(void *ctx) {
    rsh_module *m = NULL, *plain = NULL;
    rsh_mesh *mesh = NULL;
    rsh_value *one = NULL, *other = NULL;
    (void)ctx;
    TRY(line(&mesh));
    TRY(tree(&plain));
    TRY(tree(&m));
    rsh_parallel_entry plan[] = {{"embedding", rsh_colwise_style()}, {"head", rsh_colwise_style()}};
    CHECK_STATUS(RSH_EVALUE, rsh_parallelize_module(m, mesh, 2, plan)); /* one cuts columns, the other rows */
    TRY(is_plain(m, "head.weight"));
    plan[0].style = rsh_rowwise_style();
    TRY(rsh_parallelize_module(m, mesh, 2, plan));
    TRY(is_placed(m, plain, "head.weight", rsh_place_shard(0)));
    TRY(value_at(m, "embedding.weight", &one));
    TRY(value_at(m, "head.weight", &other));
    CHECK(one == other);
    rsh_module_free(m), rsh_module_free(plain);
    rsh_mesh_free(mesh);
    return RSH_OK;
}
static void tied_weights_stay_tied(void **state) {
    (void)state;
    run_ranks(tied_trial, NULL);
}

/* ---- errors ---- */

static const rsh_prepare wrong_name[] = {{.name = "mask"}}, two[2];

static rsh_status all_plain(rsh_module *m) {
    listing l = {.n = 0};
    TRY(rsh_module_each_parameter(m, true, list_one, &l));
    for (int i = 0; i < l.n; i++) CHECK(!rsh_value_sharded(l.at[i]));
    return RSH_OK;
}

static rsh_status refused_trial(void *ctx) {
    rsh_module *m = NULL, *b = NULL;
    rsh_mesh *mesh = NULL, *flat = NULL;
    rsh_value *x = NULL, *y = NULL;
    int size = rsh_group_size(NULL), rank = rsh_group_rank(NULL);
    (void)ctx;
    TRY(line(&mesh));
    TRY(rsh_mesh_new(rsh_group_comm(NULL), 2, (int64_t[]){size, 1}, NULL, NULL, &flat));
    TRY(tree(&m));
    rsh_style odd = rsh_colwise_style();
    odd.kind = (rsh_style_kind)77;
    const struct {
        rsh_status status;
        rsh_parallel_entry entry;
    } bad[] = {
        {RSH_EATTR, {"c", rsh_colwise_style()}},
        {RSH_EATTR, {"a.c", rsh_colwise_style()}},
        {RSH_EATTR, {"b.b", rsh_colwise_style()}},
        {RSH_EVALUE, {NULL, rsh_colwise_style()}},
        {RSH_EVALUE, {"a..b", rsh_colwise_style()}},
        {RSH_EVALUE, {"a.", rsh_colwise_style()}},
        {RSH_EVALUE, {".a", rsh_colwise_style()}},
        {RSH_EUNSUP, {"layers", rsh_colwise_style()}},
        {RSH_EUNSUP, {"layers.*", rsh_rowwise_style()}},
        {RSH_EVALUE, {"b", odd}},
        {RSH_EKEY, {"b", rsh_prepare_input_style(1, wrong_name)}},
        {RSH_EVALUE, {"b", rsh_prepare_input_style(2, two)}},
        {RSH_EVALUE, {"b", rsh_prepare_input_style(1, NULL)}},
        {RSH_EVALUE, {"b", rsh_prepare_output_style(2, two)}},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        rsh_parallel_entry plan[] = {{"layers.*.up", rsh_colwise_style()}, bad[i].entry};
        CHECK_STATUS(bad[i].status, rsh_parallelize_module(m, mesh, 2, plan));
        TRY(all_plain(m));
        /* a different plan on one rank only */
        if (rank != size - 1) plan[1] = (rsh_parallel_entry){"b", rsh_colwise_style()};
        CHECK_STATUS(bad[i].status, rsh_parallelize_module(m, mesh, 2, plan));
        TRY(all_plain(m));
    }
    rsh_parallel_entry plan[] = {{"layers.*.up", rsh_colwise_style()}, {"b", rsh_rowwise_style()}};
    CHECK_STATUS(RSH_EVALUE, rsh_parallelize_module(m, flat, 2, plan));
    CHECK_STATUS(RSH_EVALUE, rsh_parallelize_module(NULL, mesh, 2, plan));
    CHECK_STATUS(RSH_EVALUE, rsh_parallelize_module(m, mesh, -1, plan));
    if (size > 1) {
        if (rank == 0) plan[1].style = rsh_colwise_style();
        CHECK_STATUS(RSH_EMISMATCH, rsh_parallelize_module(m, mesh, 2, plan));
        plan[1].style = rsh_rowwise_style(); /* the same parameters, but different outputs */
        if (rank == 0) plan[1].style.output = rsh_place_shard(-1);
        CHECK_STATUS(RSH_EMISMATCH, rsh_parallelize_module(m, mesh, 2, plan));
        /* the same hooks, but on different modules */
        plan[1] = (rsh_parallel_entry){"b", rsh_prepare_input_style(1, two)};
        if (rank == 0) plan[1].path = "a.b";
        CHECK_STATUS(RSH_EMISMATCH, rsh_parallelize_module(m, mesh, 2, plan));
    }
    TRY(all_plain(m));
    TRY(rsh_module_submodule(m, "b", &b)); /* and no hook is left: it works as a plain layer */
    TRY(make_value(RSH_F64, 2, (int64_t[]){3, 6}, 1, false, &x));
    TRY(rsh_module_forward(b, x, &y));
    CHECK(!rsh_value_sharded(y) && rsh_value_shape(y)[1] == 4);
    rsh_value_free(x), rsh_value_free(y);
    rsh_module_free(m);
    rsh_mesh_free(flat), rsh_mesh_free(mesh);
    return RSH_OK;
}
static void a_plan_that_one_rank_refuses_changes_nothing_on_any(void **state) {
    (void)state;
    run_ranks(refused_trial, NULL);
}

/* Each allocation of the last rank fails in turn. */
static rsh_status memory_trial(void *ctx) {
    rsh_module *m = NULL;
    rsh_mesh *mesh = NULL;
    rsh_status st = RSH_ENOMEM;
    bool last = rsh_group_rank(NULL) == rsh_group_size(NULL) - 1;
    rsh_parallel_entry plan[] = {{"layers.*.up", rsh_colwise_style()}, {"a.b", rsh_rowwise_style()}};
    (void)ctx;
    TRY(line(&mesh));
    TRY(tree(&m));
    for (int64_t k = 0; st; k++) {
        if (last) rsh_alloc_fail_at(k);
        st = rsh_parallelize_module(m, mesh, 2, plan);
        if (last) rsh_alloc_fail_at(-1);
        CHECK(st == RSH_OK || st == RSH_ENOMEM);
        if (st) TRY(all_plain(m));
    }
    rsh_value *v = NULL;
    TRY(value_at(m, "a.b.weight", &v));
    CHECK(rsh_dtensor_mesh(v));
    rsh_module_free(m);
    rsh_mesh_free(mesh);
    return RSH_OK;
}
static void a_rank_without_memory_refuses_the_plan_on_all(void **state) {
    (void)state;
    run_groups(2, memory_trial, NULL);
}

/* A parameter that is already a DTensor, with the same and with another placement. */
static rsh_status twice_trial(void *ctx) {
    rsh_module *m = NULL;
    rsh_mesh *mesh = NULL;
    (void)ctx;
    TRY(line(&mesh));
    TRY(tree(&m));
    rsh_parallel_entry plan[] = {{"b", rsh_colwise_style()}};
    TRY(rsh_parallelize_module(m, mesh, 1, plan));
    plan[0].style = rsh_rowwise_style();
    CHECK_STATUS(RSH_EVALUE, rsh_parallelize_module(m, mesh, 1, plan));
    rsh_module_free(m);
    rsh_mesh_free(mesh);
    return RSH_OK;
}
static void a_parameter_is_not_cut_twice(void **state) {
    (void)state;
    run_ranks(twice_trial, NULL);
}

/* ---- whole trees ---- */

static rsh_status halves(void *ctx, const char *path, rsh_module *owner, const char *name, const rsh_value *value,
                         rsh_place *places) {
    (void)ctx, (void)owner, (void)value;
    if (strstr(path, ".up.") && !strcmp(name, "weight")) places[0] = rsh_place_shard(1);
    return RSH_OK;
}

static rsh_status fails_late(void *ctx, const char *path, rsh_module *owner, const char *name, const rsh_value *value,
                             rsh_place *places) {
    (void)ctx, (void)owner, (void)value, (void)name;
    if (!strcmp(path, "layers.1.down.bias")) places[0] = rsh_place_shard(5);
    return RSH_OK;
}

static rsh_status to_replicated(void *ctx, rsh_module *m, rsh_mesh *mesh, rsh_value **in) {
    rsh_place whole = rsh_place_replicate();
    rsh_value *d = NULL;
    (void)m;
    rsh_from_local_opts opts = {sizeof opts, .shape = rsh_value_shape(in[0])};
    TRY(rsh_dtensor_from_local(in[0], mesh, 1, &whole, &opts, &d));
    rsh_value_free(in[0]);
    in[0] = d;
    ++*(int *)ctx;
    return RSH_OK;
}

static rsh_status to_plain(void *ctx, rsh_module *m, rsh_mesh *mesh, rsh_value **out) {
    rsh_value *plain = NULL;
    (void)m, (void)mesh;
    TRY(rsh_dtensor_full_tensor(out[0], NULL, &plain));
    rsh_value_free(out[0]);
    out[0] = plain;
    *(int *)ctx += 10;
    return RSH_OK;
}

static rsh_status whole_trial(void *ctx) {
    rsh_module *m = NULL, *plain = NULL, *relu = NULL;
    rsh_mesh *mesh = NULL;
    rsh_value *x = NULL, *y = NULL, *z = NULL;
    int calls = 0;
    (void)ctx;
    TRY(line(&mesh));
    TRY(tree(&plain));
    TRY(tree(&m));
    CHECK_STATUS(RSH_EINDEX, rsh_distribute_module(m, mesh, &(rsh_distribution){.partition = fails_late}));
    TRY(all_plain(m));
    TRY(rsh_distribute_module(m, mesh, &(rsh_distribution){.partition = halves}));
    TRY(is_placed(m, plain, "layers.1.up.weight", rsh_place_shard(1)));
    TRY(is_placed(m, plain, "layers.1.up.bias", rsh_place_replicate()));
    TRY(is_placed(m, plain, "embedding.weight", rsh_place_replicate()));
    TRY(rsh_distribute_module(m, mesh, NULL)); /* values that are already distributed do not change */
    TRY(is_placed(m, plain, "layers.1.up.weight", rsh_place_shard(1)));
    TRY(rsh_relu_new(&relu));
    TRY(rsh_distribute_module(relu, mesh, &(rsh_distribution){NULL, to_replicated, to_plain, &calls}));
    TRY(make_value(RSH_F64, 2, (int64_t[]){3, 6}, 1, false, &x));
    TRY(rsh_module_forward(relu, x, &y));
    TRY(rsh_nn_relu(x, &z));
    CHECK(calls == 11 && !rsh_value_sharded(y));
    CHECK_CLOSE(rsh_value_tensor(y), rsh_value_tensor(z), 0);
    rsh_value_free(x), rsh_value_free(y), rsh_value_free(z);
    rsh_module_free(m), rsh_module_free(plain), rsh_module_free(relu);
    rsh_mesh_free(mesh);
    return RSH_OK;
}
static void a_whole_tree_is_distributed_by_a_function(void **state) {
    (void)state;
    run_ranks(whole_trial, NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(styles_cut_parameters_and_keep_frozen_ones_frozen),
        cmocka_unit_test(a_step_of_a_path_is_matched_at_its_own_level),
        cmocka_unit_test(tied_weights_stay_tied),
        cmocka_unit_test(a_plan_that_one_rank_refuses_changes_nothing_on_any),
        cmocka_unit_test(a_rank_without_memory_refuses_the_plan_on_all),
        cmocka_unit_test(a_parameter_is_not_cut_twice),
        cmocka_unit_test(a_whole_tree_is_distributed_by_a_function),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
