/* Index: index_select and embedding.
 *
 * Both select rows of `inner` elements from `outer` consecutive groups.  The gradient sums rows; the threads divide the
 * columns, so the order of the additions, and the resulting bits, do not depend on the number of threads. */
#include "nn/impl.h"

#include <string.h>

typedef struct indexing {
    int dim;
    int64_t padding; /* row that gets no gradient; -1: none */
    int64_t start;   /* first of this rank's rows, if the dim is cut */
    rshn_sizes before;
} indexing;

typedef struct picking {
    const char *name;
    int64_t outer, rows, inner, n; /* numbers of groups, rows per group, elements per row, and indices */
    size_t item;
    int64_t padding, start;
    const int64_t *index;
    char *from, *to;
} picking;

/* Checks that indices are valid; they must be dense. */
static rsh_status check_index(const char *name, const rsh_tensor *index, int64_t rows) {
    const int64_t *i = rsh_tensor_data(index);
    for (int64_t k = 0; k < rsh_tensor_count(index); k++)
        if (i[k] < 0 || i[k] >= rows)
            return rshn_fail(RSH_EINDEX, "%s: index %lld is out of range, there are %lld rows", name, (long long)i[k],
                             (long long)rows);
    return RSH_OK;
}

/* Describes the selection.  The index must be dense and outlive the result. */
static picking picking_of(const rshn_sizes *sizes, int dim, const rsh_tensor *index, size_t item) {
    picking p = {.outer = 1, .inner = 1, .rows = sizes->n ? sizes->at[dim] : 1, .item = item, .padding = -1};
    for (int d = 0; d < sizes->n; d++) {
        if (d < dim) p.outer *= sizes->at[d];
        if (d > dim) p.inner *= sizes->at[d];
    }
    p.n = rsh_tensor_count(index);
    p.index = rsh_tensor_data(index);
    return p;
}

static void pick_range(void *ctx, int64_t lo, int64_t hi) {
    const picking *p = ctx;
    size_t row = (size_t)p->inner * p->item;
    for (int64_t i = lo; i < hi; i++) {
        int64_t k = p->index[i % p->n] - p->start;
        if (k < 0 || k >= p->rows)
            memset(p->to + (size_t)i * row, 0, row); /* the row is on another rank */
        else
            memcpy(p->to + (size_t)i * row, p->from + (size_t)(i / p->n * p->rows + k) * row, row);
    }
}

static void add_elements(size_t item, const char *from, char *to, int64_t n) {
    if (item == 4)
        for (int64_t j = 0; j < n; j++) ((float *)to)[j] += ((const float *)from)[j];
    else
        for (int64_t j = 0; j < n; j++) ((double *)to)[j] += ((const double *)from)[j];
}

/* Adds columns lo to hi - 1 of every row. */
static void add_range(void *ctx, int64_t lo, int64_t hi) {
    const picking *p = ctx;
    size_t row = (size_t)p->inner * p->item, skip = (size_t)lo * p->item;
    for (int64_t i = 0; i < p->outer * p->n; i++) {
        int64_t k = p->index[i % p->n] - p->start;
        if (k >= 0 && k < p->rows && k != p->padding - p->start)
            add_elements(p->item, p->from + (size_t)i * row + skip,
                         p->to + (size_t)(i / p->n * p->rows + k) * row + skip, hi - lo);
    }
}

/* Selects rows of x into a new tensor of sizes `to`; x has `rows` rows on all ranks together. */
static rsh_status pick_rows(const char *name, const rsh_tensor *x, const indexing *a, int64_t rows,
                            const rsh_tensor *index, const rshn_sizes *to, rsh_tensor **out) {
    rsh_tensor *dense = NULL, *list = NULL;
    rshn_sizes sizes = rshn_sizes_of(x);
    rsh_status st;
    NN_GOTO(rshn_dense_indices(name, "indices", index, &list));
    NN_GOTO(check_index(name, list, rows));
    NN_GOTO(rshn_dense(x, &dense));
    NN_GOTO(rshn_empty(rsh_tensor_dtype(x), to, out));
    picking p = picking_of(&sizes, a->dim, list, rsh_dtype_size(rsh_tensor_dtype(x)));
    p.start = a->start;
    p.from = rsh_tensor_data(dense);
    p.to = rsh_tensor_data(*out);
    rshn_spread(p.outer * p.n, 16384 / (p.inner + 1) + 1, pick_range, &p);
out:
    rsh_tensor_free(dense);
    rsh_tensor_free(list);
    return st;
}

/* Adds rows of g to gx, which is zero at the beginning. */
static void add_rows(const indexing *a, const rsh_tensor *index, const rsh_tensor *g, const rsh_tensor *gx) {
    picking p = picking_of(&a->before, a->dim, index, rsh_dtype_size(rsh_tensor_dtype(g)));
    p.padding = a->padding;
    p.start = a->start;
    p.from = rsh_tensor_data(g);
    p.to = rsh_tensor_data(gx);
    rshn_spread(p.inner, 16384 / (p.outer * p.n + 1) + 16, add_range, &p);
}

static rsh_status index_backward(rsh_grad_call *c, int input) {
    const indexing *a = rsh_call_attrs(c);
    const rsh_tensor *index = NULL;
    rsh_tensor *g = NULL, *gx = NULL, *list = NULL;
    rsh_status st;
    if (!rsh_call_needs_input_grad(c, input)) return RSH_OK;
    NN_GOTO(rsh_call_saved(c, 0, &index));
    NN_GOTO(rshn_dense(index, &list));
    NN_GOTO(rshn_dense(rsh_call_output_grad(c, 0), &g));
    NN_GOTO(rsh_tensor_zeros(rsh_tensor_dtype(g), a->before.n, a->before.at, &gx));
    add_rows(a, list, g, gx);
    st = rsh_call_set_input_grad(c, input, gx);
out:
    rsh_tensor_free(list);
    rsh_tensor_free(g);
    return st;
}

