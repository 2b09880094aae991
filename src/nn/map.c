/* Map: applies elementwise functions to tensors with any strides, which broadcast to the result.
 *
 * Dims that have matching strides in all operands are merged, so most calls process a single row.  The elements of the
 * result are divided into ranges for the threads of the pool. */
#include "nn/impl.h"

#include <string.h>

enum { OPERANDS = 3, GRAIN = 16384 }; /* GRAIN: number of elements from which on another thread pays off */

typedef struct walk {
    int n, nd;                              /* number of operands; number of dims after merging, at least 1 */
    int64_t size[RSH_MAX_NDIM], count;      /* shape of the result, and its number of elements */
    int64_t stride[OPERANDS][RSH_MAX_NDIM]; /* strides of the operands, in elements */
    const char *data[OPERANDS];
    size_t item[OPERANDS], out_item;
    char *out;
} walk;

/* The function and operands of a call. */
typedef struct mapping {
    walk w;
    double p[2];
    rshn_map1 *map1;
    rshn_map2 *map2;
    rshn_map3 *map3;
    void (*where)(const uint8_t *, int64_t, const void *, int64_t, const void *, int64_t, void *, int64_t);
} mapping;

static bool mergeable(const walk *w, int64_t (*stride)[RSH_MAX_NDIM], int last, int d, int64_t size) {
    for (int k = 0; k < w->n; k++)
        if (w->stride[k][last] != stride[k][d] * size) return false;
    return true;
}

static void merge_dims(walk *w, int nd, const int64_t *size, int64_t (*stride)[RSH_MAX_NDIM]) {
    w->nd = 0;
    for (int d = 0; d < nd; d++) {
        if (size[d] == 1) continue;
        bool joins = w->nd && mergeable(w, stride, w->nd - 1, d, size[d]);
        int at = joins ? w->nd - 1 : w->nd++;
        w->size[at] = joins ? w->size[at] * size[d] : size[d];
        for (int k = 0; k < w->n; k++) w->stride[k][at] = stride[k][d];
    }
    if (!w->nd) {
        w->nd = 1;
        w->size[0] = 1;
        for (int k = 0; k < w->n; k++) w->stride[k][0] = 1;
    }
}

static void walk_init(walk *w, int n, const rsh_tensor *const *in, const rsh_tensor *out) {
    int64_t stride[OPERANDS][RSH_MAX_NDIM];
    int nd = rsh_tensor_ndim(out);
    w->n = n;
    w->count = rsh_tensor_count(out);
    w->out = rsh_tensor_data(out);
    w->out_item = rsh_dtype_size(rsh_tensor_dtype(out));
    for (int k = 0; k < n; k++) {
        int more = nd - rsh_tensor_ndim(in[k]);
        const int64_t *shape = rsh_tensor_shape(in[k]), *strides = rsh_tensor_strides(in[k]);
        for (int d = 0; d < nd; d++) stride[k][d] = d < more || shape[d - more] == 1 ? 0 : strides[d - more];
        w->data[k] = rsh_tensor_data(in[k]);
        w->item[k] = rsh_dtype_size(rsh_tensor_dtype(in[k]));
    }
    merge_dims(w, nd, rsh_tensor_shape(out), stride);
}

static void map_row(const mapping *m, const char *const *x, char *y, int64_t n) {
    const walk *w = &m->w;
    int d = w->nd - 1;
    if (m->map1)
        m->map1(m->p, x[0], w->stride[0][d], y, n);
    else if (m->map2)
        m->map2(m->p, x[0], w->stride[0][d], x[1], w->stride[1][d], y, n);
    else if (m->map3)
        m->map3(m->p, x[0], w->stride[0][d], x[1], w->stride[1][d], x[2], w->stride[2][d], y, n);
    else
        m->where((const uint8_t *)x[0], w->stride[0][d], x[1], w->stride[1][d], x[2], w->stride[2][d], y, n);
}

/* A position in the result: the index of its row, and the addresses of the operands. */
typedef struct cursor {
    int64_t index[RSH_MAX_NDIM];
    const char *x[OPERANDS];
} cursor;

static void advance_dim(const walk *w, cursor *c, int d, int64_t steps) {
    for (int k = 0; k < w->n; k++) c->x[k] += steps * w->stride[k][d] * (int64_t)w->item[k];
}

static void seek_element(const walk *w, cursor *c, int64_t at) {
    for (int k = 0; k < w->n; k++) c->x[k] = w->data[k];
    for (int d = w->nd - 1; d >= 0; d--) {
        c->index[d] = d ? at % w->size[d] : at;
        at = d ? at / w->size[d] : 0;
        advance_dim(w, c, d, c->index[d]);
    }
}

