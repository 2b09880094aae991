/* Softmax: softmax and log-softmax along a dim.
 *
 * Kernels work on dense rows.  If the dim is not the last, the value is transposed so that its rows are dense, and the
 * result is transposed back as a view.  If the dim is cut, the ranks reduce numbers of each row. */
#include "nn/cut_line.h"

typedef struct along {
    int dim;
    rshn_line line;
} along;

typedef struct rows_job {
    const rshn_kernels *k;
    const char *x, *g;
    char *y;
    int64_t n;
    size_t row; /* bytes of a row */
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

/* Computes y from x, or gx from the result x and its gradient g, for rows along `dim`. */
static rsh_status softmax_along(const rsh_tensor *x, const rsh_tensor *g, int dim, bool log, rsh_tensor **out) {
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

static rsh_status forward_along(rsh_grad_call *c, const char *name, bool log) {
    along *a = rsh_call_attrs(c);
    const rsh_tensor *x = rsh_call_input(c, 0);
    rsh_tensor *y = NULL;
    NN_TRY(rshn_needs_float(name, x));
    NN_TRY(rshn_line_of_input(c, 0, 1u << a->dim, &a->line));
    NN_TRY(a->line.comm ? rshn_softmax_cut(&a->line, x, log, &y) : softmax_along(x, NULL, a->dim, log, &y));
    NN_TRY(rsh_call_set_output(c, 0, y));
    return rsh_call_save_output(c, 0);
}

/* Takes part in backward with zeros: this rank has no gradient, but others may have one. */
static rsh_status backward_zeros(const rshn_line *l, const rsh_tensor *y, bool log, rsh_tensor **gx) {
    rsh_tensor *zeros = NULL;
    rsh_status st = rsh_tensor_zeros(rsh_tensor_dtype(y), rsh_tensor_ndim(y), rsh_tensor_shape(y), &zeros);
    if (st) return rsh_comm_agree(l->comm, st);
    st = rshn_softmax_cut_back(l, y, zeros, log, gx);
    rsh_tensor_free(zeros);
    return st;
}

static rsh_comm *comm_of(const void *attrs) { return ((const along *)attrs)->line.comm; }
static void free_line(void *attrs) { rshn_line_end(&((along *)attrs)->line); }

static rsh_status backward_along(rsh_grad_call *c, bool log) {
    const along *a = rsh_call_attrs(c);
    const rsh_tensor *y = NULL, *g = rsh_call_output_grad(c, 0);
    rsh_tensor *gx = NULL;
    if (!g && !a->line.comm) return RSH_OK;
    NN_TRY(rsh_call_saved(c, 0, &y));
    if (a->line.comm)
        NN_TRY(g ? rshn_softmax_cut_back(&a->line, y, g, log, &gx) : backward_zeros(&a->line, y, log, &gx));
    else
        NN_TRY(softmax_along(y, g, a->dim, log, &gx));
    return rsh_call_set_input_grad(c, 0, gx);
}

static rsh_status softmax_forward(rsh_grad_call *c) { return forward_along(c, "softmax", false); }
static rsh_status softmax_backward(rsh_grad_call *c) { return backward_along(c, false); }
static rsh_status log_softmax_forward(rsh_grad_call *c) { return forward_along(c, "log_softmax", true); }
static rsh_status log_softmax_backward(rsh_grad_call *c) { return backward_along(c, true); }

static rsh_status softmax_rule(rsh_rule_dims *io) {
    rshn_rule_same(&io->in[0], &io->out[0]);
    io->own = 1u << ((const along *)io->attrs)->dim;
    return RSH_OK;
}

static const rsh_placement_rule rule = {softmax_rule};

static rsh_status apply_along(const rsh_grad_op *op, rsh_value *x, int dim, rsh_value **out) {
    along a = {0};
    if (x) NN_TRY(rshn_dim(op->name, dim, rsh_value_ndim(x), &a.dim));
    return rshn_apply(op, &a, 1, 1, &x, out);
}

rsh_status rsh_nn_softmax(rsh_value *x, int dim, rsh_value **out) {
    static const rsh_grad_op op = {.name = "softmax",
                                   .forward = softmax_forward,
                                   .backward = softmax_backward,
                                   .attr_bytes = sizeof(along),
                                   .drop = free_line,
                                   .comm = comm_of,
                                   .placements = &rule};
    return apply_along(&op, x, dim, out);
}

rsh_status rsh_nn_log_softmax(rsh_value *x, int dim, rsh_value **out) {
    static const rsh_grad_op op = {.name = "log_softmax",
                                   .forward = log_softmax_forward,
                                   .backward = log_softmax_backward,
                                   .attr_bytes = sizeof(along),
                                   .drop = free_line,
                                   .comm = comm_of,
                                   .placements = &rule};
    return apply_along(&op, x, dim, out);
}
