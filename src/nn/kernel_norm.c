/* Kernel norm: layer norm and RMS norm of dense rows, and their derivatives. */
#include "nn/kernel_list.h"
#include "nn/lanes.h"

static void scale_row(const rshn_norm *w, const real *x, real mean, real rstd, real *y) {
    const real *weight = w->weight, *bias = w->bias;
    int64_t n = w->n;
    if (weight && bias) {
        NN_EACH for (int64_t i = 0; i < n; i++) y[i] = (x[i] - mean) * rstd * weight[i] + bias[i];
    } else if (weight) {
        NN_EACH for (int64_t i = 0; i < n; i++) y[i] = (x[i] - mean) * rstd * weight[i];
    } else {
        NN_EACH for (int64_t i = 0; i < n; i++) y[i] = (x[i] - mean) * rstd;
        for (int64_t i = 0; bias && i < n; i++) y[i] += bias[i];
    }
}

static void norm(const rshn_norm *w, const void *xv, void *yv, void *meanv, void *rstdv, int64_t rows) {
    const real *x = xv;
    real *y = yv, *means = meanv, *rstds = rstdv;
    for (int64_t r = 0; r < rows; r++, x += w->n, y += w->n) {
        double sum = 0, squares = 0;
        if (w->centred) LANE_SUM(sum, w->n, x[i]);
        real mean = (real)(sum / (double)w->n);
        LANE_SUM(squares, w->n, (x[i] - mean) * (x[i] - mean));
        real rstd = (real)(1 / sqrt(squares / (double)w->n + w->eps));
        if (w->centred) means[r] = mean;
        rstds[r] = rstd;
        scale_row(w, x, mean, rstd, y);
    }
}

/* With h = (x - mean) * rstd and v = g * weight:  gx = rstd * (v - mean of v - h * mean of v * h). */
static void row_back(const rshn_norm *w, const real *x, const real *g, real mean, real rstd, real *gx) {
    const real *weight = w->weight;
    int64_t n = w->n;
    double sum = 0, dot = 0;
    if (weight) {
        if (w->centred) LANE_SUM(sum, n, g[i] * weight[i]);
        LANE_SUM(dot, n, g[i] * weight[i] * (x[i] - mean));
    } else {
        if (w->centred) LANE_SUM(sum, n, g[i]);
        LANE_SUM(dot, n, g[i] * (x[i] - mean));
    }
    real a = (real)(sum / (double)n), b = (real)(dot / (double)n) * rstd * rstd;
    if (weight) {
        NN_EACH for (int64_t i = 0; i < n; i++) gx[i] = rstd * (g[i] * weight[i] - a - (x[i] - mean) * b);
    } else {
        NN_EACH for (int64_t i = 0; i < n; i++) gx[i] = rstd * (g[i] - a - (x[i] - mean) * b);
    }
}

static void norm_back(const rshn_norm *w, const void *xv, const void *gv, const void *meanv, const void *rstdv,
                      void *gxv, void *gwv, void *gbv, int64_t rows) {
    const real *x = xv, *g = gv, *means = meanv, *rstds = rstdv;
    real *gx = gxv, *gw = gwv, *gb = gbv;
    for (int64_t r = 0; r < rows; r++, x += w->n, g += w->n) {
        real mean = w->centred ? means[r] : 0, rstd = rstds[r];
        if (gx) row_back(w, x, g, mean, rstd, gx + r * w->n);
        if (gw) NN_EACH for (int64_t i = 0; i < w->n; i++) gw[i] += g[i] * ((x[i] - mean) * rstd);
        if (gb) NN_EACH for (int64_t i = 0; i < w->n; i++) gb[i] += g[i];
    }
}

void NN(list_norm)(rshn_kernels *k) {
    k->norm = norm;
    k->norm_back = norm_back;
}
