/* wire: a link, which is what the library makes of somebody else's wire: waiting without hanging,
 * small collectives, exchange, farewells and roll calls.
 *
 * Whatever the wire sends from or receives into is memory of the library: it may be impossible to
 * stop a message, and then its memory stays where it is until the process ends.
 *
 * A rank that takes no further part says so to every other rank with a small message, the farewell.
 * Whoever waits looks for farewells now and then. They carry how many collective steps their rank
 * has completed, so that one who is still in a step knows whether that rank did its share of it. */
#ifndef RESHARD_WIRE_WIRE_H
#define RESHARD_WIRE_WIRE_H

#include <reshard/message.h>
#include <reshard/wire.h>

#include "wait/wait.h"

/* Tags of the engine's own. */
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

/* A message under way. */
typedef struct rshi_link_request {
    rsh_wire_request request;
    int peer;
    bool pending;
} rshi_link_request;

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

/* A rank that this one waits for, and when it last said so. */
#define RSHI_AWAITED 3
typedef struct rshi_awaited {
    int rank;
    double when; /* 0: never */
} rshi_awaited;

/* What a rank that waits says when it is called: for whom, -1: nobody. */
typedef struct rshi_answer {
    uint64_t call;
    int64_t awaits[RSHI_AWAITED];
} rshi_answer;

/* A rank in roll calls: this rank's call to it, this rank's answer to its call, and its answer. */
typedef struct rshi_roll {
    uint64_t call;
    rshi_answer mine, theirs;
    rshi_link_request calling, answering;
    bool awaited, followed; /* this rank waits for it, perhaps by way of others; those were noted */
} rshi_roll;

/* A wait: how often and how long in vain. */
typedef struct rshi_vigil {
    int looks;
    rshi_watch watch;
    long nap;
    rsh_status reason; /* why to give up, unless the next look at the messages finds something */
} rshi_vigil;

/* The ranks that share memory with this one: they may die without a farewell, which their node
 * notices. */
typedef struct rshi_neighbours {
    int n;
    const int *names; /* [n], borrowed: their ranks on the link, this one's among them */
    void *ctx;
    rsh_status (*check)(void *ctx, int i, double waited); /* as rshi_wait_check, of the i-th */
} rshi_neighbours;

#define RSHI_LINK_CARD 64 /* bytes that a rank can say in a step of a collective call */
#define RSHI_LINK_PIECE ((size_t)1 << 18) /* bytes of a message of an exchange, at most */

#define RSHI_LINK_REQUESTS 32 /* messages of one step of a collective */

typedef struct rshi_link {
    rsh_wire wire;
    rshi_patience patience;
    uint64_t steps;              /* collective steps this rank has completed */
    rshi_farewell *farewells;    /* [size], owned */
    int heard;                   /* farewells heard */
    int speaker; /* the first rank that left with a failure, -1: none; this is its sentence: */
    char sentence[RSHI_DETAIL_BYTES];

    rshi_link_request
        *mine; /* [2 * size], owned: this rank's own farewells under way; NULL: not said yet */
    rsh_status status;           /* of it */
    rshi_farewell_words words;
    char detail[RSHI_DETAIL_BYTES];
    bool said;

    char *desk; /* [desk_bytes], owned: here lie the messages of collectives */
    size_t desk_bytes;
    /* Of the collective at hand; pending after it failed: they could not be stopped. */
    rshi_link_request requests[RSHI_LINK_REQUESTS];
    rshi_link_request hearing; /* a word that is received at `ear` */
    char ear[RSHI_DETAIL_BYTES];
    unsigned char *cards; /* [size * RSHI_LINK_CARD], owned: what the ranks said in a step */
    size_t piece;         /* bytes of the longest message of an exchange */
    bool kept; /* the wire still uses memory that was kept for it elsewhere */

    rshi_awaited awaited[RSHI_AWAITED];
    rshi_roll *roll; /* [size], owned */
    uint64_t calls;  /* of this rank */
    double last_call; /* when the last one ended */

    rshi_neighbours neighbours;
    double asked;                /* when that was looked at last */
    int suspect;                 /* one of them that is missed, counted from 1; 0: none is */
    rshi_watch missed;           /* since when */
} rshi_link;

/* Local.  Takes the wire, also when it fails: then it tells the other ranks, as well as it can
 * without memory, and closes it. */
