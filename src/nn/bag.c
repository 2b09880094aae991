/* Bag: an op that computes sums, means or maxima of rows of a table, selected by lists of indices. */
#include "nn/bag.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "nn/impl.h"

typedef struct bagging {
    rshn_bags bags;
    int64_t first, padding, frozen;
    rsh_bag_mode mode;
    int64_t *most; /* for RSH_BAG_MAX: [nbags, columns], the row of the maximum; -1: none */
} bagging;

void rshn_bags_free(rshn_bags *b) {
    rshn_free(b->index);
    rshn_free(b->start);
    *b = (rshn_bags){0};
}

static void free_bagging(void *attrs) {
    bagging *a = attrs;
    rshn_bags_free(&a->bags);
    rshn_free(a->most);
}

/* ---- rows: y += scale * x, dot products ---- */

static double element_at(rsh_dtype dtype, const void *x, int64_t i) {
    return dtype == RSH_F32 ? ((const float *)x)[i] : ((const double *)x)[i];
}

static void add_row(rsh_dtype dtype, void *y, const void *x, double scale, int64_t n) {
    float *yf = y, sf = (float)scale;
    double *yd = y;
    const float *xf = x;
    const double *xd = x;
    for (int64_t i = 0; dtype == RSH_F32 && i < n; i++) yf[i] += sf * xf[i];
    for (int64_t i = 0; dtype == RSH_F64 && i < n; i++) yd[i] += scale * xd[i];
}

static double dot(rsh_dtype dtype, const void *x, const void *y, int64_t n) {
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += element_at(dtype, x, i) * element_at(dtype, y, i);
    return sum;
}

/* ---- which rows are used, and their factors ---- */

/* A table in memory, and the weights of its indices. */
typedef struct table {
    rsh_dtype dtype;
    int64_t rows, columns;
    char *data;
    const void *weights; /* NULL: all 1 */
} table;

static void *row_of(const table *t, int64_t row) {
    return t->data + row * t->columns * (int64_t)rsh_dtype_size(t->dtype);
}

/* Returns the local row of index i of the list; -1 if it is padding or on another rank. */
static int64_t local_row(const bagging *a, const table *t, int64_t i) {
    int64_t row = a->bags.index[i] - a->first;
    return a->bags.index[i] != a->padding && row >= 0 && row < t->rows ? row : -1;
}

/* Returns the factor for the rows of a bag.  A mean also counts rows on other ranks. */
static double bag_scale(const bagging *a, int64_t bag) {
    int64_t n = 0;
    if (a->mode != RSH_BAG_MEAN) return 1;
    for (int64_t i = a->bags.start[bag]; i < a->bags.start[bag + 1]; i++) n += a->bags.index[i] != a->padding;
    return n ? 1 / (double)n : 0;
}

static double weight_of(const table *t, int64_t i) { return t->weights ? element_at(t->dtype, t->weights, i) : 1; }

/* ---- forward ---- */

static void sum_bag(const bagging *a, const table *t, int64_t bag, void *y) {
    double scale = bag_scale(a, bag);
    for (int64_t i = a->bags.start[bag]; i < a->bags.start[bag + 1]; i++) {
        int64_t row = local_row(a, t, i);
        if (row >= 0) add_row(t->dtype, y, row_of(t, row), scale * weight_of(t, i), t->columns);
    }
}

/* Computes the maximum.  NaN counts as the largest value; of equal elements the first is used. */
static void max_bag(const bagging *a, const table *t, int64_t bag, void *y) {
    int64_t *most = a->most + bag * t->columns;
    for (int64_t c = 0; c < t->columns; c++) {
        most[c] = -1;
        double top = 0;
        for (int64_t i = a->bags.start[bag]; i < a->bags.start[bag + 1]; i++) {
            int64_t row = local_row(a, t, i);
            double x = row < 0 ? 0 : element_at(t->dtype, row_of(t, row), c);
            if (row < 0 || (most[c] >= 0 && !(x > top || (isnan(x) && !isnan(top))))) continue;
            most[c] = row;
            top = x;
        }
        if (t->dtype == RSH_F32) ((float *)y)[c] = (float)top;
        else ((double *)y)[c] = top;
    }
}

static table table_of(const rsh_tensor *dense, const rsh_tensor *weights) {
    return (table){rsh_tensor_dtype(dense), rsh_tensor_shape(dense)[0], rsh_tensor_shape(dense)[1],
                   rsh_tensor_data(dense), weights ? rsh_tensor_data(weights) : NULL};
}

static rsh_status fill_bags(bagging *a, const table *t, rsh_tensor *y) {
    char *at = rsh_tensor_data(y);
    int64_t bytes = t->columns * (int64_t)rsh_dtype_size(t->dtype);
    if (a->mode == RSH_BAG_MAX && !(a->most = rshn_malloc((size_t)(a->bags.nbags * t->columns + 1) * sizeof *a->most)))
        return rshn_fail(RSH_ENOMEM, "out of memory for the maxima of %lld bags", (long long)a->bags.nbags);
    for (int64_t b = 0; b < a->bags.nbags; b++) (a->mode == RSH_BAG_MAX ? max_bag : sum_bag)(a, t, b, at + b * bytes);
    return RSH_OK;
}

