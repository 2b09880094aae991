/* Plain inputs: they are combined with DTensors of fewer rows than ranks, and passed to parallel modules with sizes
 * that differ between ranks.  Every rank gets the same result or the same error. */
#include "parallel_models.h"

#include "nn/numbers.h"

/* Checks that all ranks have the same status.  The error message is not changed. */
static rsh_status same_status(rsh_status mine) {
    int all[8], own = (int)mine;
    TRY(rsh_comm_allgather(rsh_group_comm(NULL), &own, all, sizeof own));
    for (int r = 1; r < rsh_group_size(NULL); r++) {
        char what[120];
        snprintf(what, sizeof what, "rank %d gets %s, rank 0 %s", r, rsh_status_name((rsh_status)all[r]),
                 rsh_status_name((rsh_status)all[0]));
        if (all[r] != all[0]) return wrong(__FILE__, __LINE__, what);
    }
    return RSH_OK;
}

/* ---- ops of a DTensor and a plain value ---- */

typedef struct meeting {
    const char *name;
    rsh_status (*run)(rsh_value *x, rsh_value *plain, rsh_value **out);
    char kind;         /* kind of the plain value: i (indices), m (mask) or f (floats) */
    bool rows;         /* the plain value is [rows], otherwise [1] */
    rsh_status status; /* expected status if the DTensor is cut and has one row */
} meeting;

static rsh_status entropy(rsh_loss_reduction reduction, bool ignore, rsh_value *x, rsh_value *t, rsh_value **out) {
    rsh_cross_entropy_opts opts = RSH_CROSS_ENTROPY_OPTS_INIT;
    opts.reduction = reduction, opts.ignore = ignore, opts.ignore_index = 3;
    return rsh_nn_cross_entropy(x, t, &opts, out);
}
static rsh_status entropy_mean(rsh_value *x, rsh_value *t, rsh_value **out) {
    return entropy(RSH_LOSS_MEAN, false, x, t, out);
}
static rsh_status entropy_sum(rsh_value *x, rsh_value *t, rsh_value **out) {
    return entropy(RSH_LOSS_SUM, true, x, t, out);
}
static rsh_status entropy_some(rsh_value *x, rsh_value *t, rsh_value **out) {
    return entropy(RSH_LOSS_MEAN, true, x, t, out);
}
static rsh_status entropy_none(rsh_value *x, rsh_value *t, rsh_value **out) {
    return entropy(RSH_LOSS_NONE, false, x, t, out);
}
static rsh_status select_rows(rsh_value *x, rsh_value *t, rsh_value **out) {
    return rsh_nn_index_select(x, 0, t, out);
}
static rsh_status embed(rsh_value *x, rsh_value *t, rsh_value **out) { return rsh_nn_embedding(t, x, -1, out); }
static rsh_status fill(rsh_value *x, rsh_value *t, rsh_value **out) { return rsh_nn_masked_fill(x, t, 3, out); }
static rsh_status add(rsh_value *x, rsh_value *t, rsh_value **out) { return rsh_nn_add(x, t, out); }
static rsh_status column_error(rsh_value *x, rsh_value *t, rsh_value **out) {
    rsh_value *sums = NULL;
    TRY(rsh_nn_sum(x, 1, (int[]){1}, false, &sums));
    rsh_status st = rsh_nn_mse(sums, t, RSH_LOSS_SUM, out);
    rsh_value_free(sums);
    return st;
}

static const meeting meetings[] = {
    {"cross_entropy, mean", entropy_mean, 'i', true, RSH_OK},
    {"cross_entropy, sum", entropy_sum, 'i', true, RSH_OK},
    {"cross_entropy, counted", entropy_some, 'i', true, RSH_OK},
    {"cross_entropy, none", entropy_none, 'i', true, RSH_OK},
    {"index_select", select_rows, 'i', false, RSH_OK},
    {"embedding", embed, 'i', false, RSH_OK},
    {"masked_fill", fill, 'm', false, RSH_OK},
    {"add", add, 'f', false, RSH_OK},
    {"mse", column_error, 'f', true, RSH_EUNSUP}, /* its rows are cut, and the plain value is the same on all ranks */
};

static rsh_value *plain_value(const meeting *m, int64_t rows) {
    int64_t n = m->rows ? rows : 1;
    if (m->kind == 'i') return some_indices(m->rows ? 4 : rows, 1, &n);
    return m->kind == 'm' ? some_mask(1, &n) : some_value(RSH_F64, 9, false, 1, &n);
}

