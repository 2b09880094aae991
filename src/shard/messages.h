/* messages: a run in which nobody reads a peer's tensors; what ranks have for one another travels in packed chunks. */
#ifndef RESHARD_SHARD_MESSAGES_H
#define RESHARD_SHARD_MESSAGES_H

#include "comm/comm.h"
#include "shard/program.h"

typedef struct rshi_messages rshi_messages;

/* Local.  Everything that runs will need, and the moves inside this rank into `local`.  `own` finds this rank's parts. */
rsh_status rshi_messages_new(const rsh_plan *plan, rsh_comm *comm, const rshi_finder *own, rshi_program *local, rshi_messages **out);
/* Collective; then local.  After them messages can pass. */
rsh_status rshi_messages_exchange(rshi_messages *m);
rsh_status rshi_messages_connect(rshi_messages *m);
void rshi_messages_free(rshi_messages *m);

/* A run: begin, then go on until *done; with `block` that is after one call.  `base` has the address of each of this rank's parts by number.
 * Moves inside this rank that belong to stage 0 are done by then. */
void rshi_messages_begin(rshi_messages *m);
rsh_status rshi_messages_go_on(rshi_messages *m, char *const *base, bool block, bool *done);
/* After a failure: wait until nobody reads this rank's chunk any more. */
void rshi_messages_give_up(rshi_messages *m);

uint64_t rshi_messages_bytes(const rshi_messages *m);       /* received in a run */
uint64_t rshi_messages_bytes_local(const rshi_messages *m); /* contributions of this rank to what it receives */

#endif