static rsh_status bag_forward(rsh_grad_call *c) {
    bagging *a = rsh_call_attrs(c);
    rsh_tensor *dense = NULL, *y = NULL;
    const rsh_tensor *weights = rsh_call_input(c, 1);
    NN_TRY(rshn_dense(rsh_call_input(c, 0), &dense));
    table t = table_of(dense, weights);
    rsh_status st = rsh_tensor_zeros(t.dtype, 2, (const int64_t[]){a->bags.nbags, t.columns}, &y);
    if (!st) st = fill_bags(a, &t, y);
    if (!st) st = rsh_call_set_output(c, 0, y);
    else rsh_tensor_free(y);
    if (!st) st = rsh_call_save_input(c, 0);
    if (!st) st = rsh_call_save_input(c, 1);
    rsh_tensor_free(dense);
    return st;
}

/* ---- backward ---- */

static void table_gradient(const bagging *a, const table *t, const char *g, const table *into) {
    int64_t bytes = t->columns * (int64_t)rsh_dtype_size(t->dtype);
    for (int64_t b = 0; b < a->bags.nbags; b++) {
        const void *gb = g + b * bytes;
        double scale = bag_scale(a, b);
        for (int64_t c = 0; a->most && c < t->columns; c++) {
            int64_t row = a->most[b * t->columns + c];
            if (row < 0) continue;
            if (t->dtype == RSH_F32) ((float *)row_of(into, row))[c] += ((const float *)gb)[c];
            else ((double *)row_of(into, row))[c] += ((const double *)gb)[c];
        }
        for (int64_t i = a->bags.start[b]; !a->most && i < a->bags.start[b + 1]; i++) {
            int64_t row = local_row(a, t, i);
            if (row >= 0 && a->bags.index[i] != a->frozen)
                add_row(t->dtype, row_of(into, row), gb, scale * weight_of(t, i), t->columns);
        }
    }
}

static void weights_gradient(const bagging *a, const table *t, const char *g, void *into) {
    int64_t bytes = t->columns * (int64_t)rsh_dtype_size(t->dtype);
    for (int64_t b = 0; b < a->bags.nbags; b++)
        for (int64_t i = a->bags.start[b]; i < a->bags.start[b + 1]; i++) {
            int64_t row = local_row(a, t, i);
            double d = row < 0 ? 0 : dot(t->dtype, row_of(t, row), g + b * bytes, t->columns);
            if (t->dtype == RSH_F32) ((float *)into)[i] = (float)d;
            else ((double *)into)[i] = d;
        }
}

static rsh_status set_table_gradient(rsh_grad_call *c, const bagging *a, const table *t, const rsh_tensor *g) {
    rsh_tensor *into = NULL;
    NN_TRY(rsh_tensor_zeros(t->dtype, 2, (const int64_t[]){t->rows, t->columns}, &into));
    table sum = table_of(into, NULL);
    table_gradient(a, t, rsh_tensor_data(g), &sum);
    return rsh_call_set_input_grad(c, 0, into);
}

static rsh_status set_weights_gradient(rsh_grad_call *c, const bagging *a, const table *t, const rsh_tensor *g) {
    rsh_tensor *into = NULL;
    NN_TRY(rsh_tensor_empty(t->dtype, 1, &a->bags.n, &into));
    weights_gradient(a, t, rsh_tensor_data(g), rsh_tensor_data(into));
    return rsh_call_set_input_grad(c, 1, into);
}

static rsh_status bag_backward(rsh_grad_call *c) {
    const bagging *a = rsh_call_attrs(c);
    const rsh_tensor *whole = NULL, *weights = NULL;
    rsh_tensor *dense = NULL, *g = NULL;
    if (!rsh_call_output_grad(c, 0)) return RSH_OK;
    NN_TRY(rsh_call_saved(c, 0, &whole));
    NN_TRY(rsh_call_saved(c, 1, &weights));
    rsh_status st = rshn_dense(whole, &dense);
    if (!st) st = rshn_dense(rsh_call_output_grad(c, 0), &g);
    table t = {0};
    if (!st) t = table_of(dense, weights);
    if (!st && rsh_call_needs_input_grad(c, 0)) st = set_table_gradient(c, a, &t, g);
    if (!st && rsh_call_needs_input_grad(c, 1)) st = set_weights_gradient(c, a, &t, g);
    rsh_tensor_free(dense);
    rsh_tensor_free(g);
    return st;
}

static const rsh_grad_op bag = {.name = "embedding bag",
                                .forward = bag_forward,
                                .backward = bag_backward,
                                .attr_bytes = sizeof(bagging),
                                .drop = free_bagging};

rsh_status rshn_bag(rshn_bags *b, rsh_value *table, int64_t first, int64_t padding, int64_t frozen, rsh_bag_mode mode,
                    rsh_value *weights, rsh_value **out) {
    bagging a = {*b, first, padding, frozen, mode, NULL};
    rsh_value *dense = NULL;
    *b = (rshn_bags){0};
    rsh_status st = weights ? rsh_nn_contiguous(weights, &dense) : RSH_OK;
    if (st) {
        free_bagging(&a);
        return st;
    }
    st = rsh_grad_apply(&bag, &a, 2, (rsh_value *[]){table, dense}, 1, out);
    rsh_value_free(dense);
    return st;
}
