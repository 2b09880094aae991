/* Loss: cross-entropy with class indices, and the mean squared error.
 *
 * If the classes of a row are cut over ranks, the ranks reduce its maximum and three sums.  Logits are not moved, and
 * backward needs no data of other ranks. */
#include "nn/cut_line.h"

#include <math.h>

/* ---- cross-entropy: inputs logits, target; slots logits, target, logarithms of sums ---- */

typedef struct entropy_attrs {
    rshn_entropy e;
    rsh_loss_reduction reduction;
    double scale; /* factor of the gradients; for a mean, 1 / number of rows that are not ignored */
} entropy_attrs;

typedef struct entropy_job {
    const rshn_kernels *k;
    const rshn_entropy *e;
    const char *x, *g;
    const int64_t *target;
    char *out;
    double *lse;
    int64_t sg;
    size_t item;
} entropy_job;

static void loss_rows(void *ctx, int64_t lo, int64_t hi) {
    const entropy_job *j = ctx;
    size_t row = (size_t)lo * j->item;
    j->k->entropy(j->e, j->x + row * (size_t)j->e->classes, j->target + lo, j->out + row, j->lse + lo, hi - lo);
}

static void gradient_rows(void *ctx, int64_t lo, int64_t hi) {
    const entropy_job *j = ctx;
    size_t row = (size_t)lo * j->item, at = row * (size_t)j->e->classes;
    j->k->entropy_back(j->e, j->x + at, j->target + lo, j->lse + lo, j->g + (size_t)(lo * j->sg) * j->item, j->sg,
                       j->out + at, hi - lo);
}

static int64_t grain_of(int64_t classes) { return 4096 / (classes + 1) + 1; }

/* Moves the class dim to the end, so that rows are dense: [N, C, d1, ...] becomes [N, d1, ..., C]. */
static rsh_status class_rows(const rsh_tensor *x, rsh_tensor **out) {
    int64_t size[RSH_MAX_NDIM], stride[RSH_MAX_NDIM];
    int n = rsh_tensor_ndim(x), from = n == 1 ? 0 : 1;
    rsh_tensor *turned = NULL;
    for (int d = 0; d < n; d++) {
        int k = d == n - 1 ? from : d < from ? d : d + 1;
        size[d] = rsh_tensor_shape(x)[k];
        stride[d] = rsh_tensor_strides(x)[k];
    }
    NN_TRY(rsh_tensor_view(x, 0, n, size, stride, &turned));
    rsh_status st = rshn_dense(turned, out);
    rsh_tensor_free(turned);
    return st;
}

/* Moves the class dim back, as a view. */
static rsh_status class_dim(const rsh_tensor *rows, rsh_tensor **out) {
    int64_t size[RSH_MAX_NDIM], stride[RSH_MAX_NDIM];
    int n = rsh_tensor_ndim(rows), to = n == 1 ? 0 : 1;
    for (int d = 0; d < n; d++) {
        int k = d == to ? n - 1 : d < to ? d : d - 1;
        size[d] = rsh_tensor_shape(rows)[k];
        stride[d] = rsh_tensor_strides(rows)[k];
    }
    return rsh_tensor_view(rows, 0, n, size, stride, out);
}

/* Checks that targets are valid; they must be dense. */
static rsh_status check_target(const rsh_tensor *x, const rsh_tensor *target, const rshn_entropy *e) {
    int n = rsh_tensor_ndim(x), from = n == 1 ? 0 : 1;
    bool alike = n >= 1 && rsh_tensor_ndim(target) == n - 1;
    for (int d = 0; alike && d < n - 1; d++)
        alike = rsh_tensor_shape(target)[d] == rsh_tensor_shape(x)[d < from ? d : d + 1];
    if (!alike)
        return rshn_fail(RSH_EVALUE,
                         "cross_entropy: the shape of the target must be that of the logits without the "
                         "class dim, got logits %s and target %s",
                         rshn_shape_text(x), rshn_shape_text(target));
    const int64_t *t = rsh_tensor_data(target);
    for (int64_t i = 0; i < rsh_tensor_count(target); i++)
        if (t[i] != e->ignore && (t[i] < 0 || t[i] >= e->whole))
            return rshn_fail(RSH_EINDEX, "cross_entropy: target %lld is out of range, there are %lld classes",
                             (long long)t[i], (long long)e->whole);
    return RSH_OK;
}

