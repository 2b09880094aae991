/* Ops of nn: measures Linear compared with bare calls of CBLAS, the cost of one op, pointwise ops, softmax, norms and
 * attention.
 *
 *     nn_ops [THREADS]
 *
 * Linear's forward and backward and the three calls of cblas_sgemm alternate, so that both run under the same
 * conditions.  The minimum of each is printed. */
#include <cblas.h>
#include <reshard/pool.h>

#include "nn_bench.h"

static rsh_value *value(int ndim, const int64_t *shape, bool requires_grad) {
    rsh_tensor *t = NULL;
    rsh_value *v = NULL;
    must(rsh_tensor_empty(RSH_F32, ndim, shape, &t));
    for (int64_t i = 0; i < rsh_tensor_count(t); i++)
        ((float *)rsh_tensor_data(t))[i] = (float)((i * 7919) % 2003) / 1000 - 1;
    must(rsh_value_adopt_tensor(t, requires_grad, &v));
    return v;
}

#define VALUE(grad, ...)                                                                                               \
    value((int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (int64_t[]){__VA_ARGS__}, grad)

/* ---- Linear ---- */

enum { N = 1024 };

static double time_linear(rsh_value *x, rsh_value *w, rsh_value *b, rsh_value *seed) {
    rsh_value *y = NULL;
    double begin = now();
    must(rsh_value_set_grad(x, NULL));
    must(rsh_value_set_grad(w, NULL));
    must(rsh_value_set_grad(b, NULL));
    must(rsh_nn_linear(x, w, b, &y));
    must(rsh_backward(y, seed, 0));
    rsh_value_free(y);
    return now() - begin;
}

static double time_bare(const float *x, const float *w, const float *g, float *y, float *gx, float *gw) {
    double begin = now();
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, N, N, N, 1, x, N, w, N, 0, y, N);
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, N, N, N, 1, g, N, w, N, 0, gx, N);
    cblas_sgemm(CblasRowMajor, CblasTrans, CblasNoTrans, N, N, N, 1, g, N, x, N, 0, gw, N);
    return now() - begin;
}

static void bench_linear(void) {
    rsh_value *x = VALUE(true, N, N), *w = VALUE(true, N, N), *b = VALUE(true, N), *seed = VALUE(false, N, N);
    rsh_value *out[3] = {VALUE(false, N, N), VALUE(false, N, N), VALUE(false, N, N)};
    double ours = 1e9, bare = 1e9;
    float *data[6];
    rsh_value *all[6] = {x, w, seed, out[0], out[1], out[2]};
    for (int i = 0; i < 6; i++) data[i] = rsh_tensor_data(rsh_value_tensor(all[i]));
    for (int i = 0; i < 30; i++) {
        double a = time_linear(x, w, b, seed), c = time_bare(data[0], data[1], data[2], data[3], data[4], data[5]);
        if (i > 2 && a < ours) ours = a;
        if (i > 2 && c < bare) bare = c;
    }
    printf("linear 1024x1024x1024, forward and backward   %7.2f ms, bare cblas_sgemm %7.2f ms: %.3f of it\n",
           ours * 1e3, bare * 1e3, bare / ours);
    for (int i = 0; i < 6; i++) rsh_value_free(all[i]);
    rsh_value_free(b);
}

/* ---- one op ---- */

static void bench_overhead(void) {
    rsh_value *x = VALUE(false, 1), *g = VALUE(true, 1), *y = NULL;
    double plain = 1e9, recorded = 1e9, back = 1e9;
    for (int round = 0; round < 20; round++) {
        enum { CALLS = 2000 };
        double begin = now();
        for (int i = 0; i < CALLS; i++) {
            must(rsh_nn_relu(x, &y));
            rsh_value_free(y);
        }
        double middle = now();
        for (int i = 0; i < CALLS; i++) {
            must(rsh_nn_relu(g, &y));
            rsh_value_free(y);
        }
        double third = now();
        for (int i = 0; i < CALLS; i++) {
            must(rsh_nn_relu(g, &y));
            must(rsh_backward(y, NULL, 0));
            rsh_value_free(y);
        }
        double end = now();
        if (middle - begin < plain * CALLS) plain = (middle - begin) / CALLS;
        if (third - middle < recorded * CALLS) recorded = (third - middle) / CALLS;
        if (end - third < back * CALLS) back = (end - third) / CALLS;
    }
    printf("relu of one element   %.0f ns, recorded %.0f ns, with backward %.0f ns\n", plain * 1e9, recorded * 1e9,
           back * 1e9);
    rsh_value_free(x);
    rsh_value_free(g);
}

