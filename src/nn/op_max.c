/* Max: the maximum of all elements, and the maxima along a dim with their indices.
 *
 * Ranks that share the elements reduce their results: the values, and the first of several indices.  The gradient of
 * the maximum of all elements is shared by every element that equals it, so backward counts these elements. */
#include "nn/cut_line.h"

#include <math.h>
#include <reshard/math.h>

/* ---- maximum of all elements: the saved slots are x and the maximum ---- */

typedef struct most_attrs {
    rshn_line line;
} most_attrs;

static rsh_comm *most_comm(const void *attrs) { return ((const most_attrs *)attrs)->line.comm; }
static void most_drop(void *attrs) { rshn_line_end(&((most_attrs *)attrs)->line); }

/* Creates a tensor with one element and as many dims as x. */
static rsh_status one_element(const rsh_tensor *x, double number, rsh_tensor **out) {
    int64_t ones[RSH_MAX_NDIM];
    for (int d = 0; d < RSH_MAX_NDIM; d++) ones[d] = 1;
    NN_TRY(rsh_tensor_empty(rsh_tensor_dtype(x), rsh_tensor_ndim(x), ones, out));
    return rsh_math_fill_number(*out, number);
}

/* Reduces a number over all ranks. */
static rsh_status combine_number(const rshn_line *l, rsh_status st, rsh_op op, const rsh_tensor *x, double *number) {
    rsh_tensor *own = NULL, *all = NULL;
    if (!st) st = one_element(x, *number, &own);
    NN_TRY(rshn_line_combine(l, st, op, own, &all));
    *number = rshn_item(all);
    rsh_tensor_free(all);
    return RSH_OK;
}

static rsh_status own_max(const rsh_tensor *x, double *out) {
    rsh_tensor *dense = NULL;
    int64_t at, n = rsh_tensor_count(x);
    NN_TRY(rshn_dense(x, &dense));
    *out = n ? rshn_kernels_of(rsh_tensor_dtype(x))->row_max(rsh_tensor_data(dense), 1, n, &at) : -INFINITY;
    rsh_tensor_free(dense);
    return RSH_OK;
}

static rsh_status max_forward(rsh_grad_call *c) {
    most_attrs *a = rsh_call_attrs(c);
    const rsh_tensor *x = rsh_call_input(c, 0);
    rsh_tensor *y = NULL;
    double most = 0;
    NN_TRY(rshn_needs_float("max", x));
    if (!rshn_whole_count(c, 0, ~0u))
        return rshn_fail(RSH_EVALUE, "max: x must not be empty, got %s", rshn_shape_text(x));
    NN_TRY(rshn_line_of_input(c, 0, (1u << rsh_tensor_ndim(x)) - 1, &a->line));
    rsh_status st = own_max(x, &most);
    NN_TRY(a->line.comm ? combine_number(&a->line, st, RSH_OP_MAX, x, &most) : st);
    NN_TRY(rshn_number(rsh_tensor_dtype(x), most, &y));
    NN_TRY(rsh_call_set_output(c, 0, y));
    NN_TRY(rsh_call_save_input(c, 0));
    return rsh_call_save_output(c, 0);
}

/* Sets hits to 1 where x is the maximum and to 0 elsewhere, and counts them. */
static rsh_status find_hits(const rsh_tensor *x, const rsh_tensor *most, rsh_tensor **hits, double *count) {
    rsh_tensor *one = NULL, *sum = NULL;
    rsh_status st;
    rshn_sizes to = rshn_sizes_of(x);
    NN_GOTO(rshn_number(rsh_tensor_dtype(x), 1, &one));
    NN_GOTO(rshn_map3_new(RSHN_EQUAL_BACK, NULL, x, most, one, &to, hits));
    NN_GOTO(rshn_sum(*hits, (1u << to.n) - 1, false, 1, &sum));
    *count = rshn_item(sum);
out:
    rsh_tensor_free(one);
    rsh_tensor_free(sum);
    return st;
}

/* Every element that equals the maximum gets g divided by the number of such elements. */
static rsh_status max_backward(rsh_grad_call *c) {
    const most_attrs *a = rsh_call_attrs(c);
    const rsh_tensor *x = NULL, *most = NULL, *g = rsh_call_output_grad(c, 0);
    rsh_tensor *hits = NULL, *gx = NULL;
    double count = 1;
    if (!g && !a->line.comm) return RSH_OK;
    NN_TRY(rsh_call_saved(c, 0, &x));
    NN_TRY(rsh_call_saved(c, 1, &most));
    rsh_status st = find_hits(x, most, &hits, &count);
    if (a->line.comm) st = combine_number(&a->line, st, RSH_OP_SUM, x, &count);
    double p[2] = {(g ? rshn_item(g) : 0) / count, 0};
    if (!st) st = rshn_map1_new(RSHN_SCALE, p, hits, &gx);
    rsh_tensor_free(hits);
    return st ? st : rsh_call_set_input_grad(c, 0, gx);
}

