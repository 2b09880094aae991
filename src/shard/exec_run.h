/* exec_run: shared by the files that run an exec. */
#ifndef RESHARD_SHARD_EXEC_RUN_H
#define RESHARD_SHARD_EXEC_RUN_H

#include "shard/exec.h"

/* ---- flags ---- */

/* Values of a rank's flag in the current run: `done` is 0 when its source is ready, 1 + s when
 * stage s is done; all stages plus one for a rank that passes a refusal on, and plus two for one
 * that refuses first. */
static inline uint64_t rshi_flag_value(const rsh_exec *e, uint64_t start, int done) {
    return start + e->runs * (uint64_t)(e->stages + 3) + 1 + (uint64_t)done;
}
static inline uint64_t rshi_flag_read(const rshi_flag *flag) {
    return atomic_load_explicit(&((rshi_flag *)flag)->value, memory_order_acquire);
}
/* Values after that of the last stage, which mean a refusal.  A flag that an exec gives back skips
 * them: a peer of that exec may look at it when another exec uses it already. */
enum { RSHI_REFUSED_VALUES = 2 };
/* Waits until a peer's flag reaches a value; without `may_wait` sets *there to false if it has
 * not. */
rsh_status rshi_exec_await_value(rsh_exec *e, const rshi_peer *p, uint64_t target, bool may_wait,
                                 bool *there);

/* Looks up the addresses of all parts that the exec's moves use. */
void rshi_exec_look_up_peers(rsh_exec *e);

/* ---- waiting: exec_wait.c ---- */

/* Called without progress: yields or sleeps for a moment. */
rsh_status rshi_exec_rest(rsh_exec *e, bool may_wait);
/* Called after progress: resets the counters. */
void rshi_exec_note_progress(rsh_exec *e);

/* ---- refusals and failures: exec_fail.c ---- */

/* Can the run end by a refusal with that status, so that exec and comm remain usable? */
bool rshi_exec_can_refuse(const rsh_exec *e, rsh_status status);
void rshi_exec_refuse(rsh_exec *e, rsh_status status);
/* Sets the thread's error message to the reason, and returns its status. */
rsh_status rshi_refusal_tell(const rshi_refusal *r);
/* Ends a refused run and sets *refused to its status.  *there becomes false if a neighbour does not
 * know of the refusal yet; then the run has not ended. */
rsh_status rshi_exec_finish_refused(rsh_exec *e, bool may_wait, bool *there, rsh_status *refused);
/* Ends the run and with it the comm.  Returns the status that the caller should return. */
rsh_status rshi_exec_give_up(rsh_exec *e, rsh_status status);
/* Returns the failure of the comm, if it has failed; otherwise RSH_OK. */
rsh_status rshi_exec_still_good(const rsh_exec *e);
/* Removes the run from the list of runs in progress. */
void rshi_exec_come_to_rest(rsh_exec *e);

#endif
