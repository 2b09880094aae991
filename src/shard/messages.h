/* messages: elements that ranks cannot, or must not, read in place are sent in packed messages of
 * bounded size. */
#ifndef RESHARD_SHARD_MESSAGES_H
#define RESHARD_SHARD_MESSAGES_H

#include "shard/reader_wait.h"
#include "shard/program.h"

typedef struct rshi_messages rshi_messages;

/* Local.  Allocates everything that runs need.  With `all`, ranks that could read one another's
 * memory use messages too.  `share` is this rank's share of the plan, `own` are its parts.  *out
 * stays NULL if this rank has no messages. */
rsh_status rshi_messages_new(const rsh_plan *plan, const rsh_share *share, rsh_comm *comm,
                             bool all, const rshi_parts *own, rshi_messages **out);
/* Local.  rshi_messages_show publishes what peers of this node need (nothing if m is NULL).  After
 * the exchange, rshi_messages_connect connects to what a peer has published. */
rsh_status rshi_messages_show(const rshi_messages *m, rshi_handle *out);
int rshi_messages_peer(
    const rshi_messages *m,
    int64_t i); /* the i-th rank with which messages are exchanged; -1: no more */
rsh_status rshi_messages_connect(rshi_messages *m, int64_t i, rshi_handle shown);
/* Local.  Set and return the tag of messages between nodes, which is the same on every rank. */
void rshi_messages_set_tag(rshi_messages *m, int tag);
int rshi_messages_tag(const rshi_messages *m);
void rshi_messages_free(rshi_messages *m);

/* A run: begin, then steps until all is done.  `base` has the address of each of this rank's parts
 * by number.  `stage` is the current one: this rank has completed all earlier ones.  A step packs
 * at most one message and unpacks at most one, and does not wait; *moved: there was progress. */
void rshi_messages_begin(rshi_messages *m);
rsh_status rshi_messages_step(rshi_messages *m, int stage, char *const *base, bool *moved);
bool rshi_messages_received(
    const rshi_messages *m,
    int stage); /* have all messages of this stage and earlier ones arrived, and been unpacked? */
bool rshi_messages_done(const rshi_messages *m); /* have all messages arrived, and are all outgoing
                                                    ones complete? */
/* If all peers are on this node: waits until a step would make progress.  All stages before that of
 * the next message must be complete. */
rsh_status rshi_messages_wait(rshi_messages *m);
/* Lists the ranks, at most two, that must act before a step can make progress; returns their
 * number. */
int rshi_messages_awaited(rshi_messages *m, int peers[2]);
/* Called after a failure: lets peers of this node finish reading; this rank expects no more
 * messages. */
void rshi_messages_give_up(rshi_messages *m, rshi_reader_wait *readers);

uint64_t
rshi_messages_bytes_near(const rshi_messages *m); /* received in a run from ranks of this node */
uint64_t rshi_messages_bytes_far(const rshi_messages *m);   /* received in a run from ranks of other
                                                               nodes */
uint64_t rshi_messages_bytes_local(
    const rshi_messages *m); /* contributions of this rank to elements that it receives */

#endif