static rsh_status own_count(const rsh_tensor *target, int64_t ignore, rsh_tensor **out) {
    const int64_t *t = rsh_tensor_data(target);
    rshn_sizes ones = {.n = rsh_tensor_ndim(target)};
    for (int d = 0; d < ones.n; d++) ones.at[d] = 1;
    NN_TRY(rshn_empty(RSH_I64, &ones, out));
    int64_t *n = rsh_tensor_data(*out);
    *n = 0;
    for (int64_t i = 0; i < rsh_tensor_count(target); i++) *n += t[i] != ignore;
    return RSH_OK;
}

/* Returns whether ranks must count rows together, because some may be ignored. */
static bool must_count_rows(const entropy_attrs *a) {
    return a->reduction == RSH_LOSS_MEAN && a->e.ignore != INT64_MIN;
}

/* Counts the rows that are not ignored, on all ranks that have some of the rows. */
static rsh_status count_rows(const rsh_grad_call *c, const rsh_tensor *target, int64_t ignore, int64_t *out) {
    rsh_tensor *own = NULL, *sum = NULL;
    rshn_line rows;
    NN_TRY(rshn_line_of_input(c, 1, (1u << rsh_tensor_ndim(target)) - 1, &rows));
    rsh_status st = own_count(target, ignore, &own);
    st = rshn_line_combine(&rows, st, RSH_OP_SUM, own, &sum);
    if (!st) *out = *(const int64_t *)rsh_tensor_data(sum);
    rsh_tensor_free(sum);
    rshn_line_end(&rows);
    return st;
}

/* ---- classes that are cut over ranks: some numbers of each row, in memory as [N, d1, ..., numbers] ---- */

/* Moves the numbers to the class dim and reduces them.  Takes ownership of `rows`. */
static rsh_status combine_rows(const rshn_line *l, rsh_status st, rsh_op op, rsh_tensor *rows, rsh_tensor **out) {
    rsh_tensor *own = NULL;
    if (!st) st = class_dim(rows, &own);
    rsh_tensor_free(rows);
    return rshn_line_combine(l, st, op, own, out);
}

/* Moves the class dim to the end again. */
static rsh_status back_to_rows(rsh_tensor **t) {
    rsh_tensor *all = *t;
    *t = NULL;
    rsh_status st = class_rows(all, t);
    rsh_tensor_free(all);
    return st;
}

static rsh_status own_sums(const entropy_attrs *a, const rsh_tensor *rows, const rsh_tensor *target,
                           const rsh_tensor *most, rsh_tensor **out) {
    rshn_sizes sizes = rshn_sizes_of(rows);
    sizes.at[sizes.n - 1] = 3;
    NN_TRY(rshn_empty(rsh_tensor_dtype(rows), &sizes, out));
    rshn_kernels_of(rsh_tensor_dtype(rows))
        ->entropy_sums(&a->e, rsh_tensor_data(rows), rsh_tensor_data(target), rsh_tensor_data(most),
                       rsh_tensor_data(*out), rsh_tensor_count(target));
    return RSH_OK;
}

static rsh_status shared_losses(const rshn_line *l, const entropy_attrs *a, const rsh_tensor *x,
                                const rsh_tensor *target, rsh_tensor **loss, rsh_tensor **lse) {
    rsh_tensor *rows = NULL, *own = NULL, *most = NULL, *sums = NULL;
    rshn_sizes sizes = rshn_sizes_of(target);
    rsh_status st = class_rows(x, &rows);
    if (!st) st = rshn_row_max(rows, rsh_tensor_ndim(rows) - 1, &own);
    NN_GOTO(combine_rows(l, st, RSH_OP_MAX, own, &most));
    own = NULL;
    st = back_to_rows(&most);
    if (!st) st = own_sums(a, rows, target, most, &own);
    NN_GOTO(combine_rows(l, st, RSH_OP_SUM, own, &sums));
    NN_GOTO(back_to_rows(&sums));
    NN_GOTO(rshn_empty(rsh_tensor_dtype(x), &sizes, loss));
    NN_GOTO(rshn_empty(RSH_F64, &sizes, lse));
    rshn_kernels_of(rsh_tensor_dtype(x))
        ->entropy_end(&a->e, rsh_tensor_data(target), rsh_tensor_data(most), rsh_tensor_data(sums),
                      rsh_tensor_data(*loss), rsh_tensor_data(*lse), rsh_tensor_count(target));
out:
    rsh_tensor_free(rows);
    rsh_tensor_free(most);
    rsh_tensor_free(sums);
    return st;
}

