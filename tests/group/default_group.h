/* default_group: rank functions that have a default group.  Public headers only. */
#ifndef RESHARD_TESTS_GROUP_DEFAULT_GROUP_H
#define RESHARD_TESTS_GROUP_DEFAULT_GROUP_H

#include <reshard/torch/group.h>

/* A rank function that has a default group, and its context. */
typedef struct body {
    rsh_status (*fn)(void *ctx);
    void *ctx;
} body;

static inline rsh_status with_default_group(void *ctx, rsh_comm *c) {
    const body *b = ctx;
    rsh_status st = rsh_group_init(c);
    if (!st) st = b->fn(b->ctx);
    return st ? st : rsh_group_destroy();
}

#endif
