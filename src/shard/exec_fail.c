/* Failures: how a run ends if a rank refuses it or gives up. */
#include "shard/comm_cache.h"
#include "shard/team.h"
#include "shard/exec_run.h"

#include <stdio.h>

void rshi_exec_come_to_rest(rsh_exec *e) {
    rsh_exec **at = &e->clients->begun;
    while (*at != e) at = &(*at)->next_begun;
    *at = e->next_begun;
    e->state = RSHI_IDLE;
}

/* ---- refusals ---- */

/* Returns whether a run can be refused without losing the comm.  If all neighbours have flags, a refused run ends in
 * step: the rank sets its flag to the end of the run, and every rank that waits for it reads the reason and does the
 * same.  Each rank stays until its neighbours have ended the run too, so exec and comm remain usable.  Ranks that need
 * nothing from the refusing rank may complete the run.  If the run sends messages, this is not possible, and the comm
 * is abandoned. */
bool rshi_exec_can_refuse(const rsh_exec *e, rsh_status status) {
    return !e->comm->dead && !e->messages && e->state != RSHI_REFUSED && status != RSH_EMISMATCH;
}

void rshi_exec_refuse(rsh_exec *e, rsh_status status) {
    e->refusal->status = status;
    snprintf(e->refusal->detail, sizeof e->refusal->detail, "%s", rsh_error_detail());
    e->state = RSHI_REFUSED;
    rshi_team_refuse(e);
    e->comm->ops->post(e->comm, e->flag, rshi_flag_value(e, e->start, e->stages + 1 + e->refuser));
}

rsh_status rshi_refusal_tell(const rshi_refusal *r) {
    rshi_set_detail(r->detail);
    return (rsh_status)r->status;
}

/* Ends a refused run.  Every neighbour of the rank that refused it first reads that rank's flag before it ends the
 * run, and refuses it too.  A rank that only passes the refusal on may have neighbours that no longer wait for it and
 * have ended the run. */
rsh_status rshi_exec_finish_refused(rsh_exec *e, bool may_wait, bool *there, rsh_status *refused) {
    int done = e->stages + e->refuser;
    for (int64_t i = 1; i < e->npeers; i++)
        RSH_TRY(rshi_exec_await_value(e, &e->peers[i], rshi_flag_value(e, e->peers[i].start, done), may_wait, there));
    if (!*there) return RSH_OK;
    e->runs++;
    e->refusals++;
    rshi_exec_come_to_rest(e);
    *refused = rshi_refusal_tell(e->refusal);
    return RSH_OK;
}

/* ---- failures ---- */

/* Returns the progress of a peer at which it no longer uses this rank's memory: its parts, or its error message. -1: it
 * never uses that memory, because once a rank has left its team, no member uses its memory.  Until then any member may
 * use it. */
static int used_until(const rsh_exec *e, const rshi_peer *p) {
    if (e->team) return e->team_share.come ? e->stages : -1;
    return e->state == RSHI_REFUSED ? e->stages : p->due[RSHI_READERS];
}

/* Gives up a run.  The rank still waits until the readers of its memory have finished. */
rsh_status rshi_exec_give_up(rsh_exec *e, rsh_status status) {
    char detail[RSHI_DETAIL_BYTES];
    if (e->state == RSHI_REFUSED) status = rshi_refusal_tell(e->refusal); /* the first error is the one to report */
    snprintf(detail, sizeof detail, "%s", rsh_error_detail());
    rshi_comm_abandon(e->comm, status);
    rshi_team_leave(e);
    rshi_reader_wait readers = rshi_reader_wait_new(e->comm, e->begun);
    if (e->messages) rshi_messages_give_up(e->messages, &readers);
    for (int64_t i = 1; i < e->npeers; i++) {
        const rshi_peer *p = &e->peers[i];
        if (used_until(e, p) >= 0)
            rshi_reader_wait_for(&readers, p->rank, p->flag, rshi_flag_value(e, p->start, used_until(e, p)));
    }
    rshi_exec_come_to_rest(e);
    if (readers.reader < 0)
        rshi_set_detail(detail);
    else
        rshi_fail(status, "%.900s; waited another %.2g seconds, but rank %d may still be reading this rank's memory",
                          detail,
                  readers.watch.waited, readers.reader);
    return status;
}

rsh_status rshi_exec_still_good(const rsh_exec *e) {
    if (!e->comm->dead) return RSH_OK;
    return rshi_fail(e->comm->dead, "%s", e->comm->dead_detail);
}
