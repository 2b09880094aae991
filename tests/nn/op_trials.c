/* Op trials: sizes, attributes and calls of every op. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <string.h>

#include "op_trials.h"

uint64_t trial_draw(trial *t) {
    uint64_t z = (t->random += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}
int trial_below(trial *t, int n) { return (int)(trial_draw(t) % (uint64_t)n); }
double trial_unit(trial *t) { return (double)(trial_draw(t) >> 11) / (double)(1ull << 53); }

/* ---- sizes ---- */

static int64_t any_size(trial *t) { return 1 + trial_below(t, 5); }

static void set_shape(trial *t, int k, char kind, int ndim, const int64_t *shape) {
    t->kind[k] = kind;
    t->ndim[k] = ndim;
    memcpy(t->shape[k], shape, (size_t)ndim * sizeof *shape);
    if (k >= t->nin) t->nin = k + 1;
}

static void any_shape(trial *t, int k, char kind, int least) {
    int64_t shape[RSH_MAX_NDIM];
    int ndim = least + trial_below(t, 5 - least);
    for (int d = 0; d < ndim; d++) shape[d] = any_size(t);
    set_shape(t, k, kind, ndim, shape);
}

/* Makes the shape of input k, which broadcasts with input `like`: it lacks some leading dims, and some of its sizes are
 * 1. */
static void broadcast_shape(trial *t, int k, char kind, int like) {
    int64_t shape[RSH_MAX_NDIM];
    int less = t->ndim[like] ? trial_below(t, t->ndim[like] + 1) : 0, ndim = t->ndim[like] - less;
    for (int d = 0; d < ndim; d++) shape[d] = trial_below(t, 3) ? t->shape[like][less + d] : 1;
    set_shape(t, k, kind, ndim, shape);
}

static int signed_dim(trial *t, int d, int ndim) { return trial_below(t, 2) ? d : d - ndim; }

/* Defines a function that applies an op to the inputs of a trial. */
#define OP(name, ...)                                                                                                  \
    static rsh_status name(const trial *t, rsh_value *const *in, rsh_value **out) {                                    \
        (void)t;                                                                                                       \
        return __VA_ARGS__;                                                                                            \
    }

/* ---- pointwise ---- */

static void one(trial *t) { any_shape(t, 0, 'f', 0); }
static void one_positive(trial *t) { any_shape(t, 0, 'p', 0); }
static void two(trial *t) { any_shape(t, 0, 'f', 0), broadcast_shape(t, 1, 'f', 0); }
static void two_turned(trial *t) { any_shape(t, 1, 'f', 0), broadcast_shape(t, 0, 'f', 1); }
static void two_positive(trial *t) { any_shape(t, 0, 'p', 0), broadcast_shape(t, 1, 'p', 0); }

#define UNARY(name)                                                                                                    \
    static rsh_status name##_op(const trial *t, rsh_value *const *in, rsh_value **out) {                               \
        (void)t;                                                                                                       \
        return rsh_nn_##name(in[0], out);                                                                              \
    }
#define BINARY(name)                                                                                                   \
    static rsh_status name##_op(const trial *t, rsh_value *const *in, rsh_value **out) {                               \
        (void)t;                                                                                                       \
        return rsh_nn_##name(in[0], in[1], out);                                                                       \
    }
UNARY(neg)
UNARY(exp) UNARY(log) UNARY(sqrt) UNARY(relu) UNARY(tanh) UNARY(sigmoid) UNARY(silu) UNARY(max) UNARY(squeeze_all)
BINARY(add) BINARY(sub) BINARY(mul) BINARY(div) BINARY(pow) BINARY(matmul) BINARY(bmm)

