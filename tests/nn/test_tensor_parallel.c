/* Tensor parallel: layers over ranks have the same outputs, gradients and steps as plain ones.  Tests have the names of
 * PyTorch's tests. */
#include "parallel_twins.h"

/* ---- single layers ---- */

static rsh_status colwise_layer(rsh_module **m) { return linear(10, 16, m); }
static rsh_status uneven_layer(rsh_module **m) { return linear(10, 7, m); }
static rsh_status rowwise_layer(rsh_module **m) { return linear(16, 10, m); }

static rsh_status colwise_trial(void *ctx) {
    (void)ctx;
    rsh_value *x = NULL;
    TRY(normals(2, (int64_t[]){8, 10}, &x));
    for (int local = 0; local < 2; local++) {
        rsh_parallel_entry plan = {"", rsh_colwise_style()};
        plan.style.output = rsh_place_replicate();
        plan.style.local_output = local;
        TRY(compare(colwise_layer, 1, &plan, x, 2));
        TRY(compare(uneven_layer, 1, &plan, x, 2));
        plan.style.output = rsh_place_shard(-1);
        plan.style.local_output = false;
        TRY(compare(uneven_layer, 1, &plan, x, 2));
    }
    rsh_value_free(x);
    return RSH_OK;
}
static void test_colwise_parallel_style(void **state) {
    (void)state;
    run_ranks(colwise_trial, NULL);
}

/* Returns this rank's part of x, cut along a dim, as a plain value. */
static rsh_status part_of(rsh_value *x, int dim, rsh_mesh *mesh, rsh_value **out) {
    rsh_value *d = NULL;
    rsh_place place = rsh_place_shard(dim);
    TRY(rsh_dtensor_distribute(rsh_value_tensor(x), false, mesh, 1, &place, RSH_SOURCE_OWN, &d));
    TRY(rsh_dtensor_to_local(d, NULL, out));
    rsh_value_free(d);
    return RSH_OK;
}

/* A row-wise layer gets its columns of a plain input with 16 columns, which are not divisible by 3 ranks. */
static rsh_status rowwise_trial(void *ctx) {
    (void)ctx;
    rsh_value *x = NULL, *mine = NULL, *y = NULL, *py = NULL;
    rsh_module *m = NULL, *plain = NULL;
    rsh_mesh *mesh = NULL;
    TRY(line(&mesh));
    TRY(normals(2, (int64_t[]){9, 16}, &x));
    rsh_random_seed(3);
    TRY(rowwise_layer(&m));
    rsh_random_seed(3);
    TRY(rowwise_layer(&plain));
    rsh_parallel_entry plan = {"", rsh_rowwise_style()};
    TRY(rsh_parallelize_module(m, mesh, 1, &plan));
    TRY(part_of(x, 1, mesh, &mine));
    TRY(rsh_module_forward(m, mine, &y));
    TRY(rsh_module_forward(plain, x, &py));
    CHECK(!rsh_value_sharded(y));
    CHECK_CLOSE(rsh_value_tensor(y), rsh_value_tensor(py), TOLERANCE);
    TRY(backward_of(y));
    TRY(backward_of(py));
    TRY(close_models(m, plain, TOLERANCE));
    rsh_value_free(y), rsh_value_free(py);
    plan.style.input = rsh_place_replicate(); /* the plain input is replicated */
    plan.style.default_input = false;
    TRY(compare(rowwise_layer, 1, &plan, x, 2));
    plan.style.output = rsh_place_shard(0);
    plan.style.local_output = false;
    TRY(compare(rowwise_layer, 1, &plan, x, 2));
    rsh_value_free(x), rsh_value_free(mine);
    rsh_module_free(m), rsh_module_free(plain);
    rsh_mesh_free(mesh);
    return RSH_OK;
}
static void test_rowwise_parallel_style(void **state) {
    (void)state;
    run_ranks(rowwise_trial, NULL);
    run_groups(3, rowwise_trial, NULL); /* B-17 */
}

static rsh_status embedding(rsh_module **m) { return rsh_embedding_new(11, 10, NULL, RSH_F64, m); }

