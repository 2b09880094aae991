/* storage: memory that tensors share, with a count of references. */
#ifndef RESHARD_TENSOR_STORAGE_H
#define RESHARD_TENSOR_STORAGE_H

#include <stdatomic.h>

#include <reshard/tensor.h>

#include "base/base.h"

typedef struct rshi_storage {
    atomic_long refs;
    atomic_uint_fast64_t version; /* how often its elements have been changed */
    uint64_t serial;              /* never used again in this process */
    char *data;                   /* the first byte */
    size_t bytes;                 /* its size; views stay inside */
    rshi_account *owner;          /* a reference; NULL: wrapped memory, which `deleter` frees */
    void (*deleter)(void *ctx);
    void *ctx;
} rshi_storage;

/* New with one reference; returns NULL and sets the error message if memory is short. */
rshi_storage *rshi_storage_new(size_t bytes, bool zero);
/* Wraps `bytes` bytes at `data`; the last reference calls deleter(ctx), unless deleter is NULL. */
rshi_storage *rshi_storage_wrap(void *data, size_t bytes, void (*deleter)(void *ctx), void *ctx);

rshi_storage *rshi_storage_hold(rshi_storage *s);
void rshi_storage_drop(rshi_storage *s);

#endif