/* Computes the losses of all rows, in the shape of the target, and the logarithms of sums. */
static rsh_status losses_of(entropy_attrs *a, const rsh_tensor *x, const rsh_tensor *target, rsh_tensor **loss,
                            rsh_tensor **lse) {
    rsh_tensor *rows = NULL;
    rsh_status st;
    rshn_sizes sizes = rshn_sizes_of(target);
    NN_GOTO(class_rows(x, &rows));
    NN_GOTO(rshn_empty(rsh_tensor_dtype(x), &sizes, loss));
    NN_GOTO(rshn_empty(RSH_F64, &sizes, lse));
    entropy_job j = {.k = rshn_kernels_of(rsh_tensor_dtype(x)), .e = &a->e, .x = rsh_tensor_data(rows)};
    j.target = rsh_tensor_data(target);
    j.out = rsh_tensor_data(*loss);
    j.lse = rsh_tensor_data(*lse);
    j.item = rsh_dtype_size(rsh_tensor_dtype(x));
    rshn_spread(rsh_tensor_count(target), grain_of(a->e.classes), loss_rows, &j);
out:
    rsh_tensor_free(rows);
    return st;
}

/* Determines this rank's classes and the divisor of a mean. */
static rsh_status find_classes(rsh_grad_call *c, const rsh_tensor *target, entropy_attrs *a) {
    const rsh_tensor *x = rsh_call_input(c, 0);
    int dim = rsh_tensor_ndim(x) > 1;
    int64_t count = 1;
    NN_TRY(rshn_needs_float("cross_entropy", x));
    a->e.classes = rsh_tensor_ndim(x) ? rsh_tensor_shape(x)[dim] : 0;
    a->e.whole = rsh_tensor_ndim(x) ? rsh_value_shape(rsh_call_input_value(c, 0))[dim] : 0;
    NN_TRY(rshn_own_start(c, 0, dim, &a->e.start));
    NN_TRY(check_target(x, target, &a->e));
    if (a->reduction == RSH_LOSS_MEAN) {
        if (must_count_rows(a))
            NN_TRY(count_rows(c, target, a->e.ignore, &count));
        else count = rshn_whole_count(c, 1, ~0u);
    }
    a->scale = count ? 1 / (double)count : NAN;
    return RSH_OK;
}

static rsh_status entropy_forward(rsh_grad_call *c) {
    entropy_attrs *a = rsh_call_attrs(c);
    const rsh_tensor *x = rsh_call_input(c, 0);
    rsh_tensor *target = NULL, *loss = NULL, *lse = NULL, *y = NULL;
    rshn_line line = {.comm = NULL};
    rsh_status st;
    NN_GOTO(rshn_dense_indices("cross_entropy", "targets", rsh_call_input(c, 1), &target));
    NN_GOTO(find_classes(c, target, a));
    NN_GOTO(rshn_line_of_input(c, 0, rsh_tensor_ndim(x) > 1 ? 2 : 1, &line));
    NN_GOTO(line.comm ? shared_losses(&line, a, x, target, &loss, &lse) : losses_of(a, x, target, &loss, &lse));
    if (a->reduction == RSH_LOSS_NONE)
        NN_GOTO(rshn_alias(loss, &y));
    else
        NN_GOTO(rshn_sum(loss, (1u << rsh_tensor_ndim(loss)) - 1, false, a->scale, &y));
    NN_GOTO(rsh_call_set_output(c, 0, y));
    NN_GOTO(rsh_call_save_input(c, 0));
    NN_GOTO(rsh_call_save_input(c, 1));
    st = rsh_call_save(c, lse);
    lse = NULL;
out:
    rsh_tensor_free(target);
    rsh_tensor_free(loss);
    rsh_tensor_free(lse);
    rshn_line_end(&line);
    return st;
}

