/* Status: the result of every call that can fail, and the error message that goes with it.
 *
 * A call that fails returns a code and sets one error message for the calling thread, which says
 * what was asked and what was found.  Results are written only on success.  The library never
 * prints and never exits.
 *
 * For every header:
 * - A required argument that is NULL, or an enum value that does not exist, is RSH_EVALUE.
 *   Functions that return no status return NULL, false or 0 instead, unless they document another
 *   value.  Functions that free are no-ops for NULL.
 * - A comment says what a function does, who owns the result, which further errors it returns, and
 *   whether it is pure, local or collective (see <reshard.h>).
 * - The caller frees an object with the _free function of the same noun. */
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

/* Return the name, "RSH_EVALUE", and the text, "invalid value".  For a number that is not a status
 * they return "RSH_?" and "unknown status".  Static strings.  Pure. */
RSH_API const char *rsh_status_name(rsh_status status);
RSH_API const char *rsh_status_text(rsh_status status);

/* Returns the error message of the last failure on this thread; "" if there was none.  Borrowed
 * until the next failure.  Local. */
RSH_API const char *rsh_error_detail(void);
/* For functions of yours that the library calls, such as rank functions, wires, ops and hooks: sets
 * the error message of this thread and returns the status.  Messages are cut after 1023 bytes.
 * RSH_EVALUE if the status is not a failure.  Local. */
RSH_API rsh_status rsh_fail(rsh_status status, const char *sentence);

/* ---- structs that may grow ----
 *
 * A struct of options or results that begins with `struct_size` may get more members, at its end,
 * in later versions.  Start from its _INIT macro, which sets struct_size to the size in your
 * headers.  The same rule applies to all of them:
 * - a smaller size than the library's, from a program that was compiled with older headers, is
 *   accepted: missing options get their defaults, missing results are not written;
 * - a larger size, from newer headers, is accepted if the additional options are 0; additional
 *   results are set to 0;
 * - everything else is RSH_EVALUE: additional options that are not 0, impossible sizes, and 0, the
 *   size in a struct that did not start from its macro. */

/* Reads options by this rule, for libraries with such options of their own.  *options starts from
 * the macro `init` and has `size` bytes; the members of `given` are copied over it.  NULL for
 * `given` keeps the defaults.  Pure. */
RSH_API rsh_status rsh_options_read(const void *given, size_t size, const char *init,
                                    void *options);

#ifdef __cplusplus
}
#endif
#endif
