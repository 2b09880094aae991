/* comm: what the other rooms know about a group of ranks.
 *
 * A comm stands on a node, the ranks that read one another's memory, and where there are more of
 * them on a link, which reaches all ranks by messages.  What it does by which is in the table of
 * its operations.  Handles: any memory can be published as a small value that peers turn back into
 * an address they can read, where that is possible at all (threads: always). */
#ifndef RESHARD_COMM_COMM_H
#define RESHARD_COMM_COMM_H

#include <reshard/comm.h>

#include "base/base.h"
#include "node/node.h"

typedef struct rshi_comm_ops {
    const char *name;

    /* Collective.  rank r's `bytes` to everybody, as rsh_comm_allgather; small blocks (up to a few
     * KiB).  May block; fails with RSH_EPEER, on this rank at least, when a rank has left, with
     * that rank's status and sentence in the sentence. */
    rsh_status (*allgather)(rsh_comm *c, const void *mine, void *all, size_t bytes);

    /* Collective.  `bytes` (up to a few KiB) at `data` of rank `root` to `data` of everybody. Takes
     * no memory; fails as allgather does. */
    rsh_status (*bcast)(rsh_comm *c, int root, void *data, size_t bytes);

    /* Collective.  As rsh_comm_exchange, each rank's arguments already checked.  Sends never wait
     * for one another's receivers in a way that could deadlock; lists that do not match, or a rank
     * without memory, give every rank the same error. */
    rsh_status (*exchange)(rsh_comm *c, int64_t nsend, const rsh_message *send, int64_t nrecv,
                           const rsh_message *recv);

    /* Collective.  As rsh_comm_split; a rank without memory gives every rank RSH_ENOMEM and no new
     * comm. */
    rsh_status (*split)(rsh_comm *c, int colour, int key, rsh_comm **out);

    /* Local.  Zeroed memory, 64-byte aligned, that peers can reach: flags and control blocks. Freed
     * by the rank that got it, once no peer can still be waiting on it. */
    void *(*shared_alloc)(rsh_comm *c, size_t bytes);
    void (*shared_free)(rsh_comm *c, void *p, size_t bytes);
    /* Local.  The same for memory that several ranks use: this rank is done with it.  `users`, in
     * that memory, counts those that are not; `mine`: this rank got it. */
    void (*shared_let_go)(rsh_comm *c, void *p, size_t bytes, atomic_int *users, bool mine);

    /* Local.  Memory for elements that peers can reach; NULL in the table: any memory will do. */
    rsh_status (*data_alloc)(rsh_comm *c, size_t bytes, bool zero, rshi_data *out);
    /* Local.  Can peers reach this rank's memory at p?  NULL in the table: always. */
    bool (*is_shared)(rsh_comm *c, const void *p);

    /* Local.  A handle for memory of this rank. */
    rsh_status (*publish)(rsh_comm *c, const void *p, size_t bytes, rshi_handle *out);
    /* Local.  The address at which this rank can read (shared_alloc memory: also write) what `peer`
     * published; NULL if it cannot. */
    void *(*reach)(rsh_comm *c, int peer, rshi_handle h);

    /* Local.  A flag of this rank that peers can reach and that stays readable until the last rank
     * has closed, so that a peer may look at it after its owner has lost interest.  Flags are used
     * again: their values only ever rise.  NULL and a sentence: no memory. */
    rshi_flag *(*flag_take)(rsh_comm *c);
    void (*flag_give)(rsh_comm *c, rshi_flag *flag);

    /* Wait until flag->value >= target; `peer` owns the flag.  Spins shortly, yields, then sleeps.
     * RSH_EPEER when the peer has left or failed (unless the flag got there), RSH_EMISMATCH when it
     * waits for this rank in a collective call, RSH_ETIMEOUT after RESHARD_TIMEOUT seconds without
     * it. */
    rsh_status (*wait)(rsh_comm *c, int peer, rshi_flag *flag, uint64_t target);
    /* Set flag->value (release) and wake who sleeps on it. */
    void (*post)(rsh_comm *c, rshi_flag *flag, uint64_t value);
    /* For those who wait in a loop of their own: is there a reason to give up on `peer` (-1: on any
     * rank) after `waited` seconds without it?  RSH_OK: go on.  RSH_EPEER, RSH_ETIMEOUT as `wait`
     * would give them.  What a rank sent or posted before it left counts: look once more before
     * giving up. `wait` drives no messages; `check_peer` does.  With `waited` 0 and a peer of this
     * node it costs a look at memory. */
    rsh_status (*check_peer)(rsh_comm *c, int peer, double waited);

    /* Messages between ranks of different nodes, as in rsh_wire and from and into memory of the
     * library only; NULL in the table: there is one node.  `tag` is from rshi_comm_tag.  `cancel`
     * false: the memory must stay for as long as the process; also a comm's shared memory does. */
    rsh_status (*send)(rsh_comm *c, int peer, int tag, const void *data, size_t bytes,
                       rsh_wire_request *out);
    rsh_status (*recv)(rsh_comm *c, int peer, int tag, void *data, size_t bytes,
                       rsh_wire_request *out);
    rsh_status (*test)(rsh_comm *c, rsh_wire_request *request, bool *done);
    bool (*cancel)(rsh_comm *c, rsh_wire_request *request);
    /* Memory of `shared_alloc` stays in use by messages that cannot be stopped. */
    void (*keep)(rsh_comm *c);

    /* Local.  This rank takes no further part; peers that wait for it are told `status` and
     * `detail`.  The first call counts, others do nothing.  The comm's memory stays. */
    void (*leave)(rsh_comm *c, rsh_status status, const char *detail);
    /* Local, after leave.  Frees the comm, and with the last rank what the ranks share. */
    void (*close)(rsh_comm *c);
} rshi_comm_ops;

