/* Norm: layer norm over the last dims, RMS norm over the last dim.
 *
 * Inputs are x, weight, bias; slots are x, weight, mean, 1/deviation.  Gradients of weight and bias are sums over all
 * rows: each of at most PARTS groups of rows has its own sums, which are added in order, so the bits do not depend on
 * the number of threads.  If the normalized dims are cut, the ranks reduce numbers of each row. */
#include "nn/cut_line.h"

enum { PARTS = 16, LEAST_ROWS = 16, GRAIN = 8192 };

typedef struct norm_attrs {
    int ndims;
    double eps;
    bool centred, has_weight;
    rshn_line line;
    double count; /* number of elements of a row on all ranks together */
} norm_attrs;

typedef struct norming {
    const rshn_kernels *k;
    rshn_norm w;
    const char *x, *g;
    char *y, *mean, *rstd; /* y: the result; in backward, the gradient of x */
    char *gw, *gb;         /* sums of each group of rows, n elements each; or NULL */
    int64_t rows, parts;
    size_t item;
} norming;

static norming norming_of(const norm_attrs *a, const rsh_tensor *x, const rsh_tensor *weight, const rsh_tensor *bias) {
    norming s = {.k = rshn_kernels_of(rsh_tensor_dtype(x)), .item = rsh_dtype_size(rsh_tensor_dtype(x))};
    int nd = rsh_tensor_ndim(x);
    s.w = (rshn_norm){.n = 1, .eps = a->eps, .centred = a->centred};
    s.w.weight = weight ? rsh_tensor_data(weight) : NULL;
    s.w.bias = bias ? rsh_tensor_data(bias) : NULL;
    for (int d = nd - a->ndims; d < nd; d++) s.w.n *= rsh_tensor_shape(x)[d];
    s.rows = s.w.n ? rsh_tensor_count(x) / s.w.n : 0;
    s.x = rsh_tensor_data(x);
    return s;
}

static void forward_rows(void *ctx, int64_t lo, int64_t hi) {
    const norming *s = ctx;
    size_t at = (size_t)(lo * s->w.n) * s->item, row = (size_t)lo * s->item;
    s->k->norm(&s->w, s->x + at, s->y + at, s->mean ? s->mean + row : NULL, s->rstd + row, hi - lo);
}

/* Checks that weight or bias has the sizes of the last dims of x. */
static rsh_status check_affine(const char *name, const char *what, const rsh_tensor *x, int ndims,
                               const rsh_tensor *t) {
    if (!t) return RSH_OK;
    int nd = rsh_tensor_ndim(x);
    bool alike = rsh_tensor_ndim(t) == ndims;
    for (int d = 0; alike && d < ndims; d++) alike = rsh_tensor_shape(t)[d] == rsh_tensor_shape(x)[nd - ndims + d];
    if (!alike)
        return rshn_fail(RSH_EVALUE, "%s: %s must have the shape of the last %d dims of x, got %s for x %s", name, what,
                         ndims, rshn_shape_text(t), rshn_shape_text(x));
    return RSH_OK;
}

static rsh_status check_shapes(const char *name, const norm_attrs *a, const rsh_tensor *const *in) {
    NN_TRY(rshn_needs_alike(name, 3, in));
    if (a->ndims < 1 || a->ndims > rsh_tensor_ndim(in[0]))
        return rshn_fail(RSH_EVALUE,
                         "%s: the number of normalized dims must be 1 to %d for x %s, got %d", name,
                         rsh_tensor_ndim(in[0]), rshn_shape_text(in[0]), a->ndims);
    NN_TRY(check_affine(name, "weight", in[0], a->ndims, in[1]));
    return check_affine(name, "bias", in[0], a->ndims, in[2]);
}

/* Creates dense views or copies of n tensors, which may be NULL. */
static rsh_status all_dense(int n, const rsh_tensor *const *in, rsh_tensor **out) {
    for (int i = 0; i < n; i++)
        if (in[i]) NN_TRY(rshn_dense(in[i], &out[i]));
    return RSH_OK;
}