/* ---- index_select: inputs x, index. If x is cut, a rank returns zeros for slices that it does not have ---- */

static rsh_status select_forward(rsh_grad_call *c) {
    indexing *a = rsh_call_attrs(c);
    const rsh_tensor *x = rsh_call_input(c, 0), *index = rsh_call_input(c, 1);
    rsh_tensor *y = NULL;
    NN_TRY(rshn_needs_float("index_select", x));
    if (rsh_tensor_ndim(index) > 1)
        return rshn_fail(RSH_EVALUE, "index_select: index must have at most 1 dim, got %d", rsh_tensor_ndim(index));
    a->before = rshn_sizes_of(x);
    rshn_sizes to = a->before;
    to.at[a->dim] = rsh_tensor_count(index);
    NN_TRY(rshn_own_start(c, 0, a->dim, &a->start));
    NN_TRY(pick_rows("index_select", x, a, rsh_value_shape(rsh_call_input_value(c, 0))[a->dim], index, &to, &y));
    NN_TRY(rsh_call_set_output(c, 0, y));
    return rsh_call_save_input(c, 1);
}

static rsh_status select_backward(rsh_grad_call *c) { return index_backward(c, 0); }

static rsh_status select_rule(rsh_rule_dims *io) {
    const indexing *a = io->attrs;
    rsh_rule_tensor *x = &io->in[0], *index = &io->in[1], *y = &io->out[0];
    rshn_rule_same(x, y);
    rshn_rule_letter(x, a->dim, x->ndim);
    y->shape[a->dim] = index->ndim ? index->shape[0] : 1;
    if (index->ndim == 1) rshn_rule_letter(index, 0, a->dim); /* the result has one slice for each index */
    x->term = 0;
    io->moves_only = true;
    return RSH_OK;
}

rsh_status rsh_nn_index_select(rsh_value *x, int dim, rsh_value *index, rsh_value **out) {
    static const rsh_placement_rule rule = {select_rule};
    static const rsh_grad_op op = {.name = "index_select",
                                   .forward = select_forward,
                                   .backward = select_backward,
                                   .attr_bytes = sizeof(indexing),
                                   .placements = &rule};
    indexing a = {.padding = -1};
    if (x && !rsh_value_ndim(x)) return rshn_fail(RSH_EINDEX, "index_select: x must have at least 1 dim");
    if (x) NN_TRY(rshn_dim("index_select", dim, rsh_value_ndim(x), &a.dim));
    return rshn_apply(&op, &a, 2, 2, (rsh_value *[]){x, index}, out);
}

/* ---- embedding: inputs index, weight ---- */

static rsh_status embedding_forward(rsh_grad_call *c) {
    indexing *a = rsh_call_attrs(c);
    const rsh_tensor *index = rsh_call_input(c, 0), *weight = rsh_call_input(c, 1);
    rsh_tensor *y = NULL;
    rshn_sizes to = rshn_sizes_of(index);
    NN_TRY(rshn_needs_float("embedding", weight));
    if (rsh_tensor_ndim(weight) != 2 || to.n == RSH_MAX_NDIM)
        return rshn_fail(RSH_EVALUE, "embedding: weight must be 2-D, got index %s and weight %s",
                         rshn_shape_text(index), rshn_shape_text(weight));
    a->before = rshn_sizes_of(weight);
    int64_t rows = rsh_value_shape(rsh_call_input_value(c, 1))[0];
    if (a->padding < -1 || a->padding >= rows)
        return rshn_fail(RSH_EINDEX, "embedding: padding must be -1 or a row of the weight, got %lld for a weight "
                                     "of %lld rows",
                         (long long)a->padding, (long long)rows);
    to.at[to.n++] = a->before.at[1];
    NN_TRY(rshn_own_start(c, 1, 0, &a->start));
    NN_TRY(pick_rows("embedding", weight, a, rows, index, &to, &y));
    NN_TRY(rsh_call_set_output(c, 0, y));
    return rsh_call_save_input(c, 0);
}

static rsh_status embedding_backward(rsh_grad_call *c) { return index_backward(c, 1); }

static rsh_status embedding_rule(rsh_rule_dims *io) {
    rsh_rule_tensor *index = &io->in[0], *weight = &io->in[1], *y = &io->out[0];
    int n = index->ndim;
    if (weight->ndim != 2 || n == RSH_MAX_NDIM)
        return rshn_fail(RSH_EVALUE, "embedding: weight must be 2-D, got index %s and weight %s",
                         rshn_sizes_text(n, index->shape), rshn_sizes_text(weight->ndim, weight->shape));
    rshn_rule_same(index, y);
    rshn_rule_add_dim(y, weight->shape[1], n);
    rshn_rule_letter(weight, 1, n);
    rshn_rule_letter(weight, 0, n + 1);
    y->dtype = weight->dtype;
    weight->term = 0;
    return RSH_OK;
}

rsh_status rsh_nn_embedding(rsh_value *index, rsh_value *weight, int64_t padding, rsh_value **out) {
    static const rsh_placement_rule rule = {embedding_rule};
    static const rsh_grad_op op = {.name = "embedding",
                                   .forward = embedding_forward,
                                   .backward = embedding_backward,
                                   .attr_bytes = sizeof(indexing),
                                   .placements = &rule};
    indexing a = {.padding = padding};
    return rshn_apply(&op, &a, 2, 2, (rsh_value *[]){index, weight}, out);
}
