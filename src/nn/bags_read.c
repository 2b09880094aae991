/* Bags: reads and checks lists of indices. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "nn/bag.h"
#include "nn/impl.h"

/* Copies the elements of a plain i64 value to new, dense memory. */
static rsh_status read_list(const char *layer, const char *what, const rsh_value *v, int64_t extra, int64_t **out) {
    if (!v || !rsh_value_tensor(v) || rsh_value_sharded(v))
        return rshn_fail(RSH_EVALUE, "%s: %s must be a plain tensor, got %s", layer, what,
                         v ? "a distributed value" : "NULL");
    if (rsh_value_dtype(v) != RSH_I64)
        return rshn_fail(RSH_ETYPE, "%s: %s must be i64, got %s", layer, what, rsh_dtype_name(rsh_value_dtype(v)));
    rsh_tensor *dense = NULL;
    NN_TRY(rshn_dense(rsh_value_tensor(v), &dense));
    int64_t n = rsh_tensor_count(dense);
    int64_t *list = rshn_malloc((size_t)(n + extra + 1) * sizeof *list);
    if (list && n) memcpy(list, rsh_tensor_data(dense), (size_t)n * sizeof *list);
    rsh_tensor_free(dense);
    *out = list;
    return list ? RSH_OK : rshn_fail(RSH_ENOMEM, "%s: no memory for %" PRId64 " indices", layer, n);
}

static rsh_status check_rows(const char *layer, const rshn_bags *b, int64_t rows) {
    for (int64_t i = 0; i < b->n; i++)
        if (b->index[i] < 0 || b->index[i] >= rows)
            return rshn_fail(RSH_EINDEX, "%s: index %" PRId64 " is %" PRId64 ", but the table has %" PRId64 " rows",
                             layer, i, b->index[i], rows);
    return RSH_OK;
}

static rsh_status check_starts(const char *layer, const rshn_bags *b) {
    if (b->nbags && b->start[0])
        return rshn_fail(RSH_EVALUE, "%s: the first offset must be 0, got %" PRId64, layer, b->start[0]);
    for (int64_t i = 0; i < b->nbags; i++)
        if (b->start[i] > b->start[i + 1])
            return rshn_fail(RSH_EVALUE, "%s: offset %" PRId64 " is %" PRId64 ", but the next one is %" PRId64, layer,
                             i, b->start[i], b->start[i + 1]);
    return RSH_OK;
}

/* Computes the starts of bags of equal size. */
static rsh_status even_starts(const char *layer, int64_t nbags, int64_t each, rshn_bags *b) {
    b->nbags = nbags;
    b->start = rshn_malloc((size_t)(nbags + 1) * sizeof *b->start);
    if (!b->start) return rshn_fail(RSH_ENOMEM, "%s: no memory for %" PRId64 " bags", layer, nbags);
    for (int64_t i = 0; i <= nbags; i++) b->start[i] = i * each;
    return RSH_OK;
}

static rsh_status read_starts(const char *layer, const rsh_value *input, const rsh_value *offsets, bool include_last,
                              rshn_bags *b) {
    const int64_t *sizes = rsh_value_shape(input);
    if (rsh_value_ndim(input) == 2 && !offsets) return even_starts(layer, sizes[0], sizes[1], b);
    if (rsh_value_ndim(input) != 1 || !offsets || rsh_value_ndim(offsets) != 1)
        return rshn_fail(RSH_EVALUE, "%s: input must be 2-D, or 1-D with 1-D offsets, got a %d-D input %s", layer,
                         rsh_value_ndim(input), offsets ? "with offsets" : "without offsets");
    NN_TRY(read_list(layer, "offsets", offsets, 1, &b->start));
    b->nbags = rsh_value_shape(offsets)[0] - (include_last ? 1 : 0);
    if (b->nbags < 0)
        return rshn_fail(RSH_EVALUE, "%s: offsets must not be empty if include_last_offset is set", layer);
    if (include_last && b->start[b->nbags] != b->n)
        return rshn_fail(RSH_EVALUE,
                         "%s: the last offset must be the number of indices, got %" PRId64 " for %" PRId64 " indices",
                         layer, b->start[b->nbags], b->n);
    b->start[b->nbags] = b->n;
    return check_starts(layer, b);
}

rsh_status rshn_bags_read(const char *layer, const rsh_value *input, const rsh_value *offsets, bool include_last,
                          int64_t rows, rshn_bags *out) {
    rshn_bags b = {0};
    NN_TRY(read_list(layer, "input", input, 0, &b.index));
    b.n = rsh_tensor_count(rsh_value_tensor(input));
    rsh_status st = read_starts(layer, input, offsets, include_last, &b);
    if (!st) st = check_rows(layer, &b, rows);
    if (st) rshn_bags_free(&b);
    else *out = b;
    return st;
}

