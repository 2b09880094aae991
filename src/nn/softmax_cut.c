/* Softmax cut: softmax along a dim that is cut over ranks.
 *
 * Forward reduces the maximum and the sum of exponentials of each row, backward one sum; elements are not moved. */
#include "nn/cut_line.h"

#include <math.h>
#include <reshard/math.h>

static int only_dim(const rshn_line *l) {
    int d = 0;
    while (!(l->dims >> d & 1)) d++;
    return d;
}

static void set_element(const rsh_tensor *t, int64_t i, double x) {
    if (rsh_tensor_dtype(t) == RSH_F32)
        ((float *)rsh_tensor_data(t))[i] = (float)x;
    else
        ((double *)rsh_tensor_data(t))[i] = x;
}

rsh_status rshn_row_max(const rsh_tensor *x, int dim, rsh_tensor **out) {
    rsh_tensor *rows = NULL, *most = NULL;
    rsh_status st;
    NN_GOTO(rshn_rows(x, dim, &rows));
    rshn_sizes sizes = rshn_sizes_of(rows);
    int64_t n = sizes.at[sizes.n - 1], at;
    sizes.at[sizes.n - 1] = 1;
    NN_GOTO(rshn_empty(rsh_tensor_dtype(x), &sizes, &most));
    const rshn_kernels *k = rshn_kernels_of(rsh_tensor_dtype(x));
    size_t row = (size_t)n * rsh_dtype_size(rsh_tensor_dtype(x));
    for (int64_t i = 0; i < rsh_tensor_count(most); i++)
        set_element(most, i,
                    n ? k->row_max((const char *)rsh_tensor_data(rows) + (size_t)i * row, 1, n, &at) : -INFINITY);
    st = rsh_tensor_transpose(most, dim, -1, out);
out:
    rsh_tensor_free(rows);
    rsh_tensor_free(most);
    return st;
}

/* Applies a kernel to a and b; b broadcasts. */
static rsh_status map_pair(rshn_map2_kind kind, const rsh_tensor *a, const rsh_tensor *b, rsh_tensor **out) {
    rshn_sizes to = rshn_sizes_of(a);
    return rshn_map2_new(kind, NULL, a, b, &to, out);
}

rsh_status rshn_softmax_cut(const rshn_line *l, const rsh_tensor *x, bool log, rsh_tensor **y) {
    rsh_tensor *most = NULL, *low = NULL, *powers = NULL, *own = NULL, *sum = NULL, *shift = NULL;
    rsh_status st = rshn_row_max(x, only_dim(l), &own);
    NN_TRY(rshn_line_combine(l, st, RSH_OP_MAX, own, &most));
    own = NULL;
    st = map_pair(RSHN_SUB, x, most, &low);
    rsh_tensor_free(most);
    if (!st) st = rshn_map1_new(RSHN_EXP, NULL, low, &powers);
    if (!st) st = rshn_sum(powers, l->dims, true, 1, &own);
    NN_GOTO(rshn_line_combine(l, st, RSH_OP_SUM, own, &sum));
    if (log) {
        NN_GOTO(rshn_map1_new(RSHN_LOG, NULL, sum, &shift));
        NN_GOTO(map_pair(RSHN_SUB, low, shift, y));
    } else {
        NN_GOTO(map_pair(RSHN_DIV, powers, sum, y));
    }
out:
    rsh_tensor_free(low);
    rsh_tensor_free(powers);
    rsh_tensor_free(sum);
    rsh_tensor_free(shift);
    return st;
}

rsh_status rshn_softmax_cut_back(const rshn_line *l, const rsh_tensor *y, const rsh_tensor *g, bool log,
                                 rsh_tensor **gx) {
    rsh_tensor *product = NULL, *own = NULL, *sum = NULL, *middle = NULL, *powers = NULL;
    rsh_status st = log ? RSH_OK : map_pair(RSHN_MUL, g, y, &product);
    if (!st) st = rshn_sum(log ? g : product, l->dims, true, 1, &own);
    NN_GOTO(rshn_line_combine(l, st, RSH_OP_SUM, own, &sum));
    if (log) { /* log-softmax: g - e^y * sum */
        NN_GOTO(rshn_map1_new(RSHN_EXP, NULL, y, &powers));
        NN_GOTO(map_pair(RSHN_MUL, powers, sum, &middle));
        NN_GOTO(map_pair(RSHN_SUB, g, middle, gx));
    } else { /* softmax: y * (g - sum) */
        NN_GOTO(map_pair(RSHN_SUB, g, sum, &middle));
        NN_GOTO(map_pair(RSHN_MUL, middle, y, gx));
    }
out:
    rsh_tensor_free(product);
    rsh_tensor_free(sum);
    rsh_tensor_free(middle);
    rsh_tensor_free(powers);
    return st;
}
