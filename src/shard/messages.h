/* messages: what ranks have for one another and cannot, or must not, read where it lies; it travels
 * in packed messages of bounded size. */
#ifndef RESHARD_SHARD_MESSAGES_H
#define RESHARD_SHARD_MESSAGES_H

#include "shard/linger.h"
#include "shard/program.h"

typedef struct rshi_messages rshi_messages;

/* Local.  Everything that runs will need; `all`: also between ranks that could read one another's
 * memory.  `share` is this rank's, `own` are its parts.  *out stays NULL where this rank has no
 * messages. */
rsh_status rshi_messages_new(const rsh_plan *plan, const rsh_share *share, rsh_comm *comm,
                             bool all, const rshi_parts *own, rshi_messages **out);
/* Local: what a peer of this node needs to know (m NULL: nothing); and, once everybody's is here,
 * to find theirs. */
rsh_status rshi_messages_show(const rshi_messages *m, rshi_handle *out);
int rshi_messages_peer(
    const rshi_messages *m,
    int64_t i); /* the i-th rank that messages are exchanged with; -1: there are not so many */
rsh_status rshi_messages_connect(rshi_messages *m, int64_t i, rshi_handle shown);
/* Local.  The tag of messages between nodes, the same on every rank. */
void rshi_messages_set_tag(rshi_messages *m, int tag);
int rshi_messages_tag(const rshi_messages *m);
void rshi_messages_free(rshi_messages *m);

/* A run: begin, then steps until all is done.  `base` has the address of each of this rank's parts
 * by number.  `stage` is the one at hand: this rank has completed all earlier ones.  A step packs
 * one message and unpacks one at most and does not wait; *moved: something happened. */
void rshi_messages_begin(rshi_messages *m);
rsh_status rshi_messages_step(rshi_messages *m, int stage, char *const *base, bool *moved);
bool rshi_messages_received(
    const rshi_messages *m,
    int stage); /* has all of this stage and earlier ones come, and been unpacked? */
bool rshi_messages_done(const rshi_messages *m); /* and nothing is on its way out either */
/* Where all peers are near: wait until a step would do something, all stages before that of the
 * next message being complete. */
rsh_status rshi_messages_wait(rshi_messages *m);
/* The ranks, two at most, that must do something before a step can; how many. */
int rshi_messages_awaited(rshi_messages *m, int peers[2]);
/* After a failure: let peers of this node finish reading, expect nothing any more. */
void rshi_messages_give_up(rshi_messages *m, rshi_linger *linger);

uint64_t
rshi_messages_bytes_near(const rshi_messages *m); /* received in a run from ranks of this node */
uint64_t rshi_messages_bytes_far(const rshi_messages *m);   /* and of other nodes */
uint64_t rshi_messages_bytes_local(
    const rshi_messages *m); /* contributions of this rank to what it receives */

#endif
