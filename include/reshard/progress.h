/* Progress: callbacks that follow long work and stop it. */
#ifndef RESHARD_PROGRESS_H
#define RESHARD_PROGRESS_H

#include <stdint.h>

#include <reshard/version.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Called now and then, by one thread at a time, with the work `done` of `total`, in bytes or
 * another unit of the work.  A non-zero return stops the work with RSH_ERUNTIME. */
typedef int (*rsh_progress_fn)(void *ctx, uint64_t done, uint64_t total);

/* Called about every 50 ms while a call of this thread waits for other ranks.  A non-zero return
 * ends the wait: the call fails as if RESHARD_TIMEOUT had passed (RSH_ETIMEOUT, "interrupted"), the
 * comm has failed, and the other ranks get RSH_EPEER.  The function must not call the library. */
typedef int (*rsh_interrupt_fn)(void *ctx);
/* Sets this function for the calling thread; NULL removes it.  Bindings of other languages use it
 * to end waits on Ctrl-C.  Local. */
RSH_API void rsh_interrupt_set(rsh_interrupt_fn fn, void *ctx);

#ifdef __cplusplus
}
#endif
#endif
