/* channel: messages from rank to rank, in the order in which they were sent.
 *
 * Between ranks of one node a message is in the sender's buffer, which peers can read, and two
 * flags count messages sent and messages taken.  Between nodes it goes over the comm's wire, from
 * the sender's buffer to the receiver's.  In both cases several may be in progress at once, and no
 * function blocks unless its comment says so. */
#ifndef RESHARD_SHARD_CHANNEL_H
#define RESHARD_SHARD_CHANNEL_H

#include "copy/copy.h"
#include "shard/reader_wait.h"

#define RSHI_WINDOW 8 /* messages of a rank that may be in progress at once */

/* Both directions between this rank and a peer.  Flags are NULL for an unused direction, and if the
 * peer is on another node. */
typedef struct rshi_channel {
    int peer;
    bool near;
    rshi_flag *sent, *taken; /* this rank's: messages sent to the peer, messages taken from it */
    rshi_flag *peer_sent, *peer_taken;
    uint64_t sent_at, taken_at; /* values of this rank's flags */
    uint64_t peer_sent_at, peer_taken_at; /* values that the peer's flags will have when everything
                                             that was sent or expected has arrived */
    struct rshi_end *mine;                /* this rank's end, which the peer reads */
    const struct rshi_end *end;           /* the peer's end, in its memory */
    const char *buffer;                    /* the peer's buffer */
} rshi_channel;

/* A message in progress, on one side. */
typedef struct rshi_pending {
    rshi_channel *channel; /* NULL: none */
    int64_t bytes;
    rshi_aside rest; /* of a message to receive: the bytes that are not copied yet; its source is
                        set when the message has arrived */
    size_t footprint; /* bytes that a run writes there: large ones use streaming stores */
    uint64_t number;  /* on one node: the value of the peer's flag that says that the message has
                         arrived, or was taken */
    rsh_wire_request request; /* to another node */
} rshi_pending;

typedef struct rshi_channels {
    rsh_comm *comm;
    int tag; /* of messages between nodes */
    rshi_channel *list; /* owned, by peer */
    int64_t n;
    char *buffer; /* owned: for messages to send */
    int64_t buffer_bytes;
    struct rshi_ends *ends; /* owned: this rank's ends, which peers read */
    size_t ends_bytes;
} rshi_channels;

enum { RSHI_SENDS = 1, RSHI_RECEIVES = 2 };

/* Local.  uses[r] says which directions between this rank and rank r are used: bits RSHI_SENDS and
 * RSHI_RECEIVES. */
rsh_status rshi_channels_open(rshi_channels *c, rsh_comm *comm, const unsigned char *uses,
                              int64_t buffer_bytes);
/* Local.  Publishes this rank's ends for peers of its node; and connects a channel to the peer's
 * end, whose handle is `shown`. */
rsh_status rshi_channels_show(const rshi_channels *c, rshi_handle *out);
rsh_status rshi_channel_connect(rshi_channels *c, rshi_channel *ch, rshi_handle shown);
/* Local.  Frees the channels, also after a failed or unfinished opening.  If `used`, the wire still
 * sends from the buffer, which therefore stays allocated. */
void rshi_channels_close(rshi_channels *c, bool used);

/* Sends `bytes` at `data`, which must be in c->buffer. */
rsh_status rshi_pending_send(rshi_channels *c, rshi_channel *to, const char *data, int64_t bytes,
                            rshi_pending *out);
/* Sets *gone to whether the memory of a sent message can be reused. */
rsh_status rshi_pending_is_gone(rshi_channels *c, rshi_pending *p, bool *gone);
/* Begins to receive a message of `bytes` bytes at the address `into`; `footprint` as in
 * rshi_move_prepare. */
rsh_status rshi_pending_expect(rshi_channels *c, rshi_channel *from, char *into, int64_t bytes,
                              size_t footprint, rshi_pending *out);
/* Sets *there to whether the message has arrived.  Must be called for a peer's messages in the
 * order in which they are expected. */
rsh_status rshi_pending_has_come(rshi_channels *c, rshi_pending *p, bool *there);
/* Copies a message that has arrived to its destination; the sender may then reuse its memory.  A
 * part may have been copied already: see rshi_move.aside. */
rsh_status rshi_pending_take(rshi_channels *c, rshi_pending *p);
/* Cancels a message on the wire.  Returns false if it cannot be cancelled (now), so that the wire
 * continues to use its memory. */
bool rshi_pending_cancel(rshi_channels *c, rshi_pending *p);
/* For a message on one node: waits until it has arrived or, if `sent`, was taken. */
rsh_status rshi_pending_wait(rshi_channels *c, const rshi_pending *p, bool sent);
/* For a message on one node, after a failure: waits for a limited time until the peer has taken
 * it. */
void rshi_pending_await_reader(const rshi_pending *p, rshi_reader_wait *readers);

#endif
