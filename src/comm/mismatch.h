/* mismatch: what a rank found when it compared the lists of messages of an exchange, the same on
 * every engine. */
#ifndef RESHARD_COMM_MISMATCH_H
#define RESHARD_COMM_MISMATCH_H

#include "base/base.h"

enum {
    RSHI_MISMATCH_NONE,
    RSHI_MISMATCH_COUNT,
    RSHI_MISMATCH_BYTES
}; /* nothing; number of messages; size of one */

/* All zero: nothing.  Ranks lay it on their boards as it is. */
typedef struct rshi_mismatch {
    int64_t wrong;
    int64_t from, to, message;
    uint64_t sent, expected; /* messages or bytes */
} rshi_mismatch;

/* RSH_EMISMATCH and the sentence. */
rsh_status rshi_mismatch_report(const rshi_mismatch *m);

#endif
