/* Sum over dims: sums over any dims of a tensor, one run of adjacent dims at a time.
 *
 * The order of the additions depends only on sizes, not on threads. */
#include "nn/impl.h"

enum { GRAIN = 16384, LEAST_COLUMNS = 64, CHUNK = 65536 };

/* One run of dims that is summed, and the remaining dims, which are merged if their strides allow it. */
typedef struct summing {
    const rshn_kernels *k;
    rsh_dtype dtype;
    size_t item;
    const char *x;
    char *y;
    int64_t n, stride; /* number of elements and stride of the run */
    int nk;
    int64_t size[RSH_MAX_NDIM], strides[RSH_MAX_NDIM]; /* sizes and strides of the remaining dims */
    int64_t block, blocks;                             /* block: columns per task; blocks: tasks per row of columns */
    double *parts;                                     /* partial sums, if the result is one number */
} summing;

static const char *column_at(const summing *s, int64_t i, int last) {
    int64_t offset = 0;
    for (int d = last; d >= 0; i /= s->size[d], d--) offset += i % s->size[d] * s->strides[d];
    return s->x + offset * (int64_t)s->item;
}

static void set_sum(const summing *s, int64_t i, double value) {
    if (s->dtype == RSH_F32)
        ((float *)s->y)[i] = (float)value;
    else
        ((double *)s->y)[i] = value;
}

static void sum_rows(void *ctx, int64_t lo, int64_t hi) {
    const summing *s = ctx;
    for (int64_t i = lo; i < hi; i++) set_sum(s, i, s->k->row_sum(column_at(s, i, s->nk - 1), s->stride, s->n));
}

static void sum_columns(void *ctx, int64_t lo, int64_t hi) {
    const summing *s = ctx;
    int64_t width = s->size[s->nk - 1], item = (int64_t)s->item;
    for (int64_t i = lo; i < hi; i++) {
        int64_t row = i / s->blocks, first = i % s->blocks * s->block, n = width - first;
        const char *x = column_at(s, row, s->nk - 2) + first * item;
        s->k->column_sum(x, s->stride, s->n, s->y + (row * width + first) * item, n < s->block ? n : s->block);
    }
}

static void sum_chunks(void *ctx, int64_t lo, int64_t hi) {
    const summing *s = ctx;
    for (int64_t i = lo; i < hi; i++) {
        int64_t n = s->n - i * CHUNK;
        s->parts[i] = s->k->row_sum(s->x + i * CHUNK * s->stride * (int64_t)s->item, s->stride, n < CHUNK ? n : CHUNK);
    }
}

/* Computes a single sum, in chunks for the threads. */
static void sum_one(summing *s) {
    double parts[256], total = 0;
    int64_t chunks = (s->n + CHUNK - 1) / CHUNK;
    s->parts = parts;
    for (int64_t first = 0; first < chunks; first += 256) {
        summing part = *s;
        int64_t n = chunks - first < 256 ? chunks - first : 256;
        part.x += first * CHUNK * s->stride * (int64_t)s->item;
        part.n -= first * CHUNK;
        rshn_spread(n, 1, sum_chunks, &part);
        for (int64_t i = 0; i < n; i++) total += parts[i];
    }
    set_sum(s, 0, total);
}

static void sum_run(summing *s, int64_t count) {
    int last = s->nk - 1;
    if (!count) return;
    if (count == 1) {
        sum_one(s);
    } else if (s->stride != 1 && last >= 0 && s->strides[last] == 1) {
        int64_t width = s->size[last];
        s->block = width / 16 < LEAST_COLUMNS ? LEAST_COLUMNS : width / 16 / LEAST_COLUMNS * LEAST_COLUMNS;
        s->blocks = (width + s->block - 1) / s->block;
        rshn_spread(count / width * s->blocks, GRAIN / (s->n * s->block + 1) + 1, sum_columns, s);
    } else {
        rshn_spread(count, GRAIN / (s->n + 1) + 1, sum_rows, s);
    }
}