OP(gelu, rsh_nn_gelu(in[0], t->a ? RSH_GELU_TANH : RSH_GELU_ERF, out))
static void gelu_set(trial *t) { one(t), t->a = trial_below(t, 2); }
static void number_set(trial *t) { one(t), t->p = trial_unit(t) * 4 - 2; }
OP(add_number, rsh_nn_add_number(in[0], t->p, out))
OP(mul_number, rsh_nn_mul_number(in[0], t->p, out))
static void pow_number_set(trial *t) {
    one_positive(t);
    t->p = trial_below(t, 2) ? trial_below(t, 4) : trial_unit(t) * 4 - 2;
}
OP(pow_number, rsh_nn_pow_number(in[0], t->p, out))
OP(clamp, rsh_nn_clamp(in[0], -0.4, 0.7, out)) OP(nan_to_num, rsh_nn_nan_to_num(in[0], 1, 2, 3, out))
static void where_set(trial *t) {
    any_shape(t, 1, 'f', 0), broadcast_shape(t, 0, 'b', 1), broadcast_shape(t, 2, 'f', 1);
}
OP(where, rsh_nn_where(in[0], in[1], in[2], out))
static void masked_set(trial *t) {
    any_shape(t, 0, 'f', 0);
    broadcast_shape(t, 1, 'b', 0);
    if (trial_below(t, 2)) any_shape(t, 1, 'b', 0), broadcast_shape(t, 0, 'f', 1);
}
OP(masked_fill, rsh_nn_masked_fill(in[0], in[1], 3, out))
OP(dropout, rsh_nn_dropout(in[0], 0.3, 7, (uint64_t)t->a, out))

/* ---- reductions ---- */

static void reduce_set(trial *t) {
    any_shape(t, 0, 'f', 0);
    for (int d = 0; d < t->ndim[0]; d++)
        if (trial_below(t, 2)) t->list[t->n++] = signed_dim(t, d, t->ndim[0]);
    t->a = trial_below(t, 2);
}
OP(sum, rsh_nn_sum(in[0], t->n, t->list, t->a, out))
OP(mean, rsh_nn_mean(in[0], t->n, t->list, t->a, out))
static void along_set(trial *t) {
    any_shape(t, 0, 'f', 0);
    int n = t->ndim[0] ? t->ndim[0] : 1;
    t->a = signed_dim(t, trial_below(t, n), n);
    t->b = trial_below(t, 2);
}
OP(max_dim, rsh_nn_max_dim(in[0], t->a, t->b, out, NULL))
OP(softmax, rsh_nn_softmax(in[0], t->a, out))
OP(log_softmax, rsh_nn_log_softmax(in[0], t->a, out))

/* ---- shapes ---- */

