/* parallel_twins: trains a model over ranks and a plain one with the same steps, and compares
 * them. */
#ifndef RESHARD_TESTS_NN_PARALLEL_TWINS_H
#define RESHARD_TESTS_NN_PARALLEL_TWINS_H

#include "parallel_models.h"

#define TOLERANCE 1e-12

/* ---- one model beside a plain one ---- */

static inline rsh_status linear(int64_t in, int64_t out, rsh_module **m) {
    return rsh_linear_new(in, out, true, RSH_F64, m);
}

/* Returns the whole tensor of a DTensor, or the plain value itself. */
static inline rsh_status as_plain(rsh_value *v, rsh_value **out) {
    if (rsh_dtensor_mesh(v)) return rsh_dtensor_full_tensor(v, NULL, out);
    *out = rsh_value_hold(v);
    return RSH_OK;
}

/* Sum of y * y, which is the same on all ranks. */
static inline rsh_status loss_of(rsh_value *y, rsh_value **out) {
    rsh_value *whole = NULL;
    TRY(as_plain(y, &whole));
    rsh_status st = squared_loss(whole, out);
    rsh_value_free(whole);
    return st;
}

static inline rsh_status backward_of(rsh_value *y) {
    rsh_value *loss = NULL;
    TRY(loss_of(y, &loss));
    TRY(rsh_backward(loss, NULL, 0));
    rsh_value_free(loss);
    return RSH_OK;
}

/* Trains both with SGD, and checks that outputs, gradients and parameters stay close. */
static inline rsh_status train_both(rsh_module *m, rsh_module *plain, rsh_value *x, int steps) {
    rsh_optimizer *sgd[2] = {NULL, NULL};
    TRY(rsh_sgd_new(m, &(rsh_sgd_opts){sizeof(rsh_sgd_opts), .lr = 0.25}, &sgd[0]));
    TRY(rsh_sgd_new(plain, &(rsh_sgd_opts){sizeof(rsh_sgd_opts), .lr = 0.25}, &sgd[1]));
    for (int i = 0; i < steps; i++) {
        rsh_value *y = NULL, *py = NULL, *xa = NULL, *xb = NULL;
        TRY(rsh_value_detach(x, &xa));
        TRY(rsh_value_detach(x, &xb));
        bool wanted = rsh_value_requires_grad(x);
        if (wanted) TRY(rsh_value_set_requires_grad(xa, true));
        if (wanted) TRY(rsh_value_set_requires_grad(xb, true));
        TRY(rsh_optimizer_zero_grad(sgd[0]));
        TRY(rsh_optimizer_zero_grad(sgd[1]));
        TRY(rsh_module_forward(m, xa, &y));
        TRY(rsh_module_forward(plain, xb, &py));
        TRY(close_values(y, py, "the output", TOLERANCE));
        TRY(backward_of(y));
        TRY(backward_of(py));
        if (wanted)
            TRY(close_values(rsh_value_grad(xa), rsh_value_grad(xb), "the input's gradient",
                             TOLERANCE));
        TRY(close_models(m, plain, TOLERANCE));
        TRY(rsh_optimizer_step(sgd[0]));
        TRY(rsh_optimizer_step(sgd[1]));
        TRY(close_models(m, plain, TOLERANCE));
        rsh_value_free(y), rsh_value_free(py), rsh_value_free(xa), rsh_value_free(xb);
    }
    rsh_optimizer_free(sgd[0]), rsh_optimizer_free(sgd[1]);
    return RSH_OK;
}

typedef rsh_status (*make_fn)(rsh_module **out);

/* Compares a model that a plan cuts with the same model without the plan. */
static inline rsh_status compare(make_fn make, int n, const rsh_parallel_entry *plan, rsh_value *x,
                                 int steps) {
    rsh_module *m = NULL, *plain = NULL;
    rsh_mesh *mesh = NULL;
    TRY(line(&mesh));
    rsh_random_seed(3);
    TRY(make(&m));
    rsh_random_seed(3);
    TRY(make(&plain));
    TRY(rsh_parallelize_module(m, mesh, n, plan));
    TRY(train_both(m, plain, x, steps));
    rsh_module_free(m), rsh_module_free(plain);
    rsh_mesh_free(mesh);
    return RSH_OK;
}

static inline rsh_status normals(int ndim, const int64_t *shape, rsh_value **out) {
    return make_value(RSH_F64, ndim, shape, 17, true, out);
}

#endif
