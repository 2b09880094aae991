/* Kernel entropy: cross-entropy of dense rows of logits with class indices, and its derivative.
 *
 * With smoothing s and C classes the loss of a row is (1 - s) * (lse - x[target]) + s * (lse - mean of x), where lse is
 * the logarithm of the sum of exponentials.  Rows whose target is `ignore` have loss and gradient 0. */
#include "nn/kernel_list.h"
#include "nn/lanes.h"

enum { BLOCK = 512 }; /* exponentials held at once */

static real log_sum_exp(const real *x, int64_t n) {
    real most = lane_max(x, n), block[BLOCK];
    double total = 0;
    for (int64_t first = 0; first < n; first += BLOCK) {
        int64_t width = n - first < BLOCK ? n - first : BLOCK;
        NN_EACH for (int64_t i = 0; i < width; i++) block[i] = real_exp_down(x[first + i] - most);
        LANE_SUM(total, width, block[i]);
    }
    return most + (real)log(total);
}

static void entropy(const rshn_entropy *e, const void *xv, const int64_t *target, void *lossv, void *lsev,
                    int64_t rows) {
    const real *x = xv;
    real *losses = lossv, *lses = lsev;
    int64_t n = e->classes;
    for (int64_t r = 0; r < rows; r++, x += n) {
        losses[r] = lses[r] = 0;
        if (target[r] == e->ignore) continue;
        double sum = 0, lse = (double)(lses[r] = log_sum_exp(x, n)), smooth = e->smoothing;
        if (smooth != 0) LANE_SUM(sum, n, x[i]);
        losses[r] = (real)((1 - smooth) * (lse - (double)x[target[r]]) + smooth * (lse - sum / (double)n));
    }
}

static void entropy_back(const rshn_entropy *e, const void *xv, const int64_t *target, const void *lsev, const void *gv,
                         int64_t sg, void *gxv, int64_t rows) {
    const real *x = xv, *lses = lsev, *gs = gv;
    real *gx = gxv;
    int64_t n = e->classes;
    for (int64_t r = 0; r < rows; r++, x += n, gx += n) {
        if (target[r] == e->ignore) {
            for (int64_t i = 0; i < n; i++) gx[i] = 0;
            continue;
        }
        real g = gs[r * sg], lse = lses[r], each = (real)(e->smoothing / (double)n);
        NN_EACH for (int64_t i = 0; i < n; i++) gx[i] = g * (real_exp_down(x[i] - lse) - each);
        gx[target[r]] -= g * (real)(1 - e->smoothing);
    }
}

void NN(list_entropy)(rshn_kernels *k) {
    k->entropy = entropy;
    k->entropy_back = entropy_back;
}