rsh_status rshn_bags_single(const char *layer, const rsh_value *input, int64_t rows, rshn_bags *out) {
    rshn_bags b = {0};
    NN_TRY(read_list(layer, "input", input, 0, &b.index));
    b.n = rsh_tensor_count(rsh_value_tensor(input));
    rsh_status st = even_starts(layer, b.n, 1, &b);
    if (!st) st = check_rows(layer, &b, rows);
    if (st) rshn_bags_free(&b);
    else *out = b;
    return st;
}

/* ---- rows whose norm is too large ---- */

static double element(const rsh_tensor *t, int64_t row, int64_t column) {
    int64_t at = row * rsh_tensor_strides(t)[0] + column * rsh_tensor_strides(t)[1];
    const void *data = rsh_tensor_data(t);
    return rsh_tensor_dtype(t) == RSH_F32 ? ((const float *)data)[at] : ((const double *)data)[at];
}

static void scale_row(const rsh_tensor *t, int64_t row, double by) {
    void *data = rsh_tensor_data(t);
    for (int64_t c = 0; c < rsh_tensor_shape(t)[1]; c++) {
        int64_t at = row * rsh_tensor_strides(t)[0] + c * rsh_tensor_strides(t)[1];
        if (rsh_tensor_dtype(t) == RSH_F32) ((float *)data)[at] *= (float)by;
        else ((double *)data)[at] *= by;
    }
}

/* Returns the sum of |x|^p of a row, or its largest |x| if p is infinite. */
static double row_power(const rsh_tensor *t, int64_t row, double p) {
    double sum = 0;
    for (int64_t c = 0; c < rsh_tensor_shape(t)[1]; c++) {
        double x = fabs(element(t, row, c));
        sum = isinf(p) ? fmax(sum, x) : sum + pow(x, p);
    }
    return sum;
}

/* Lists the distinct rows that are looked up, ascending; returns -1 if memory runs out. */
static int64_t distinct_rows(const rshn_bags *b, const rsh_tensor *t, int64_t first, int64_t *rows) {
    int64_t n = 0, limit = rsh_tensor_shape(t)[0];
    char *seen = rshn_calloc((size_t)limit + 1, 1);
    for (int64_t i = 0; seen && i < b->n; i++)
        if (b->index[i] >= first && b->index[i] < first + limit) seen[b->index[i] - first] = 1;
    for (int64_t row = 0; seen && row < limit; row++)
        if (seen[row]) rows[n++] = row;
    if (!seen) n = -1;
    rshn_free(seen);
    return n;
}

static void shorten_rows(const rsh_tensor *t, int64_t n, const int64_t *rows, const double *power, double max_norm,
                         double p) {
    for (int64_t i = 0; i < n; i++) {
        double norm = isinf(p) ? power[i] : pow(power[i], 1 / p);
        if (norm > max_norm) scale_row(t, rows[i], max_norm / (norm + 1e-7));
    }
    if (n) rsh_tensor_bump_version(t);
}

rsh_status rshn_shorten(const rshn_bags *b, const rsh_value *table, int64_t first, double max_norm, double p,
                        rsh_comm *comm) {
    const rsh_tensor *t = rsh_value_part(table, 0);
    int64_t limit = rsh_tensor_shape(t)[0];
    int64_t *rows = rshn_malloc((size_t)(limit + 1) * sizeof *rows);
    double *power = rshn_malloc((size_t)(limit + 1) * sizeof *power),
           *all = rshn_malloc((size_t)(limit + 1) * sizeof *all);
    int64_t n = rows && power && all ? distinct_rows(b, t, first, rows) : -1;
    rsh_status st = n < 0 ? rshn_fail(RSH_ENOMEM, "out of memory: cannot limit the norms of table rows") : RSH_OK;
    for (int64_t i = 0; i < n; i++) power[i] = row_power(t, rows[i], p);
    if (comm) st = rsh_comm_agree(comm, st);
    if (comm && !st && n) st = rsh_comm_allreduce(comm, power, all, n, RSH_F64, isinf(p) ? RSH_OP_MAX : RSH_OP_SUM);
    if (!st) shorten_rows(t, n, rows, comm ? all : power, max_norm, p);
    rshn_free(rows);
    rshn_free(power);
    rshn_free(all);
    return st;
}
