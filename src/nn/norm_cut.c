/* Norm cut: layer norm and RMS norm over dims that are cut over ranks.
 *
 * Forward reduces the sum of each row, then the sum of squared differences from the mean; backward reduces two sums at
 * once.  Elements are not moved. */
#include "nn/cut_line.h"

#include <math.h>
#include <reshard/math.h>

static rsh_status map_pair(rshn_map2_kind kind, const rsh_tensor *a, const rsh_tensor *b, rsh_tensor **out) {
    rshn_sizes to = rshn_sizes_of(a);
    return rshn_map2_new(kind, NULL, a, b, &to, out);
}

/* Replaces *t by a function of itself and b; no-op if b is NULL. */
static rsh_status map_in_place(rshn_map2_kind kind, rsh_tensor **t, const rsh_tensor *b) {
    rsh_tensor *next = NULL;
    if (!b) return RSH_OK;
    NN_TRY(map_pair(kind, *t, b, &next));
    rsh_tensor_free(*t);
    *t = next;
    return RSH_OK;
}

static void reciprocal_root(const rsh_tensor *variance, double eps) {
    for (int64_t i = 0; i < rsh_tensor_count(variance); i++) {
        if (rsh_tensor_dtype(variance) == RSH_F32) {
            float *v = (float *)rsh_tensor_data(variance) + i;
            *v = (float)(1 / sqrt((double)*v + eps));
        } else {
            double *v = (double *)rsh_tensor_data(variance) + i;
            *v = 1 / sqrt(*v + eps);
        }
    }
}

/* ---- forward ---- */

static rsh_status find_mean(const rshn_line *l, const rshn_norm_cut *n, const rsh_tensor *x, rsh_tensor **mean) {
    rsh_tensor *own = NULL;
    rsh_status st = rshn_sum(x, l->dims, true, 1 / n->count, &own);
    return rshn_line_combine(l, st, RSH_OP_SUM, own, mean);
}

rsh_status rshn_norm_cut_forward(const rshn_line *l, const rshn_norm_cut *n, const rsh_tensor *const *in,
                                 rsh_tensor **y, rsh_tensor **mean, rsh_tensor **rstd) {
    rsh_tensor *low = NULL, *squares = NULL, *own = NULL;
    if (n->centred) NN_TRY(find_mean(l, n, in[0], mean));
    rsh_status st = n->centred ? map_pair(RSHN_SUB, in[0], *mean, &low) : rshn_alias(in[0], &low);
    if (!st) st = map_pair(RSHN_MUL, low, low, &squares);
    if (!st) st = rshn_sum(squares, l->dims, true, 1 / n->count, &own);
    NN_GOTO(rshn_line_combine(l, st, RSH_OP_SUM, own, rstd));
    reciprocal_root(*rstd, n->eps);
    NN_GOTO(map_pair(RSHN_MUL, low, *rstd, y));
    NN_GOTO(map_in_place(RSHN_MUL, y, in[1]));
    st = map_in_place(RSHN_ADD, y, in[2]);
out:
    rsh_tensor_free(low);
    rsh_tensor_free(squares);
    return st;
}

/* ---- backward: with h = (x - mean) * rstd and v = g * weight,
 *      gx = rstd * (v - mean of v - h * mean of v * h) ---- */

enum { X, WEIGHT, G, RSTD, MEAN };

static rsh_status normalized(const rsh_tensor *const *in, rsh_tensor **h) {
    NN_TRY(in[MEAN] ? map_pair(RSHN_SUB, in[X], in[MEAN], h) : rshn_alias(in[X], h));
    return map_in_place(RSHN_MUL, h, in[RSTD]);
}

