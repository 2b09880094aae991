/* streams: packed elements that a rank gets from the same ranks in one stage, cut into packets at
 * the same positions by both ends.
 *
 * The order is not exchanged, because both ends derive it from the plan.  If a reduction has
 * several contributors, each sends packets with the same cuts, and the receiver combines them round
 * by round.  Plain copies have one contributor.  Transfers that are read in place (see route.h) are
 * in no stream. */
#ifndef RESHARD_SHARD_STREAMS_H
#define RESHARD_SHARD_STREAMS_H

#include "comm/comm.h"
#include "shard/program.h"

/* A transfer between ranks, seen from one of its ends. */
typedef struct rshi_stream_item {
    int stage;
    int shift; /* destination rank minus this rank, modulo the size of the comm; 0: it is this
                  rank */
    int64_t shifts, nshifts; /* in rshi_streams.shifts: shifts from each other contributor to the
                                destination, ascending */
    int64_t tensor, part,
        offset; /* of the transfer's first element in the destination, if its parts were dense */
    int64_t first, last;          /* tasks */
    int own;                      /* outgoing: the index of this rank among the sources */
    rsh_dtype wire;               /* dtype of the packed elements */
} rshi_stream_item;

/* A position in a stream: task of an item, combined index over its outer dims, index along the dim
 * that is cut. */
typedef struct rshi_stream_cursor {
    int64_t item, task, outer, at;
} rshi_stream_cursor;

typedef struct rshi_stream {
    int64_t order; /* of its messages among all: (order, round, shift of the sender) ascends on
                      every rank */
    int stage, shift;
    int64_t first, last; /* items */
    const int *shifts;
    int64_t nshifts;
    int64_t slot;    /* bytes of a message, at most */
    rshi_stream_cursor next; /* where the next message begins */
    int64_t round;   /* number of the next message */
} rshi_stream;

/* One packet, or one of each contributor. */
typedef struct rshi_packet {
    rshi_stream_cursor from;
    int64_t round;
    int64_t bytes;
    char *whole; /* of an incoming stream: the destination if it needs no unpacking; NULL: it must
                    be unpacked */
} rshi_packet;

typedef struct rshi_streams {
    const rsh_comm *comm;
    const rsh_plan *plan;
    bool all; /* messages also between ranks of one node */
    rshi_program in,
        out; /* tasks of the items; never finished: each cut is prepared when it runs */
    rshi_stream_item *items;
    int64_t nitems, items_room;
    int *shifts;
    int64_t nshifts, shifts_room;
    rshi_stream *list; /* by order; within one order the incoming stream, if there is one, then the
                        outgoing ones by shift */
    int64_t n;
    int64_t most_shifts;   /* of one stream */
    size_t footprint;      /* bytes that ranks of this node unpack in a run */
    bool cold;             /* the bytes that ranks of this node pack in a run exceed the caches */
    const char **pointers; /* most_sources of `in` */
    int64_t *strides;      /* RSHI_MOVE_DIMS for each of them */
    uint64_t bytes_near, bytes_far; /* received in a run, from ranks of this node and of others */
} rshi_streams;

/* Builds all streams into and out of this rank.  With `all`, ranks that could read in place use
 * messages too.  `own` are this rank's parts. */
rsh_status rshi_streams_build(rshi_streams *streams, const rsh_plan *plan, const rsh_share *share,
                            const rsh_comm *comm, bool all, const rshi_parts *own);
void rshi_streams_free(rshi_streams *streams);

/* Starts all streams from their beginning, for a new run. */
void rshi_streams_rewind(rshi_streams *streams);
static inline bool rshi_stream_done(const rshi_stream *stream) {
    return stream->next.item == stream->last;
}
/* Cuts the next message off the stream, which then continues after it.  `base` has the address of
 * each of this rank's parts by number. */
void rshi_stream_next(const rshi_streams *streams, rshi_stream *stream, char *const *base,
                      rshi_packet *out);
/* Undoes the last rshi_stream_next. */
void rshi_stream_undo(rshi_stream *stream, const rshi_packet *p);
/* Packs a message; `aside` as in rshi_move, if the elements are not in the caches. */
void rshi_packet_pack(const rshi_streams *streams, const rshi_stream *stream, const rshi_packet *p,
                       char *const *base, char *message, rshi_aside *aside);
/* Unpacks and combines the messages of all contributors, which are stored `apart` bytes apart in
 * the order of their shifts. */
void rshi_packet_unpack(const rshi_streams *streams, const rshi_stream *stream,
                        const rshi_packet *p, char *const *base, const char *messages,
                        int64_t apart);

#endif
