/* Pool: threads that share the copying of one rank. */
#ifndef RESHARD_POOL_H
#define RESHARD_POOL_H

#include <reshard/status.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A set of copy threads.  One thread uses a pool at a time. */
typedef struct rsh_pool rsh_pool;

/* Makes a pool of n threads; n <= 0: one per usable core.  The calling thread works too and is
 * included in n.  The caller frees *out.
 * RSH_ERUNTIME if a thread cannot be started; RSH_ENOMEM.  Local. */
RSH_API rsh_status rsh_pool_new(int n, rsh_pool **out);
/* Returns the number of cores that the calling thread may run on, at least 1.  Local. */
RSH_API int rsh_usable_cores(void);
/* Returns the number of threads, including the calling one; 0 for NULL.  Local. */
RSH_API int rsh_pool_size(const rsh_pool *pool);
/* Runs task(ctx, i, worker) for i from 0 to ntasks - 1, in any order; `worker` is the number of the
 * thread, counted from 0.  Returns when all tasks are done.  If pool is NULL, and in a forked child
 * of the process that made the pool, the calling thread runs them all.  No-op if task is NULL.
 * Local. */
RSH_API void rsh_pool_run(rsh_pool *pool, int64_t ntasks,
                          void (*task)(void *ctx, int64_t i, int worker), void *ctx);
/* Ends the threads.  No-op for NULL.  Local. */
RSH_API void rsh_pool_free(rsh_pool *pool);

#ifdef __cplusplus
}
#endif
#endif
