/* Golden ops: values and gradients compared with those that PyTorch computed, recorded in golden_ops.txt. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <math.h>
#include <string.h>

#include "nn/answers.h"

typedef struct run {
    const answered_case *c;
    rsh_value *in[MOST_TENSORS], *out[MOST_TENSORS];
    rsh_value *made[8]; /* values between inputs and outputs */
    int nmade;
} run;

static rsh_value **keep(run *r) { return &r->made[r->nmade++]; }

/* ---- ops by name ---- */

typedef rsh_status unary_fn(rsh_value *x, rsh_value **out);
typedef rsh_status binary_fn(rsh_value *a, rsh_value *b, rsh_value **out);

static const struct {
    const char *name;
    unary_fn *fn;
} unary[] = {{"neg", rsh_nn_neg},         {"exp", rsh_nn_exp},   {"log", rsh_nn_log},
             {"sqrt", rsh_nn_sqrt},       {"relu", rsh_nn_relu}, {"tanh", rsh_nn_tanh},
             {"sigmoid", rsh_nn_sigmoid}, {"silu", rsh_nn_silu}, {"squeeze_all", rsh_nn_squeeze_all}};
static const struct {
    const char *name;
    binary_fn *fn;
} binary[] = {{"add", rsh_nn_add}, {"sub", rsh_nn_sub}, {"mul", rsh_nn_mul},      {"div", rsh_nn_div},
              {"pow", rsh_nn_pow}, {"bmm", rsh_nn_bmm}, {"matmul", rsh_nn_matmul}};

static rsh_status wide(run *r) {
    const char *op = r->c->op;
    rsh_value **x = keep(r);
    rsh_status st = rsh_nn_mul_number(r->in[0], number_of(r->c, "scale"), x);
    if (st) return st;
    if (!strcmp(op, "gelu_wide")) return rsh_nn_gelu(*x, RSH_GELU_ERF, r->out);
    for (size_t i = 0; i < sizeof unary / sizeof *unary; i++)
        if (!strncmp(op, unary[i].name, strlen(op) - 5) && strlen(unary[i].name) == strlen(op) - 5)
            return unary[i].fn(*x, r->out);
    return RSH_EKEY;
}

static rsh_status transposed_matmul(run *r) {
    rsh_value **a = keep(r), **b = keep(r);
    rsh_status st = rsh_nn_transpose(r->in[0], -1, -2, a);
    if (!st) st = rsh_nn_transpose(r->in[1], -1, -2, b);
    return st ? st : rsh_nn_matmul(*a, *b, r->out);
}

static rsh_status reduce(run *r) {
    const answered_case *c = r->c;
    int dims[RSH_MAX_NDIM], n = 0;
    bool all = !strcmp(attribute(c, "dims"), "all"), keepdim = number_of(c, "keep") != 0;
    if (!all) n = integers_of(c, "dims", dims);
    if (!strcmp(c->op, "max"))
        return all ? rsh_nn_max(r->in[0], r->out) : rsh_nn_max_dim(r->in[0], dims[0], keepdim, r->out, NULL);
    return (!strcmp(c->op, "sum") ? rsh_nn_sum : rsh_nn_mean)(r->in[0], n, dims, keepdim, r->out);
}

static rsh_status reshape(run *r) {
    int sizes[RSH_MAX_NDIM], n = integers_of(r->c, "sizes", sizes);
    int64_t wide_sizes[RSH_MAX_NDIM];
    rsh_value *x = r->in[0];
    for (int i = 0; i < n; i++) wide_sizes[i] = sizes[i];
    if (!strcmp(r->c->op, "expand")) return rsh_nn_expand(x, n, wide_sizes, r->out);
    if (r->c->nattributes > 1) {
        rsh_value **turned = keep(r);
        rsh_status st = rsh_nn_transpose(x, 0, 1, turned);
        if (st) return st;
        x = *turned;
    }
    return rsh_nn_reshape(x, n, wide_sizes, r->out);
}

static rsh_status contiguous(run *r) {
    rsh_value **turned = keep(r);
    rsh_status st = rsh_nn_transpose(r->in[0], 0, 1, turned);
    return st ? st : rsh_nn_contiguous(*turned, r->out);
}

static rsh_status chunk(run *r) {
    int count = 0;
    rsh_status st = rsh_nn_chunk(r->in[0], (int)number_of(r->c, "n"), (int)number_of(r->c, "dim"), &count, r->out);
    if (!st) assert_int_equal(count, r->c->nout);
    return st;
}

static rsh_loss_reduction reduction_of(const answered_case *c) {
    const char *word = attribute(c, "reduction");
    return !strcmp(word, "mean") ? RSH_LOSS_MEAN : !strcmp(word, "sum") ? RSH_LOSS_SUM : RSH_LOSS_NONE;
}

static rsh_status cross_entropy(run *r) {
    rsh_cross_entropy_opts opts = {sizeof opts, .reduction = reduction_of(r->c),
                                   .ignore = true,
                                   .ignore_index = (int64_t)number_of(r->c, "ignore"),
                                   .label_smoothing = number_of(r->c, "smoothing")};
    return rsh_nn_cross_entropy(r->in[0], r->in[1], &opts, r->out);
}