static rsh_status max_rule(rsh_rule_dims *io) {
    for (int d = 0; d < io->in[0].ndim; d++) rshn_rule_letter(&io->in[0], d, d);
    io->own = (1u << io->in[0].ndim) - 1;
    return RSH_OK;
}

rsh_status rsh_nn_max(rsh_value *x, rsh_value **out) {
    static const rsh_placement_rule rule = {max_rule};
    static const rsh_grad_op op = {.name = "max",
                                   .forward = max_forward,
                                   .backward = max_backward,
                                   .attr_bytes = sizeof(most_attrs),
                                   .drop = most_drop,
                                   .comm = most_comm,
                                   .placements = &rule};
    return rshn_apply(&op, NULL, 1, 1, &x, out);
}

/* ---- maxima along a dim: the outputs are values and indices, both with size 1 in the dim ---- */

typedef struct picking {
    int dim;
    int64_t start;    /* global index of this rank's first element along the dim */
    rshn_sizes sizes; /* sizes of this rank's part */
} picking;

/* The rows along the dim, one for each combination of the other indices. */
typedef struct picks {
    int64_t n, stride, outer, inner; /* size and stride of the dim; numbers of combinations before and after it */
} picks;

static picks picks_of(const picking *m) {
    picks p = {.n = m->sizes.n ? m->sizes.at[m->dim] : 1, .stride = 1, .outer = 1, .inner = 1};
    for (int d = 0; d < m->sizes.n; d++) {
        if (d < m->dim) p.outer *= m->sizes.at[d];
        if (d > m->dim) p.inner *= m->sizes.at[d];
    }
    p.stride = p.inner;
    return p;
}

static void pick_all(const picking *m, const rsh_tensor *dense, const rsh_tensor *y, int64_t *index) {
    picks p = picks_of(m);
    const rshn_kernels *k = rshn_kernels_of(rsh_tensor_dtype(dense));
    size_t item = rsh_dtype_size(rsh_tensor_dtype(dense));
    const char *x = rsh_tensor_data(dense);
    for (int64_t i = 0; i < p.outer * p.inner; i++) {
        const char *row = x + (size_t)(i / p.inner * p.n * p.inner + i % p.inner) * item;
        double most = p.n ? k->row_max(row, p.stride, p.n, &index[i]) : -INFINITY;
        index[i] = p.n ? index[i] + m->start : INT64_MAX;
        if (item == 4)
            ((float *)rsh_tensor_data(y))[i] = (float)most;
        else
            ((double *)rsh_tensor_data(y))[i] = most;
    }
}

static double element(const rsh_tensor *dense, int64_t i) {
    bool single = rsh_tensor_dtype(dense) == RSH_F32;
    return single ? (double)((const float *)rsh_tensor_data(dense))[i] : ((const double *)rsh_tensor_data(dense))[i];
}

/* Clears the indices of rows in which another rank has a larger element than `own`.  NaN counts as larger than all
 * numbers. */
static rsh_status drop_beaten(const rsh_tensor *own, const rsh_tensor *most, int64_t *index) {
    rsh_tensor *dense = NULL;
    NN_TRY(rshn_dense(most, &dense));
    for (int64_t i = 0; i < rsh_tensor_count(own); i++) {
        double x = element(own, i);
        if (x == x && x != element(dense, i)) index[i] = INT64_MAX;
    }
    rsh_tensor_free(dense);
    return RSH_OK;
}

/* Replaces this rank's maxima and indices by those of all ranks that share the rows. */
static rsh_status combine_picks(const rshn_line *l, rsh_status st, rsh_tensor **y, rsh_tensor **index) {
    rsh_tensor *own = NULL, *most = *y, *first = *index;
    *y = *index = NULL;
    if (!st) st = rshn_alias(most, &own);
    st = rshn_line_combine(l, st, RSH_OP_MAX, most, y);
    if (st) rsh_tensor_free(first);
    else st = rshn_line_combine(l, drop_beaten(own, *y, rsh_tensor_data(first)), RSH_OP_MIN, first, index);
    rsh_tensor_free(own);
    return st;
}

/* Finds values and indices in this rank's part. */
static rsh_status pick_own(const picking *m, const rsh_tensor *x, rsh_tensor **y, rsh_tensor **index) {
    rsh_tensor *dense = NULL;
    rshn_sizes to = m->sizes;
    rsh_status st;
    if (to.n) to.at[m->dim] = 1;
    NN_GOTO(rshn_dense(x, &dense));
    NN_GOTO(rshn_empty(rsh_tensor_dtype(x), &to, y));
    NN_GOTO(rshn_empty(RSH_I64, &to, index));
    pick_all(m, dense, *y, rsh_tensor_data(*index));
out:
    rsh_tensor_free(dense);
    return st;
}

