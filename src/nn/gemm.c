/* Gemm: products of batches of matrices with CBLAS.  Batches broadcast.
 *
 * A matrix whose rows or columns are dense is read in place, transposed or not; others are copied first.  If the memory
 * layout allows it, a batch becomes one large product: the rows of all matrices form one matrix or, if the result is
 * repeated, one long sum.  Otherwise the matrices of a batch are distributed over the pool, each with one BLAS
 * thread. */
#include "nn/impl.h"

#include <cblas.h>
#include <limits.h>
#include <reshard/math.h>
#include <string.h>

enum { A, B, C };

rshn_matrix rshn_transposed(rshn_matrix m) {
    return (rshn_matrix){m.data, m.columns, m.rows, m.column_stride, m.row_stride};
}

static bool row_major(const rshn_matrix *m) {
    return (m->column_stride == 1 || m->columns == 1) && (m->row_stride >= m->columns || m->rows == 1);
}

bool rshn_matrix_fits(const rshn_matrix *m) {
    rshn_matrix t = rshn_transposed(*m);
    return row_major(m) || row_major(&t);
}

/* Returns the leading dimension for BLAS, which must be at least the row length. */
static blasint leading_dimension(const rshn_matrix *m) {
    int64_t least = m->columns > 1 ? m->columns : 1;
    return (blasint)(m->rows == 1 || m->row_stride < least ? least : m->row_stride);
}

/* ---- one product ---- */

/* One operand is a vector: y = alpha * m x + beta * y. */
static void multiply_vector(rsh_dtype dtype, double alpha, const rshn_matrix *m, const void *x, int64_t sx, double beta,
                            void *y, int64_t sy) {
    bool straight = row_major(m);
    rshn_matrix k = straight ? *m : rshn_transposed(*m);
    CBLAS_TRANSPOSE way = straight ? CblasNoTrans : CblasTrans;
    blasint rows = (blasint)k.rows, columns = (blasint)k.columns, ld = leading_dimension(&k);
    if (dtype == RSH_F32)
        cblas_sgemv(CblasRowMajor, way, rows, columns, (float)alpha, k.data, ld, x, (blasint)sx, (float)beta, y,
                    (blasint)sy);
    else
        cblas_dgemv(CblasRowMajor, way, rows, columns, alpha, k.data, ld, x, (blasint)sx, beta, y, (blasint)sy);
}

static void multiply(rsh_dtype dtype, double alpha, const rshn_matrix *a, const rshn_matrix *b, double beta,
                     const rshn_matrix *c) {
    rshn_matrix ka = row_major(a) ? *a : rshn_transposed(*a), kb = row_major(b) ? *b : rshn_transposed(*b);
    CBLAS_TRANSPOSE wa = row_major(a) ? CblasNoTrans : CblasTrans, wb = row_major(b) ? CblasNoTrans : CblasTrans;
    blasint m = (blasint)c->rows, n = (blasint)c->columns, k = (blasint)a->columns;
    if (dtype == RSH_F32)
        cblas_sgemm(CblasRowMajor, wa, wb, m, n, k, (float)alpha, ka.data, leading_dimension(&ka), kb.data,
                    leading_dimension(&kb), (float)beta, c->data, leading_dimension(c));
    else
        cblas_dgemm(CblasRowMajor, wa, wb, m, n, k, alpha, ka.data, leading_dimension(&ka), kb.data,
                    leading_dimension(&kb), beta, c->data, leading_dimension(c));
}

/* Clears c, whose row elements must be adjacent. */
static void clear_matrix(rsh_dtype dtype, const rshn_matrix *c) {
    size_t item = rsh_dtype_size(dtype);
    for (int64_t r = 0; r < c->rows; r++)
        memset((char *)c->data + r * c->row_stride * (int64_t)item, 0, (size_t)c->columns * item);
}

static int64_t step_of(int64_t n, int64_t stride) { return n == 1 || stride < 1 ? 1 : stride; }

