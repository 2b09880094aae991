/* Softmax: softmax and log-softmax along a dim.
 *
 * Kernels work on dense rows.  Along another dim than the last, the value is turned so that its rows are dense, and the
 * result is turned back as a view. */
#include "nn/impl.h"

typedef struct along {
    int dim;
} along;

typedef struct rows_job {
    const rshn_kernels *k;
    const char *x, *g;
    char *y;
    int64_t n;
    size_t row; /* bytes */
    bool log, back;
} rows_job;

static void run_rows(void *ctx, int64_t lo, int64_t hi) {
    const rows_job *j = ctx;
    size_t at = (size_t)lo * j->row;
    if (j->back)
        j->log ? j->k->log_softmax_back(j->x + at, j->g + at, j->y + at, hi - lo, j->n)
               : j->k->softmax_back(j->x + at, j->g + at, j->y + at, hi - lo, j->n, 1);
    else
        j->log ? j->k->log_softmax(j->x + at, j->y + at, hi - lo, j->n)
               : j->k->softmax(j->x + at, j->y + at, hi - lo, j->n, NULL);
}

/* y of x, or gx of the result x and its gradient g; rows along `dim`. */
static rsh_status compute(const rsh_tensor *x, const rsh_tensor *g, int dim, bool log, rsh_tensor **out) {
    rsh_tensor *rows = NULL, *grows = NULL, *y = NULL;
    rsh_status st;
    NN_GOTO(rshn_rows(x, dim, &rows));
    if (g) NN_GOTO(rshn_rows(g, dim, &grows));
    rshn_sizes sizes = rshn_sizes_of(rows);
    NN_GOTO(rshn_empty(rsh_tensor_dtype(x), &sizes, &y));
    rows_job j = {.k = rshn_kernels_of(rsh_tensor_dtype(x)), .x = rsh_tensor_data(rows), .y = rsh_tensor_data(y)};
    j.g = g ? rsh_tensor_data(grows) : NULL;
    j.back = g != NULL;
    j.log = log;
    j.n = sizes.n ? sizes.at[sizes.n - 1] : 1;
    j.row = (size_t)j.n * rsh_dtype_size(rsh_tensor_dtype(x));
    if (rsh_tensor_count(y)) rshn_spread(rsh_tensor_count(y) / j.n, 4096 / j.n + 1, run_rows, &j);
    if (sizes.n)
        st = rsh_tensor_transpose(y, dim, -1, out);
    else
        st = rshn_alias(y, out);
out:
    rsh_tensor_free(rows);
    rsh_tensor_free(grows);
    rsh_tensor_free(y);
    return st;
}

static rsh_status forward(rsh_grad_call *c, const char *name, bool log) {
    const along *a = rsh_call_attrs(c);
    rsh_tensor *y = NULL;
    NN_TRY(rshn_needs_float(name, rsh_call_in(c, 0)));
    NN_TRY(compute(rsh_call_in(c, 0), NULL, a->dim, log, &y));
    NN_TRY(rsh_call_out(c, 0, y));
    return rsh_call_save_out(c, 0);
}

static rsh_status backward(rsh_grad_call *c, bool log) {
    const along *a = rsh_call_attrs(c);
    const rsh_tensor *y = NULL;
    rsh_tensor *gx = NULL;
    NN_TRY(rsh_call_saved(c, 0, &y));
    NN_TRY(compute(y, rsh_call_grad(c, 0), a->dim, log, &gx));
    return rsh_call_give(c, 0, gx);
}

static rsh_status softmax_forward(rsh_grad_call *c) { return forward(c, "softmax", false); }
static rsh_status softmax_backward(rsh_grad_call *c) { return backward(c, false); }
static rsh_status log_softmax_forward(rsh_grad_call *c) { return forward(c, "log_softmax", true); }
static rsh_status log_softmax_backward(rsh_grad_call *c) { return backward(c, true); }

static rsh_status softmax_rule(rsh_rule_dims *io) {
    const along *a = io->attrs;
    rshn_rule_same(&io->in[0], &io->out[0]);
    if (!io->in[0].ndim) return RSH_OK;
    rshn_rule_letter(&io->in[0], a->dim, RSH_DIM_WHOLE);
    rshn_rule_letter(&io->out[0], a->dim, RSH_DIM_WHOLE);
    return RSH_OK;
}

static const rsh_placement_rule rule = {softmax_rule};

static rsh_status apply(const rsh_grad_op *op, rsh_value *x, int dim, rsh_value **out) {
    along a = {0};
    if (x) NN_TRY(rshn_dim(op->name, dim, rsh_value_ndim(x), &a.dim));
    return rshn_apply(op, &a, 1, 1, &x, out);
}

rsh_status rsh_nn_softmax(rsh_value *x, int dim, rsh_value **out) {
    static const rsh_grad_op op = {.name = "softmax",
                                   .forward = softmax_forward,
                                   .backward = softmax_backward,
                                   .attr_bytes = sizeof(along),
                                   .placements = &rule};
    return apply(&op, x, dim, out);
}

rsh_status rsh_nn_log_softmax(rsh_value *x, int dim, rsh_value **out) {
    static const rsh_grad_op op = {.name = "log_softmax",
                                   .forward = log_softmax_forward,
                                   .backward = log_softmax_backward,
                                   .attr_bytes = sizeof(along),
                                   .placements = &rule};
    return apply(&op, x, dim, out);
}