static void reshape_set(trial *t) {
    any_shape(t, 0, 'f', 1);
    int64_t count = 1;
    for (int d = 0; d < t->ndim[0]; d++) count *= t->shape[0][d];
    int64_t first = 1 + trial_below(t, (int)count);
    while (count % first) first--;
    t->n = 2, t->sizes[0] = first, t->sizes[1] = trial_below(t, 2) ? -1 : count / first;
    t->a = trial_below(t, 2);
}
/* Reshapes a transposed value, so that a copy may be needed. */
static rsh_status reshape(const trial *t, rsh_value *const *in, rsh_value **out) {
    rsh_value *turned = NULL;
    if (!t->a) return rsh_nn_reshape(in[0], t->n, t->sizes, out);
    rsh_status st = rsh_nn_transpose(in[0], 0, -1, &turned);
    if (!st) st = rsh_nn_reshape(turned, t->n, t->sizes, out);
    rsh_value_free(turned);
    return st;
}
static void two_dims_set(trial *t) {
    any_shape(t, 0, 'f', 1);
    t->a = signed_dim(t, trial_below(t, t->ndim[0]), t->ndim[0]);
    t->b = signed_dim(t, trial_below(t, t->ndim[0]), t->ndim[0]);
}
OP(transpose, rsh_nn_transpose(in[0], t->a, t->b, out))
static rsh_status contiguous(const trial *t, rsh_value *const *in, rsh_value **out) {
    rsh_value *turned = NULL;
    rsh_status st = rsh_nn_transpose(in[0], t->a, t->b, &turned);
    if (!st) st = rsh_nn_contiguous(turned, out);
    rsh_value_free(turned);
    return st;
}
static void permute_set(trial *t) {
    any_shape(t, 0, 'f', 0);
    for (int d = 0; d < t->ndim[0]; d++) {
        int other = trial_below(t, d + 1);
        t->list[d] = t->list[other];
        t->list[other] = d;
    }
}
OP(permute, rsh_nn_permute(in[0], t->list, out))
OP(squeeze, rsh_nn_squeeze(in[0], t->a, out))
static void unsqueeze_set(trial *t) {
    any_shape(t, 0, 'f', 0), t->a = signed_dim(t, trial_below(t, t->ndim[0] + 1), t->ndim[0] + 1);
}
OP(unsqueeze, rsh_nn_unsqueeze(in[0], t->a, out))
static void expand_set(trial *t) {
    any_shape(t, 1, 'f', 0);
    broadcast_shape(t, 0, 'f', 1);
    t->nin = 1, t->n = t->ndim[1];
    memcpy(t->sizes, t->shape[1], sizeof t->sizes);
}
OP(expand, rsh_nn_expand(in[0], t->n, t->sizes, out))
static void narrow_set(trial *t) {
    two_dims_set(t);
    int64_t size = t->shape[0][t->a < 0 ? t->a + t->ndim[0] : t->a];
    t->sizes[0] = trial_below(t, (int)size + 1);
    t->sizes[1] = trial_below(t, (int)(size - t->sizes[0]) + 1);
}
OP(narrow, rsh_nn_narrow(in[0], t->a, t->sizes[0], t->sizes[1], out))
static void cat_set(trial *t) {
    two_dims_set(t);
    for (int k = 1; k < 3; k++) {
        set_shape(t, k, 'f', t->ndim[0], t->shape[0]);
        t->shape[k][t->a < 0 ? t->a + t->ndim[0] : t->a] = trial_below(t, 4);
    }
}
OP(cat, rsh_nn_cat(t->nin, in, t->a, out))
static void stack_set(trial *t) {
    unsqueeze_set(t);
    for (int k = 1; k < 3; k++) set_shape(t, k, 'f', t->ndim[0], t->shape[0]);
}
OP(stack, rsh_nn_stack(t->nin, in, t->a, out))
static void split_set(trial *t) {
    two_dims_set(t);
    int64_t size = t->shape[0][t->a < 0 ? t->a + t->ndim[0] : t->a];
    t->sizes[0] = size / 2 + 1;
    t->nout = (int)((size - 1) / t->sizes[0] + 1);
}
OP(split, rsh_nn_split(in[0], t->sizes[0], t->a, t->nout, out))
static void pieces_set(trial *t) {
    two_dims_set(t);
    int64_t size = t->shape[0][t->a < 0 ? t->a + t->ndim[0] : t->a];
    t->sizes[0] = trial_below(t, (int)size + 1), t->sizes[1] = 0, t->sizes[2] = size - t->sizes[0];
    t->nout = 3;
}
OP(pieces, rsh_nn_split_sizes(in[0], t->a, 3, t->sizes, out))
static rsh_status chunk(const trial *t, rsh_value *const *in, rsh_value **out) {
    int count = 0;
    return rsh_nn_chunk(in[0], t->nout, t->a, &count, out);
}

/* ---- rows, products, layers, losses ---- */

static void select_set(trial *t) {
    two_dims_set(t);
    t->below = t->shape[0][t->a < 0 ? t->a + t->ndim[0] : t->a];
    set_shape(t, 1, 'i', 1, (int64_t[]){1 + trial_below(t, 7)});
}
OP(index_select, rsh_nn_index_select(in[0], t->a, in[1], out))
static void embedding_set(trial *t) {
    any_shape(t, 0, 'i', 0);
    t->below = any_size(t);
    set_shape(t, 1, 'f', 2, (int64_t[]){t->below, any_size(t)});
}
OP(embedding, rsh_nn_embedding(in[0], in[1], -1, out))