static rsh_status entropy_gradient(const entropy_attrs *a, const rsh_tensor *rows, const rsh_tensor *target,
                                   const rsh_tensor *lse, const rsh_tensor *g, rsh_tensor **out) {
    rsh_tensor *gx = NULL;
    rshn_sizes sizes = rshn_sizes_of(rows);
    NN_TRY(rshn_empty(rsh_tensor_dtype(rows), &sizes, &gx));
    entropy_job j = {.k = rshn_kernels_of(rsh_tensor_dtype(rows)), .e = &a->e, .x = rsh_tensor_data(rows)};
    j.target = rsh_tensor_data(target);
    j.lse = rsh_tensor_data(lse);
    j.g = rsh_tensor_data(g);
    j.sg = a->reduction == RSH_LOSS_NONE;
    j.out = rsh_tensor_data(gx);
    j.item = rsh_dtype_size(rsh_tensor_dtype(rows));
    rshn_spread(rsh_tensor_count(target), grain_of(a->e.classes), gradient_rows, &j);
    rsh_status st = class_dim(gx, out);
    rsh_tensor_free(gx);
    return st;
}

static rsh_status entropy_backward(rsh_grad_call *c) {
    const entropy_attrs *a = rsh_call_attrs(c);
    const rsh_tensor *x = NULL, *given = NULL, *lse = NULL;
    rsh_tensor *target = NULL, *rows = NULL, *sums = NULL, *g = NULL, *gx = NULL;
    rsh_status st;
    double p[2] = {a->scale, 0};
    if (!rsh_call_needs_input_grad(c, 0)) return RSH_OK;
    NN_TRY(rsh_call_saved(c, 0, &x));
    NN_TRY(rsh_call_saved(c, 1, &given));
    NN_TRY(rsh_call_saved(c, 2, &lse));
    NN_GOTO(rshn_dense(given, &target));
    NN_GOTO(class_rows(x, &rows));
    NN_GOTO(rshn_dense(lse, &sums));
    NN_GOTO(rshn_map1_new(RSHN_SCALE, p, rsh_call_output_grad(c, 0), &g));
    NN_GOTO(entropy_gradient(a, rows, target, sums, g, &gx));
    st = rsh_call_set_input_grad(c, 0, gx);
out:
    rsh_tensor_free(target);
    rsh_tensor_free(rows);
    rsh_tensor_free(sums);
    rsh_tensor_free(g);
    return st;
}

static rsh_status check_reduction(const char *name, rsh_loss_reduction r) {
    if (r == RSH_LOSS_MEAN || r == RSH_LOSS_SUM || r == RSH_LOSS_NONE) return RSH_OK;
    return rshn_fail(RSH_EVALUE, "%s: unknown reduction %d", name, (int)r);
}

/* The rule: rows are those of the targets.  An unreduced loss has one element per row; otherwise it is a sum over
 * rows. */
static rsh_status entropy_rule(rsh_rule_dims *io) {
    const entropy_attrs *a = io->attrs;
    rsh_rule_tensor *x = &io->in[0], *target = &io->in[1];
    int classes = x->ndim > 1;
    for (int d = 0, row = 0; d < x->ndim; d++) {
        rshn_rule_letter(x, d, d);
        if (d == classes) continue;
        if (row < target->ndim && target->shape[row] == x->shape[d]) rshn_rule_letter(target, row, d);
        if (a->reduction == RSH_LOSS_NONE) rshn_rule_add_dim(&io->out[0], x->shape[d], d);
        row++;
    }
    io->own = 1u << classes;
    if (must_count_rows(a)) io->counted = ~io->own;
    return RSH_OK; /* forward checks that the shapes match */
}

rsh_status rsh_nn_cross_entropy(rsh_value *logits, rsh_value *target, const rsh_cross_entropy_opts *opts,
                                rsh_value **out) {
    static const rsh_placement_rule rule = {entropy_rule};
    static const rsh_grad_op op = {.name = "cross_entropy",
                                   .forward = entropy_forward,
                                   .backward = entropy_backward,
                                   .attr_bytes = sizeof(entropy_attrs),
                                   .placements = &rule};
    rsh_cross_entropy_opts o = RSH_CROSS_ENTROPY_OPTS_INIT;
    NN_READ_OPTS(opts, RSH_CROSS_ENTROPY_OPTS_INIT, &o);
    NN_TRY(check_reduction("cross_entropy", o.reduction));
    if (!(o.label_smoothing >= 0 && o.label_smoothing <= 1))
        return rshn_fail(RSH_EVALUE, "cross_entropy: label_smoothing must be 0 to 1, got %g", o.label_smoothing);
    entropy_attrs a = {.reduction = o.reduction, .e = {.smoothing = o.label_smoothing}};
    a.e.ignore = o.ignore ? o.ignore_index : INT64_MIN;
    return rshn_apply(&op, &a, 2, 2, (rsh_value *[]){logits, target}, out);
}