static rsh_status embedding_trial(void *ctx) {
    rsh_value *flat = NULL, *x = NULL;
    bool rows = ctx != NULL;
    int64_t numbers[] = {0, 10, 3, 3, 7, 1, 9, 2};
    TRY(make_indices(8, numbers, &flat));
    TRY(rsh_nn_reshape(flat, 2, (int64_t[]){2, 4}, &x));
    rsh_parallel_entry plan = {"", rows ? rsh_rowwise_style() : rsh_colwise_style()};
    plan.style.local_output = false;
    TRY(compare(embedding, 1, &plan, x, 2));
    plan.style.output = rsh_place_replicate();
    plan.style.local_output = true;
    TRY(compare(embedding, 1, &plan, x, 2));
    if (rows) {
        plan.style.output = rsh_place_shard(1);
        plan.style.local_output = false;
        TRY(compare(embedding, 1, &plan, x, 2));
    }
    rsh_value_free(flat), rsh_value_free(x);
    return RSH_OK;
}
static void test_colwise_parallel_embedding(void **state) {
    (void)state;
    run_ranks(embedding_trial, NULL);
}
static void test_rowwise_parallel_embedding(void **state) {
    (void)state;
    run_ranks(embedding_trial, (void *)1);
}

/* ---- sequence ---- */

static rsh_status layer_norm(rsh_module **m) { return rsh_layer_norm_new(1, (int64_t[]){5}, 1e-5, true, RSH_F64, m); }
static rsh_status rms_norm(rsh_module **m) { return rsh_rms_norm_new(5, 1e-6, RSH_F64, m); }
static rsh_status dropout(rsh_module **m) { return rsh_dropout_new(0.5, m); }

/* Tests a norm with a DTensor as input, and with this rank's rows. */
static rsh_status sequence_of(make_fn make, rsh_mesh *mesh, rsh_value *x, bool parameters) {
    rsh_module *m = NULL, *plain = NULL;
    rsh_value *mine = NULL, *y = NULL, *py = NULL, *whole = NULL;
    TRY(make(&m));
    TRY(make(&plain));
    rsh_parallel_entry plan = {"", rsh_sequence_style(1)};
    TRY(rsh_parallelize_module(m, mesh, 1, &plan));
    TRY(part_of(x, 1, mesh, &mine));
    rsh_random_seed(1);
    TRY(rsh_module_forward(m, mine, &y));
    rsh_random_seed(1);
    TRY(rsh_module_forward(plain, x, &py));
    rsh_place now;
    TRY(rsh_dtensor_places(y, &now));
    CHECK(now.kind == RSH_PLACE_SHARD && now.dim == 1);
    TRY(rsh_dtensor_full_tensor(y, NULL, &whole));
    CHECK_CLOSE(rsh_value_tensor(whole), rsh_value_tensor(py), TOLERANCE);
    if (parameters) {
        TRY(backward_of(y));
        TRY(backward_of(py));
        TRY(close_models(m, plain, TOLERANCE));
    }
    rsh_value_free(mine), rsh_value_free(y), rsh_value_free(py), rsh_value_free(whole);
    rsh_module_free(m), rsh_module_free(plain);
    return RSH_OK;
}

static rsh_status sequence_trial(void *ctx) {
    (void)ctx;
    rsh_mesh *mesh = NULL;
    TRY(line(&mesh));
    for (int64_t length = 4; length <= 7; length++) {
        rsh_value *x = NULL;
        TRY(normals(3, (int64_t[]){2, length, 5}, &x));
        TRY(sequence_of(layer_norm, mesh, x, true));
        TRY(sequence_of(rms_norm, mesh, x, true));
        TRY(sequence_of(dropout, mesh, x, false));
        rsh_value_free(x);
    }
    rsh_mesh_free(mesh);
    return RSH_OK;
}
static void test_sequence_parallel_style(void **state) {
    (void)state;
    run_ranks(sequence_trial, NULL);
}

/* ---- preparing inputs and outputs ---- */

/* A module that computes a + b * scale and a * b from (a, b, scale), of which the last may be missing.  It records its
 * inputs. */
typedef struct seen {
    rsh_place place[3]; /* placements of inputs that are DTensors */
    bool dtensor[3], part[3];
    int64_t rows[3];
} seen;