/* Bags of a table, [bags, n]; sums may have weights. */
static void bag_set(trial *t) {
    set_shape(t, 0, 'i', 2, (int64_t[]){any_size(t), any_size(t)});
    t->below = any_size(t);
    set_shape(t, 1, 'f', 2, (int64_t[]){t->below, any_size(t)});
    t->a = trial_below(t, 3);
    if (t->a == RSH_BAG_SUM && trial_below(t, 2)) set_shape(t, 2, 'f', 2, t->shape[0]);
}
static rsh_status bag(const trial *t, rsh_value *const *in, rsh_value **out) {
    rsh_bag_opts opts = RSH_BAG_OPTS_INIT;
    rsh_module *m = NULL;
    opts.mode = (rsh_bag_mode)t->a;
    rsh_status st = rsh_embedding_bag_new(t->shape[1][0], t->shape[1][1], &opts, rsh_value_dtype(in[1]), &m);
    if (!st) st = rsh_module_set_parameter(m, "weight", in[1]);
    rsh_named_input weights = {"per_sample_weights", in[2]};
    if (!st) st = rsh_module_call_named(m, 1, in, in[2] != NULL, &weights, out);
    rsh_module_free(m);
    return st;
}

/* Matrices with leading dims that broadcast, or vectors; up to five dims. */
static void matmul_set(trial *t) {
    int64_t lead[RSH_MAX_NDIM] = {0}, shape[2][RSH_MAX_NDIM], k = any_size(t), size[2] = {any_size(t), any_size(t)};
    int n = trial_below(t, 4);
    for (int d = 0; d < n; d++) lead[d] = 1 + trial_below(t, 3);
    for (int i = 0; i < 2; i++) {
        int own = trial_below(t, n + 1), nd = 0;
        if (!own && !trial_below(t, 3)) {
            set_shape(t, i, 'f', 1, &k);
            continue;
        }
        for (int d = n - own; d < n; d++) shape[i][nd++] = trial_below(t, 3) ? lead[d] : 1;
        shape[i][nd++] = i ? k : size[0];
        shape[i][nd++] = i ? size[1] : k;
        set_shape(t, i, 'f', nd, shape[i]);
    }
}
/* Transposed operands: some are matrices that BLAS can read in place, others are not. */
static void turned_set(trial *t) {
    int64_t a = any_size(t), b = any_size(t), c = any_size(t), d = any_size(t);
    set_shape(t, 0, 'f', 3, trial_below(t, 2) ? (int64_t[]){b, a, c} : (int64_t[]){c, a, b});
    set_shape(t, 1, 'f', 3, (int64_t[]){t->shape[0][2], d, a});
    t->a = 1;
}
static rsh_status turned_matmul(const trial *t, rsh_value *const *in, rsh_value **out) {
    rsh_value *a = NULL, *b = NULL;
    rsh_status st = rsh_nn_permute(in[0], (int[]){1, 0, 2}, &a);
    if (!st) st = rsh_nn_permute(in[1], (int[]){2, 0, 1}, &b);
    if (!st) st = rsh_nn_matmul(a, b, out);
    (void)t;
    rsh_value_free(a);
    rsh_value_free(b);
    return st;
}
static void bmm_set(trial *t) {
    int64_t b = any_size(t), k = any_size(t);
    set_shape(t, 0, 'f', 3, (int64_t[]){b, any_size(t), k});
    set_shape(t, 1, 'f', 3, (int64_t[]){b, k, any_size(t)});
}
static void linear_set(trial *t) {
    int64_t out = any_size(t);
    any_shape(t, 0, 'f', 1);
    set_shape(t, 1, 'f', 2, (int64_t[]){out, t->shape[0][t->ndim[0] - 1]});
    set_shape(t, 2, trial_below(t, 2) ? 'f' : 0, 1, &out);
}
OP(linear, rsh_nn_linear(in[0], in[1], in[2], out))
static void layer_norm_set(trial *t) {
    any_shape(t, 0, 'f', 1);
    t->shape[0][t->ndim[0] - 1] += 2;
    t->a = 1 + trial_below(t, t->ndim[0]);
    for (int k = 1; k < 3; k++) set_shape(t, k, trial_below(t, 3) ? 'f' : 0, t->a, t->shape[0] + t->ndim[0] - t->a);
}
OP(layer_norm, rsh_nn_layer_norm(in[0], t->a, in[1], in[2], 1e-3, out))
static void rms_norm_set(trial *t) {
    layer_norm_set(t), t->nin = 2, t->ndim[1] = 1, t->shape[1][0] = t->shape[0][t->ndim[0] - 1];
}
OP(rms_norm, rsh_nn_rms_norm(in[0], in[1], 1e-3, out))
static void attention_set(trial *t) {
    int64_t b = any_size(t), rows = any_size(t), columns = any_size(t), d = any_size(t);
    set_shape(t, 0, 'f', 3, (int64_t[]){b, rows, d});
    set_shape(t, 1, 'f', 3, (int64_t[]){b, columns, d});
    set_shape(t, 2, 'f', 3, (int64_t[]){b, columns, any_size(t)});
    t->a = trial_below(t, 2);
}
OP(attention, rsh_nn_attention(in[0], in[1], in[2], in[3], t->a, out))
/* Matrices with up to two leading dims, and a mask that broadcasts along rows. */
static void masked_attention_set(trial *t) {
    int64_t rows = any_size(t), columns = any_size(t), d = any_size(t), wide = any_size(t), shape[4];
    int lead = trial_below(t, 3);
    for (int i = 0; i < lead; i++) shape[i] = any_size(t);
    for (int k = 0; k < 3; k++) {
        shape[lead] = k ? columns : rows, shape[lead + 1] = k == 2 ? wide : d;
        set_shape(t, k, 'f', lead + 2, shape);
    }
    shape[lead] = trial_below(t, 2) ? rows : 1, shape[lead + 1] = columns;
    set_shape(t, 3, 'n', lead + 2, shape);
    t->a = trial_below(t, 2);
}
static void entropy_set(trial *t) {
    any_shape(t, 0, 'f', 1);
    int dim = t->ndim[0] == 1 ? 0 : 1;
    t->below = t->shape[0][dim];
    int64_t target[RSH_MAX_NDIM];
    int n = 0;
    for (int d = 0; d < t->ndim[0]; d++)
        if (d != dim) target[n++] = t->shape[0][d];
    set_shape(t, 1, 'i', n, target);
    t->a = trial_below(t, 3), t->b = trial_below(t, 2);
    t->p = trial_below(t, 2) ? trial_unit(t) : 0;
}
static rsh_status cross_entropy(const trial *t, rsh_value *const *in, rsh_value **out) {
    rsh_loss_reduction reduction = t->b && t->a == RSH_LOSS_MEAN ? RSH_LOSS_SUM : (rsh_loss_reduction)t->a;
    rsh_cross_entropy_opts opts = {sizeof opts, .reduction = reduction,
                                   .ignore = t->b,
                                   .ignore_index = 0,
                                   .label_smoothing = t->p};
    return rsh_nn_cross_entropy(in[0], in[1], &opts, out);
}
static void mse_set(trial *t) {
    any_shape(t, 0, 'f', 0), set_shape(t, 1, 'f', t->ndim[0], t->shape[0]), t->a = trial_below(t, 3);
}
OP(mse, rsh_nn_mse(in[0], in[1], (rsh_loss_reduction)t->a, out))

