/* Message: the error message for two lists of messages that do not match. */
#include "base/base.h"

rsh_status rshi_mismatch_report(const rshi_mismatch *m) {
    if (m->wrong == RSHI_MISMATCH_COUNT)
        return rshi_fail(RSH_EMISMATCH, "exchange: rank %lld sends %llu messages to rank %lld, which expects %llu",
                         (long long)m->from, (unsigned long long)m->sent, (long long)m->to,
                         (unsigned long long)m->expected);
    return rshi_fail(RSH_EMISMATCH,
                     "exchange: message %lld from rank %lld to rank %lld has %llu bytes, expected %llu",
                     (long long)m->message, (long long)m->from, (long long)m->to, (unsigned long long)m->sent,
                     (unsigned long long)m->expected);
}
