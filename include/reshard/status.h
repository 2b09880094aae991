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
/* For functions of yours that the library calls, such as those of ranks, wires, ops and hooks:
 * leaves the sentence for this thread and returns the status.  It cuts sentences after 1023 bytes.
 * RSH_EVALUE if the status is not a failure.  Local. */
RSH_API rsh_status rsh_fail(rsh_status status, const char *sentence);

#ifdef __cplusplus
}
#endif
#endif
