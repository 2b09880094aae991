/* Patience: how a rank rests while nothing moves, and when it asks whether the others still live. */
#include "shard/exec_run.h"
#include "wait/wait.h"

#include <time.h>

#define SPINS 50       /* looks in vain before the core is offered to others */
#define YIELDS 200     /* and before the rank sleeps between them */
#define NAP 50000      /* nanoseconds of a sleep, at most */
#define ASKING 2e-3    /* seconds between two questions whether the others still live */
#define OVERTAKING                                                                                                     \
    0.1 /* seconds that messages of a rank that has left may take longer than its farewell, where a wire has several   \
           ways */
#define A_LOOK 0.01    /* of them that one look in vain is worth, at most: a wire is driven by looks, not by time */

/* Is somebody that this rank waits for no longer there? */
static rsh_status check_peers(rsh_exec *e, double waited) {
    int peers[3], n = e->messages ? rshi_messages_awaited(e->messages, peers) : 0;
    if (e->missing >= 0) peers[n++] = e->missing;
    for (int i = 0; i < n; i++) RSH_TRY(e->comm->ops->check_peer(e->comm, peers[i], waited));
    return RSH_OK;
}

/* A rank of this node that makes one run fewer and waits in a collective call is found out at once: it says on the
 * board in which call it is, and its flag, which is memory, shows that it did not begin the run.  Of a rank of another
 * node only messages are known.  One of a collective call may be here while those of the run that its rank did make are
 * still on their way: they have other tags, and a wire keeps no order between tags.  So it proves nothing, and nothing
 * in it says how many runs its rank has made.  Such a rank is missed after RESHARD_TIMEOUT, by a roll call that names
 * it. */

/* What a rank sent before it left still counts, so that there is one more look before a suspicion becomes a verdict; on
 * a wire, looks for a while.  Time alone does not count: on a busy machine much of it passes without a look. */
static rsh_status ask(rsh_exec *e, double waited) {
    rsh_status st = check_peers(e, waited);
    bool first = !e->suspects;
    e->looked = false;
    e->suspects = st != RSH_OK;
    if (first) e->lost = (rshi_watch){0};
    double lost = rshi_watch_look(&e->lost, A_LOOK);
    if (first || (e->comm->node && lost < OVERTAKING)) return RSH_OK;
    return rshi_comm_verdict(e->comm, st);
}

/* Nothing has moved: rest a little, and now and then ask whether the others still live.  A rank that only tests offers
 * its core too: where there are more ranks than cores, those that test in a loop would use up the time of those that
 * have something to send. */
rsh_status rshi_exec_rest(rsh_exec *e, bool may_wait) {
    if (e->looks++ < SPINS) return RSH_OK;
    if (e->looks < SPINS + YIELDS && rshi_yield()) return RSH_OK;
    double waited = rshi_watch_look(&e->watch, RSHI_WATCH_STEP);
    if (e->looked && (e->suspects || waited - e->asked > ASKING)) {
        e->asked = waited;
        RSH_TRY(ask(e, waited));
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
