/* Reference: measures the time of memcpy for the same number of bytes. */
#include "comparison.h"

#include <string.h>

/* Returns the start of the i-th slice.  Worker i copies it in one call, so that memcpy uses its method for large
 * blocks.  Slices have whole cache lines. */
static size_t slice_start(const reference *r, int64_t i) {
    size_t lines = (r->bytes + 63) / 64, start = lines * (size_t)i / (size_t)rsh_pool_size(r->pool) * 64;
    return start < r->bytes ? start : r->bytes;
}

static void copy_slice(void *ctx, int64_t i, int worker) {
    const reference *r = ctx;
    size_t start = slice_start(r, i), bytes = slice_start(r, i + 1) - start;
    char *to = rsh_tensor_data(r->to);
    const char *from = rsh_tensor_data(r->from);
    (void)worker;
    for (int64_t b = 0; b < r->batch; b++) {
        memcpy(to + start, from + start, bytes);
        __asm__ volatile("" ::: "memory"); /* keep the compiler from removing repeated copies */
    }
}

double reference_sample(reference *r, int64_t batch) {
    r->batch = batch;
    double start = clock_seconds();
    rsh_pool_run(r->pool, rsh_pool_size(r->pool), copy_slice, r);
    return (clock_seconds() - start) / (double)batch;
}

rsh_status reference_open(reference *r, size_t bytes) {
    int64_t n = (int64_t)bytes;
    r->bytes = bytes;
    rsh_status st = rsh_pool_new(0, &r->pool);
    if (!st) st = rsh_tensor_empty(RSH_U8, 1, &n, &r->from);
    if (!st) st = rsh_tensor_empty(RSH_U8, 1, &n, &r->to);
    if (st) return st;
    memset(rsh_tensor_data(r->from), 1, bytes); /* touch all pages */
    memset(rsh_tensor_data(r->to), 2, bytes);
    return RSH_OK;
}

void reference_close(reference *r) {
    rsh_tensor_free(r->from);
    rsh_tensor_free(r->to);
    rsh_pool_free(r->pool);
}