rsh_status rshi_link_new(const rsh_wire *wire, rshi_link **out);
/* Local, or collective if no rank has failed: waits for the farewells of all, closes the wire,
 * frees the link, unless the wire still uses it. */
void rshi_link_close(rshi_link *l);
/* Local.  Say farewell to everybody; the first call counts. */
void rshi_link_leave(rshi_link *l, rsh_status status, const char *detail);

/* Is there a reason to give up on `peer`, -1: on anyone, who has completed fewer than `steps`
 * steps?  Hears farewells and answers calls. */
rsh_status rshi_link_check_peer(rshi_link *l, int peer, uint64_t steps, double waited);

/* Begin a message from or into memory of the library.  Failures of the wire are RSH_EPEER: ranks
 * are out of step then, and nothing can be done on this link any more. */
rsh_status rshi_link_send(rshi_link *l, int peer, int tag, const void *data, size_t bytes,
                          rshi_link_request *out);
rsh_status rshi_link_recv(rshi_link *l, int peer, int tag, void *data, size_t bytes,
                          rshi_link_request *out);
rsh_status rshi_link_test(rshi_link *l, rsh_wire_request *request, bool *done);
/* Test all that are pending; how many still are. */
rsh_status rshi_link_test_all(rshi_link *l, int64_t n, rshi_link_request *requests, int64_t *left);
/* Wait for all of them, in a step that nobody may have left out. */
rsh_status rshi_link_finish(rshi_link *l, int64_t n, rshi_link_request *requests);
/* Nothing has moved: let others work for a moment, and now and then look for a reason to give up.
 * It counts at the next call: what was under way when a rank left may be complete all the same. */
rsh_status rshi_link_rest(rshi_link *l, rshi_vigil *v, int64_t n,
                          const rshi_link_request *requests);
/* After a failure.  False: some are still pending, as they cannot be stopped, and their memory must
 * stay for as long as the process. */
bool rshi_link_cancel(rshi_link *l, int64_t n, rshi_link_request *requests);
/* The step is complete on this rank. */
static inline void rshi_link_step(rshi_link *l) { l->steps++; }

/* Collective, one step each; take no memory.  As those of a node. */
rsh_status rshi_link_allgather(rshi_link *l, const void *mine, void *all, size_t bytes);
rsh_status rshi_link_bcast(rshi_link *l, int root, void *data, size_t bytes);
/* Collective.  As rsh_comm_exchange, each rank's arguments already checked. */
rsh_status rshi_link_exchange(rshi_link *l, int64_t nsend, const rsh_message *send, int64_t nrecv,
                              const rsh_message *recv);
/* Collective.  Everybody gets the status and the sentence of the lowest rank that failed; `board`
 * has room for 16 bytes a rank. */
rsh_status rshi_link_agree(rshi_link *l, rsh_status mine, void *board);

/* ---- between the files of the link ---- */

/* Let others work for a moment.  True: it is time to look around. */
bool rshi_vigil_rest(rshi_vigil *v, const rshi_patience *p);
/* Seconds since the first question, without those in which this process was not awake. */
double rshi_vigil_waited(rshi_vigil *v);
/* A wire that fails leaves ranks out of step: the sentence stays, the status says that the comm is
 * of no more use. */
static inline rsh_status rshi_link_broken(rsh_status st) { return st ? RSH_EPEER : RSH_OK; }
/* A word of `tag` that has come, at l->ear; *peer -1: there is none. */
rsh_status rshi_link_hear(rshi_link *l, int tag, size_t bytes, int *peer);
/* Farewells that have come are noted. */
rsh_status rshi_link_hear_farewells(rshi_link *l);
/* Calls of other ranks are answered. */
rsh_status rshi_link_answer(rshi_link *l);
/* This rank waits for `peer`. */
void rshi_link_await(rshi_link *l, int peer);
/* Call all ranks and hear their answers, unless that was done a moment ago; takes half a second. */
rsh_status rshi_link_call(rshi_link *l);
/* RSH_ETIMEOUT after `waited` seconds, with the rank that is missing as far as the answers tell.
 */
rsh_status rshi_link_report_late(rshi_link *l, double waited);
/* Say farewell on a wire that no link could be made of; l: what there is of it, or NULL.  False:
 * the wire still uses l. */
bool rshi_link_excuse(rshi_link *l, const rsh_wire *wire, rsh_status status);

#endif