static rsh_status set_picks(rsh_grad_call *c, rsh_tensor *y, rsh_tensor *index) {
    rsh_status st = rsh_call_set_output(c, 0, y);
    if (st) {
        rsh_tensor_free(index);
        return st;
    }
    NN_TRY(rsh_call_set_output(c, 1, index));
    return rsh_call_save_output(c, 1);
}

static rsh_status max_dim_forward(rsh_grad_call *c) {
    picking *m = rsh_call_attrs(c);
    const rsh_tensor *x = rsh_call_input(c, 0);
    rsh_tensor *y = NULL, *index = NULL;
    rshn_line line = {.comm = NULL};
    NN_TRY(rshn_needs_float("max", x));
    m->sizes = rshn_sizes_of(x);
    if (m->sizes.n && !rsh_value_shape(rsh_call_input_value(c, 0))[m->dim])
        return rshn_fail(RSH_EVALUE, "max: %s has no elements along dim %d", rshn_shape_text(x), m->dim);
    NN_TRY(rshn_own_start(c, 0, m->dim, &m->start));
    NN_TRY(rshn_line_of_input(c, 0, 1u << m->dim, &line));
    rsh_status st = pick_own(m, x, &y, &index);
    if (line.comm) st = combine_picks(&line, st, &y, &index);
    rshn_line_end(&line);
    if (!st) return set_picks(c, y, index);
    rsh_tensor_free(y);
    rsh_tensor_free(index);
    return st;
}

static rsh_status max_dim_backward(rsh_grad_call *c) {
    const picking *m = rsh_call_attrs(c);
    const rsh_tensor *saved = NULL;
    rsh_tensor *index = NULL, *g = NULL, *gx = NULL;
    picks p = picks_of(m);
    rsh_status st;
    if (!rsh_call_output_grad(c, 0)) return RSH_OK;
    NN_TRY(rsh_call_saved(c, 0, &saved));
    NN_GOTO(rshn_dense(saved, &index));
    NN_GOTO(rshn_dense(rsh_call_output_grad(c, 0), &g));
    NN_GOTO(rsh_tensor_zeros(rsh_tensor_dtype(g), m->sizes.n, m->sizes.at, &gx));
    const int64_t *at = rsh_tensor_data(index);
    for (int64_t i = 0; i < p.outer * p.inner; i++) {
        int64_t own = at[i] - m->start, to = i / p.inner * p.n * p.inner + own * p.inner + i % p.inner;
        if (own < 0 || own >= p.n) continue; /* the element is on another rank */
        if (rsh_tensor_dtype(g) == RSH_F32)
            ((float *)rsh_tensor_data(gx))[to] = ((const float *)rsh_tensor_data(g))[i];
        else
            ((double *)rsh_tensor_data(gx))[to] = ((const double *)rsh_tensor_data(g))[i];
    }
out:
    rsh_tensor_free(index);
    rsh_tensor_free(g);
    return st ? st : rsh_call_set_input_grad(c, 0, gx);
}

static rsh_status max_dim_rule(rsh_rule_dims *io) {
    const picking *m = io->attrs;
    for (int d = 0; d < io->in[0].ndim; d++) {
        rshn_rule_letter(&io->in[0], d, d);
        for (int i = 0; i < 2; i++)
            rshn_rule_add_dim(&io->out[i], d == m->dim ? 1 : io->in[0].shape[d], d == m->dim ? RSH_DIM_WHOLE : d);
    }
    io->out[1].dtype = RSH_I64;
    io->own = 1u << m->dim;
    return RSH_OK;
}

rsh_status rsh_nn_max_dim(rsh_value *x, int dim, bool keepdim, rsh_value **out, rsh_value **index) {
    static const rsh_placement_rule rule = {max_dim_rule};
    static const rsh_grad_op op = {.name = "max",
                                   .forward = max_dim_forward,
                                   .backward = max_dim_backward,
                                   .attr_bytes = sizeof(picking),
                                   .placements = &rule};
    picking m = {.start = 0};
    rsh_value *both[2] = {NULL, NULL}, *flat[2] = {NULL, NULL};
    rsh_status st = RSH_OK;
    if (!x || !out) return rshn_fail(RSH_EVALUE, "max: %s is NULL", x ? "out" : "x");
    NN_TRY(rshn_dim("max", dim, rsh_value_ndim(x), &m.dim));
    NN_TRY(rsh_rule_apply(&op, &m, 1, &x, 2, both));
    for (int i = 0; i < 2 && !st && !keepdim && rsh_value_ndim(x); i++) st = rsh_nn_squeeze(both[i], m.dim, &flat[i]);
    for (int i = 0; i < 2; i++) {
        if (!flat[i]) continue;
        rsh_value_free(both[i]);
        both[i] = flat[i];
    }
    if (!st) *out = both[0];
    if (!st && index) *index = both[1];
    if (st) rsh_value_free(both[0]);
    if (st || !index) rsh_value_free(both[1]);
    return st;
}