/* Computes two sums over this rank's part of each row; the result has them one after the other along its first dim. */
static rsh_status own_sums(const rshn_line *l, double count, const rsh_tensor *v, const rsh_tensor *h,
                           rsh_tensor **out) {
    rsh_tensor *part[2] = {NULL, NULL}, *vh = NULL, *window = NULL;
    rshn_sizes sizes;
    rsh_status st;
    int first = 0;
    while (!(l->dims >> first & 1)) first++;
    NN_GOTO(map_pair(RSHN_MUL, v, h, &vh));
    NN_GOTO(rshn_sum(v, l->dims, true, 1 / count, &part[0]));
    NN_GOTO(rshn_sum(vh, l->dims, true, 1 / count, &part[1]));
    sizes = rshn_sizes_of(part[0]);
    sizes.at[first] = 2;
    NN_GOTO(rshn_empty(rsh_tensor_dtype(v), &sizes, out));
    for (int i = 0; i < 2; i++) {
        NN_GOTO(rshn_window(*out, first, i, 1, &window));
        NN_GOTO(rsh_math_copy(part[i], window));
        rsh_tensor_free(window);
        window = NULL;
    }
out:
    rsh_tensor_free(part[0]);
    rsh_tensor_free(part[1]);
    rsh_tensor_free(vh);
    rsh_tensor_free(window);
    if (st) rsh_tensor_free(*out);
    if (st) *out = NULL;
    return st;
}

/* Computes rstd * (v - sums[0] - h * sums[1]); a norm that is not centred omits the first sum. */
static rsh_status input_gradient(const rshn_line *l, bool centred, const rsh_tensor *v, const rsh_tensor *h,
                                 const rsh_tensor *rstd, const rsh_tensor *sums, rsh_tensor **gx) {
    rsh_tensor *a = NULL, *b = NULL, *slope = NULL;
    rsh_status st;
    int first = 0;
    while (!(l->dims >> first & 1)) first++;
    NN_GOTO(rshn_window(sums, first, 0, 1, &a));
    NN_GOTO(rshn_window(sums, first, 1, 1, &b));
    NN_GOTO(map_pair(RSHN_MUL, h, b, &slope));
    NN_GOTO(map_pair(RSHN_SUB, v, slope, gx));
    if (centred) NN_GOTO(map_in_place(RSHN_SUB, gx, a));
    st = map_in_place(RSHN_MUL, gx, rstd);
out:
    rsh_tensor_free(a);
    rsh_tensor_free(b);
    rsh_tensor_free(slope);
    return st;
}

/* Sums over all rows. */
static rsh_status sum_over_rows(const rshn_line *l, const rsh_tensor *t, rsh_tensor **out) {
    return rshn_sum(t, ((1u << rsh_tensor_ndim(t)) - 1) & ~l->dims, false, 1, out);
}

static rsh_status affine_gradients(const rshn_line *l, const rsh_tensor *g, const rsh_tensor *h, const bool *wanted,
                                   rsh_tensor **out) {
    rsh_tensor *gh = NULL;
    if (wanted[1]) NN_TRY(map_pair(RSHN_MUL, g, h, &gh));
    rsh_status st = gh ? sum_over_rows(l, gh, &out[1]) : RSH_OK;
    rsh_tensor_free(gh);
    return !st && wanted[2] ? sum_over_rows(l, g, &out[2]) : st;
}

rsh_status rshn_norm_cut_backward(const rshn_line *l, const rshn_norm_cut *n, const rsh_tensor *const *in,
                                  const bool *wanted, rsh_tensor **out) {
    rsh_tensor *h = NULL, *v = NULL, *own = NULL, *sums = NULL;
    rsh_status st = normalized(in, &h);
    if (!st) st = rshn_alias(in[G], &v);
    if (!st) st = map_in_place(RSHN_MUL, &v, in[WEIGHT]);
    if (!st) st = own_sums(l, n->count, v, h, &own);
    NN_GOTO(rshn_line_combine(l, st, RSH_OP_SUM, own, &sums));
    if (wanted[0]) NN_GOTO(input_gradient(l, n->centred, v, h, in[RSTD], sums, &out[0]));
    st = affine_gradients(l, in[G], h, wanted, out);
out:
    rsh_tensor_free(h);
    rsh_tensor_free(v);
    rsh_tensor_free(sums);
    return st;
}
