/* Pool: threads that share the copying of one rank. */
#ifndef RESHARD_POOL_H
#define RESHARD_POOL_H

#include <reshard/status.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A set of copy threads.  One thread uses a pool at a time. */
typedef struct rsh_pool rsh_pool;

/* A pool of n threads; n <= 0: as many as there are cores.  The calling thread works too, so n
 * counts it.  The caller frees *out.
 * RSH_ERUNTIME if a thread cannot be started; RSH_ENOMEM.  Local. */
RSH_API rsh_status rsh_pool_new(int n, rsh_pool **out);
/* The cores that the calling thread may run on, at least 1.  Local. */
RSH_API int rsh_usable_cores(void);
/* The number of threads, the calling one included; 0 for NULL.  Local. */
RSH_API int rsh_pool_size(const rsh_pool *pool);
/* Runs task(ctx, i, worker) for i from 0 to ntasks - 1, in any order; `worker` is below the size.
 * Returns when all tasks are done.  With a pool of NULL, and in a forked child of the process that
 * made the pool, the calling thread runs them all.  No-op for a task of NULL.  Local. */
RSH_API void rsh_pool_run(rsh_pool *pool, int64_t ntasks,
                          void (*task)(void *ctx, int64_t i, int worker), void *ctx);
/* Ends the threads.  No-op for NULL.  Local. */
RSH_API void rsh_pool_free(rsh_pool *pool);

#ifdef __cplusplus
}
#endif
#endif