/* How a comm asks about, and frees, what another room has attached to it. */
typedef struct rshi_attached_ops {
    rsh_status (*check_idle)(const void *attached); /* RSH_EBUSY and a sentence: it is in use */
    void (*free)(void *attached);                   /* while the comm still works */
} rshi_attached_ops;

#define RSHI_CARD_BYTES 104

/* What each rank says in the exchange that opens a collective call.  It has the same size for every
 * call, so that ranks in different calls still hear one another. */
typedef struct rshi_opening {
    uint64_t operation;   /* hash of the name */
    uint64_t calls;       /* collective calls before this one */
    uint64_t fingerprint; /* of what is asked for; of the sentence where the rank refuses */
    uint64_t status;      /* not RSH_OK: the rank refuses */
    uint64_t card[RSHI_CARD_BYTES / sizeof(uint64_t)]; /* what may differ, for the call to read */
} rshi_opening;

struct rsh_comm {
    const rshi_comm_ops *ops;
    int rank, size;
    uint32_t process;    /* whose rank it is: a forked child of it is none */
    const int64_t *node; /* [size], in `nodes`: node of each rank, numbered from 0 in order of
                          * their lowest ranks; NULL: one node.  Ranks of one node read one
                          * another's memory, others exchange messages */
    rshi_node *here;     /* owned: the ranks of this node, in the order of their ranks here */
    struct rshi_link *link; /* owned: to all ranks; NULL: there is one node and no wire */
    int64_t *nodes;         /* [size], owned: as `node`, also where there is one; NULL: no link */
    int *place;             /* [size], owned: rank in its node; NULL: no link */
    int *names;             /* [here->size], owned: the other way round, for this node */
    rshi_patience patience; /* for flags of this node, where there are others */
    rshi_comm_ops table;    /* what `ops` points to */
    char name[32];          /* of the engine */
    unsigned tags;   /* given out so far */
    uint64_t calls;  /* collective calls so far: part of every opening exchange */
    uint64_t sentences; /* rshi_sentences after the last of them */
    bool refused;    /* the last of them failed in its opening, on all ranks */
    bool given_up;   /* its owner has gone: freed when what is attached is idle */
    rsh_status dead; /* not RSH_OK: the comm has failed for good, and why */
    char dead_detail[RSHI_DETAIL_BYTES];
    rshi_opening *openings; /* [size], owned: what the ranks said in the last opening exchange */
    void *attached; /* owned: what the room that uses the comm keeps with it; NULL: nothing */
    const rshi_attached_ops *attached_ops;
};