/* Multiplies any two matrices; the row elements of c must be adjacent. */
static void multiply_any(rsh_dtype dtype, double alpha, const rshn_matrix *a, const rshn_matrix *b, double beta,
                         const rshn_matrix *c) {
    if (!a->columns) {
        if (beta == 0) clear_matrix(dtype, c);
    } else if (c->columns == 1 && (b->rows == 1 || b->row_stride > 0)) {
        multiply_vector(dtype, alpha, a, b->data, step_of(b->rows, b->row_stride), beta, c->data,
                        step_of(c->rows, c->row_stride));
    } else if (c->rows == 1 && (a->columns == 1 || a->column_stride > 0)) {
        rshn_matrix t = rshn_transposed(*b);
        multiply_vector(dtype, alpha, &t, a->data, step_of(a->columns, a->column_stride), beta, c->data, 1);
    } else {
        multiply(dtype, alpha, a, b, beta, c);
    }
}

void rshn_gemm_one(rsh_dtype dtype, double alpha, const rshn_matrix *a, const rshn_matrix *b, double beta,
                   const rshn_matrix *c) {
    if (!c->rows || !c->columns) return;
    if (row_major(c)) {
        multiply_any(dtype, alpha, a, b, beta, c);
    } else { /* BLAS writes adjacent row elements, so compute the transpose: c' = b' a' */
        rshn_matrix at = rshn_transposed(*a), bt = rshn_transposed(*b), ct = rshn_transposed(*c);
        multiply_any(dtype, alpha, &bt, &at, beta, &ct);
    }
}

/* ---- batches ---- */

typedef struct product {
    rsh_dtype dtype;
    double alpha, beta;
    size_t item;
    rshn_matrix m[3];
    int nb; /* number of leading dims */
    int64_t size[RSH_MAX_NDIM], stride[3][RSH_MAX_NDIM], count;
    bool adds; /* c is repeated along the batch, so products are summed */
} product;

static rshn_matrix last_matrix(const rsh_tensor *t) {
    int n = rsh_tensor_ndim(t);
    const int64_t *shape = rsh_tensor_shape(t), *strides = rsh_tensor_strides(t);
    return (rshn_matrix){rsh_tensor_data(t), shape[n - 2], shape[n - 1], strides[n - 2], strides[n - 1]};
}

static void set_leading(product *w, int which, const rsh_tensor *t) {
    int more = w->nb - (rsh_tensor_ndim(t) - 2);
    for (int d = 0; d < w->nb; d++) {
        int64_t size = d < more ? 1 : rsh_tensor_shape(t)[d - more];
        if (size != 1) w->size[d] = size;
        w->stride[which][d] = size == 1 ? 0 : rsh_tensor_strides(t)[d - more];
    }
}

/* Returns whether the batch dims continue a matrix dim of n elements with this stride, so that both can be merged. */
static bool continues(const product *w, int which, int64_t n, int64_t stride) {
    int64_t want = stride * n;
    for (int d = w->nb - 1; d >= 0; d--) {
        if (w->size[d] == 1) continue;
        if (w->stride[which][d] != want) return false;
        want *= w->size[d];
    }
    return true;
}

static bool has_zero_strides(const product *w, int which) {
    for (int d = 0; d < w->nb; d++)
        if (w->size[d] != 1 && w->stride[which][d]) return false;
    return true;
}

/* Merges the batch into the matrices if possible. */
static void fold_batch(product *w) {
    rshn_matrix *a = &w->m[A], *b = &w->m[B], *c = &w->m[C];
    if (w->count <= 1) return;
    if (has_zero_strides(w, B) && continues(w, A, a->rows, a->row_stride) && continues(w, C, c->rows, c->row_stride) &&
        a->rows > 0) {
        rshn_matrix tall = *a;
        tall.rows *= w->count;
        if (!rshn_matrix_fits(&tall)) return;
        *a = tall;
        c->rows *= w->count;
    } else if (has_zero_strides(w, C) && continues(w, A, a->columns, a->column_stride) &&
               continues(w, B, b->rows, b->row_stride) && a->columns > 1) {
        rshn_matrix wide = *a, tall = *b;
        wide.columns *= w->count;
        tall.rows *= w->count;
        if (!rshn_matrix_fits(&wide) || !rshn_matrix_fits(&tall)) return;
        *a = wide;
        *b = tall;
    } else {
        return;
    }
    w->nb = 0;
    w->count = 1;
    w->adds = false;
}