/* ---- ops of a transformer block: B=8, T=256, d=256, 8 heads ---- */

typedef rsh_status op_fn(rsh_value *const *in, rsh_value **out);

static rsh_status gelu(rsh_value *const *in, rsh_value **out) { return rsh_nn_gelu(in[0], RSH_GELU_ERF, out); }
static rsh_status gelu_tanh(rsh_value *const *in, rsh_value **out) { return rsh_nn_gelu(in[0], RSH_GELU_TANH, out); }
static rsh_status add(rsh_value *const *in, rsh_value **out) { return rsh_nn_add(in[0], in[1], out); }
static rsh_status softmax(rsh_value *const *in, rsh_value **out) { return rsh_nn_softmax(in[0], -1, out); }
static rsh_status layer_norm(rsh_value *const *in, rsh_value **out) {
    return rsh_nn_layer_norm(in[0], 1, in[1], in[2], 1e-5, out);
}
static rsh_status linear(rsh_value *const *in, rsh_value **out) { return rsh_nn_linear(in[0], in[1], in[2], out); }
static rsh_status bmm(rsh_value *const *in, rsh_value **out) { return rsh_nn_bmm(in[0], in[1], out); }
static rsh_status attention(rsh_value *const *in, rsh_value **out) {
    return rsh_nn_attention(in[0], in[1], in[2], NULL, false, out);
}
static rsh_status dropout(rsh_value *const *in, rsh_value **out) { return rsh_nn_dropout(in[0], 0.1, 1, 2, out); }

static void bench_op(const char *name, op_fn *fn, int nin, rsh_value **in) {
    double forward = 1e9, backward = 1e9;
    rsh_value *y = NULL, *seed = NULL;
    must(fn(in, &y));
    seed = value(rsh_value_ndim(y), rsh_value_shape(y), false);
    rsh_value_free(y);
    for (int i = 0; i < 25; i++) {
        for (int k = 0; k < nin; k++) must(rsh_value_set_grad(in[k], NULL));
        double begin = now();
        must(fn(in, &y));
        double middle = now();
        must(rsh_backward(y, seed, 0));
        double end = now();
        rsh_value_free(y);
        if (i > 1 && middle - begin < forward) forward = middle - begin;
        if (i > 1 && end - middle < backward) backward = end - middle;
    }
    printf("%-34s forward %7.3f ms, backward %7.3f ms\n", name, forward * 1e3, backward * 1e3);
    rsh_value_free(seed);
    for (int k = 0; k < nin; k++) rsh_value_free(in[k]);
}

static void bench_block(void) {
    bench_op("gelu [8, 256, 1024]", gelu, 1, (rsh_value *[]){VALUE(true, 8, 256, 1024)});
    bench_op("gelu by tanh [8, 256, 1024]", gelu_tanh, 1, (rsh_value *[]){VALUE(true, 8, 256, 1024)});
    bench_op("add [8, 256, 256]", add, 2, (rsh_value *[]){VALUE(true, 8, 256, 256), VALUE(true, 8, 256, 256)});
    bench_op("dropout [8, 256, 256]", dropout, 1, (rsh_value *[]){VALUE(true, 8, 256, 256)});
    bench_op("softmax [64, 256, 256]", softmax, 1, (rsh_value *[]){VALUE(true, 64, 256, 256)});
    bench_op("layer norm [8, 256, 256]", layer_norm, 3,
             (rsh_value *[]){VALUE(true, 8, 256, 256), VALUE(true, 256), VALUE(true, 256)});
    bench_op("linear 256 to 1024 [8, 256, 256]", linear, 3,
             (rsh_value *[]){VALUE(true, 8, 256, 256), VALUE(true, 1024, 256), VALUE(true, 1024)});
    bench_op("bmm [64, 256, 32] [64, 32, 256]", bmm, 2,
             (rsh_value *[]){VALUE(true, 64, 256, 32), VALUE(true, 64, 32, 256)});
    bench_op("attention [64, 256, 32]", attention, 3,
             (rsh_value *[]){VALUE(true, 64, 256, 32), VALUE(true, 64, 256, 32), VALUE(true, 64, 256, 32)});
}

int main(int argc, char **argv) {
    must(rsh_nn_open(NULL, &(rsh_nn_opts){sizeof(rsh_nn_opts), .threads = argc > 1 ? atoi(argv[1]) : 0}));
    printf("threads %d, of BLAS %d, instructions %s\n", rsh_nn_threads(), rsh_nn_blas_threads(), rsh_copy_isa());
    bench_overhead();
    bench_block();
    bench_linear();
    rsh_nn_close();
    return 0;
}
