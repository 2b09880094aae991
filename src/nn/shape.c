/* Shape: broadcasting of shapes, views with other shapes, and checks of operands that ops share. */
#include "nn/impl.h"

#include <reshard/math.h>

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

rsh_status rshn_fail(rsh_status status, const char *format, ...) {
    char sentence[512];
    va_list list;
    va_start(list, format);
    vsnprintf(sentence, sizeof sentence, format, list);
    va_end(list);
    return rsh_fail(status, sentence);
}

const char *rshn_sizes_text(int ndim, const int64_t *sizes) {
    static _Thread_local char room[4][RSH_MAX_NDIM * 22 + 3];
    static _Thread_local int next;
    char *text = room[next++ % 4];
    int used = sprintf(text, "[");
    for (int d = 0; d < ndim && d < RSH_MAX_NDIM; d++)
        used += sprintf(text + used, d ? ", %lld" : "%lld", (long long)sizes[d]);
    strcpy(text + used, "]");
    return text;
}

const char *rshn_shape_text(const rsh_tensor *t) { return rshn_sizes_text(rsh_tensor_ndim(t), rsh_tensor_shape(t)); }

rshn_sizes rshn_sizes_of(const rsh_tensor *t) {
    rshn_sizes s = {.n = rsh_tensor_ndim(t)};
    for (int d = 0; d < s.n; d++) s.at[d] = rsh_tensor_shape(t)[d];
    return s;
}

rsh_status rshn_empty(rsh_dtype dtype, const rshn_sizes *sizes, rsh_tensor **out) {
    return rsh_tensor_empty(dtype, sizes->n, sizes->at, out);
}

rsh_status rshn_empty_as(const rsh_tensor *t, const rshn_sizes *sizes, rsh_tensor **out) {
    int64_t strides[RSH_MAX_NDIM], step = 1;
    const int64_t *old = rsh_tensor_strides(t);
    rsh_tensor *flat = NULL;
    for (unsigned done = 0; done != (1u << sizes->n) - 1;) { /* visit dims from the innermost to the outermost */
        int next = -1;
        for (int d = sizes->n - 1; d >= 0; d--)
            if (!(done >> d & 1) && (next < 0 || old[d] < old[next])) next = d;
        strides[next] = step;
        step *= sizes->at[next];
        done |= 1u << next;
    }
    NN_TRY(rshn_empty(rsh_tensor_dtype(t), sizes, &flat));
    rsh_status st = rsh_tensor_view(flat, 0, sizes->n, sizes->at, step ? strides : NULL, out);
    rsh_tensor_free(flat);
    return st;
}

/* ---- broadcasting ---- */

/* Returns the size of dim d of n dims, with the last dims aligned. */
static int64_t aligned_size(const rshn_sizes *s, int d, int n) { return d < n - s->n ? 1 : s->at[d - (n - s->n)]; }

rsh_status rshn_broadcast(const char *op, const rshn_sizes *a, const rshn_sizes *b, rshn_sizes *out) {
    rshn_sizes to = {.n = a->n > b->n ? a->n : b->n};
    for (int d = 0; d < to.n; d++) {
        int64_t x = aligned_size(a, d, to.n), y = aligned_size(b, d, to.n);
        if (x != y && x != 1 && y != 1)
            return rshn_fail(RSH_EVALUE, "%s: shapes %s and %s do not broadcast", op, rshn_sizes_text(a->n, a->at),
                             rshn_sizes_text(b->n, b->at));
        to.at[d] = x == 1 ? y : x;
    }
    *out = to;
    return RSH_OK;
}

rsh_status rshn_expand(const rsh_tensor *t, const rshn_sizes *to, rsh_tensor **out) {
    int more = to->n - rsh_tensor_ndim(t);
    int64_t strides[RSH_MAX_NDIM] = {0};
    for (int d = more; d < to->n; d++)
        strides[d] = rsh_tensor_shape(t)[d - more] == 1 && to->at[d] != 1 ? 0 : rsh_tensor_strides(t)[d - more];
    return rsh_tensor_view(t, 0, to->n, to->at, strides, out);
}

/* ---- dims and views ---- */

rsh_status rshn_dim(const char *op, int dim, int ndim, int *out) {
    int n = ndim ? ndim : 1;
    if (dim < -n || dim >= n)
        return rshn_fail(RSH_EINDEX, "%s: dim %d is out of range, the value has %d dims", op, dim, ndim);
    *out = dim < 0 ? dim + n : dim;
    return RSH_OK;
}

rsh_status rshn_alias(const rsh_tensor *t, rsh_tensor **out) {
    return rsh_tensor_view(t, 0, rsh_tensor_ndim(t), rsh_tensor_shape(t), rsh_tensor_strides(t), out);
}

/* Creates a dense copy.  The core library copies transposes in blocks; rows of elements are copied by this thread's
 * pool. */
