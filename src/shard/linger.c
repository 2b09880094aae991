/* Linger: looks at a flag with short naps in between. */
#include "shard/linger.h"

#include <time.h>

#define LINGER 0.8     /* seconds: with RESHARD_TIMEOUT before it, less than a second too many */
#define NAP 500000L    /* nanoseconds */

rshi_linger rshi_linger_new(rsh_comm *comm, double begun) {
    return (rshi_linger){.comm = comm, .since = rshi_seconds() - begun, .reader = -1};
}

static bool is_there(const rshi_flag *flag, uint64_t target) {
    return atomic_load_explicit(&((rshi_flag *)flag)->value, memory_order_acquire) >= target;
}

/* Who is lost reads no more.  The watch is looked at once for each look at the flag. */
static bool may_read(rshi_linger *l, int peer) {
    double waited = rshi_watch_look(&l->watch, RSHI_WATCH_STEP);
    rsh_status st = l->comm->ops->check_peer(l->comm, peer, l->since + waited);
    if (st != RSH_ETIMEOUT) return !st;
    if (waited < LINGER) return true;
    l->reader = peer;
    return false;
}

void rshi_linger_for(rshi_linger *l, int peer, const rshi_flag *flag, uint64_t target) {
    while (!is_there(flag, target) && may_read(l, peer)) nanosleep(&(struct timespec){0, NAP}, NULL);
}
