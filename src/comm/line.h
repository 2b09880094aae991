/* line: what a comm on a wire does with the wire itself: waiting without hanging, small
 * collectives, and farewells.
 *
 * A rank that takes no further part says so to every other rank with a small message, the farewell.
 * Whoever waits looks for farewells now and then. They carry how many collective steps their rank
 * has completed, so that one who is still in a step knows whether that rank did its share of it. */
#ifndef RESHARD_COMM_LINE_H
#define RESHARD_COMM_LINE_H

#include "comm/flag.h"

#define RSHI_LINE_MESSAGE ((size_t)1 << 30) /* bytes of the longest message */

/* Tags of the engine's own. */
enum {
    RSHI_TAG_FAREWELL,
    RSHI_TAG_SENTENCE,
    RSHI_TAG_ALLGATHER,
    RSHI_TAG_BCAST,
    RSHI_TAG_EXCHANGE,
    RSHI_TAG_COMPARE
};

/* A message under way. */
typedef struct rshi_parcel {
    rsh_wire_request request;
    int peer;
    bool pending;
} rshi_parcel;

/* What a rank said when it left. */
typedef struct rshi_farewell {
    bool heard;
    rsh_status status;
    uint64_t steps; /* that it had completed */
} rshi_farewell;

/* A farewell on the wire.  Its sentence follows as a message of its own, if it has bytes. */
typedef struct rshi_farewell_words {
    int64_t status;
    uint64_t steps, sentence_bytes;
} rshi_farewell_words;

typedef struct rshi_line {
    rsh_wire wire;
    rshi_patience patience;
    uint64_t steps;              /* collective steps this rank has completed */
    rshi_farewell *farewells;    /* [size], owned */
    int heard;                   /* farewells heard */
    int speaker; /* the first rank that left with a failure, -1: none; this is its sentence: */
    char sentence[RSHI_DETAIL_BYTES];

    rshi_parcel
        *mine; /* [2 * size], owned: this rank's own farewells under way; NULL: not said yet */
    rsh_status status;           /* of it */
    rshi_farewell_words words;
    char detail[RSHI_DETAIL_BYTES];
    bool said;

    /* The ranks that share memory with this one may die without a farewell, which their comm
     * notices. */
    rsh_comm *near;              /* lent; NULL: there is none */
    const int *near_called;      /* [near->size], lent: their ranks here */
    double asked;                /* when that was looked at last */
    int suspect;                 /* one of them that is missed, counted from 1; 0: none is */
    rshi_watch missed;           /* since when */
} rshi_line;

/* Local.  Takes the wire, also when it fails: then it tells the other ranks, as well as it can
 * without memory, and closes it. */
rsh_status rshi_line_new(const rsh_wire *wire, rshi_line **out);
/* Local, or collective if no rank has failed: waits for the farewells of all, closes the wire,
 * frees the line. */
void rshi_line_close(rshi_line *l);
/* Local.  Say farewell to everybody; the first call counts. */
void rshi_line_leave(rshi_line *l, rsh_status status, const char *detail);

/* Is there a reason to give up on `peer`, -1: on anyone, who has completed fewer than `steps`
 * steps?  As rshi_comm_ops.doubt. */
rsh_status rshi_line_doubt(rshi_line *l, int peer, uint64_t steps, double waited);

/* Begin a message.  Failures of the wire are RSH_EPEER: ranks are out of step then, and nothing can
 * be done on this line any more. */
rsh_status rshi_line_send(rshi_line *l, int peer, int tag, const void *data, size_t bytes,
                          rshi_parcel *out);
rsh_status rshi_line_recv(rshi_line *l, int peer, int tag, void *data, size_t bytes,
                          rshi_parcel *out);
rsh_status rshi_line_test(rshi_line *l, rsh_wire_request *request, bool *done);
/* Wait for all of them, in a step that nobody may have left out.  After a failure none is pending.
 */
rsh_status rshi_line_finish(rshi_line *l, int64_t n, rshi_parcel *parcels);
void rshi_line_cancel(rshi_line *l, int64_t n, rshi_parcel *parcels);
/* The step is complete on this rank. */
static inline void rshi_line_step(rshi_line *l) { l->steps++; }

/* Collective, one step each; take no memory.  As in rshi_comm_ops. */
rsh_status rshi_line_allgather(rshi_line *l, const void *mine, void *all, size_t bytes);
rsh_status rshi_line_bcast(rshi_line *l, int root, void *data, size_t bytes);
/* Collective.  Everybody gets the status and the sentence of the lowest rank that failed; `board`
 * has room for 16 bytes a rank. */
rsh_status rshi_line_agree(rshi_line *l, rsh_status mine, void *board);

#endif
