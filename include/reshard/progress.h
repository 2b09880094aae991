/* Progress: how a caller follows work that takes long, and stops it. */
#ifndef RESHARD_PROGRESS_H
#define RESHARD_PROGRESS_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Called now and then, by one thread at a time: `done` of `total` is done, in bytes or in whatever
 * unit the work has.  A non-zero return stops the work: RSH_ERUNTIME. */
typedef int (*rsh_progress_fn)(void *ctx, uint64_t done, uint64_t total);

#ifdef __cplusplus
}
#endif
#endif
