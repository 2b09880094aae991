/* storage: memory that tensors share; the last to drop it frees it. */
#ifndef RESHARD_TENSOR_STORAGE_H
#define RESHARD_TENSOR_STORAGE_H

#include <stdatomic.h>

#include <reshard/tensor.h>

#include "base/base.h"

typedef struct rshi_storage {
    atomic_long refs;
    atomic_uint_fast64_t version; /* changes of its elements so far */
    uint64_t serial;              /* that no other storage of the process has or had */
    char *data;                   /* the first byte */
    size_t bytes;                 /* from there on; no view reaches beyond */
    rshi_account *owner; /* a reference; NULL for memory of somebody else, not ours to free */
    void (*deleter)(void *ctx);
    void *ctx;
} rshi_storage;

/* New with one reference; NULL and a sentence when there is no memory. */
rshi_storage *rshi_storage_new(size_t bytes, bool zero);
/* Memory of somebody else: `bytes` from `data` on. */
rshi_storage *rshi_storage_wrap(void *data, size_t bytes, void (*deleter)(void *ctx), void *ctx);

rshi_storage *rshi_storage_hold(rshi_storage *s);
void rshi_storage_drop(rshi_storage *s);

#endif
