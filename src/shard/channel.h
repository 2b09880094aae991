/* channel: messages from rank to rank, in the order in which they were sent.
 *
 * Between ranks of one node a message lies in the sender's buffer, which peers can read, and is
 * handed over with two flags: sent, and taken.  Between nodes it goes over the comm's wire, from
 * the sender's buffer to that of the receiver.  Either way several may be on their way at once, and
 * nothing here waits unless it says so. */
#ifndef RESHARD_SHARD_CHANNEL_H
#define RESHARD_SHARD_CHANNEL_H

#include "copy/copy.h"
#include "shard/linger.h"

#define RSHI_WINDOW 8 /* messages that a rank may have on their way at once */

/* Both directions between this rank and a peer; a direction that is not used, and a peer of another
 * node, has no flags. */
typedef struct rshi_channel {
    int peer;
    bool near;
    rshi_flag *sent, *taken; /* this rank's: messages sent to the peer, messages taken from it */
    rshi_flag *peer_sent, *peer_taken;
    uint64_t sent_at, taken_at; /* where the flags stand; those of the peer when all that was sent
                                   or is expected has come */
    uint64_t peer_sent_at, peer_taken_at;
    struct rshi_end *mine;                /* what the peer sees of this rank */
    const struct rshi_end *end;           /* the peer's end, in its memory */
    const char *buffer;                    /* the peer's buffer */
} rshi_channel;

/* A message under way, at one of its ends. */
typedef struct rshi_pending {
    rshi_channel *channel; /* NULL: there is none after all */
    int64_t bytes;
    rshi_aside rest; /* of one that is expected: what was not taken so far; its source is known when
                        it has come */
    size_t footprint; /* bytes that a run writes where `rest` goes: large ones are written past the
                         caches */
    uint64_t number;  /* near: what a flag of the peer says when it has come, or was taken */
    rsh_wire_request request; /* far */
} rshi_pending;

typedef struct rshi_channels {
    rsh_comm *comm;
    int tag; /* of messages between nodes */
    rshi_channel *list; /* owned, by peer */
    int64_t n;
    char *buffer; /* owned: what is sent lies here */
    int64_t buffer_bytes;
    struct rshi_ends *ends; /* owned: what the peers see of this rank */
    size_t ends_bytes;
} rshi_channels;

enum { RSHI_SENDS = 1, RSHI_RECEIVES = 2 };

/* Local.  uses[r]: what passes between this rank and rank r. */
rsh_status rshi_channels_open(rshi_channels *c, rsh_comm *comm, const unsigned char *uses,
                              int64_t buffer_bytes);
/* Local.  What the peers of this node need to know, and, when everybody's is here (by rank), to
 * find their ends. */
rsh_status rshi_channels_show(const rshi_channels *c, rshi_handle *out);
rsh_status rshi_channel_connect(rshi_channels *c, rshi_channel *ch, rshi_handle shown);
/* Local.  Also after a failed or unfinished opening.  `used`: the wire still sends from the buffer,
 * which stays. */
void rshi_channels_close(rshi_channels *c, bool used);

/* Send `bytes` at `data`, which lies in c->buffer. */
rsh_status rshi_pending_send(rshi_channels *c, rshi_channel *to, const char *data, int64_t bytes,
                            rshi_pending *out);
/* Is what was sent no longer needed here? */
rsh_status rshi_pending_is_gone(rshi_channels *c, rshi_pending *p, bool *gone);
/* Expect a message of `bytes` at `into`; `footprint` as in rshi_move_prepare. */
rsh_status rshi_pending_expect(rshi_channels *c, rshi_channel *from, char *into, int64_t bytes,
                              size_t footprint, rshi_pending *out);
/* Has it come?  Messages of a peer are asked for in the order in which they are expected. */
rsh_status rshi_pending_has_come(rshi_channels *c, rshi_pending *p, bool *there);
/* What has come is brought to where it was expected, and its sender may forget it.  A part of it
 * may be there already: see rshi_move.aside. */
rsh_status rshi_pending_take(rshi_channels *c, rshi_pending *p);
/* Over the wire: wait for it no longer.  False: it cannot be stopped (now), and the wire uses its
 * memory on. */
bool rshi_pending_cancel(rshi_channels *c, rshi_pending *p);
/* Near: wait until it has come, or (sent) is gone; the questions above then answer yes. */
rsh_status rshi_pending_wait(rshi_channels *c, const rshi_pending *p, bool sent);
/* Near, after a failure: wait as long as it makes sense until what was sent is gone. */
void rshi_pending_linger(const rshi_pending *p, rshi_linger *linger);

#endif
