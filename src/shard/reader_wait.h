/* reader_wait: how long a rank that gives up waits for the ranks that read its memory.
 *
 * Readers usually finish, or fail and report it, but some may be stuck.  One clock covers them all,
 * so the number of stuck ranks does not matter: until RESHARD_TIMEOUT after the run began, and at
 * least 0.8 seconds.  Then the caller may reuse the memory, and a reader that wakes up later finds
 * that this rank has left. */
#ifndef RESHARD_SHARD_READER_WAIT_H
#define RESHARD_SHARD_READER_WAIT_H

#include "comm/comm.h"

typedef struct rshi_reader_wait {
    rsh_comm *comm;
    double since; /* seconds since the start of the run when the rank gave up */
    rshi_watch watch;
    int reader; /* a rank that may still read, -1: none */
} rshi_reader_wait;

/* `begun`: rshi_seconds when the run began. */
rshi_reader_wait rshi_reader_wait_new(rsh_comm *comm, double begun);
/* Waits until the flag of `peer` reaches `target`, the peer is lost, or the time is over. */
void rshi_reader_wait_for(rshi_reader_wait *l, int peer, const rshi_flag *flag, uint64_t target);

#endif