static rsh_status two_forward(rsh_module *m, rsh_value *const *in, rsh_value **out) {
    seen *s = *(seen **)rsh_module_state(m);
    for (int i = 0; i < 3; i++) {
        s->dtensor[i] = in[i] && rsh_dtensor_mesh(in[i]);
        s->part[i] = in[i] && rsh_dtensor_part_mesh(in[i]);
        s->rows[i] = in[i] ? rsh_value_shape(in[i])[0] : 0;
        if (s->dtensor[i]) TRY(rsh_dtensor_places(in[i], &s->place[i]));
    }
    rsh_value *scaled = NULL;
    if (in[2]) TRY(rsh_nn_mul(in[1], in[2], &scaled));
    TRY(rsh_nn_add(in[0], scaled ? scaled : in[1], &out[0]));
    rsh_value_free(scaled);
    return rsh_nn_mul(in[0], in[1], &out[1]);
}
static const char *const two_inputs[] = {"a", "b", "scale"};
static const rsh_module_kind two_kind = {.name = "Two", .nin = 3, .nout = 2, .inputs = two_inputs,
                                         .forward = two_forward, .state_bytes = sizeof(seen *)};

static bool is_shard(const seen *s, int i, int dim) {
    return s->dtensor[i] && s->place[i].kind == RSH_PLACE_SHARD && s->place[i].dim == dim;
}

/* x, this rank's rows of x, the result of the plain module for (x, x, x), and a module for a plan. */
typedef struct inputs {
    seen s, *at;
    rsh_mesh *mesh;
    rsh_value *x, *rows, *plain[2], *out[2];
    rsh_module *m;
} inputs;

static rsh_status inputs_new(inputs *p, int nplain, int n, const rsh_prepare *in, bool local) {
    rsh_module *same = NULL;
    *p = (inputs){.at = &p->s};
    TRY(line(&p->mesh));
    TRY(normals(2, (int64_t[]){6, 4}, &p->x));
    TRY(part_of(p->x, 0, p->mesh, &p->rows));
    TRY(rsh_module_new(&two_kind, &p->at, &same));
    TRY(rsh_module_call(same, nplain, (rsh_value *[]){p->x, p->x, p->x}, p->plain));
    rsh_module_free(same);
    TRY(rsh_module_new(&two_kind, &p->at, &p->m));
    rsh_parallel_entry plan = {"", rsh_prepare_input_style(n, in)};
    plan.style.local_input = local;
    return rsh_parallelize_module(p->m, p->mesh, 1, &plan);
}

static rsh_status inputs_end(inputs *p) {
    for (int i = 0; i < 2; i++) {
        TRY(close_values(p->out[i], p->plain[i], "an output", 0));
        rsh_value_free(p->out[i]), rsh_value_free(p->plain[i]);
    }
    rsh_value_free(p->x), rsh_value_free(p->rows);
    rsh_module_free(p->m);
    rsh_mesh_free(p->mesh);
    return RSH_OK;
}

/* One cut input is made whole and one is left unchanged; a listed input must not be missing, not even on one rank. */
static rsh_status input_trial(void *ctx) {
    const rsh_prepare one[] = {{.is = rsh_place_shard(0), .becomes = rsh_place_replicate()}, {.leave = true}};
    inputs p;
    rsh_value *none[2] = {0};
    (void)ctx;
    TRY(inputs_new(&p, 2, 2, one, true));
    TRY(rsh_module_call(p.m, 2, (rsh_value *[]){p.rows, p.x}, p.out));
    CHECK(!p.s.dtensor[0] && !p.s.part[0] && p.s.rows[0] == 6 && !p.s.dtensor[1]);
    CHECK_STATUS(RSH_EVALUE, rsh_module_call(p.m, 0, NULL, none));
    bool last = rsh_group_rank(NULL) == rsh_group_size(NULL) - 1;
    CHECK_STATUS(RSH_EVALUE, rsh_module_call(p.m, last ? 0 : 2, (rsh_value *[]){p.rows, p.x}, none));
    CHECK(strstr(rsh_error_detail(), "is missing"));
    return inputs_end(&p);
}
static void test_prepare_module_input(void **state) {
    (void)state;
    run_ranks(input_trial, NULL);
}

