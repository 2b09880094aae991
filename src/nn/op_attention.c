/* Attention: softmax(q k' / sqrt(d) + mask) v, one head at a time.
 *
 * The scores of one head fit into a cache, so each head goes through all steps before the next one begins; heads are
 * distributed over the threads.  Saved slots are q, k, v and the softmax weights.  Results have the memory order of q,
 * k and v, so that heads that were split from one matrix can be merged again without a copy. */
#include "nn/impl.h"

#include <reshard/math.h>

#include <math.h>
#include <string.h>

enum { Q, K, V, G, OPERANDS }; /* G: the gradient in backward, the result in forward */

typedef struct attention_attrs {
    bool causal;
} attention_attrs;

/* A batch of matrices: the first matrix, and the strides to the others. */
typedef struct heads {
    rshn_matrix first;
    int64_t stride[RSH_MAX_NDIM];
} heads;

typedef struct attending {
    const rshn_kernels *k;
    rsh_dtype dtype;
    size_t item;
    int lead; /* number of leading dims */
    int64_t size[RSH_MAX_NDIM], count;
    heads in[OPERANDS], grad[3], mask;
    const int64_t *visible; /* number of visible columns of each row, if causal; NULL: all */
    bool masked, mask_is_bool;
    double scale;
    char *weights; /* one rows x columns matrix for each head */
    char *scratch; /* one such matrix for each range of heads */
    int64_t ranges;
} attending;

static heads heads_of(const rsh_tensor *t) {
    int n = rsh_tensor_ndim(t);
    const int64_t *shape = rsh_tensor_shape(t), *strides = rsh_tensor_strides(t);
    heads h = {.first = {rsh_tensor_data(t), shape[n - 2], shape[n - 1], strides[n - 2], strides[n - 1]}};
    for (int d = 0; d < n - 2; d++) h.stride[d] = strides[d];
    return h;
}

static rshn_matrix head(const attending *a, const heads *h, int64_t i, size_t item) {
    rshn_matrix m = h->first;
    for (int d = a->lead - 1; d >= 0; i /= a->size[d], d--)
        m.data = (char *)m.data + i % a->size[d] * h->stride[d] * (int64_t)item;
    return m;
}

static rshn_matrix scores_at(const attending *a, char *data, int64_t i) {
    int64_t rows = a->in[Q].first.rows, columns = a->in[K].first.rows;
    return (rshn_matrix){data + (size_t)(i * rows * columns) * a->item, rows, columns, columns, 1};
}

/* ---- forward ---- */

static void apply_mask(const attending *a, const rshn_matrix *s, int64_t i) {
    const double none[2] = {0, 0}, hidden = -INFINITY;
    const float hidden32 = -INFINITY;
    size_t item = a->mask_is_bool ? 1 : a->item;
    rshn_matrix m = head(a, &a->mask, i, item);
    for (int64_t r = 0; r < s->rows; r++) {
        char *row = (char *)s->data + (size_t)(r * s->columns) * a->item;
        const char *mask = (const char *)m.data + r * m.row_stride * (int64_t)item;
        if (a->mask_is_bool)
            a->k->where((const uint8_t *)mask, m.column_stride, row, 1,
                        a->dtype == RSH_F32 ? (const void *)&hidden32 : &hidden, 0, row, s->columns);
        else
            a->k->map2[RSHN_ADD](none, row, 1, mask, m.column_stride, row, s->columns);
    }
}

static void attend(const attending *a, int64_t i) {
    rshn_matrix q = head(a, &a->in[Q], i, a->item), k = head(a, &a->in[K], i, a->item),
                v = head(a, &a->in[V], i, a->item);
    rshn_matrix y = head(a, &a->in[G], i, a->item), s = scores_at(a, a->weights, i), kt = rshn_transposed(k);
    rshn_gemm_one(a->dtype, a->scale, &q, &kt, 0, &s);
    if (a->masked) apply_mask(a, &s, i);
    a->k->softmax(s.data, s.data, s.rows, s.columns, a->visible);
    rshn_gemm_one(a->dtype, 1, &s, &v, 0, &y);
}

static void attend_range(void *ctx, int64_t lo, int64_t hi) {
    for (int64_t i = lo; i < hi; i++) attend(ctx, i);
}

/* ---- backward ---- */

