/* Operand: a tensor as an operand of the copy room, and its rows. */
#include "math/impl.h"

#include <string.h>

void rshi_byte_strides(const rsh_tensor *t, int64_t *out) {
    for (int d = 0; d < rsh_tensor_ndim(t); d++) out[d] = rsh_tensor_strides(t)[d] * (int64_t)rshi_item(t);
}

bool rshi_share_memory(const rsh_tensor *a, const rsh_tensor *b) {
    rshi_span x = rshi_tensor_span(a), y = rshi_tensor_span(b);
    return x.start < y.end && y.start < x.end;
}

bool rshi_same_shape(const rsh_tensor *a, const rsh_tensor *b) {
    int n = rsh_tensor_ndim(a);
    return n == rsh_tensor_ndim(b) &&
           (!n || !memcmp(rsh_tensor_shape(a), rsh_tensor_shape(b), (size_t)n * sizeof(int64_t)));
}

rsh_status rshi_require_shape(const char *name, const rsh_tensor *a, const rsh_tensor *b) {
    RSH_REQUIRE(rsh_tensor_ndim(a) == rsh_tensor_ndim(b), RSH_EVALUE,
                "%s: numbers of dims must be equal, got %d and %d", name,
                rsh_tensor_ndim(a), rsh_tensor_ndim(b));
    for (int d = 0; d < rsh_tensor_ndim(a); d++)
        RSH_REQUIRE(rsh_tensor_shape(a)[d] == rsh_tensor_shape(b)[d], RSH_EVALUE,
                    "%s: shapes must be equal, dim %d has sizes %lld and %lld", name, d,
                    (long long)rsh_tensor_shape(a)[d], (long long)rsh_tensor_shape(b)[d]);
    return RSH_OK;
}

void rshi_run_move(rshi_move *m, const rsh_tensor *to, const char *const *src) {
    if (!rsh_tensor_count(to)) return;
    m->nd = rsh_tensor_ndim(to);
    m->to = rsh_tensor_dtype(to);
    memcpy(m->n, rsh_tensor_shape(to), (size_t)m->nd * sizeof *m->n);
    rshi_byte_strides(to, m->ds);
    rshi_move_prepare(m, (size_t)rsh_tensor_count(to) * rshi_item(to));
    rshi_move_run(m, 0, 0, m->nd ? m->n[0] : 1, rsh_tensor_data(to), src);
    rshi_copy_fence();
}

rshi_rows rshi_rows_of(const rsh_tensor *t, const rsh_tensor *other) {
    int nd = rsh_tensor_ndim(t);
    int64_t count = rsh_tensor_count(t);
    bool dense = rsh_tensor_dense(t) && (!other || rsh_tensor_dense(other));
    if (!nd || !count || dense) return (rshi_rows){.n = count, .t = t};
    return (rshi_rows){.nd = nd - 1, .n = rsh_tensor_shape(t)[nd - 1], .t = t};
}

bool rshi_rows_next(rshi_rows *r) {
    for (int d = r->nd - 1; d >= 0; d--) {
        if (++r->index[d] < rsh_tensor_shape(r->t)[d]) return true;
        r->index[d] = 0;
    }
    return false;
}

char *rshi_row_in(const rshi_rows *r, const rsh_tensor *t, int64_t *step) {
    int64_t at = 0, item = (int64_t)rshi_item(t);
    for (int d = 0; d < r->nd; d++) at += r->index[d] * rsh_tensor_strides(t)[d];
    *step = r->nd + 1 == rsh_tensor_ndim(t) ? rsh_tensor_strides(t)[r->nd] * item : item;
    if (rsh_tensor_dense(t)) *step = item;
    return (char *)rsh_tensor_data(t) + at * item;
}
