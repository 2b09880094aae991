/* Whole: reads whole tensors of a checkpoint for tests, row-major, whatever parts they are stored
 * in. */
#ifndef TESTS_CKPT_READ_WHOLE_H
#define TESTS_CKPT_READ_WHOLE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "ckpt/read_box.h"

static inline void must(rsh_status st) {
    if (st) fail_msg("%s", rsh_error_detail());
}

static inline int64_t tensor_bytes(const rsh_ckpt *c, int64_t t) {
    return rshi_ckpt_count(&c->tensor[t]) * rsh_dtype_bits(c->tensor[t].dtype) / 8;
}

/* Returns the bytes of a tensor, row-major; the caller frees them. */
static inline unsigned char *read_whole(const rsh_ckpt *c, int64_t t, uint64_t *read) {
    int64_t strides[RSH_MAX_NDIM], n = tensor_bytes(c, t);
    unsigned char *bytes = malloc((size_t)n + 1);
    assert_non_null(bytes);
    memset(bytes, 0xee, (size_t)n + 1);
    rshi_dense_strides(c->tensor[t].ndim, c->tensor[t].shape, NULL, strides);
    must(rshi_ckpt_read_box(c, t, NULL, (char *)bytes, strides, read));
    return bytes;
}

#endif
