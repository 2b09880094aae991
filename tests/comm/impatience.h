/* impatience: a short timeout for one rank, set after the ranks have met.  RESHARD_TIMEOUT would
 * hold from the start, and a busy machine could break what a test prepares before the wait that it
 * is about. */
#ifndef RESHARD_TESTS_COMM_IMPATIENCE_H
#define RESHARD_TESTS_COMM_IMPATIENCE_H

#include "comm/comm.h"
#include "wire/wire.h"

static inline void shorten(rshi_patience *p, double seconds) {
    p->timeout = seconds;
    if (p->nap > seconds) p->nap = seconds;
}

/* Local: this rank waits for at most so many seconds from now on. */
static inline void set_timeout(rsh_comm *c, double seconds) {
    shorten(&c->here->world->patience, seconds);
    shorten(&c->patience, seconds);
    if (c->link) shorten(&c->link->patience, seconds);
}

#endif
