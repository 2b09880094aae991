/* Reader wait: waits for readers by polling their flags with short sleeps. */
#include "shard/reader_wait.h"

#include <time.h>

#define LEAST_WAIT 0.8     /* seconds, at least, so that a run ends less than a second after RESHARD_TIMEOUT */
#define NAP 500000L    /* nanoseconds between two polls */

rshi_reader_wait rshi_reader_wait_new(rsh_comm *comm, double begun) {
    return (rshi_reader_wait){.comm = comm, .since = rshi_seconds() - begun, .reader = -1};
}

static bool is_there(const rshi_flag *flag, uint64_t target) {
    return atomic_load_explicit(&((rshi_flag *)flag)->value, memory_order_acquire) >= target;
}

/* Returns whether a rank may still read; a lost rank does not read any more.  The watch is read once for each poll of
 * the flag. */
static bool may_read(rshi_reader_wait *l, int peer) {
    double waited = rshi_watch_look(&l->watch, RSHI_WATCH_STEP);
    rsh_status st = l->comm->ops->check_peer(l->comm, peer, l->since + waited);
    if (st != RSH_ETIMEOUT) return !st;
    if (waited < LEAST_WAIT) return true;
    l->reader = peer;
    return false;
}

void rshi_reader_wait_for(rshi_reader_wait *l, int peer, const rshi_flag *flag, uint64_t target) {
    while (!is_there(flag, target) && may_read(l, peer)) nanosleep(&(struct timespec){0, NAP}, NULL);
}
