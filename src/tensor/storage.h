/* storage: memory that tensors share; the last to drop it frees it. */
#ifndef RESHARD_TENSOR_STORAGE_H
#define RESHARD_TENSOR_STORAGE_H

#include <stdatomic.h>

#include "base/base.h"

typedef struct rshi_storage {
    atomic_long refs;
    char *data;
    size_t bytes;
    rshi_account *owner; /* a reference; NULL for memory of somebody else */
    bool foreign; /* wrapped: not ours to free, extent unknown */
    void (*deleter)(void *ctx);
    void *ctx;
} rshi_storage;

/* New with one reference; NULL and a sentence when there is no memory. */
rshi_storage *rshi_storage_new(size_t bytes, bool zero);
rshi_storage *rshi_storage_wrap(void *data, void (*deleter)(void *ctx), void *ctx);

rshi_storage *rshi_storage_hold(rshi_storage *s);
void rshi_storage_drop(rshi_storage *s);

#endif
