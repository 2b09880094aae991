/* Waiting: how a rank waits while there is no progress, and when it checks whether the others are alive. */
#include "shard/exec_run.h"
#include "wait/wait.h"

#include <time.h>

#define SPINS 50       /* polls without progress before the rank yields */
#define YIELDS 200     /* further polls before it sleeps between polls */
#define NAP 50000      /* nanoseconds of a sleep, at most */
#define ASKING 2e-3    /* seconds between two checks whether the others are alive */
#define OVERTAKING 0.1 /* seconds in which messages may still arrive after a farewell, if a wire has several paths */
#define A_LOOK 0.01    /* seconds charged per empty poll, at most: a wire makes progress by polls, not by time */

/* Fails if a rank that this one waits for has failed or left. */
static rsh_status check_peers(rsh_exec *e, double waited) {
    int peers[3], n = e->messages ? rshi_messages_awaited(e->messages, peers) : 0;
    if (e->missing >= 0) peers[n++] = e->missing;
    for (int i = 0; i < n; i++) RSH_TRY(e->comm->ops->check_peer(e->comm, peers[i], waited));
    return RSH_OK;
}

/* Detects a rank that made one run fewer and now waits in a collective call.  If it is on this node, it is detected at
 * once: its slot on the board shows its call, and its flag shows that it did not begin the run.  Of a rank on another
 * node only messages are known.  A message of a collective call may arrive while messages of a run that its rank did
 * make are still in progress, because they have other tags, and a wire keeps no order between tags.  So such a message
 * proves nothing.  A rank of this kind is reported after RESHARD_TIMEOUT, by a roll call that names it. */

/* Reports lost peers.  Messages that a rank sent before it left still count, so there is one more poll before a
 * suspicion becomes an error; on a wire, polls continue for a while.  Time alone does not count, because on a busy
 * machine much time may pass without a poll. */
static rsh_status check_for_lost_peers(rsh_exec *e, double waited) {
    rsh_status st = check_peers(e, waited);
    bool first = !e->suspects;
    e->looked = false;
    e->suspects = st != RSH_OK;
    if (first) e->lost = (rshi_watch){0};
    double lost = rshi_watch_look(&e->lost, A_LOOK);
    if (first || (e->comm->node && lost < OVERTAKING)) return RSH_OK;
    return rshi_comm_verdict(e->comm, st);
}

/* Called if there was no progress: waits for a moment, and regularly checks whether the others are alive.  A rank that
 * only tests yields too: if there are more ranks than cores, ranks that test in a loop would use up the time of those
 * that have something to send. */
rsh_status rshi_exec_rest(rsh_exec *e, bool may_wait) {
    if (e->looks++ < SPINS) return RSH_OK;
    if (e->looks < SPINS + YIELDS && rshi_yield()) return RSH_OK;
    double waited = rshi_watch_look(&e->watch, RSHI_WATCH_STEP);
    if (e->looked && (e->suspects || waited - e->asked > ASKING)) {
        e->asked = waited;
        RSH_TRY(check_for_lost_peers(e, waited));
    }
    if (may_wait || !rshi_yield()) nanosleep(&(struct timespec){0, NAP}, NULL);
    return RSH_OK;
}

void rshi_exec_note_progress(rsh_exec *e) {
    e->looks = 0;
    e->watch = (rshi_watch){0};
    e->asked = 0;
    e->suspects = false;
}