const trial_op trial_ops[] = {
    {"add", two, add_op},
    {"add, turned", two_turned, add_op},
    {"sub", two, sub_op},
    {"sub, turned", two_turned, sub_op},
    {"mul", two, mul_op},
    {"mul, turned", two_turned, mul_op},
    {"div", two_positive, div_op},
    {"pow", two_positive, pow_op},
    {"neg", one, neg_op},
    {"exp", one, exp_op},
    {"log", one_positive, log_op},
    {"sqrt", one_positive, sqrt_op},
    {"relu", one, relu_op},
    {"tanh", one, tanh_op},
    {"sigmoid", one, sigmoid_op},
    {"silu", one, silu_op},
    {"gelu", gelu_set, gelu},
    {"add_number", number_set, add_number},
    {"mul_number", number_set, mul_number},
    {"pow_number", pow_number_set, pow_number},
    {"clamp", one, clamp},
    {"nan_to_num", one, nan_to_num},
    {"where", where_set, where},
    {"masked_fill", masked_set, masked_fill},
    {"dropout", one, dropout},
    {"sum", reduce_set, sum},
    {"mean", reduce_set, mean},
    {"max", one, max_op},
    {"max_dim", along_set, max_dim},
    {"softmax", along_set, softmax},
    {"log_softmax", along_set, log_softmax},
    {"reshape", reshape_set, reshape},
    {"transpose", two_dims_set, transpose},
    {"contiguous", two_dims_set, contiguous},
    {"permute", permute_set, permute},
    {"squeeze", along_set, squeeze},
    {"squeeze_all", one, squeeze_all_op},
    {"unsqueeze", unsqueeze_set, unsqueeze},
    {"expand", expand_set, expand},
    {"narrow", narrow_set, narrow},
    {"cat", cat_set, cat},
    {"stack", stack_set, stack},
    {"split", split_set, split},
    {"split_sizes", pieces_set, pieces},
    {"chunk", split_set, chunk},
    {"index_select", select_set, index_select},
    {"embedding", embedding_set, embedding},
    {"embedding bag", bag_set, bag},
    {"matmul", matmul_set, matmul_op},
    {"matmul of transposed", turned_set, turned_matmul},
    {"bmm", bmm_set, bmm_op},
    {"linear", linear_set, linear},
    {"layer_norm", layer_norm_set, layer_norm},
    {"rms_norm", rms_norm_set, rms_norm},
    {"attention", attention_set, attention},
    {"attention with a mask", masked_attention_set, attention},
    {"cross_entropy", entropy_set, cross_entropy},
    {"mse", mse_set, mse},
};
const int trial_ops_count = (int)(sizeof trial_ops / sizeof *trial_ops);

/* ---- elements ---- */

bool trial_differentiable(const trial *t, int k) { return t->kind[k] == 'f' || t->kind[k] == 'p'; }

rsh_tensor *trial_tensor(trial *t, int k) {
    rsh_tensor *x = NULL;
    char kind = t->kind[k];
    rsh_dtype dtype = kind == 'i' ? RSH_I64 : kind == 'b' ? RSH_BOOL : RSH_F64;
    if (!kind) return NULL;
    assert_int_equal(rsh_tensor_empty(dtype, t->ndim[k], t->shape[k], &x), RSH_OK);
    for (int64_t i = 0; i < rsh_tensor_count(x); i++) {
        if (kind == 'i')
            ((int64_t *)rsh_tensor_data(x))[i] = trial_below(t, (int)t->below);
        else if (kind == 'b')
            ((bool *)rsh_tensor_data(x))[i] = trial_below(t, 2);
        else
            ((double *)rsh_tensor_data(x))[i] = kind == 'p' ? 0.3 + 2 * trial_unit(t) : 3 * trial_unit(t) - 1.5;
    }
    return x;
}