static rsh_status compare_with_whole(const meeting *m, rsh_value *d, rsh_value *y, rsh_value *whole, rsh_value *t) {
    rsh_value *py = NULL, *full = NULL, *loss = NULL, *ploss = NULL;
    TRY(m->run(whole, t, &py));
    TRY(rsh_dtensor_full_tensor(y, NULL, &full));
    CHECK_CLOSE(rsh_value_tensor(full), rsh_value_tensor(py), 1e-12);
    TRY(squared_loss(full, &loss));
    TRY(squared_loss(py, &ploss));
    TRY(rsh_backward(loss, NULL, 0));
    TRY(rsh_backward(ploss, NULL, 0));
    TRY(close_values(rsh_value_grad(d), rsh_value_grad(whole), m->name, 1e-12));
    rsh_value_free(py), rsh_value_free(full), rsh_value_free(loss), rsh_value_free(ploss);
    return RSH_OK;
}

static rsh_status meet(const meeting *m, rsh_mesh *mesh, int64_t rows, int dim) {
    rsh_value *whole = some_value(RSH_F64, (int)rows, true, SIZES(rows, 4)), *t = plain_value(m, rows), *d = NULL,
              *y = NULL;
    rsh_place place = dim < 0 ? rsh_place_replicate() : rsh_place_shard(dim);
    TRY(rsh_dtensor_distribute(rsh_value_tensor(whole), true, mesh, 1, &place, RSH_SOURCE_OWN, &d));
    rsh_status st = m->run(d, t, &y);
    rsh_status alike = same_status(st);
    if (alike) return wrong(__FILE__, __LINE__, m->name);
    bool plural = m->kind == 'f' && m->rows && (rows > 1 || dim == 1); /* an error for other reasons */
    if (!plural && !(dim == 0 && rows == 1 && m->status)) {
        CHECK_STATUS(RSH_OK, st);
        TRY(compare_with_whole(m, d, y, whole, t));
    } else if (!plural) {
        CHECK_STATUS(m->status, st);
    }
    rsh_value_free(whole), rsh_value_free(t), rsh_value_free(d), rsh_value_free(y);
    return RSH_OK;
}

static rsh_status meet_all(void *ctx) {
    rsh_mesh *mesh = NULL;
    (void)ctx;
    TRY(line(&mesh));
    for (size_t i = 0; i < sizeof meetings / sizeof *meetings; i++)
        for (int64_t rows = 1; rows <= 5; rows++)
            for (int dim = -1; dim < 2; dim++) TRY(meet(&meetings[i], mesh, rows, dim));
    rsh_mesh_free(mesh);
    return RSH_OK;
}

static void one_plain_value_meets_a_batch_of_any_size(void **state) {
    (void)state;
    for (int n = 1; n <= 4; n++) run_groups(n, meet_all, NULL);
}

/* ---- inputs of parallel modules ---- */

/* Rank r passes more rows than the others to a module that treats plain inputs as replicated. */
static rsh_status uneven_input(rsh_style style) {
    rsh_mesh *mesh = NULL;
    rsh_module *m = NULL;
    rsh_value *x = NULL, *y = NULL;
    int odd = rsh_group_size(NULL) - 1;
    TRY(line(&mesh));
    TRY(rsh_linear_new(4, 8, true, RSH_F64, &m));
    TRY(rsh_parallelize_module(m, mesh, 1, &(rsh_parallel_entry){"", style}));
    x = some_value(RSH_F64, 1, false, SIZES(rsh_group_rank(NULL) == odd ? 3 : 2, 4));
    rsh_status st = rsh_module_forward(m, x, &y);
    TRY(same_status(st));
    CHECK_STATUS(rsh_group_size(NULL) == 1 ? RSH_OK : RSH_EVALUE, st);
    if (st) CHECK(strstr(rsh_error_detail(), "replicated"));
    rsh_value_free(x), rsh_value_free(y);
    x = some_value(RSH_F64, 1, false, SIZES(2, 4)); /* the module still works */
    TRY(rsh_module_forward(m, x, &y));
    rsh_value_free(x), rsh_value_free(y);
    rsh_module_free(m);
    rsh_mesh_free(mesh);
    return RSH_OK;
}

static rsh_status uneven_inputs(void *ctx) {
    (void)ctx;
    TRY(uneven_input(rsh_colwise_style()));
    rsh_style rowwise = rsh_rowwise_style();
    rowwise.default_input = false;
    rowwise.input = rsh_place_replicate();
    TRY(uneven_input(rowwise));
    return RSH_OK;
}

static void replicated_inputs_have_one_shape(void **state) {
    (void)state;
    for (int n = 1; n <= 4; n++) run_groups(n, uneven_inputs, NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_plain_value_meets_a_batch_of_any_size),
        cmocka_unit_test(replicated_inputs_have_one_shape),
    };
    return cmocka_run_group_tests_name("plain inputs", tests, NULL, NULL);
}
