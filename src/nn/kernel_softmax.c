/* Kernel softmax: softmax and log-softmax of dense rows, and their derivatives. */
#include "nn/kernel_list.h"
#include "nn/lanes.h"

/* Computes y = e^(x - most) and returns the sum of y. */
static double exponentials(const real *x, real most, real *y, int64_t n) {
    double total = 0;
    NN_EACH for (int64_t i = 0; i < n; i++) y[i] = real_exp_down(x[i] - most);
    LANE_SUM(total, n, y[i]);
    return total;
}

static void softmax_row(const real *x, real *y, int64_t n, int64_t seen) {
    real most = lane_max(x, seen);
    if (seen) {
        real scale = (real)(1 / exponentials(x, most, y, seen));
        NN_EACH for (int64_t i = 0; i < seen; i++) y[i] *= scale;
    }
    for (int64_t i = seen; i < n; i++) y[i] = 0;
}

static void softmax(const void *xv, void *yv, int64_t rows, int64_t n, const int64_t *visible) {
    const real *x = xv;
    real *y = yv;
    for (int64_t r = 0; r < rows; r++) softmax_row(x + r * n, y + r * n, n, visible ? visible[r] : n);
}

static void log_softmax(const void *xv, void *yv, int64_t rows, int64_t n) {
    const real *x = xv;
    real *y = yv;
    for (int64_t r = 0; r < rows; r++, x += n, y += n) {
        real most = lane_max(x, n), log_sum = (real)log(exponentials(x, most, y, n));
        NN_EACH for (int64_t i = 0; i < n; i++) y[i] = x[i] - most - log_sum; /* in this order: most may be large */
    }
}

static void softmax_back(const void *yv, const void *gv, void *gxv, int64_t rows, int64_t n, double scale) {
    const real *y = yv, *g = gv, s = (real)scale;
    real *gx = gxv;
    for (int64_t r = 0; r < rows; r++, y += n, g += n, gx += n) {
        double total = 0;
        LANE_SUM(total, n, g[i] * y[i]);
        real dot = (real)total;
        NN_EACH for (int64_t i = 0; i < n; i++) gx[i] = s * y[i] * (g[i] - dot);
    }
}

static void log_softmax_back(const void *yv, const void *gv, void *gxv, int64_t rows, int64_t n) {
    const real *y = yv, *g = gv;
    real *gx = gxv;
    for (int64_t r = 0; r < rows; r++, y += n, g += n, gx += n) {
        double total = 0;
        LANE_SUM(total, n, g[i]);
        real sum = (real)total;
        NN_EACH for (int64_t i = 0; i < n; i++) gx[i] = g[i] - real_exp_down(y[i]) * sum;
    }
}

void NN(list_softmax)(rshn_kernels *k) {
    k->softmax = softmax;
    k->log_softmax = log_softmax;
    k->softmax_back = softmax_back;
    k->log_softmax_back = log_softmax_back;
}