/* ---- mean squared error: slots a, b ---- */

typedef struct mse_attrs {
    rsh_loss_reduction reduction;
    double scale;
} mse_attrs;

static rsh_status mse_forward(rsh_grad_call *c) {
    mse_attrs *m = rsh_call_attrs(c);
    const rsh_tensor *in[2] = {rsh_call_input(c, 0), rsh_call_input(c, 1)};
    rsh_tensor *squares = NULL, *y = NULL;
    NN_TRY(rshn_needs_alike("mse", 2, in));
    rshn_sizes a = rshn_sizes_of(in[0]), b = rshn_sizes_of(in[1]);
    bool alike = a.n == b.n;
    for (int d = 0; alike && d < a.n; d++) alike = a.at[d] == b.at[d];
    if (!alike)
        return rshn_fail(RSH_EVALUE, "mse: shapes must be equal, got %s and %s", rshn_shape_text(in[0]),
                         rshn_shape_text(in[1]));
    NN_TRY(rshn_map2_new(RSHN_SQUARED_DIFFERENCE, NULL, in[0], in[1], &a, &squares));
    m->scale = m->reduction == RSH_LOSS_MEAN ? 1 / (double)rshn_whole_count(c, 0, ~0u) : 1;
    rsh_status st = m->reduction == RSH_LOSS_NONE ? rshn_alias(squares, &y)
                                                    : rshn_sum(squares, (1u << a.n) - 1, false, m->scale, &y);
    rsh_tensor_free(squares);
    if (!st) st = rsh_call_set_output(c, 0, y);
    if (!st) st = rsh_call_save_input(c, 0);
    return st ? st : rsh_call_save_input(c, 1);
}

static rsh_status mse_backward(rsh_grad_call *c) {
    const mse_attrs *m = rsh_call_attrs(c);
    const rsh_tensor *t[2] = {NULL, NULL};
    double p[2] = {2 * m->scale, 0};
    NN_TRY(rsh_call_saved(c, 0, &t[0]));
    NN_TRY(rsh_call_saved(c, 1, &t[1]));
    rshn_sizes to = rshn_sizes_of(t[0]);
    for (int i = 0; i < 2; i++) {
        rsh_tensor *g = NULL;
        if (!rsh_call_needs_input_grad(c, i)) continue;
        NN_TRY(rshn_map3_new(RSHN_DIFFERENCE_BACK, p, t[i], t[1 - i], rsh_call_output_grad(c, 0), &to, &g));
        NN_TRY(rsh_call_set_input_grad(c, i, g));
    }
    return RSH_OK;
}

static rsh_status mse_rule(rsh_rule_dims *io) {
    const mse_attrs *m = io->attrs;
    rsh_rule_tensor *a = &io->in[0], *b = &io->in[1];
    for (int d = 0; d < a->ndim; d++) {
        rshn_rule_letter(a, d, d);
        if (d < b->ndim && b->shape[d] == a->shape[d]) rshn_rule_letter(b, d, d);
        if (m->reduction == RSH_LOSS_NONE) rshn_rule_add_dim(&io->out[0], a->shape[d], d);
    }
    return RSH_OK;
}

rsh_status rsh_nn_mse(rsh_value *a, rsh_value *b, rsh_loss_reduction reduction, rsh_value **out) {
    static const rsh_placement_rule rule = {mse_rule};
    static const rsh_grad_op op = {.name = "mse",
                                   .forward = mse_forward,
                                   .backward = mse_backward,
                                   .attr_bytes = sizeof(mse_attrs),
                                   .placements = &rule};
    mse_attrs m = {.reduction = reduction};
    NN_TRY(check_reduction("mse", reduction));
    return rshn_apply(&op, &m, 2, 2, (rsh_value *[]){a, b}, out);
}