static void next_row(const walk *w, cursor *c) {
    int d = w->nd - 1;
    advance_dim(w, c, d, -c->index[d]);
    c->index[d] = 0;
    while (--d >= 0) {
        advance_dim(w, c, d, 1);
        if (++c->index[d] < w->size[d]) return;
        advance_dim(w, c, d, -w->size[d]);
        c->index[d] = 0;
    }
}

static void map_range(void *ctx, int64_t lo, int64_t hi) {
    const mapping *m = ctx;
    const walk *w = &m->w;
    cursor c;
    for (seek_element(w, &c, lo); lo < hi; next_row(w, &c)) {
        int64_t n = w->size[w->nd - 1] - c.index[w->nd - 1];
        if (n > hi - lo) n = hi - lo;
        map_row(m, c.x, w->out + lo * (int64_t)w->out_item, n);
        lo += n;
    }
}

static void map_all(mapping *m, const double *p) {
    m->p[0] = p ? p[0] : 1;
    m->p[1] = p ? p[1] : 0;
    rshn_spread(m->w.count, GRAIN, map_range, m);
}

void rshn_map1_into(rshn_map1_kind kind, const double *p, const rsh_tensor *x, const rsh_tensor *y) {
    mapping m;
    memset(&m.map1, 0, sizeof m - offsetof(mapping, map1));
    walk_init(&m.w, 1, &x, y);
    m.map1 = rshn_kernels_of(rsh_tensor_dtype(x))->map1[kind];
    map_all(&m, p);
}

rsh_status rshn_map1_new(rshn_map1_kind kind, const double *p, const rsh_tensor *x, rsh_tensor **y) {
    NN_TRY(rsh_tensor_empty(rsh_tensor_dtype(x), rsh_tensor_ndim(x), rsh_tensor_shape(x), y));
    rshn_map1_into(kind, p, x, *y);
    return RSH_OK;
}

rsh_status rshn_map2_new(rshn_map2_kind kind, const double *p, const rsh_tensor *a, const rsh_tensor *b,
                         const rshn_sizes *to, rsh_tensor **y) {
    mapping m;
    memset(&m.map1, 0, sizeof m - offsetof(mapping, map1));
    NN_TRY(rshn_empty(rsh_tensor_dtype(a), to, y));
    walk_init(&m.w, 2, (const rsh_tensor *[]){a, b}, *y);
    m.map2 = rshn_kernels_of(rsh_tensor_dtype(a))->map2[kind];
    map_all(&m, p);
    return RSH_OK;
}

rsh_status rshn_map3_new(rshn_map3_kind kind, const double *p, const rsh_tensor *a, const rsh_tensor *b,
                         const rsh_tensor *c, const rshn_sizes *to, rsh_tensor **y) {
    mapping m;
    memset(&m.map1, 0, sizeof m - offsetof(mapping, map1));
    NN_TRY(rshn_empty(rsh_tensor_dtype(a), to, y));
    walk_init(&m.w, 3, (const rsh_tensor *[]){a, b, c}, *y);
    m.map3 = rshn_kernels_of(rsh_tensor_dtype(a))->map3[kind];
    map_all(&m, p);
    return RSH_OK;
}

rsh_status rshn_where_new(const rsh_tensor *mask, const rsh_tensor *a, const rsh_tensor *b, const rshn_sizes *to,
                          rsh_tensor **y) {
    mapping m;
    memset(&m.map1, 0, sizeof m - offsetof(mapping, map1));
    NN_TRY(rshn_empty(rsh_tensor_dtype(a), to, y));
    walk_init(&m.w, 3, (const rsh_tensor *[]){mask, a, b}, *y);
    m.where = rshn_kernels_of(rsh_tensor_dtype(a))->where;
    map_all(&m, NULL);
    return RSH_OK;
}

rsh_status rshn_number(rsh_dtype dtype, double value, rsh_tensor **out) {
    NN_TRY(rsh_tensor_empty(dtype, 0, NULL, out));
    if (dtype == RSH_F32)
        *(float *)rsh_tensor_data(*out) = (float)value;
    else
        *(double *)rsh_tensor_data(*out) = value;
    return RSH_OK;
}

double rshn_item(const rsh_tensor *t) {
    return rsh_tensor_dtype(t) == RSH_F32 ? (double)*(const float *)rsh_tensor_data(t)
                                          : *(const double *)rsh_tensor_data(t);
}