static void free_all(int n, rsh_tensor **t) {
    for (int i = 0; i < n; i++) rsh_tensor_free(t[i]);
}

static rsh_status normalize_rows(const norm_attrs *a, rsh_tensor *const *in, rsh_tensor **y, rsh_tensor **mean,
                                 rsh_tensor **rstd) {
    norming s = norming_of(a, in[0], in[1], in[2]);
    rsh_dtype dtype = rsh_tensor_dtype(in[0]);
    NN_TRY(rsh_tensor_empty(dtype, rsh_tensor_ndim(in[0]), rsh_tensor_shape(in[0]), y));
    if (a->centred) NN_TRY(rsh_tensor_empty(dtype, 1, &s.rows, mean));
    NN_TRY(rsh_tensor_empty(dtype, 1, &s.rows, rstd));
    s.y = rsh_tensor_data(*y);
    s.mean = *mean ? rsh_tensor_data(*mean) : NULL;
    s.rstd = rsh_tensor_data(*rstd);
    rshn_spread(s.rows, GRAIN / (s.w.n + 1) + 1, forward_rows, &s);
    return RSH_OK;
}

/* Finds out whether the last dims are cut, and how many elements they have. */
static rsh_status find_line(const rsh_grad_call *c, norm_attrs *a) {
    int n = rsh_value_ndim(rsh_call_input_value(c, 0));
    unsigned dims = ((1u << a->ndims) - 1) << (n - a->ndims);
    a->count = (double)rshn_whole_count(c, 0, dims);
    return rshn_line_of_input(c, 0, dims, &a->line);
}

static rsh_status norm_forward(rsh_grad_call *c, const char *name) {
    norm_attrs *a = rsh_call_attrs(c);
    const rsh_tensor *in[3] = {rsh_call_input(c, 0), rsh_call_input(c, 1), rsh_call_input(c, 2)};
    rsh_tensor *dense[3] = {NULL}, *made[3] = {NULL}; /* made: the tensors y, mean and rstd */
    rsh_status st;
    NN_TRY(check_shapes(name, a, in));
    a->has_weight = in[1] != NULL;
    NN_GOTO(find_line(c, a));
    if (a->line.comm) {
        NN_GOTO(rshn_norm_cut_forward(&a->line, &(rshn_norm_cut){a->count, a->eps, a->centred}, in, &made[0], &made[1],
                                      &made[2]));
    } else {
        NN_GOTO(all_dense(3, in, dense));
        NN_GOTO(normalize_rows(a, dense, &made[0], &made[1], &made[2]));
    }
    rsh_tensor *y = made[0];
    made[0] = NULL;
    NN_GOTO(rsh_call_set_output(c, 0, y));
    NN_GOTO(rsh_call_save_input(c, 0));
    if (in[1]) NN_GOTO(rsh_call_save_input(c, 1));
    rsh_tensor *rstd = made[2];
    made[2] = NULL;
    NN_GOTO(rsh_call_save(c, rstd));
    if (made[1]) {
        rsh_tensor *mean = made[1];
        made[1] = NULL;
        NN_GOTO(rsh_call_save(c, mean));
    }
out:
    free_all(3, dense);
    free_all(3, made);
    return st;
}

/* ---- backward ---- */

static void backward_part(const norming *s, int64_t part) {
    int64_t size = s->rows / s->parts, more = s->rows % s->parts;
    int64_t lo = part * size + (part < more ? part : more), rows = size + (part < more), n = s->w.n;
    size_t at = (size_t)(lo * n) * s->item, row = (size_t)lo * s->item, own = (size_t)(part * n) * s->item;
    s->k->norm_back(&s->w, s->x + at, s->g + at, s->mean ? s->mean + row : NULL, s->rstd + row, s->y ? s->y + at : NULL,
                    s->gw ? s->gw + own : NULL, s->gb ? s->gb + own : NULL, rows);
}

