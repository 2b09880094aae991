/* exec_run: what the files that run an exec ask of one another. */
#ifndef RESHARD_SHARD_EXEC_RUN_H
#define RESHARD_SHARD_EXEC_RUN_H

#include "shard/exec.h"

/* ---- flags ---- */

/* Values of a rank's flag in the run at hand: `done` 0 when its source is ready, 1 + s when stage s
 * is done; one more than when all are for a rank that has heard that the run is refused, and two
 * more for one that refuses it. */
static inline uint64_t rshi_flag_value(const rsh_exec *e, uint64_t start, int done) {
    return start + e->runs * (uint64_t)(e->stages + 3) + 1 + (uint64_t)done;
}
static inline uint64_t rshi_flag_read(const rshi_flag *flag) {
    return atomic_load_explicit(&((rshi_flag *)flag)->value, memory_order_acquire);
}
/* Wait until a peer's flag is at a value; without `may_wait` *there may become false: not yet. */
rsh_status rshi_exec_await_value(rsh_exec *e, const rshi_peer *p, uint64_t target, bool may_wait,
                                 bool *there);

/* Addresses of all parts that the exec's moves use. */
void rshi_exec_look_up_peers(rsh_exec *e);

/* ---- patience: exec_wait.c ---- */

/* Nothing has moved: rest a little. */
rsh_status rshi_exec_rest(rsh_exec *e, bool may_wait);
/* Something has: start to count anew. */
void rshi_exec_note_progress(rsh_exec *e);

/* ---- refusals and failures: exec_fail.c ---- */

/* Can the run end by a refusal with that status, so that exec and comm stay good? */
bool rshi_exec_can_refuse(const rsh_exec *e, rsh_status status);
void rshi_exec_refuse(rsh_exec *e, rsh_status status);
/* Why: the status; the sentence becomes the thread's. */
rsh_status rshi_refusal_tell(const rshi_refusal *r);
/* End a run that was refused; *refused: why, once all neighbours know. */
rsh_status rshi_exec_finish_refused(rsh_exec *e, bool may_wait, bool *there, rsh_status *refused);
/* End the run and with it the comm.  Returns the status that the caller should. */
rsh_status rshi_exec_give_up(rsh_exec *e, rsh_status status);
/* The comm's failure, if it has one. */
rsh_status rshi_exec_still_good(const rsh_exec *e);
/* The run is no longer among those under way. */
void rshi_exec_come_to_rest(rsh_exec *e);

#endif
