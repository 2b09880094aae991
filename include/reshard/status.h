/* Status: what every fallible call returns, and the sentence that goes with it.
 *
 * A call that fails returns a code and leaves one sentence for the calling thread: what was asked,
 * what was found, where.  Results are written only on success.  The library never prints and never
 * exits.
 *
 * In every header:
 * - NULL where a function needs something, and a value that an enum does not have, are RSH_EVALUE.
 *   Functions that return no status return NULL, false or 0 instead, unless they document another
 *   value.  Functions that free are no-ops for NULL.
 * - A comment says what a function does, who owns the result, which errors it returns beside
 *   these, and whether it is pure, local or collective (see <reshard.h>).
 * - What the caller frees it frees with the _free function of the same noun. */
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

/* The name, "RSH_EVALUE", and the text, "invalid value".  For a number that is not a status:
 * "RSH_?" and "unknown status".  Static strings.  Pure. */
RSH_API const char *rsh_status_name(rsh_status status);
RSH_API const char *rsh_status_text(rsh_status status);

/* The sentence of the last failure on this thread; "" if there was none.  Borrowed until the next
 * failure.  Local. */
RSH_API const char *rsh_error_detail(void);

/* Memory that this thread has allocated since it started. */
typedef struct rsh_alloc_stats {
    uint64_t allocations;   /* successful requests */
    uint64_t live;          /* allocations minus frees, both counted on this thread */
    uint64_t scratch_bytes; /* scratch (staging buffers that hold elements) held now */
    uint64_t scratch_peak;  /* the most scratch held at once since rsh_alloc_reset_peak */
    uint64_t data_bytes;    /* elements of tensors and parts that this thread allocated and no
                               thread has freed yet */
    uint64_t cached_bytes;  /* blocks of such elements that were freed and are kept for reuse */
} rsh_alloc_stats;
/* The counts of the calling thread.  Local. */
RSH_API rsh_alloc_stats rsh_alloc_get_stats(void);
/* Sets scratch_peak of the calling thread to what it holds now.  Local. */
RSH_API void rsh_alloc_reset_peak(void);

/* Freed blocks of 64 KiB and more stay mapped and resident, up to a cap, and serve the next request
 * of about their size: new memory would cost more page faults than a copy costs time.  The cap is
 * for the whole process, shared memory included.  It is 1 GiB unless the environment variable
 * RESHARD_CACHE_BYTES gives another number; 0 keeps nothing.  Smaller blocks are kept by the thread
 * that frees them, up to 16 MiB, until it ends; they are not counted.  Before a call fails with
 * RSH_ENOMEM, the library returns what it keeps to the system and tries again.  Local, from any
 * thread. */
RSH_API void rsh_alloc_set_cap(uint64_t bytes);
RSH_API uint64_t rsh_alloc_get_cap(void);
/* Bytes that the process keeps now in blocks of 64 KiB and more.  Local, from any thread. */
RSH_API uint64_t rsh_alloc_cached(void);
/* Returns to the system all that the process keeps, and the small blocks of the calling thread.
 * Local, from any thread. */
RSH_API void rsh_alloc_trim(void);

/* For tests: makes the n-th allocation of this thread from now (0: the next) fail, once; n < 0
 * switches this off.  Local. */
RSH_API void rsh_alloc_fail_at(int64_t n);

#ifdef __cplusplus
}
#endif
#endif
