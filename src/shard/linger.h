/* linger: how long a rank that gives up waits for those who read its memory.
 *
 * They end, or fail and say so, but some may be stuck as well.  One clock serves them all, so that
 * the number of those who are stuck does not matter: until RESHARD_TIMEOUT after the run began, and
 * for LINGER seconds at least.  Then the memory goes back to the caller, and a reader that wakes up
 * later finds that this rank has left. */
#ifndef RESHARD_SHARD_LINGER_H
#define RESHARD_SHARD_LINGER_H

#include "comm/comm.h"

typedef struct rshi_linger {
    rsh_comm *comm;
    double since; /* seconds that the run had taken when the rank gave up */
    rshi_watch watch;
    int reader; /* a rank that may still read, -1: none */
} rshi_linger;

/* `begun`: rshi_seconds when the run began. */
rshi_linger rshi_linger_new(rsh_comm *comm, double begun);
/* Wait until the flag of `peer` is at `target`, the peer is lost, or the time is over. */
void rshi_linger_for(rshi_linger *l, int peer, const rshi_flag *flag, uint64_t target);

#endif
