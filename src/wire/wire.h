/* wire: the link, a layer on a wire that adds waits with a timeout, small collectives, exchange,
 * farewells and roll calls.
 *
 * The wire only sends from and receives into memory of the library.  If a message cannot be
 * stopped, its memory stays allocated until the process ends.
 *
 * A rank that takes no further part sends every other rank a small message, the farewell.  Waiting
 * ranks check for farewells regularly.  A farewell contains the number of collective steps that its
 * rank has completed, so that a rank that waits in a step knows whether the departed rank did its
 * part of the step. */
#ifndef RESHARD_WIRE_WIRE_H
#define RESHARD_WIRE_WIRE_H

#include <reshard/message.h>
#include <reshard/wire.h>

#include "wait/wait.h"

/* Tags that the link itself uses. */
enum {
    RSHI_TAG_FAREWELL,
    RSHI_TAG_SENTENCE,
    RSHI_TAG_ALLGATHER,
    RSHI_TAG_BCAST,
    RSHI_TAG_EXCHANGE,
    RSHI_TAG_COMPARE,
    RSHI_TAG_CALL,
    RSHI_TAG_ANSWER
};

/* A message in progress. */
typedef struct rshi_link_request {
    rsh_wire_request request;
    int peer;
    bool pending;
} rshi_link_request;

/* A farewell that was received. */
typedef struct rshi_farewell {
    bool heard;
    rsh_status status;
    uint64_t steps; /* number of steps that its sender had completed */
} rshi_farewell;

/* A farewell on the wire.  Its error message, if there is one, follows as a separate message. */
typedef struct rshi_farewell_words {
    int64_t status;
    uint64_t steps, sentence_bytes;
} rshi_farewell_words;

/* A rank that this one waits for, and when this was last recorded. */
#define RSHI_AWAITED 3
typedef struct rshi_awaited {
    int rank;
    double when; /* 0: never */
} rshi_awaited;

/* The answer of a waiting rank to a call: the ranks that it waits for; -1: none. */
typedef struct rshi_answer {
    uint64_t call;
    int64_t awaits[RSHI_AWAITED];
} rshi_answer;

/* The state of roll calls with one other rank: the number of this rank's call, this rank's answer
 * to the other's call, and the other's answer. */
typedef struct rshi_roll {
    uint64_t call;
    rshi_answer mine, theirs;
    rshi_link_request calling, answering;
    bool awaited, followed; /* this rank waits for the other, perhaps indirectly; the other's answer
                               was used */
} rshi_roll;

/* State of a wait. */
typedef struct rshi_vigil {
    int looks;
    rshi_watch watch;
    long nap;
    rsh_status reason; /* why to stop waiting, unless the next test of the messages makes
                          progress */
} rshi_vigil;

/* The ranks that share memory with this one.  They may die without a farewell; the node then
 * notices it. */
typedef struct rshi_neighbours {
    int n;
    const int *names; /* [n], borrowed: their ranks on the link, including this one */
    void *ctx;
    rsh_status (*check)(void *ctx, int i, double waited); /* like rshi_wait_check, for the i-th */
} rshi_neighbours;

#define RSHI_LINK_CARD 64 /* bytes that a rank can send in a step of a collective call */
#define RSHI_LINK_PIECE ((size_t)1 << 18) /* bytes of a message of an exchange, at most */

#define RSHI_LINK_REQUESTS 32 /* messages of one step of a collective */

typedef struct rshi_link {
    rsh_wire wire;
    rshi_patience patience;
    uint64_t steps;              /* collective steps this rank has completed */
    rshi_farewell *farewells;    /* [size], owned */
    int heard;                   /* number of farewells that were received */
    int speaker; /* the first rank that left with a failure, -1: none; `sentence` is its error
                    message */
    char sentence[RSHI_DETAIL_BYTES];

    rshi_link_request
        *mine; /* [2 * size], owned: this rank's own farewells in progress; NULL: not sent yet */
    rsh_status status;           /* the status in this farewell */
    rshi_farewell_words words;
    char detail[RSHI_DETAIL_BYTES];
    bool said;

    char *desk; /* [desk_bytes], owned: buffer for messages of collectives */
    size_t desk_bytes;
    /* Messages of the current collective.  Those that are still pending after a failure could not
     * be cancelled. */
    rshi_link_request requests[RSHI_LINK_REQUESTS];
    rshi_link_request hearing; /* a control message that is received into `ear` */
    char ear[RSHI_DETAIL_BYTES];
    unsigned char *cards; /* [size * RSHI_LINK_CARD], owned: records of the ranks in a step */
    size_t piece;         /* bytes of the longest message of an exchange */
    bool kept; /* the wire still uses memory outside of the link, which must be kept */

    rshi_awaited awaited[RSHI_AWAITED];
    rshi_roll *roll; /* [size], owned */
    uint64_t calls;  /* number of roll calls that this rank made */
    double last_call; /* when the last roll call ended */

    rshi_neighbours neighbours;
    double asked;                /* when the neighbours were last checked */
    int suspect;                 /* a neighbour that is missing, counted from 1; 0: none */
    rshi_watch missed;           /* how long it has been missing */
} rshi_link;