/* Appends a remaining dim. */
static void keep_dim(summing *s, int64_t size, int64_t stride) {
    int last = s->nk - 1;
    if (size == 1) return;
    if (last >= 0 && s->strides[last] == stride * size) {
        s->size[last] *= size;
        s->strides[last] = stride;
        return;
    }
    s->size[s->nk] = size;
    s->strides[s->nk++] = stride;
}

/* Returns the longest run of dims, ending at the last of `dims`, that can be summed at once. */
static unsigned last_run(const rsh_tensor *x, unsigned dims) {
    const int64_t *size = rsh_tensor_shape(x), *stride = rsh_tensor_strides(x);
    int last = rsh_tensor_ndim(x) - 1;
    while (!(dims >> last & 1)) last--;
    unsigned run = 1u << last;
    for (int d = last - 1; d >= 0 && (dims >> d & 1) && stride[d] == stride[d + 1] * size[d + 1]; d--) run |= 1u << d;
    return run;
}

/* Sums over the dims of one run, which keep size 1. */
static rsh_status sum_once(const rsh_tensor *x, unsigned run, rsh_tensor **out) {
    rshn_sizes to = rshn_sizes_of(x);
    const int64_t *stride = rsh_tensor_strides(x);
    summing s = {
        .k = rshn_kernels_of(rsh_tensor_dtype(x)), .dtype = rsh_tensor_dtype(x), .x = rsh_tensor_data(x), .n = 1};
    s.item = rsh_dtype_size(s.dtype);
    for (int d = 0; d < to.n; d++) {
        if (!(run >> d & 1)) {
            keep_dim(&s, to.at[d], stride[d]);
            continue;
        }
        s.n *= to.at[d];
        s.stride = stride[d];
        to.at[d] = 1;
    }
    NN_TRY(rshn_empty(s.dtype, &to, out));
    s.y = rsh_tensor_data(*out);
    sum_run(&s, rsh_tensor_count(*out));
    return RSH_OK;
}

/* Creates a view without the dims in `dims`, whose sizes are 1. */
static rsh_status drop_dims(const rsh_tensor *t, unsigned dims, rsh_tensor **out) {
    int64_t size[RSH_MAX_NDIM], stride[RSH_MAX_NDIM];
    int n = 0;
    for (int d = 0; d < rsh_tensor_ndim(t); d++) {
        if (dims >> d & 1) continue;
        size[n] = rsh_tensor_shape(t)[d];
        stride[n++] = rsh_tensor_strides(t)[d];
    }
    return rsh_tensor_view(t, 0, n, size, stride, out);
}

rsh_status rshn_sum(const rsh_tensor *x, unsigned dims, bool keep, double scale, rsh_tensor **out) {
    rsh_tensor *now = NULL;
    double p[2] = {scale, 0};
    for (unsigned left = dims; left;) {
        const rsh_tensor *from = now ? now : x;
        unsigned run = last_run(from, left);
        rsh_tensor *next = NULL;
        rsh_status st = sum_once(from, run, &next);
        rsh_tensor_free(now);
        if (st) return st;
        now = next;
        left &= ~run;
    }
    if (!now) NN_TRY(rshn_map1_new(RSHN_COPY, NULL, x, &now));
    if (scale != 1) rshn_map1_into(RSHN_SCALE, p, now, now);
    if (keep || !dims) {
        *out = now;
        return RSH_OK;
    }
    rsh_status st = drop_dims(now, dims, out);
    rsh_tensor_free(now);
    return st;
}

rsh_status rshn_sum_to(const rsh_tensor *g, const rshn_sizes *to, rsh_tensor **out) {
    int more = rsh_tensor_ndim(g) - to->n;
    unsigned sums = 0, drops = (1u << more) - 1;
    rsh_tensor *kept = NULL;
    for (int d = 0; d < rsh_tensor_ndim(g); d++)
        if ((d < more || to->at[d - more] == 1) && rsh_tensor_shape(g)[d] != 1) sums |= 1u << d;
    if (!sums) return drop_dims(g, drops, out);
    NN_TRY(rshn_sum(g, sums, true, 1, &kept));
    rsh_status st = drop_dims(kept, drops, out);
    rsh_tensor_free(kept);
    return st;
}
