/* may_skip: may a test be skipped that cannot run on this machine or in this build?
 *
 * RESHARD_MAY_SKIP lists the accepted causes, separated by blanks, such as "root terminal".  If it
 * is set, any other cause is a failure.  If it is unset, every cause is accepted. */
#ifndef RESHARD_TESTS_MAY_SKIP_H
#define RESHARD_TESTS_MAY_SKIP_H

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { EXIT_SKIPPED = 77 }; /* ctest reports this as skipped */

static inline bool may_skip(const char *cause) {
    const char *list = getenv("RESHARD_MAY_SKIP");
    size_t n = strlen(cause);
    if (!list) return true;
    for (const char *at = list; (at = strstr(at, cause)); at += n)
        if ((at == list || at[-1] == ' ') && (!at[n] || at[n] == ' ')) return true;
    return false;
}

#endif
