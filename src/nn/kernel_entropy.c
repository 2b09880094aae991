/* Kernel entropy: cross-entropy of dense rows of logits with class indices, and its derivative.
 *
 * With smoothing s and C classes the loss of a row is (1 - s) * (lse - x[target]) + s * (lse - mean of x), where lse is
 * the logarithm of the sum of exponentials.  Rows whose target is `ignore` have loss and gradient 0.  If the classes of
 * a row are spread over ranks, each rank computes sums first, and the loss follows from their totals. */
#include "nn/kernel_list.h"
#include "nn/lanes.h"

enum { BLOCK = 512 }; /* number of exponentials computed at a time */

static double sum_exp(const real *x, real most, int64_t n) {
    real block[BLOCK];
    double total = 0;
    for (int64_t first = 0; first < n; first += BLOCK) {
        int64_t width = n - first < BLOCK ? n - first : BLOCK;
        NN_EACH for (int64_t i = 0; i < width; i++) block[i] = real_exp_down(x[first + i] - most);
        LANE_SUM(total, width, block[i]);
    }
    return total;
}

/* The maximum is subtracted first: large logits that are close to each other keep their difference. */
static real row_loss(const rshn_entropy *e, double most, double log_sum, double target, double sum) {
    double smooth = e->smoothing, mean = sum / (double)e->whole;
    return (real)((1 - smooth) * (most - target + log_sum) + smooth * (most - mean + log_sum));
}

static void entropy(const rshn_entropy *e, const void *xv, const int64_t *target, void *lossv, double *lses,
                    int64_t rows) {
    const real *x = xv;
    real *losses = lossv;
    int64_t n = e->classes;
    for (int64_t r = 0; r < rows; r++, x += n) {
        losses[r] = lses[r] = 0;
        if (target[r] == e->ignore) continue;
        double sum = 0;
        real most = lane_max(x, n);
        double log_sum = log(sum_exp(x, most, n));
        if (e->smoothing != 0) LANE_SUM(sum, n, x[i]);
        lses[r] = (double)most + log_sum;
        losses[r] = row_loss(e, (double)most, log_sum, (double)x[target[r]], sum);
    }
}

static void entropy_sums(const rshn_entropy *e, const void *xv, const int64_t *target, const void *mostv, void *sumsv,
                         int64_t rows) {
    const real *x = xv, *most = mostv;
    real *sums = sumsv;
    int64_t n = e->classes;
    for (int64_t r = 0; r < rows; r++, x += n, sums += 3) {
        int64_t t = target[r] - e->start;
        double sum = 0;
        sums[0] = sums[1] = sums[2] = 0;
        if (target[r] == e->ignore) continue;
        if (e->smoothing != 0) LANE_SUM(sum, n, x[i]);
        sums[0] = (real)sum_exp(x, most[r], n);
        if (t >= 0 && t < n) sums[1] = x[t];
        sums[2] = (real)sum;
    }
}

static void entropy_end(const rshn_entropy *e, const int64_t *target, const void *mostv, const void *sumsv, void *lossv,
                        double *lses, int64_t rows) {
    const real *most = mostv, *sums = sumsv;
    real *losses = lossv;
    for (int64_t r = 0; r < rows; r++, sums += 3) {
        losses[r] = lses[r] = 0;
        if (target[r] == e->ignore) continue;
        double log_sum = log((double)sums[0]);
        lses[r] = (double)most[r] + log_sum;
        losses[r] = row_loss(e, (double)most[r], log_sum, (double)sums[1], (double)sums[2]);
    }
}

static void entropy_back(const rshn_entropy *e, const void *xv, const int64_t *target, const double *lses,
                         const void *gv, int64_t sg, void *gxv, int64_t rows) {
    const real *x = xv, *gs = gv;
    real *gx = gxv;
    int64_t n = e->classes;
    for (int64_t r = 0; r < rows; r++, x += n, gx += n) {
        if (target[r] == e->ignore) {
            for (int64_t i = 0; i < n; i++) gx[i] = 0;
            continue;
        }
        real g = gs[r * sg], each = (real)(e->smoothing / (double)e->whole);
        real high = (real)lses[r], low = (real)(lses[r] - (double)high); /* lse, without rounding it to f32 */
        int64_t t = target[r] - e->start;
        NN_EACH for (int64_t i = 0; i < n; i++) gx[i] = g * (real_exp_down(x[i] - high - low) - each);
        if (t >= 0 && t < n) gx[t] -= g * (real)(1 - e->smoothing);
    }
}

void NN(list_entropy)(rshn_kernels *k) {
    k->entropy = entropy;
    k->entropy_sums = entropy_sums;
    k->entropy_end = entropy_end;
    k->entropy_back = entropy_back;
}
