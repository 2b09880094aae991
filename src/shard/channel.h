/* channel: chunks of bytes from rank to rank, in the order in which they were sent.
 *
 * A rank has one chunk on its way at a time and may not touch it until it has arrived.  What comes is copied to where the receiver wants it.  Each
 * call either waits or says that it is too early. */
#ifndef RESHARD_SHARD_CHANNEL_H
#define RESHARD_SHARD_CHANNEL_H

#include "comm/comm.h"

/* Both directions between this rank and a peer; a direction that is not used has no flags. */
typedef struct rshi_channel {
    int peer;
    rshi_flag *sent, *taken;              /* this rank's: chunks sent to the peer, chunks taken from it */
    rshi_flag *peer_sent, *peer_taken;
    uint64_t sent_at, taken_at;           /* where the flags stand; those of the peer when all that was sent has come */
    uint64_t peer_sent_at, peer_taken_at;
    const struct rshi_end *end;           /* the peer's end, in its memory */
    const char *chunk;                    /* the peer's chunk */
} rshi_channel;

typedef struct rshi_channels {
    rsh_comm *comm;
    rshi_channel *list; /* owned, by peer */
    int64_t n;
    char *chunk; /* owned: what is sent lies here */
    int64_t chunk_bytes;
    struct rshi_ends *ends; /* owned: what the peers see of this rank */
    size_t ends_bytes;
    rshi_handle *handles; /* owned: by rank, of their ends */
} rshi_channels;

enum { RSHI_SENDS = 1, RSHI_RECEIVES = 2 };

/* Local.  uses[r]: what passes between this rank and rank r.  Without any peer there is no chunk. */
rsh_status rshi_channels_open(rshi_channels *c, rsh_comm *comm, const unsigned char *uses, int64_t chunk_bytes);
/* Collective: show one's ends; then, local: find those of the peers. */
rsh_status rshi_channels_exchange(rshi_channels *c);
rsh_status rshi_channels_connect(rshi_channels *c);
/* Local.  Also after a failed or unfinished opening. */
void rshi_channels_close(rshi_channels *c);

/* Send the first `bytes` of c->chunk. */
void rshi_channel_send(rshi_channels *c, rshi_channel *to, int64_t bytes);
/* Has the last chunk sent to this peer arrived?  *there: may be made false unless `block`. */
rsh_status rshi_channel_arrived(rshi_channels *c, rshi_channel *to, bool block, bool *there);
/* Take the next chunk from a peer. */
rsh_status rshi_channel_take(rshi_channels *c, rshi_channel *from, char *into, bool block, bool *there);

#endif
