/* Pool: threads that share the copying of one rank. */
#ifndef RESHARD_POOL_H
#define RESHARD_POOL_H

#include <reshard/status.h>

#ifdef __cplusplus
extern "C" {
#endif

/* An explicit set of copy threads, owned by the caller and used by one thread at a time.  n <= 0:
 * as many as there are cores. The calling thread works too, so n counts it. */
typedef struct rsh_pool rsh_pool;
RSH_API rsh_status rsh_pool_new(int n, rsh_pool **out);
RSH_API int rsh_pool_size(const rsh_pool *pool);
/* Run task(ctx, i, worker) for i in 0..ntasks-1, any order; worker in 0..size-1.  Returns when all
 * are done.  A pool of NULL is the calling thread alone; no-op for a task of NULL. */
RSH_API void rsh_pool_run(rsh_pool *pool, int64_t ntasks,
                          void (*task)(void *ctx, int64_t i, int worker), void *ctx);
RSH_API void rsh_pool_free(rsh_pool *pool);

#ifdef __cplusplus
}
#endif
#endif