static void attend_back(const attending *a, int64_t i, char *scratch) {
    rshn_matrix q = head(a, &a->in[Q], i, a->item), k = head(a, &a->in[K], i, a->item),
                v = head(a, &a->in[V], i, a->item);
    rshn_matrix g = head(a, &a->in[G], i, a->item), w = scores_at(a, a->weights, i), d = scores_at(a, scratch, 0);
    rshn_matrix wt = rshn_transposed(w), vt = rshn_transposed(v), dt = rshn_transposed(d);
    if (a->grad[V].first.data) {
        rshn_matrix gv = head(a, &a->grad[V], i, a->item);
        rshn_gemm_one(a->dtype, 1, &wt, &g, 0, &gv);
    }
    if (!a->grad[Q].first.data && !a->grad[K].first.data) return;
    rshn_gemm_one(a->dtype, 1, &g, &vt, 0, &d);
    a->k->softmax_back(w.data, d.data, d.data, d.rows, d.columns, a->scale);
    if (a->grad[Q].first.data) {
        rshn_matrix gq = head(a, &a->grad[Q], i, a->item);
        rshn_gemm_one(a->dtype, 1, &d, &k, 0, &gq);
    }
    if (a->grad[K].first.data) {
        rshn_matrix gk = head(a, &a->grad[K], i, a->item);
        rshn_gemm_one(a->dtype, 1, &dt, &q, 0, &gk);
    }
}

/* Processes range r of the heads, with its own scratch matrix. */
static void back_ranges(void *ctx, int64_t lo, int64_t hi) {
    const attending *a = ctx;
    for (int64_t r = lo; r < hi; r++) {
        rshn_matrix own = scores_at(a, a->scratch, r);
        for (int64_t i = a->count * r / a->ranges; i < a->count * (r + 1) / a->ranges; i++) attend_back(a, i, own.data);
    }
}

/* ---- set-up ---- */

static rsh_status check_shapes(const rsh_tensor *const *in) {
    int n = rsh_tensor_ndim(in[Q]);
    NN_TRY(rshn_needs_alike("attention", 3, in));
    bool alike = n >= 2 && rsh_tensor_ndim(in[K]) == n && rsh_tensor_ndim(in[V]) == n;
    for (int d = 0; alike && d < n - 2; d++)
        alike = rsh_tensor_shape(in[Q])[d] == rsh_tensor_shape(in[K])[d] &&
                rsh_tensor_shape(in[Q])[d] == rsh_tensor_shape(in[V])[d];
    if (alike && rsh_tensor_shape(in[Q])[n - 1] == rsh_tensor_shape(in[K])[n - 1] &&
        rsh_tensor_shape(in[K])[n - 2] == rsh_tensor_shape(in[V])[n - 2])
        return RSH_OK;
    return rshn_fail(RSH_EVALUE, "attention: shapes of q, k and v do not match, got %s, %s and %s",
                     rshn_shape_text(in[Q]), rshn_shape_text(in[K]), rshn_shape_text(in[V]));
}

/* Returns the tensor if BLAS can read its matrices, otherwise a dense copy. */
static rsh_status blas_readable(const rsh_tensor *t, rsh_tensor **out) {
    rshn_matrix m = heads_of(t).first;
    return rshn_matrix_fits(&m) ? rshn_alias(t, out) : rsh_math_convert(t, rsh_tensor_dtype(t), out);
}

/* Creates a tensor in the memory order of t if BLAS can write its matrices, otherwise row-major.  A dim of size 1 may
 * have any stride in t but more elements in the new tensor, so the order of t does not always fit. */
static rsh_status new_blas_writable(const rsh_tensor *t, const rshn_sizes *sizes, rsh_tensor **out) {
    NN_TRY(rshn_empty_as(t, sizes, out));
    rshn_matrix m = heads_of(*out).first;
    if (rshn_matrix_fits(&m)) return RSH_OK;
    rsh_tensor_free(*out);
    *out = NULL;
    return rshn_empty(rsh_tensor_dtype(t), sizes, out);
}

static attending attending_of(const rsh_tensor *q) {
    attending a = {.dtype = rsh_tensor_dtype(q), .k = rshn_kernels_of(rsh_tensor_dtype(q)), .count = 1};
    a.item = rsh_dtype_size(a.dtype);
    a.lead = rsh_tensor_ndim(q) - 2;
    for (int d = 0; d < a.lead; d++) a.count *= a.size[d] = rsh_tensor_shape(q)[d];
    a.scale = 1 / sqrt((double)rsh_tensor_shape(q)[a.lead + 1]);
    return a;
}