/* Local.  Takes ownership of the wire.  If this fails, it informs the other ranks, as far as that
 * is possible without memory, and closes the wire. */
rsh_status rshi_link_new(const rsh_wire *wire, rshi_link **out);
/* Closes the wire and frees the link, unless the wire still uses it.  Collective if no rank has
 * failed: it then waits for the farewells of all ranks first; otherwise local. */
void rshi_link_close(rshi_link *l);
/* Local.  Sends a farewell to every rank; only the first call has an effect. */
void rshi_link_leave(rshi_link *l, rsh_status status, const char *detail);

/* Should this rank stop waiting for `peer` (-1: for any rank) if that rank has completed fewer than
 * `steps` steps?  Receives farewells and answers calls. */
rsh_status rshi_link_check_peer(rshi_link *l, int peer, uint64_t steps, double waited);

/* Begin a message from or into memory of the library.  Failures of the wire become RSH_EPEER: the
 * ranks are then out of step, and the link cannot be used any more. */
rsh_status rshi_link_send(rshi_link *l, int peer, int tag, const void *data, size_t bytes,
                          rshi_link_request *out);
rsh_status rshi_link_recv(rshi_link *l, int peer, int tag, void *data, size_t bytes,
                          rshi_link_request *out);
rsh_status rshi_link_test(rshi_link *l, rsh_wire_request *request, bool *done);
/* Tests all pending messages; *left is the number that is still pending. */
rsh_status rshi_link_test_all(rshi_link *l, int64_t n, rshi_link_request *requests, int64_t *left);
/* Waits for all of them, in a step in which every rank takes part. */
rsh_status rshi_link_finish(rshi_link *l, int64_t n, rshi_link_request *requests);
/* Called when no message made progress: yields or sleeps for a moment, and regularly checks for a
 * reason to stop waiting.  The reason is returned by the next call, because messages that were in
 * progress when a rank left may still complete. */
rsh_status rshi_link_rest(rshi_link *l, rshi_vigil *v, int64_t n,
                          const rshi_link_request *requests);
/* Cancels messages after a failure.  False: some could not be cancelled, and their memory must stay
 * valid until the process ends. */
bool rshi_link_cancel(rshi_link *l, int64_t n, rshi_link_request *requests);
/* This rank has completed a step. */
static inline void rshi_link_step(rshi_link *l) { l->steps++; }

/* Collective, one step each; allocate no memory.  The same as rshi_node_allgather and
 * rshi_node_bcast, over messages. */
rsh_status rshi_link_allgather(rshi_link *l, const void *mine, void *all, size_t bytes);
rsh_status rshi_link_bcast(rshi_link *l, int root, void *data, size_t bytes);
/* Collective.  Like rsh_comm_exchange, with arguments already checked. */
rsh_status rshi_link_exchange(rshi_link *l, int64_t nsend, const rsh_message *send, int64_t nrecv,
                              const rsh_message *recv);
/* Collective.  Every rank gets the status and the message of the lowest rank that failed; `board`
 * has room for 16 bytes per rank. */
rsh_status rshi_link_agree(rshi_link *l, rsh_status mine, void *board);

/* ---- shared by the files of the link ---- */

/* Yields or sleeps for a moment.  True: it is time to check the other ranks. */
bool rshi_vigil_rest(rshi_vigil *v, const rshi_patience *p);
/* Returns the seconds since the first call, except those in which this process was not awake. */
double rshi_vigil_waited(rshi_vigil *v);
/* Converts a failure of the wire to the status of a comm that cannot be used any more, because the
 * ranks are out of step.  The error message is kept. */
static inline rsh_status rshi_link_broken(rsh_status st) { return st ? RSH_EPEER : RSH_OK; }
/* Receives a control message of `tag` into l->ear, if one has arrived; otherwise *peer is -1. */
rsh_status rshi_link_hear(rshi_link *l, int tag, size_t bytes, int *peer);
/* Receives and records all farewells that have arrived. */
rsh_status rshi_link_hear_farewells(rshi_link *l);
/* Answers the calls of other ranks. */
rsh_status rshi_link_answer(rshi_link *l);
/* Records that this rank waits for `peer`. */
void rshi_link_await(rshi_link *l, int peer);
/* Calls all ranks and collects their answers, unless that was done just before; takes half a
 * second. */
rsh_status rshi_link_call(rshi_link *l);
/* Returns RSH_ETIMEOUT after `waited` seconds, naming the missing rank if the answers identify
 * it. */
rsh_status rshi_link_report_late(rshi_link *l, double waited);
/* Sends farewells on a wire for which no link could be made; `l` is the incomplete link, or NULL.
 * Returns false if the wire still uses l. */
bool rshi_link_excuse(rshi_link *l, const rsh_wire *wire, rsh_status status);

#endif
