/* Kernel sum: sums and maxima along rows and down columns. */
#include "nn/kernel_list.h"
#include "nn/lanes.h"

static double row_sum(const void *xv, int64_t sx, int64_t n) {
    const real *x = xv;
    double total = 0;
    if (sx == 1)
        LANE_SUM(total, n, x[i]);
    else
        for (int64_t i = 0; i < n; i++) total += (double)x[i * sx];
    return total;
}

enum { COLUMNS = 256, ROWS = 128 }; /* size of a block, whose partial sums fit in the L1 cache */

static void add_block(const real *x, int64_t pitch, int64_t rows, double *total, int64_t n) {
    real part[COLUMNS] = {0};
    for (int64_t i = 0; i < rows; i++) {
        const real *row = x + i * pitch;
        NN_EACH for (int64_t j = 0; j < n; j++) part[j] += row[j];
    }
    for (int64_t j = 0; j < n; j++) total[j] += (double)part[j];
}

static void column_sum(const void *xv, int64_t pitch, int64_t rows, void *yv, int64_t n) {
    const real *x = xv;
    real *y = yv;
    for (int64_t first = 0; first < n; first += COLUMNS) {
        double total[COLUMNS] = {0};
        int64_t width = n - first < COLUMNS ? n - first : COLUMNS;
        for (int64_t i = 0; i < rows; i += ROWS)
            add_block(x + i * pitch + first, pitch, rows - i < ROWS ? rows - i : ROWS, total, width);
        for (int64_t j = 0; j < width; j++) y[first + j] = (real)total[j];
    }
}

static double row_max(const void *xv, int64_t sx, int64_t n, int64_t *at) {
    const real *x = xv;
    real most = x[0];
    *at = 0;
    for (int64_t i = 1; i < n && most == most; i++)
        if (!(x[i * sx] <= most)) {
            most = x[i * sx];
            *at = i;
        }
    return (double)most;
}

void NN(list_sum)(rshn_kernels *k) {
    k->row_sum = row_sum;
    k->column_sum = column_sum;
    k->row_max = row_max;
}