/* Broadcasts the mask to the shape of the scores. */
static rsh_status set_mask(attending *a, const rsh_tensor *mask, rsh_tensor **view) {
    rshn_sizes to = {.n = a->lead + 2}, have, both;
    if (!mask) return RSH_OK;
    rsh_dtype dtype = rsh_tensor_dtype(mask);
    have = rshn_sizes_of(mask);
    memcpy(to.at, a->size, sizeof a->size);
    to.at[a->lead] = a->in[Q].first.rows;
    to.at[a->lead + 1] = a->in[K].first.rows;
    a->mask_is_bool = dtype == RSH_BOOL || dtype == RSH_U8;
    if (!a->mask_is_bool && dtype != a->dtype)
        return rshn_fail(RSH_ETYPE, "attention: mask must be bool or %s, got %s", rsh_dtype_name(a->dtype),
                         rsh_dtype_name(dtype));
    NN_TRY(rshn_broadcast("attention", &to, &have, &both));
    if (both.n != to.n || memcmp(both.at, to.at, (size_t)to.n * sizeof *to.at))
        return rshn_fail(RSH_EVALUE, "attention: mask %s does not broadcast to the scores %s", rshn_shape_text(mask),
                         rshn_sizes_text(to.n, to.at));
    NN_TRY(rshn_expand(mask, &to, view));
    a->mask = heads_of(*view);
    a->masked = true;
    return RSH_OK;
}

static rsh_status set_visible(attending *a, bool causal, rsh_tensor **t) {
    int64_t rows = a->in[Q].first.rows, columns = a->in[K].first.rows;
    if (!causal) return RSH_OK;
    NN_TRY(rsh_tensor_empty(RSH_I64, 1, &rows, t));
    int64_t *visible = rsh_tensor_data(*t);
    for (int64_t r = 0; r < rows; r++) visible[r] = r + 1 < columns ? r + 1 : columns;
    a->visible = visible;
    return RSH_OK;
}

static void run_heads(attending *a) {
    if (a->count < rshn_threads()) {
        attend_range(a, 0, a->count);
        return;
    }
    bool began = rshn_blas_serial_begin();
    rshn_spread(a->count, 65536 / (a->in[Q].first.rows * a->in[K].first.rows + 1) + 1, attend_range, a);
    rshn_blas_serial_end(began);
}

static rsh_status attention_forward(rsh_grad_call *c) {
    const attention_attrs *o = rsh_call_attrs(c);
    const rsh_tensor *in[3] = {rsh_call_input(c, Q), rsh_call_input(c, K), rsh_call_input(c, V)};
    rsh_tensor *t[3] = {NULL}, *mask = NULL, *visible = NULL, *weights = NULL, *y = NULL;
    rsh_status st;
    NN_TRY(check_shapes(in));
    attending a = attending_of(in[Q]);
    rshn_sizes to = rshn_sizes_of(in[Q]), square = to;
    to.at[to.n - 1] = rsh_tensor_shape(in[V])[to.n - 1];
    square.at[to.n - 1] = rsh_tensor_shape(in[K])[to.n - 2];
    for (int i = Q; i <= V; i++) {
        NN_GOTO(blas_readable(in[i], &t[i]));
        a.in[i] = heads_of(t[i]);
    }
    NN_GOTO(set_mask(&a, rsh_call_input(c, 3), &mask));
    NN_GOTO(set_visible(&a, o->causal, &visible));
    NN_GOTO(rshn_empty(a.dtype, &square, &weights));
    NN_GOTO(new_blas_writable(t[Q], &to, &y));
    a.weights = rsh_tensor_data(weights);
    a.in[G] = heads_of(y);
    run_heads(&a);
    st = rsh_call_set_output(c, 0, y);
    y = NULL;
    for (int i = Q; i <= V && !st; i++) st = rsh_call_save_input(c, i);
    if (!st) {
        st = rsh_call_save(c, weights);
        weights = NULL;
    }
out:
    for (int i = Q; i <= V; i++) rsh_tensor_free(t[i]);
    rsh_tensor_free(mask);
    rsh_tensor_free(visible);
    rsh_tensor_free(weights);
    rsh_tensor_free(y);
    return st;
}