static void backward_parts(void *ctx, int64_t lo, int64_t hi) {
    for (int64_t part = lo; part < hi; part++) backward_part(ctx, part);
}

/* Sums the parts and sets the result as a gradient, in the shape of weight and bias. */
static rsh_status set_summed_parts(rsh_grad_call *c, int i, const rsh_tensor *parts, const rshn_sizes *sizes) {
    rsh_tensor *sum = NULL, *shaped = NULL;
    NN_TRY(rshn_sum(parts, 1, false, 1, &sum));
    rsh_status st = rsh_tensor_view(sum, 0, sizes->n, sizes->at, NULL, &shaped);
    rsh_tensor_free(sum);
    return st ? st : rsh_call_set_input_grad(c, i, shaped);
}

static rsh_status parts_for(const rsh_grad_call *c, int i, const norming *s, rsh_dtype dtype, rsh_tensor **out,
                            char **data) {
    int64_t size[2] = {s->parts, s->w.n};
    if (!rsh_call_needs_input_grad(c, i)) return RSH_OK;
    NN_TRY(rsh_tensor_zeros(dtype, 2, size, out));
    *data = rsh_tensor_data(*out);
    return RSH_OK;
}

static rsh_status backward_local(rsh_grad_call *c, const norm_attrs *a, rsh_tensor *const *in, rsh_tensor **made) {
    norming s = norming_of(a, in[0], in[1], NULL);
    const rsh_tensor *x = in[0];
    rsh_dtype dtype = rsh_tensor_dtype(x);
    rshn_sizes last = {.n = a->ndims};
    for (int d = 0; d < a->ndims; d++) last.at[d] = rsh_tensor_shape(x)[rsh_tensor_ndim(x) - a->ndims + d];
    s.parts = s.rows / LEAST_ROWS < 1 ? 1 : s.rows / LEAST_ROWS < PARTS ? s.rows / LEAST_ROWS : PARTS;
    s.g = rsh_tensor_data(in[2]);
    s.rstd = rsh_tensor_data(in[3]);
    s.mean = in[4] ? rsh_tensor_data(in[4]) : NULL;
    if (rsh_call_needs_input_grad(c, 0)) {
        NN_TRY(rsh_tensor_empty(dtype, rsh_tensor_ndim(x), rsh_tensor_shape(x), &made[0]));
        s.y = rsh_tensor_data(made[0]);
    }
    NN_TRY(parts_for(c, 1, &s, dtype, &made[1], &s.gw));
    NN_TRY(parts_for(c, 2, &s, dtype, &made[2], &s.gb));
    rshn_spread(s.parts, GRAIN / (s.rows / s.parts * s.w.n + 1) + 1, backward_parts, &s);
    if (made[1]) NN_TRY(set_summed_parts(c, 1, made[1], &last));
    if (made[2]) NN_TRY(set_summed_parts(c, 2, made[2], &last));
    rsh_tensor *gx = made[0];
    made[0] = NULL;
    return gx ? rsh_call_set_input_grad(c, 0, gx) : RSH_OK;
}

/* Computes backward for rows that are cut.  A rank without a gradient contributes zeros. */
static rsh_status backward_cut(rsh_grad_call *c, const norm_attrs *a, const rsh_tensor **in) {
    rsh_tensor *zeros = NULL, *made[3] = {NULL};
    bool wanted[3] = {rsh_call_needs_input_grad(c, 0), rsh_call_needs_input_grad(c, 1),
                      rsh_call_needs_input_grad(c, 2)};
    rsh_status st = RSH_OK;
    if (!in[2]) st = rsh_tensor_zeros(rsh_tensor_dtype(in[0]), rsh_tensor_ndim(in[0]), rsh_tensor_shape(in[0]), &zeros);
    if (st) return rsh_comm_agree(a->line.comm, st);
    if (zeros) in[2] = zeros;
    st = rshn_norm_cut_backward(&a->line, &(rshn_norm_cut){a->count, a->eps, a->centred}, in, wanted, made);
    rsh_tensor_free(zeros);
    for (int i = 0; i < 3; i++) {
        if (!st && made[i]) st = rsh_call_set_input_grad(c, i, made[i]);
        else rsh_tensor_free(made[i]);
    }
    return st;
}

