/* Dims: checked integer arithmetic on shapes. */
#include "base/base.h"

int64_t rshi_gcd(int64_t a, int64_t b) {
    while (b) {
        int64_t t = a % b;
        a = b;
        b = t;
    }
    return a;
}

bool rshi_product(int n, const int64_t *sizes, int64_t *out) {
    int64_t p = 1;
    for (int i = 0; i < n; i++)
        if (!rshi_mul(p, sizes[i], &p)) return false;
    *out = p;
    return true;
}

void rshi_dense_strides(int ndim, const int64_t *shape, const int *order, int64_t *strides) {
    uint64_t step = 1; /* may wrap around if another size is 0; the strides are then not used */
    for (int i = ndim - 1; i >= 0; i--) {
        int d = order ? order[i] : i;
        strides[d] = (int64_t)step;
        step *= (uint64_t)shape[d];
    }
}

int rshi_compare_int64(const void *a, const void *b) {
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}
