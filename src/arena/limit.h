/* limit: how much memory this process may still allocate before the kernel kills a process: the
 * memory of the machine, and the limits of each control group that it is in. */
#ifndef RESHARD_ARENA_LIMIT_H
#define RESHARD_ARENA_LIMIT_H

#include "base/base.h"

/* The tightest of all limits. */
typedef struct rshi_limit {
    uint64_t left;    /* bytes; UINT64_MAX: there is no limit */
    uint64_t allowed; /* bytes in total; the rest is in use */
    char name[512];   /* of the file that states the limit */
} rshi_limit;

/* Local.  Reads about ten small files, which takes about a tenth of a millisecond.  `root` is
 * prepended to all paths: "" for this machine; tests use their own folders. */
rshi_limit rshi_limit_find(const char *root);

/* Local.  Takes a lock, so that only one process at a time allocates the rest of this limit.
 * Returns a descriptor, which the caller closes to release the lock, or -1 if the lock does not
 * become available soon. */
int rshi_limit_lock(const rshi_limit *l);

#endif