static rsh_comm *comm_of(const void *attrs) { return ((const norm_attrs *)attrs)->line.comm; }
static void free_line(void *attrs) { rshn_line_end(&((norm_attrs *)attrs)->line); }

static rsh_status norm_backward(rsh_grad_call *c) {
    const norm_attrs *a = rsh_call_attrs(c);
    const rsh_tensor *in[5] = {NULL}; /* in: x, weight, g, rstd, mean */
    rsh_tensor *dense[5] = {NULL}, *made[3] = {NULL};
    int slot = 0;
    in[2] = rsh_call_output_grad(c, 0);
    if (!in[2] && !a->line.comm) return RSH_OK;
    NN_TRY(rsh_call_saved(c, slot++, &in[0]));
    if (a->has_weight) NN_TRY(rsh_call_saved(c, slot++, &in[1]));
    NN_TRY(rsh_call_saved(c, slot++, &in[3]));
    if (a->centred) NN_TRY(rsh_call_saved(c, slot, &in[4]));
    if (a->line.comm) return backward_cut(c, a, in);
    rsh_status st = all_dense(5, in, dense);
    if (!st) st = backward_local(c, a, dense, made);
    free_all(5, dense);
    free_all(3, made);
    return st;
}

static rsh_status norm_rule(rsh_rule_dims *io) {
    const norm_attrs *a = io->attrs;
    rshn_rule_same(&io->in[0], &io->out[0]);
    int first = io->in[0].ndim - a->ndims;
    for (int d = first < 0 ? 0 : first; d < io->in[0].ndim; d++) {
        io->own |= 1u << d;
        for (int i = 1; i < io->nin; i++)
            if (io->in[i].ndim == a->ndims && first >= 0 && io->in[i].shape[d - first] == io->in[0].shape[d])
                rshn_rule_letter(&io->in[i], d - first, d);
    }
    return RSH_OK; /* forward checks that the shapes match */
}

static const rsh_placement_rule rule = {norm_rule};

static rsh_status layer_norm_forward(rsh_grad_call *c) { return norm_forward(c, "layer_norm"); }
static rsh_status rms_norm_forward(rsh_grad_call *c) { return norm_forward(c, "rms_norm"); }

rsh_status rsh_nn_layer_norm(rsh_value *x, int ndims, rsh_value *weight, rsh_value *bias, double eps, rsh_value **out) {
    static const rsh_grad_op op = {.name = "layer_norm",
                                   .forward = layer_norm_forward,
                                   .backward = norm_backward,
                                   .attr_bytes = sizeof(norm_attrs),
                                   .drop = free_line,
                                   .comm = comm_of,
                                   .placements = &rule};
    norm_attrs a = {.ndims = ndims, .eps = eps, .centred = true};
    return rshn_apply(&op, &a, 3, 1, (rsh_value *[]){x, weight, bias}, out);
}

rsh_status rsh_nn_rms_norm(rsh_value *x, rsh_value *weight, double eps, rsh_value **out) {
    static const rsh_grad_op op = {.name = "rms_norm",
                                   .forward = rms_norm_forward,
                                   .backward = norm_backward,
                                   .attr_bytes = sizeof(norm_attrs),
                                   .drop = free_line,
                                   .comm = comm_of,
                                   .placements = &rule};
    norm_attrs a = {.ndims = 1, .eps = eps};
    return rshn_apply(&op, &a, 2, 1, (rsh_value *[]){x, weight}, out);
}