/* Two inputs, one from parts and one from the whole, become DTensors with other placements. */
static rsh_status multiple_trial(void *ctx) {
    const rsh_prepare two[] = {{.is = rsh_place_shard(0), .becomes = rsh_place_shard(1)},
                               {.is = rsh_place_replicate(), .becomes = rsh_place_shard(1)}};
    inputs p;
    (void)ctx;
    TRY(inputs_new(&p, 2, 2, two, false));
    TRY(rsh_module_call(p.m, 2, (rsh_value *[]){p.rows, p.x}, p.out));
    CHECK(is_shard(&p.s, 0, 1) && is_shard(&p.s, 1, 1) && p.s.rows[0] == 6 && p.s.rows[1] == 6);
    return inputs_end(&p);
}
static void test_prepare_module_input_multiple_inputs(void **state) {
    (void)state;
    run_ranks(multiple_trial, NULL);
}

/* One input is listed by position and two by name. */
static rsh_status kwargs_trial(void *ctx) {
    const rsh_place cut = rsh_place_shard(0);
    const rsh_prepare named[] = {{.is = rsh_place_replicate(), .becomes = cut},
                                 {.name = "scale", .is = cut, .becomes = cut},
                                 {.name = "b", .is = cut, .becomes = cut}};
    inputs p;
    (void)ctx;
    TRY(inputs_new(&p, 3, 3, named, false));
    TRY(rsh_module_call_named(p.m, 1, &p.x, 2, (rsh_named_input[]){{"b", p.rows}, {"scale", p.rows}}, p.out));
    CHECK(is_shard(&p.s, 0, 0) && is_shard(&p.s, 1, 0) && is_shard(&p.s, 2, 0));
    return inputs_end(&p);
}
static void test_prepare_module_kwargs_input(void **state) {
    (void)state;
    run_ranks(kwargs_trial, NULL);
}

static rsh_status outputs_trial(void *ctx) {
    (void)ctx;
    seen s = {.rows = {0}}, *at = &s;
    rsh_mesh *mesh = NULL;
    rsh_value *x = NULL, *rows = NULL, *out[2] = {0}, *plain[2] = {0};
    rsh_module *m = NULL, *same = NULL;
    rsh_place whole = rsh_place_replicate(), cut = rsh_place_shard(0);
    TRY(line(&mesh));
    TRY(normals(2, (int64_t[]){6, 4}, &x));
    TRY(part_of(x, 0, mesh, &rows));
    TRY(rsh_module_new(&two_kind, &at, &same));
    TRY(rsh_module_call(same, 2, (rsh_value *[]){x, x}, plain));
    for (int both = 0; both < 2; both++) { /* tests PrepareModuleOutput, then PrepareModuleInputOutput */
        rsh_prepare in[] = {{.is = whole, .becomes = cut}, {.is = cut, .becomes = cut}};
        rsh_prepare outs[] = {{.is = cut, .becomes = whole}, {.leave = true}};
        rsh_value *args[] = {both ? x : rows, rows};
        TRY(rsh_module_new(&two_kind, &at, &m));
        rsh_parallel_entry plan = {"", both ? rsh_prepare_input_output_style(2, in, 2, outs)
                                            : rsh_prepare_output_style(2, outs)};
        TRY(rsh_parallelize_module(m, mesh, 1, &plan));
        TRY(rsh_module_call(m, 2, args, out));
        CHECK(!rsh_value_sharded(out[0]) && both == (rsh_dtensor_mesh(out[1]) != NULL));
        CHECK_CLOSE(rsh_value_tensor(out[0]), rsh_value_tensor(plain[0]), 0);
        rsh_value_free(out[0]), rsh_value_free(out[1]);
        rsh_module_free(m);
    }
    for (int i = 0; i < 2; i++) rsh_value_free(plain[i]);
    rsh_value_free(x), rsh_value_free(rows);
    rsh_module_free(same);
    rsh_mesh_free(mesh);
    return RSH_OK;
}
static void test_prepare_module_output(void **state) {
    (void)state;
    run_ranks(outputs_trial, NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_colwise_parallel_style),
        cmocka_unit_test(test_rowwise_parallel_style),
        cmocka_unit_test(test_colwise_parallel_embedding),
        cmocka_unit_test(test_rowwise_parallel_embedding),
        cmocka_unit_test(test_sequence_parallel_style),
        cmocka_unit_test(test_prepare_module_input),
        cmocka_unit_test(test_prepare_module_input_multiple_inputs),
        cmocka_unit_test(test_prepare_module_kwargs_input),
        cmocka_unit_test(test_prepare_module_output),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