/* The opening exchange of a collective call: every rank says which operation it is in, a
 * fingerprint of what it asks for, and whether it refuses.  All OK and equal: RSH_OK.  A rank
 * refuses: everybody gets the lowest such rank's status and sentence.  Operations, call counts or
 * fingerprints differ: everybody gets RSH_EMISMATCH naming who differs; `what` (the layouts, say)
 * is quoted for the first two that differ; if they are in different calls, the last error that
 * either has had since its last collective call is quoted instead.  Name and fingerprint stand for
 * all that follows: calls that go on differently differ in one of them, or ranks would part ways
 * behind the opening.
 * The usual case costs one allgather of a small record; texts travel only when something is wrong.
 * A comm that has failed for good answers at once with its old error.  After an RSH_EPEER or
 * RSH_ETIMEOUT it has failed for good. */
rsh_status rshi_comm_open(rsh_comm *c, const char *operation, uint64_t fingerprint,
                          const char *what, rsh_status mine);
/* The same, and every rank's card comes with it: up to RSHI_CARD_BYTES that may differ.  After
 * RSH_OK rshi_comm_card has them, until the next collective call. */
rsh_status rshi_comm_open_with(rsh_comm *c, const char *operation, uint64_t fingerprint,
                               const char *what, rsh_status mine, const void *card, size_t bytes);
static inline const void *rshi_comm_card(const rsh_comm *c, int64_t rank) {
    return c->openings[rank].card;
}
/* The same where ranks may say different words: that is no error, *same tells whether they all said
 * the same. */
rsh_status rshi_comm_open_word(rsh_comm *c, const char *operation, uint64_t word, rsh_status mine,
                               bool *same);

/* Local.  Free a comm whose owner goes now, or, where what is attached to it is in use, as soon as
 * that is idle: for owners that cannot refuse.  No-op for NULL. */
void rshi_comm_give_up(rsh_comm *c);
/* Local.  Something that is attached is no longer in use. */
void rshi_comm_client_gone(rsh_comm *c);

/* Remember a failure that the comm cannot recover from (RSH_EPEER, RSH_ETIMEOUT) and tell the
 * peers, who would wait for this rank in vain; passes every status through.  Every status that came
 * out of `ops` goes through here. */
rsh_status rshi_comm_verdict(rsh_comm *c, rsh_status status);

/* RSH_ERUNTIME in a forked child of the process that made the comm: the rank is the parent's. */
static inline rsh_status rshi_comm_own(const rsh_comm *c) {
    if (c->process == rshi_process()) return RSH_OK;
    return rshi_fail(RSH_ERUNTIME,
                     "rank %d is the parent process; a forked child is not a rank of its comm",
                     c->rank);
}

/* The same whatever the status, with the thread's sentence: ranks are out of step for good. */
void rshi_comm_abandon(rsh_comm *c, rsh_status status);

/* May ranks a and b read one another's memory? */
static inline bool rshi_comm_near(const rsh_comm *c, int a, int b) {
    return !c->node || c->node[a] == c->node[b];
}

/* Local.  A rank's function returned this; a failure without a sentence gets one. */
void rshi_rank_returned(const rsh_comm *comm, rsh_status status);
/* Local.  Run fn(ctx, comms[r]) as rank r on a thread for each comm of the n; the comms are freed.
 * Fails as rsh_run does. */
rsh_status rshi_run_comms(int n, rsh_comm **comms, rsh_rank_fn fn, void *ctx);

/* Local.  A call on the comm has failed here since `calls` was the comm's number of calls: do all
 * ranks know?  They do if the last collective call failed; else this rank failed before it, or
 * after it. */
static inline bool rshi_comm_all_know(const rsh_comm *c, uint64_t calls) {
    return c->dead || (c->refused && c->calls != calls);
}
/* The same with the status of that failure: those who do not know hear it, in the call in which
 * they wait for this rank. */
static inline rsh_status rshi_comm_tell(rsh_comm *c, uint64_t calls, rsh_status st) {
    return st && !rshi_comm_all_know(c, calls) ? rsh_comm_agree(c, st) : st;
}

/* A tag for messages of one kind.  Called by every rank at the same place of its collective calls,
 * so that all get the same. */
#define RSHI_COMM_TAGS 16 /* tags below it are the link's own */
static inline int rshi_comm_tag(rsh_comm *c) {
    return (int)(RSHI_COMM_TAGS + c->tags++ % (RSH_WIRE_TAGS - RSHI_COMM_TAGS));
}

#endif