static rsh_status run_back(attending *a) {
    rsh_tensor *scratch = NULL;
    int64_t grain = 65536 / (a->in[Q].first.rows * a->in[K].first.rows + 1) + 1;
    bool shared = a->count >= rshn_threads();
    a->ranges = shared ? rshn_ranges(a->count, grain) : 1;
    int64_t size[3] = {a->ranges, a->in[Q].first.rows, a->in[K].first.rows};
    NN_TRY(rsh_tensor_empty(a->dtype, 3, size, &scratch));
    a->scratch = rsh_tensor_data(scratch);
    bool began = shared && rshn_blas_serial_begin();
    rshn_spread(a->ranges, 1, back_ranges, a);
    rshn_blas_serial_end(began);
    rsh_tensor_free(scratch);
    return RSH_OK;
}

static rsh_status attention_backward(rsh_grad_call *c) {
    const rsh_tensor *saved[4] = {NULL};
    rsh_tensor *t[OPERANDS] = {NULL}, *grad[3] = {NULL}, *weights = NULL;
    rsh_status st;
    for (int i = 0; i < 4; i++) NN_TRY(rsh_call_saved(c, i, &saved[i]));
    attending a = attending_of(saved[Q]);
    NN_GOTO(rshn_dense(saved[3], &weights));
    a.weights = rsh_tensor_data(weights);
    saved[G] = rsh_call_output_grad(c, 0);
    for (int i = Q; i <= G; i++) {
        NN_GOTO(blas_readable(saved[i], &t[i]));
        a.in[i] = heads_of(t[i]);
    }
    for (int i = Q; i <= V; i++) {
        if (!rsh_call_needs_input_grad(c, i)) continue;
        rshn_sizes sizes = rshn_sizes_of(t[i]);
        NN_GOTO(new_blas_writable(t[i], &sizes, &grad[i]));
        a.grad[i] = heads_of(grad[i]);
    }
    NN_GOTO(run_back(&a));
    for (int i = Q; i <= V && !st; i++) {
        rsh_tensor *g = grad[i];
        grad[i] = NULL;
        if (g) st = rsh_call_set_input_grad(c, i, g);
    }
out:
    for (int i = Q; i <= G; i++) rsh_tensor_free(t[i]);
    for (int i = Q; i <= V; i++) rsh_tensor_free(grad[i]);
    rsh_tensor_free(weights);
    return st;
}

/* The rule: leading dims of all operands match, and the last dim of v is that of the result.  Rows of q can be cut
 * unless the mask is causal.  The result is linear in v. */
static rsh_status attention_rule(rsh_rule_dims *io) {
    const attention_attrs *a = io->attrs;
    rsh_rule_tensor *q = &io->in[Q], *v = &io->in[V], *mask = &io->in[3], *y = &io->out[0];
    int n = q->ndim;
    if (n < 2 || io->in[K].ndim != n || v->ndim != n)
        return rshn_fail(RSH_EVALUE,
                         "attention: q, k and v must have the same number of dims, at least 2, got %d, "
                         "%d and %d",
                         n, io->in[K].ndim, v->ndim);
    v->term = 0;
    for (int d = 0; d < n - 2; d++) {
        for (int i = Q; i <= V; i++) rshn_rule_letter(&io->in[i], d, d);
        rshn_rule_add_dim(y, q->shape[d], d);
    }
    int rows = a->causal ? RSH_DIM_WHOLE : n - 2;
    rshn_rule_letter(q, n - 2, rows);
    rshn_rule_add_dim(y, q->shape[n - 2], rows);
    rshn_rule_letter(v, n - 1, n - 1);
    rshn_rule_add_dim(y, v->shape[n - 1], n - 1);
    for (int d = 0; d < mask->ndim - 1; d++) { /* the last dim of the mask corresponds to the columns */
        int to = d + n - mask->ndim;
        if (to >= 0 && mask->shape[d] == q->shape[to]) rshn_rule_letter(mask, d, to == n - 2 ? rows : to);
    }
    return RSH_OK;
}

rsh_status rsh_nn_attention(rsh_value *q, rsh_value *k, rsh_value *v, rsh_value *mask, bool causal, rsh_value **out) {
    static const rsh_placement_rule rule = {attention_rule};
    static const rsh_grad_op op = {.name = "attention",
                                   .forward = attention_forward,
                                   .backward = attention_backward,
                                   .attr_bytes = sizeof(attention_attrs),
                                   .placements = &rule};
    attention_attrs a = {causal};
    return rshn_apply(&op, &a, 4, 3, (rsh_value *[]){q, k, v, mask}, out);
}
