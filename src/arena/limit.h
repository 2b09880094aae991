/* limit: how much memory this process may still take before the kernel ends a process for the lack
 * of it: what the machine has, and what each of the control groups that it is in allows. */
#ifndef RESHARD_ARENA_LIMIT_H
#define RESHARD_ARENA_LIMIT_H

#include "base/base.h"

/* The tightest of all limits that were found. */
typedef struct rshi_limit {
    uint64_t left;    /* bytes; UINT64_MAX: there is no limit */
    uint64_t allowed; /* bytes in all, of which the rest is in use */
    char name[512];   /* the file it stands in */
} rshi_limit;

/* Local.  Reads some ten small files, which takes about a tenth of a millisecond.  `root` is put in
 * front of all their paths: "" is this machine, tests have folders of their own. */
rshi_limit rshi_limit_find(const char *root);

/* Local.  One process at a time under this limit, for as long as it takes what is left of it: a
 * descriptor to close, or -1 where that cannot be had (soon). */
int rshi_limit_lock(const rshi_limit *l);

#endif