static void one_of_batch(const product *w, int64_t i, double beta) {
    rshn_matrix m[3];
    memcpy(m, w->m, sizeof m);
    for (int d = w->nb - 1; d >= 0; i /= w->size[d], d--)
        for (int k = A; k <= C; k++)
            m[k].data = (char *)m[k].data + i % w->size[d] * w->stride[k][d] * (int64_t)w->item;
    rshn_gemm_one(w->dtype, w->alpha, &m[A], &m[B], beta, &m[C]);
}

static void batch_range(void *ctx, int64_t lo, int64_t hi) {
    const product *w = ctx;
    for (int64_t i = lo; i < hi; i++) one_of_batch(w, i, w->adds ? 1 : w->beta);
}

static void run_batch(product *w) {
    if (w->count < rshn_threads() || w->adds) {
        batch_range(w, 0, w->count);
        return;
    }
    bool began = rshn_blas_serial_begin();
    int64_t flops = w->m[C].rows * w->m[C].columns * w->m[A].columns + 1;
    rshn_spread(w->count, flops > 65536 ? 1 : 65536 / flops + 1, batch_range, w);
    rshn_blas_serial_end(began);
}

static bool too_large(const rshn_matrix *m) {
    return m->rows > INT_MAX || m->columns > INT_MAX || m->row_stride > INT_MAX || m->column_stride > INT_MAX;
}

static rsh_status set_product(product *w, const rsh_tensor *a, const rsh_tensor *b, const rsh_tensor *c) {
    const rsh_tensor *t[3] = {a, b, c};
    w->nb = 0;
    for (int k = A; k <= C; k++)
        if (rsh_tensor_ndim(t[k]) - 2 > w->nb) w->nb = rsh_tensor_ndim(t[k]) - 2;
    for (int d = 0; d < w->nb; d++) w->size[d] = 1;
    w->count = 1;
    for (int k = A; k <= C; k++) {
        w->m[k] = last_matrix(t[k]);
        set_leading(w, k, t[k]);
    }
    for (int d = 0; d < w->nb; d++) w->count *= w->size[d];
    for (int d = 0; d < w->nb; d++) w->adds = w->adds || (w->size[d] != 1 && !w->stride[C][d]);
    fold_batch(w);
    for (int k = A; k <= C; k++)
        if (too_large(&w->m[k]))
            return rshn_fail(RSH_EUNSUP, "matrix product: BLAS supports at most %d rows or columns", INT_MAX);
    return RSH_OK;
}

/* Sets *out to t, or to a dense copy that is also stored in *copy. */
static rsh_status blas_readable(const rsh_tensor *t, rsh_tensor **copy, const rsh_tensor **out) {
    rshn_matrix m = last_matrix(t);
    *out = t;
    if (rshn_matrix_fits(&m)) return RSH_OK;
    NN_TRY(rsh_math_convert(t, rsh_tensor_dtype(t), copy));
    *out = *copy;
    return RSH_OK;
}

rsh_status rshn_gemm(double alpha, const rsh_tensor *a, const rsh_tensor *b, double beta, const rsh_tensor *c) {
    rsh_tensor *copies[2] = {NULL, NULL};
    rsh_status st;
    product w = {.dtype = rsh_tensor_dtype(c), .alpha = alpha, .beta = beta};
    w.item = rsh_dtype_size(w.dtype);
    NN_GOTO(blas_readable(a, &copies[0], &a));
    NN_GOTO(blas_readable(b, &copies[1], &b));
    NN_GOTO(set_product(&w, a, b, c));
    if (w.adds && beta == 0) NN_GOTO(rsh_math_fill_number(c, 0));
    if (w.count == 1)
        rshn_gemm_one(w.dtype, w.alpha, &w.m[A], &w.m[B], w.beta, &w.m[C]);
    else
        run_batch(&w);
out:
    rsh_tensor_free(copies[0]);
    rsh_tensor_free(copies[1]);
    return st;
}
