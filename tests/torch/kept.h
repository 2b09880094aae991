/* kept: a sink that keeps what is written, for tests that save. */
#ifndef RESHARD_TESTS_KEPT_H
#define RESHARD_TESTS_KEPT_H

#include <reshard.h>

#include <stdlib.h>
#include <string.h>

typedef struct bytes {
    char *data; /* freed by its owner */
    size_t n;
} bytes;

static inline int keep(void *ctx, const char *text, size_t length) {
    bytes *b = ctx;
    b->data = realloc(b->data, b->n + length + 1);
    if (!b->data) abort();
    memcpy(b->data + b->n, text, length);
    b->n += length;
    return 0;
}

#endif