static rsh_status shaping(run *r) {
    const answered_case *c = r->c;
    rsh_value **in = r->in, **out = r->out;
    int dims[RSH_MAX_NDIM];
    if (!strcmp(c->op, "transpose"))
        return rsh_nn_transpose(in[0], (int)number_of(c, "a"), (int)number_of(c, "b"), out);
    if (!strcmp(c->op, "permute")) return integers_of(c, "dims", dims), rsh_nn_permute(in[0], dims, out);
    if (!strcmp(c->op, "chunk")) return chunk(r);
    if (!strcmp(c->op, "reshape") || !strcmp(c->op, "expand")) return reshape(r);
    if (!strcmp(c->op, "contiguous")) return contiguous(r);
    int dim = (int)number_of(c, "dim");
    if (!strcmp(c->op, "cat")) return rsh_nn_cat(c->nin, in, dim, out);
    if (!strcmp(c->op, "stack")) return rsh_nn_stack(c->nin, in, dim, out);
    if (!strcmp(c->op, "split")) return rsh_nn_split(in[0], (int64_t)number_of(c, "size"), dim, c->nout, out);
    if (!strcmp(c->op, "squeeze")) return rsh_nn_squeeze(in[0], dim, out);
    if (!strcmp(c->op, "unsqueeze")) return rsh_nn_unsqueeze(in[0], dim, out);
    if (!strcmp(c->op, "index_select")) return rsh_nn_index_select(in[0], dim, in[1], out);
    if (!strcmp(c->op, "softmax")) return rsh_nn_softmax(in[0], dim, out);
    if (!strcmp(c->op, "log_softmax")) return rsh_nn_log_softmax(in[0], dim, out);
    return rsh_nn_narrow(in[0], dim, (int64_t)number_of(c, "start"), (int64_t)number_of(c, "length"), out);
}

static rsh_status layer(run *r) {
    const answered_case *c = r->c;
    rsh_value **in = r->in, **out = r->out;
    if (!strcmp(c->op, "linear")) return rsh_nn_linear(in[0], in[1], in[2], out);
    if (!strcmp(c->op, "layer_norm"))
        return rsh_nn_layer_norm(in[0], (int)number_of(c, "dims"), in[1], in[2], 1e-5, out);
    if (!strcmp(c->op, "rms_norm")) return rsh_nn_rms_norm(in[0], in[1], 1e-6, out);
    if (!strcmp(c->op, "embedding")) return rsh_nn_embedding(in[0], in[1], (int64_t)number_of(c, "padding"), out);
    if (!strcmp(c->op, "cross_entropy")) return cross_entropy(r);
    if (!strcmp(c->op, "mse")) return rsh_nn_mse(in[0], in[1], reduction_of(c), out);
    if (!strcmp(c->op, "attention"))
        return rsh_nn_attention(in[0], in[1], in[2], NULL, number_of(c, "causal") != 0, out);
    if (!strcmp(c->op, "attention_mask")) return rsh_nn_attention(in[0], in[1], in[2], in[3], false, out);
    return shaping(r);
}

/* Fills a tensor with NaNs and infinities before applying the op. */
static rsh_status filled_nan_to_num(const answered_case *c, rsh_value **in, rsh_value **out) {
    rsh_value *filled = NULL;
    rsh_status st = rsh_nn_masked_fill(in[0], in[1], number_of(c, "fill"), &filled);
    if (!st) st = rsh_nn_nan_to_num(filled, 0.5, INFINITY, -2, out);
    rsh_value_free(filled);
    return st;
}

static rsh_status apply(run *r) {
    const answered_case *c = r->c;
    rsh_value **in = r->in, **out = r->out;
    for (size_t i = 0; i < sizeof unary / sizeof *unary; i++)
        if (!strcmp(c->op, unary[i].name)) return unary[i].fn(in[0], out);
    for (size_t i = 0; i < sizeof binary / sizeof *binary; i++)
        if (!strcmp(c->op, binary[i].name)) return binary[i].fn(in[0], in[1], out);
    if (strstr(c->op, "_wide")) return wide(r);
    if (!strcmp(c->op, "gelu"))
        return rsh_nn_gelu(in[0], number_of(c, "tanh") != 0 ? RSH_GELU_TANH : RSH_GELU_ERF, out);
    if (!strcmp(c->op, "pow_scalar")) return rsh_nn_pow_number(in[0], number_of(c, "exponent"), out);
    if (!strcmp(c->op, "nan_to_num")) return filled_nan_to_num(c, in, out);
    if (!strcmp(c->op, "clamp")) return rsh_nn_clamp(in[0], number_of(c, "lo"), number_of(c, "hi"), out);
    if (!strcmp(c->op, "where")) return rsh_nn_where(in[0], in[1], in[2], out);
    if (!strcmp(c->op, "masked_fill")) return rsh_nn_masked_fill(in[0], in[1], number_of(c, "value"), out);
    if (!strcmp(c->op, "matmul_t")) return transposed_matmul(r);
    if (!strcmp(c->op, "sum") || !strcmp(c->op, "mean") || !strcmp(c->op, "max")) return reduce(r);
    return layer(r);
}

