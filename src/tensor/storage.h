/* storage: reference-counted memory that tensors share. */
#ifndef RESHARD_TENSOR_STORAGE_H
#define RESHARD_TENSOR_STORAGE_H

#include <stdatomic.h>

#include <reshard/tensor.h>

#include "base/base.h"

typedef struct rshi_storage {
    atomic_long refs;
    atomic_uint_fast64_t version; /* number of changes of its elements */
    uint64_t serial;              /* unique in the process, never reused */
    char *data;                   /* the first byte */
    size_t bytes;                 /* its size; no view exceeds it */
    rshi_account *owner; /* a reference; NULL: the library does not own the memory */
    void (*deleter)(void *ctx);
    void *ctx;
} rshi_storage;

/* Creates a storage with one reference; NULL with an error message if memory runs out. */
rshi_storage *rshi_storage_new(size_t bytes, bool zero);
/* Wraps memory of the caller: `bytes` from `data` on. */
rshi_storage *rshi_storage_wrap(void *data, size_t bytes, void (*deleter)(void *ctx), void *ctx);

rshi_storage *rshi_storage_hold(rshi_storage *s);
void rshi_storage_drop(rshi_storage *s);

#endif
