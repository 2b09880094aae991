/* Block: measures one training step of a transformer block, for comparison with PyTorch in bench/nn/block.py.
 *
 *     bench_block [STEPS]
 *
 * Width 256, 8 heads, 256 positions, a batch of 8, f32, AdamW, no dropout, one rank on all cores.  Prints the least and
 * the median time of the steps after the second, in milliseconds. */
#include "nn_bench.h"

enum { WIDTH = 256, HEADS = 8, LENGTH = 256, BATCH = 8, HIDDEN = 4 * WIDTH, MOST = 1000 };

static void step(rsh_module *m, rsh_optimizer *o, rsh_value *x) {
    rsh_value *y = NULL, *square = NULL, *loss = NULL;
    must(rsh_optimizer_zero_grad(o));
    must(rsh_module_forward(m, x, &y));
    must(rsh_nn_mul(y, y, &square));
    must(rsh_nn_mean(square, 0, NULL, false, &loss));
    must(rsh_backward(loss, NULL, 0));
    rsh_value_free(y);
    rsh_value_free(square);
    rsh_value_free(loss);
    must(rsh_optimizer_step(o));
}

static int compare(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

int main(int argc, char **argv) {
    int steps = argc > 1 ? atoi(argv[1]) : 30;
    if (steps < 1 || steps > MOST) return 2;
    rsh_attention_opts opts = {sizeof opts, .width = WIDTH, .heads = HEADS, .bias = true};
    rsh_adam_opts adam = RSH_ADAMW_OPTS_INIT;
    rsh_module *m = NULL;
    rsh_optimizer *o = NULL;
    rsh_tensor *t = NULL;
    rsh_value *x = NULL;
    static double seconds[MOST];
    must(rsh_nn_open(NULL, NULL));
    must(rsh_transformer_block_new(&opts, HIDDEN, RSH_F32, &m));
    must(rsh_adam_new(m, &adam, &o));
    must(rsh_tensor_zeros(RSH_F32, 3, (const int64_t[]){BATCH, LENGTH, WIDTH}, &t));
    must(rsh_value_adopt_tensor(t, false, &x));
    must(rsh_random_normal(x, 0, 1));
    for (int i = -2; i < steps; i++) {
        double start = now();
        step(m, o, x);
        if (i >= 0) seconds[i] = now() - start;
    }
    qsort(seconds, (size_t)steps, sizeof *seconds, compare);
    printf("transformer block, one training step, %d threads: least %.2f ms, median %.2f ms\n", rsh_nn_threads(),
           1e3 * seconds[0], 1e3 * seconds[steps / 2]);
    rsh_value_free(x);
    rsh_optimizer_free(o);
    rsh_module_free(m);
    rsh_nn_close();
    return 0;
}