/* ---- comparison ---- */

static double element(const rsh_tensor *t, int64_t i) {
    int64_t offset = 0;
    for (int d = rsh_tensor_ndim(t) - 1; d >= 0; i /= rsh_tensor_shape(t)[d], d--)
        offset += i % rsh_tensor_shape(t)[d] * rsh_tensor_strides(t)[d];
    return rsh_tensor_dtype(t) == RSH_F32 ? (double)((const float *)rsh_tensor_data(t))[offset]
                                          : ((const double *)rsh_tensor_data(t))[offset];
}

static void same_numbers(const answered_case *c, const char *what, const rsh_value *v, const answer *a) {
    const rsh_tensor *t = rsh_value_tensor(v);
    double atol = c->dtype == RSH_F32 ? 2e-6 : 1e-14, rtol = c->dtype == RSH_F32 ? 4e-6 : 1e-13;
    if (rsh_tensor_count(t) != a->n)
        fail_msg("line %d, %s: %s has %lld elements", c->line, c->op, what, (long long)rsh_tensor_count(t));
    for (int64_t i = 0; i < a->n; i++) {
        double x = element(t, i), y = a->number[i];
        if (isnan(x) != isnan(y) || !(isnan(y) || fabs(x - y) <= atol + rtol * fabs(y)))
            fail_msg("line %d, %s: %s: element %lld is %.17g, PyTorch's is %.17g", c->line, c->op, what, (long long)i,
                     x, y);
    }
}

static void same_shape(const answered_case *c, const rsh_value *v, const answer *a) {
    if (rsh_value_ndim(v) != a->ndim) fail_msg("line %d, %s: %d dims", c->line, c->op, rsh_value_ndim(v));
    for (int d = 0; d < a->ndim; d++)
        if (rsh_value_shape(v)[d] != a->shape[d]) fail_msg("line %d, %s: size of dim %d", c->line, c->op, d);
}

static void check_gradients(run *r) {
    const answered_case *c = r->c;
    for (int k = 0; k < c->nin; k++) {
        char what[32];
        snprintf(what, sizeof what, "gradient %d", k);
        if (!strcmp(c->op, "attention_mask") && k == 3) continue; /* our mask has no gradient */
        if (!c->has_grad[k]) continue;
        rsh_value *g = rsh_value_grad(r->in[k]);
        if (!g) fail_msg("line %d, %s: no %s", c->line, c->op, what);
        same_numbers(c, what, g, &c->grad[k]);
    }
}

static void check_case(const answered_case *c) {
    run r = {.c = c};
    rsh_value *seed[MOST_TENSORS];
    for (int k = 0; k < c->nin; k++)
        r.in[k] =
            make_input(c->kind[k], k, c->dtype, c->ndim[k], c->shape[k], !(!strcmp(c->op, "attention_mask") && k == 3));
    rsh_status st = apply(&r);
    if (st) fail_msg("line %d, %s: %s", c->line, c->op, rsh_error_detail());
    for (int j = 0; j < c->nout; j++) {
        same_shape(c, r.out[j], &c->out[j]);
        same_numbers(c, "the result", r.out[j], &c->out[j]);
        seed[j] = make_input("f", 10 + j, c->dtype, c->out[j].ndim, c->out[j].shape, false);
    }
    st = rsh_backward_many(c->nout, r.out, seed, 0);
    if (st) fail_msg("line %d, %s: backward: %s", c->line, c->op, rsh_error_detail());
    check_gradients(&r);
    for (int j = 0; j < c->nout; j++) rsh_value_free(r.out[j]), rsh_value_free(seed[j]);
    for (int i = 0; i < r.nmade; i++) rsh_value_free(r.made[i]);
    for (int k = 0; k < c->nin; k++) rsh_value_free(r.in[k]);
}

static void check_file(void) {
    static answered_case c;
    FILE *file = fopen("tests/nn/golden_ops.txt", "r");
    int line = 0, cases = 0;
    assert_non_null(file);
    for (; next_case(file, &line, &c); cases++) check_case(&c);
    fclose(file);
    assert_true(cases > 400);
}

static void values_and_gradients_are_those_of_pytorch(void **state) {
    (void)state;
    check_file();
}

static void two_threads_give_them_too(void **state) {
    (void)state;
    assert_int_equal(rsh_nn_open(NULL, &(rsh_nn_opts){sizeof(rsh_nn_opts), .threads = 2}), RSH_OK);
    check_file();
    rsh_nn_close();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_and_gradients_are_those_of_pytorch),
        cmocka_unit_test(two_threads_give_them_too),
    };
    return cmocka_run_group_tests_name("golden ops", tests, NULL, NULL);
}
