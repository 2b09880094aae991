/* Status: what every fallible call returns, and the sentence that goes with it.
 *
 * A call that fails returns a code and leaves one sentence for the calling thread: what was asked,
 * what was found, where.  Results are written only on success.  The library never prints and never
 * exits.
 *
 * In every header: NULL where a function needs something, and a value that an enum does not have,
 * are RSH_EVALUE.  Functions without a status answer NULL, false or 0 to them, or what they say;
 * those that free are no-ops for NULL. */
#ifndef RESHARD_STATUS_H
#define RESHARD_STATUS_H

#include <stddef.h>
#include <stdint.h>

#include <reshard/version.h>

#ifdef __cplusplus
extern "C" {
#endif

#define RSH_STATUS_MAP(X)                                                                          \
    X(OK, 0, "success")                                                                            \
    X(EVALUE, 1, "invalid value")                                                                  \
    X(ETYPE, 2, "wrong type")                                                                      \
    X(EKEY, 3, "no such key")                                                                      \
    X(EINDEX, 4, "index out of range")                                                             \
    X(EATTR, 5, "no such attribute")                                                               \
    X(EUNSUP, 6, "not supported")                                                                  \
    X(ERUNTIME, 7, "failed at run time")                                                           \
    X(ENOMEM, 8, "out of memory")                                                                  \
    X(EIO, 9, "input or output failed")                                                            \
    X(EPEER, 10, "another rank failed")                                                            \
    X(EMISMATCH, 11, "ranks disagree")                                                             \
    X(ETIMEOUT, 12, "timed out")                                                                   \
    X(EBUSY, 13, "still in use")

typedef enum rsh_status {
#define RSH_STATUS_ENUM(name, number, text) RSH_##name = number,
    RSH_STATUS_MAP(RSH_STATUS_ENUM)
#undef RSH_STATUS_ENUM
} rsh_status;

/* "RSH_EVALUE", and "invalid value"; "RSH_?" and "unknown status" for a number that is none.  Pure.
 */
RSH_API const char *rsh_status_name(rsh_status status);
RSH_API const char *rsh_status_text(rsh_status status);

/* The sentence of the last failure on this thread; "" if there was none.  Borrowed until the next
 * failure.  Local. */
RSH_API const char *rsh_error_detail(void);

/* What this thread has asked of the allocation door since it started. */
typedef struct rsh_alloc_stats {
    uint64_t allocations;   /* successful requests */
    uint64_t live; /* allocations of this thread not yet freed, as far as this thread frees them
                      itself */
    uint64_t scratch_bytes; /* scratch (staging buffers that hold elements) held now */
    uint64_t scratch_peak;  /* the most scratch held at once since rsh_alloc_reset_peak */
    uint64_t data_bytes;    /* elements of tensors and parts that this thread asked for and nobody
                               has freed yet, on whichever thread */
    uint64_t cached_bytes;  /* blocks of such elements that were freed and are kept for reuse */
} rsh_alloc_stats;
RSH_API rsh_alloc_stats rsh_alloc_get_stats(void);
RSH_API void rsh_alloc_reset_peak(void);

/* Freed blocks of 64 KiB and more stay mapped and resident, up to a cap, and serve the next request
 * of about their size: new memory would cost more page faults than a copy costs time.  The cap is
 * for the whole process, shared memory included.  It is 1 GiB unless the environment variable
 * RESHARD_CACHE_BYTES gives another number; 0 keeps nothing.  What is kept is given back before a
 * call fails with RSH_ENOMEM.  Local, from any thread. */
RSH_API void rsh_alloc_set_cap(uint64_t bytes);
RSH_API uint64_t rsh_alloc_get_cap(void);
RSH_API uint64_t rsh_alloc_cached(void); /* bytes kept now, by all threads of the process */
RSH_API void rsh_alloc_trim(void);       /* give all that is kept back to the system */

/* For tests: the n-th allocation of this thread from now (0 = the next) fails, once; n < 0 switches
 * this off.  Local. */
RSH_API void rsh_alloc_fail_at(int64_t n);

#ifdef __cplusplus
}
#endif
#endif
