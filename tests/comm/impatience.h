/* impatience: a short timeout for one rank, set after all ranks have joined.  RESHARD_TIMEOUT would
 * apply from the start, and on a busy machine it could expire while the test is still preparing. */
#ifndef RESHARD_TESTS_COMM_IMPATIENCE_H
#define RESHARD_TESTS_COMM_IMPATIENCE_H

#include "comm/comm.h"
#include "wire/wire.h"

static inline void shorten(rshi_patience *p, double seconds) {
    p->timeout = seconds;
    if (p->nap > seconds) p->nap = seconds;
}

/* Local: from now on this rank waits for at most so many seconds. */
static inline void set_timeout(rsh_comm *c, double seconds) {
    shorten(&c->here->world->patience, seconds);
    shorten(&c->patience, seconds);
    if (c->link) shorten(&c->link->patience, seconds);
}

#endif