static rsh_status dense_copy(const rsh_tensor *t, rsh_tensor **out) {
    int last = rsh_tensor_ndim(t) - 1;
    rsh_dtype dtype = rsh_tensor_dtype(t);
    if (last >= 0 && rsh_tensor_strides(t)[last] == 1 && (dtype == RSH_F32 || dtype == RSH_F64))
        return rshn_map1_new(RSHN_COPY, NULL, t, out);
    return rsh_math_convert(t, dtype, out);
}

rsh_status rshn_dense(const rsh_tensor *t, rsh_tensor **out) {
    return rsh_tensor_dense(t) ? rshn_alias(t, out) : dense_copy(t, out);
}

rsh_status rshn_dense_indices(const char *op, const char *what, const rsh_tensor *t, rsh_tensor **out) {
    if (rsh_tensor_dtype(t) == RSH_I64) return rshn_dense(t, out);
    return rshn_fail(RSH_ETYPE, "%s: %s must be i64, got %s", op, what, rsh_dtype_name(rsh_tensor_dtype(t)));
}

/* Finds strides under which t has the sizes `to`.  Dims of both sides are grouped so that groups have equal counts, and
 * within a group t must be dense.  Returns false if that is impossible. */
static bool view_strides(const rsh_tensor *t, const rshn_sizes *to, int64_t *strides) {
    const int64_t *shape = rsh_tensor_shape(t), *pitch = rsh_tensor_strides(t);
    int d = rsh_tensor_ndim(t) - 1, e = to->n - 1;
    for (; e >= 0; e--) {
        while (d >= 0 && shape[d] == 1) d--;
        if (to->at[e] == 1) {
            strides[e] = 1;
            continue;
        }
        int64_t run = d >= 0 ? shape[d] : 1, step = d >= 0 ? pitch[d] : 1;
        for (; e >= 0; e--) { /* divide the group of t into sizes of `to`, or extend it by t's next dim */
            while (run % to->at[e] || run < to->at[e]) {
                if (--d < 0) return false;
                if (shape[d] != 1 && pitch[d] != step * run) return false;
                run *= shape[d];
            }
            strides[e] = step;
            step *= to->at[e];
            if ((run /= to->at[e]) == 1) break;
        }
        d--;
    }
    return true;
}

rsh_status rshn_reshape(const rsh_tensor *t, const rshn_sizes *to, rsh_tensor **out) {
    int64_t strides[RSH_MAX_NDIM];
    if (rsh_tensor_dense(t) || !rsh_tensor_count(t)) return rsh_tensor_view(t, 0, to->n, to->at, NULL, out);
    if (view_strides(t, to, strides)) return rsh_tensor_view(t, 0, to->n, to->at, strides, out);
    rsh_tensor *copy = NULL;
    NN_TRY(dense_copy(t, &copy));
    rsh_status st = rsh_tensor_view(copy, 0, to->n, to->at, NULL, out);
    rsh_tensor_free(copy);
    return st;
}

rsh_status rshn_window(const rsh_tensor *t, int dim, int64_t start, int64_t length, rsh_tensor **out) {
    rshn_sizes sizes = rshn_sizes_of(t);
    sizes.at[dim] = length;
    int64_t offset = length ? start * rsh_tensor_strides(t)[dim] : 0;
    return rsh_tensor_view(t, offset, sizes.n, sizes.at, rsh_tensor_strides(t), out);
}

rsh_status rshn_rows(const rsh_tensor *t, int dim, rsh_tensor **out) {
    rsh_tensor *turned = NULL;
    if (!rsh_tensor_ndim(t) || dim == rsh_tensor_ndim(t) - 1) return rshn_dense(t, out);
    NN_TRY(rsh_tensor_transpose(t, dim, -1, &turned));
    rsh_status st = rshn_dense(turned, out);
    rsh_tensor_free(turned);
    return st;
}

/* ---- checks ---- */

rsh_status rshn_needs_float(const char *op, const rsh_tensor *t) {
    rsh_dtype dtype = rsh_tensor_dtype(t);
    if (dtype == RSH_F32 || dtype == RSH_F64) return RSH_OK;
    return rshn_fail(RSH_ETYPE, "%s: dtype must be f32 or f64, got %s", op, rsh_dtype_name(dtype));
}

rsh_status rshn_needs_alike(const char *op, int n, const rsh_tensor *const *t) {
    const rsh_tensor *first = NULL;
    for (int i = 0; i < n; i++) {
        if (!t[i]) continue;
        NN_TRY(rshn_needs_float(op, t[i]));
        if (!first) first = t[i];
        if (rsh_tensor_dtype(t[i]) != rsh_tensor_dtype(first))
            return rshn_fail(RSH_ETYPE, "%s: dtypes must be equal, got %s and %s", op,
                             rsh_dtype_name(rsh_tensor_dtype(first)), rsh_dtype_name(rsh_tensor_dtype(t[i])));
    }
    return RSH_OK;
}
